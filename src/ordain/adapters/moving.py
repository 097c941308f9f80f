"""Entries of directories moved and taken away, each by its name in a directory that is held; no link is followed.

A tree cannot be taken away in one step. It is renamed aside first, within its directory, to a name that tells what it
is, and emptied there: at its own path it is gone in one step, and after a crash the rest is found by that name.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Callable

__all__ = ["aside", "entry_identity", "rename", "rename_new", "take_away", "too_deep_or_private"]

DEPTH_MAX = 200
"""How many directories may lie in one another in a tree that is taken away: each holds a descriptor open."""
_RENAME_NOREPLACE = 1
_NAME_BYTES_MAX = 255
_ASIDE = ".ordain-deleted-"


def entry_identity(parent: int, name: str) -> str | None:
    """What tells this entry from any other, as long as nobody replaces it; None where there is none."""
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    known = f"{stat.S_IFMT(found.st_mode):o}:{found.st_dev}:{found.st_ino}"
    # An inode number is given again as soon as it is free, so of a file what was written when is part of it. A
    # directory changes while it is taken away, and is known by its number alone.
    return known if stat.S_ISDIR(found.st_mode) else f"{known}:{found.st_mtime_ns}:{found.st_size}"


def rename(source: int, name: str, target: int, new_name: str) -> None:
    """Give an entry another name and place in one step, in place of what is there."""
    os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=target)


def rename_new(source: int, name: str, target: int, new_name: str) -> None:
    """The same where nothing is there; FileExistsError where something is, ENOSYS where the system cannot tell."""
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):  # not Linux
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if library.renameat2(source, os.fsencode(name), target, os.fsencode(new_name), _RENAME_NOREPLACE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def aside(name: str) -> str:
    """The name under which a tree of this name is taken away."""
    if len(os.fsencode(name)) + len(_ASIDE) <= _NAME_BYTES_MAX:
        return _ASIDE + name
    return _ASIDE + hashlib.sha256(os.fsencode(name)).hexdigest()


def take_away(parent: int, name: str) -> None:
    """Empty and remove a tree that was renamed aside, whatever of it is still there."""
    try:
        shutil.rmtree(name, dir_fd=parent)
    except RecursionError:  # somebody made it deeper meanwhile
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None


def too_deep_or_private(parent: int, name: str, path: str, private: Callable[[str], bool]) -> str | None:
    """Why a tree cannot be taken away: it is too deep, or holds what is `private`. Raises OSError where something in
    it cannot be read, before anything was changed."""
    return _fault(parent, name, path, private, DEPTH_MAX)


def _fault(parent: int, name: str, path: str, private: Callable[[str], bool], room: int) -> str | None:
    if not room:
        return f"has more than {DEPTH_MAX} directories in one another"
    held = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        with os.scandir(held) as entries:
            for entry in entries:
                inner = f"{path}/{entry.name}"
                if private(inner):
                    shown = os.fsencode(inner).decode("utf-8", "backslashreplace")
                    return f"holds `{shown}`, which is off limits"
                if entry.is_dir(follow_symlinks=False) and (
                    fault := _fault(held, entry.name, inner, private, room - 1)
                ):
                    return fault
        return None
    finally:
        os.close(held)
