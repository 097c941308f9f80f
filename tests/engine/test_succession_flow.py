"""What a successor keeps of loops, nested plans, fallbacks and parallel branches, of data and budgets; and when it goes
on unasked."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tests.build import plan, step
from tests.engine.test_succession import approve, audited, began, code, go_on, kept, propose
from tests.patience import eventually_in_loop
from tests.scenario import KIM, ROBOT, Scenario
from tests.test_gate import KIMS, demanding, forge, lineage
from tests.words import (
    Abort,
    Account,
    ApprovalGiven,
    AttemptEnded,
    Budget,
    CallTool,
    Continue,
    Escalate,
    Fallback,
    Finished,
    ForEach,
    NestedPlan,
    Plan,
    Records,
    Refused,
    RunCommand,
    StepId,
    StoreData,
)

ESCALATE = Escalate()


def last(contract: str = "check wrong", **fields: Any) -> Any:
    return step("last", contract=contract, on_failure=ESCALATE, **fields)


def lived(life: Scenario) -> Scenario:
    assert life.status() == "completed"
    assert audited(life).ours == set()
    return life


def test_parallel_branches_are_kept_each_by_itself():
    def made(contract: str, left: str = "do l1") -> Plan:
        return plan(
            step("l1", run=left, needs=()),
            step("l2", needs="l1"),
            step("r1", needs=(), contract="check r1"),
            step("r2", needs="r1"),
            last(contract, needs=("l2", "r2")),
        )

    life = Scenario(plan=made("check wrong")).approve().run()
    go_on(life, made("check last", left="do other"))
    lived(life)
    # One branch changed at its root: that one runs again, and what joins the two with it.
    assert (kept(life), began(life)) == (["r1", "r2"], ["l1", "l2", "last"])


def looped(contract: str = "check wrong", items: str = "items", command: str = "echo") -> Plan:
    return plan(
        step("list", run=items),
        replace(
            step("each", run=command, contract="look", on_failure=ESCALATE),
            for_each=ForEach(source="${list.output}", max=9),
        ),
        last(contract),
    )


def scripted(life: Scenario, **outputs: str) -> Scenario:
    """Let commands give these outputs."""
    for command, text in outputs.items():
        data = text.encode()
        life.shell.script[command] = Finished(duration_ms=1, exit_code=0, output=data, output_bytes=len(data))
    return life


def test_the_items_of_a_loop_are_kept_each_on_its_own_contract():
    life = scripted(Scenario(plan=looped(items="items")), items='["x", "y", "z"]').approve().run()
    assert (life.status(), began(life)) == ("waiting", ["list", "each[0]", "each[1]", "each[2]", "last"])
    go_on(life, looped("check last", items="items"))
    lived(life)
    assert (kept(life), began(life)) == (["list", "each[0]", "each[1]", "each[2]", "last"], [])


def test_of_a_loop_that_failed_half_way_the_rest_runs():
    life = scripted(Scenario(plan=looped("check last", items="items")), items='["x", "y", "z"]')
    tried: list[str] = []

    async def once(command: Any) -> Any:
        tried.append(command.mark)
        return Finished(duration_ms=1, exit_code=1 if "each[1]" in command.mark and len(tried) < 3 else 0)

    life.shell.script["echo"] = once
    life.approve().run()
    assert life.status() == "waiting"
    go_on(life, replace(looped("check last", items="items"), title="Again"))
    lived(life)
    assert "each[1]" in began(life) and "each[0]" in kept(life) and "each[0]" not in began(life)


def test_a_loop_over_other_items_runs_as_a_whole():
    life = scripted(Scenario(plan=looped(items="items")), items='["x", "y", "z"]').approve().run()
    scripted(life, other='["x", "q"]')
    go_on(life, looped("check last", items="other"))
    lived(life)
    assert (kept(life), began(life)) == ([], ["list", "each[0]", "each[1]", "last"])


def nested(inner: str, contract: str = "check last") -> Plan:
    held = plan(step("one", contract="check one"), step("two", contract=inner, on_failure=ESCALATE), step("three"))
    return plan(step("first"), step("box", action=NestedPlan(plan=held)), last(contract))


def test_the_steps_of_a_nested_plan_are_kept_each_by_itself():
    life = Scenario(plan=nested("check wrong")).approve().run()
    assert (life.status(), began(life)) == ("waiting", ["first", "box/one", "box/two"])
    go_on(life, nested("check two"))
    lived(life)
    assert (kept(life), began(life)) == (["first", "box/one", "box/two"], ["box/three", "last"])
    assert sorted(life.world.effects) == ["first", "last", "one", "three", "two"]


def test_what_runs_again_inside_has_what_comes_after_run_again_too():
    life = Scenario(plan=nested("check two", contract="check wrong")).approve().run()
    assert life.status() == "waiting"
    life.world.effects.remove("one")  # what it did is no longer there
    go_on(life, nested("check two"))
    lived(life)
    assert (kept(life), began(life)) == (["first"], ["box/one", "box/two", "box/three", "last"])


def test_what_is_looked_at_when_another_step_ends_the_plan_that_it_is_of_is_ended_too():
    held = plan(
        step("one", contract="check one", needs=()),
        step("two", run="fail", needs=(), on_failure=Abort()),
        concurrency=2,
    )
    box, looked = step("box", action=NestedPlan(plan=held), needs=(), on_failure=Continue()), list[str]()
    life = Scenario(plan=plan(box))
    life.shell.script["fail"] = Finished(duration_ms=1, exit_code=1)

    async def look(command: Any) -> Finished:
        def over() -> bool:
            ends = [event.step for _, event in life.history() if isinstance(event, AttemptEnded)]
            return "box/two" in ends

        await eventually_in_loop(over)
        looked.append("one")
        return Finished(duration_ms=1, exit_code=0)

    async def longer(command: Any) -> Finished:
        await eventually_in_loop(lambda: looked)
        for _ in range(9):
            await asyncio.sleep(0)
        return Finished(duration_ms=1, exit_code=0)

    life.approve().run()
    assert (life.status(), life.states()["box/one"]) == ("failed", "passed")
    life.shell.script |= {"check one": look, "longer": longer}
    go_on(life, plan(box, step("more", run="longer", needs=()), concurrency=3))
    assert (life.status(), kept(life), sorted(began(life))) == ("failed", [], ["box/two", "more"])
    assert life.states() == {"box": "failed", "box/one": "cancelled", "box/two": "failed", "more": "passed"}


def test_a_step_that_passed_by_its_fallback_is_kept_where_its_contract_holds():
    def made(contract: str) -> Plan:
        return plan(
            step("a", contract="check b", on_failure=Fallback(steps=(StepId("b"),))),
            last(contract),
            fallbacks=(step("b", needs=()),),
        )

    life = Scenario(plan=made("check wrong")).approve().run()
    assert began(life) == ["a", "a+b", "last"]
    go_on(life, made("check last"))
    lived(life)
    assert (kept(life), began(life)) == (["a", "last"], [])


def test_data_and_results_of_kept_steps_are_there_for_the_steps_after_them():
    def made(contract: str) -> Plan:
        return plan(
            step("version", run="version"),
            step("store", action=StoreData(key="v", value="${version.output}")),
            last(contract),
            step("use", action=RunCommand(command="use", env={"V": "${data.v}", "W": "${version.output}"})),
        )

    life = scripted(Scenario(plan=made("check wrong")), version="1.4").approve().run()
    assert life.status() == "waiting"
    go_on(life, made("check last"))
    lived(life)
    assert (kept(life), began(life)) == (["version", "store", "last"], ["use"])
    assert life.shell.calls[-1].env["V"] == life.shell.calls[-1].env["W"] == "1.4"


def test_budgets_span_the_chain():
    def made(contract: str) -> Plan:
        return plan(step("a"), step("b"), last(contract), step("after"), budget=Budget(attempts=3))

    life = Scenario(plan=made("check wrong")).approve().run()
    go_on(life, made("check last"))
    assert life.report is not None and life.report.status == "waiting"
    (question,) = life.report.questions
    assert (question.kind, question.step) == ("budget", ".budget"), "three attempts were spent before"
    life.answer(".budget", "extend").resume()
    lived(life)


def test_an_account_carries_what_was_spent_and_what_people_added():
    account = Account(given={"attempts": 2}, limits={"attempts": 4}, spent={"attempts": 3, "tokens": 0})
    heir = Account(given={"attempts": 2}, limits={"attempts": 2})
    heir.carry(account.carried())
    assert (heir.spent["attempts"], heir.limits["attempts"]) == (3, 4)


# --- Protection ------------------------------------------------------------------------------------------------------


def test_where_a_protected_file_is_another_one_nothing_is_kept_that_was_protected():
    def made(contract: str) -> Plan:
        return plan(step("a", contract="check a"), last(contract), protect=("tests/**",))

    life = Scenario(plan=made("check wrong"))
    life.workspace.documents["tests/test_x.py"] = b"assert True"
    life.approve().run()
    assert life.status() == "waiting"
    life.workspace.documents["tests/test_x.py"] = b"pass"
    go_on(life, made("check last"))
    assert (kept(life), began(life)) == ([], ["a", "last"])


# --- Without asking --------------------------------------------------------------------------------------------------


def released(**fields: Any) -> Plan:
    made = plan(
        step("a"),
        step("b", contract="check b", on_failure=ESCALATE),
        step("note", action=CallTool(tool="write_file", args={"path": "n", "content": "x"}), needs="a"),
    )
    return replace(made, **fields)


def allowed(**fields: Any) -> Scenario:
    """A run that waits after its second step, on an approval that allows subsets."""
    life = Scenario(plan=released(**fields)).script(b=1)
    life.prepare()
    approve(life, allow_subset=True)
    return life.run()


def narrower(ms: int) -> Plan:
    made = released()
    return replace(made, steps=(made.steps[0], replace(made.steps[1], timeout_ms=ms), *made.steps[2:]))


def test_a_subset_goes_on_unasked_where_the_approval_says_so():
    life = allowed(timeout_ms=None)
    first = life.run_id()
    made = released(timeout_ms=None)
    propose(life, replace(made, concurrency=None, budget=Budget(attempts=50)), ROBOT)
    review = life.app.plans.review(str(life.plan_id))
    assert not review.requires_approval and review.successor is not None and review.successor.unasked
    life.shell.script.clear()
    life.execute(lambda: life.app.runs.commit(str(life.plan_id), ROBOT))
    lived(life)
    assert (kept(life), began(life)) == (["a", "note"], ["b"])
    assert life.app.runs.run(str(first)).status == "replaced"


def test_without_that_word_even_the_smallest_change_asks():
    life = Scenario(plan=released()).script(b=1).approve().run()
    propose(life, replace(released(), budget=Budget(attempts=50)), ROBOT)
    with pytest.raises(Refused) as refused:
        asyncio.run(life.app.runs.commit(str(life.plan_id), ROBOT))
    assert code(refused) == "E_PLAN_APPROVAL_MISSING"


def test_what_is_no_subset_asks_and_says_why():
    life = allowed()
    made = released()
    propose(
        life, replace(made, steps=(made.steps[0], replace(made.steps[1], action=RunCommand(command="do b -f")))), ROBOT
    )
    review = life.app.plans.review(str(life.plan_id))
    assert review.requires_approval and any("`b` has another `action`" in one for one in review.reasons)
    with pytest.raises(Refused) as refused:
        asyncio.run(life.app.runs.commit(str(life.plan_id), ROBOT))
    assert code(refused) == "E_PLAN_APPROVAL_MISSING"
    assert life.app.runs.run(str(life.run_id())).status == "waiting"


def test_the_same_failure_goes_on_unasked_once():
    life = allowed()
    propose(life, replace(released(), budget=Budget(attempts=50)), ROBOT)
    life.execute(lambda: life.app.runs.commit(str(life.plan_id), ROBOT))
    assert life.status() == "waiting"  # it failed again, just so
    propose(life, replace(released(), budget=Budget(attempts=49)), ROBOT)
    review = life.app.plans.review(str(life.plan_id))
    assert review.requires_approval and any("proposed before" in one for one in review.reasons)
    with pytest.raises(Refused) as refused:
        asyncio.run(life.app.runs.commit(str(life.plan_id), ROBOT))
    assert code(refused) == "E_PLAN_APPROVAL_MISSING"


def test_a_person_who_goes_on_by_hand_is_not_counted():
    life = Scenario(plan=released()).script(b=1).approve().run()
    for attempts in (50, 49, 48, 47, 46):
        go_on(life, replace(released(), budget=Budget(attempts=attempts)))
        assert life.status() == "waiting"
    lineage = Records(life.ledger).lineage(Records(life.ledger).find_plan(str(life.plan_id)))
    assert lineage.replans == {} and len(lineage.runs) == 6


def test_only_a_person_can_allow_it():
    life = Scenario(plan=released()).prepare()
    shown = replace(life.app.plans.review(str(life.plan_id)), allow_subset=True)
    with pytest.raises(Refused) as refused:
        asyncio.run(life.app.approvals.approve(str(life.plan_id), ROBOT, shown))
    assert code(refused) == "E_APPROVAL_CHANNEL"
    assert asyncio.run(life.app.approvals.approve(str(life.plan_id), KIM)).approval_id


# --- Doubt -----------------------------------------------------------------------------------------------------------


def test_a_run_of_which_it_is_unknown_whether_a_step_happened_is_not_replaced():
    life = Scenario(step("a"), step("b"), last()).approve().crash_at(8).run()
    assert life.crashed
    life.resume()
    assert (life.status() == "waiting" and life.states()["b"] == "in_doubt") or life.states()["a"] == "in_doubt"
    propose(life, plan(step("a"), step("b"), last("check last")))
    approve(life)
    with pytest.raises(Refused) as refused:
        asyncio.run(life.app.runs.commit(str(life.plan_id), KIM))
    assert code(refused) == "E_SUCCESSOR_DOUBT"


def _paused(life: Scenario) -> None:
    asyncio.run(life.app.runs.pause(str(life.run_id()), KIM))


def _cancelled(life: Scenario) -> None:
    asyncio.run(life.app.runs.cancel_run(str(life.run_id()), KIM))


def _given_up(life: Scenario) -> None:
    asyncio.run(life.app.runs.cancel_run(str(life.run_id()), KIM, status="failed"))


def _aborted(life: Scenario) -> None:
    life.answer("b", "abort").resume()


def _answered(life: Scenario) -> None:
    life.answer("b", "abort")


@pytest.mark.parametrize("no", [_paused, _cancelled, _given_up, _aborted, _answered])
def test_what_a_person_stopped_goes_on_unasked_by_nobody(no: Any) -> None:
    life = allowed()
    no(life)
    before = life.app.runs.run(str(life.run_id())).status
    propose(life, replace(released(), budget=Budget(attempts=50)), ROBOT)
    review = life.app.plans.review(str(life.plan_id))
    assert review.requires_approval and any("person" in one for one in review.reasons)
    with pytest.raises(Refused) as refused:
        asyncio.run(life.app.runs.commit(str(life.plan_id), ROBOT))
    assert code(refused) == "E_PLAN_APPROVAL_MISSING"
    assert life.app.runs.run(str(life.run_id())).status == before


def test_a_step_that_failed_anywhere_in_the_chain_is_not_left_out_unasked() -> None:
    made = plan(
        step("a", contract="check a", on_failure=ESCALATE),
        step(
            "note", action=CallTool(tool="edit_file", args={"path": "n", "old": "x", "new": "y"}), on_failure=ESCALATE
        ),
    )
    life = Scenario(plan=made)
    life.prepare()
    approve(life, allow_subset=True)
    life.run()
    assert life.status() == "waiting"
    life.shell.script |= {"check a": 1, "do a": 1}
    propose(life, replace(made, budget=Budget(attempts=50)), ROBOT)
    life.execute(lambda: life.app.runs.commit(str(life.plan_id), ROBOT))
    assert life.states() == {"a": "escalated", "note": "pending"}
    propose(life, replace(made, steps=made.steps[:1]), ROBOT)
    review = life.app.plans.review(str(life.plan_id))
    assert review.requires_approval and any("`note` did not pass" in one for one in review.reasons)


def _failing(**fields: Any) -> Plan:
    return plan(step("a"), step("b"), **fields)


def _demanding() -> Scenario:
    return demanding(Scenario(plan=_failing()).script(b=1))


def test_where_only_signatures_count_nothing_goes_on_after_a_run_that_nobody_signed() -> None:
    signed = _demanding().prepare()
    shown = replace(signed.app.plans.review(str(signed.plan_id)), allow_subset=True)
    asyncio.run(signed.app.approvals.approve(str(signed.plan_id), KIM, shown, KIMS))
    signed.run()
    assert signed.status() == "failed"
    propose(signed, _failing(budget=Budget(attempts=50)), ROBOT)
    assert not signed.app.plans.review(str(signed.plan_id)).requires_approval

    forged = _demanding()  # whoever can write the ledger writes the same, but for the signature
    for stream in (lineage(signed), f"run/{signed.run_id()}"):
        events = [one.event for one in signed.ledger.read(stream)]
        forge(
            forged, stream, *(replace(one, signature=None) if isinstance(one, ApprovalGiven) else one for one in events)
        )
    with pytest.raises(Refused) as refused:
        asyncio.run(forged.app.runs.commit(str(signed.plan_id), ROBOT))
    assert code(refused) == "E_APPROVAL_SIGNATURE"
    assert forged.world.effects == []
