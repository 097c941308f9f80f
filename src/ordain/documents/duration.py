"""Durations as documents write them: `250ms`, `30s`, `10m`, `2h`, `1d`; a whole number and one unit."""

from __future__ import annotations

import re

from ordain.core.bound import DAY_MS

__all__ = ["read_duration", "write_duration"]

_UNITS_MS = {"d": DAY_MS, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_DURATION = re.compile(r"(0|[1-9][0-9]{0,17})(ms|s|m|h|d)")


def read_duration(text: str) -> int | None:
    """The milliseconds of a duration, or None where the text is not one."""
    found = _DURATION.fullmatch(text)
    return int(found[1]) * _UNITS_MS[found[2]] if found else None


def write_duration(duration_ms: int) -> str:
    """The shortest exact spelling, in the largest unit that divides it."""
    if duration_ms == 0:
        return "0s"
    unit = next(name for name, size_ms in _UNITS_MS.items() if duration_ms % size_ms == 0)
    return f"{duration_ms // _UNITS_MS[unit]}{unit}"
