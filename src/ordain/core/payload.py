"""The part of an action in which references may stand: arguments, variables, stored values, payloads.

Never the text of a command, however it is given: a value could break out of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from ordain.core.action import CallTool, Custom, RunCommand, RunWorkflow, StoreData
from ordain.core.command import command_of
from ordain.core.model import Action, Step, contract_of
from ordain.core.refs import Index, Item, ParamValue, Unreadable, parse, references

__all__ = ["decided_later", "payload", "shared_variables", "with_payload"]

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def payload(action: Action) -> Any:
    """The values of an action in which references may stand; None where there are none."""
    match action:
        case CallTool(args=args) if command_of(action) is not None:
            return args.get("env", {})
        case CallTool(args=value) | RunCommand(env=value) | RunWorkflow(params=value):
            return value
        case StoreData(value=value) | Custom(payload=value):
            return value
        case _:
            return None


def with_payload(action: Action, change: Callable[[Any], Any]) -> Action:
    """The action with these values changed."""
    match action:
        case CallTool(args=args) if command_of(action) is not None:
            return replace(action, args={**args, "env": change(args["env"])}) if "env" in args else action
        case CallTool(args=value):
            return replace(action, args=change(value))
        case RunCommand(env=value):
            return replace(action, env=change(value))
        case RunWorkflow(params=value):
            return replace(action, params=change(value))
        case StoreData(value=value):
            return replace(action, value=change(value))
        case Custom(payload=value):
            return replace(action, payload=change(value))
        case _:
            return action


def shared_variables(step: Step) -> dict[str, str]:
    """The variables of a step's command that its contract names, and therefore sees as well."""
    contract, command = contract_of(step), command_of(step.action)
    if contract is None or command is None:
        return {}
    words = set(_WORD.findall(contract.command))
    return {name: value for name, value in command.env.items() if name in words}


def decided_later(step: Step) -> dict[str, tuple[str, ...]]:
    """The arguments of a step whose values depend on what other steps do, with the references in them."""
    values: Any = payload(step.action)
    named = values if isinstance(values, Mapping) else {"value": values}
    item = step.for_each.name or "item" if step.for_each is not None else "item"
    found: dict[str, tuple[str, ...]] = {}
    for name, value in named.items():
        later = tuple(text for text in references(value, item) if _is_later(text, item))
        if later:
            found[name] = later
    if step.for_each is not None and _is_later(step.for_each.source, "item"):
        found["for_each"] = (step.for_each.source,)
    return found


def _is_later(text: str, item: str) -> bool:
    reference = parse(text, item)
    return not isinstance(reference, Unreadable) and not isinstance(reference.source, ParamValue | Item | Index)
