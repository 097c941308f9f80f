"""Named locks: who holds one, and what that means for a step that has come to it.

A lock is a stream of its own (`lock/NAME`), and whoever appends to it says how many events they saw there, so of many
runs one gets it. The invariant: a lock is taken when it is free and given back by the run that holds it, nothing else.
Locks are between runs; within a run, steps are kept apart by what they need.
"""

from __future__ import annotations

import msgspec

from ordain.core.action import AcquireLock, ReleaseLock
from ordain.core.event import AttemptEnded, AttemptWaiting, LockEvent, LockReleased, LockTaken, Outcome, StepState
from ordain.core.model import Plan, all_steps
from ordain.core.schedule import ended
from ordain.core.state import IllegalTransition, RunState
from ordain.core.value import Instant, RunId, StepId

__all__ = ["AtLock", "LockState", "apply_lock", "at_lock", "locks_of", "stream_of"]

_PREFIX = "lock/"


class LockState(msgspec.Struct):
    """One lock, folded from its events."""

    name: str
    size: int = 0
    """Events folded so far: what the next append expects."""
    holder: RunId | None = None


def stream_of(name: str) -> str:
    """The stream of a lock."""
    return _PREFIX + name


def apply_lock(state: LockState, event: LockEvent) -> LockState:
    """Fold one event into the state and return it; raises IllegalTransition for what cannot happen, which changes
    nothing."""
    if event.lock != state.name:
        raise IllegalTransition(f"an event of the lock {event.lock} in the stream of {state.name}")
    match event:
        case LockTaken():
            if state.holder is not None:
                raise IllegalTransition(f"{event.run_id} takes the lock {state.name}, which {state.holder} holds")
            state.holder = event.run_id
        case LockReleased():
            if state.holder != event.run_id:
                raise IllegalTransition(f"{event.run_id} gives the lock {state.name} back, and does not hold it")
            state.holder = None
    state.size += 1
    return state


def locks_of(plan: Plan) -> tuple[str, ...]:
    """The locks that a run of this plan may hold."""
    taking = (step.action for step in all_steps(plan) if isinstance(step.action, AcquireLock))
    return tuple(dict.fromkeys(action.lock_name for action in taking))


class AtLock(msgspec.Struct, frozen=True, kw_only=True):
    """What follows for a step that has come to a lock: an event of its run and, where the lock changes hands, one of
    the lock. They stand in one append or not at all."""

    event: AttemptEnded | AttemptWaiting
    change: LockEvent | None = None


def at_lock(state: RunState, step_id: StepId, lock: LockState, now: Instant) -> AtLock | None:
    """What a step that takes a lock or gives one back finds; None where it waits as before."""
    action, run_id = state.step(step_id).action, state.run_id
    match action:
        case ReleaseLock() if lock.holder == run_id:
            reason = f"{step_id} gave it back"
            return _well(state, step_id, now, LockReleased(lock=lock.name, run_id=run_id, reason=reason))
        case ReleaseLock():
            whose = f"{lock.holder} does" if lock.holder is not None else "nobody does"
            return _badly(
                state, step_id, now, "F_STEP_FAILED", f"this run does not hold the lock `{lock.name}`; {whose}"
            )
        case AcquireLock() if lock.holder is None:
            return _well(state, step_id, now, LockTaken(lock=lock.name, run_id=run_id, step=step_id))
        case AcquireLock() if lock.holder == run_id:
            return _well(state, step_id, now, None)
        case AcquireLock():
            return _held(state, step_id, lock, now)
        case _:
            raise AssertionError(f"{step_id} has nothing to do with a lock")


def _held(state: RunState, step_id: StepId, lock: LockState, now: Instant) -> AtLock | None:
    """What follows where another run holds the lock."""
    record = state.steps[step_id]
    reason = f"the lock `{lock.name}`, which {lock.holder} holds"
    until = record.waits_until if record.state is StepState.WAITING else _until(state, step_id)
    if until is not None and until <= now:
        return _badly(state, step_id, now, "F_STEP_TIMEOUT", f"waited in vain for {reason}")
    if record.state is StepState.WAITING and record.waits_for == reason:
        return None
    return AtLock(event=AttemptWaiting(step=step_id, attempt=record.attempts, reason=reason, until=until))


def _until(state: RunState, step_id: StepId) -> Instant:
    """When an attempt that began when this one did waits no longer: the lock's own timeout comes first."""
    step, started = state.step(step_id), state.steps[step_id].started_at
    own = step.action.timeout_ms if isinstance(step.action, AcquireLock) else None
    usual = step.timeout_ms or state.plan.timeout_ms or state.limits_in_force.step_timeout_ms
    return Instant((started or 0) + (own or usual))


def _well(state: RunState, step_id: StepId, now: Instant, change: LockEvent | None) -> AtLock:
    return AtLock(event=_ended(state, step_id, now, None, ""), change=change)


def _badly(state: RunState, step_id: StepId, now: Instant, error: str, detail: str) -> AtLock:
    return AtLock(event=_ended(state, step_id, now, error, detail))


def _ended(state: RunState, step_id: StepId, now: Instant, error: str | None, detail: str) -> AttemptEnded:
    duration_ms = max(now - (state.steps[step_id].started_at or now), 0)
    outcome = Outcome(duration_ms=duration_ms, error=error, detail=detail)
    return ended(state, step_id, outcome, now, stopped=False)
