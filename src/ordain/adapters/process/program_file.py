"""The files that starting a program opens, as far as its words, links and first line say. A sandbox that lacks one of
them can start nothing, and what a shell would say of that helps nobody.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import ordain

_FIRST_LINE = 256
_DEPTH = 4
"""How many interpreters of interpreters are looked at; the kernel goes no further either."""
_LINKS = 40
_PATH_MAX = 4096
_INTERPRETER = re.compile(r"(?:python|pypy|node|deno|bun|ruby|perl|php|lua|bash|sh|dash|zsh|ksh|fish)[\d.]*")
"""Programs that are handed the file that they run."""
_NO_FILE = ("-c", "-m")
"""What tells them to run something else."""


def unseen_file(argv: Sequence[str], search: str, directory: Path, is_seen: Callable[[Path], bool]) -> Path | None:
    """The file without which a program cannot be started where only some files are seen: itself, where its links end,
    what interprets it, or what it is to interpret. None where nothing is missing, and where there is no such program at
    all, which whoever starts it says. `search` is the PATH, `directory` where it is started."""
    missing = _unseen_program(argv[0], search, directory, is_seen)
    script = _script(argv, directory) if missing is None else None
    if script is None:
        return missing
    return next((path for path in (script, _end_of(script)) if not is_seen(path)), None)


def _script(argv: Sequence[str], directory: Path) -> Path | None:
    """The file that an interpreter is handed, by its whole path."""
    if _INTERPRETER.fullmatch(Path(argv[0]).name):
        for word in argv[1:]:
            if word in _NO_FILE:
                break
            if not word.startswith("-") and len(word) < _PATH_MAX and (directory / word).is_file():
                return Path(word) if word.startswith("/") else None
    return None


def _unseen_program(program: str, search: str, directory: Path, is_seen: Callable[[Path], bool]) -> Path | None:
    words: Sequence[str] = (program,)
    for _ in range(_DEPTH):
        found = list(_found(words[0], search, directory)) if words else []
        usable = [path for path in found if is_seen(path) and is_seen(_end_of(path))]
        if not usable:
            return next((path if not is_seen(path) else _end_of(path) for path in found), None)
        words = _interpreter(usable[0])
        if words and Path(words[0]).name == "env":
            words = [word for word in words[1:] if not word.startswith("-") and "=" not in word][:1]
    return None


def _found(program: str, search: str, directory: Path) -> Iterator[Path]:
    """Where a program is, in the order in which it is looked for."""
    for place in search.split(":") if "/" not in program else [""]:
        found = shutil.which(program, path=place) if place else shutil.which(directory / program)
        if found is not None:
            yield Path(found)


def _end_of(path: Path) -> Path:
    return Path(os.path.realpath(path))


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
    with contextlib.suppress(PermissionError):  # where even looking is not ours, neither is starting
        while links[-1].is_symlink() and len(links) < _LINKS:
            links.append(links[-1].parent / links[-1].readlink())
    package = Path(ordain.__file__).resolve().parent
    found = (sys.prefix, sys.base_prefix, sys.exec_prefix, str(package), *map(str, links))
    return tuple(dict.fromkeys(os.path.normpath(one) for one in found))
