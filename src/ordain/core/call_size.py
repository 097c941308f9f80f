"""How large a call may be that anybody looks at: whoever calls may want us to be busy for long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ordain.core.bound import NAME_LENGTH_MAX

__all__ = ["ARGUMENTS_MAX", "DEPTH_MAX", "unbearable"]

ARGUMENTS_MAX = 200
DEPTH_MAX = 32
"""How many lists and mappings of a call's arguments may stand inside one another."""


def unbearable(args: Mapping[str, Any]) -> list[tuple[str, tuple[str, ...]]]:
    """Why nobody should look at arguments any closer, in the form of `argument_faults`: whoever calls may want us to be
    busy for long."""
    if len(args) > ARGUMENTS_MAX or any(len(name) > NAME_LENGTH_MAX for name in args):
        return [("There are more arguments, or longer names of some, than any tool has.", ())]
    below: list[Any] = [args]
    for _ in range(DEPTH_MAX + 1):
        below = [part for one in below if isinstance(one, Mapping | list) for part in _parts(one)]
    return [(f"More than {DEPTH_MAX} lists and mappings stand inside one another.", ())] if below else []


def _parts(value: Mapping[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, Mapping) else value
