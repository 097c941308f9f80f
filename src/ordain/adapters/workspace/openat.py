"""Paths opened beneath a held directory, component by component, without following a single link.

Each component is opened relative to the directory already held, so there is no moment in which to swap in a link.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

_SAFE = os.O_NOFOLLOW | os.O_CLOEXEC
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | _SAFE
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE
READ = os.O_RDONLY | os.O_NONBLOCK | _SAFE
"""Not blocking: a pipe in the place of a file must not hold us up."""


class EscapeError(ValueError):
    """A path that leads, or may lead, out of the workspace."""


class IrregularError(Exception):
    """What is no regular file: a directory, a pipe, a device."""


def _parts(path: str) -> tuple[str, ...]:
    parts = PurePosixPath(path).parts
    if "\0" in path or PurePosixPath(path).is_absolute() or ".." in parts:
        raise EscapeError(f"{path!r} is not a plain path beneath the workspace")
    return parts


def reason(error: Exception) -> str:
    """Why something could not be done, as part of a sentence."""
    return os.strerror(error.errno or errno.EIO).lower() if isinstance(error, OSError) else str(error)


def shown(path: str) -> str:
    """A path that can be recorded, whatever its bytes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


@contextlib.contextmanager
def opened(path: str | Path, flags: int, mode: int = 0o600, *, parent: int | None = None) -> Iterator[int]:
    descriptor = os.open(path, flags, mode, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def root(path: Path) -> contextlib.AbstractContextManager[int]:
    """A descriptor of a directory that nobody plants: the workspace itself."""
    return opened(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def sync(path: Path) -> None:
    """Make a file, or the names in a directory, outlast a loss of power."""
    with opened(path, os.O_RDONLY | os.O_CLOEXEC) as descriptor:
        os.fsync(descriptor)


@contextlib.contextmanager
def directory(root: int, path: str, *, create: bool = False) -> Iterator[int]:
    """A descriptor of the directory `path` beneath `root`, made along the way when asked for."""
    held = os.dup(root)
    try:
        for part in _parts(path):
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o777, dir_fd=held)
                    os.fsync(held)  # the new entry, not only what is in it
            try:
                inner = os.open(part, DIRECTORY, dir_fd=held)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR) and is_link(held, part):
                    raise EscapeError(f"{path!r} leads through the link {part!r}") from error
                raise
            os.close(held)
            held = inner
        yield held
    finally:
        os.close(held)


@contextlib.contextmanager
def parent(root: int, path: str) -> Iterator[tuple[int, str]]:
    """The directory that holds `path`, and the last name in it; the name itself is not opened."""
    parts = _parts(path)
    if not parts:
        raise EscapeError("the workspace itself is not a file")
    with directory(root, str(PurePosixPath(*parts[:-1]))) as parent:
        yield parent, parts[-1]


def file(parent: int, name: str, path: str) -> BinaryIO:
    """A regular file that is not a link, to be read; a pipe in its place holds nobody up."""
    try:
        descriptor = os.open(name, READ, dir_fd=parent)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise EscapeError(f"{path!r} is a link") from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise IrregularError(f"{path}: not a regular file")
    return os.fdopen(descriptor, "rb")


def replace_file(parent: int, name: str, path: str, data: bytes, mode: int) -> None:
    """Put a file in place of another, which must be no link, in one step that is on disk when this returns."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            raise EscapeError(f"{path!r} is a link")
    place_file(parent, name, data, mode)


@contextlib.contextmanager
def _placing(parent: int, name: str) -> Iterator[str]:
    """A name for what is made in the block, which then takes the place of what is there, in one step and on disk."""
    temporary = f".ordain-{os.urandom(12).hex()}"
    try:
        yield temporary
        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=parent)
        raise
    os.fsync(parent)


def place_file(parent: int, name: str, data: bytes, mode: int) -> None:
    """Put a file in place of whatever is there."""
    with _placing(parent, name) as temporary, opened(temporary, NEW_FILE, mode, parent=parent) as descriptor:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(data)
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)


def place_link(parent: int, name: str, target: str) -> None:
    with _placing(parent, name) as temporary:
        os.symlink(target, temporary, dir_fd=parent)


def let_git_ignore(folder: int) -> None:
    """Have git leave out a directory of ours: neither a proposal nor a run must make the working tree look changed.
    What somebody put there to say otherwise stays."""
    with contextlib.suppress(FileExistsError), opened(".gitignore", NEW_FILE, 0o644, parent=folder) as file:
        os.write(file, b"*\n")


def is_at(descriptor: int, path: str | Path, *, parent: int | None = None) -> bool:
    """Whether what is held is still what is there under this name."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), os.stat(path, dir_fd=parent, follow_symlinks=False))
    return False


def is_link(parent: int, name: str) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    return False
