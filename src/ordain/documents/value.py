"""What the readers of YAML and JSON values share: the limits, the numbers, the result.

Knows neither notation. A value that leaves these readers survives its canonical bytes unchanged: integers are exact
for everyone who reads them, a whole number is an integer however it was spelt, strings hold only allowed characters.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ordain.core.problem import Problem

__all__ = ["DEPTH_MAX", "INTEGER_MAX", "ReadValue", "exact_number"]

DEPTH_MAX = 16
"""How many lists and mappings may stand inside one another."""
INTEGER_MAX = 2**53 - 1
"""The largest integer that every JSON reader holds exactly."""

_INTEGER = re.compile(r"-?[0-9]+")
_EXPONENT_FORM_FROM = 1e21
"""From here on the canonical form writes a float with an exponent, so that it reads back as a float."""


class ReadValue(msgspec.Struct, frozen=True, kw_only=True):
    """A value as read; it means nothing while there are problems. `key_lines`: the line of every top-level key."""

    value: Any = None
    problems: tuple[Problem, ...] = ()
    key_lines: Mapping[str, int] = {}


def exact_number(spelling: str) -> int | float | None:
    """The value of a number in JSON's spelling, or None where the number would not be kept as it is."""
    if _INTEGER.fullmatch(spelling):
        if len(spelling) > len(str(-INTEGER_MAX)) or abs(int(spelling)) > INTEGER_MAX:
            return None
        return int(spelling)
    value = float(spelling)
    if not math.isfinite(value):
        return None
    if value == 0:
        significant = re.split("[eE]", spelling)[0]
        return None if re.search("[1-9]", significant) else 0
    if not value.is_integer():
        return value
    if abs(value) <= INTEGER_MAX:
        return int(value)
    return value if abs(value) >= _EXPONENT_FORM_FROM else None
