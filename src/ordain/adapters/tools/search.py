"""The built-in tool `search`: lines of text files that hold a text, in bounded time, and nothing of what is not for
agents.

No link is followed. A pattern is plain text with stars, so none takes longer than the text is long.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from ordain.adapters.workspace import openat
from ordain.adapters.workspace.file_list import SKIPPED
from ordain.adapters.workspace.secret import KnownSecrets
from ordain.core.text.control import folded
from ordain.core.text.path import handed_fault, is_kept
from ordain.core.text.pattern import PATTERN_MAX, PathPattern, normal

MATCHES_MAX = 200
LINE_MAX = 240
FILE_BYTES_MAX = 2 << 20
BYTES_MAX = 128 << 20
ENTRIES_MAX = 50_000
_DEPTH_MAX = 60
_MATCHES = f"There are more than {MATCHES_MAX} lines like this: search for more of the text, or in less."
_ENTRIES = "There is more here than one search looks at: name a directory, or what files are called."


class SearchFault(Exception):
    """A search that cannot be carried out, in words for the reader."""


class _Full(Exception):
    """Why no more is looked at."""


class _Needle(NamedTuple):
    """What a line must hold, in this order."""

    parts: tuple[str, ...]
    fold: bool

    def place(self, line: str) -> int | None:
        """Where it begins in a line."""
        line, start, at = line.casefold() if self.fold else line, None, 0
        for part in self.parts:
            found = line.find(part, at)
            if found < 0:
                return None
            start, at = found if start is None else start, found + len(part)
        return start


def search_files(root: int, args: Mapping[str, Any], secret_files: Sequence[str] = ()) -> dict[str, Any]:
    """What is found beneath a path; `complete` says whether that is all."""
    pattern, fold = args["pattern"], args.get("ignore_case", False)
    parts = tuple(part for part in (pattern.casefold() if fold else pattern).split("*") if part)
    named = normal(args.get("files", ""))
    if not parts or "\n" in pattern or max(len(pattern), len(named)) > PATTERN_MAX:
        raise SearchFault(f"`pattern` must be text of one line, of at most {PATTERN_MAX:,} characters, not only stars")
    looking = _Search(_Needle(parts, fold), named, secret_files)
    place = str(PurePosixPath(args.get("path", ".")))
    note = ""
    try:
        try:
            with openat.directory(root, place) as directory:
                looking.tree(directory, "" if place == "." else f"{place}/", _DEPTH_MAX)
        except NotADirectoryError:
            with openat.parent(root, place) as (parent, name):
                looking.file(parent, name, place)
    except _Full as full:
        note = str(full)
    return {"matches": looking.found, "complete": not note, **({"note": note} if note else {})}


class _Search:
    """One search, and how much it has looked at."""

    def __init__(self, needle: _Needle, named: str, secret_files: Sequence[str]) -> None:
        self._needle, self._secret_files, self._secrets = needle, secret_files, KnownSecrets()
        # A pattern without a directory means files of this name wherever they are.
        self._named = PathPattern(named if "/" in named else f"**/{named}") if named else None
        self._entries = self._bytes = 0
        self.found: list[str] = []

    def tree(self, directory: int, above: str, room: int) -> None:
        folders: list[str] = []
        for name, is_folder in self._listed(directory):
            if is_folder:
                folders.append(name)
            elif self._named is None or self._named.matches(above + name):
                self.file(directory, name, above + name)
        if folders and not room:
            raise _Full(_ENTRIES)
        for name in folders:
            path = above + name
            if folded(name) in SKIPPED or is_kept(path) or handed_fault(path) is not None:
                continue
            with contextlib.ExitStack() as held:
                try:
                    inner = held.enter_context(openat.opened(name, openat.DIRECTORY, parent=directory))
                except OSError:  # gone, not ours to look into, or a link by now
                    continue
                self.tree(inner, f"{path}/", room - 1)

    def _listed(self, directory: int) -> Iterator[tuple[str, bool]]:
        with os.scandir(directory) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                self._entries += 1
                if self._entries > ENTRIES_MAX:
                    raise _Full(_ENTRIES)
                is_folder = entry.is_dir(follow_symlinks=False)
                if is_folder or entry.is_file(follow_symlinks=False):
                    yield entry.name, is_folder

    def file(self, parent: int, name: str, path: str) -> None:
        """Look through a file; what is no text, too long or not for agents is left out."""
        if handed_fault(path) is not None:
            return
        try:
            with openat.file(parent, name, path) as file:
                if self._secrets.holds(file.fileno(), self._secret_files):
                    return
                data = file.read(FILE_BYTES_MAX + 1)
        except (OSError, openat.EscapeError, openat.IrregularError):
            return
        self._bytes += len(data)
        if self._bytes > BYTES_MAX:
            raise _Full(_ENTRIES)
        if len(data) <= FILE_BYTES_MAX and b"\0" not in data:
            self._lines(data, openat.shown(path))

    def _lines(self, data: bytes, path: str) -> None:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return
        whole = text.casefold() if self._needle.fold else text
        if not all(part in whole for part in self._needle.parts):
            return
        for number, line in enumerate(text.split("\n"), 1):
            if (place := self._needle.place(line)) is None:
                continue
            if len(self.found) >= MATCHES_MAX:
                raise _Full(_MATCHES)
            begin = max(0, place - LINE_MAX // 2) if len(line) > LINE_MAX else 0
            self.found.append(f"{path}:{number}: {line[begin : begin + LINE_MAX].strip()}")
