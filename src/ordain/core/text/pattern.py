"""Patterns of paths: `*` is any characters of one name, `?` is one of them, `**` goes through directories, and `**/`
may also be nothing. A pattern is an automaton whose states are bits of one number, so that all ways are followed at
once."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import Any, cast

PATTERN_MAX = 4095
"""How long a pattern may be: as long as a path."""

WILD = frozenset("*?")
_TOKENS = re.compile(r"(\*\*/|\*\*|\*|\?)")
_REPEATED = re.compile(r"(?:\*\*/){2,}")
_STARS = re.compile(r"\*{3,}/?")


class _LaterPattern:
    """Compiles a regular expression when one of its methods is first asked for."""

    def __init__(self, text: str, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)  # from here on it is as quick as the pattern's own
        return found


def compile_later(text: str, flags: int = 0) -> re.Pattern[str]:
    """A regular expression that most commands do not use: compiling all that we have takes a tenth of a short one."""
    return cast("re.Pattern[str]", _LaterPattern(text, flags))


def matches(pattern: str, path: str) -> bool:
    """Whether a path, without needless parts, is one of those that a pattern means."""
    return PathPattern(pattern).matches(path)


def normal(pattern: str) -> str:
    """One spelling of a pattern: without needless parts, and everything beneath for one that ends in a slash."""
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    return "/".join(parts) + ("/**" if parts and pattern.endswith("/") else "")


def plain_part(pattern: str) -> str:
    """The directory, or file, that everything is in that a pattern matches."""
    return "/".join(takewhile(WILD.isdisjoint, pattern.split("/")))


def _fewer(stars: re.Match[str]) -> str:
    """The shortest row of stars that means the same: before a slash, the last two belong to it where they are even."""
    row = stars[0]
    return ("****/" if len(row) % 2 else "***/") if row.endswith("/") else "**"


class PathPattern:
    """A pattern that is ready to be matched."""

    def __init__(self, text: str) -> None:
        # Repeating what may stand for anything adds ways to match and no match.
        text = _REPEATED.sub("**/", _STARS.sub(_fewer, text))
        tokens = [token for token in _TOKENS.split(text) if token]
        self._prefix, self._suffix = (
            "".join(token for token in end if not _TOKENS.fullmatch(token)) for end in (tokens[:1], tokens[-1:])
        )
        self._literals: dict[str, int] = {}
        self._one = self._name = self._all = self._dirs = self._within = 0
        bit = 1
        for token in tokens:
            match token:
                case "**/":
                    self._dirs |= bit
                    self._within |= bit << 1
                    bit <<= 2
                case "**":
                    self._all |= bit
                    bit <<= 1
                case "*":
                    self._name |= bit
                    bit <<= 1
                case "?":
                    self._one |= bit
                    bit <<= 1
                case _:
                    for character in token:
                        self._literals[character] = self._literals.get(character, 0) | bit
                        bit <<= 1
        self._end = bit

    def may_match(self, path: str) -> bool:
        """Whether the plain ends of the pattern are those of the path, which costs next to nothing to see."""
        return path.startswith(self._prefix) and path.endswith(self._suffix)

    def matches(self, path: str) -> bool:
        if not self.may_match(path):
            return False
        states = self._free(1)
        for character in path:
            moved = (states & self._literals.get(character, 0)) << 1 | states & self._all
            if character == "/":
                moved |= (states & self._within) >> 1
            else:
                moved |= (states & (self._one | self._dirs)) << 1 | states & (self._name | self._within)
            if not moved:
                return False
            states = self._free(moved)
        return bool(states & self._end)

    def _free(self, states: int) -> int:
        """With the states that are reached without a character."""
        while True:
            more = states | (states & (self._name | self._all)) << 1 | (states & self._dirs) << 2
            if more == states:
                return states
            states = more
