"""The envelope: exactly one JSON document for every verb, with the same shape whether it went well or not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from ordain.core.text.problem import Problem, Refused, Severity, refuse
from ordain.interfaces.view.problem import problem_pages

ENVELOPE_VERSION = 1


class ToldPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where in a document a problem is; lines and columns count from one."""

    file: str | None
    line: int | None
    column: int | None
    step: str | None


class ToldProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong, as robots get it: always with the same keys."""

    code: str
    severity: Severity
    detail: str
    """A whole sentence about this very case."""
    where: ToldPlace | None
    hints: tuple[str, ...]
    """What to write or do instead."""
    command: str | None
    """The line to paste next."""


class Error(msgspec.Struct, frozen=True, kw_only=True):
    """Why a verb refused or failed: the first of the problems that did it."""

    code: str
    message: str
    remediation: str
    """What helps: what is known of this very case, else what the page of the code says. Never empty."""
    command: str | None
    """What helps; it is among `next` too."""


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """The one document that every verb answers with."""

    ok: bool
    """Whether there is no error."""
    data: Any
    """What the verb answers; null where there is nothing to tell."""
    error: Error | None
    problems: tuple[ToldProblem, ...]
    """All that is wrong, warnings too."""
    next: tuple[str, ...]
    """Commands that can be pasted and make sense now, the best one first."""
    elapsed_ms: int
    version: int
    """Of this shape. It stays 1 as long as fields are only added."""


def told(problem: Problem) -> ToldProblem:
    """A problem with its severity."""
    where = problem.where
    return ToldProblem(
        code=problem.code,
        severity=problem.severity,
        detail=problem.detail,
        where=ToldPlace(file=where.file, line=where.line, column=where.column, step=where.step) if where else None,
        hints=problem.hints,
        command=problem.command,
    )


def cause(problems: Sequence[Problem]) -> Problem:
    """What a refusal is put down to: the first problem that is more than a warning."""
    return next((problem for problem in problems if problem.severity is not Severity.WARNING), problems[0])


def remedies(problems: Sequence[Problem]) -> tuple[str, ...]:
    """The commands that help, each once."""
    return tuple(dict.fromkeys(problem.command for problem in problems if problem.command is not None))


def bug(error: BaseException) -> Problem:
    """What cannot happen, and did."""
    detail = f"{type(error).__name__}: {error}"
    return Problem(code="B_BUG", detail=detail, hints=("This is a bug in ordain. Please report it.",))


def _remedy(code: str) -> str:
    """What the page of a code says that helps, for a case of which nothing more is known."""
    page = problem_pages().get(code)
    return page.remedy if page is not None else f"What it means: ordain explain {code}"


def envelope(
    data: Any, *, problems: Sequence[Problem] = (), error: Problem | None = None, next_: Sequence[str], elapsed_ms: int
) -> bytes:
    """One document: `ok`, the verb's data, the error that refused it, all problems, and the commands that come next."""
    wrong = None
    if error is not None:
        helps = " ".join(error.hints) or " ".join(_remedy(error.code).split())
        wrong = Error(code=error.code, message=error.detail, remediation=helps, command=error.command)
    document = Envelope(
        ok=error is None,
        data=data,
        error=wrong,
        problems=tuple(map(told, problems)),
        next=tuple(next_),
        elapsed_ms=elapsed_ms,
        version=ENVELOPE_VERSION,
    )
    return to_json(document)


def to_text(value: Any) -> str:
    """JSON on one line for models, to whom letters of all languages mean something and escapes are long. What cannot be
    seen is escaped all the same."""
    text = json.dumps(json.loads(to_json(value)), separators=(",", ":"), ensure_ascii=False)
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)


def to_json(value: Any) -> bytes:
    """JSON on one line, in plain ASCII: what a terminal would act on (control, C1, bidirectional characters) is escaped
    here too, for people look at JSON on terminals."""
    plain = json.dumps(msgspec.to_builtins(value, str_keys=True), separators=(",", ":"), ensure_ascii=False)
    whole = plain.encode("utf-8", "replace").decode()  # half a character has no place in JSON
    return json.dumps(json.loads(whole), separators=(",", ":")).replace("\x7f", "\\u007f").encode()


def extra_missing(extra: str, detail: str) -> Refused:
    """The refusal of what needs this extra of the package."""
    return refuse(
        "E_EXTRA_MISSING",
        detail,
        f"In a checkout of Ordain: pip install '.[{extra}]'",
        command=f"pip install 'ordain[{extra}]'",
    )
