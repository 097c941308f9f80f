"""Answers made of values that have the same fields."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)


def picked(kind: type[T], value: msgspec.Struct, **given: Any) -> T:
    """A value of another type: what is given, and every other field as `value` has it."""
    names = (name for name in kind.__struct_fields__ if name not in given)
    return kind(**{name: getattr(value, name) for name in names}, **given)
