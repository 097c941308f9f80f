"""What lint found, for people and robots, and how problems are shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from ordain.core.plan.value import PlanId
from ordain.core.report.lint_report import LintReport
from ordain.core.text.problem import Problem, Severity
from ordain.documents.dialects.reader import DIALECTS
from ordain.interfaces.view.picked import picked
from ordain.interfaces.view.style import Style
from ordain.interfaces.view.text import visible


class LintResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a document says. `plan_id` is null where there is no plan to speak of."""

    file: str | None
    dialect: str | None
    plan_id: PlanId | None
    plan_hash: str | None
    title: str | None
    steps: int


def lint_result(report: LintReport) -> LintResult:
    return picked(LintResult, report)


def problem_lines(problems: Iterable[Problem], style: Style) -> Iterator[str]:
    """Each problem with its place, its code and what helps."""
    for problem in problems:
        where = problem.where
        place = ""
        if where is not None and (where.file or where.line):
            parts = [where.file or "", str(where.line or ""), str(where.column or "")]
            place = visible(":".join(part for part in parts if part)) + ": "
        paint = style.warn if problem.severity is Severity.WARNING else style.bad
        yield f"{place}{paint(problem.code)} {visible(problem.detail)}"
        for hint in problem.hints:
            yield f"    {visible(hint)}"
        if problem.command:
            yield f"    → {style.bold(visible(problem.command))}"


def lint_lines(report: LintReport, style: Style) -> Iterator[str]:
    yield from problem_lines(report.problems, style)
    errors = sum(problem.severity is not Severity.WARNING for problem in report.problems)
    warnings = len(report.problems) - errors
    name = visible(report.file or "the document")
    dialect = f", dialect {report.dialect}" if report.dialect in DIALECTS else ""
    if errors or report.plan_id is None:
        counted = f"{errors} error{'s' * (errors != 1)}, {warnings} warning{'s' * (warnings != 1)}"
        yield style.bad(f"{name}: {counted}{dialect}")
    else:
        with_warnings = f", {warnings} warning{'s' * (warnings != 1)}" if warnings else ""
        steps = f"{report.steps} step{'s' * (report.steps != 1)}"
        yield style.good(f"{name}: good") + f" ({steps}{with_warnings}{dialect}), {style.dim(report.plan_id)}"
