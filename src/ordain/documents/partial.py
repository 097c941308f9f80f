"""What can be read of a tree in which something is wrong: the plan without the fields and steps that cannot be read.

Nobody but lint is given it, so that a person hears at once of all that is wrong. Its problems were told before.
"""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from ordain.core.model import Plan, Step
from ordain.documents.shape import silent_shape

__all__ = ["readable_plan"]

_fields = functools.cache(msgspec.structs.fields)
_STEP_LISTS = ("steps", "fallbacks")


def readable_plan(tree: Any) -> Plan | None:
    """The readable part of a plan's settled tree, if there is any."""
    if not isinstance(tree, dict):
        return None
    values = {key: value for key, value in tree.items() if key not in _STEP_LISTS}
    steps = {key: _readable_steps(tree.get(key)) for key in _STEP_LISTS}
    plan: Plan | None = _readable({"title": "", **values}, Plan, steps)
    return plan


def _readable_steps(trees: Any) -> tuple[Step, ...]:
    made = [silent_shape(tree, Step) or _readable(tree, Step, {}) for tree in trees] if isinstance(trees, list) else []
    return tuple(step for step in made if step is not None)


def _readable(tree: Any, into: type[msgspec.Struct], given: dict[str, Any]) -> Any:
    """A struct of those fields that can be read, each by itself; None where one is missing that there must be."""
    if not isinstance(tree, dict):
        return None
    values = dict(given)
    for field in _fields(into):
        if field.name not in values and field.encode_name in tree:
            value = silent_shape(tree[field.encode_name], field.type)
            if value is not None:
                values[field.name] = value
        if field.required and field.name not in values:
            return None
    return into(**values)
