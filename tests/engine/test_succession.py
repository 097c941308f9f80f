"""A run goes on by another plan: what is kept, what runs, and that the old run ends only when the new one starts."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tests.build import plan as build_plan
from tests.build import step
from tests.scenario import KIM, ROBOT, Scenario
from tests.test_verifiers import Forger, both
from tests.words import (
    AttemptStarted,
    Escalate,
    Plan,
    Records,
    Refused,
    RunId,
    StepKept,
    StepNotKept,
    canonical_bytes,
)

ESCALATE = Escalate()


def code(refused: Any) -> str:
    return str(refused.value.problems[0].code)


def propose(life: Scenario, new: Plan, by: Any = KIM, **said: Any) -> Scenario:
    """Have the newest run gone on with by another plan, as far as a proposal goes."""
    prepared = asyncio.run(life.app.plans.succeed(str(life.run_id()), by, canonical_bytes(new), **said))
    life.plan_id, life.plan = prepared.review.plan_id, prepared.review.plan
    return life


def go_on(life: Scenario, new: Plan, **said: Any) -> Scenario:
    """Propose it, approve it as it is shown, and carry it out."""
    propose(life, new, **said)
    approve(life)
    return life.run()


def approve(life: Scenario, *, allow_subset: bool = False) -> None:
    shown = replace(life.app.plans.review(str(life.plan_id)), allow_subset=allow_subset)
    asyncio.run(life.app.approvals.approve(str(life.plan_id), KIM, shown))


def began(life: Scenario) -> list[str]:
    return [event.step for _, event in life.history() if isinstance(event, AttemptStarted)]


def kept(life: Scenario) -> list[str]:
    return [event.step for _, event in life.history() if isinstance(event, StepKept)]


def eight(fifth: str = "check wrong", **last: Any) -> Plan:
    """Eight steps, the fifth with a contract that can be wrong."""
    names = "abcdefgh"
    contracts = {"b": "check b", "e": fifth}
    steps = [step(name, contract=contracts.get(name), on_failure=ESCALATE) for name in names]
    return build_plan(*steps, **last)


def stuck() -> Scenario:
    life = Scenario(plan=eight()).approve().run()
    assert life.status() == "waiting"
    return life


def test_a_run_of_eight_steps_goes_on_after_its_fifth_with_one_corrected_contract():
    life = stuck()
    first = life.run_id()
    assert began(life) == list("abcde")
    go_on(life, eight("check e"))
    assert life.status() == "completed"
    # The fifth did its work: only its contract was wrong, and the right one holds.
    assert (kept(life), began(life)) == (list("abcde"), list("fgh"))
    assert sorted(life.world.effects) == list("abcdefgh"), "nothing twice, nothing lost"
    assert life.report is not None and life.report.continues == first
    assert {one.kept_from for one in life.report.steps[:5]} == {first}
    assert f"kept from {first}: contract held" in life.report.steps[1].evidence
    before = life.app.runs.run(str(first))
    assert (before.status, before.replaced_by) == ("replaced", life.report.run_id)


def test_a_successor_that_is_only_proposed_changes_nothing_and_the_run_can_be_answered():
    life = stuck()
    run_id, old = life.run_id(), life.plan_id
    propose(life, eight("check e"), ROBOT)
    assert life.app.runs.run(str(run_id)).status == "waiting"
    with pytest.raises(Refused) as refused:
        asyncio.run(life.app.runs.commit(str(life.plan_id), ROBOT))
    assert code(refused) == "E_PLAN_APPROVAL_MISSING"
    approve(life)
    asyncio.run(life.app.answers.answer(f"{run_id}/e", "pass", KIM))
    with pytest.raises(Refused) as refused:  # what was approved is not what would be gone on with
        asyncio.run(life.app.runs.commit(str(life.plan_id), KIM))
    assert code(refused) == "E_PLAN_STALE_BASE"
    life.plan_id, life.plan = old, eight()
    life.resume()
    assert (life.status(), life.report and life.report.run_id) == ("completed", run_id)


@pytest.mark.parametrize("no", ["reject", "cancel", "expire"])
def test_a_successor_that_nobody_wants_leaves_the_run_as_it_was(no):
    life = stuck()
    run_id, old = life.run_id(), life.plan_id
    before = life.app.plans.plan_line(str(old))
    propose(life, eight("check e"))
    if no == "reject":
        asyncio.run(life.app.plans.reject(str(life.plan_id), KIM, "No."))
    elif no == "cancel":
        asyncio.run(life.app.plans.cancel(str(life.plan_id), KIM))
    else:
        life.clock.advance(8 * 86_400_000)
        asyncio.run(life.app.plans.expire_overdue())
    now = life.app.plans.plan_line(str(old))
    assert (now.plan_id, now.status, now.continues) == (before.plan_id, before.status, None)
    life.plan_id, life.plan = old, eight()
    life.answer("e", "pass").resume()
    assert (life.status(), life.report and life.report.run_id) == ("completed", run_id)


def test_after_its_end_a_run_goes_on_too_and_nothing_from_a_step_on_is_kept_where_somebody_says_so():
    life = stuck()
    life.answer("e", "abort").resume()
    assert life.status() == "failed"
    go_on(life, eight("check e"), again_from="c")
    assert (life.status(), kept(life), began(life)) == ("completed", list("ab"), list("cdefgh"))


def test_a_chain_names_for_each_result_the_run_that_it_is_from():
    life = stuck()
    first = life.run_id()
    go_on(life, eight("check still wrong", title="Second"))
    second = life.run_id()
    assert life.status() == "waiting"
    go_on(life, eight("check e"))
    assert life.status() == "completed" and life.report is not None
    assert {one.id: one.kept_from for one in life.report.steps} == {
        **dict.fromkeys("abcd", first), "e": second, **dict.fromkeys("fgh")
    }  # fmt: skip


def test_what_holds_no_longer_runs_again_with_all_that_comes_after():
    life = stuck()
    life.world.effects.remove("b")
    go_on(life, eight("check e"))
    assert (life.status(), kept(life)) == ("completed", ["a"])
    assert [event.step for _, event in life.history() if isinstance(event, StepNotKept)] == ["b"]
    assert began(life) == list("bcdefgh")


def test_a_step_that_was_put_before_a_passed_one_has_that_run_again():
    life = stuck()
    steps = list(eight("check e").steps)
    steps.insert(2, step("new", needs="b"))
    steps[3] = replace(steps[3], needs=("new",))
    propose(life, build_plan(*steps))
    shown = life.app.plans.review(str(life.plan_id)).successor
    assert shown is not None and [one.step for one in shown.kept] == list("ab"), "as it is shown, so it comes"
    approve(life)
    life.run()
    assert (life.status(), kept(life), began(life)) == ("completed", list("ab"), ["new", *"cdefgh"])


def test_a_step_whose_failed_check_was_taken_away_runs_again():
    life = stuck()
    steps = [replace(one, verification=None) if one.id == "e" else one for one in eight().steps]
    go_on(life, build_plan(*steps))
    assert (life.status(), kept(life), began(life)) == ("completed", list("abcd"), list("efgh"))


def test_no_agent_ends_a_run_by_revising_where_policy_asks_nobody():
    look = step("look", tool="read_file", args={"path": "x"}, on_failure=ESCALATE)
    life = Scenario(look).prepare().run()
    assert life.status() == "waiting"
    propose(life, build_plan(replace(look, description="Look again")), ROBOT)
    assert life.app.plans.review(str(life.plan_id)).requires_approval
    with pytest.raises(Refused) as refused:
        asyncio.run(life.app.runs.commit(str(life.plan_id), ROBOT))
    assert code(refused) == "E_PLAN_APPROVAL_MISSING"
    assert life.app.runs.run(str(life.run_id())).status == "waiting"


def test_a_plan_that_is_not_another_one_goes_on_with_nothing():
    life = stuck()
    with pytest.raises(Refused) as refused:
        propose(life, eight())
    assert code(refused) == "E_SUCCESSOR_SAME"


def test_the_ledger_has_each_passed_step_once():
    life = stuck()
    go_on(life, eight("check e"))
    lineage = Records(life.ledger).lineage(Records(life.ledger).find_plan(str(life.plan_id)))
    begun = [
        event.step
        for run in lineage.runs
        for one in life.ledger.read(f"run/{run}")
        if isinstance(event := one.event, AttemptStarted)
    ]
    assert sorted(begun) == list("abcdefgh")
    assert list(lineage.runs.values()) == ["replaced", "completed"]
    assert [one.previous_plan_id for one in lineage.versions] == [None, lineage.versions[0].plan_id]


@pytest.mark.parametrize("boundary", range(1, 24))
def test_a_replacement_survives_a_crash_at_every_boundary(boundary):
    life = stuck()
    first = life.run_id()
    propose(life, eight("check e"))
    approve(life)
    life.crash_at(boundary)
    life.run()
    lineage = Records(life.ledger).lineage(Records(life.ledger).find_plan(str(life.plan_id)))
    runs = dict(lineage.runs)
    assert isinstance(first, str) and (len(runs) == 1) is (runs[RunId(first)] is None)
    if life.crashed:
        life.run() if len(runs) == 1 else life.resume()
    for _ in range(9):  # what was under way is in doubt, for `do` is opaque: a careful person says how it was
        if life.report is None or life.report.status != "waiting":
            break
        for question in life.report.questions:
            word = "happened" if question.step in life.world.effects else "did-not"
            life.answer(question.step, word)
        life.resume()
    assert life.status() == "completed"
    assert sorted(life.world.effects) == list("abcdefgh"), "nothing twice, nothing lost"


def audited(life: Scenario) -> Any:
    return both(life.ledger.everything())


def test_both_verifiers_follow_the_chain_from_the_first_run_to_the_last():
    life = stuck()
    propose(life, eight("check other"))
    asyncio.run(life.app.plans.reject(str(life.plan_id), KIM, "No."))
    go_on(life, eight("check still wrong", title="Second"))
    go_on(life, eight("check e"))
    assert audited(life).ours == set()


# --- Forgeries -------------------------------------------------------------------------------------------------------


def forged(life: Scenario, kind: str, change: Any, which: int = 0) -> set[str]:
    """What both verifiers find when an event of a chain of runs is changed, and everything else made to fit."""
    forger = Forger(life.ledger.everything())
    places = [place for place, (_, _, event) in enumerate(forger.events) if event["type"] == kind]
    change(forger.events[places[which]][2])
    return both(forger.rows()).kinds


@pytest.fixture(scope="module")
def chain() -> Scenario:
    life = stuck()
    go_on(life, eight("check still wrong", title="Second"))
    return go_on(life, eight("check e"))


def test_nothing_is_found_where_nothing_is_forged(chain):
    assert forged(chain, "run_opened", lambda event: None) == set()


@pytest.mark.parametrize(
    ("kind", "which", "change"),
    [
        ("run_started", 1, lambda event: event.update(continues="RUN-NEVER")),
        ("run_started", 2, lambda event: event.pop("continues")),
        ("run_opened", 1, lambda event: event.update(continues="RUN-NEVER")),
        ("run_opened", 2, lambda event: event.pop("continues")),
        ("run_opened", 1, lambda event: event.update(may_keep=["a", "b", "c", "d", "e", "f"])),
        ("run_cancelled", 0, lambda event: event.update(replaced_by="RUN-NEVER")),
        ("run_cancelled", 1, lambda event: event.update(status="cancelled", replaced_by=None)),
        ("step_kept", 0, lambda event: event["outcome"].update(duration_ms=99)),
        ("step_kept", 1, lambda event: event.update(run_id="RUN-NEVER")),
        ("step_kept", 6, lambda event: event.update(run_id="RUN-NEVER")),
        ("approval_given", 1, lambda event: event["approval"].pop("continues")),
        ("approval_given", 1, lambda event: event["approval"]["continues"].update(kept=["a"])),
        ("approval_given", 2, lambda event: event["approval"]["continues"].update(head="00" * 32)),
    ],
)
def test_a_chain_that_does_not_hang_together_is_found_by_both(chain, kind, which, change):
    assert forged(chain, kind, change, which) & {"commitment", "approval"}


def test_a_run_that_says_it_went_on_unasked_is_found_where_no_approval_says_so(chain):
    def unasked(event: Any) -> None:
        said = {"approval_id": event["approval_id"], "causes": ["e: x"], "remainder": "r"}
        event.update(approval_id=None, unasked=said)

    assert "approval" in forged(chain, "run_started", unasked, 1)
