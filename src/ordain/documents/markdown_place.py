"""Where on its line a problem of a Markdown document stands.

Readers of fields know the line they read; the column follows from the line itself, and is looked for only where there
is a problem. A column that a reader of values has given stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from ordain.core.problem import Problem

__all__ = ["with_columns"]

_ABOUT_LINES = frozenset(
    [
        *("E_DOC_DUPLICATE", "E_DOC_SYNTAX", "E_MD_FENCE", "E_MD_HEADING", "E_MD_HIDDEN", "E_PLAN_NO_STEPS"),
        *("E_STEP_ACTION", "W_FIELD_UNKNOWN"),
    ]
)
"""Problems of a whole line or of a field's name; the others are those of its value."""
_HEAD = re.compile(r" {0,3}(?:\*\*[^*:]{1,40}:\*\*[ \t]*|(?:[-*]|[0-9]{1,9}\.)[ \t]+)(?=\S)")


def with_columns(problems: Iterable[Problem], lines: Sequence[str]) -> tuple[Problem, ...]:
    """The same problems, each with a column where its line is known: that of the value beside a field's name or in a
    list item, else that of the first character."""
    return tuple(_placed(problem, lines) for problem in problems)


def _placed(problem: Problem, lines: Sequence[str]) -> Problem:
    where = problem.where
    if where is None or where.line is None or where.column is not None:
        return problem
    line = lines[where.line - 1]
    head = None if problem.code in _ABOUT_LINES else _HEAD.match(line)
    column = head.end() + 1 if head else len(line) - len(line.lstrip()) + 1
    return msgspec.structs.replace(problem, where=msgspec.structs.replace(where, column=column if line.strip() else 1))
