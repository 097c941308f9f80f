"""What there is to call, as one value for people, programs, agents and planners: none is told of tools that another is
not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from ordain.core.plan.command import typed
from ordain.core.plan.tool import ToolDefinition, argument_names
from ordain.core.policy.assignment import RosterLine
from ordain.interfaces.view.picked import picked


class ParameterBrief(msgspec.Struct, frozen=True, kw_only=True):
    """One argument of a tool that steps can call."""

    name: str
    kind: str
    required: bool
    description: str


class ToolBrief(msgspec.Struct, frozen=True, kw_only=True):
    """One tool that steps can call, or one operation of a tool that has several."""

    name: str
    """Of an operation `tool:operation`; a step gives the two apart."""
    description: str
    effect: str
    """`reads`, `repeatable`, `checkable` or `opaque`: how little may be assumed after a crash."""
    destructive: bool
    parameters: tuple[ParameterBrief, ...]
    source: str
    """Where it comes from: `built in`, or what it is."""
    schema: Mapping[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """The JSON Schema of its arguments, as far as it is checked here; of tools that are not built in."""


class ToolsResult(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that steps of a plan can call."""

    tools: tuple[ToolBrief, ...]


def tools_result(tools: Iterable[ToolDefinition]) -> ToolsResult:
    return ToolsResult(tools=tuple(map(_brief, tools)))


def _brief(tool: ToolDefinition) -> ToolBrief:
    schema = tool.schema if tool.schema is not None else msgspec.UNSET
    parameters, source = tuple(_parameters(tool)), _source(tool)
    return picked(ToolBrief, tool, effect=tool.effect.value, parameters=parameters, source=source, schema=schema)


def _parameters(tool: ToolDefinition) -> Iterator[ParameterBrief]:
    if tool.schema is None:
        yield from (picked(ParameterBrief, one) for one in tool.parameters)
        return
    for name, required in argument_names(tool):
        about = tool.schema["properties"][name]
        about = about if isinstance(about, Mapping) else {}
        said = about.get("description", "")
        yield ParameterBrief(name=name, kind=_kind(about), required=required, description=said)


def _kind(about: Mapping[str, Any]) -> str:
    named = about.get("type")
    if named is not None:
        return named if isinstance(named, str) else " or ".join(named)
    if "enum" in about:
        return "one of " + ", ".join(map(str, about["enum"]))
    forms = [_kind(one) for one in about.get("anyOf", ()) if isinstance(one, Mapping)]
    return " or ".join(dict.fromkeys(forms)) or "any"


def _source(tool: ToolDefinition) -> str:
    if tool.command:
        return typed(tool.command)
    if tool.source is not None:
        return tool.source.url or typed(tool.source.mcp)
    if tool.python is not None:
        return f"{tool.python}, handed over by the program" if tool.registered else tool.python
    return "built in"


class AgentsResult(msgspec.Struct, frozen=True, kw_only=True):
    """Everybody who can be given tasks."""

    agents: tuple[RosterLine, ...]
