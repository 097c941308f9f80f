"""Rules about tools: they exist, are in scope, and get arguments that fit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from ordain.core.action import CallTool
from ordain.core.lint.facts import Facts
from ordain.core.model import Plan
from ordain.core.problem import Place, Problem, closest
from ordain.core.tool import argument_faults, tool_name

__all__ = ["arguments", "known", "paths", "scope", "values"]

DEPTH_MAX = 16
WHOLE_MAX = 2**53 - 1

_PRIVATE = (".git/hooks", ".ordain")
"""Places where a file would run code behind everybody's back, or that are ours."""


def known(plan: Plan, facts: Facts) -> Iterator[Problem]:
    """Every tool that is called is registered."""
    for step in plan.steps:
        if isinstance(step.action, CallTool) and step.action.tool not in facts.tools:
            name = step.action.tool
            if not name.isascii():
                yield Problem(
                    code="E_NAME",
                    detail=f"The tool name of `{step.id}` is not plain ASCII.",
                    where=Place(step=step.id),
                )
                continue
            hints = ("Write the command as `**run:** …`.",) if name == "shell" else closest(name, facts.tools)
            yield Problem(
                code="E_TOOL_UNKNOWN", detail=f"There is no tool `{name}`.", where=Place(step=step.id), hints=hints
            )


def scope(plan: Plan, facts: Facts) -> Iterator[Problem]:
    """When a plan lists its tools, its steps use no others. A command is the tool `shell`."""
    if plan.tools is None:
        return
    for step in plan.steps:
        name = tool_name(step.action)
        if name not in plan.tools:
            yield Problem(
                code="E_TOOL_OUT_OF_SCOPE",
                detail=f"`{step.id}` uses `{name}`, which is not among the plan's tools.",
                where=Place(step=step.id),
                hints=(f"Add `{name}` to `tools:`, or leave the step out.",),
            )


def arguments(plan: Plan, facts: Facts) -> Iterator[Problem]:
    """Every call's arguments fit the tool's parameters."""
    for step in plan.steps:
        if isinstance(step.action, CallTool) and step.action.tool in facts.tools:
            for sentence, hints in argument_faults(facts.tools[step.action.tool], step.action.args):
                yield Problem(code="E_TOOL_ARGS", detail=sentence, where=Place(step=step.id), hints=hints)


def values(plan: Plan, facts: Facts) -> Iterator[Problem]:
    """Arguments are JSON that every reader understands alike; otherwise the digest would not be portable."""
    for step in plan.steps:
        if isinstance(step.action, CallTool) and (fault := _value_fault(step.action.args)):
            code, what = fault
            yield Problem(code=code, detail=f"`{step.id}`: an argument {what}.", where=Place(step=step.id))


def _value_fault(value: Any, depth: int = 0) -> tuple[str, str] | None:
    if depth > DEPTH_MAX:
        return "E_DOC_DEPTH", f"is nested more than {DEPTH_MAX} deep"
    match value:
        case None | bool():
            return None
        case int() | float():
            portable = math.isfinite(value) and (abs(value) <= WHOLE_MAX or value % 1 != 0)
            return None if portable else ("E_DOC_NUMBER", "holds a number that not every reader understands alike")
        case str():
            surrogate = any("\ud800" <= character <= "\udfff" for character in value)
            return ("E_DOC_CONTROL_CHARACTER", "holds half a character") if surrogate else None
        case Mapping():
            inner = [key if isinstance(key, str) else () for key in value] + list(value.values())
        case list() | tuple() if depth:
            inner = list(value)
        case _:
            return "E_TOOL_ARGS", f"is a {type(value).__name__}, which JSON does not have"
    return next((fault for one in inner if (fault := _value_fault(one, depth + 1))), None)


def paths(plan: Plan, facts: Facts) -> Iterator[Problem]:
    """Every path lies beneath the workspace, and not where it would be run or is ours."""
    for step in plan.steps:
        if not isinstance(step.action, CallTool) or step.action.tool not in facts.tools:
            continue
        for parameter in facts.tools[step.action.tool].parameters:
            value = step.action.args.get(parameter.name)
            if parameter.path and isinstance(value, str) and (fault := _fault(value)):
                yield Problem(
                    code="E_PATH",
                    detail=f"`{step.id}`: the path `{value}` {fault}.",
                    where=Place(step=step.id),
                    hints=("Paths are relative to the workspace and stay beneath it.",),
                )


def _fault(value: str) -> str | None:
    path = PurePosixPath(value)
    if not value or "\0" in value:
        return "is empty or has a NUL in it"
    if path.is_absolute() or value.startswith("~"):
        return "is not relative to the workspace"
    if ".." in path.parts:
        return "leads out of the workspace"
    folded = str(path).casefold()
    if any(folded == private or folded.startswith(private + "/") for private in _PRIVATE):
        return "is off limits"
    return None
