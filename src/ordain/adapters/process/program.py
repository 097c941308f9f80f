"""Which programs and files of the machine can be believed: nobody but their owners could have put them there."""

from __future__ import annotations

import os
import stat
from pathlib import Path

SYSTEM_DIRECTORIES = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
"""Where programs are looked for, in this order; the last is NixOS."""
ROOT = (0, 65534)
"""Root, and what it looks like inside a user namespace."""
WRITABLE = "can be written by others"


def untrusted_because(path: Path, workspace: Path | None) -> str | None:
    """Why a file of the user's own cannot be believed; None where it can."""
    return _fault(path, (0, os.geteuid()), workspace)


def system_program(name: str) -> str | None:
    """The absolute path of a program in the system's directories; None where it is not there."""
    places = (f"{directory}/{name}" for directory in SYSTEM_DIRECTORIES)
    return next((path for path in places if program_fault(path, ROOT, None) is None), None)


def program_fault(path: str, owners: tuple[int, ...], workspace: Path | None) -> str | None:
    real = os.path.realpath(path)
    if (fault := _fault(Path(path), owners, workspace, Path(path).parent, Path(real).parent)) is not None:
        return fault
    return None if Path(real).is_file() and os.access(real, os.X_OK) else "is not a program"


def _fault(path: Path, owners: tuple[int, ...], workspace: Path | None, *around: Path) -> str | None:
    """Why others than its owners could have written a file, or replaced it in what is `around` it."""
    real = Path(os.path.realpath(path))
    if workspace is not None and (real.is_relative_to(workspace) or path.is_relative_to(workspace)):
        return "lies in the workspace, where an agent could write it"
    try:
        for place in (*around, real):
            found = place.stat()
            if found.st_uid not in owners:
                return "belongs to another user"
            if stat.S_IMODE(found.st_mode) & 0o022:
                return WRITABLE
        open_place = open_place_of(real.parent)
    except OSError:
        return "is not there"
    return f"lies in {open_place}, where anybody can write" if open_place is not None else None


def open_place_of(directory: Path) -> Path | None:
    """The directory, of this and those above it, in which anybody can replace what is there; None where there is none.
    In a sticky one (such as /tmp) nobody can replace what is another's."""
    for place in (directory, *directory.parents):
        mode = place.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return place
    return None
