"""Files that a command writes because a person named them: whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from ordain.core.text.problem import refuse

NEW_MODE = 0o666
"""Of a file that holds nothing private: what the user's own mask leaves of it."""


def write_whole(path: str, data: bytes) -> None:
    """Write a file at once, new or in place of a regular file; anything else by that name is left alone."""
    target = Path(path)
    try:
        before = target.lstat()
    except FileNotFoundError:
        before = None
    except (OSError, ValueError) as error:
        raise _refused(path, error) from error
    if before is not None and not stat.S_ISREG(before.st_mode):
        raise refuse("E_OUTPUT", f"{path} is not a regular file; it was left as it is.", "Give another name.")
    try:
        put(target, data, before)
    except OSError as error:
        raise _refused(path, error) from error


def make_parents(path: str) -> None:
    """Make the directories that a file is to lie in."""
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise _refused(path, error) from error


def write_new(path: str, parts: Iterable[bytes], *, mode: int = 0o600, instead: str = "Give a new name.") -> None:
    """Write a new file, by default for its owner alone, whole or not at all; `instead` helps where there is one."""
    target = Path(path)
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    except FileExistsError as error:
        raise refuse("E_OUTPUT", f"Something is at {path} already; it was left as it is.", instead) from error
    except (OSError, ValueError) as error:
        raise _refused(path, error) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
    except BaseException as error:
        with contextlib.suppress(OSError):
            target.unlink()
        if isinstance(error, OSError):
            raise _refused(path, error) from error
        raise


def put(target: Path, data: bytes, like: os.stat_result | None) -> None:
    """Replace a file at once, keeping owner and mode; one that is not to be written is left alone."""
    if like is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "not to be written")
    import tempfile

    descriptor, beside = tempfile.mkstemp(prefix=f".{target.name[:64]}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if like is not None:
                with contextlib.suppress(OSError):  # only root can give a file to another
                    os.fchown(file.fileno(), like.st_uid, like.st_gid)
            os.fchmod(file.fileno(), like.st_mode & 0o7777 if like is not None else NEW_MODE & ~_umask())
            os.fsync(file.fileno())
        Path(beside).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(beside).unlink()
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _refused(path: str, error: Exception) -> Exception:
    number = error.errno if isinstance(error, OSError) else None
    reason = os.strerror(number).lower() if number is not None else "its name has a NUL in it"
    return refuse("E_OUTPUT", f"{path} cannot be written: {reason}.")
