"""A lock is what its events add up to, and a step that comes to one goes where that says."""

from typing import Any

import pytest

from ordain.core.plan.action import AcquireLock, ReleaseLock
from ordain.core.plan.failure import Skip
from ordain.core.plan.model import Action
from ordain.core.plan.value import Instant, RunId, StepId
from ordain.core.run.event import ExecutorStarted, LockReleased, LockTaken
from ordain.core.run.run_state import IllegalTransition, RunState
from ordain.core.run.schedule import Start, Stop, WaitOn, decide, keepable, why_waiting
from ordain.core.run.state import apply
from ordain.core.run.step_event import AttemptStarted, AttemptWaiting, StepState
from ordain.core.run.wait import LockState, Settled, apply_lock, locks_of, release_lock, take_lock
from tests.build import plan, step
from tests.core.test_heart import OPENED

NOW, A, OTHER = Instant(1_000_000), StepId("a"), RunId("RUN-2")
MINE = OPENED.run_id
TAKE, GIVE = AcquireLock(lock_name="db", timeout_ms=60_000), ReleaseLock(lock_name="db")


def taken(run_id: RunId = OTHER, lock: str = "db") -> LockTaken:
    return LockTaken(lock=lock, run_id=run_id, step=A)


def released(run_id: RunId = OTHER, lock: str = "db") -> LockReleased:
    return LockReleased(lock=lock, run_id=run_id, reason="r")


def lock(holder: RunId | None) -> LockState:
    return apply_lock(LockState(name="db"), taken(holder)) if holder else LockState(name="db")


def started(action: Action, **fields: Any) -> RunState:
    """A run whose first step has come to its lock."""
    state = RunState(plan(step("a", action=action, **fields), step("b", needs=())))
    apply(state, OPENED, NOW)
    apply(state, ExecutorStarted(epoch=1, pid=1, boot_id="b"), NOW)
    apply(state, AttemptStarted(step=A, attempt=1, key="k"), NOW)
    return state


def at_lock(state: RunState, lock: LockState, now: Instant) -> Settled | None:
    action = state.step(A).action
    if isinstance(action, AcquireLock):
        return take_lock(state, A, lock, now, action.timeout_ms)
    return release_lock(state, A, lock, now)


def found(state: RunState, holder: RunId | None, after_ms: int = 0) -> Settled:
    seen = at_lock(state, lock(holder), Instant(NOW + after_ms))
    assert seen is not None
    return seen


def test_a_lock_is_taken_and_given_back_in_turn():
    state = LockState(name="db")
    for event, holder in ((taken(), OTHER), (released(), None), (taken(MINE), MINE)):
        assert apply_lock(state, event).holder == holder
    assert state.size == 3


@pytest.mark.parametrize(
    ("holder", "event"),
    [
        (OTHER, taken(MINE)),
        (OTHER, taken(OTHER)),
        (OTHER, released(MINE)),
        (None, released(OTHER)),
        (None, taken(lock="another")),
        (OTHER, released(lock="another")),
    ],
)
def test_what_cannot_happen_is_refused_and_changes_nothing(holder, event):
    state = lock(holder)
    with pytest.raises(IllegalTransition):
        apply_lock(state, event)
    assert state == lock(holder)


def test_the_locks_of_a_plan_are_those_that_it_takes():
    takes = [step(name, action=AcquireLock(lock_name=name[0])) for name in ("x1", "y", "x2")]
    assert locks_of(plan(*takes, step("z", action=GIVE))) == ("x", "y")


def test_a_free_lock_is_taken_and_one_that_is_ours_is_ours():
    seen = found(started(TAKE), None, 7)
    assert (seen.event.to, seen.change) == (StepState.PASSED, LockTaken(lock="db", run_id=MINE, step=A))  # type: ignore[union-attr]
    assert seen.event.outcome.duration_ms == 7  # type: ignore[union-attr]
    seen = found(started(TAKE), MINE)
    assert (seen.event.to, seen.change) == (StepState.PASSED, None)  # type: ignore[union-attr]


def test_a_lock_with_a_contract_is_taken_first_and_judged_then():
    seen = found(started(TAKE, contract="check"), None)
    assert seen.event.to is StepState.VERIFYING and seen.change is not None  # type: ignore[union-attr]


def test_for_a_lock_of_another_run_it_is_waited_until_an_instant():
    state = started(TAKE)
    wait = AttemptWaiting(step=A, attempt=1, reason="the lock `db`, which RUN-2 holds", until=Instant(NOW + 60_000))
    assert found(state, OTHER, 5) == Settled(event=wait)
    apply(state, wait, NOW)
    assert why_waiting(state, A, NOW) == "waits for the lock `db`, which RUN-2 holds"
    assert at_lock(state, lock(OTHER), Instant(NOW + 59_999)) is None, "as before: nothing to record"
    third = found(state, RunId("RUN-3"), 9).event
    assert isinstance(third, AttemptWaiting) and third.until == wait.until and "RUN-3" in third.reason
    late = found(state, OTHER, 60_000).event
    assert (late.to, late.outcome.error) == (StepState.FAILED, "F_STEP_TIMEOUT")  # type: ignore[union-attr]
    assert found(state, None, 99_999).change is not None, "free is free, however late"


def test_where_the_lock_has_no_timeout_the_steps_counts_and_then_the_settings():
    for fields, limit in (({"timeout_ms": 9}, 9), ({}, 1000)):
        event = found(started(AcquireLock(lock_name="db"), **fields), OTHER).event
        assert isinstance(event, AttemptWaiting) and event.until == NOW + limit


def test_only_what_the_run_holds_is_given_back():
    seen = found(started(GIVE), MINE)
    assert (seen.event.to, seen.change) == (
        StepState.PASSED,
        LockReleased(lock="db", run_id=MINE, reason="a gave it back"),
    )  # type: ignore[union-attr]
    for holder, word in ((OTHER, "RUN-2 does"), (None, "nobody does")):
        seen = found(started(GIVE, on_failure=Skip()), holder)
        assert (seen.event.to, seen.change) == (StepState.SKIPPED, None)  # type: ignore[union-attr]
        assert word in seen.event.outcome.detail  # type: ignore[union-attr]


def test_what_waits_takes_no_place_and_is_ended_by_an_abort():
    state = started(TAKE)
    state.plan = plan(*state.plan.steps, concurrency=1)
    assert decide(state, NOW) == (), "it takes the only place while it is at work"
    apply(state, found(state, OTHER).event, NOW)  # type: ignore[arg-type]
    assert set(decide(state, NOW)) == {WaitOn(A), Start(StepId("b"))}
    state.aborted_by = StepId("b")
    assert decide(state, NOW) == (Stop(A),)


def test_no_step_about_a_lock_is_kept_by_a_rerun():
    state = started(TAKE)
    apply(state, found(state, None).event, NOW)  # type: ignore[arg-type]
    assert state.steps[A].state is StepState.PASSED and keepable(state, StepId("b"), person=True) == ()
