"""Carrying out a run in the background: the same command in a process of its own, which outlives this one.

This process only waits until the other has begun, or tells how it was refused.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

import click

from ordain.core.value import RunId
from ordain.interfaces.cli.shell import FINE, Session

__all__ = ["detach"]

BEGINNING_S = 5.0
"""How long it is waited for the other process to begin; after that it goes on by itself."""


def detach(session: Session, words: Sequence[str], begun: Callable[[], RunId | None]) -> int:
    """Give this command to a process in a session of its own; `begun` tells the run once that carries it out."""
    session.refuse_forms("a run in the background")
    # -P: a file in the directory that somebody stands in must not take the place of one of Python's own.
    command = [sys.executable, "-P", "-m", "ordain", "-C", session.app.workspace_path, *words]
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(
            [*command, "--json"] if session.json else command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.DEVNULL if session.json else subprocess.STDOUT,
            start_new_session=True,
        )
        until = time.monotonic() + BEGINNING_S
        while child.poll() is None and time.monotonic() < until:
            run_id = begun()
            if run_id is not None:
                return _begun(session, run_id)
            time.sleep(0.02)
        if child.returncode is None:
            return _waits(session, child.pid)
        # It has ended already: what it said is what this command says.
        output.seek(0)
        click.echo(output.read().decode("utf-8", "replace"), nl=False)
        return child.returncode


def _begun(session: Session, run_id: RunId) -> int:
    following = f"ordain watch {run_id}"
    if session.json:
        session.answer({"status": "executing", "execution_id": run_id, "run_id": run_id}, next_=[following])
    else:
        session.say([f"{run_id} is being carried out in the background.", f"  → {session.style.bold(following)}"])
    return FINE


def _waits(session: Session, pid: int) -> int:
    if session.json:
        session.answer({"status": "waiting_for_place", "execution_id": None, "pid": pid}, next_=["ordain status"])
    else:
        session.say(
            [
                f"Process {pid} waits in the background until the run can begin; `kill {pid}` gives up waiting.",
                f"  → {session.style.bold('ordain status')}",
            ]
        )
    return FINE
