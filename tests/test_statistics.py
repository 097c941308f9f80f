"""What `ordain stats` counts is what happened: told of lives that were really lived, and of histories made by hand."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.build import step
from tests.history import replay
from tests.patience import eventually_in_loop
from tests.scenario import KIM, Scenario
from tests.simulation.life import Life, live
from tests.twins.execution import ManualClock
from tests.words import (
    DAY_MS,
    Append,
    Ask,
    AttemptEnded,
    AttemptStarted,
    Continue,
    ContractBroken,
    ContractInconclusive,
    DecisionGiven,
    DoubtFound,
    Escalate,
    Finished,
    Instant,
    Part,
    Records,
    Refused,
    Retry,
    RunEvent,
    RunTally,
    Statistics,
    StepCount,
    StepId,
    StepState,
    Tally,
    measure,
    part_of,
    questions,
)

SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000


def taking(clock: ManualClock, duration_ms: int, exit_code: int = 0, output: str = "") -> Any:
    """A command that takes its time."""

    async def run(command: Any) -> Finished:
        clock.advance(duration_ms)
        data = output.encode()
        return Finished(duration_ms=duration_ms, exit_code=exit_code, output=data, output_bytes=len(data))

    return run


# --- Lives -----------------------------------------------------------------------------------------------------------


@settings(max_examples=15)
@given(st.integers(min_value=0, max_value=10**9))
def test_the_sums_of_any_life_agree_with_its_states_and_its_events(seed: int) -> None:
    sums_agree(seed)


@pytest.mark.slow("many lives")
@settings(max_examples=150)
@given(st.integers(min_value=0, max_value=10**9))
def test_the_sums_of_many_lives_agree_with_their_states_and_their_events(seed: int) -> None:
    sums_agree(seed)


def sums_agree(seed: int) -> None:
    life = live(seed)
    found = measure(life.ledger, Instant(life.world.wall_ms()))
    histories = [
        [(one.at, one.event) for one in life.ledger.read(stream)]
        for stream in life.ledger.streams("run/")
        if life.ledger.read(stream)
    ]
    check_sums(life, found, histories)  # type: ignore[arg-type]


MOMENTS = (st.integers(min_value=0, max_value=10**9), st.integers(min_value=0), st.integers(0, DAY_MS))


@settings(max_examples=10)
@given(*MOMENTS)
def test_at_any_moment_of_any_life_the_parts_of_its_time_add_up(seed: int, cut: int, later: int) -> None:
    parts_add_up(seed, cut, later)


@pytest.mark.slow("many lives")
@settings(max_examples=100)
@given(*MOMENTS)
def test_at_any_moment_of_many_lives_the_parts_of_its_time_add_up(seed: int, cut: int, later: int) -> None:
    parts_add_up(seed, cut, later)


def parts_add_up(seed: int, cut: int, later: int) -> None:
    life = live(seed)
    history = life.history()
    history = history[: cut % len(history) + 1]
    tally, state = Tally(), replay(life.plan, history)
    run = RunTally(tally, life.plan, "a plan")
    for at, event in history:
        run.fold(event, at)
    assert run.state == state
    last = max(at for at, _ in history)
    run.close(Instant(last + later))
    found = tally.statistics(None, Instant(last + later))
    parts = {part_of(record) for record in state.steps.values()}
    waits = later if questions(state) and not parts & {Part.EXECUTING, Part.VERIFYING} else 0
    assert found.time.total_ms == last - history[0][0] + waits
    assert all(spent > 0 for one in found.steps for spent in one.time.parts.values())
    assert all(one.time.total_ms <= found.time.total_ms for one in found.steps)
    assert found.runs.by_status == {state.status or "open": 1}


def check_sums(life: Life, found: Statistics, histories: list[list[tuple[Instant, RunEvent]]]) -> None:
    records = Records(life.ledger)
    states = [replay(records.run(history[0][1].run_id)[0].plan, history) for history in histories]  # type: ignore[union-attr]
    assert found.runs.by_status == Counter(state.status for state in states)
    assert found.runs.count == sum(found.runs.by_status.values()) == len(states)
    assert found.plans is not None and found.plans.count == sum(found.plans.by_status.values()) == 1

    # Time: each moment of a run is in one part, and no step takes longer than the runs it is in.
    taken = [max(at for at, _ in history) - history[0][0] for history in histories]
    assert found.time.total_ms == sum(found.time.parts.values()) == sum(taken)
    assert found.runs.duration_ms == sum(taken) // len(taken)
    for one in (*found.steps, *found.kinds):
        assert one.time.total_ms == sum(one.time.parts.values())
    assert all(one.time.total_ms <= sum(taken) for one in found.steps)
    for part in Part:
        assert sum(one.time.of(part) for one in found.steps) == sum(one.time.of(part) for one in found.kinds)
    assert all(spent > 0 for one in found.steps for spent in one.time.parts.values())

    # Counts.
    stood = [record for state in states for record in state.steps.values()]
    begun = [event for history in histories for _, event in history if isinstance(event, AttemptStarted)]
    assert found.retries.attempts == len(begun)
    assert (
        sum(one.attempts for one in found.steps) == sum(one.attempts for one in found.kinds) == found.retries.attempts
    )
    passed = [record for record in stood if record.state is StepState.PASSED and not record.kept]
    assert found.retries.passed == len(passed)
    assert found.retries.passed_again == sum(record.attempts > 1 for record in passed)
    assert found.runs.kept == sum(record.kept for record in stood)
    assert sum(found.decisions.answers.values()) == sum(record.decisions for record in stood)
    assert found.decisions.asked >= sum(found.decisions.answers.values())
    assert (found.decisions.waited_ms is None) is not any(found.decisions.answers.values())
    assert found.runs.takeovers == sum(max(state.epoch - 1, 0) for state in states)

    events = [event for history in histories for _, event in history]
    failed = [event for event in events if went_badly(event)]
    assert sum(one.count for one in found.failures) == len(failed)
    for failure in found.failures:
        counts = (sum(failure.then.values()), sum(failure.ended.values()), sum(one.count for one in failure.steps))
        assert counts == (failure.count,) * 3
    assert sum(one.failures for one in found.steps) == len(failed)
    assert found.doubts.found == sum(isinstance(event, DoubtFound) for event in events)
    assert found.doubts.found == sum(found.doubts.settled.values()) + found.doubts.unsettled
    asked_about_doubts = sum(isinstance(event, DecisionGiven) and event.about == "doubt" for event in events)
    settled = found.doubts.settled.items()
    assert sum(count for how, count in settled if how.startswith("person")) == asked_about_doubts


def went_badly(event: RunEvent) -> bool:
    if isinstance(event, AttemptEnded):
        return event.outcome.error is not None and event.to is not StepState.CANCELLED
    if isinstance(event, DecisionGiven):
        return event.outcome is not None and event.outcome.error is not None
    return isinstance(event, ContractBroken | ContractInconclusive)


# --- Where time went -------------------------------------------------------------------------------------------------


def counted(scenario: Scenario, ref: str | None = None, since: Instant | None = None) -> Statistics:
    return measure(scenario.ledger, scenario.clock.now(), ref, since)


def test_time_is_told_by_what_it_was_spent_on():
    life = Scenario(step("build", contract="look"), step("push", on_failure=Escalate()))
    clock = life.clock
    life.script(build=taking(clock, 10 * SECOND), push=taking(clock, 2 * SECOND, exit_code=1))
    life.shell.script["look"] = taking(clock, 5 * SECOND)
    life.approve().run()
    assert life.status() == "waiting"
    clock.advance(HOUR)
    assert counted(life).time.parts[Part.PERSON] == HOUR, "an open question is counted until now"
    life.script(push=taking(clock, 3 * SECOND)).answer("push", "retry")
    clock.advance(MINUTE)
    life.resume().expect(push="passed")

    found = counted(life)
    assert found.time.parts == {
        Part.EXECUTING: 15 * SECOND,
        Part.VERIFYING: 5 * SECOND,
        Part.PERSON: HOUR,
        Part.STOPPED: MINUTE,
    }
    assert found.runs.duration_ms == found.time.total_ms == HOUR + MINUTE + 20 * SECOND
    push, build = found.steps
    assert (push.id, push.time.parts) == ("push", {Part.EXECUTING: 5 * SECOND, Part.PERSON: HOUR})
    assert (build.id, build.time.parts) == ("build", {Part.EXECUTING: 10 * SECOND, Part.VERIFYING: 5 * SECOND})
    assert (found.decisions.answers, found.decisions.waited_ms) == ({"retry": 1}, HOUR)


def test_time_in_which_a_step_was_at_work_is_that_also_when_a_person_answers_about_another():
    life = Scenario(step("ask", on_failure=Escalate()), step("work", needs=()), concurrency=2).script(ask=1)

    async def work(command: Any) -> Finished:
        await eventually_in_loop(lambda: life.states()["ask"] == "escalated", "the question", every_s=0)
        life.clock.advance(10 * MINUTE)
        await life.new_app().answers.answer(f"{life.run_id()}/ask", "skip", KIM)
        await eventually_in_loop(lambda: life.states()["ask"] == "skipped", "the answer", every_s=0)
        life.clock.advance(5 * MINUTE)
        return Finished(duration_ms=15 * MINUTE, exit_code=0)

    life.script(work=work).approve().run().expect(ask="skipped", work="passed")
    found = counted(life)
    assert found.time.parts == {Part.EXECUTING: 15 * MINUTE}
    times = {one.id: one.time.parts for one in found.steps}
    assert times == {"ask": {Part.PERSON: 10 * MINUTE}, "work": {Part.EXECUTING: 15 * MINUTE}}


def test_the_delay_before_a_retry_is_waiting():
    life = Scenario(step("fetch", on_failure=Retry(max_attempts=2, initial_delay_ms=30 * SECOND)))
    answers = iter([taking(life.clock, SECOND, exit_code=1), taking(life.clock, SECOND)])
    life.script(fetch=lambda command: next(answers)(command)).approve().run().expect(fetch="passed")
    found = counted(life)
    assert found.time.parts == {Part.EXECUTING: 2 * SECOND, Part.WAITING: 30 * SECOND}
    assert (found.retries.attempts, found.retries.passes_by_attempts) == (2, {2: 1})
    (failure,) = found.failures
    assert (failure.code, failure.then, failure.ended) == ("F_STEP_FAILED", {"retried": 1}, {"passed": 1})


def test_what_a_dead_executor_did_not_record_is_nobodys_time():
    life = Scenario(step("send"), step("tidy")).approve().crash_at(6).run()
    assert life.crashed
    life.clock.advance(3 * DAY_MS)
    life.resume()
    found = counted(life)
    assert (found.doubts.found, found.runs.takeovers) == (1, 1)
    assert found.time.parts == {Part.STOPPED: 3 * DAY_MS}
    life.clock.advance(HOUR)
    life.answer("send", "happened").resume()
    found = counted(life)
    assert found.time.parts == {Part.STOPPED: 3 * DAY_MS, Part.PERSON: HOUR}
    assert (found.doubts.settled, found.doubts.unsettled) == ({"person: happened": 1}, 0)


def test_a_clock_that_is_set_back_takes_no_time_away():
    life = Scenario(step("a"), step("b"))
    life.script(a=taking(life.clock, MINUTE), b=taking(life.clock, -HOUR)).approve().run().expect(b="passed")
    assert counted(life).time.parts == {Part.EXECUTING: MINUTE}


# --- What went wrong -------------------------------------------------------------------------------------------------


def test_failures_are_told_by_cause_and_by_what_came_of_them():
    life = Scenario(
        step("a", on_failure=Continue()),
        step("b", needs=(), contract="never", on_failure=Escalate()),
        step("c", needs=(), on_failure=Escalate()),
        concurrency=1,
    )
    life.script(a=1, c=1).shell.script["never"] = 1
    life.approve().run()
    life.answer("c", "pass").answer("b", "skip").resume()
    found = counted(life)
    assert [(one.code, one.then, one.ended) for one in found.failures] == [
        ("F_STEP_FAILED", {"escalated": 1, "failed": 1}, {"failed": 1, "passed by decision": 1}),
        ("F_CONTRACT_BROKEN", {"escalated": 1}, {"skipped": 1}),
    ]
    assert found.failures[1].steps == (StepCount(plan="A plan", step=StepId("b"), count=1),)
    assert found.runs.by_status == {"failed": 1}
    assert found.decisions.answers == {"pass": 1, "skip": 1}


def test_programs_that_are_missing_are_named_where_that_can_be_told():
    life = Scenario(
        step("named", on_failure=Continue()),
        step("unnamed", needs=(), on_failure=Continue()),
        step("checked", needs=(), contract="shellcheck x", on_failure=Continue()),
        step("direct", needs=(), tool="exec", args={"argv": ["gh", "pr", "view"]}, on_failure=Continue()),
    )
    said = "bash: line 1: jq: command not found\n"
    life.script(named=taking(life.clock, 1, 127, said), unnamed=taking(life.clock, 1, 126))
    life.shell.script["shellcheck x"] = taking(life.clock, 1, 127, "bash: line 1: shellcheck: command not found\n")
    fault = "[Errno 2] No such file or directory: 'gh'"
    life.shell.script["gh pr view"] = Finished(duration_ms=1, fault=fault)
    life.approve().run()
    missing = {one.program: (one.commands, one.contracts) for one in counted(life).missing}
    assert missing == {"jq": (1, 0), None: (1, 0), "shellcheck": (0, 1), "gh": (1, 0)}


def test_a_contract_that_did_not_hold_and_then_did_is_told():
    life = Scenario(step("a", contract="moody", on_failure=Retry(max_attempts=3)))
    answers = iter([1, 1, 0])
    life.shell.script["moody"] = lambda command: taking(life.clock, 1, next(answers))(command)
    life.approve().run().expect(a="passed")
    (contract,) = counted(life).contracts
    assert (contract.held, contract.broken, contract.held_after_retry, contract.held_same_attempt) == (1, 2, 1, 0)


# --- Plans -----------------------------------------------------------------------------------------------------------


def test_how_plans_end_and_how_long_people_take():
    life = Scenario(step("a")).prepare()
    life.clock.advance(10 * MINUTE)
    life.approve().run()
    asyncio.run(life.app.plans.archive(str(life.plan_id), KIM))
    plans = counted(life).plans
    assert plans is not None
    assert (plans.by_status, plans.archived) == ({"completed": 1}, 1), "put away, and still completed"
    assert (plans.tried, plans.completed_at_first, plans.to_approval_ms) == (1, 1, 10 * MINUTE)
    assert (plans.runs_approved, plans.runs_unasked, plans.approvals) == (1, 0, {"used": 1})


def test_the_time_to_approval_begins_anew_when_a_plan_is_proposed_again():
    life = Scenario(step("a")).prepare()
    asyncio.run(life.app.plans.reject(str(life.plan_id), KIM, "not today"))
    life.clock.advance(HOUR)
    life.prepare()
    life.clock.advance(MINUTE)
    life.approve()
    plans = counted(life).plans
    assert plans is not None and plans.to_approval_ms == MINUTE


def test_a_plan_that_nobody_decided_about_in_time_has_expired():
    life = Scenario(step("a")).prepare()
    life.clock.advance(400 * DAY_MS)
    plans = counted(life).plans
    assert plans is not None and (plans.by_status, plans.expiries) == ({"expired": 1}, 1)


def test_rejections_are_counted_and_an_approval_that_ends_with_one_was_not_used():
    life = Scenario(step("a")).approve()
    asyncio.run(life.app.plans.reject(str(life.plan_id), KIM, "not so"))
    plans = counted(life).plans
    assert plans is not None
    assert (plans.by_status, plans.rejections, plans.approvals) == ({"rejected": 1}, 1, {"revoked": 1})


# --- What is looked at -----------------------------------------------------------------------------------------------


def test_only_what_began_since_is_counted():
    life = Scenario(step("a")).approve().run()
    life.clock.advance(10 * DAY_MS)
    life.prepare().approve().run()
    now = life.clock.now()
    assert counted(life).runs.count == 2
    late = counted(life, since=Instant(now - DAY_MS))
    assert late.plans is not None and (late.plans.count, late.runs.count) == (0, 1)
    assert counted(life, since=Instant(now + 1)).empty


def test_one_plan_or_one_run():
    life = Scenario(step("a")).approve().run()
    first = life.run_id()
    life.approve().run()
    assert counted(life, ref=str(life.plan_id)).runs.count == 2
    one = counted(life, ref=first)
    assert (one.plans, one.runs.count) == (None, 1)


def test_a_history_that_cannot_have_been_is_refused():
    life = Scenario(step("a")).approve().run()
    stream = f"run/{life.run_id()}"
    again = Append(stream=stream, expected=life.ledger.size(stream), events=(life.history()[2][1],))
    asyncio.run(life.ledger.append(life.clock.now(), again))
    with pytest.raises(Refused) as refused:
        counted(life)
    assert refused.value.problems[0].code == "E_LEDGER_BROKEN"


def test_the_time_in_which_a_question_of_the_plan_was_open_was_spent_waiting_for_a_person() -> None:
    life = Scenario(step("which", action=Ask(question="Which?")), step("after")).approve().run()
    life.clock.advance(HOUR)
    life.answer("which", "red").resume()
    found = measure(life.ledger, life.clock.now())
    assert found.time.parts == {Part.PERSON: HOUR}
    assert found.decisions.asked == 1
