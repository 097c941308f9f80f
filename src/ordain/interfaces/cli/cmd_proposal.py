"""The commands about proposals: list, inbox, revise, reject, cancel, archive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import click
import msgspec

from ordain.core.lineage.lineage import Stage
from ordain.core.plan.canonical import short_id
from ordain.core.plan.value import StepId
from ordain.core.report.report import InboxItem, PlanLine, PlanStanding, SignalAwaited
from ordain.core.text.problem import Problem, Refused
from ordain.interfaces.cli.cmd_plan import say_prepared
from ordain.interfaces.cli.session import FINE, Session, command, in_utf8, read_to_store, with_params
from ordain.interfaces.robot.results.plans import ListResult
from ordain.interfaces.robot.results.runs import InboxResult
from ordain.interfaces.view import run as render
from ordain.interfaces.view.next_command import after_item, after_line, from_anywhere
from ordain.interfaces.view.question import context_lines
from ordain.records.records import names_run

NEWEST = 30
"""How many plans a list shows unless it is asked for all."""


@command(name="list")
@click.option("--all", "every", is_flag=True, help="Every plan there ever was, not only the newest.")
@click.option("--status", "wanted", type=click.Choice(get_args(PlanStanding)), help="Only plans like this.")
def list_(session: Session, every: bool, wanted: str | None) -> int:
    """List the plans of this workspace: status, title, where each came from and who proposed it.

    Example: ordain list --status rejected
    """
    session.expire_overdue()
    lines = session.app.plans(newest=None if every or wanted else NEWEST)
    shown = [line for line in lines if wanted in (None, line.status)]
    count = session.app.plan_count()
    if session.json:
        session.answer(ListResult(plans=tuple(shown), count=count), next_=_commands(shown))
    else:
        session.notices(session.app.settings()[2])
        session.say(render.list_lines(shown, session.style))
        if not shown:
            nothing = "No plans here yet. Start with: ordain run DOCUMENT"
            session.say([nothing if not count else f"No plan here is {wanted}."])
        if wanted is None and len(shown) < count:
            session.say([session.style.dim(f"{count - len(shown)} older ones: ordain list --all")])
    return FINE


def _commands(lines: Sequence[PlanLine]) -> list[str]:
    return [found for line in lines if line.run is None and (found := after_line(line)) is not None]


@command()
@click.option("--all", "every", is_flag=True, help="Look through every workspace of this user.")
@click.option("--verbose", is_flag=True, help="With all that is known about what runs ask: tries, verdicts, outputs.")
def inbox(session: Session, every: bool, verbose: bool) -> int:
    """List what waits for a person, the most dangerous first, each with the command that decides it.

    Example: ordain inbox --all
    """
    items: list[InboxItem] = []
    awaited: list[SignalAwaited] = []
    problems: list[Problem] = []
    for app in session.every_app() if every else [session.app]:
        try:
            session.expire_overdue(app)
            items += app.inbox()
            awaited += app.signals_awaited()
            notices = app.settings()[2]
            problems += [_about(notice, app.workspace_path) for notice in notices] if every else notices
        except Refused as refused:
            if not every:
                raise
            # One that cannot be read does not hide the others.
            problems += [_about(problem, app.workspace_path) for problem in refused.problems]
    items.sort(key=lambda item: (-item.destructive, item.since))
    following = [_typed(command, item, every) for item in items for command in after_item(item)]
    items = [_with_commands(item, every) for item in items]
    if session.json:
        found = InboxResult(items=tuple(items), signals=tuple(awaited))
        session.answer(found, problems=problems, next_=following)
    else:
        session.notices(problems)
        if not items:
            session.say(["Nothing waits for you."])
        for item in items:
            session.say(render.inbox_lines(item, session.style, everywhere=every))
            if verbose and item.question is not None:
                lines = context_lines(item.question, session.app.now(), session.style)
                session.say(f"    {line}" for line in lines)
        session.say(render.awaited_lines(awaited, session.style))
        tried = 0 if every else session.app.refused_lately()
        if tried:
            requests = f"{tried} request{'s' * (tried != 1)}"
            session.say(
                [session.style.dim(f"{requests} of agents or scripts refused since yesterday: ordain log --refused")]
            )
    return FINE


def _typed(command_line: str, item: InboxItem, everywhere: bool) -> str:
    """A command about an item; `everywhere` so that it works wherever it is typed."""
    return from_anywhere(command_line, item.workspace) if everywhere else command_line


def _with_commands(item: InboxItem, everywhere: bool) -> InboxItem:
    return msgspec.structs.replace(item, commands=tuple(_typed(one, item, everywhere) for one in item.commands))


def _about(problem: Problem, workspace: str) -> Problem:
    return msgspec.structs.replace(problem, detail=f"{workspace}: {problem.detail}", command=None)


@command()
@click.argument("plan")
@click.argument("document", required=False)
@with_params
def revise(session: Session, plan: str, document: str | None, params: list[tuple[str, str]]) -> int:
    """Replace a plan by a revision of it: from DOCUMENT, or from the plan's own document, edited since.

    What was approved before does not cover the revision. Example: ordain revise 4f2a9c01b7de fix.plan.md
    """
    data, name = read_to_store(session, document) if document is not None else (None, None)
    prepared = session.run(session.app.revise(session.plan_named(plan), session.by, data, name, params))
    return say_prepared(session, prepared)


@command()
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
    """Say no to a plan, and what should change. It can be revised; approvals of it that were not used end.

    Example: ordain reject 4f2a9c01b7de -m "Run the tests before the push."
    """
    about: dict[StepId, str] = {}
    for comment in comments:
        step, equals, text = comment.partition("=")
        if not equals or not text.strip():
            raise click.UsageError(f"--comment wants STEP=TEXT, not {comment!r}.")
        before = f"{about[StepId(step)]}\n" if StepId(step) in about else ""
        about[StepId(step)] = before + text.strip()
    line = session.run(session.app.reject(session.plan_named(plan), session.by, feedback, about))
    left = "" if line.status == Stage.REJECTED else " The next revision must be a person's."
    return _said(session, line, f"Rejected {short_id(line.plan_id)}.{left}", f"ordain revise {short_id(line.plan_id)}")


@command()
@click.argument("what", metavar="PLAN|RUN")
@click.option("-m", "--message", "reason", callback=in_utf8, default="", help="Why.")
@click.option("--failed", is_flag=True, help="Let the run count as failed, not as cancelled.")
@click.option("--take-over", is_flag=True, help="End the process that is at work on the run, if it does not answer.")
def cancel(session: Session, what: str, reason: str, failed: bool, take_over: bool) -> int:
    """Take a proposal back, or end a run as it stands, whoever carries it out. What runs is ended, open steps are not
    carried out, and nobody looks whether what was under way happened.

    Example: ordain cancel 4f2a9c01b7de -m "No longer needed."
    """
    if names_run(what):
        status = "failed" if failed else "cancelled"
        work = session.app.cancel_run(what, session.by, reason, status=status, take_over=take_over)
        report = session.run(work)
        if session.json:
            session.answer(report, next_=[f"ordain show {report.run_id}", f"ordain rerun {report.run_id}"])
        else:
            session.say(render.run_lines(report, session.style))
        return FINE
    line = session.run(session.app.cancel(session.plan_named(what), session.by, reason))
    return _said(session, line, f"Cancelled {short_id(line.plan_id)}.", f"ordain archive {short_id(line.plan_id)}")


@command()
@click.argument("plan")
def archive(session: Session, plan: str) -> int:
    """Put away a plan that has come to its end. Nothing is deleted; `ordain log` still tells its whole story.

    Example: ordain archive 4f2a9c01b7de
    """
    line = session.run(session.app.archive(session.plan_named(plan), session.by))
    return _said(session, line, f"Archived {short_id(line.plan_id)}.", None)


def _said(session: Session, line: PlanLine, words: str, following: str | None) -> int:
    if session.json:
        session.answer(line, next_=[following] if following is not None else [])
    else:
        session.say([words])
    return FINE
