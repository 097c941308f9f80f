"""Rules about tools: they exist, are in scope, and get arguments that fit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from ordain.core.lint.facts import Facts
from ordain.core.model import CallTool, Plan, tool_name
from ordain.core.problem import Place, Problem, closest
from ordain.core.tool import argument_faults

__all__ = ["arguments", "known", "paths", "scope"]

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
