"""Paths opened beneath a held directory, component by component, without following a single link.

Nothing is resolved first and opened later, so there is no moment in which a link could be swapped in: each component
is opened relative to the directory already held.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

_IGNORED = b"*\n"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class EscapeError(ValueError):
    """A path that leads, or may lead, out of the workspace."""


class IrregularError(Exception):
    """What is no regular file: a directory, a pipe, a device."""


def _parts(path: str) -> tuple[str, ...]:
    parts = PurePosixPath(path).parts
    if "\0" in path or PurePosixPath(path).is_absolute() or ".." in parts:
        raise EscapeError(f"{path!r} is not a plain path beneath the workspace")
    return parts


@contextlib.contextmanager
def open_root(path: Path) -> Iterator[int]:
    """A descriptor of a directory that nobody plants: the workspace itself."""
    root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield root
    finally:
        os.close(root)


@contextlib.contextmanager
def open_directory(root: int, path: str, *, create: bool = False) -> Iterator[int]:
    """A descriptor of the directory `path` beneath `root`, made along the way when asked for."""
    held = os.dup(root)
    try:
        for part in _parts(path):
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o777, dir_fd=held)
                    os.fsync(held)  # the new entry, not only what is in it
            inner = _open(part, held, path)
            os.close(held)
            held = inner
        yield held
    finally:
        os.close(held)


@contextlib.contextmanager
def open_parent(root: int, path: str) -> Iterator[tuple[int, str]]:
    """The directory that holds `path`, and the last name in it; the name itself is not opened."""
    parts = _parts(path)
    if not parts:
        raise EscapeError("the workspace itself is not a file")
    with open_directory(root, str(PurePosixPath(*parts[:-1]))) as parent:
        yield parent, parts[-1]


def open_file(parent: int, name: str, path: str) -> BinaryIO:
    """A regular file that is not a link, to be read; a pipe in its place holds nobody up."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=parent)
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
    try:
        if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            raise EscapeError(f"{path!r} is a link")
    except FileNotFoundError:
        pass
    place_file(parent, name, data, mode)


def place_file(parent: int, name: str, data: bytes, mode: int) -> None:
    """Put a file in place of whatever is there and no directory, in one step that is on disk when this returns."""
    temporary = f".ordain-{secrets.token_hex(12)}"
    descriptor = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=parent
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        os.unlink(temporary, dir_fd=parent)
        raise
    os.fsync(parent)


def place_link(parent: int, name: str, target: str) -> None:
    """The same with a link."""
    temporary = f".ordain-{secrets.token_hex(12)}"
    os.symlink(target, temporary, dir_fd=parent)
    try:
        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        os.unlink(temporary, dir_fd=parent)
        raise
    os.fsync(parent)


def let_git_ignore(folder: int) -> None:
    """Have git leave out a directory of ours: neither a proposal nor a run must make the working tree look changed, to
    contracts above all. What somebody put there to say otherwise stays."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(".gitignore", flags, 0o644, dir_fd=folder)
        try:
            os.write(descriptor, _IGNORED)
        finally:
            os.close(descriptor)


def _open(name: str, parent: int, path: str) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(name, parent):
            raise EscapeError(f"{path!r} leads through the link {name!r}") from error
        raise


def _is_link(name: str, parent: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except OSError:
        return False
