"""A run that is watched on a terminal: what of one core the view takes, and what looking at the outputs takes."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import secrets
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, TextIO

from bench.measure import Line, Size
from bench.plans import wide_plan
from ordain.adapters.workspace.clock import WallClock
from ordain.core.approval.approval import WorkspaceIdentity
from ordain.core.plan.canonical import plan_id
from ordain.core.plan.model import Plan
from ordain.core.plan.value import Instant, RunId
from ordain.core.policy.settings import Settings, limits
from ordain.core.report.progress import AttemptOutput, Told
from ordain.core.run.event import ExecutorStarted, Recorded, RunEvent, RunOpened
from ordain.core.run.step_event import AttemptEnded, AttemptStarted, Outcome, StepState
from ordain.core.text.redaction import Redactor
from ordain.engine.follow import RunFollower
from ordain.interfaces.cli.live import LiveView
from ordain.interfaces.view.style import Style
from ordain.records.sink import Sink
from tests.history import replay
from tests.twins.execution import ScriptedShell
from tests.twins.ledger import MemoryLedger
from tests.twins.workspace import MemoryStepLogs

__all__ = ["measure"]

STEPS = 2000
EVENTS_A_SECOND = 200
AT_ONCE = 32
TARGET = 0.1
_RUN = RunId("RUN-BENCHBENCHBENCHB")
_ROWS, _COLUMNS = 50, 160


async def measure(size: Size) -> list[Line]:
    seconds = size.pick(8, 3)
    plan = wide_plan(STEPS, AT_ONCE)
    busy = await _watched(plan, EVENTS_A_SECOND, seconds)
    idle = await _watched(plan, 0, seconds)
    looking = await _looking(plan)
    ours = f"view of {STEPS:,} steps"
    outputs = f"looking at what {AT_ONCE} steps write, once a second"
    return [
        _line(f"{ours}, {EVENTS_A_SECOND} events a second", busy, f"{AT_ONCE} outputs a second besides"),
        _line(f"{ours}, nothing happens", idle, f"{AT_ONCE} of them run"),
        _line(outputs, looking, "64 KiB each, ten secrets known"),
    ]


def _line(ours: str, share: float, note: str) -> Line:
    return Line(
        name="live", ours=ours, ours_s=share, other="one core", other_s=1, ratio=share, target=TARGET, note=note
    )


async def _watched(plan: Plan, events_a_second: int, seconds: int) -> float:
    """Processor time for each second in which a run is shown on a terminal that somebody reads."""
    opened = list(_opened(plan))
    told = list(_told(plan, opened, seconds * events_a_second))
    with _terminal() as stream, LiveView(stream, Style(True), lambda _: replay(plan, opened), colour=True) as view:
        for one in told[:AT_ONCE]:
            view(one)
        before, began = time.process_time(), time.monotonic()
        await _feed(view, told[AT_ONCE:], seconds, began)
        return (time.process_time() - before) / (time.monotonic() - began)


@contextlib.contextmanager
def _terminal() -> Iterator[TextIO]:
    """A terminal to write to, which another process reads."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    reader = subprocess.Popen(["cat"], stdin=master, stdout=subprocess.DEVNULL)
    os.close(master)
    try:
        with os.fdopen(slave, "w", encoding="utf-8") as stream:
            yield stream
    finally:
        reader.terminate()
        reader.wait()


async def _feed(view: LiveView, told: list[Told], seconds: int, began: float) -> None:
    """Tell all of it, spread evenly over these seconds."""
    while (passed := time.monotonic() - began) < seconds:
        for _ in range(min(len(told), round(len(told) / max(seconds - passed, 0.01) * 0.01) or 1) if told else 0):
            view(told.pop(0))
        await asyncio.sleep(0.01)


async def _looking(plan: Plan) -> float:
    """Processor time of one look at what every step under way has written, when all have written more."""
    state, shell = replay(plan, _opened(plan)), ScriptedShell()
    redactor = Redactor({f"SECRET_{number}": secrets.token_urlsafe(24) for number in range(10)})
    ledger = MemoryLedger()
    run: Any = SimpleNamespace(
        state=state,
        ports=SimpleNamespace(shell=shell, clock=WallClock(), logs=MemoryStepLogs()),
        sink=Sink(redactor, ledger.seal),
        journal=SimpleNamespace(ledger=ledger),
        mark=lambda step: f"bench/{step}",
        spoken={},
    )
    following = RunFollower(run, ())
    marks = []
    for step in plan.steps[:AT_ONCE]:
        state.move(step.id, StepState.RUNNING)
        marks.append(run.mark(step.id))
    line = b"2026-01-01 12:00:00 INFO worker: compiled another file of the many that there are\n"
    shell.so_far = dict.fromkeys(marks, line * (70_000 // len(line)))
    rounds, before = 5, time.process_time()
    for _ in range(rounds):
        shell.so_far = {mark: written + line for mark, written in shell.so_far.items()}
        await following.look()
    return (time.process_time() - before) / rounds


def _opened(plan: Plan) -> Iterator[tuple[Instant, RunEvent]]:
    now = Instant(int(time.time() * 1000))
    yield (
        now,
        RunOpened(
            run_id=_RUN,
            plan_id=plan_id(plan),
            lineage="lineage/PLAN-BENCH",
            workspace=WorkspaceIdentity(id="WS-BENCH", path="/bench", device=1, inode=1),
            limits=limits(Settings()),
        ),
    )
    yield now, ExecutorStarted(epoch=1, pid=1, boot_id="bench")


def _told(plan: Plan, opened: list[tuple[Instant, RunEvent]], count: int) -> Iterator[Told]:
    """So many events of a run, one step in twenty failing, and the outputs in between."""
    stream, seq, now = f"run/{_RUN}", len(opened), opened[-1][0]
    under_way = [step.id for step in plan.steps[:AT_ONCE]]
    waiting = iter([step.id for step in plan.steps[AT_ONCE:]])

    def recorded(event: RunEvent) -> Recorded:
        nonlocal seq
        seq += 1
        return Recorded(stream=stream, seq=seq, at=now, event=event, head="")

    for step in under_way:
        yield recorded(AttemptStarted(step=step, attempt=1, key=""))
    for number in range(count // 2):
        ended = under_way.pop(0)
        failed = number % 20 == 0
        outcome = Outcome(duration_ms=160, error="F_STEP_FAILED" if failed else None, detail="exit status 1")
        to = StepState.FAILED if failed else StepState.PASSED
        yield recorded(AttemptEnded(step=ended, attempt=1, outcome=outcome, to=to))
        if (step := next(waiting, None)) is not None:
            under_way.append(step)
            yield recorded(AttemptStarted(step=step, attempt=1, key=""))
        if number % (EVENTS_A_SECOND // 2) == 0:
            for step in under_way:
                tail = "".join(f"line {line} of a thousand\n" for line in range(number, number + 40))
                yield AttemptOutput(at=now, stream=stream, step=step, attempt=1, tail=tail)
