"""The commands that come next, for people and robots alike: each can be pasted, and makes sense as things stand."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET

from ordain.core.plan.canonical import short_id
from ordain.core.text.problem import Problem, Severity

if TYPE_CHECKING:
    from ordain.core.report.report import InboxItem, PlanLine, Review, RunReport

_OPEN_VERBS = {
    **dict.fromkeys(("stopped", "stalled", "paused"), "resume"),
    **dict.fromkeys(("executing", "pausing", "cancelling"), "watch"),
}


def after_run(report: RunReport) -> list[str]:
    """What can be done about a run as it stands."""
    commands = [question.asking for question in report.questions]
    if report.status in _OPEN_VERBS:
        commands.append(f"ordain {_OPEN_VERBS[report.status]} {report.run_id}")
    if report.status in ("failed", "cancelled"):
        commands += [*of_failure(report), *run_again(report)]
    if report.replaced_by is not None:
        commands.append(f"ordain show {report.replaced_by}")
    return commands


def run_again(report: RunReport) -> list[str]:
    """What the plan of an ended run is carried out with once more, or what must come before that."""
    command = f"ordain rerun {report.run_id}" if report.prepare is UNSET else report.prepare
    return [command] if command else []


def of_failure(report: RunReport) -> list[str]:
    """What tells more about the steps that failed."""
    wrong = [step for step in report.steps if step.failed]
    first = next((step.id for step in wrong if step.output_tail), None)
    shown = [f"ordain show {report.run_id} --output {shlex.quote(first)}"] if first is not None else []
    return shown + [f"ordain explain {code}" for code in dict.fromkeys(step.error for step in wrong) if code][:1]


def after_item(item: InboxItem) -> tuple[str, ...]:
    """What decides something that waits for a person; where they word the answer, the command that asks for it."""
    if item.question is None or not item.question.takes:
        return item.commands
    return item.question.asking, *item.commands[1:]


def after_line(line: PlanLine) -> str | None:
    """What can be done next with a plan that is not running."""
    return _after_status(line.status, short_id(line.plan_id), line.requires_approval)


def after_review(review: Review) -> list[str]:
    """The same with a stored plan that was looked at."""
    if review.run is not None and review.status not in ("completed", "failed", "cancelled"):
        return after_run(review.run)
    found = _after_status(review.status, short_id(review.plan_id), review.requires_approval)
    return [found] if found is not None else []


def if_it_can_run(following: Sequence[str], problems: Sequence[Problem]) -> list[str]:
    """What comes next with a plan about which this is known: where a run would be refused, what helps instead."""
    wrong = [one for one in problems if one.severity is Severity.ERROR or one.code == "W_NOT_YET"]
    if not wrong:
        return list(following)
    return list(dict.fromkeys(one.command or f"ordain explain {one.code.replace('W_NOT', 'E_NOT')}" for one in wrong))


def after_document(document: str, params: Sequence[tuple[str, str]] = ()) -> list[str]:
    """What can be done with a document in which nothing is wrong; standard input is gone by then."""
    if document == "-":
        return []
    words = " ".join([shlex.quote(document), *(f"--param {shlex.quote(f'{name}={value}')}" for name, value in params)])
    return [f"ordain run {words}", f"ordain prepare {words}"]


def _after_status(status: str, plan: str, requires_approval: bool) -> str | None:
    verbs = {
        "proposed": "approve" if requires_approval else "commit",
        "approved": "commit",
        "rejected": "revise",
        "needs_review": "revise",
        "unreadable": "cancel",
    }
    return f"ordain {verbs[status]} {plan}" if status in verbs else None


def from_anywhere(command: str, workspace: str) -> str:
    """The same command so that it works wherever it is typed."""
    return command.replace("ordain ", f"ordain -C {shlex.quote(workspace)} ", 1)
