"""What an agent may use inside a step, and what a call may do: exactly the tools that the step lists, else those that
the plan does, but for commands, which a plan lists for its contracts, else those that only work on files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any

from ordain.core.plan.action import Task
from ordain.core.plan.command import setting_fault
from ordain.core.plan.model import Plan, Step
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import COMMANDS, HANDLER, ToolDefinition, ToolParameter, argument_faults, unbearable
from ordain.core.policy.agent import tasks_of
from ordain.core.text.control import folded, folded_pattern
from ordain.core.text.path import handed_fault, path_hints
from ordain.core.text.pattern import PATTERN_MAX, PathPattern, normal, plain_part
from ordain.core.text.problem import Problem, blame_step, closest
from ordain.core.text.secret import named_secrets

FAULTS_MAX = 20


def scope_of(task: Task, plans: Sequence[Plan]) -> tuple[str, ...] | None:
    """The tools that a task lists, or, but for commands, the innermost plan around it that lists any."""
    if task.tools is not None:
        return task.tools
    listed = next((plan.tools for plan in plans if plan.tools is not None), None)
    return tuple(name for name in listed if name not in COMMANDS) if listed is not None else None


def offered(task: Task, plans: Sequence[Plan], tools: Mapping[str, ToolDefinition]) -> tuple[str, ...]:
    """The names among these tools that a task may use; of a tool with operations that is listed whole, all of them."""
    listed = scope_of(task, plans)
    if listed is None:
        return tuple(name for name, tool in tools.items() if _works_on_files(tool))
    named = set(listed)
    callable_names = (name for name in tools if not name.startswith(HANDLER))
    return tuple(name for name in callable_names if name in named or name.partition(":")[0] in named)


def unforeseen(names: Iterable[str], tools: Mapping[str, ToolDefinition]) -> tuple[str, ...]:
    """Those of these tools that can do anything, or destroy something outside of the workspace."""
    named = [tools[name] for name in names]
    harm = (one.effect is EffectClass.OPAQUE or (one.destructive and not _works_on_files(one)) for one in named)
    return tuple(compress(names, harm))


def offered_in(plan: Plan, tools: Mapping[str, ToolDefinition]) -> Iterator[tuple[Step, tuple[str, ...]]]:
    """Every step of a plan, or of one nested in it, that is a task, with the tools that it may use."""
    for _, step, plans in tasks_of(plan):
        assert isinstance(step.action, Task)
        yield step, offered(step.action, plans, tools)


def listed_in(plan: Plan) -> Iterator[str]:
    """The tools that tasks of a plan may use because they are listed, without their operations; some more than once."""
    for _, step, plans in tasks_of(plan):
        assert isinstance(step.action, Task)
        yield from (name.partition(":")[0] for name in scope_of(step.action, plans) or ())


def _works_on_files(tool: ToolDefinition) -> bool:
    return tool.name not in COMMANDS and any(parameter.path for parameter in tool.parameters)


# --- What a call may do --------------------------------------------------------------------------------------------


def out_of_scope(name: str, step: Step, there_are: Sequence[str], command: str) -> Problem:
    """What is said to an agent that asks for a tool that its step does not have; `command` proposes a plan with it."""
    otherwise = (
        "If the task cannot be done with these, say so with `cannot`, or have a revision of the plan proposed, "
        "whose step lists it under `tools`. Do not do the same in another way."
    )
    hints = (*closest(name, there_are), f"It has {', '.join(there_are) or 'none'}.", otherwise)
    return blame_step(None, "E_CALL_SCOPE", f"`{step.id}` has no tool `{name}`.", *hints, command=command)


def call_problem(
    tool: ToolDefinition, args: Mapping[str, Any], step: Step, protect: Sequence[str], control: Sequence[str] = ()
) -> Problem | None:
    """Why a step's agent may not call a tool like this, as far as its plan goes; None where it may. `protect` and
    `control` are patterns of what must stay as it is."""
    faults = (unbearable(args) or argument_faults(tool, args))[:FAULTS_MAX]
    if faults:
        details, hints = " ".join(one for one, _ in faults), dict.fromkeys(hint for _, more in faults for hint in more)
        return Problem(code="E_CALL_ARGUMENTS", detail=details, hints=tuple(hints))
    if tool.schema is not None and (name := next(named_secrets(args), None)) is not None:
        return beyond(f"`{tool.name}` is handed no secret `{name}` by an agent", "Only a step of a plan can name one.")
    for parameter in tool.parameters:
        for variable in args.get(parameter.name, {}) if parameter.kind == "variables" else ():
            if (fault := setting_fault(variable)) is not None:
                return beyond(f"The variable `{variable}` {fault}", "Use another name.")
        path = args.get(parameter.name, ".") if parameter.path else None
        if path is not None and len(str(path)) > PATTERN_MAX:
            return Problem(code="E_CALL_ARGUMENTS", detail=f"`{parameter.name}` is longer than any path.")
        why = _path_fault(str(path), tool, parameter, args, step, protect, control) if path is not None else None
        if why is not None:
            return beyond(*why)
    return None


def beyond(detail: str, *hints: str) -> Problem:
    """What is said to an agent that wants more than its step may touch."""
    return Problem(code="E_CALL_BOUNDS", detail=f"{detail}.", hints=hints)


def _path_fault(
    path: str,
    tool: ToolDefinition,
    parameter: ToolParameter,
    args: Mapping[str, Any],
    step: Step,
    protect: Sequence[str],
    control: Sequence[str],
) -> tuple[str, ...] | None:
    writes = tool.effect is not EffectClass.READS
    fault = handed_fault(path, touched=writes, control=control)
    if fault is not None:
        return (f"The path `{path}` {fault}", *path_hints(fault, writes=writes))
    if not writes:
        return None
    if parameter.deep and not folded(path):
        return "The path is the workspace itself", "Name what lies in it."
    by = protecting_pattern(path, protect, deep=parameter.deep)
    if by is not None:
        return f"The path `{path}` {by}", "What is protected stays as it is; the step fails where it does not."
    if step.writes and not _may_write(path, tool, step.writes, beneath=args.get("recursive") is True):
        listed = ", ".join(f"`{one}`" for one in step.writes)
        return f"`{step.id}` may not write `{path}`", f"It may write {listed}."
    return None


def _may_write(path: str, tool: ToolDefinition, writes: Sequence[str], *, beneath: bool) -> bool:
    """Whether a path is among those that a step may write; with `beneath`, all that lies beneath it too."""
    name = normal(path).removesuffix("/**")
    patterns = [normal(one) for one in writes]
    if tool.name == MAKES_DIRECTORIES and any(one == f"{name}/**" for one in patterns):
        return True  # whoever may write everything in a directory may make it
    wanted = (name, f"{name}/\0/\0") if beneath else (name,)
    return any(all(pattern.matches(one) for one in wanted) for pattern in map(PathPattern, patterns))


MAKES_DIRECTORIES = "make_dir"


def protecting_pattern(path: str, patterns: Sequence[str], *, deep: bool) -> str | None:
    """Why a path must not be written, as these patterns protect it, or, where it is `deep`, something beneath it."""
    name = folded(path)
    for text in patterns:
        if deep and (plain_part(folded(text)) + "/").startswith(f"{name}/"):
            return f"holds what is protected by `{text}`"
        if folded_pattern(text).matches(name):
            return f"is protected by `{text}`"
    return None
