"""What one run records: the only way to write its events. An event is folded into the state and put into a batch, which
`flush` makes durable in one append together with the exact results that it names. Tasks do not fold: they post a
report, which becomes an event against the state as it is when the loop reads it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator

from ordain.core.ledger import chain
from ordain.core.plan.value import Instant, StepId
from ordain.core.run.event import ExecutorStarted, Recorded, RunCancelled, RunEnded, RunEvent, RunFinished
from ordain.core.run.run_state import RunState
from ordain.core.run.state import apply
from ordain.core.text.problem import Refused
from ordain.ports.ledger import Append, Artifact, Ledger, Observer
from ordain.ports.machine import Clock
from ordain.records.conflict import conflicts, is_conflict
from ordain.records.records import Records

Report = Callable[[Instant], RunEvent | None]
"""What a task has seen, to be made into an event against the state as it is when the report is read."""
Exact = bytes | Artifact


class Journal:
    """The events of one run, from the state that was read to those that are about to be written."""

    def __init__(self, state: RunState, head: str, *, ledger: Ledger, clock: Clock) -> None:
        self.state, self.ledger, self.records = state, ledger, Records(ledger)
        self.observers: tuple[Observer, ...] = ()
        self.folded: Callable[[RunEvent], None] = lambda event: None
        self.closed = False
        self.now = clock.now()
        """The instant of this turn: everything folded and appended in it bears this time."""
        self._head, self._clock = head, clock
        self._batch: list[RunEvent] = []
        self._keeps: list[bytes] = []
        self._artifacts: list[Artifact] = []
        """Exact results that are to be kept with the batch, and long ones."""
        self._fresh: dict[str, Exact] = {}
        """Both, by the seals that the batch names them with: later steps may refer to them in this very turn."""
        self._held: dict[StepId, Exact] = {}
        self._beside: dict[StepId, bytes] = {}
        """The results of attempts that are not yet recorded as ended, and what is kept beside them."""
        self._waiters: list[asyncio.Future[None]] = []
        self._reports: asyncio.Queue[Report] = asyncio.Queue()

    def tick(self) -> Instant:
        self.now = self._clock.now()
        return self.now

    def fold(self, event: RunEvent, keeps: tuple[bytes, ...] = ()) -> None:
        """Fold an event into the state, and put it and what is kept with it into the batch."""
        apply(self.state, event, self.now)
        self._batch.append(event)
        self._keeps += keeps
        self.folded(event)

    async def flush(self) -> None:
        """Make the batch durable in one append, then tell observers and whoever waits for it."""
        if self._batch:
            events, self._batch = tuple(self._batch), []
            await self._write(events, self.state.size - len(events))

    async def write(self, event: RunEvent, keeps: tuple[bytes, ...] = ()) -> None:
        """From the loop: record this event at once."""
        self.fold(event, keeps)
        await self.flush()

    async def write_with(self, event: RunEvent, change: Append) -> None:
        """With an empty batch: record this event and a change of another stream, or neither."""
        await self._write((event,), self.state.size, change)
        apply(self.state, event, self.now)

    async def record(self, *events: RunEvent, keeps: tuple[bytes, ...] = ()) -> None:
        """From inside a task: have the loop record these events in one append, and return when they are durable."""
        if self.closed:
            raise asyncio.CancelledError
        durable = asyncio.get_running_loop().create_future()

        def report(now: Instant) -> RunEvent:
            for event in events[:-1]:
                self.fold(event)
            self._waiters.append(durable)
            self._keeps += keeps
            return events[-1]

        self.post(report)
        await durable

    async def _write(self, events: tuple[RunEvent, ...], expected: int, *also: Append) -> None:
        keeps, self._keeps = tuple(self._keeps), []
        artifacts = tuple(self._artifacts)
        waiters, self._waiters = self._waiters, []
        first, epoch = isinstance(events[0], ExecutorStarted), self.state.epoch
        append = Append(
            stream=f"run/{self.state.run_id}",
            expected=expected,
            events=events,
            epoch=None if first else epoch,
            new_epoch=epoch if first else None,
            keeps=keeps,
            artifacts=artifacts,
        )
        recorded = (await self._append(append, *also))[: len(events)]
        del self._artifacts[: len(artifacts)]  # not before: until now they may still need room
        self._fresh.clear()
        self._head = recorded[-1].head
        for durable in waiters:
            if not durable.done():
                durable.set_result(None)
        for one in recorded:
            for observe in self.observers:
                with contextlib.suppress(Exception):
                    observe(one)

    async def _append(self, append: Append, *also: Append) -> tuple[Recorded, ...]:
        """Append a batch; one that finishes the run carries the lineage's commitment to its head, and returns locks."""
        last, lineage, ending = append.events[-1], self.state.lineage, None
        if isinstance(last, RunFinished | RunCancelled):
            head = chain.head_after(self._head, append.stream, append.expected, append.events, self.now)
            ending = RunEnded(run_id=self.state.run_id, status=last.status, head=head)
            also = self.records.giving_back(self.state, last.status)
        overtaken = conflicts()
        while True:
            size = self.ledger.size(lineage) if ending is not None else 0
            said = (Append(stream=lineage, expected=size, events=(ending,)),) if ending is not None else ()
            try:
                return await self.ledger.append(self.now, append, *said, *also)
            except Refused as refused:
                # Another process holds the file: the one error after which trying again is safe.
                if refused.problems[0].code == "E_LEDGER_BUSY":
                    continue
                # Somebody prepared or approved this plan again just now: only the lineage moved on, so try again.
                if not is_conflict(refused) or not said or self.ledger.size(lineage) == size:
                    raise
                next(overtaken)

    def post(self, report: Report) -> None:
        self._reports.put_nowait(report)

    def look_again(self) -> None:
        """Have the loop take another turn, whether or not anything is under way."""
        self.post(lambda now: None)

    def fail(self, error: Exception) -> None:
        """End the loop with this error."""

        def report(now: Instant) -> RunEvent:
            raise error

        self.post(report)

    @property
    def has_reports(self) -> bool:
        return not self._reports.empty()

    async def collect(self) -> None:
        """Wait for at least one report and fold everything that has arrived."""
        await asyncio.sleep(0)  # what ends at once does so now, and this goes on in the same turn of the event loop
        self.fold_reports(await self._reports.get())

    def fold_reports(self, *reports: Report) -> None:
        """Fold these reports and all others that have arrived."""
        arrived = [*reports, *self.drain()]
        if not self._batch:  # what is in it was folded with its time, and is appended with the same
            self.tick()
        for report in arrived:
            event = report(self.now)
            if event is not None:
                self.fold(event)

    def drain(self) -> list[Report]:
        """Take every report that has arrived."""
        return [self._reports.get_nowait() for _ in range(self._reports.qsize())]

    def hold(self, step_id: StepId, exact: Exact) -> None:
        """Hold the exact result of an attempt until its end is recorded."""
        self._held[step_id] = exact

    def hold_beside(self, step_id: StepId, exact: bytes) -> None:
        """The same of what is kept beside it."""
        self._beside[step_id] = exact

    def keep(self, step_id: StepId, seal: str) -> None:
        """Have the exact result of a step kept with the event that names its seal; one that was stopped has none."""
        exact, beside = self._held.pop(step_id, None), self._beside.pop(step_id, None)
        if beside is not None:
            self._keeps.append(beside)
        if seal and exact is not None:
            self._fresh[seal] = exact
            if isinstance(exact, bytes):
                self._keeps.append(exact)
            else:
                self._artifacts.append(exact)

    def kept(self, seal: str) -> bytes | None:
        """The exact bytes of this seal, recorded or about to be."""
        fresh = self._fresh.get(seal)
        return fresh if isinstance(fresh, bytes) else self.ledger.kept(seal)

    def artifact(self, seal: str) -> Iterator[bytes] | None:
        """The same of a long one, part by part."""
        fresh = self._fresh.get(seal)
        return fresh.parts() if isinstance(fresh, Artifact) else self.ledger.artifact(seal)

    def has_room(self, size: int) -> bool:
        """Whether an artifact can be kept besides those that are to be and are not yet written."""
        held = [*self._artifacts, *self._held.values()]
        return self.ledger.has_room(size + sum(one.size for one in held if isinstance(one, Artifact)))
