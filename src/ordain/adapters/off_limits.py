"""What no command in a sandbox may change or bring about in the workspace, because programs outside act on it: git's
hooks and configuration, our settings, our own directory.

Each becomes a read-only mount, and cannot be renamed or replaced. A mount needs something to be mounted on: where there
is nothing, an empty stand-in is made for as long as a command runs, which means nothing to git or to us. In the working
tree it is a directory, for git sees no empty ones. It bears a mark of its own, a sticky bit without a right to write,
and a lock of everybody who relies on it; whoever is the last takes it away, also one that a dead executor left.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator

from ordain.adapters.beneath import EscapeError, open_directory, open_parent
from ordain.adapters.step_logs import FOLDER
from ordain.adapters.whereabouts import is_stand_in
from ordain.documents.configuration import CONFIGURATION_FILE

__all__ = ["OFF_LIMITS", "off_limits"]

_GIT = ".git"
_DIRECTORIES = (".git/hooks", ".git/modules")
_FILES = {".git/config": b"", ".git/config.worktree": b"", ".git/commondir": b".\n"}
"""And what a stand-in says; a repository whose common directory is itself is like any other."""
_OURS = ".ordain"
OFF_LIMITS = (_GIT, _OURS, CONFIGURATION_FILE)
"""The names that all of them are, or lie beneath."""


@contextlib.contextmanager
def off_limits(root: int, workspace: str) -> Iterator[tuple[str, ...]]:
    """The words for bubblewrap that keep all of these from a command that may write the rest of the workspace.

    Raises ValueError where something is a link: a link can be replaced whatever is mounted on its target.
    """
    with contextlib.ExitStack() as held:
        words = [*_ordinary(root, workspace), *_git(root, workspace, held)]
        words += _read_only(workspace, _kept(root, CONFIGURATION_FILE, held))
        yield tuple(words)


def _ordinary(root: int, workspace: str) -> tuple[str, ...]:
    """Our own directory: we write there while commands run, so it is no stand-in but what a run makes anyway."""
    try:
        with open_directory(root, FOLDER, create=True):
            return _read_only(workspace, _OURS)
    except EscapeError as error:
        raise ValueError(str(error)) from error


def _git(root: int, workspace: str, held: contextlib.ExitStack) -> list[str]:
    mode = _mode(root, _GIT)
    if mode is None or not stat.S_ISDIR(mode) or is_stand_in(mode):
        return [*_read_only(workspace, _kept(root, _GIT, held))]
    # Mounted for itself, so that it cannot be renamed with all that is kept in it.
    words = ["--bind", f"{workspace}/{_GIT}", f"{workspace}/{_GIT}"]
    for name in (*_DIRECTORIES, *_FILES):
        words += _read_only(workspace, _kept(root, name, held))
    return words


def _read_only(workspace: str, name: str) -> tuple[str, ...]:
    return "--ro-bind", f"{workspace}/{name}", f"{workspace}/{name}"


def _kept(root: int, name: str, held: contextlib.ExitStack) -> str:
    """Have something be there under this name until `held` is let go."""
    while True:
        mode = _mode(root, name)
        if mode is None:
            _make(root, name)
        elif not is_stand_in(mode):
            return name
        elif (descriptor := _shared(root, name)) is not None:
            held.callback(_let_go, root, name, descriptor)
            return name


def _mode(root: int, name: str) -> int | None:
    """The mode of what is there, None where nothing is; raises ValueError for a link."""
    try:
        with open_parent(root, name) as (parent, last):
            mode = os.stat(last, dir_fd=parent, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    except EscapeError as error:
        raise ValueError(str(error)) from error
    if stat.S_ISLNK(mode):
        raise ValueError(f"{name} is a link, and a sandbox cannot keep a command from replacing it")
    return mode


def _make(root: int, name: str) -> None:
    with contextlib.suppress(FileExistsError), open_parent(root, name) as (parent, last):
        if name not in _FILES:
            os.mkdir(last, 0o1555, dir_fd=parent)
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(last, flags, 0o1444, dir_fd=parent)
        try:
            os.write(descriptor, _FILES[name])
        finally:
            os.close(descriptor)


def _shared(root: int, name: str) -> int | None:
    """A descriptor of a stand-in that others will now leave in place; None where it is not there any more."""
    with open_parent(root, name) as (parent, last):
        try:
            descriptor = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        except FileNotFoundError:
            return None
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if _is_at(descriptor, parent, last):
            return descriptor
        os.close(descriptor)
        return None


def _let_go(root: int, name: str, descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with open_parent(root, name) as (parent, last):
            if _is_at(descriptor, parent, last):
                # What somebody outside put into a directory meanwhile makes it theirs.
                (os.unlink if name in _FILES else os.rmdir)(last, dir_fd=parent)
    except (BlockingIOError, EscapeError):
        pass  # somebody else relies on it, and takes it away
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EACCES, errno.EROFS):
            raise
    finally:
        os.close(descriptor)


def _is_at(descriptor: int, parent: int, name: str) -> bool:
    """Whether what is held is still what is there under this name."""
    try:
        there = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), there)
