"""The rule about secrets: none stands in a plan, for a plan is stored, shown and sent around."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ordain.core.lint.facts import Facts
from ordain.core.lint.survey import Survey, written
from ordain.core.problem import Place, Problem
from ordain.core.token_shape import CREDENTIALS, SHAPES, compiled

__all__ = ["no_secrets", "secrets_in"]

_WORD = re.compile(rb"[A-Za-z0-9]")
_ESCAPES = (b"\\n", b"\\t", b"\\r")


def no_secrets(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """No text in the plan has the shape of a well-known secret, or is one that a variable holds; the problem shows at
    most how it begins."""
    held = {written(value): f"the value of ${name}" for name, value in facts.secrets.items()}
    values = {value.strip(b'"'): whose for value, whose in held.items() if value is not None}
    if next(secrets_in(survey.encoded or _shown(survey.plan), values), None) is None:
        return
    for number, step in enumerate((*survey.plan.steps, *survey.plan.fallbacks), 1):
        for what in secrets_in(written(step) or _shown(step), values):
            # Not by its id, which may be made of the very text.
            yield _problem(what, f"Step {number}", Place(step=step.id))
    around = msgspec.structs.replace(survey.plan, steps=(), fallbacks=())
    for what in secrets_in(written(around) or _shown(around), values):
        yield _problem(what, "The plan", None)


def _problem(what: str, who: str, where: Place | None) -> Problem:
    return Problem(
        code="E_PLAN_SECRET",
        detail=f"{who} holds {what}.",
        where=where,
        hints=("Let the program read it from where secrets are kept, such as a file that only you can read.",),
    )


def secrets_in(data: bytes, values: Mapping[bytes, str]) -> Iterator[str]:
    """What secrets stand in a text; of each shape only the first. One in the middle of a word is none."""
    yield from (whose for value, whose in values.items() if value in data)
    for shape in SHAPES:
        for found in compiled(shape.head).finditer(data):
            at = found.start()
            if not _WORD.match(data[at - 1 : at]) or data[at - 2 : at] in _ESCAPES:
                yield f"what looks like {shape.what}: `{found.group()[:4].decode()}…`"
                break
    for shape in CREDENTIALS:
        if compiled(shape.head).search(data):
            yield f"what looks like {shape.what}"


def _shown(value: Any) -> bytes:
    """What cannot be written as JSON has other problems, and is looked at as Python shows it; what Python
    does not show either, not at all."""
    try:
        return repr(value).encode("utf-8", "surrogatepass")
    except (RecursionError, ValueError):  # Python writes no very long numbers
        return b""
