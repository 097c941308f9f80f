"""Ends what takes too long, with one timer for all that is under way: one for each call of a tool costs as much as
everything else that the loop does for it. The invariant: the timer rings no later than the earliest deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

Result = TypeVar("Result")


class Deadlines:
    """The deadlines of one event loop's tasks; a task has one at a time."""

    def __init__(self) -> None:
        self._due: dict[asyncio.Task[object], float] = {}
        self._overdue: set[asyncio.Task[object]] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def within(self, seconds: float, work: Awaitable[Result]) -> Result:
        """What the work comes to. What takes longer is cancelled, and raises TimeoutError when it has ended so."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        due = loop.time() + seconds
        cancelled_before = task.cancelling()
        self._due[task] = due
        if self._timer is None or due < self._timer.when():
            self._set(loop, due)
        try:
            return await work
        except asyncio.CancelledError as cancelled:
            # Whoever else has cancelled it meanwhile is heeded first.
            if task in self._overdue and task.cancelling() - 1 <= cancelled_before:
                raise TimeoutError from cancelled
            raise
        finally:
            self._due.pop(task, None)
            if task in self._overdue:
                self._overdue.remove(task)
                task.uncancel()

    def close(self) -> None:
        """Let go of the timer; nothing is under way any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self.close()
        self._timer = loop.call_at(due, self._ring, loop)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        for task in [task for task, due in self._due.items() if due <= now]:
            del self._due[task]
            self._overdue.add(task)
            task.cancel()
        if self._due:
            self._set(loop, min(self._due.values()))
