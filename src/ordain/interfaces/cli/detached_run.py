"""Carrying out a run in the background: the same command again, in a process that outlives this one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence

import click

from ordain.core.plan.value import RunId
from ordain.interfaces.background import BEGINNING_S, LOOKING_S, BackgroundProcess
from ordain.interfaces.cli.session import FINE, Session
from ordain.interfaces.robot.results.runs import BegunResult, QueuedResult


def detach(session: Session, words: Sequence[str], begun: Callable[[], RunId | None]) -> int:
    """Give this command to a process in a session of its own; `begun` tells the run once that carries it out."""
    session.refuse_table("a run in the background")
    with contextlib.closing(BackgroundProcess(session.app.workspace_path, words, as_json=session.json)) as background:
        until = time.monotonic() + BEGINNING_S
        while time.monotonic() < until:
            ended = background.ended()
            if ended is not None:
                # It has ended already: what it said is what this command says.
                status, output = ended
                click.echo(output.decode("utf-8", "replace"), nl=False)
                return status
            run_id = begun()
            if run_id is not None:
                return _begun(session, run_id)
            time.sleep(LOOKING_S)
        return _waits(session, background.pid)


def _begun(session: Session, run_id: RunId) -> int:
    following = f"ordain watch {run_id}"
    if session.json:
        session.answer(BegunResult(status="executing", execution_id=run_id, run_id=run_id), next_=[following])
    else:
        session.say([f"{run_id} is being carried out in the background.", f"  → {session.style.bold(following)}"])
    return FINE


def _waits(session: Session, pid: int) -> int:
    if session.json:
        session.answer(QueuedResult(status="waiting_for_place", execution_id=None, pid=pid), next_=["ordain status"])
    else:
        session.say(
            [
                f"Process {pid} waits in the background until the run can begin; `kill {pid}` gives up waiting.",
                f"  → {session.style.bold('ordain status')}",
            ]
        )
    return FINE
