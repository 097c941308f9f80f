"""What follows a failure: the policy that counts for a step, and where it takes the step."""

from __future__ import annotations

from typing import assert_never

import msgspec

from ordain.core.plan.failure import (
    Abort,
    AskApproval,
    Continue,
    Escalate,
    FailurePolicy,
    Fallback,
    LastPolicy,
    Recover,
    Replan,
    Retry,
    Skip,
)
from ordain.core.plan.value import Instant, StepId
from ordain.core.run.run_state import RunState
from ordain.core.run.spending import BUDGET
from ordain.core.run.step_event import GroupKind, StepState
from ordain.core.text.limit import DAY_MS


class Consequence(msgspec.Struct, frozen=True, kw_only=True):
    """Where a failure takes a step."""

    to: StepState
    not_before: Instant | None = None
    aborts: bool = False
    fallback: tuple[StepId, ...] = ()


def consequence(state: RunState, step_id: StepId, now: Instant) -> Consequence:
    """What the failure policy says after one more attempt of this step went badly."""
    if state.aborting(step_id) is not None:
        return Consequence(to=StepState.FAILED)
    policy = policy_of(state, step_id)
    if isinstance(policy, Retry):
        failures = state.steps[step_id].failures + 1
        if failures < policy.max_attempts:
            return Consequence(to=StepState.PENDING, not_before=Instant(now + _delay_ms(policy, failures - 1)))
    last = last_policy(state, step_id)
    full = not state.has_room(len(state.plan_around(step_id).fallbacks))
    if isinstance(last, Fallback) and (state.steps[step_id].fell_back or full):
        last = _without_fallback(state, step_id)  # once is enough
    return _follows(last)


def _follows(last: LastPolicy) -> Consequence:
    """Where a policy takes a step that is not tried again."""
    match last:
        case Abort():
            return Consequence(to=StepState.FAILED, aborts=True)
        case Skip():
            return Consequence(to=StepState.SKIPPED)
        case Continue():
            return Consequence(to=StepState.FAILED)
        case Fallback(steps=steps):
            return Consequence(to=StepState.WAITING, fallback=steps)
        case Escalate() | AskApproval() | Replan() | Recover():
            # Who decides is a person, who may have a planner propose something (core/report/brief.py).
            return Consequence(to=StepState.ESCALATED)
        case _:
            assert_never(last)


def _without_fallback(state: RunState, step_id: StepId) -> LastPolicy:
    """What follows for a step that its fallback did not help: what its policy says then, else its plan's."""
    last, general = last_policy(state, step_id), _general(state, step_id)
    if isinstance(last, Fallback) and last.then is not None:
        return last.then
    return general.then or Abort() if isinstance(general, Fallback) else general


def _at_last(state: RunState, step_id: StepId) -> LastPolicy:
    """What follows when nothing else is left, fallbacks neither."""
    last = last_policy(state, step_id)
    return _without_fallback(state, step_id) if isinstance(last, Fallback) else last


def after_fallback(state: RunState, step_id: StepId) -> Consequence:
    return _follows(_without_fallback(state, step_id))


def policy_of(state: RunState, step_id: StepId) -> FailurePolicy:
    """The failure policy of a step: its own, its plan's, that of the settings. What fails among fallback steps ends
    them, unless they say otherwise: the plan's policy is what they are part of."""
    return state.step(step_id).on_failure or _around(state, step_id)


def last_policy(state: RunState, step_id: StepId) -> LastPolicy:
    """What follows when a step's tries have run out."""
    policy = policy_of(state, step_id)
    return policy.then or _general(state, step_id) if isinstance(policy, Retry) else policy


def warns(state: RunState, step_id: StepId) -> bool:
    """Whether the policy that skips a step after its failure says that everybody is warned of that."""
    last = _at_last(state, step_id)
    return isinstance(last, Skip) and bool(last.warn)


def _around(state: RunState, step_id: StepId) -> FailurePolicy:
    """The policy of what a step is part of: of a fallback, or an item of one, that it is ended."""
    member = state.members.get(step_id)
    while member is not None and member.kind is GroupKind.ITEMS:
        member = state.members.get(member.parent)
    if member is not None and member.kind is GroupKind.FALLBACK:
        return Abort()
    return state.plan_around(step_id).on_failure or state.limits_in_force.on_failure


def _general(state: RunState, step_id: StepId) -> LastPolicy:
    """The policy of a step's plan for when tries have run out, else abort."""
    policy = _around(state, step_id)
    return policy.then or Abort() if isinstance(policy, Retry) else policy


def _delay_ms(policy: Retry, retries_done: int) -> int:
    longest = DAY_MS if policy.max_delay_ms is None else min(policy.max_delay_ms, DAY_MS)
    try:
        grown = policy.initial_delay_ms * policy.backoff_multiplier**retries_done
        return int(min(grown + policy.increment_ms * retries_done, longest))
    except OverflowError:
        return longest


def why_aborted(state: RunState) -> str:
    """The message of the failure policy that ended the run, where it has one."""
    assert state.aborted_by is not None
    if state.aborted_by == BUDGET:
        return "its budget was reached, and a person ended it"
    last = _at_last(state, state.aborted_by)
    return last.message if isinstance(last, Abort) and last.message else f"{state.aborted_by} ended it"
