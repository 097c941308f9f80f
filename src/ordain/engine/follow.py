"""Beside the loop: what is told of a run while it goes on, and its step log. Nothing here can disturb the run: it
decides nothing, and what cannot be told or written is not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from ordain.core.plan.value import StepId
from ordain.core.report.progress import AttemptOutput, Told, wire_line
from ordain.core.run.event import Recorded
from ordain.core.text.problem import Refused
from ordain.engine.context import RunContext
from ordain.ports.ledger import Ledger, Observer
from ordain.ports.workspace import StepLogs

LOOK_S = 1.0
OUTPUTS_MAX = 32
"""Of how many attempts it is told at a time: to redact the end of a long output takes a millisecond or two."""
LOG_BYTES_MAX = 64 << 20
OUTPUTS_BYTES_MAX = 16 << 20
"""How long the log may be for the end of an output to be added: its events are worth more."""
_LOOKED_BACK = 64 << 10


class RunFollower:
    """What observers are told of one run besides its events; and the observer that keeps its log."""

    def __init__(self, run: RunContext, observers: Sequence[Observer]) -> None:
        self._run, self._state, self._sink = run, run.state, run.sink
        self.log = StepLog(run.state.run_id, run.journal.ledger, run.ports.logs)
        self._observers = (self.log.observe, *observers)
        self._seen: dict[StepId, _SeenOutput] = {}
        self._looks = 0

    async def follow(self, before: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            before()
            await self.look()

    async def look(self) -> None:
        """Tell what has been written since, and bring the log up to date. The loop goes on in between."""
        self._looks += 1
        for step_id in self._to_tell():
            if (output := self._output(step_id)) is not None:
                for observe in self._observers:
                    with contextlib.suppress(Exception):
                        observe(output)
            await asyncio.sleep(0)
        self.close()

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.log.write()

    def _written(self, step_id: StepId, mark: str, most: int) -> tuple[bytes, int]:
        """The end of what an attempt has written so far, or said where it is a model's, and how much that is."""
        spoken = self._run.spoken.get(step_id)
        if spoken is None:
            return self._run.ports.shell.written(mark, most)
        return bytes(spoken[-most:]) if most else b"", len(spoken)

    def _said(self, step_id: StepId) -> str:
        """How far a call says that it has come that is no command and writes nothing."""
        return self._run.ports.sources.said(self._run.results.key(step_id))

    def _to_tell(self) -> list[StepId]:
        """The steps under way that have written something since; of many, those that were not told of for longest."""
        active = self._state.active
        self._seen = {step_id: seen for step_id, seen in self._seen.items() if step_id in active}
        grown = []
        for step_id in active:
            mark = self._run.mark(step_id)
            size = self._written(step_id, mark, 0)[1] or len(self._said(step_id))
            seen = self._seen.get(step_id, _NOTHING)
            if size and (seen.mark, seen.size) != (mark, size):
                grown.append(step_id)
        return sorted(grown, key=lambda step_id: self._seen.get(step_id, _NOTHING).look)[:OUTPUTS_MAX]

    def _output(self, step_id: StepId) -> AttemptOutput | None:
        mark = self._run.mark(step_id)
        data, size = self._written(step_id, mark, self._sink.looks_back)
        before = self._seen.get(step_id, _NOTHING)
        tail = self._sink.so_far(data, size) if size else self._sink.text(self._said(step_id))
        seen = _SeenOutput(mark, size or len(tail), tail, self._looks)
        self._seen[step_id] = seen
        if not seen.tail or (seen.mark, seen.tail) == (before.mark, before.tail):
            return None
        return AttemptOutput(
            at=self._run.ports.clock.now(),
            stream=f"run/{self._state.run_id}",
            step=step_id,
            attempt=self._state.steps[step_id].attempts,
            tail=seen.tail,
        )


class _SeenOutput(NamedTuple):
    """An output under way, as it was seen in one look."""

    mark: str
    size: int
    tail: str
    look: int


_NOTHING = _SeenOutput("", 0, "", 0)


class StepLog:
    """One run's log, a projection: every event as `ordain log --json` shows it, and ends of outputs between them."""

    def __init__(self, run_id: str, ledger: Ledger, logs: StepLogs) -> None:
        self._run_id, self._ledger, self._logs = run_id, ledger, logs
        self._pending: list[Told] = []
        self._place: int | None = None
        """Where the next line goes; None before anybody looked, or where the last one could not be written."""
        self._seq = 0

    def observe(self, told: Told) -> None:
        self._pending.append(told)

    def write(self) -> None:
        """Add what was told since; what cannot be written now is taken from the ledger when it can be again."""
        pending, self._pending = self._pending, []
        if self._place is None:
            try:
                self._place, self._seq = self._whole_until()
                missed = self._ledger.read(f"run/{self._run_id}", self._seq)
            except Refused:
                self._place = None
                return
            pending = [*missed, *(told for told in pending if isinstance(told, AttemptOutput))]
        if self._place > OUTPUTS_BYTES_MAX:
            pending = [told for told in pending if isinstance(told, Recorded)]
        lines = b"".join(map(wire_line, pending))
        if not lines or self._place + len(lines) > LOG_BYTES_MAX:
            return
        if self._logs.write(self._run_id, self._place, lines):
            self._place += len(lines)
            self._seq = next((told.seq for told in reversed(pending) if isinstance(told, Recorded)), self._seq)
        else:
            self._place = None

    def _whole_until(self) -> tuple[int, int]:
        """Up to where the log that is there can stay, and the last event in it, which the ledger has too."""
        data, end = self._logs.read(self._run_id, -_LOOKED_BACK)
        lines = data.split(b"\n")
        place = end - len(lines.pop())
        for line in reversed(lines):
            try:
                told = msgspec.json.decode(line, type=_ToldEvent)
            except (msgspec.DecodeError, ValueError):
                continue
            recorded = self._ledger.read(f"run/{self._run_id}", told.seq - 1)[:1] if told.seq > 0 else ()
            return (place, told.seq) if recorded and recorded[0].head == told.head else (0, 0)
        return 0, 0


class _ToldEvent(msgspec.Struct):
    """The event that a line of a log is about, if it is about one."""

    seq: int
    head: str
