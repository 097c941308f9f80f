"""What a step does: its `run`, `tool`, `task` or `action` with the fields that belong to it, and commands of contracts.
No reference and no code span ever reaches bash by mistake."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from ordain.core.plan.action import CallTool, RunCommand, Task
from ordain.core.plan.model import Action, carry_out
from ordain.core.plan.name import name_fault
from ordain.core.plan.refs import misplaced_reference
from ordain.core.text.limit import STRING_BYTES_MAX, string_fault
from ordain.documents.document import ProblemList
from ordain.documents.include import Beside
from ordain.documents.markdown.field import (
    Field,
    agent_value,
    list_value,
    one_line,
    only_fence,
    only_value,
    prose,
    text_line,
    tools_value,
    wants_fence,
)
from ordain.documents.markdown.front_matter import fenced_value
from ordain.documents.markdown.scan import Fence, code_span
from ordain.documents.tree import TREE_DEPTH_MAX, action_of_tree

_OWNERS = {
    **dict.fromkeys(("run", "env"), "run"),
    **dict.fromkeys(("tool", "operation", "args"), "tool"),
    **dict.fromkeys(("task", "agent", "instructions", "criteria", "reads", "tools"), "task"),
    "action": "action",
    "include": "include",
}
"""The fields that say what a step does, and which of the five ways to say it each belongs to."""
ACTION_FIELDS = frozenset(_OWNERS.values())
_SHORT = STRING_BYTES_MAX // 4
_SHELL = ("", "shell", "sh", "bash", "text")


def read_action(
    step: str,
    fields: Mapping[str, Field],
    steps: Container[str],
    lines: Sequence[str],
    beside: Beside,
    problems: ProblemList,
) -> Action | None:
    """The one action among a step's fields; what there is to say of a nested plan is added to `beside`."""
    given = [name for name in fields if _OWNERS.get(name) == name]
    if len(given) != 1:
        detail = f"The step has {' and '.join(f'`{name}`' for name in given) or 'nothing to do'}."
        hint = "Give exactly one of `**run:**`, `**tool:**`, `**task:**`, `**include:**` and `**action:**`."
        problems.add("E_STEP_ACTION", detail, hint)
        return None
    name = given[0]
    for other, field in fields.items():
        owner = _OWNERS.get(other, name)
        if owner != name:
            detail = f"`{other}` belongs to a `{owner}`, and this step has `{name}`."
            problems.add("E_STEP_ACTION", detail, line=field.line)
    match name:
        case "run":
            return _run(fields["run"], fields.get("env"), steps, problems)
        case "tool":
            return _call(fields, problems)
        case "task":
            return _task(fields, steps, lines, problems)
        case "include":
            return _include(step, fields["include"], beside, problems)
        case _:
            return _action(step, fields["action"], beside, problems)


def _include(step: str, field: Field, beside: Beside, problems: ProblemList) -> Action | None:
    path = text_line(field, problems)
    plan = beside.includes.plan(path, 0, beside.inner, step, problems, field.line) if path is not None else None
    return carry_out(plan) if plan is not None else None


def _action(step: str, field: Field, beside: Beside, problems: ProblemList) -> Action | None:
    read = only_value(field, "Use a ```yaml fence with `type: …` in it.", problems, TREE_DEPTH_MAX)
    if read is None:
        return None
    return action_of_tree(read.value, locate=read.locate, problems=problems, step=step, beside=beside)


# --- Commands ----------------------------------------------------------------------------------------------------


def _run(field: Field, env: Field | None, steps: Container[str], problems: ProblemList) -> RunCommand | None:
    fence = only_fence(field, problems) if field.body else None
    if fence is not None:
        command = fenced_command("run", fence, problems)
    else:
        line = one_line(field, problems)
        command = None if line is None else line_command("run", line, field.line, problems)
    variables = {} if env is None else _env(env, problems)
    if command is None or not sound_command(command, field.line, steps, problems) or variables is None:
        return None
    return RunCommand(command=command, env=variables)


def _env(field: Field, problems: ProblemList) -> dict[str, str] | None:
    """Variables for a command: a fence with a mapping of texts, or `NAME=value` list items."""
    fence = only_fence(field, problems)
    if fence is not None:
        read = fenced_value("env", fence, problems)
        if read is None:
            return None
        if not isinstance(read.value, dict) or not all(isinstance(value, str) for value in read.value.values()):
            hint = 'Write `NAME: "value"` lines, with quotes.'
            problems.add("E_PLAN_TYPE", "`env` is not a mapping of names to texts.", hint, line=fence.line)
            return None
        return read.value
    variables: dict[str, str] = {}
    for item in list_value(field, problems, commas=False) or ():
        name, mark, value = item.partition("=")
        if not mark:
            problems.add("E_FIELD_VALUE", f"`{item[:60]}` sets no variable.", "Write `NAME=value`.", line=field.line)
        elif name in variables:
            problems.add("E_DOC_DUPLICATE", f"The variable `{name[:60]}` is set twice.", line=field.line)
        variables[name] = value
    return variables


def command_value(field: Field, problems: ProblemList) -> str | None:
    """The value of a field that is a command for bash; lint says so where it is blank."""
    fence = only_fence(field, problems)
    if fence is not None and fence.language in _SHELL:
        return fence.content
    if fence is not None:
        return fenced_command(field.name, fence, problems)
    command = one_line(field, problems)
    return line_command(field.name, command, field.line, problems) if command is not None else None


def fenced_command(name: str, fence: Fence, problems: ProblemList) -> str | None:
    """A command written as a fence: exactly its content."""
    if fence.language not in _SHELL:
        detail = f"`{name}` is run by bash, and this fence says `{fence.language[:32]}`."
        problems.add("E_FIELD_VALUE", detail, "Use a ```shell fence.", line=fence.line)
        return None
    if not fence.content.strip():
        code = "E_CONTRACT_SYNTAX" if name == "contract" else "E_FIELD_VALUE"
        problems.add(code, f"`{name}` holds no command.", line=fence.line)
        return None
    return fence.content


def line_command(name: str, command: str, line: int, problems: ProblemList) -> str | None:
    """A command written as one line."""
    span = code_span(command)
    if span is None:
        return command
    detail = f"`{name}` is written as a code span, which bash would take for a command substitution."
    problems.add("E_FIELD_VALUE", detail, f"Write it without the backticks: `**{name}:** {span[:60]}`.", line=line)
    return None


def sound_command(command: str, line: int, steps: Container[str], problems: ProblemList) -> bool:
    """Whether a command may stand in a plan as it is: not too long, and without references."""
    # The document's own text has no forbidden characters; only its length is to be looked at.
    fault = string_fault(command) if len(command) > _SHORT else None
    if fault:
        problems.add(*fault, line=line)
        return False
    reference = misplaced_reference(command, steps) if "${" in command else None
    if reference:
        detail = f"`{reference}` is a reference, and commands take none: a value could break out of the command."
        problems.add("E_REF_PLACE", detail, "Hand the value over in `env`.", line=line)
    return reference is None


# --- Tasks -------------------------------------------------------------------------------------------------------


def _task(
    fields: Mapping[str, Field], steps: Container[str], lines: Sequence[str], problems: ProblemList
) -> Task | None:
    values: dict[str, Any] = {}
    for name in ("task", "instructions"):
        if name in fields:
            values[name] = prose(fields[name], lines, problems)
            sound_prose(name, values[name], fields[name].line, steps, problems)
    if "agent" in fields:
        values["agent"] = agent_value(fields["agent"], problems)
    if "criteria" in fields:
        values["criteria"] = list_value(fields["criteria"], problems, commas=False) or ()
    if "reads" in fields:
        values["reads"] = list_value(fields["reads"], problems) or ()
    if "tools" in fields:
        values["tools"] = tools_value(fields["tools"], problems)
    return Task(**values) if values["task"] is not None else None


def sound_prose(name: str, text: str | None, line: int, steps: Container[str], problems: ProblemList) -> None:
    """Refuse a reference in prose, where nothing would be put in for it; lint refuses one to a parameter."""
    reference = misplaced_reference(text, steps, template=True) if text else None
    if reference:
        detail = f"`{reference}` is a reference, and `{name}` takes none."
        problems.add("E_REF_PLACE", detail, "Let the step read the result: `**reads:** step:ID`.", line=line)


# --- Tool calls --------------------------------------------------------------------------------------------------


def _call(fields: Mapping[str, Field], problems: ProblemList) -> CallTool | None:
    tool = fields["tool"]
    name = one_line(tool, problems)
    args = _args(fields["args"], problems) if "args" in fields else {}
    operation = text_line(fields["operation"], problems) if "operation" in fields else None
    if name is None:
        return None
    if "${" in name:
        problems.add("E_REF_PLACE", "A tool's name can not be a reference.", line=tool.line)
        return None
    fault = name_fault("tool", name)
    if fault:
        problems.add(*fault, line=tool.line)
    return None if fault or args is None else CallTool(tool=name, operation=operation, args=args)


def _args(field: Field, problems: ProblemList) -> dict[str, Any] | None:
    fence = only_fence(field, problems)
    if fence is None:
        wants_fence(field, "Use a ```yaml fence.", problems)
        return None
    read = fenced_value("args", fence, problems)
    if read is None:
        return None
    if not isinstance(read.value, dict):
        problems.add("E_TOOL_ARGS", "`args` is not a mapping.", "Write `name: value` lines, or {}.", line=fence.line)
        return None
    return read.value
