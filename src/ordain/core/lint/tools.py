"""Rules about tools and commands: they exist, are in scope, and get arguments and variables that fit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from ordain.core.environment import variable_fault
from ordain.core.lint.facts import Facts
from ordain.core.lint.survey import Survey, payload
from ordain.core.model import Step
from ordain.core.problem import Place, Problem
from ordain.core.refs import is_reference
from ordain.core.tool import SHELL, argument_faults

__all__ = ["arguments", "known", "operations", "scope", "sizes", "values", "variables"]

DEPTH_MAX = 16
WHOLE_MAX = 2**53 - 1
ARGUMENT_BYTES_MAX = 1 << 20


def known(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Every tool that is called is registered, or of a source that is."""
    for step, call in survey.calls:
        name = call.tool
        if name in facts.tools or name in facts.settings.sources or not name.isascii() or "${" in name:
            continue
        hints = survey.near(name, [*facts.tools, *facts.settings.sources])
        if name == SHELL.name:
            hints = ("Write the command as `**run:** …`.",)
        yield Problem(
            code="E_TOOL_UNKNOWN", detail=f"There is no tool `{name}`.", where=Place(step=step.id), hints=hints
        )


def operations(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A tool has no operations; a source of tools has nothing else."""
    for step, call in survey.calls:
        if call.operation is not None and call.tool in facts.tools:
            hints = survey.near(call.operation, facts.tools)
            yield Problem(
                code="E_TOOL_OPERATION",
                detail=f"`{call.tool}` has no operation `{call.operation}`, or any other.",
                where=Place(step=step.id),
                hints=hints or ("Leave `operation` out.",),
            )
        elif call.operation is None and call.tool in facts.settings.sources and call.tool not in facts.tools:
            yield Problem(
                code="E_TOOL_OPERATION",
                detail=f"`{call.tool}` is a source of tools, and the step does not say which of them it calls.",
                where=Place(step=step.id),
                hints=survey.near("", facts.settings.sources[call.tool].effects) or ("Name it with `operation:`.",),
            )


def scope(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """When a plan lists its tools, its steps use no others. A command is the tool `shell`."""
    listed = [one.plan.tools for one in survey.scopes if one.plan.tools is not None]
    if not listed:
        return
    for step, name, operation in _uses(survey):
        if name is not None and "${" not in name:
            for tools in (survey.plan.tools, survey.scope_of(step).plan.tools):
                if tools is not None and name not in tools and f"{name}:{operation}" not in tools:
                    yield Problem(
                        code="E_TOOL_OUT_OF_SCOPE",
                        detail=f"`{step.id}` uses `{name}`, which is not among the plan's tools.",
                        where=Place(step=step.id),
                        hints=(f"Add `{name}` to `tools:`, or leave the step out.",),
                    )
                    break


def _uses(survey: Survey) -> Iterator[tuple[Step, str, str | None]]:
    yield from ((step, SHELL.name, None) for step, _ in survey.commands)
    yield from ((step, call.tool, call.operation) for step, call in survey.calls)
    for _, step, task in survey.tasks:
        for entry in task.tools or ():
            name, _, operation = entry.partition(":")
            yield step, name, operation or None


def arguments(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Every call's arguments fit the tool's parameters; what a reference decides is judged when it is known."""
    for step, call in survey.calls:
        tool = facts.tools.get(call.tool)
        if tool is None:
            continue
        item = step.for_each.name or "item" if step.for_each is not None else "item"
        later = {name for name, value in call.args.items() if is_reference(value, item)}
        for sentence, hints in argument_faults(tool, call.args, later):
            yield Problem(code="E_TOOL_ARGS", detail=sentence, where=Place(step=step.id), hints=hints)


def values(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Arguments are JSON that every reader understands alike; otherwise the digest would not be portable."""
    for step, value in _payloads(survey):
        fault = _value_fault(value)
        if fault is not None:
            code, what = fault
            yield Problem(code=code, detail=f"`{step.id}`: an argument {what}.", where=Place(step=step.id))


def _payloads(survey: Survey) -> Iterator[tuple[Step, Any]]:
    yield from ((step, call.args) for step, call in survey.calls)
    yield from ((step, {"": payload(action)}) for step, action in survey.others)


def _value_fault(value: Any, depth: int = 0) -> tuple[str, str] | None:
    if depth > DEPTH_MAX:
        return "E_DOC_DEPTH", f"is nested more than {DEPTH_MAX} deep"
    match value:
        case str():
            return None if value.isascii() or _whole(value) else ("E_DOC_CONTROL_CHARACTER", "holds half a character")
        case None | bool():
            return None
        case int() | float():
            portable = math.isfinite(value) and (abs(value) <= WHOLE_MAX or value % 1 != 0)
            return None if portable else ("E_DOC_NUMBER", "holds a number that not every reader understands alike")
        case Mapping():
            inner = [key if isinstance(key, str) else () for key in value] + list(value.values())
        case list() | tuple() if depth:
            inner = list(value)
        case _:
            return "E_TOOL_ARGS", f"is a {type(value).__name__}, which JSON does not have"
    return next((fault for one in inner if (fault := _value_fault(one, depth + 1))), None)


def _whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def sizes(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """No single text in an argument is longer than a document's text may be."""
    for step, value in _payloads(survey):
        todo = [value]
        while todo:
            match todo.pop():
                case str() as text if len(text) * 4 > ARGUMENT_BYTES_MAX:
                    if len(text.encode("utf-8", "surrogatepass")) > ARGUMENT_BYTES_MAX:
                        yield Problem(
                            code="E_TOOL_ARGS",
                            detail=f"`{step.id}`: an argument is longer than 1 MiB.",
                            where=Place(step=step.id),
                            hints=("Put it into a file of the workspace.",),
                        )
                case dict() as mapping:
                    todo += mapping.values()
                case list() | tuple() as items:
                    todo += items


def variables(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """No variable is given to a command that would make a trusted program do something else."""
    for step, command in survey.commands:
        for name in command.env:
            if fault := variable_fault(name):
                yield Problem(
                    code="E_ENV_NAME",
                    detail=f"`{step.id}`: the variable `{name}` {fault}.",
                    where=Place(step=step.id),
                    hints=("Use another name.",),
                )
