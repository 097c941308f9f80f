"""The built-in file tools. Everything happens beneath the workspace; file writes are atomic and durable.

A write replaces a file by one that is synced, so a crash leaves the old content or the new. A move is one rename. What
is deleted is gone from its path in one step.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from ordain.adapters.tools.search import SearchFault, search_files
from ordain.adapters.workspace import openat
from ordain.adapters.workspace.control_file import reach_fault
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import DEFINITIONS, ToolDefinition
from ordain.core.policy.path_use import ABSENT
from ordain.core.text.control import is_control, is_repository
from ordain.core.text.path import OFF_LIMITS, path_fault
from ordain.ports.tool import Patterns, ToolResult

# --- Moving ----------------------------------------------------------------------------------------------------------
# A tree cannot be taken away in one step. It is renamed aside first, within its directory, to a name that tells what
# it is, and emptied there: at its own path it is gone in one step, and after a crash the rest is found by that name.

DEPTH_MAX = 200
"""How many directories may lie in one another in a tree that is taken away: each holds a descriptor open."""
_RENAME_NOREPLACE = 1
_NAME_BYTES_MAX = 255
_ASIDE = ".ordain-deleted-"


def entry_identity(parent: int, name: str) -> str | None:
    """What tells this entry from any other, as long as nobody replaces it; None where there is none."""
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    known = f"{stat.S_IFMT(found.st_mode):o}:{found.st_dev}:{found.st_ino}"
    # An inode number is given again as soon as it is free, so of a file what was written when is part of it. A
    # directory changes while it is taken away, and is known by its number alone.
    return known if stat.S_ISDIR(found.st_mode) else f"{known}:{found.st_mtime_ns}:{found.st_size}"


def rename_new(source: int, name: str, target: int, new_name: str) -> None:
    """Give an entry another name in one step; raises FileExistsError, and ENOSYS where the system cannot tell."""
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):  # not Linux
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if library.renameat2(source, os.fsencode(name), target, os.fsencode(new_name), _RENAME_NOREPLACE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def aside(name: str) -> str:
    """The name under which a tree of this name is taken away."""
    if len(os.fsencode(name)) + len(_ASIDE) <= _NAME_BYTES_MAX:
        return _ASIDE + name
    return _ASIDE + hashlib.sha256(os.fsencode(name)).hexdigest()


def take_away(parent: int, name: str) -> None:
    """Empty and remove a tree that was renamed aside, whatever of it is still there."""
    try:
        shutil.rmtree(name, dir_fd=parent)
    except RecursionError:  # somebody made it deeper meanwhile
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None


def too_deep_or_private(
    parent: int, name: str, path: str, private: Callable[[str], bool], room: int = DEPTH_MAX
) -> str | None:
    """Why a tree cannot be taken away: it is too deep, or holds what is `private`. Changes nothing; raises OSError."""
    if not room:
        return f"has more than {DEPTH_MAX} directories in one another"
    with openat.opened(name, openat.DIRECTORY, parent=parent) as held, os.scandir(held) as found:
        entries = list(found)
        if is_repository({entry.name for entry in entries}):
            return f"holds `{path}`, which git takes for a repository and is off limits"
        for entry in entries:
            inner = f"{path}/{entry.name}"
            if private(inner):
                return f"holds `{openat.shown(inner)}`, which is off limits"
            is_directory = entry.is_dir(follow_symlinks=False)
            if is_directory and (fault := too_deep_or_private(held, entry.name, inner, private, room - 1)):
                return fault
    return None


# --- File tools ------------------------------------------------------------------------------------------------------

READ_BYTES_MAX = 16 * 1024 * 1024
T = TypeVar("T")


async def in_thread(call: Callable[..., T], *args: Any) -> T:
    """What a call gives. A thread cannot be ended from outside, so one that is cancelled is finished and told."""
    import asyncio  # most commands only look, and start faster without it

    work = asyncio.ensure_future(asyncio.to_thread(call, *args))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        return await work


class FileTools:
    """ports.Toolbox with the built-in file tools, rooted in one directory."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._calls: dict[str, Callable[[int, Mapping[str, Any]], Any]] = {
            "read_file": _read,
            "list_files": _list,
            "search": search_files,
            "write_file": _write,
            "make_dir": _make,
            "edit_file": _edit,
            "move": _move,
            "delete": _delete,
        }

    def definitions(self) -> Mapping[str, ToolDefinition]:
        return DEFINITIONS

    async def call(
        self, tool: str, args: Mapping[str, Any], key: str, *, control: Patterns = (), secret_files: Patterns = ()
    ) -> ToolResult:
        # In a thread, because a slow disk must not hold up the loop.
        return await in_thread(self._call, tool, args, control, secret_files)

    async def operand(self, tool: str, args: Mapping[str, Any]) -> str | None:
        import asyncio  # most commands only look, and start faster without it

        return await asyncio.to_thread(self._digest, tool, args)

    def _digest(self, tool: str, args: Mapping[str, Any]) -> str | None:
        """The digest of what a call changes, `absent` where there is nothing, None where it cannot be told."""
        try:
            with openat.root(self._workspace) as root:
                if tool == "move":
                    return " → ".join(_identity(root, args[name]) for name in ("path", "to"))
                if tool == "delete":
                    return _identity(root, args["path"], also_aside=args.get("recursive", False))
                with openat.parent(root, str(args.get("path", "."))) as (parent, name):
                    return hashlib.sha256(_read_bytes(parent, name, name)[0]).hexdigest()
        except FileNotFoundError:
            return ABSENT
        except (OSError, openat.EscapeError, openat.IrregularError, _ToolFault):
            return None

    def _call(self, tool: str, args: Mapping[str, Any], control: Patterns, secret_files: Patterns) -> ToolResult:
        if (call := self._calls.get(tool)) is None:
            return ToolResult(error="F_STEP_FAILED", detail=f"there is no tool {tool!r}")
        # Lint has said the same of every path it could know; this one may have been decided since.
        writes = DEFINITIONS[tool].effect is not EffectClass.READS
        paths = [str(args[name]) for name in ("path", "to") if name in args] or ["."]
        for path in paths:
            if path_fault(path, writes=writes, control=control) == OFF_LIMITS:
                return ToolResult(error="F_PATH_ESCAPE", detail=f"{path!r} {OFF_LIMITS}")
        try:
            with openat.root(self._workspace) as root:
                if writes:
                    deep = args.get("recursive", tool == "move")
                    _check_control(root, self._workspace, tool, paths, control, deep=deep)
                found = search_files(root, args, secret_files) if tool == "search" else call(root, args)
                return ToolResult(value=found)
        except openat.EscapeError as error:
            return ToolResult(error="F_PATH_ESCAPE", detail=str(error))
        except OSError as error:
            name = args.get("path", ".")
            return ToolResult(error="F_STEP_FAILED", detail=f"{name}: {openat.reason(error)}")
        except (openat.IrregularError, _ToolFault, SearchFault) as error:
            return ToolResult(error="F_STEP_FAILED", detail=str(error))


class _ToolFault(Exception):
    """A call that cannot be carried out, in words for the reader."""


def _check_control(
    root: int, workspace: Path, tool: str, paths: Sequence[str], control: Sequence[str], *, deep: bool
) -> None:
    """Raise EscapeError where a call would write in a repository, make one, or write what a control file leads to;
    _ToolFault where it is `deep` and would take a control file along, or make one by another path."""
    for path in paths:
        if fault := reach_fault(workspace, [path], control, deep=deep):
            raise openat.EscapeError(f"{path!r} {OFF_LIMITS}: {fault}")
    if deep:
        path, to = paths[0], paths[-1]

        def private(inner: str) -> bool:
            return is_control(inner, control) or is_control(to + inner.removeprefix(path), control)

        with contextlib.suppress(FileNotFoundError, NotADirectoryError), openat.parent(root, path) as (parent, name):
            if (fault := too_deep_or_private(parent, name, path, private)) is not None:
                raise _ToolFault(f"{path}: it {fault}; nothing was {tool.removesuffix('e')}ed")


def _read_bytes(parent: int, name: str, path: str) -> tuple[bytes, int]:
    with openat.file(parent, name, path) as file:
        mode = os.fstat(file.fileno()).st_mode
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
    with openat.parent(root, args["path"]) as (parent, name):
        return _read_text(parent, name, args["path"])[0]


def _list(root: int, args: Mapping[str, Any]) -> list[str]:
    with openat.directory(root, args.get("path", ".")) as directory:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
        # A name need not be UTF-8; what is not is shown, not hidden, and cannot break what is stored.
        return [openat.shown(one.name) + "/" * one.is_dir(follow_symlinks=False) for one in entries]


def _write(root: int, args: Mapping[str, Any]) -> None:
    path = args["path"]
    with openat.parent(root, path) as (parent, name):
        try:
            mode = stat.S_IMODE(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            mode = 0o666 & ~_umask()
        openat.replace_file(parent, name, path, args["content"].encode(), mode)


def _make(root: int, args: Mapping[str, Any]) -> None:
    with openat.directory(root, args["path"], create=True) as directory:
        os.fsync(directory)


def _edit(root: int, args: Mapping[str, Any]) -> None:
    path, old = args["path"], args["old"]
    with openat.parent(root, path) as (parent, name):
        text, mode = _read_text(parent, name, path)
        found = text.count(old) if old else 0
        if found != 1:
            raise _ToolFault(f"{path}: the text to replace occurs {found} times, not once")
        openat.replace_file(parent, name, path, text.replace(old, args["new"]).encode(), mode)


def _identity(root: int, path: str, *, also_aside: bool = False) -> str:
    """Which entry is at a path; `absent` where none is. A tree that was renamed aside counts as still there:
    deleting it has to be gone on with."""
    try:
        with openat.parent(root, path) as (parent, name):
            found = entry_identity(parent, name)
            if found is None and also_aside:
                found = entry_identity(parent, aside(name))
            return found or ABSENT
    except FileNotFoundError:
        return ABSENT


_MOVE_FAULTS = {
    errno.EEXIST: "something is there already, and nothing is overwritten unless `overwrite` says so",
    errno.EXDEV: "that is another file system, where nothing can be moved to in one step",
    errno.ENOTEMPTY: "a directory is there that is not empty",
    **dict.fromkeys(
        (errno.ENOSYS, errno.EINVAL),
        "this file system cannot move without a chance of overwriting something; `overwrite` would let it",
    ),
}


def _move(root: int, args: Mapping[str, Any]) -> None:
    path, to = args["path"], args["to"]
    with openat.parent(root, path) as (source, name):
        if (before := entry_identity(source, name)) is None:
            raise _ToolFault(f"{path}: {os.strerror(errno.ENOENT).lower()}")
        with _moving(path, to):
            already = _identity(root, to)
        # One name renamed to another of the same file changes nothing and looks like success.
        if already == before:
            raise _ToolFault(f"{path} cannot be moved to {to}: it is there already")
        if PurePosixPath(to).is_relative_to(PurePosixPath(path)):
            raise _ToolFault(f"{path} cannot be moved to {to}: that is inside it")
        with contextlib.ExitStack() as held:
            with _moving(path, to):
                target, new_name = held.enter_context(openat.parent(root, to))
                if args.get("overwrite", False):
                    os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=target)
                else:
                    rename_new(source, name, target, new_name)
            os.fsync(target)
        os.fsync(source)


@contextlib.contextmanager
def _moving(path: str, to: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        number = error.errno or errno.EIO
        why = _MOVE_FAULTS.get(number, os.strerror(number).lower())
        raise _ToolFault(f"{path} cannot be moved to {to}: {why}") from error


def _delete(root: int, args: Mapping[str, Any]) -> None:
    path, recursive = args["path"], args.get("recursive", False)
    with openat.parent(root, path) as (parent, name):
        gone, there = aside(name), entry_identity(parent, name)
        leftover = recursive and entry_identity(parent, gone) is not None
        if there is None and not leftover:
            raise _ToolFault(f"{path}: {os.strerror(errno.ENOENT).lower()}")
        if there is not None and not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=parent)
        elif not recursive:
            try:
                os.rmdir(name, dir_fd=parent)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                what = "the directory is not empty; `recursive` would delete what is in it"
                raise _ToolFault(f"{path}: {what}") from error
        else:
            _delete_tree(parent, name if there is not None else None, gone, path, leftover=leftover)
        os.fsync(parent)


def _delete_tree(parent: int, name: str | None, gone: str, path: str, *, leftover: bool) -> None:
    """Take a tree away, and before it what an earlier attempt at the same left; without a name, only that."""
    if leftover and (fault := too_deep_or_private(parent, gone, path, is_control)) is not None:
        raise _ToolFault(f"{path}: it {fault}; nothing was deleted")
    try:
        if leftover:
            take_away(parent, gone)
        if name is not None:
            os.rename(name, gone, src_dir_fd=parent, dst_dir_fd=parent)
            os.fsync(parent)
            take_away(parent, gone)
    except OSError as error:
        if entry_identity(parent, gone) is None:
            raise
        raise _ToolFault(f"{path}: {openat.reason(error)}; what is left of it is beside it, as {gone}") from error


def _umask() -> int:
    with contextlib.suppress(OSError, ValueError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next((int(line.split()[1], 8) for line in lines if line.startswith("Umask:")), 0o022)
    return 0o022
