"""The secrets of this process's environment and of the files the settings name."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ordain.adapters.secrets import collect, secret_path
from ordain.core.path import folded

__all__ = ["KnownSecrets"]


class KnownSecrets:
    """ports.Secrets over the real environment."""

    def known(self, patterns: Sequence[str], files: Sequence[str]) -> tuple[Mapping[str, str], Sequence[str]]:
        return collect(os.environ, patterns, files, _home())

    def holds(self, opened: int, files: Sequence[str]) -> bool:
        """Whether what was opened is one of these files, by whatever name."""
        return any(_same(os.fstat(opened), path) for path in _places(files))

    def lies_at(self, path: Path, files: Sequence[str], *, deep: bool) -> bool:
        """Whether one of these files, or a link that leads to one, is at a path or where it is `deep` beneath it; or
        would be, if it were there."""
        wanted = folded(str(path.absolute()))
        try:
            there = path.lstat()
        except (OSError, ValueError):
            there = None
        return any(
            folded(str(one)) == wanted or (there is not None and _same(there, one))
            for place in _places(files)
            for one in (place, *(place.parents if deep else ()))
        )


def _places(files: Sequence[str]) -> Iterator[Path]:
    """Where these files are: as they are named, and where their links lead."""
    for file in files:
        path = secret_path(file, _home())
        if path is not None and "\0" not in file:
            yield from {path, Path(os.path.realpath(path))}


def _same(found: os.stat_result, path: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(found, path.lstat())
    return False


def _home() -> Path:
    return Path(os.environ.get("HOME") or "/")
