"""Signals from outside: that something has happened which a run waits for, perhaps with a value.

A signal is a stream of its own (`signal/KEY`) to which anybody may add: it permits nothing. The invariant: in a run
counts what was given after it was opened, told by its place in the stream and by no clock; and once it was given, it is
there for every step of that run that waits for it. The newest value is the one that counts.
"""

from __future__ import annotations

import msgspec

from ordain.core.action import WaitFor
from ordain.core.condition import External
from ordain.core.event import Outcome, SignalGiven
from ordain.core.model import Plan, Step, all_steps
from ordain.core.outside import Found, waits, well
from ordain.core.run_state import IllegalTransition, RunState
from ordain.core.value import Instant, StepId

__all__ = ["SignalState", "apply_signal", "at_signal", "signal_of", "signals_of", "stream_of_signal"]

_PREFIX = "signal/"


class SignalState(msgspec.Struct):
    """One signal, folded from its events."""

    key: str
    size: int = 0
    """How often it was given so far: what the next append expects."""
    newest: SignalGiven | None = None


def stream_of_signal(key: str) -> str:
    """The stream of a signal."""
    return _PREFIX + key


def apply_signal(state: SignalState, event: SignalGiven) -> SignalState:
    """Fold one event into the state and return it; raises IllegalTransition for what cannot happen."""
    if event.key != state.key:
        raise IllegalTransition(f"the signal {event.key} in the stream of {state.key}")
    state.newest = event
    state.size += 1
    return state


def signal_of(step: Step) -> str | None:
    """The key of the signal that a step waits for, if it waits for one."""
    action = step.action
    return action.condition.key if isinstance(action, WaitFor) and isinstance(action.condition, External) else None


def signals_of(plan: Plan) -> tuple[str, ...]:
    """The keys of the signals that a run of this plan may wait for."""
    return tuple(dict.fromkeys(key for step in all_steps(plan) if (key := signal_of(step)) is not None))


def at_signal(state: RunState, step_id: StepId, signal: SignalState, now: Instant) -> Found | None:
    """What a step that waits for a signal finds; None where it waits as before."""
    action, newest = state.step(step_id).action, signal.newest
    assert isinstance(action, WaitFor)
    if newest is not None and signal.size > state.signals.get(signal.key, 0):
        given = Outcome(
            duration_ms=0,
            output_tail=newest.shown,
            output_bytes=newest.value_bytes,
            output_seal=newest.value_seal,
            output_json=newest.value_json,
        )
        return well(state, step_id, now, given=given)
    reason = f"the signal `{signal.key}` (ordain signal {signal.key})"
    return waits(state, step_id, now, reason, action.timeout_ms)
