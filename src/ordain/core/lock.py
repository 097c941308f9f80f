"""Named locks: who holds one, and what that means for a step that has come to it.

A lock is a stream of its own (`lock/NAME`), and whoever appends to it says how many events they saw there, so of many
runs one gets it. The invariant: a lock is taken when it is free and given back by the run that holds it, nothing else.
Locks are between runs; within a run, steps are kept apart by what they need.
"""

from __future__ import annotations

import msgspec

from ordain.core.action import AcquireLock, ReleaseLock
from ordain.core.event import LockEvent, LockReleased, LockTaken
from ordain.core.model import Plan, all_steps
from ordain.core.outside import Found, badly, waits, well
from ordain.core.run_state import IllegalTransition, RunState
from ordain.core.value import Instant, RunId, StepId

__all__ = ["LockState", "apply_lock", "at_lock", "locks_of", "stream_of"]

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


def at_lock(state: RunState, step_id: StepId, lock: LockState, now: Instant) -> Found | None:
    """What a step that takes a lock or gives one back finds; None where it waits as before."""
    action, run_id = state.step(step_id).action, state.run_id
    match action:
        case ReleaseLock() if lock.holder == run_id:
            reason = f"{step_id} gave it back"
            return well(state, step_id, now, LockReleased(lock=lock.name, run_id=run_id, reason=reason))
        case ReleaseLock():
            whose = f"{lock.holder} does" if lock.holder is not None else "nobody does"
            detail = f"this run does not hold the lock `{lock.name}`; {whose}"
            return badly(state, step_id, now, "F_STEP_FAILED", detail)
        case AcquireLock() if lock.holder is None:
            return well(state, step_id, now, LockTaken(lock=lock.name, run_id=run_id, step=step_id))
        case AcquireLock() if lock.holder == run_id:
            return well(state, step_id, now)
        case AcquireLock(timeout_ms=timeout_ms):
            return waits(state, step_id, now, f"the lock `{lock.name}`, which {lock.holder} holds", timeout_ms)
        case _:
            raise AssertionError(f"{step_id} has nothing to do with a lock")
