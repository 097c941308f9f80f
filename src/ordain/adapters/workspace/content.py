"""What is in the files that commands name, as a command would find it: links are followed, and a path may lead out of
the workspace."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from ordain.core.policy.bound_file import FILE_BYTES_MAX
from ordain.core.policy.path_use import ABSENT
from ordain.core.text.problem import refuse

FILES_MAX = 20_000
BYTES_MAX = 16 << 30
"""How much is read in one look; that takes about a minute."""
_CHUNK_BYTES = 1 << 20
_NOT_THERE = frozenset([errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL, errno.ENXIO])


def contents(root: Path, paths: Sequence[str]) -> dict[str, str]:
    """What is at these paths (`ports.Workspace.contents`); what is not there is left out."""
    found: dict[str, str] = {}
    size = 0
    for path in paths:
        what, read = _seen(f"{root}/{path}" if path[:1] != "/" else path)
        size += read
        if what != ABSENT:
            found[path] = what
        if len(found) > FILES_MAX or size > BYTES_MAX:
            detail = f"The commands of the plan name more than {FILES_MAX:,} files or {BYTES_MAX >> 30} GiB."
            raise refuse("E_BASE_UNREADABLE", detail)
    return found


def _seen(path: str) -> tuple[str, int]:
    """What is at a path, and how much of it was read."""
    try:
        found = Path(path).stat()
        if stat.S_ISDIR(found.st_mode):
            return "directory", 0
        if not stat.S_ISREG(found.st_mode):
            return "other", 0
        if found.st_size > FILE_BYTES_MAX:
            return "too large", 0
        return _digest(path), found.st_size
    except PermissionError:
        return "unreadable", 0
    except ValueError:  # no name that a file could have
        return ABSENT, 0
    except OSError as error:
        if error.errno in _NOT_THERE:
            return ABSENT, 0
        reason = os.strerror(error.errno or 0).lower()
        raise refuse("E_BASE_UNREADABLE", f"`{path}` cannot be read: {reason}.") from error


def _digest(path: str) -> str:
    real = os.path.realpath(path)
    descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        opened, digest, size = os.fstat(descriptor), hashlib.sha256(), 0
        while size <= FILE_BYTES_MAX and (chunk := file.read(_CHUNK_BYTES)):
            digest.update(chunk)
            size += len(chunk)
        read = os.fstat(descriptor)
    same = (read.st_size, read.st_mtime_ns) == (opened.st_size, opened.st_mtime_ns) and size == opened.st_size
    if not stat.S_ISREG(opened.st_mode) or not same:
        return "changing"
    return f"sha256:{digest.hexdigest()}{'' if real == os.path.normpath(path) else f' {real}'}"
