"""Files of the user's home directory, handed over as copies to the private home that a command has in a sandbox.

Only what somebody named is handed over. A link is followed within the home directory and never out of it, whatever it
lies in; what must not be seen is not handed over either. How much it may be is bounded, for all of it is memory.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ordain.adapters.beneath import EscapeError, open_parent

__all__ = ["BYTES_MAX", "FILES_MAX", "HomeFile", "home_files"]

BYTES_MAX = 32 << 20
FILES_MAX = 100
"""Each is held open as long as its command runs."""


class HomeFile(NamedTuple):
    descriptor: int
    path: str
    """Relative to the home directory."""
    mode: int
    """For its owner alone, as its copy is."""


def home_files(names: Sequence[str], hidden: Sequence[Path], held: contextlib.ExitStack) -> list[HomeFile]:
    """The files that these names mean, opened until `held` is let go: a file, or all files of a directory. What is not
    there is left out. Raises ValueError where a name leads to what cannot be handed over, or to too much."""
    try:
        home = Path(os.path.realpath(Path.home()))
    except RuntimeError as error:
        raise ValueError("it is not known where the home directory is") from error
    if not home.is_dir():
        return []
    forbidden = [Path(os.path.realpath(path)) for path in hidden]
    root = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    held.callback(os.close, root)
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
            opened = _opened(root, str(real.relative_to(home)))
            if opened is None:
                continue
            held.callback(os.close, opened)
            entry = os.fstat(opened)
            size += entry.st_size
            found.append(HomeFile(opened, str(path.relative_to(home)), stat.S_IMODE(entry.st_mode) & 0o700))
            if size > BYTES_MAX or len(found) > FILES_MAX:
                most = f"{FILES_MAX} files and {BYTES_MAX >> 20} MiB"
                raise ValueError(f"`{name}` is too much for the home directory of a sandbox, which holds {most}")
    return found


def _files(path: Path) -> Iterator[Path]:
    """A file, or those of a directory; links as they are."""
    if not path.is_dir():
        yield path
    for directory, directories, files in os.walk(path):
        directories.sort()
        yield from (Path(directory, one) for one in sorted(files))


def _opened(root: int, path: str) -> int | None:
    """A descriptor of an ordinary file; None where there is none."""
    # What was a file just now may be a pipe, which must not hold us up.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with open_parent(root, path) as (parent, name):
            descriptor = os.open(name, flags, dir_fd=parent)
    except (OSError, EscapeError):
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return descriptor
