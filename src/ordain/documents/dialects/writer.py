"""A plan in the form of one of the seeds, with the proof that it still says the same.

Pure. What is written reads back to the same plan id, and is written again byte for byte the same; a plan of which that
is not true is refused, with the step and the field that the dialect would change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import zip_longest

import msgspec

from ordain.core.plan.canonical import canonical_bytes, plan_id
from ordain.core.plan.model import Plan, Step
from ordain.core.text.problem import Problem, Severity
from ordain.documents.dialects.outgoing import Outgoing
from ordain.documents.dialects.reader import Dialect
from ordain.documents.dialects.s0_writer import write_s0
from ordain.documents.dialects.s1_writer import write_s1
from ordain.documents.dialects.s2_writer import write_s2
from ordain.documents.dialects.s3_writer import write_s3
from ordain.documents.dialects.s4_writer import write_s4
from ordain.documents.document import Document
from ordain.documents.reading import read

_WRITERS: dict[Dialect, Callable[[Outgoing], str]] = {
    "s0": write_s0,
    "s1": write_s1,
    "s2": write_s2,
    "s3": write_s3,
    "s4": write_s4,
}


class WrittenDialect(msgspec.Struct, frozen=True, kw_only=True):
    """A document in a dialect, or why there is none: it has no text while one of the problems is an error."""

    text: str | None
    problems: tuple[Problem, ...]


def write_dialect(document: Document, dialect: Dialect) -> WrittenDialect:
    """The document of a plan in this dialect, or all that the dialect can not say."""
    out = Outgoing(document, dialect)
    text = _WRITERS[dialect](out)
    if not _wrong(out.problems):
        for step, field, why in _differences(out.plan, read(text.encode())):
            out.refuse(step, field, why=why)
    if _wrong(out.problems):
        # What would have been left out does not matter any more.
        return WrittenDialect(text=None, problems=tuple(problem for problem in out.problems if _wrong([problem])))
    return WrittenDialect(text=text, problems=tuple(out.problems))


def _wrong(problems: list[Problem]) -> bool:
    return any(problem.severity is not Severity.WARNING for problem in problems)


def _differences(plan: Plan, again: Document) -> Iterator[tuple[str | None, str, str]]:
    """Where the plan that was read back is another: the step, the field, and why."""
    if again.plan is None:
        for problem in again.problems:
            if problem.severity is not Severity.WARNING:
                step = problem.where.step if problem.where else None
                yield step, "text", f"would be read otherwise ({problem.code}: {problem.detail.rstrip('.')})"
        return
    if plan_id(plan) == plan_id(again.plan):
        return
    why = "would be read otherwise"
    yield from ((None, name, why) for name in _unequal(plan, again.plan) if name != "steps")
    for mine, other in zip_longest(plan.steps, again.plan.steps):
        if mine is None or other is None:
            yield None, "steps", why
            return
        yield from ((mine.id, name, why) for name in _step_differences(mine, other))


def _step_differences(mine: Step, other: Step) -> Iterator[str]:
    for name in _unequal(mine, other):
        same_kind = name == "action" and type(mine.action) is type(other.action)
        yield from _unequal(mine.action, other.action) if same_kind else [name]


def _unequal(mine: msgspec.Struct, other: msgspec.Struct) -> list[str]:
    pairs = ((name, getattr(mine, name), getattr(other, name)) for name in mine.__struct_fields__)
    return [name for name, one, two in pairs if canonical_bytes(one) != canonical_bytes(two)]
