"""Watches for `acquire_lock` and `release_lock`: the stream of the lock says who holds it."""

from __future__ import annotations

from ordain.core.plan.action import AcquireLock, ReleaseLock
from ordain.core.plan.value import Instant, StepId
from ordain.core.run.wait import release_lock, stream_of, take_lock
from ordain.engine.context import RunContext
from ordain.engine.wait import Look


def look_to_acquire(run: RunContext, action: AcquireLock, step_id: StepId, now: Instant) -> Look:
    lock = run.records.lock(action.lock_name)
    return Look(take_lock(run.state, step_id, lock, now, action.timeout_ms), stream_of(lock.name), lock.size)


def look_to_release(run: RunContext, action: ReleaseLock, step_id: StepId, now: Instant) -> Look:
    lock = run.records.lock(action.lock_name)
    return Look(release_lock(run.state, step_id, lock, now), stream_of(lock.name), lock.size)
