"""The commands about proposals: prepare, list, inbox, revise, reject, cancel, archive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import click
import msgspec

from ordain.assemble.workspace import every_workspace
from ordain.core.approval.approval import Channel
from ordain.core.guard.plan_note import PlanNote
from ordain.core.lineage.lineage import Stage
from ordain.core.plan.canonical import short_id
from ordain.core.plan.value import StepId
from ordain.core.report.report import InboxItem, PlanStanding, Prepared
from ordain.core.run.wait import SignalAwaited
from ordain.core.text.problem import Problem, Refused
from ordain.interfaces.cli.session import Session, command, in_utf8, read_to_store, with_params
from ordain.interfaces.view.next_command import after_item, after_line, from_anywhere, run_again
from ordain.interfaces.view.preview import prepared_lines
from ordain.interfaces.view.question import context_lines, seen_lines
from ordain.interfaces.view.report import InboxResult, ListResult, prepared_result
from ordain.interfaces.view.review import risk_lines
from ordain.interfaces.view.run import awaited_lines, inbox_lines, list_lines, note_lines, run_lines
from ordain.records.records import names_run

NEWEST = 30
"""How many plans a list shows unless it is asked for all."""


@command(name="list", example="ordain list --status rejected")
@click.option("--all", "every", is_flag=True, help="Every plan, not only the newest.")
@click.option("--status", "wanted", type=click.Choice(get_args(PlanStanding)), help="Only plans like this.")
def list_(session: Session, every: bool, wanted: str | None) -> int:
    """List the plans of this workspace: status, title, where each came from and who proposed it."""
    session.expire_overdue()
    lines = session.app.plans.all(newest=None if every or wanted else NEWEST)
    shown = tuple(line for line in lines if wanted in (None, line.status))
    result = ListResult(plans=shown, count=session.app.plans.plan_count())
    if not session.json:
        session.notices(session.app.workspace.settings()[2])
    following = [found for line in shown if line.run is None and (found := after_line(line)) is not None]
    return session.show(result, list_lines(shown, result.count, wanted, session.style), next_=following)


@command(example="ordain inbox --all")
@click.option("--all", "every", is_flag=True, help="Look through every workspace of this user.")
@click.option("--verbose", is_flag=True, help="With all that is known: tries, verdicts, outputs, and notes whole.")
@click.option("--dismiss", metavar="NOTE", help="Forget a note: a plan in prose that an agent left plan mode with.")
def inbox(session: Session, every: bool, verbose: bool, dismiss: str | None) -> int:
    """List what waits for a person, the most dangerous first, each with the command that decides it; and the plans in
    prose that agents left their plan mode with."""
    if dismiss is not None:
        session.app.plans.dismiss_note(dismiss)
    items: list[InboxItem] = []
    notes: list[PlanNote] = []
    awaited: list[SignalAwaited] = []
    problems: list[Problem] = []
    for app in every_workspace(terminal=session.by.person) if every else [session.app]:
        try:
            session.expire_overdue(app)
            items += app.plans.inbox()
            awaited += app.signals.awaited()
            notes += app.plans.notes()
            notices = app.workspace.settings()[2]
            problems += [_about(notice, app.workspace.workspace_path) for notice in notices] if every else notices
        except Refused as refused:
            if not every:
                raise
            # One that cannot be read does not hide the others.
            problems += [_about(problem, app.workspace.workspace_path) for problem in refused.problems]
    items.sort(key=lambda item: (-item.destructive, item.since))
    following = [_typed(command, item, every) for item in items for command in after_item(item)]
    items = [
        msgspec.structs.replace(item, commands=tuple(_typed(one, item, every) for one in item.commands))
        for item in items
    ]
    found = InboxResult(items=tuple(items), signals=tuple(awaited), notes=tuple(notes))
    lines = _inbox_lines(session, found, every=every, verbose=verbose)
    return session.show(found, lines, notices=problems, next_=following)


def _inbox_lines(session: Session, found: InboxResult, *, every: bool, verbose: bool) -> Iterator[str]:
    if not found.items:
        yield "Nothing waits for you."
    for item in found.items:
        seen = seen_lines(item.question) if item.question is not None and not verbose else ()
        risks = risk_lines(item.risks, session.style) if item.risks else ()
        yield from inbox_lines(item, session.style, everywhere=every, seen=[*risks, *seen])
        if verbose and item.question is not None:
            yield from (
                f"    {line}" for line in context_lines(item.question, session.app.workspace.now(), session.style)
            )
    yield from awaited_lines(found.signals, session.style)
    for note in found.notes:
        yield from note_lines(note, session.style, whole=verbose)
    if tried := 0 if every else session.app.refusals.refused_lately():
        requests = f"{tried} request{'s' * (tried != 1)}"
        yield session.style.dim(f"{requests} of agents or scripts refused since yesterday: ordain log --refused")


def _typed(command_line: str, item: InboxItem, everywhere: bool) -> str:
    return from_anywhere(command_line, item.workspace) if everywhere else command_line


def _about(problem: Problem, workspace: str) -> Problem:
    return msgspec.structs.replace(problem, detail=f"{workspace}: {problem.detail}", command=None)


@command(example="ordain prepare fix.plan.md")
@click.argument("document")
@with_params
def prepare(session: Session, document: str, params: list[tuple[str, str]]) -> int:
    """Check a document, store its plan and show what it will do. Exactly those bytes can then be approved and run."""
    data, name = read_to_store(session, document)
    return _show_prepared(session, session.run(session.app.plans.prepare(data, name, session.by, params)))


@command()
@click.argument("plan")
@click.argument("document", required=False)
@click.option("-m", "--message", "reason", callback=in_utf8, default="", help="Why there is a new version.")
@with_params
def revise(session: Session, plan: str, document: str | None, reason: str, params: list[tuple[str, str]]) -> int:
    """Replace a plan with a new version: from DOCUMENT, or from the plan's own document, edited since. Where a run of
    it waits, the new version goes on with that run; the run stays as it is until somebody approves and starts it.

    Earlier approvals do not cover the new version. Example: ordain revise 4f2a9c01b7de fix.plan.md
    """
    data, name = read_to_store(session, document) if document is not None else (None, None)
    ref = plan if names_run(plan) else session.plan_named(plan)
    prepared = session.run(session.app.plans.revise(ref, session.by, data, name, params, reason=reason))
    return _show_prepared(session, prepared)


def _show_prepared(session: Session, prepared: Prepared) -> int:
    result, lines = prepared_result(prepared), prepared_lines(prepared, session.style)
    following = [prepared.approval_command or prepared.commit_command]
    return session.show(result, lines, problems=prepared.review.notices, next_=following, exactly=True)


@command(example='ordain reject 4f2a9c01b7de -m "Run the tests before the push."')
@click.argument("plan")
@click.option("-m", "--message", "feedback", callback=in_utf8, default="", help="What should change.")
@click.option(
    "--comment",
    "comments",
    multiple=True,
    callback=in_utf8,
    metavar="STEP=TEXT",
    help="What should change about one step; repeatable.",
)
def reject(session: Session, plan: str, feedback: str, comments: tuple[str, ...]) -> int:
    """Reject a plan and say what should change. It can be revised; its unused approvals end."""
    about: dict[StepId, str] = {}
    for comment in comments:
        step, equals, text = comment.partition("=")
        if not equals or not text.strip():
            raise click.UsageError(f"--comment wants STEP=TEXT, not {comment!r}.")
        before = f"{about[StepId(step)]}\n" if StepId(step) in about else ""
        about[StepId(step)] = before + text.strip()
    line = session.run(session.app.plans.reject(session.plan_named(plan), session.by, feedback, about))
    left = "" if line.status == Stage.REJECTED else " The next revision must be a person's."
    short = short_id(line.plan_id)
    ways = [f"ordain revise {short}"]
    if not left and line.proposer.channel is Channel.PLANNER:
        ways.insert(0, f"ordain plan --revise {short}")
    return session.show(line, [f"Rejected {short}.{left}", *(f"  → {way}" for way in ways)], next_=ways)


@command(example='ordain cancel 4f2a9c01b7de -m "No longer needed."')
@click.argument("what", metavar="PLAN|RUN")
@click.option("-m", "--message", "reason", callback=in_utf8, default="", help="Why.")
@click.option("--failed", is_flag=True, help="Let the run count as failed, not as cancelled.")
@click.option("--take-over", is_flag=True, help="End the process that is at work on the run, if it does not answer.")
def cancel(session: Session, what: str, reason: str, failed: bool, take_over: bool) -> int:
    """Withdraw a proposal, or end a run now. Steps not started are not carried out, and nobody checks whether
    the steps in progress took effect."""
    if names_run(what):
        status = "failed" if failed else "cancelled"
        work = session.app.runs.cancel_run(what, session.by, reason, status=status, take_over=take_over)
        report = session.run(work)
        following = [f"ordain show {report.run_id}", *run_again(report)]
        return session.show(report, run_lines(report, session.style), next_=following)
    line = session.run(session.app.plans.cancel(session.plan_named(what), session.by, reason))
    short = short_id(line.plan_id)
    return session.show(line, [f"Cancelled {short}."], next_=[f"ordain archive {short}"])


@command(example="ordain archive 4f2a9c01b7de")
@click.argument("plan")
def archive(session: Session, plan: str) -> int:
    """Archive a finished plan. Nothing is deleted; `ordain log` still shows its history."""
    line = session.run(session.app.plans.archive(session.plan_named(plan), session.by))
    return session.show(line, [f"Archived {short_id(line.plan_id)}."])
