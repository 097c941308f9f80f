"""What a tool declares about itself: its parameters and, above all, what its effect is like.

The effect class decides whether a plan needs approval and what may be done after a crash. Classes come from the
registry, never from a plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, assert_never

import msgspec

from ordain.core.canonical import canonical_bytes, digest
from ordain.core.model import Action, CallTool, RunCommand
from ordain.core.problem import closest

__all__ = [
    "SHELL",
    "EffectClass",
    "Parameter",
    "ToolDefinition",
    "argument_faults",
    "definition_digest",
    "definition_of",
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
"""What a `run` step uses. It is not called as a tool; the definition says what it counts as."""


def definition_of(action: Action, tools: Mapping[str, ToolDefinition]) -> ToolDefinition | None:
    """The definition behind an action: the shell's for a command, the registered tool's for a call."""
    match action:
        case RunCommand():
            return SHELL
        case CallTool(tool=tool):
            return tools.get(tool)
        case _:
            assert_never(action)


_KINDS: dict[str, type | tuple[type, ...]] = {"string": str, "integer": int, "boolean": bool}


def argument_faults(tool: ToolDefinition, args: Mapping[str, Any]) -> list[tuple[str, tuple[str, ...]]]:
    """Everything wrong with a call's arguments, as (sentence, hints); empty when the call fits."""
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
