"""What must hold before a plan or a step begins, and whether the approval covers something."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tests.build import plan, step
from tests.rows import each
from tests.scenario import KIM, Scenario
from tests.words import (
    AcquireLock,
    Append,
    ApprovalGiven,
    ApprovalScope,
    ApprovalValid,
    CustomCondition,
    ForEach,
    LockAvailable,
    LockHeld,
    LockTaken,
    PaneExists,
    PaneState,
    Parameter,
    PatternMatched,
    PatternNotMatched,
    Precondition,
    Refused,
    ReleaseLock,
    Retry,
    RunCommand,
    RunId,
    RunStarted,
    Skip,
    Step,
    StepCompleted,
    StepId,
    StoreData,
    ValidateApproval,
)

COVERED = ApprovalScope(action_kind="run")
NOT_COVERED = ApprovalScope(action_kind="send_text")


def only_if(made: Step, *conditions: Precondition) -> Step:
    return replace(made, preconditions=conditions)


def held_elsewhere(life: Scenario, lock: str = "db") -> Scenario:
    """Let another run hold a lock."""
    taken = LockTaken(lock=lock, run_id=RunId("RUN-OTHER"), step=StepId("a"))
    asyncio.run(life.ledger.append(life.clock.now(), Append(stream=f"lock/{lock}", expected=0, events=(taken,))))
    return life


def evidence(life: Scenario, name: str) -> tuple[str | None, str]:
    assert life.report is not None
    report = next(one for one in life.report.steps if one.id == name)
    return report.error, report.evidence


# --- Of a step -------------------------------------------------------------------------------------------------------

TAKE = step("take", action=AcquireLock(lock_name="db"))
GIVE = step("give", action=ReleaseLock(lock_name="db"))


@each(
    "steps, condition, why",
    [
        ([TAKE], LockHeld(lock_name="db"), None),
        ([TAKE, GIVE], LockHeld(lock_name="db"), "this run does not hold the lock `db`; nobody holds it"),
        ([step("a")], LockAvailable(lock_name="db"), None),
        ([TAKE], LockAvailable(lock_name="db"), None),
        ([step("a")], ApprovalValid(scope=COVERED), None),
        ([step("a")], ApprovalValid(scope=NOT_COVERED), "the approval does not cover the action kind `send_text`"),
        ([step("a")], StepCompleted(step_id="a"), None),
        (
            [step("a", run="fails", on_failure=Skip())],
            StepCompleted(step_id="a"),
            "`a` has not passed: it is skipped",
        ),
        ([step("a")], CustomCondition(name="fine", expression='steps.a.status == "passed"'), None),
        ([step("a")], CustomCondition(name="fine", expression="steps.a.exit_code == 0"), None),
        (
            [step("a")],
            CustomCondition(name="fine", expression="steps.a.exit_code == 1"),
            "`fine` is false: steps.a.exit_code == 1",
        ),
        (
            [step("a", action=StoreData(key="n", value=3))],
            CustomCondition(name="fine", expression="data.n > 2"),
            None,
        ),
        ([step("a")], CustomCondition(name="fine", expression="params.n == 4"), None),
    ],
)
def test_a_step_begins_only_where_its_precondition_holds(steps: list[Step], condition: Precondition, why: str | None):
    asks = isinstance(condition, CustomCondition) and "params" in condition.expression
    params = {"n": Parameter(type="number", default=4)} if asks else {}
    life = Scenario(*steps, only_if(step("guarded"), condition), params=params)
    life.shell.script["fails"] = 1
    life.approve().run()
    if why is None:
        life.expect(guarded="passed")
        assert life.world.effects[-1] == "guarded"
    else:
        life.expect(guarded="failed")
        assert evidence(life, "guarded") == ("F_PRECONDITION", f"not started: {why}")
        assert "guarded" not in life.world.effects


@pytest.mark.parametrize("condition", [LockHeld(lock_name="db"), LockAvailable(lock_name="db")])
def test_a_lock_of_another_run_is_neither_held_nor_available(condition: Precondition):
    life = held_elsewhere(Scenario(only_if(step("guarded"), condition))).approve().run()
    error, said = evidence(life, "guarded")
    assert error == "F_PRECONDITION" and "RUN-OTHER" in said


def test_an_expression_can_ask_about_the_item():
    each = replace(
        only_if(
            step("each", action=RunCommand(command="echo", env={"N": "${item}"}), on_failure=Skip()),
            CustomCondition(name="small", expression="item < 3"),
        ),
        for_each=ForEach(source="${a.output}", max=10),
    )
    life = Scenario(step("a", action=StoreData(key="list", value=[1, 5, 2])), each).approve().run()
    assert [call.env["N"] for call in life.shell.calls] == ["1", "2"]


def test_a_precondition_is_tried_again_where_the_policy_says_so():
    guarded = only_if(
        step("guarded", on_failure=Retry(max_attempts=3, initial_delay_ms=1000)), LockAvailable(lock_name="db")
    )
    life = held_elsewhere(Scenario(guarded)).approve().run().expect(guarded="failed")
    assert life.world.effects == []


# --- Of a plan -------------------------------------------------------------------------------------------------------


def refused(life: Scenario) -> list[str]:
    with pytest.raises(Refused) as found:
        asyncio.run(life.app.runs.commit(str(life.plan_id), KIM))
    assert {problem.code for problem in found.value.problems} == {"E_PLAN_PRECONDITION_FAILED"}
    return [problem.detail.partition(": ")[2] for problem in found.value.problems]


def with_conditions(*conditions: Precondition, **fields: Any) -> Scenario:
    return Scenario(plan=plan(step("a"), preconditions=conditions, **fields))


def test_a_plan_whose_preconditions_hold_begins():
    params = {"n": Parameter(type="number", default=4)}
    holding = (
        LockAvailable(lock_name="db"),
        ApprovalValid(scope=COVERED),
        CustomCondition(name="n", expression="params.n == 4"),
    )
    life = with_conditions(*holding, params=params).approve().run()
    assert life.status() == "completed"


def test_every_one_that_does_not_hold_is_named_and_nothing_is_spent():
    broken = (
        LockAvailable(lock_name="db"),
        LockAvailable(lock_name="free"),
        LockHeld(lock_name="free"),
        ApprovalValid(scope=NOT_COVERED),
        CustomCondition(name="even", expression="1 == 2"),
    )
    life = held_elsewhere(with_conditions(*broken)).approve()
    before = life.ledger.checkpoint()
    assert refused(life) == [
        "the lock `db` is held by RUN-OTHER.",
        "this run does not hold the lock `free`; nobody holds it.",
        "the approval does not cover the action kind `send_text`.",
        "`even` is false: 1 == 2.",
    ]
    assert life.ledger.checkpoint() == before
    assert life.world.effects == []


def test_the_approval_is_still_good_when_it_holds():
    life = with_conditions(PaneExists(pane_id=3)).approve()
    assert refused(life) == ["there is no pane 3."]
    life.panes.agents[3] = "codex"
    life.run()
    assert life.status() == "completed"


def test_a_yes_whose_run_is_refused_leaves_no_approval_behind():
    life = with_conditions(PaneExists(pane_id=3)).prepare()
    shown = life.app.plans.review(str(life.plan_id))
    with pytest.raises(Refused) as found:
        asyncio.run(life.app.runs.approve_and_commit(shown, KIM))
    assert found.value.problems[0].code == "E_PLAN_PRECONDITION_FAILED"
    kinds = [type(one.event) for stream in life.ledger.streams("lineage/") for one in life.ledger.read(stream)]
    assert ApprovalGiven not in kinds and RunStarted not in kinds


def test_a_rerun_looks_again():
    life = with_conditions(PaneExists(pane_id=3))
    life.panes.agents[3] = "codex"
    life.approve().run().approve()
    del life.panes.agents[3]
    with pytest.raises(Refused) as found:
        asyncio.run(life.app.runs.rerun(str(life.plan_id), KIM))
    assert found.value.problems[0].code == "E_PLAN_PRECONDITION_FAILED"


# --- Panes -----------------------------------------------------------------------------------------------------------


@each(
    "condition, why",
    [
        (PaneExists(pane_id=3), None),
        (PaneExists(pane_id=4), "there is no pane 4"),
        (PaneState(pane_id=3, expected_agent="codex"), None),
        (PaneState(pane_id=3, expected_agent="claude"), "codex lives in pane 3, and not claude"),
        (PaneState(pane_id=3, expected_domain="local"), "pane 3 is not in the domain local"),
        (PatternMatched(rule_id="ready", pane_id=3), None),
        (PatternMatched(rule_id="done", pane_id=3), "the rule `done` does not match"),
        (PatternNotMatched(rule_id="done", pane_id=3), None),
        (PatternNotMatched(rule_id="ready", pane_id=3), "the rule `ready` matches"),
    ],
)
def test_conditions_about_panes_ask_whoever_knows_them(condition: Precondition, why: str | None):
    life = Scenario(only_if(step("guarded"), condition))
    life.panes.agents[3] = "codex"
    life.panes.matching.add(("ready", 3))
    life.approve().run().expect(guarded="passed" if why is None else "failed")
    if why is not None:
        assert evidence(life, "guarded") == ("F_PRECONDITION", f"not started: {why}")


@pytest.mark.parametrize("of_plan", [False, True])
def test_where_nobody_knows_panes_such_a_plan_is_not_prepared(of_plan: bool):
    condition = PaneExists(pane_id=3)
    life = with_conditions(condition) if of_plan else Scenario(only_if(step("guarded"), condition))
    life.panes = None  # type: ignore[assignment]
    life.app = life.new_app()
    with pytest.raises(Refused) as found:
        life.prepare()
    assert [problem.code for problem in found.value.problems] == ["E_NOT_YET"]


# --- Validating the approval -----------------------------------------------------------------------------------------


def validating(**scope: Any) -> Scenario:
    return Scenario(
        step("a"), step("check", action=ValidateApproval(scope=ApprovalScope(**{"action_kind": "run", **scope})))
    ).approve()


def test_a_step_passes_where_the_approval_covers_it():
    validating().run().expect(check="passed")


@pytest.mark.parametrize(
    ("scope", "why"),
    [
        ({"action_kind": "send_text"}, "the approval does not cover the action kind `send_text`"),
        ({"pane_id": 3}, "the approval does not cover the pane 3"),
    ],
)
def test_and_fails_where_it_does_not(scope: dict[str, Any], why: str):
    life = validating(**scope).run().expect(check="failed")
    assert evidence(life, "check") == ("F_STEP_FAILED", why)


def test_an_approval_for_another_workspace_does_not_cover_it():
    life = validating(workspace_id="WS-ELSEWHERE").run().expect(check="failed")
    assert evidence(life, "check")[1] == "the approval is for another workspace than `WS-ELSEWHERE`"


def test_a_run_that_needed_no_approval_has_none():
    scope = ApprovalScope(action_kind="tool:list_files")
    life = Scenario(step("look", tool="list_files"), step("check", action=ValidateApproval(scope=scope))).prepare()
    life.run().expect(look="passed", check="failed")
    assert evidence(life, "check")[1] == "the approval is missing: this run needed none and has none"
