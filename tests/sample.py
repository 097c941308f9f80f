"""A value of any action, condition or failure policy, made from what its class declares."""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from tests.words import Count, StepId, fields, roles

FALLBACKS = ("undo",)
"""The steps that a fallback policy names."""


def sample(kind: type[Any]) -> Any:
    """A value of a class, with every field set and no two alike, within the bounds that are declared."""
    made = {field.name: _value(field.type, field.name, place) for place, field in enumerate(fields(kind))}
    for name, role in roles(kind).items():
        if isinstance(role, Count) and made[name] > role.most:
            made[name] = role.most - [*made].index(name)
    return kind(**made)


def _value(kind: Any, name: str, place: int) -> Any:
    kinds = [one for one in get_args(kind) if one is not type(None)] or [kind]
    if any(isinstance(one, type) and issubclass(one, msgspec.Struct) for one in kinds):
        return sample(kinds[0])
    if StepId in get_args(kind):
        return FALLBACKS
    return {str: f"the-{name}", int: 4100 + place, float: 4.5, bool: True}[kinds[0]]
