"""How often a run may go on by what no person said: every try counts, and a person decides when they are used up."""

import pytest
from msgspec.structs import replace

from tests.build import plan, step
from tests.core.test_lineage import A, fold, prepared, rejected, started
from tests.history import replay
from tests.scenario import ROBOT, Scenario
from tests.words import (
    Escalate,
    Plan,
    PlanId,
    Problem,
    ReplanBegun,
    ReplanEnded,
    RunCommand,
    RunId,
    RunState,
    StepId,
    StepState,
    cause_of,
    causes_of,
    remainder_of,
    replan_fault,
)


def begun(name: str, step_id: str = "e", cause: str = "contract broken 1") -> ReplanBegun:
    return ReplanBegun(replan=name, run_id=RunId("RUN-1"), step=StepId(step_id), cause=cause, by=ROBOT)


def came(name: str, remainder: str = "", error: str = "") -> ReplanEnded:
    return ReplanEnded(replan=name, remainder=remainder, error=error, plan_id=PlanId("plan:x") if remainder else None)


def code(problem: Problem | None) -> str | None:
    return problem.code if problem is not None else None


def test_one_for_each_step_and_cause():
    state = fold(prepared(), started(), begun("R1"), came("R1", "r1"))
    assert code(replan_fault(state, ["e: contract broken 1"])) == "E_REPLAN_LIMIT"
    assert code(replan_fault(state, ["e: contract broken 2"])) is None
    assert code(replan_fault(state, ["f: contract broken 1", "e: contract broken 1"])) == "E_REPLAN_LIMIT"


def test_so_many_for_a_lineage_failed_ones_counted():
    events = [prepared(), started()]
    for number in range(3):
        assert code(replan_fault(fold(*events), ["x: new"])) is None
        events += [begun(f"R{number}", f"s{number}"), came(f"R{number}", error="E_MODEL")]
    assert code(replan_fault(fold(*events), ["x: new"])) == "E_REPLAN_LIMIT"
    assert code(replan_fault(fold(*events), ["x: new"], most=4)) is None
    assert code(replan_fault(fold(prepared(), started()), ["x: new"], most=0)) == "E_REPLAN_LIMIT"


def test_one_that_was_killed_counts_too():
    events = [prepared(), started(), begun("R1"), begun("R2", "f"), begun("R3", "g")]
    assert code(replan_fault(fold(*events), ["x: new"])) == "E_REPLAN_LIMIT"


def test_the_same_remainder_twice_goes_round_in_circles():
    state = fold(prepared(), started(), begun("R1"), came("R1", "r1"))
    assert code(replan_fault(state, ["f: other"], "r1")) == "E_REPLAN_STALLED"
    assert code(replan_fault(state, ["f: other"], "r2")) is None
    assert code(replan_fault(state, ["e: contract broken 1"], "r1", besides="R1")) is None, "its own try"


def test_what_is_counted_stays_counted_through_rejections_and_versions():
    state = fold(prepared(), started(), begun("R1"), came("R1", "r1"))
    later = fold(
        prepared(), started(), begun("R1"), came("R1", "r1"),
        replace(prepared(PlanId("plan:b")), continues=RunId("RUN-1")), rejected(plan=PlanId("plan:b")),
    )  # fmt: skip
    assert later.replans == state.replans and later.plan_id == A


def test_renaming_steps_changes_nothing_about_what_is_left():
    one = plan(step("a", contract="check a"), step("b"), step("c"))
    other = replace(
        one,
        steps=tuple(
            replace(old, id=StepId(f"new-{old.id}"), description="Looks new", needs=()) for old in one.steps
        ),
    )  # fmt: skip

    def left(made: Plan, *kept: StepId) -> str:
        former = RunState(one)
        former.steps[StepId("a")].state = StepState.PASSED
        return remainder_of(made, former, kept)

    assert left(one) == left(other)
    assert left(one, StepId("a")) == left(plan(step("b"), step("c")))
    assert left(one, StepId("a"), StepId("b")) == left(one, StepId("a")), "kept only where its check holds now"
    changed = replace(one, steps=(replace(one.steps[0], action=RunCommand(command="do x")), *one.steps[1:]))
    assert left(changed) != left(one)
    unchecked = replace(one, steps=(replace(one.steps[0], verification=None), *one.steps[1:]))
    assert left(unchecked) != left(one)


@pytest.mark.parametrize(
    ("script", "contract", "wanted"),
    [({"b": 3}, None, "b: F_STEP_FAILED 3"), ({}, "check x", "b: contract broken 1")],
)
def test_a_cause_is_what_was_broken_and_its_exit_status(script, contract, wanted):
    life = Scenario(step("a"), step("b", contract=contract, on_failure=Escalate())).script(**script).approve().run()
    state = replay(life.plan, life.history())
    assert causes_of(state) == (wanted,)
    assert cause_of(state, StepId("b")) == wanted.removeprefix("b: ")
