"""The built-in file tools. Everything happens beneath the workspace; file writes are atomic and durable.

A write makes a temporary file in the same directory, syncs it, renames it into place and syncs the directory, so a
crash leaves the old content or the new, never a mixture.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ordain.adapters.beneath import EscapeError, open_directory, open_parent, replace_file
from ordain.core.lint.paths import OFF_LIMITS, path_fault
from ordain.core.tool import EffectClass, Parameter, ToolDefinition
from ordain.ports import ToolResult

__all__ = ["DEFINITIONS", "FileTools"]

READ_BYTES_MAX = 16 * 1024 * 1024

_PATH = Parameter(name="path", kind="string", required=True, path=True, description="Relative to the workspace.")

DEFINITIONS = {
    tool.name: tool
    for tool in (
        ToolDefinition(
            name="read_file",
            description="Read a UTF-8 text file.",
            effect=EffectClass.READS,
            parameters=(_PATH,),
        ),
        ToolDefinition(
            name="list_files",
            description="List the entries of a directory, sorted; directories end with a slash.",
            effect=EffectClass.READS,
            parameters=(Parameter(name="path", kind="string", path=True, description="Default: the workspace."),),
        ),
        ToolDefinition(
            name="write_file",
            description="Write a whole file, replacing what was there.",
            effect=EffectClass.REPEATABLE,
            parameters=(_PATH, Parameter(name="content", kind="string", required=True)),
            atomic=True,
        ),
        ToolDefinition(
            name="make_dir",
            description="Make a directory and its parents; fine if it is there.",
            effect=EffectClass.REPEATABLE,
            parameters=(_PATH,),
        ),
        ToolDefinition(
            name="edit_file",
            description="Replace one text, which must occur exactly once in the file, by another.",
            effect=EffectClass.CHECKABLE,
            parameters=(
                _PATH,
                Parameter(name="old", kind="string", required=True),
                Parameter(name="new", kind="string", required=True),
            ),
            atomic=True,
        ),
    )
}


class FileTools:
    """ports.Toolbox with the built-in file tools, rooted in one directory."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._calls: dict[str, Callable[[int, Mapping[str, Any]], Any]] = {
            "read_file": _read,
            "list_files": _list,
            "write_file": _write,
            "make_dir": _make,
            "edit_file": _edit,
        }

    def definitions(self) -> Mapping[str, ToolDefinition]:
        return DEFINITIONS

    async def call(self, tool: str, args: Mapping[str, Any], key: str) -> ToolResult:
        # In a thread, because a slow disk must not hold up the loop. A thread cannot be ended from outside, so a call
        # that is cancelled is finished and its result told: nothing goes on behind anybody's back.
        work = asyncio.ensure_future(asyncio.to_thread(self._call, tool, args))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            return await work

    async def operand(self, tool: str, args: Mapping[str, Any]) -> str | None:
        return await asyncio.to_thread(self._digest, str(args.get("path", ".")))

    def _digest(self, path: str) -> str | None:
        """The digest of a file's content, `absent` where there is none, None where it cannot be read."""
        try:
            root = os.open(self._workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                with open_parent(root, path) as (parent, name):
                    return hashlib.sha256(_read_bytes(parent, name, path)[0]).hexdigest()
            finally:
                os.close(root)
        except FileNotFoundError:
            return "absent"
        except (OSError, EscapeError, _ToolFault):
            return None

    def _call(self, tool: str, args: Mapping[str, Any]) -> ToolResult:
        call = self._calls.get(tool)
        if call is None:
            return ToolResult(error="F_STEP_FAILED", detail=f"there is no tool {tool!r}")
        # Lint has said the same of every path it could know; this one may have been decided since.
        path = str(args.get("path", "."))
        if path_fault(path, writes=DEFINITIONS[tool].effect is not EffectClass.READS) == OFF_LIMITS:
            return ToolResult(error="F_PATH_ESCAPE", detail=f"{path!r} {OFF_LIMITS}")
        try:
            root = os.open(self._workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                return ToolResult(value=call(root, args))
            finally:
                os.close(root)
        except EscapeError as error:
            return ToolResult(error="F_PATH_ESCAPE", detail=str(error))
        except OSError as error:
            name = args.get("path", ".")
            return ToolResult(error="F_STEP_FAILED", detail=f"{name}: {os.strerror(error.errno or errno.EIO).lower()}")
        except _ToolFault as error:
            return ToolResult(error="F_STEP_FAILED", detail=str(error))


class _ToolFault(Exception):
    """A call that cannot be carried out, in words for the reader."""


def _read_bytes(parent: int, name: str, path: str) -> tuple[bytes, int]:
    """The content and mode of a regular file that is not a link."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=parent)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise EscapeError(f"{path!r} is a link") from error
        raise
    with os.fdopen(descriptor, "rb") as file:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise _ToolFault(f"{path}: not a regular file")
        data = file.read(READ_BYTES_MAX + 1)
    if len(data) > READ_BYTES_MAX:
        raise _ToolFault(f"{path}: larger than 16 MiB")
    return data, stat.S_IMODE(mode)


def _read_text(parent: int, name: str, path: str) -> tuple[str, int]:
    data, mode = _read_bytes(parent, name, path)
    try:
        return data.decode(), mode
    except UnicodeDecodeError as error:
        raise _ToolFault(f"{path}: not UTF-8 text") from error


def _read(root: int, args: Mapping[str, Any]) -> str:
    with open_parent(root, args["path"]) as (parent, name):
        return _read_text(parent, name, args["path"])[0]


def _list(root: int, args: Mapping[str, Any]) -> list[str]:
    with open_directory(root, args.get("path", ".")) as directory:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
        # A name need not be UTF-8; what is not is shown, not hidden, and cannot break what is stored.
        names = [os.fsencode(entry.name).decode("utf-8", "backslashreplace") for entry in entries]
        folders = [entry.is_dir(follow_symlinks=False) for entry in entries]
        return [name + "/" * folder for name, folder in zip(names, folders, strict=True)]


def _write(root: int, args: Mapping[str, Any]) -> None:
    path = args["path"]
    with open_parent(root, path) as (parent, name):
        try:
            mode = stat.S_IMODE(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            mode = 0o666 & ~_umask()
        replace_file(parent, name, path, args["content"].encode(), mode)


def _make(root: int, args: Mapping[str, Any]) -> None:
    with open_directory(root, args["path"], create=True) as directory:
        os.fsync(directory)


def _edit(root: int, args: Mapping[str, Any]) -> None:
    path, old = args["path"], args["old"]
    with open_parent(root, path) as (parent, name):
        text, mode = _read_text(parent, name, path)
        found = text.count(old) if old else 0
        if found != 1:
            raise _ToolFault(f"{path}: the text to replace occurs {found} times, not once")
        replace_file(parent, name, path, text.replace(old, args["new"]).encode(), mode)


def _umask() -> int:
    """The process's umask, read without the race of setting it."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    except (OSError, ValueError):
        pass
    return 0o022
