"""Which directory a workspace is, what its configuration file says, and where its ledger is: what is found out before
anything else is loaded. Looking makes nothing."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from ordain.adapters.state.directory import shelf_path, state_path
from ordain.core.text.control import CONFIGURATION_FILE
from ordain.core.text.limit import DOCUMENT_BYTES_MAX
from ordain.core.text.problem import Refused, refuse

LEDGER = "ledger.db"


def find_workspace(start: Path) -> Path:
    """The nearest directory at or above `start` that holds ordain.toml, .ordain or .git; else `start` itself."""
    start = real_directory(start)
    for candidate in (start, *start.parents):
        marks = (candidate / name for name in (CONFIGURATION_FILE, ".git"))
        if any(mark.exists() and not _stands_in(mark) for mark in marks) or _holds_ours(candidate):
            return candidate
    return start


def _holds_ours(directory: Path) -> bool:
    """Whether there is an .ordain that makes this a workspace. One with nothing in it but step logs was left by a run,
    and a run must not change which directory is a workspace for those beneath it."""
    try:
        return [path.name for path in (directory / ".ordain").iterdir()] != ["runs"]
    except FileNotFoundError:
        return False
    except OSError:
        return True


def real_directory(path: Path) -> Path:
    """Where this really is; raises Refused when it is not there (any more) or not a directory."""
    try:
        real = Path(os.path.realpath(path))
        if real.is_dir():
            return real
    except OSError:
        pass
    raise refuse("E_WORKSPACE", f"{path} is not a directory, or not there any more.")


def configuration(workspace: Path) -> bytes | None:
    """What a workspace's configuration file says; None where there is none."""
    try:
        return read_regular(workspace / CONFIGURATION_FILE)
    except FileNotFoundError:
        return None
    except OSError as error:
        if _stands_in(workspace / CONFIGURATION_FILE):
            return None
        reason = os.strerror(error.errno or 0).lower()
        raise refuse("E_CONFIG", f"{CONFIGURATION_FILE} cannot be read: {reason}.") from error


def read_regular(path: Path, most: int = DOCUMENT_BYTES_MAX) -> bytes:
    """The content of a regular file of bearable size; a pipe or device in its place must not hold us up."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return file.read(most + 1)


def _stands_in(path: Path) -> bool:
    """Whether what is there only stands in for something that is not."""
    try:
        return is_stand_in(path.lstat().st_mode)
    except OSError:
        return False


def is_stand_in(mode: int) -> bool:
    """Whether this is the mode of what only stands in for something (`off_limits`)."""
    return bool(mode & stat.S_ISVTX) and not mode & 0o222


def ledger_of(workspace: Path) -> Path | None:
    """The ledger of a directory, if it has one; looking makes nothing."""
    for state in state_paths():
        if not state.is_absolute():
            raise refuse("E_STATE_DIR", f"The state directory {state} is not an absolute path.")
        path = shelf_path(state, workspace) / LEDGER
        try:
            if path.exists():
                return path
        except OSError as error:
            reason = os.strerror(error.errno or 0).lower()
            raise refuse("E_STATE_DIR", f"The state directory {state} cannot be looked at: {reason}.") from error
    return None


def state_paths() -> tuple[Path, ...]:
    """Where state is kept, if anybody said."""
    try:
        return (state_path(os.environ),)
    except Refused:
        return ()
