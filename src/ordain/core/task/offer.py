"""What passes through the door of a step: the tools that its agent is offered, and the answers to its calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ordain.core.plan.canonical import digest
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import COMMANDS, ToolDefinition, ToolParameter
from ordain.core.text.problem import Problem

DOOR, TOKEN, SERVER = "ORDAIN_DOOR", "ORDAIN_DOOR_TOKEN", "ORDAIN_DOOR_SERVER"
"""The variables that say where a door is, what opens it, and which command serves what is behind it, as a JSON list."""
NAME_MAX = 48
"""How long a name may be: hosts put their own before it, and no model takes one of more than 64 characters."""
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_-]")


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as it is offered. What it says of its effect is what the registry says, never the tool itself."""

    name: str
    title: str
    description: str
    schema: Mapping[str, Any]
    """The JSON Schema of its arguments."""
    reads: bool = False
    """It changes nothing."""
    destructive: bool = False
    repeatable: bool = False
    """Calling it twice has the effect of once."""
    outside: bool = False
    """It may reach beyond the workspace."""


class CallAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a call is answered: what the tool gave, or why it did not."""

    text: str = ""
    value: Mapping[str, Any] | None = None
    """The same, where it is an object."""
    problem: Problem | None = None


def answer_texts(answer: CallAnswer) -> list[str]:
    problem, said = answer.problem, [answer.text] if answer.text else []
    if problem is not None:
        way = [f"A person or a planner does that with: {problem.command}"] if problem.command is not None else []
        said.append("\n".join([f"{problem.code}: {problem.detail}", *problem.hints, *way]))
    return said


CANNOT_TOOL = Offer(
    name="cannot",
    title="Say that it cannot be done",
    description="Say that the step's check cannot be satisfied by doing the task honestly, and why. Nothing more is "
    "wanted of you then: end. A person decides what happens.",
    schema={
        "type": "object",
        "properties": {"reason": {"type": "string", "description": "What makes it impossible."}},
        "required": ["reason"],
        "additionalProperties": False,
    },
    reads=True,
    repeatable=True,
)
"""The one tool that every step has. It is ours, and is never refused."""


def door_names(tools: Iterable[str]) -> dict[str, str]:
    """What each of these tools is called behind a door, by the name that plans have for it."""
    taken = {CANNOT_TOOL.name}
    names = {}
    for tool in tools:
        name = _NOT_PLAIN.sub("_", tool.replace(":", "__"))
        if len(name) > NAME_MAX or name in taken:
            name = f"{name[: NAME_MAX - 9]}_{digest('name', tool.encode())[:8]}"
        taken.add(name)
        names[tool] = name
    return names


def offer_of(tool: ToolDefinition, name: str) -> Offer:
    on_files = tool.schema is None and tool.name not in COMMANDS and any(one.path for one in tool.parameters)
    reads = tool.effect is EffectClass.READS
    return Offer(
        name=name,
        title=tool.name,
        description=tool.description,
        schema=tool.schema if tool.schema is not None else _schema(tool.parameters),
        reads=reads,
        destructive=tool.destructive or tool.effect is EffectClass.OPAQUE,
        repeatable=reads or tool.effect is EffectClass.REPEATABLE,
        outside=not on_files,
    )


_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
_KINDS: Mapping[str, Mapping[str, Any]] = {
    "argv": {"type": "array", "items": {"type": "string"}, "minItems": 1},
    "variables": _TEXTS,
    "headers": _TEXTS,
    "url": {"type": "string"},
}


def _schema(parameters: tuple[ToolParameter, ...]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for one in parameters:
        said = {"enum": list(one.choices), "description": one.description}
        kind = _KINDS.get(one.kind, {"type": one.kind})
        properties[one.name] = {**kind, **{key: value for key, value in said.items() if value}}
    required = [one.name for one in parameters if one.required]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
