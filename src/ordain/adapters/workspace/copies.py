"""Our own copies of proposals beneath the workspace, written whole and without following a link."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from ordain.adapters.process.spool import ROOM_BYTES
from ordain.adapters.workspace import openat

# --- Copies ----------------------------------------------------------------------------------------------------------

_UNWRITTEN = contextlib.suppress(OSError, openat.EscapeError)
OURS = ".ordain"


class WorkspaceCopies:
    """ports.Copies on the file system. What cannot be written is not: the ledger has it all."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace

    def put(self, path: str, data: bytes) -> bool:
        where = PurePosixPath(path)
        with _UNWRITTEN, openat.root(self._workspace) as root, _folder(root, where.parent) as folder:
            openat.replace_file(folder, where.name, path, data, 0o644)
            return True
        return False

    def remove(self, path: str) -> None:
        with _UNWRITTEN, openat.root(self._workspace) as root, openat.parent(root, path) as (folder, name):
            os.unlink(name, dir_fd=folder)


@contextlib.contextmanager
def _folder(root: int, path: PurePosixPath) -> Iterator[int]:
    """The directory of copies, made if need be. One of our own is kept out of git when it is made and never later."""
    try:
        with openat.directory(root, str(path)):
            made = False
    except FileNotFoundError:
        made = True
    with openat.directory(root, str(path), create=True) as folder:
        if made and path.parts[0] == OURS:
            openat.let_git_ignore(folder)
        yield folder


# --- Step logs -------------------------------------------------------------------------------------------------------
# `.ordain/runs/RUN-….jsonl`, written and read without following a link, and only where there is a plain file of ours:
# whoever can change the workspace can at most spoil the log itself. The ledger needs the last room on the disk.

FOLDER = ".ordain/runs"
READ_BYTES = 1 << 20
_OPEN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # not blocking: a pipe in its place would hold us up


class WorkspaceStepLogs:
    """ports.StepLogs on the file system; `room_bytes` of the disk are left to the ledger."""

    def __init__(self, workspace: Path, *, room_bytes: int = ROOM_BYTES) -> None:
        self._workspace, self._room_bytes = workspace, room_bytes

    def write(self, run_id: str, at: int, lines: bytes) -> bool:
        with _UNWRITTEN, self._file(run_id, os.O_RDWR | os.O_CREAT, create=True) as (descriptor, size):
            disk = os.fstatvfs(descriptor)
            if size < at or disk.f_bavail * disk.f_frsize < self._room_bytes + len(lines):
                return False
            os.fchmod(descriptor, 0o600)
            os.ftruncate(descriptor, at)
            return os.pwrite(descriptor, lines, at) == len(lines)
        return False

    def read(self, run_id: str, start: int) -> tuple[bytes, int]:
        with _UNWRITTEN, self._file(run_id, os.O_RDONLY, create=False) as (descriptor, size):
            start = max(0, size + start) if start < 0 else min(start, size)
            data = os.pread(descriptor, READ_BYTES, start)
            return data, start + len(data)
        return b"", 0

    @contextlib.contextmanager
    def _file(self, run_id: str, flags: int, *, create: bool) -> Iterator[tuple[int, int]]:
        with openat.root(self._workspace) as root, openat.directory(root, FOLDER, create=create) as folder:
            if create:
                openat.let_git_ignore(folder)
            with openat.opened(f"{run_id}.jsonl", flags | _OPEN, parent=folder) as descriptor:
                seen = os.fstat(descriptor)
                if not stat.S_ISREG(seen.st_mode) or seen.st_nlink != 1 or seen.st_uid != os.geteuid():
                    raise openat.EscapeError(f"the log of {run_id} is no plain file of ours")
                yield descriptor, seen.st_size
