"""What a step does: its `run`, or its `tool` with `args`, to an action; also the commands of contracts.

Knows how commands and arguments are written. No reference and no code span ever reaches bash by mistake.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from ordain.core.action import CallTool, RunCommand
from ordain.core.model import Action
from ordain.core.refs import misplaced_reference, references
from ordain.documents.document import ProblemList
from ordain.documents.draft import code_span
from ordain.documents.field_line import Field
from ordain.documents.fields import belongs_to_no_field, one_line
from ordain.documents.json_value import read_json
from ordain.documents.scan import Fence, trimmed
from ordain.documents.slug import tool_name_fault
from ordain.documents.text import string_fault
from ordain.documents.yaml_value import read_yaml

__all__ = ["fenced_command", "line_command", "read_action", "sound_command"]

_ACTIONS = ("task", "tool", "run", "action")
_SHELL = ("", "shell", "sh", "bash", "text")


def read_action(fields: Mapping[str, Field], steps: Container[str], problems: ProblemList) -> Action | None:
    """The one action among a step's fields."""
    given = [name for name in _ACTIONS if name in fields]
    if len(given) != 1:
        detail = f"The step has {' and '.join(f'`{name}`' for name in given) or 'nothing to do'}."
        hint = "Give exactly one: `**run:**` with a command, or `**tool:**` with `**args:**`."
        problems.add("E_STEP_ACTION", detail, hint)
    elif "args" in fields and given == ["run"]:
        problems.add("E_STEP_ACTION", "`args` belong to a `tool`, not to a command.", line=fields["args"].line)
    if "tool" in fields:
        return _call(fields["tool"], fields.get("args"), problems)
    if "run" in fields:
        return _run(fields["run"], steps, problems)
    return None


# --- Commands ----------------------------------------------------------------------------------------------------


def _run(field: Field, steps: Container[str], problems: ProblemList) -> RunCommand | None:
    body = trimmed(field.body)
    if not field.inline and body and isinstance(body[0], Fence):
        if body[1:]:
            belongs_to_no_field(trimmed(body[1:]), problems)
        command = fenced_command("run", body[0], problems)
    else:
        line = one_line(field, problems)
        command = None if line is None else line_command("run", line, field.line, problems)
    if command is None or not sound_command(command, field.line, steps, problems):
        return None
    return RunCommand(command=command)


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
    fault = string_fault(command)
    if fault:
        problems.add(*fault, line=line)
        return False
    reference = misplaced_reference(command, steps)
    if reference:
        detail = f"`{reference}` is a reference, and commands take none: a value could break out of the command."
        problems.add("E_REF_PLACE", detail, "Let the earlier step write a file that this command reads.", line=line)
    return reference is None


# --- Tool calls --------------------------------------------------------------------------------------------------


def _call(tool: Field, args: Field | None, problems: ProblemList) -> CallTool | None:
    name = one_line(tool, problems)
    values = _args(args, problems) if args else {}
    if name is None:
        return None
    if "${" in name:
        problems.add("E_REF_PLACE", "A tool's name can not be a reference.", line=tool.line)
        return None
    fault = tool_name_fault(name)
    if fault:
        problems.add(*fault, line=tool.line)
    return None if fault or values is None else CallTool(tool=name, args=values)


def _args(field: Field, problems: ProblemList) -> dict[str, Any] | None:
    body = trimmed(field.body)
    if field.inline or not body or not isinstance(body[0], Fence):
        problems.add("E_FIELD_VALUE", "`args` is not written in a fence.", "Use a ```yaml fence.", line=field.line)
        return None
    fence = body[0]
    if body[1:]:
        belongs_to_no_field(trimmed(body[1:]), problems)
    match fence.language:
        case "json":
            read = read_json(fence.content, first_line=fence.line + 1)
        case "" | "yaml" | "yml":
            read = read_yaml(fence.content, first_line=fence.line + 1)
        case other:
            detail = f"`args` are YAML or JSON, and this fence says `{other[:32]}`."
            problems.add("E_FIELD_VALUE", detail, "Use a ```yaml or ```json fence.", line=fence.line)
            return None
    if read.problems:
        problems.extend(read.problems)
        return None
    if not isinstance(read.value, dict):
        problems.add("E_TOOL_ARGS", "`args` is not a mapping.", "Write `name: value` lines, or {}.", line=fence.line)
        return None
    return _without_references(read.value, fence, problems)


def _without_references(values: dict[str, Any], fence: Fence, problems: ProblemList) -> dict[str, Any] | None:
    found = next(references(values), None)
    if found is not None:
        line = next((at for at, text in enumerate(fence.lines, fence.line + 1) if found in text), fence.line)
        detail = f"`{found}` is a reference; they are part of the format, but this version does not carry them out."
        problems.add("E_NOT_YET", detail, "Write `$${` where a literal `${` is meant.", line=line)
        return None
    return values
