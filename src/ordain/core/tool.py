"""What a tool declares about itself: its parameters and, above all, what its effect is like.

The effect class decides whether a plan needs approval and what may be done after a crash. Classes come from the
registry, never from a plan.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from ordain.core.action import (
    AcquireLock,
    Ask,
    CallTool,
    Custom,
    MarkEventHandled,
    ReleaseLock,
    RunCommand,
    RunWorkflow,
    SendText,
    StoreData,
    Task,
    ValidateApproval,
    WaitFor,
)
from ordain.core.canonical import canonical_bytes, digest
from ordain.core.model import Action, NestedPlan
from ordain.core.problem import closest

__all__ = [
    "OWN_ACTION_KINDS",
    "SHELL",
    "EffectClass",
    "Parameter",
    "ToolDefinition",
    "action_kind",
    "argument_faults",
    "definition_digest",
    "definition_of",
    "tool_name",
]


class EffectClass(StrEnum):
    """What happens to the world when a tool is called, in the order of how little may be assumed after a crash."""

    READS = "reads"
    """Changes nothing."""
    REPEATABLE = "repeatable"
    """The same arguments twice have the effect of once."""
    CHECKABLE = "checkable"
    """A contract can tell whether it happened."""
    OPAQUE = "opaque"
    """Nobody can tell from outside; only a person may say."""


class Parameter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One argument of a tool. `path` marks a path that must lie beneath the workspace."""

    name: str
    kind: str
    required: bool = False
    path: bool = False
    description: str = ""


class ToolDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One registered tool. `atomic`: no half-done effect is ever visible."""

    name: str
    description: str
    effect: EffectClass
    parameters: tuple[Parameter, ...] = ()
    atomic: bool = False
    destructive: bool = False


SHELL = ToolDefinition(
    name="shell",
    description="Run a command with bash in the workspace.",
    effect=EffectClass.OPAQUE,
    parameters=(Parameter(name="command", kind="string", required=True),),
)
"""What a `run` step and every contract uses. It is not called as a tool; the definition says what it counts as."""

_OWN_ACTIONS = {
    Task: EffectClass.OPAQUE,
    SendText: EffectClass.OPAQUE,
    WaitFor: EffectClass.REPEATABLE,
    AcquireLock: EffectClass.REPEATABLE,
    ReleaseLock: EffectClass.REPEATABLE,
    StoreData: EffectClass.REPEATABLE,
    RunWorkflow: EffectClass.OPAQUE,
    MarkEventHandled: EffectClass.REPEATABLE,
    ValidateApproval: EffectClass.READS,
    NestedPlan: EffectClass.OPAQUE,
    Ask: EffectClass.REPEATABLE,
    Custom: EffectClass.OPAQUE,
}
"""Actions that are not tools, and what they count as. Locks, data, events, questions and waiting are repeatable by
construction: they happen in the ledger's own transaction, or have no effect."""

OWN_ACTION_KINDS = frozenset(str(kind.__struct_config__.tag) for kind in _OWN_ACTIONS)
"""Their names on the wire, which policy may use."""


def action_kind(action: Action) -> str:
    """The action's name on the wire: `run`, `tool`, `task` …"""
    tag = action.__struct_config__.tag
    assert isinstance(tag, str)
    return tag


def tool_name(action: Action) -> str:
    """What scopes and policy call an action by: a command is the tool `shell`, a call its tool, the rest its kind."""
    match action:
        case RunCommand():
            return SHELL.name
        case CallTool(tool=tool):
            return tool
        case _:
            return action_kind(action)


def definition_of(action: Action, tools: Mapping[str, ToolDefinition]) -> ToolDefinition | None:
    """The definition behind an action: the shell's for a command, the registered tool's for a call, our own else."""
    match action:
        case RunCommand():
            return SHELL
        case CallTool(tool=tool):
            return tools.get(tool)
        case _:
            kind = action_kind(action)
            return ToolDefinition(name=kind, description=f"The action {kind}.", effect=_OWN_ACTIONS[type(action)])


_KINDS: dict[str, type | tuple[type, ...]] = {"string": str, "integer": int, "boolean": bool}


def argument_faults(
    tool: ToolDefinition, args: Mapping[str, Any], later: Container[str] = ()
) -> list[tuple[str, tuple[str, ...]]]:
    """Everything wrong with a call's arguments, as (sentence, hints); empty when the call fits. The type of those named
    in `later` is not known yet."""
    known = {parameter.name: parameter for parameter in tool.parameters}
    faults: list[tuple[str, tuple[str, ...]]] = []
    for name in args:
        if name not in known:
            faults.append((f"`{tool.name}` takes no argument `{name}`.", closest(name, known)))
    for parameter in tool.parameters:
        if parameter.name not in args:
            if parameter.required:
                faults.append((f"`{tool.name}` needs the argument `{parameter.name}`.", ()))
            continue
        if parameter.name in later:
            continue
        value = args[parameter.name]
        wrong = not isinstance(value, _KINDS[parameter.kind]) or (
            parameter.kind == "integer" and isinstance(value, bool)
        )
        if wrong:
            faults.append((f"`{tool.name}` wants `{parameter.name}` to be a {parameter.kind}.", ()))
    return faults


def definition_digest(tools: tuple[ToolDefinition, ...]) -> str:
    """One digest over the definitions a plan uses, so that a tool that changed voids an approval."""
    body = canonical_bytes(sorted((msgspec.to_builtins(tool) for tool in tools), key=lambda tool: str(tool["name"])))
    return "sha256:" + digest("application/vnd.ordain.tools.v1+json", body)
