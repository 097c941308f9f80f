"""What follows for a step that has come to something outside of its run: a lock, a signal.

It goes on, fails, or waits with an instant until when, which no restart makes later. Nothing is at work meanwhile, so
no crash puts the step in doubt.
"""

from __future__ import annotations

import msgspec

from ordain.core.event import AttemptEnded, AttemptWaiting, LockEvent, Outcome, StepState
from ordain.core.run_state import RunState
from ordain.core.schedule import ended
from ordain.core.value import Instant, StepId

__all__ = ["Found", "badly", "waits", "well"]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What follows for a step: an event of its run and, where a lock changes hands, one of the lock. They stand in one
    append or not at all."""

    event: AttemptEnded | AttemptWaiting
    change: LockEvent | None = None


def well(
    state: RunState, step_id: StepId, now: Instant, change: LockEvent | None = None, given: Outcome | None = None
) -> Found:
    """It has what it came for; `given` is what that gave it."""
    return Found(event=_ended(state, step_id, now, given or Outcome(duration_ms=0)), change=change)


def badly(state: RunState, step_id: StepId, now: Instant, error: str, detail: str) -> Found:
    """It does not get what it came for."""
    return Found(event=_ended(state, step_id, now, Outcome(duration_ms=0, error=error, detail=detail)))


def waits(state: RunState, step_id: StepId, now: Instant, reason: str, timeout_ms: int | None) -> Found | None:
    """It waits for `reason`, in words that follow on "waits for", as long as it may; None where it did that already.
    Without a time of its own it waits as long as the step may take."""
    step, record = state.step(step_id), state.steps[step_id]
    usual = step.timeout_ms or state.plan.timeout_ms or state.limits_in_force.step_timeout_ms
    begun = record.state is not StepState.WAITING
    until = Instant((record.started_at or 0) + (timeout_ms or usual)) if begun else record.waits_until
    if until is not None and until <= now:
        return badly(state, step_id, now, "F_STEP_TIMEOUT", f"waited in vain for {reason}")
    if not begun and record.waits_for == reason:
        return None
    return Found(event=AttemptWaiting(step=step_id, attempt=record.attempts, reason=reason, until=until))


def _ended(state: RunState, step_id: StepId, now: Instant, outcome: Outcome) -> AttemptEnded:
    duration_ms = max(now - (state.steps[step_id].started_at or now), 0)
    outcome = msgspec.structs.replace(outcome, duration_ms=duration_ms)
    return ended(state, step_id, outcome, now, stopped=False)
