"""Steps that have come to something outside of their run: a lock of another run, a signal. Only what is durable is
decided from, and what follows is recorded in one append with it. A wait is for a stream of the ledger to grow."""

from __future__ import annotations

import asyncio
from typing import Any

from ordain.core.plan.value import Instant, StepId
from ordain.core.run.step_event import StepState
from ordain.core.text.problem import Refused
from ordain.engine.context import RunContext
from ordain.engine.perform.table import WATCHERS, Look
from ordain.ports.ledger import Append
from ordain.records.conflict import conflicts, is_conflict

POLL_MS = 200
"""How long after a look at what nobody tells the next one follows."""


class Waits:
    """The steps of one run that have come to something outside of it."""

    def __init__(self, run: RunContext) -> None:
        self._run, self._state, self._journal, self._ledger = run, run.state, run.journal, run.journal.ledger
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
        overtaken = conflicts()
        while True:
            found, stream, size = self._look(step_id, self._journal.tick())
            if found is None:
                return
            if found.change is None or stream is None:
                self._journal.fold(found.event)
                return
            try:
                change = Append(stream=stream, expected=size, events=(found.change,))
                await self._journal.write_with(found.event, change)
                return
            except Refused as refused:
                # Another run was quicker; whatever else is wrong is not ours to try again.
                if not is_conflict(refused) or self._ledger.size(stream) == size:
                    raise
                next(overtaken)

    async def stand_by(self, step_id: StepId) -> None:
        """Wait until a step may find something else, or its time is over."""
        now = self._journal.now
        found, stream, size = self._look(step_id, now)
        until = self._state.steps[step_id].waits_until
        if found is not None or until is None:
            return
        if stream is None:
            await self._run.ports.clock.sleep_until(min(until, Instant(now + POLL_MS)))
            return
        change: asyncio.Task[Any] = asyncio.create_task(self._ledger.grown(stream, size))
        alarm: asyncio.Task[Any] = asyncio.create_task(self._run.ports.clock.sleep_until(until))
        try:
            await asyncio.wait((change, alarm), return_when=asyncio.FIRST_COMPLETED)
            if change.done():
                change.result()  # a ledger that cannot be read ends the loop
        finally:
            change.cancel()
            alarm.cancel()
            await asyncio.gather(change, alarm, return_exceptions=True)

    def _look(self, step_id: StepId, now: Instant) -> Look:
        action = self._state.step(step_id).action
        return WATCHERS[type(action)](self._run, action, step_id, now)
