"""Carrying out a run: in the foreground, with the report at its end, or in a process that outlives this one."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import click

from ordain.core.approval.approval import Channel
from ordain.core.plan.value import RunId
from ordain.core.report.progress import Told
from ordain.core.report.report import Prepared, Review, RunReport
from ordain.core.run.event import Recorded, to_wire
from ordain.core.text.problem import Problem
from ordain.interfaces.background import BEGINNING_S, LOOKING_S, BackgroundProcess
from ordain.interfaces.cli.decision import answer_here, ask_approval
from ordain.interfaces.cli.live import LiveView
from ordain.interfaces.cli.session import FAILED, FINE, WAITING, Session, interruption
from ordain.interfaces.cli.signals import INTERRUPTED
from ordain.interfaces.view.event import change_of
from ordain.interfaces.view.next_command import after_run
from ordain.interfaces.view.picked import picked
from ordain.interfaces.view.report import (
    BegunResult,
    QueuedResult,
    RunResult,
    earlier_run,
    failure,
    prepared_result,
    run_words,
    warnings,
)
from ordain.interfaces.view.run import MANY_STEPS, run_lines
from ordain.ports.ledger import Observer
from ordain.ports.machine import Credential

no_wait = click.option("--no-wait", "no_waiting", is_flag=True, help="Refuse where another run is at work.")
"""For commands that carry out a run: otherwise it is waited until there is a place for it."""


def waiting(session: Session, no_waiting: bool = False) -> Callable[[str], None] | None:
    """What tells that it is waited for a place, where it is."""
    return None if no_waiting else lambda words: session.tell(f"  waiting: {session.clean(words)}")


def approve_and_start(session: Session, approved: tuple[Review, Credential | None]) -> int:
    """After a yes: approve what was shown and start the run it permits."""
    (shown, signing), waits, events = approved, waiting(session), watcher(session)
    work = session.app.runs.approve_and_commit(shown, session.by, events, credential=signing, waiting=waits)
    return carry_out(session, work)


def resumed(session: Session, run_id: str, *, no_waiting: bool = False, **how: bool) -> Coroutine[Any, Any, RunReport]:
    """What goes on with a run, shown while it does."""
    return session.app.runs.resume(run_id, watcher(session), waiting=waiting(session, no_waiting), **how)


def ask_elsewhere(session: Session, prepared: Prepared, detail: str, *hints: str) -> int:
    """Tell of a plan that nobody can be asked about here, and who wants to run it how a person approves it."""
    command_line = f"{prepared.approval_command} --start"
    problem = Problem(code="E_PLAN_APPROVAL_MISSING", detail=detail, hints=hints, command=command_line)
    session.refused([problem], prepared_result(prepared))
    return WAITING


def carry_out(
    session: Session, work: Coroutine[Any, Any, RunReport], notices: Sequence[Problem] = (), *, commits: bool = False
) -> int:
    """Do a run's work, show it, ask at a terminal all that it waits for, and report; the exit status."""
    report = _watched(session, work)
    if commits and session.app.runs.started != report.run_id:
        earlier = earlier_run(report)
        session.notices([earlier])
        notices = (*notices, earlier)
    if (status := _approved_here(session, report)) is not None:
        return status
    left: set[str] = set()
    while (answered := answer_here(session, report, left)) is not None:
        report = answered
        if answered.status not in ("stopped", "paused"):
            continue  # an answer may lead to the next question
        report = _watched(session, resumed(session, report.run_id))
    return reported(session, report, notices)


def _approved_here(session: Session, report: RunReport) -> int | None:
    """Ask the person at the terminal about a planner's proposal to go on with a run; the exit status after a yes."""
    if session.json or not session.terminal or report.status != "waiting":
        return None
    line = session.app.plans.plan_line(report.plan_id)
    planner = line.proposer is not None and line.proposer.channel is Channel.PLANNER
    if line.continues != report.run_id or line.status != "proposed" or not planner:
        return None
    approved = ask_approval(session, session.app.plans.review(line.plan_id), None)
    if approved is None:
        session.say([f"Not approved; {report.run_id} still waits. To approve it: ordain approve {line.plan_id}"])
        return None
    return approve_and_start(session, approved)


def look_on(session: Session, work: Coroutine[Any, Any, RunReport]) -> int:
    """The same for somebody who only looks."""
    return reported(session, _watched(session, work))


def _watched(session: Session, work: Coroutine[Any, Any, RunReport]) -> RunReport:
    with session.view if session.view is not None else contextlib.nullcontext():
        return session.run(work)


def reported(session: Session, report: RunReport, notices: Sequence[Problem] = ()) -> int:
    """Tell how a run stands; the exit status that says the same."""
    notices = (*notices, *warnings(report))
    if session.json:
        commands = after_run(report)
        result = picked(RunResult, report, **run_words(report, commands))
        if (failed := failure(report)) is not None:
            session.refused([*notices, failed], result, next_=commands)
        elif session.interrupted and report.status == "stopped":
            session.refused([*notices, interruption(commands[-1])], result, next_=commands)
        else:
            session.answer(result, problems=notices, next_=commands)
    else:
        # A report that is longer than anybody's screen would take away what stands there.
        many = session.terminal and len(report.steps) > MANY_STEPS
        session.say(["", *run_lines(report, session.style, quiet=many)])
        session.notices(warnings(report))
    return _STATUS.get(report.status, FAILED)


_STATUS = {"completed": FINE, "waiting": WAITING, **dict.fromkeys(("stopped", "stalled", "paused"), INTERRUPTED)}


def watcher(session: Session, *, events: bool = False, as_result: bool = False) -> Observer:
    """Progress, to stderr or, `as_result`, to stdout; with `events`, for robots, what is told itself."""
    session.app.runs.tell = lambda words: session.tell(f"  {session.clean(words)}")
    stream, style = (sys.stdout, session.style) if as_result else (sys.stderr, session.error_style)
    if session.json:
        if not events or session.toon:
            return lambda told: None
        return lambda told: session.tell_robot(to_wire(told) if isinstance(told, Recorded) else told)
    if stream.isatty() and os.environ.get("TERM") != "dumb":
        session.view = LiveView(stream, style, session.app.runs.run_state, colour=style.colour)
        return session.view

    def watch(told: Told) -> None:
        change = change_of(told, style) if isinstance(told, Recorded) else None
        if change is not None:
            click.echo(f"  {change.text}", err=not as_result)

    return watch


def detach(session: Session, words: Sequence[str], begun: Callable[[], RunId | None]) -> int:
    """Give this command to a process in a session of its own; `begun` tells the run once that carries it out."""
    session.refuse_table("a run in the background")
    with contextlib.closing(
        BackgroundProcess(session.app.workspace.workspace_path, words, as_json=session.json)
    ) as background:
        until, run_id, pid = time.monotonic() + BEGINNING_S, None, background.pid
        while run_id is None and time.monotonic() < until:
            if (ended := background.ended()) is not None:
                # It has ended already: what it said is what this command says.
                status, output = ended
                click.echo(output.decode("utf-8", "replace"), nl=False)
                return status
            if (run_id := begun()) is None:
                time.sleep(LOOKING_S)
    told = f"Process {pid} waits in the background until the run can begin; `kill {pid}` gives up waiting."
    result: BegunResult | QueuedResult = QueuedResult(status="waiting_for_place", execution_id=None, pid=pid)
    following = "ordain status"
    if run_id is not None:
        told = f"{run_id} is being carried out in the background."
        result = BegunResult(status="executing", execution_id=run_id, run_id=run_id)
        following = f"ordain watch {run_id}"
    return session.show(result, [told, f"  → {session.style.bold(following)}"], next_=[following])
