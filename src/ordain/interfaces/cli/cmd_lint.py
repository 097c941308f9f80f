"""The command that checks documents: lint."""

from __future__ import annotations

import click

from ordain.core.report.lint_report import LintReport
from ordain.core.text.problem import Refused
from ordain.interfaces.cli.session import REFUSED, Session, command, read_document, with_params
from ordain.interfaces.view.lint import lint_lines, lint_result
from ordain.interfaces.view.next_command import after_document, if_it_can_run


@command(example="ordain lint fix.plan.md")
@click.argument("documents", nargs=-1, required=True, metavar="DOCUMENT…")
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
@with_params
def lint(session: Session, documents: tuple[str, ...], strict: bool, params: list[tuple[str, str]]) -> int:
    """Check documents: report every problem with its line and fix. Writes nothing."""
    reports = []
    for path in documents:
        try:
            data, name = read_document(session, path)
        except Refused as refused:  # the other documents are still worth looking at
            reports.append(LintReport(file=path, problems=refused.problems))
        else:
            reports.append(session.app.documents.report(data, name, params))
    problems = [problem for report in reports for problem in report.problems]
    bad = any(not report.good for report in reports) or (strict and bool(problems))
    results = [lint_result(report) for report in reports]
    result = results[0] if len(results) == 1 else results
    if bad and session.json:
        errors = dict.fromkeys(problem.code for problem in problems if strict or not problem.code.startswith("W_"))
        session.refused(problems, result, next_=[f"ordain explain {code}" for code in errors])
        return REFUSED
    lines = (line for report in reports for line in lint_lines(report, session.style))
    following = if_it_can_run(after_document(documents[0], params), [*problems, *reports[0].wanted])
    status = session.show(result, lines, problems=problems, next_=following)
    return REFUSED if bad else status
