"""Which directory a workspace is, what its configuration file says, where its ledger is, and which commit is checked
out: what is found out before much is loaded. Looking makes nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from pathlib import Path

from ordain.adapters.state.directory import shelf_path, state_path
from ordain.adapters.workspace.openat import reason
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
    """Whether there is an .ordain that makes this a workspace; one with only step logs was left by a run."""
    try:
        return [path.name for path in (directory / ".ordain").iterdir()] != ["runs"]
    except FileNotFoundError:
        return False
    except OSError:
        return True


def real_directory(path: Path) -> Path:
    """Where this really is; raises Refused when it is not there (any more) or not a directory."""
    with contextlib.suppress(OSError):
        real = Path(os.path.realpath(path))
        if real.is_dir():
            return real
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
        raise refuse("E_CONFIG", f"{CONFIGURATION_FILE} cannot be read: {reason(error)}.") from error


def read_regular(path: Path, most: int = DOCUMENT_BYTES_MAX) -> bytes:
    """The content of a regular file of bearable size; a pipe or device in its place must not hold us up."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return file.read(most + 1)


def _stands_in(path: Path) -> bool:
    """Whether what is there only stands in for something that is not."""
    with contextlib.suppress(OSError):
        return is_stand_in(path.lstat().st_mode)
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
            raise refuse("E_STATE_DIR", f"The state directory {state} cannot be looked at: {reason(error)}.") from error
    return None


def state_paths() -> tuple[Path, ...]:
    """Where state is kept, if anybody said."""
    try:
        return (state_path(os.environ),)
    except Refused:
        return ()


# --- Which commit is checked out -------------------------------------------------------------------------------------

_COMMIT = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REF = re.compile(rb"refs(?:/[^/.\0][^/\0]*)+")
"""No part begins with a dot: none leads elsewhere, and `refs/heads/.invalid` stands where references are kept in a
reftable."""
_OF_ONE_WORKTREE = (b"refs/bisect/", b"refs/rewritten/", b"refs/worktree/")
_REFS_DEPTH_MAX = 5


def git_head(place: Path) -> str | None:
    """The commit that is checked out in the repository that a directory lies in; None where there is none."""
    try:
        for directory in (place, *place.parents):
            if (repository := _repository(directory / ".git")) is not None:
                return _head(repository)
    except OSError as error:
        raise _head_untold(reason(error)) from error
    except ValueError as error:
        raise _head_untold("`.git` names a directory that cannot be") from error
    return None


def _repository(place: Path) -> Path | None:
    """The directory that a `.git` is or names; one without a HEAD is none to git either. Git is not run."""
    try:
        if stat.S_ISDIR(place.stat().st_mode):
            (place / "HEAD").lstat()
            return place
    except FileNotFoundError:
        return None
    kind, _, path = read_regular(place).partition(b":")
    if kind != b"gitdir":
        raise _head_untold("`.git` is neither a directory nor does it name one")
    return place.parent / os.fsdecode(path.strip())


def _head(repository: Path) -> str | None:
    """The commit that HEAD comes down to; None where there is none yet."""
    common = common_directory(repository)
    text: bytes | None = read_regular(repository / "HEAD").strip()
    for _ in range(_REFS_DEPTH_MAX):
        if text is None or _COMMIT.fullmatch(text):
            return text.decode() if text is not None else None
        kind, _, rest = text.partition(b":")
        name = rest.strip()
        if kind != b"ref" or not _REF.fullmatch(name):
            break
        # A reference is packed before its own file is deleted, so it is found in one of them.
        text = _git_file((repository if name.startswith(_OF_ONE_WORKTREE) else common) / os.fsdecode(name))
        if text is None:
            packed = (line.partition(b" ") for line in (_git_file(common / "packed-refs") or b"").splitlines())
            text = next((commit for commit, _, packed_name in packed if packed_name == name), None)
    raise _head_untold("HEAD, or what it refers to, is of a form that is not read here")


def common_directory(repository: Path) -> Path:
    """Where a repository keeps what all its working trees share."""
    pointer = _git_file(repository / "commondir")
    return repository / os.fsdecode(pointer) if pointer is not None else repository


def _git_file(path: Path) -> bytes | None:
    """The text of a file of git's; None where there is none. A directory may be left where a reference was."""
    try:
        if path.is_dir():
            return None
        text = read_regular(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if len(text) > DOCUMENT_BYTES_MAX:
        raise OSError(errno.EFBIG, "larger than anybody should wait for")
    return text.strip()


def _head_untold(reason: str) -> Refused:
    return refuse(
        "E_BASE_UNREADABLE",
        f"The commit that is checked out cannot be told: {reason}.",
        "Approvals are bound to it because of `bind_git_head` in ordain.toml.",
    )
