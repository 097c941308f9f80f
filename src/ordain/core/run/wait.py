"""What follows for a step that has come to something outside of its run: a named lock, a signal.

Each is a stream of its own, and whoever appends says how many events they saw there: of many runs one gets a lock. It
is taken when it is free and given back by the run that holds it, nothing else. While a step waits nothing is at work,
so no crash puts it in doubt; and no restart makes the instant later until when it waits.
"""

from __future__ import annotations

import msgspec

from ordain.core.plan.action import lock_taken
from ordain.core.plan.model import Plan, Step, all_steps
from ordain.core.plan.role import Name, parts
from ordain.core.plan.value import Instant, RunId, StepId
from ordain.core.run.event import LockEvent, LockReleased, LockTaken, SignalGiven
from ordain.core.run.run_state import IllegalTransition, RunState
from ordain.core.run.schedule import ended
from ordain.core.run.step_event import AttemptEnded, AttemptWaiting, Outcome, StepState


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """An event of the run and, where a lock changes hands, one of the lock: in one append or not at all."""

    event: AttemptEnded | AttemptWaiting
    change: LockEvent | None = None


def well(
    state: RunState, step_id: StepId, now: Instant, change: LockEvent | None = None, given: Outcome | None = None
) -> Settled:
    """It has what it came for; `given` is what that gave it."""
    return Settled(event=ended_outside(state, step_id, now, given or Outcome(duration_ms=0)), change=change)


def badly(state: RunState, step_id: StepId, now: Instant, error: str, detail: str) -> Settled:
    """It does not get what it came for."""
    return Settled(event=ended_outside(state, step_id, now, Outcome(duration_ms=0, error=error, detail=detail)))


def waits(state: RunState, step_id: StepId, now: Instant, reason: str, timeout_ms: int | None) -> Settled | None:
    """It waits for `reason`, in words that follow on "waits for", as long as it may; None where it did that already."""
    step, record = state.step(step_id), state.steps[step_id]
    usual = step.timeout_ms or state.plan.timeout_ms or state.limits_in_force.step_timeout_ms
    begun = record.state is not StepState.WAITING
    until = Instant((record.started_at or 0) + (timeout_ms or usual)) if begun else record.waits_until
    if until is not None and until <= now:
        return badly(state, step_id, now, "F_STEP_TIMEOUT", f"waited in vain for {reason}")
    if not begun and record.waits_for == reason:
        return None
    return Settled(event=AttemptWaiting(step=step_id, attempt=record.attempts, reason=reason, until=until))


def ended_outside(state: RunState, step_id: StepId, now: Instant, outcome: Outcome) -> AttemptEnded:
    """The event for a step that waited, or had not to, and now ends so."""
    duration_ms = max(now - (state.steps[step_id].started_at or now), 0)
    outcome = msgspec.structs.replace(outcome, duration_ms=duration_ms)
    return ended(state, step_id, outcome, now, stopped=False)


# --- Lock ------------------------------------------------------------------------------------------------------------

_LOCK_PREFIX = "lock/"


class LockState(msgspec.Struct):
    """One lock, folded from its events."""

    name: str
    size: int = 0
    """Events folded so far: what the next append expects."""
    holder: RunId | None = None


def stream_of(name: str) -> str:
    return _LOCK_PREFIX + name


def apply_lock(state: LockState, event: LockEvent) -> LockState:
    """Fold one event into the state; raises IllegalTransition for what cannot happen, which changes nothing."""
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
    return tuple(dict.fromkeys(name for step in all_steps(plan) if (name := lock_taken(step.action)) is not None))


def take_lock(
    state: RunState, step_id: StepId, lock: LockState, now: Instant, timeout_ms: int | None
) -> Settled | None:
    """What a step that takes a lock finds; None where it waits as before."""
    if lock.holder is None:
        return well(state, step_id, now, LockTaken(lock=lock.name, run_id=state.run_id, step=step_id))
    if lock.holder == state.run_id:
        return well(state, step_id, now)
    return waits(state, step_id, now, f"the lock `{lock.name}`, which {lock.holder} holds", timeout_ms)


def release_lock(state: RunState, step_id: StepId, lock: LockState, now: Instant) -> Settled:
    """What a step that gives a lock back finds."""
    if lock.holder == state.run_id:
        reason = f"{step_id} gave it back"
        return well(state, step_id, now, LockReleased(lock=lock.name, run_id=state.run_id, reason=reason))
    whose = f"{lock.holder} does" if lock.holder is not None else "nobody does"
    return badly(state, step_id, now, "F_STEP_FAILED", f"this run does not hold the lock `{lock.name}`; {whose}")


# --- Signal ----------------------------------------------------------------------------------------------------------
# Anybody may give a signal: it permits nothing. In a run counts what was given after it was opened, told by its place
# in the stream and by no clock, and for every step that waits for it. The newest value counts.

_SIGNAL_PREFIX = "signal/"


class SignalState(msgspec.Struct):
    """One signal, folded from its events."""

    key: str
    size: int = 0
    """How often it was given so far: what the next append expects."""
    newest: SignalGiven | None = None


class SignalAwaited(msgspec.Struct, frozen=True, kw_only=True):
    """A step that waits for a signal."""

    signal: str
    run_id: RunId
    step: StepId
    title: str
    until: Instant | None
    executing: bool
    """Whether somebody carries out its run, who goes on when the signal is given."""


class SignalReport(msgspec.Struct, frozen=True, kw_only=True):
    """A signal that was given, for the how many-th time, and what of it."""

    key: str
    count: int
    heard_by: tuple[RunId, ...]
    """The open runs in which it counts, now or when a step of theirs comes to it."""
    awaited_by: tuple[SignalAwaited, ...]
    """The steps that waited for it."""


def stream_of_signal(key: str) -> str:
    return _SIGNAL_PREFIX + key


def apply_signal(state: SignalState, event: SignalGiven) -> SignalState:
    """Fold one event into the state; raises IllegalTransition for what cannot happen."""
    if event.key != state.key:
        raise IllegalTransition(f"the signal {event.key} in the stream of {state.key}")
    state.newest = event
    state.size += 1
    return state


def signal_of(step: Step) -> str | None:
    """The key of the signal that a step waits for, if it waits for one."""
    return next((part.value for part in parts(step.action, Name) if part.role.kind == "signal"), None)


def signals_of(plan: Plan) -> tuple[str, ...]:
    """The keys of the signals that a run of this plan may wait for."""
    return tuple(dict.fromkeys(key for step in all_steps(plan) if (key := signal_of(step)) is not None))


def at_signal(state: RunState, step_id: StepId, signal: SignalState, now: Instant, timeout_ms: int) -> Settled | None:
    """What a step that waits for a signal finds; None where it waits as before."""
    newest = signal.newest
    if newest is not None and signal.size > state.signals.get(signal.key, 0):
        given = Outcome(
            duration_ms=0,
            output_tail=newest.shown,
            output_bytes=newest.value_bytes,
            output_seal=newest.value_seal,
            output_json=newest.value_json,
        )
        return well(state, step_id, now, given=given)
    return waits(state, step_id, now, f"the signal `{signal.key}` (ordain signal {signal.key})", timeout_ms)
