"""A crowd: processes that were started once and do the same thing at the same moment, round by round.

Both a module for the tests and the script of the processes.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tests.crash.process import KIM, ROOT, framed, load, receive, run_told, told_of
from tests.words import App, FileWriterLock, Refused, open_at_terminal

__all__ = ["SHARED_EVERY", "Crowd"]

SHARED_EVERY = 20
"""Every so many of its updates, a process of the crowd approves the plan that all share."""


class Crowd:
    """Processes that were started once and do their tasks round by round, all beginning at the same moment."""

    def __init__(self, size: int) -> None:
        pairs = [socket.socketpair() for _ in range(size)]
        self._ours = [ours for ours, _ in pairs]
        theirs = [str(one.fileno()) for _, one in pairs]
        argv = [sys.executable, "-m", "tests.crash.crowd", *theirs]
        self._parent = subprocess.Popen(argv, cwd=ROOT, pass_fds=map(int, theirs), stdin=subprocess.DEVNULL)
        for _, one in pairs:
            one.close()

    def start(self, tasks: Sequence[dict[str, Any]]) -> None:
        """Give each process its task, wait until all are ready, and let them go."""
        for one, task in zip(self._ours, tasks, strict=True):
            one.sendall(framed(task))
        for one in self._ours:
            assert receive(one) == "ready"
        for one in self._ours:
            one.sendall(b"!")

    def end(self, who: Sequence[int]) -> list[dict[str, Any]]:
        """What these processes tell when they are done."""
        return [receive(self._ours[number]) for number in who]

    def close(self) -> None:
        for one in self._ours:
            one.close()
        assert self._parent.wait() == 0


def _gather(descriptors: Sequence[int]) -> None:
    """The parent of a crowd: makes it, and ends when all of it has."""
    for mine in descriptors:
        if os.fork() == 0:
            for other in descriptors:
                if other != mine:
                    os.close(other)
            _stand_by(socket.socket(fileno=mine))
            os._exit(0)
    for descriptor in descriptors:
        os.close(descriptor)
    for _ in descriptors:
        os.wait()


def _stand_by(connection: socket.socket) -> None:
    while (task := receive(connection)) is not None:
        os.environ["ORDAIN_HOME"] = task["home"]
        task["conflicts"] = 0
        result = told_of(lambda task=task: _task(task, connection))
        connection.sendall(framed({"conflicts": task["conflicts"], **result}))


async def _task(task: dict[str, Any], connection: socket.socket) -> dict[str, Any]:
    app = open_at_terminal(task["workspace"], exact=True)
    try:
        app.plans.all()  # opens the ledger, so that nothing but the task is left to do
        connection.sendall(framed("ready"))
        connection.recv(1)
        match task["task"]:
            case "commit":
                if task["lock"] is not None:
                    lock = FileWriterLock(lambda: Path(task["lock"]), "")
                    app = App(msgspec.structs.replace(app.ports, lock=lock))
                _count_conflicts(app, task)
                preparation = None
                if task["prepares"]:
                    preparation = (await app.plans.prepare_plan(app.plans.stored(task["plan"]).plan, KIM)).preparation
                return run_told(await app.runs.commit(task["plan"], KIM, preparation=preparation))
            case "update":
                return await _update(app, task["own"], task["shared"], task["times"])
            case "read":
                return _read_on(app, Path(task["until"]))
            case other:
                raise ValueError(other)
    finally:
        await app.close()


def _count_conflicts(app: App, task: dict[str, Any]) -> None:
    """How often something was recorded between a look and the append that was decided from it."""
    ledger = app.ports.ledger.open()
    append = ledger.append

    async def counted(*args: Any) -> Any:
        try:
            return await append(*args)
        except Refused as refused:
            task["conflicts"] += refused.problems[0].code == "E_LEDGER_CONFLICT"
            raise

    ledger.append = counted  # type: ignore[method-assign]


async def _update(app: App, own: str, shared: str, times: int) -> dict[str, Any]:
    """Approve and revoke in turn; what others were faster with is tried again."""
    given: list[str] = []
    retries = 0
    for number in range(times):
        if number % SHARED_EVERY == SHARED_EVERY - 1:
            while True:
                try:
                    given.append((await app.approvals.approve(shared, KIM)).approval_id)
                    break
                except Refused as refused:
                    assert refused.problems[0].code == "E_PLAN_STALE_BASE", refused
                    retries += 1
        elif (number - number // SHARED_EVERY) % 2 == 0:
            given.append((await app.approvals.approve(own, KIM)).approval_id)
        else:
            await app.approvals.revoke(own, KIM)
    return {"status": 0, "given": given, "retries": retries}


def _read_on(app: App, until: Path) -> dict[str, Any]:
    """Look again and again: all that was seen once must be seen again, with more after it."""
    ledger, looks = app.ports.ledger.open(), 0
    heads: dict[str, list[str]] = {}
    while not until.exists():
        looks += 1
        for stream in ledger.streams(""):
            found = heads.setdefault(stream, [])
            if found:
                assert ledger.read(stream, len(found) - 1)[0].head == found[-1], f"{stream} has changed"
            found += [one.head for one in ledger.read(stream, len(found))]  # reading verifies the chain
        size, _ = ledger.checkpoint()
        assert size >= sum(map(len, heads.values()))
        app.plans.all()
        time.sleep(0.05)  # readers that never rest would only show how little is left for the writers
    return {"status": 0, "looks": looks, "seen": sum(map(len, heads.values()))}


if __name__ == "__main__":
    load()
    _gather([int(word) for word in sys.argv[1:]])
