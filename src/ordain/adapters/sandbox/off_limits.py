"""What no command in a sandbox may change or bring about in the workspace, because programs outside act on it: git's
hooks and configuration, our settings, our own directory.

Each becomes a read-only mount. Where there is nothing to mount on, an empty stand-in is made for as long as a command
runs: in the working tree a directory, for git sees no empty ones. It bears a mark, a sticky bit without a right to
write, and a lock of everybody who relies on it; the last takes it away, also one that a dead executor left.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ordain.adapters.workspace import openat
from ordain.adapters.workspace.copies import FOLDER
from ordain.adapters.workspace.locate import is_stand_in
from ordain.core.text.control import CONFIGURATION_FILE, MASKED

_GIT = ".git"
_DIRECTORIES = (".git/hooks", ".git/modules", ".git/worktrees")
_FILES = {".git/config": b"", ".git/config.worktree": b"", ".git/commondir": b".\n"}
"""And what a stand-in says; a repository whose common directory is itself is like any other."""
_OURS = ".ordain"
KEPT = (CONFIGURATION_FILE, *MASKED)
"""What is kept at the top of a workspace besides these two."""


@contextlib.contextmanager
def off_limits(root: int, workspace: str) -> Iterator[tuple[str, ...]]:
    """The words for bubblewrap that keep all of these from a command that may write the rest of the workspace.

    Raises ValueError where something is a link: a link can be replaced whatever is mounted on its target.
    """
    with contextlib.ExitStack() as held:
        with openat.directory(root, FOLDER, create=True):  # no stand-in: we write there while commands run
            words = [*_read_only(workspace, _OURS), *_git(root, workspace, held)]
        for name in KEPT:
            # Where one of a host is a link, which some have, it is compared afterwards.
            if name == CONFIGURATION_FILE or not Path(workspace, name).is_symlink():
                words += _read_only(workspace, _kept(root, name, held))
        yield tuple(words)


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
        if (mode := _mode(root, name)) is None:
            _make(root, name)
        elif not is_stand_in(mode):
            return name
        elif (descriptor := _shared(root, name)) is not None:
            held.callback(_let_go, root, name, descriptor)
            return name


def _mode(root: int, name: str) -> int | None:
    """The mode of what is there, None where nothing is; raises ValueError for a link."""
    try:
        with openat.parent(root, name) as (parent, last):
            mode = os.stat(last, dir_fd=parent, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(mode):
        raise ValueError(f"{name} is a link, and a sandbox cannot keep a command from replacing it")
    return mode


def _make(root: int, name: str) -> None:
    with contextlib.suppress(FileExistsError), openat.parent(root, name) as (parent, last):
        if name not in _FILES:
            os.mkdir(last, 0o1555, dir_fd=parent)
            return
        with openat.opened(last, openat.NEW_FILE, 0o1444, parent=parent) as descriptor:
            os.write(descriptor, _FILES[name])


def _shared(root: int, name: str) -> int | None:
    """A descriptor of a stand-in that others will now leave in place; None where it is not there any more."""
    with openat.parent(root, name) as (parent, last):
        try:
            descriptor = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        except FileNotFoundError:
            return None
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if openat.is_at(descriptor, last, parent=parent):
            return descriptor
        os.close(descriptor)
        return None


def _let_go(root: int, name: str, descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with openat.parent(root, name) as (parent, last):
            if openat.is_at(descriptor, last, parent=parent):
                # What somebody outside put into a directory meanwhile makes it theirs.
                (os.unlink if name in _FILES else os.rmdir)(last, dir_fd=parent)
    except (BlockingIOError, openat.EscapeError):
        pass  # somebody else relies on it, and takes it away
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EACCES, errno.EROFS):
            raise
    finally:
        os.close(descriptor)


# --- Home files ------------------------------------------------------------------------------------------------------
# Files of the user's home directory that somebody named, handed over as copies to the private home that a command has
# in a sandbox. A link is followed within the home directory and never out of it; how much it may be is bounded, for all
# of it is memory.

BYTES_MAX = 32 << 20
FILES_MAX = 100
"""Each is held open as long as its command runs."""


class HomeFile(NamedTuple):
    descriptor: int
    path: str
    """Relative to the home directory."""
    mode: int
    """For its owner alone, as its copy is."""


def home_files(
    names: Sequence[str], directory: Path, hidden: Sequence[Path], held: contextlib.ExitStack
) -> list[HomeFile]:
    """The files that these names mean, opened until `held` is let go: a file, or all files of a directory, as far as
    there. Raises ValueError where a name leads to what cannot be handed over, or to too much."""
    home = Path(os.path.realpath(directory))
    if not home.is_dir():
        return []
    forbidden = [Path(os.path.realpath(path)) for path in hidden]
    root = held.enter_context(openat.root(home))
    found: list[HomeFile] = []
    size = 0

    def is_theirs(path: Path) -> bool:
        return path.is_relative_to(home) and not any(path.is_relative_to(one) for one in forbidden)

    for name in names:
        named = home / name.removeprefix("~/")
        if not is_theirs(meant := Path(os.path.realpath(named))):
            raise ValueError(f"`{name}` leads to {meant}, which is not handed over to anybody")
        for path in _files(named):
            real = Path(os.path.realpath(path))
            if not is_theirs(real):
                continue
            try:
                with openat.parent(root, str(real.relative_to(home))) as (parent, last):
                    descriptor = held.enter_context(openat.file(parent, last, name)).fileno()
            except (OSError, openat.EscapeError, openat.IrregularError):  # no ordinary file, or none any more
                continue
            entry = os.fstat(descriptor)
            size += entry.st_size
            found.append(HomeFile(descriptor, str(path.relative_to(home)), stat.S_IMODE(entry.st_mode) & 0o700))
            if size > BYTES_MAX or len(found) > FILES_MAX:
                most = f"{FILES_MAX} files and {BYTES_MAX >> 20} MiB"
                raise ValueError(f"`{name}` is too much for the home directory of a sandbox, which holds {most}")
    return found


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
    for directory, directories, files in os.walk(path):
        directories.sort()
        yield from (Path(directory, one) for one in sorted(files))
