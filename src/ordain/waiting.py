"""Steps that have come to something outside of their run: a lock of another run, a signal.

Only what is durable is decided from, and what follows is recorded in one append with it. Whoever waits waits for a
stream of the ledger to grow, so whatever happens while nobody looks is found when somebody does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from ordain.core.action import AcquireLock, ReleaseLock
from ordain.core.event import RunEvent, StepState
from ordain.core.lock import at_lock, stream_of
from ordain.core.model import Step
from ordain.core.outside import Found
from ordain.core.problem import Refused
from ordain.core.run_state import RunState
from ordain.core.signal import at_signal, signal_of, stream_of_signal
from ordain.core.value import Instant, StepId
from ordain.ports import Append, Clock, Ledger
from ordain.records import Records

__all__ = ["Waiting", "looks_outside"]


def looks_outside(step: Step) -> bool:
    """Whether all that a step does is to come to something outside of its run."""
    return isinstance(step.action, AcquireLock | ReleaseLock) or signal_of(step) is not None


class _Look(NamedTuple):
    stream: str
    size: int
    """How many events the stream had."""
    found: Found | None


class Waiting:
    """The steps of one run that have come to something outside of it."""

    def __init__(
        self,
        state: RunState,
        *,
        ledger: Ledger,
        clock: Clock,
        tick: Callable[[], Instant],
        fold: Callable[[RunEvent], None],
        record: Callable[[RunEvent, Append], Awaitable[None]],
    ) -> None:
        """`tick` begins a new instant of the loop; `fold` puts an event into its batch; `record` makes one durable at
        once, together with what is appended to another stream."""
        self._state, self._ledger, self._records, self._clock = state, ledger, Records(ledger), clock
        self._tick, self._fold, self._record = tick, fold, record
        self._arrived: list[StepId] = []

    def arrives(self, step_id: StepId) -> None:
        """A step has come there, or should look again."""
        self._arrived.append(step_id)

    def next(self, *, stopping: bool) -> StepId | None:
        """The next step that is to look; one that waits does not where the executor stops."""
        while self._arrived:
            step_id = self._arrived.pop(0)
            state = self._state.steps[step_id].state
            if state is StepState.RUNNING or (state is StepState.WAITING and not stopping):
                return step_id
        return None

    async def look(self, step_id: StepId) -> None:
        """Record what a step finds. Everything before it must be durable."""
        while True:
            stream, size, found = self._look(step_id, self._tick())
            if found is None:
                return
            if found.change is None:
                self._fold(found.event)
                return
            try:
                await self._record(found.event, Append(stream=stream, expected=size, events=(found.change,)))
                return
            except Refused as refused:
                # Another run was quicker; whatever else is wrong is not ours to try again.
                if refused.problems[0].code != "E_LEDGER_CONFLICT" or self._ledger.size(stream) == size:
                    raise

    async def stand_by(self, step_id: StepId, now: Instant) -> None:
        """Wait until a step may find something else, or its time is over."""
        stream, size, found = self._look(step_id, now)
        until = self._state.steps[step_id].waits_until
        if found is not None or until is None:
            return
        change: asyncio.Task[Any] = asyncio.create_task(self._ledger.grown(stream, size))
        alarm: asyncio.Task[Any] = asyncio.create_task(self._clock.sleep_until(until))
        try:
            await asyncio.wait((change, alarm), return_when=asyncio.FIRST_COMPLETED)
            if change.done():
                change.result()  # a ledger that cannot be read ends the loop
        finally:
            change.cancel()
            alarm.cancel()
            await asyncio.gather(change, alarm, return_exceptions=True)

    def _look(self, step_id: StepId, now: Instant) -> _Look:
        step = self._state.step(step_id)
        key = signal_of(step)
        if key is not None:
            signal = self._records.signal(key)
            return _Look(stream_of_signal(key), signal.size, at_signal(self._state, step_id, signal, now))
        assert isinstance(step.action, AcquireLock | ReleaseLock)
        lock = self._records.lock(step.action.lock_name)
        return _Look(stream_of(lock.name), lock.size, at_lock(self._state, step_id, lock, now))
