"""Typed values of fields: what stands beside and below a field's name, read as the format says.

Knows the spellings of values; knows nothing of steps or sections. What can not be read is noted and given as None.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ordain.core.failure import FailurePolicy
from ordain.core.problem import Problem
from ordain.documents.document import ProblemList
from ordain.documents.duration import DAY_MS, read_duration
from ordain.documents.failure import read_failure
from ordain.documents.field_line import Field
from ordain.documents.scan import Block, Fence, Text, trimmed
from ordain.documents.text import string_fault

__all__ = [
    "belongs_to_no_field",
    "failure_value",
    "number_value",
    "one_line",
    "prose",
    "timeout_value",
]


def one_line(field: Field, problems: ProblemList) -> str | None:
    """The value of a field that is one line, beside its name or below it."""
    value, rest = field.inline, trimmed(field.body)
    if not value and rest and isinstance(rest[0], Text):
        value, rest = rest[0].text.strip(), trimmed(rest[1:])
    if rest and not value:
        hint = f"Write `**{field.name}:** value`."
        problems.add("E_FIELD_VALUE", f"`{field.name}` takes one line of text.", hint, line=rest[0].line)
        return None
    if not value:
        problems.add("E_FIELD_VALUE", f"`{field.name}` has no value.", line=field.line)
        return None
    if rest:
        belongs_to_no_field(rest, problems)
    return value


def belongs_to_no_field(blocks: Sequence[Block], problems: ProblemList) -> None:
    """Say that this text would be lost."""
    problems.add(
        "E_DOC_SYNTAX",
        "This text belongs to no field.",
        "Put text for readers into a section of its own, such as `## Notes`; a value of several lines into a fence.",
        line=blocks[0].line,
    )


def prose(field: Field, lines: Sequence[str], problems: ProblemList) -> str | None:
    """The value of a field of free text: paragraphs, or exactly the content of one `text` fence."""
    body = trimmed(field.body)
    if not field.inline and len(body) == 1 and isinstance(body[0], Fence) and body[0].language == "text":
        value = body[0].content
    else:
        below = "\n".join(lines[body[0].line - 1 : body[-1].end]) if body else ""
        value = f"{field.inline}\n{below}".strip()
    if not value.strip():
        problems.add("E_FIELD_VALUE", f"`{field.name}` has no value.", line=field.line)
        return None
    fault = string_fault(value)
    if fault:
        problems.add(fault[0], fault[1], line=field.line)
        return None
    return value


def timeout_value(field: Field, problems: ProblemList) -> int | None:
    """Milliseconds of a `timeout` field."""
    text = one_line(field, problems)
    if text is None:
        return None
    timeout_ms = read_duration(text)
    if timeout_ms is None:
        hint = "Write a whole number and a unit: `250ms`, `30s`, `10m`, `2h`, `1d`."
        detail = f"The timeout `{text[:60]}` is not a duration."
        problems.add("E_FIELD_VALUE", detail, hint, line=field.line)
    elif not 0 < timeout_ms <= DAY_MS:
        detail = f"A timeout of {text} is not between 1ms and 1d."
        problems.add("E_STEP_LIMIT", detail, line=field.line)
        return None
    return timeout_ms


def failure_value(field: Field, problems: ProblemList) -> FailurePolicy | None:
    """The policy of an `on_fail` or `On failure` field."""
    text = one_line(field, problems)
    if text is None:
        return None
    policy = read_failure(text)
    if isinstance(policy, Problem):
        problems.add(policy.code, policy.detail, *policy.hints, line=field.line)
        return None
    return policy


def number_value(field: Field, low: int, high: int, code: str, problems: ProblemList) -> int | None:
    """A whole number of a plan field; `code` is the problem of one outside its limits."""
    text = one_line(field, problems)
    if text is None:
        return None
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        detail = f"`{text[:60]}` is not a whole number."
        problems.add("E_FIELD_VALUE", detail, f"Write a number from {low} to {high}.", line=field.line)
        return None
    if not low <= int(text) <= high:
        problems.add(code, f"`{field.name}` is {text}; {low} to {high} are allowed.", line=field.line)
        return None
    return int(text)
