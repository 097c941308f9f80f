"""The files that starting a program opens, as far as its name, links and first line say. A sandbox that lacks one of
them can start nothing, and what a shell would say of that helps nobody.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["our_python", "program_files"]

_FIRST_LINE = 256
_DEPTH = 4
"""How many interpreters of interpreters are looked at; the kernel goes no further either."""
_LINKS = 40


def program_files(program: str, search: str, directory: Path) -> Iterator[Path]:
    """The file of a program, and of what interprets it, each as it is found and where its links end. Nothing where
    there is no such program. `search` is the PATH, `directory` where it is started."""
    words: Sequence[str] = (program,)
    for _ in range(_DEPTH):
        found = shutil.which(words[0] if "/" not in words[0] else str(directory / words[0]), path=search)
        if found is None:
            return
        path = Path(found)
        yield from dict.fromkeys((path, Path(os.path.realpath(path))))
        words = _interpreter(path)
        if not words:
            return
        if Path(words[0]).name == "env":
            yield Path(words[0])
            words = [word for word in words[1:] if not word.startswith("-") and "=" not in word][:1]
            if not words:
                return


def _interpreter(path: Path) -> list[str]:
    """The words after `#!`."""
    try:
        with path.open("rb") as file:
            line = file.readline(_FIRST_LINE)
    except OSError:
        return []
    return os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []


def our_python() -> tuple[str, ...]:
    """What must be seen so that `sys.executable` starts, and finds itself, its packages and us."""
    links = [Path(sys.executable)]
    while links[-1].is_symlink() and len(links) < _LINKS:
        links.append(links[-1].parent / links[-1].readlink())
    package = Path(__file__).resolve().parent.parent
    found = (sys.prefix, sys.base_prefix, sys.exec_prefix, str(package), *map(str, links))
    return tuple(dict.fromkeys(os.path.normpath(one) for one in found))
