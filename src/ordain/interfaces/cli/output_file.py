"""Files that a command writes because a person named them: whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from ordain.core.text.problem import refuse

_NEW_MODE = 0o666
"""Of a file that holds nothing private: what the user's own mask leaves of it."""


def write_whole(path: str, data: bytes) -> None:
    """Write a file at once, new or in place of a regular file; anything else by that name is left alone."""
    target = Path(path)
    with _writing(path):
        try:
            before = target.lstat()
        except FileNotFoundError:
            before = None
        if before is not None and not stat.S_ISREG(before.st_mode):
            raise refuse("E_OUTPUT", f"{path} is not a regular file; it was left as it is.", "Give another name.")
        put(target, data, before)


def write_shared(path: str, data: bytes, *, replace: bool, instead: str = "Give a new name.") -> None:
    """Write a file that others may read, and the directories above it; in place of another only to `replace` that."""
    with _writing(path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    if replace:
        write_whole(path, data)
    else:
        write_new(path, [data], mode=_NEW_MODE, instead=instead)


def write_new(path: str, parts: Iterable[bytes], *, mode: int = 0o600, instead: str = "Give a new name.") -> None:
    """Write a new file, by default for its owner alone, whole or not at all; `instead` helps where there is one."""
    target = Path(path)
    with _writing(path):
        try:
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        except FileExistsError as error:
            raise refuse("E_OUTPUT", f"Something is at {path} already; it was left as it is.", instead) from error
        try:
            with os.fdopen(descriptor, "wb") as file:
                for part in parts:
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            with contextlib.suppress(OSError):
                target.unlink()
            raise


def put(target: Path, data: bytes, like: os.stat_result | None) -> None:
    """Replace a file at once, keeping owner and mode; one that is not to be written is left alone."""
    if like is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "not to be written")
    import tempfile

    os.umask(mask := os.umask(0o077))  # there is no other way to ask for it
    descriptor, beside = tempfile.mkstemp(prefix=f".{target.name[:64]}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if like is not None:
                with contextlib.suppress(OSError):  # only root can give a file to another
                    os.fchown(file.fileno(), like.st_uid, like.st_gid)
            os.fchmod(file.fileno(), like.st_mode & 0o7777 if like is not None else _NEW_MODE & ~mask)
            os.fsync(file.fileno())
        Path(beside).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(beside).unlink()
        raise


@contextlib.contextmanager
def _writing(path: str) -> Iterator[None]:
    if "\0" in path:
        raise refuse("E_OUTPUT", f"{path} cannot be written: its name has a NUL in it.")
    try:
        yield
    except OSError as error:
        raise refuse("E_OUTPUT", f"{path} cannot be written: {os.strerror(error.errno or 0).lower()}.") from error
