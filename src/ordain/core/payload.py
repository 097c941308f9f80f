"""The part of an action in which references may stand: arguments, variables, stored values, payloads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from ordain.core.action import CallTool, Custom, RunCommand, RunWorkflow, StoreData
from ordain.core.model import Action

__all__ = ["payload", "with_payload"]


def payload(action: Action) -> Any:
    """The values of an action in which references may stand; None where there are none."""
    match action:
        case CallTool(args=value) | RunCommand(env=value) | RunWorkflow(params=value):
            return value
        case StoreData(value=value) | Custom(payload=value):
            return value
        case _:
            return None


def with_payload(action: Action, change: Callable[[Any], Any]) -> Action:
    """The action with these values changed."""
    match action:
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
