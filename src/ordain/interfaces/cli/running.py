"""The commands about runs: run, commit, resume, status, answer, log."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

import click
import msgspec

from ordain.core.event import (
    AttemptEnded,
    AttemptStarted,
    ContractBroken,
    ContractHeld,
    ContractInconclusive,
    DoubtFound,
    DoubtSettled,
    Recorded,
    to_wire,
)
from ordain.core.problem import Place, Problem
from ordain.core.report import Review, RunReport, StepReport
from ordain.interfaces import render
from ordain.interfaces.cli.planning import ask_approval, prepared_value
from ordain.interfaces.cli.shell import FAILED, FINE, REFUSED, WAITING, Session, command, read_document
from ordain.ports import Observer

__all__ = ["answer", "approve_and_start", "commit", "log", "resume", "run", "status"]


@command()
@click.argument("document")
def run(session: Session, document: str) -> int:
    """Check a document, show what it will do, ask for approval if policy wants it, carry it out and report.

    Example: ordain run fix.plan.md
    """
    data, name = read_document(session, document)
    prepared = session.run(session.app.prepare(data, name, session.by))
    review = prepared.review
    if not review.requires_approval:
        session.notices(review.notices)
        work = session.app.commit(review.plan_id, session.by, _watcher(session, events=True))
        return _carry_out(session, work, review.notices)
    if session.json or not session.terminal:
        return _ask_elsewhere(session, prepared_value(prepared), prepared.approval_command or "")
    if not ask_approval(session, review):
        session.say(["Not approved; nothing was run."])
        return REFUSED
    return approve_and_start(session, review)


def _ask_elsewhere(session: Session, value: dict[str, object], command_line: str) -> int:
    problem = Problem(
        code="E_PLAN_APPROVAL_MISSING",
        detail="This plan needs a person's approval, and nobody at a terminal can be asked here.",
        hints=("A person approves and starts it with:",),
        command=f"{command_line} --start",
    )
    session.refused([problem], value)
    return WAITING


def approve_and_start(session: Session, review: Review) -> int:
    """After a yes: approve what was shown and start the run it permits."""
    return _carry_out(session, session.app.approve_and_commit(review, session.by, _watcher(session)))


@command()
@click.argument("plan")
def commit(session: Session, plan: str) -> int:
    """Start the approved run of a plan and carry it out. What runs is what was prepared and approved.

    Example: ordain commit 4f2a9c01b7de
    """
    notices = session.app.review(plan).notices
    session.notices(notices)
    return _carry_out(session, session.app.commit(plan, session.by, _watcher(session)), notices)


@command()
@click.argument("run_ref", metavar="[RUN]", required=False)
def resume(session: Session, run_ref: str | None) -> int:
    """Go on with a run that stopped, was killed, or waited for an answer; by default the only one there is.

    Example: ordain resume
    """
    return _carry_out(session, session.app.resume(run_ref, _watcher(session)))


@command()
def status(session: Session) -> int:
    """Show what runs, what waits for whom, and the command that comes next.

    Example: ordain status
    """
    plans = session.app.plans()
    waiting = [question for line in plans if line.run is not None for question in line.run.questions]
    if session.json:
        commands = [f"ordain answer {question.item}" for question in waiting]
        session.answer(msgspec.to_builtins({"plans": plans}), next_=commands)
    else:
        session.say(render.status_lines(plans, session.style))
    return FINE


@command()
@click.argument("item", metavar="RUN/STEP")
@click.argument("choice")
def answer(session: Session, item: str, choice: str) -> int:
    """Decide what a run asks a person: an escalation, or a step in doubt. `ordain status` lists the choices.

    Example: ordain answer RUN-Q5ZK…/send-mail happened
    """
    session.needs_person("answer this", f"ordain answer {item} {choice}")
    report = session.run(session.app.answer(item, choice, session.by))
    session.say(render.run_lines(report, session.style))
    if not report.questions:
        session.say(["", f"  → {session.style.bold(f'ordain resume {report.run_id}')}"])
    return FINE


@command()
@click.argument("what", metavar="PLAN|RUN")
def log(session: Session, what: str) -> int:
    """Show the ledger's own events about a plan or a run.

    Example: ordain log RUN-Q5ZK…
    """
    events = session.app.log(what)
    if session.json:
        session.answer({"events": [to_wire(recorded) for recorded in events]})
    else:
        session.say(_log_line(recorded) for recorded in events)
    return FINE


def _log_line(recorded: Recorded) -> str:
    wire = to_wire(recorded)
    shown = {key: wire[key] for key in ("step", "attempt", "to", "status", "choice", "run_id", "reason") if key in wire}
    words = "  ".join(f"{key}={render.visible(str(value))}" for key, value in shown.items())
    line = f"{render.instant(recorded.at)}  {recorded.head[:12]} {recorded.seq:>4}  {wire['type']:<21}  {words}"
    return line.rstrip()


def _carry_out(session: Session, work: Coroutine[Any, Any, RunReport], notices: Sequence[Problem] = ()) -> int:
    """Do a run's work, watch it, report, and turn how it ended into an exit status."""
    report = session.run(work)
    words = {"completed": "success", "failed": "failed", "waiting": "waiting", "stopped": "stopped"}
    commands = [f"ordain answer {question.item}" for question in report.questions]
    if report.status == "stopped":
        commands.append(f"ordain resume {report.run_id}")
    if session.json:
        failed = next((step for step in report.steps if step.error is not None), None)
        value = msgspec.to_builtins(report)
        value |= {
            "status": words.get(report.status, report.status),
            "execution_id": report.run_id,
            "error_code": failed.error if failed is not None and report.status != "completed" else None,
            "remediation": commands[0] if commands else None,
        }
        if report.status == "failed":
            session.refused([*notices, _failure(report, failed)], value)
        else:
            session.answer(value, problems=notices, next_=commands)
    else:
        session.say(["", *render.run_lines(report, session.style)])
    return {"completed": FINE, "failed": FAILED, "waiting": WAITING, "stopped": 130}.get(report.status, FAILED)


def _failure(report: RunReport, step: StepReport | None) -> Problem:
    """What a failed run is refused with: the first step that did not get through."""
    if step is None or step.error is None:
        return Problem(code="F_STEP_FAILED", detail="The run ended with steps that did not pass.")
    return Problem(code=step.error, detail=f"`{step.id}`: {step.evidence}", where=Place(step=step.id))


def _watcher(session: Session, *, events: bool = False) -> Observer:
    """Progress: one line a change to stderr for people; with `events`, the events themselves to stdout for robots."""
    style = session.error_style

    def watch(recorded: Recorded) -> None:
        if session.json:
            if events:
                click.echo(msgspec.json.encode(to_wire(recorded)).decode())
            return
        event = recorded.event
        match event:
            case AttemptStarted():
                again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
                text = f"▸ {event.step}{again}"
            case AttemptEnded() if event.outcome.error is not None:
                text = f"{style.bad('✗')} {event.step}: {render.visible(event.outcome.detail)} → {event.to.value}"
            case AttemptEnded() if event.to.value == "passed":
                text = f"{style.good('✓')} {event.step} ({render.duration(event.outcome.duration_ms)})"
            case ContractHeld():
                text = f"{style.good('✓')} {event.step}: contract held"
            case ContractBroken() | ContractInconclusive():
                verdict = f"contract {event.evidence.verdict.value}"
                text = f"{style.bad('✗')} {event.step}: {verdict}, {event.evidence.detail} → {event.to.value}"
            case DoubtFound():
                text = f"{style.warn('?')} {event.step} is in doubt: {event.reason}"
            case DoubtSettled():
                text = f"{style.good('✓')} {event.step}: {event.reason}"
            case _:
                return
        click.echo(f"  {text}", err=True)

    return watch
