"""What the readers of YAML and JSON values share: the limits, the numbers, the result.

Knows neither notation. A value that leaves these readers survives its canonical bytes unchanged: integers are exact
for everyone who reads them, a whole number is an integer however it was spelt, strings hold only allowed characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from ordain.core.bound import INTEGER_MAX
from ordain.core.problem import Problem
from ordain.core.scalar import number_fault

__all__ = [
    "Locate",
    "Mark",
    "Path",
    "ReadValue",
    "exact_number",
    "nowhere",
    "whole_numbers",
]

Path = tuple[str | int, ...]
"""The way into a tree: keys of mappings and indexes of lists."""
Locate = Callable[[Path], tuple[int | None, int | None]]
"""Line and column of what a path leads to: of the key in a mapping, of the item in a list; of the nearest thing
around it where the document has no such place."""

_INTEGER = re.compile(r"-?[0-9]+")


def nowhere(path: Path) -> tuple[int | None, int | None]:
    """Where no place is known."""
    return None, None


class ReadValue(msgspec.Struct, frozen=True, kw_only=True):
    """A value as read; it means nothing while there are problems. `depth` is how many lists and mappings stand inside
    one another, `locate` tells where its parts stand."""

    value: Any = None
    problems: tuple[Problem, ...] = ()
    depth: int = 0
    locate: Locate = nowhere


class Mark:
    """Where a value stands, its key's or its own start, and where the values inside it do."""

    __slots__ = ("column", "inside", "line")

    def __init__(self, line: int, column: int) -> None:
        self.line = line
        self.column = column
        self.inside: dict[str | int, Mark] = {}

    def find(self, path: Path) -> tuple[int | None, int | None]:
        """The place of what a path leads to, or of the innermost value on the way that has one."""
        mark = self
        for key in path:
            inner = mark.inside.get(key)
            if inner is None:
                break
            mark = inner
        return mark.line, mark.column


def exact_number(spelling: str) -> int | float | None:
    """The value of a number in JSON's spelling, or None where the number would not be kept as it is."""
    if _INTEGER.fullmatch(spelling):
        if len(spelling) > len(str(-INTEGER_MAX)) or abs(int(spelling)) > INTEGER_MAX:
            return None
        return int(spelling)
    value = float(spelling)
    if number_fault(value) is not None:
        return None
    if value == 0:
        significant = re.split("[eE]", spelling)[0]
        return None if re.search("[1-9]", significant) else 0
    return int(value) if value.is_integer() and abs(value) <= INTEGER_MAX else value


def whole_numbers(value: Any) -> Any:
    """The value with integers for all floats that are whole, as `exact_number` has them."""
    match value:
        case dict():
            return {key: whole_numbers(inner) for key, inner in value.items()}
        case list() | tuple():
            return [whole_numbers(inner) for inner in value]
        case float() if value.is_integer() and abs(value) <= INTEGER_MAX:
            return int(value)
        case _:
            return value
