"""Carrying out a run in the foreground: progress while it goes on, the report and the exit status at its end."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import click
import msgspec

from ordain.core.event import (
    AttemptEnded,
    AttemptStarted,
    AttemptWaiting,
    ContractBroken,
    ContractHeld,
    ContractInconclusive,
    DecisionGiven,
    DoubtFound,
    DoubtSettled,
    ProtectedChanged,
    Recorded,
    RunCancelled,
    RunPaused,
    StepKept,
    StepNotKept,
    to_wire,
)
from ordain.core.problem import Place, Problem
from ordain.core.report import Review, RunReport, StepReport
from ordain.interfaces import render, robot
from ordain.interfaces.cli.shell import FAILED, FINE, WAITING, Session
from ordain.ports import Credential, Observer

__all__ = ["approve_and_start", "carry_out", "no_wait", "waiting", "watcher"]

no_wait = click.option("--no-wait", "no_waiting", is_flag=True, help="Refuse where another run is at work.")
"""For commands that carry out a run: otherwise it is waited until there is a place for it."""


def waiting(session: Session, no_waiting: bool) -> Callable[[str], None] | None:
    """What tells that it is waited for a place, where it is."""
    return None if no_waiting else lambda words: click.echo(f"  waiting: {session.clean(words)}", err=True)


def approve_and_start(session: Session, shown: Review, credential: Credential | None) -> int:
    """After a yes: approve what was shown and start the run it permits."""
    waits = waiting(session, no_waiting=False)
    work = session.app.approve_and_commit(shown, session.by, watcher(session), credential=credential, waiting=waits)
    return carry_out(session, work)


def carry_out(session: Session, work: Coroutine[Any, Any, RunReport], notices: Sequence[Problem] = ()) -> int:
    """Do a run's work, watch it, report, and turn how it ended into an exit status."""
    report = session.run(work)
    words = {"completed": "success", "failed": "failed", "waiting": "waiting", "stopped": "stopped"}
    commands = [f"ordain answer {question.item}" for question in report.questions]
    if report.status in ("stopped", "stalled", "paused"):
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
    return _STATUS.get(report.status, FAILED)


_STATUS = {"completed": FINE, "waiting": WAITING, "stopped": 130, "stalled": 130, "paused": 130}


def _failure(report: RunReport, step: StepReport | None) -> Problem:
    """What a failed run is refused with: the first step that did not get through."""
    if step is None or step.error is None:
        return Problem(code="F_STEP_FAILED", detail="The run ended with steps that did not pass.")
    return Problem(code=step.error, detail=f"`{step.id}`: {step.evidence}", where=Place(step=step.id))


def watcher(session: Session, *, events: bool = False, as_result: bool = False) -> Observer:
    """Progress: one line a change for people, to stderr or, `as_result`, to stdout; with `events`, the events
    themselves to stdout for robots."""
    style = session.style if as_result else session.error_style

    def watch(recorded: Recorded) -> None:
        if session.json:
            if events:
                click.echo(robot.to_json(to_wire(recorded)).decode())
            return
        event = recorded.event
        match event:
            case RunPaused():
                text = f"{style.warn('‖')} paused by {render.visible(event.by.name)}{_why(event.reason)}"
            case RunCancelled():
                text = f"{style.bad('✗')} {event.status}, by {render.visible(event.by.name)}{_why(event.reason)}"
            case StepKept():
                how = "contract holds" if event.evidence is not None else "not looked at again"
                text = f"{style.good('✓')} {event.step}: kept from the run before, {how}"
            case StepNotKept():
                seen = f"contract {event.evidence.verdict.value}, {render.visible(event.evidence.detail)}"
                text = f"{style.warn('↻')} {event.step}: {seen}; it is run again"
            case AttemptStarted():
                again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
                text = f"▸ {event.step}{again}"
            case AttemptWaiting():
                text = f"◌ {event.step}: waits for {render.visible(event.reason)}"
            case DecisionGiven():
                text = f"{style.warn('◆')} {event.step}: {render.visible(event.by.name)} said {_said(event)}"
            case AttemptEnded() if event.outcome.error is not None:
                text = f"{style.bad('✗')} {event.step}: {render.visible(event.outcome.detail)}{_then(recorded, event)}"
            case AttemptEnded() if event.to.value == "passed":
                text = f"{style.good('✓')} {event.step} ({render.duration(event.outcome.duration_ms)})"
            case ContractHeld():
                text = f"{style.good('✓')} {event.step}: contract held"
            case ContractBroken() | ContractInconclusive():
                verdict = f"contract {event.evidence.verdict.value}, {render.visible(event.evidence.detail)}"
                text = f"{style.bad('✗')} {event.step}: {verdict}{_then(recorded, event)}"
            case ProtectedChanged():
                text = f"{style.warn('!')} protected: {render.visible(', '.join(event.files))}; put back"
            case DoubtFound() if event.settle.value == "person":
                text = f"{style.warn('?')} {event.step} is in doubt: {event.reason}"
            case DoubtSettled():
                text = f"{style.warn('↻')} {event.step}: {event.reason}"
            case _:
                return
        click.echo(f"  {text}", err=not as_result)

    return watch


def _said(event: DecisionGiven) -> str:
    """What a person decided, and where that takes the step."""
    words = event.outcome.output_tail if event.outcome is not None else event.choice
    return f"{render.visible(' '.join(words.split())[:80])} → {event.to.value}"


def _why(reason: str) -> str:
    return f": {render.visible(reason)}" if reason else ""


def _then(recorded: Recorded, event: AttemptEnded | ContractBroken | ContractInconclusive) -> str:
    """What follows a failure, in words."""
    if event.to.value == "pending" and event.not_before is not None:
        wait = event.not_before - recorded.at
        return f"; again in {render.duration(wait)}" if wait else "; again"
    return f" → {event.to.value}"
