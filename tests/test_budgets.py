"""Budgets in a whole life: what is spent, who is asked, and how the run goes on; also when the executor dies."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tests.build import plan, step
from tests.core.test_audit import PASSPHRASES, signed
from tests.scenario import KIM, ROBOT, Scenario
from tests.words import (
    AnswerSent,
    Append,
    AttemptEnded,
    AttemptStarted,
    Budget,
    BudgetReached,
    Command,
    DecisionGiven,
    Fallback,
    Finished,
    ForEach,
    Instant,
    NestedPlan,
    Records,
    Refused,
    Retry,
    RunReport,
    StepId,
    ToolResult,
    Usage,
    decided,
    find_question,
)


def spends(text: str) -> Finished:
    """A command that went well and reported this."""
    return Finished(duration_ms=1, exit_code=0, reported=text.encode())


def kinds(life: Scenario, kind: type) -> list[Any]:
    return [event for _, event in life.history() if isinstance(event, kind)]


def spent(report: RunReport | None) -> dict[str, float]:
    assert report is not None
    return {one.what: one.spent for one in report.spending if one.step is None}


def begun(life: Scenario) -> list[str]:
    return [event.step for event in kinds(life, AttemptStarted)]


def three(**budget: Any) -> Scenario:
    return Scenario(step("a"), step("b"), step("c"), budget=Budget(**budget))


def test_a_breach_waits_for_a_person_and_says_what_was_spent_and_what_is_left():
    life = three(tokens=1000).script(a=spends('{"tokens": 1200, "cost_usd": 0.25}\n')).approve().run()
    assert (life.status(), begun(life)) == ("waiting", ["a"])
    assert life.report is not None
    (question,) = life.report.questions
    assert question.kind == "budget"
    assert question.text == "The budget of the plan is reached: 1,000 tokens. What now?"
    assert question.detail == (
        "Spent: 1 attempt and 0 s at work (measured), 1,200 tokens and $0.25 (as reported). "
        "Left to do: 2 steps (b, c). What they need is unknown: no earlier run did the same."
    )
    assert [choice.word for choice in question.choices] == ["extend", "unlimited", "abort"]
    (item,) = life.app.plans.inbox()
    assert (item.kind, item.commands[0]) == ("budget", f"ordain answer {question.item} extend")


def test_what_is_left_is_estimated_from_earlier_runs():
    first = three(tokens=10**6).script(b=spends('{"tokens": 700}')).approve().run()
    assert first.status() == "completed"
    first.script(a=spends('{"tokens": 2000000}')).approve().run()
    assert first.report is not None
    assert "By earlier runs they need about 0.002 s at work and 700 tokens." in first.report.questions[0].detail


@pytest.mark.parametrize(
    ("word", "status", "then"),
    [("extend", "completed", ["a", "b", "c"]), ("unlimited", "completed", ["a", "b", "c"]), ("abort", "failed", ["a"])],
)
def test_each_answer_goes_on_as_it_says(word: str, status: str, then: list[str]):
    life = three(tokens=10).script(a=spends('{"tokens": 11}'), b=spends('{"tokens": 10}')).approve().run()
    life.answer(".budget", word).resume()
    assert (life.status(), begun(life)) == (status, then)


def test_only_a_person_can_raise_a_budget():
    life = three(attempts=1).approve().run()
    assert life.report is not None
    with pytest.raises(Refused, match="Only a person"):
        asyncio.run(life.app.answers.answer(life.report.questions[0].item, "unlimited", ROBOT))
    assert not kinds(life, DecisionGiven)


def test_what_is_under_way_when_the_time_is_over_comes_to_its_end():
    life = Scenario(step("a", needs=()), step("b", needs=()), step("c", needs="a"), budget=Budget(wall_clock_ms=60_000))

    async def long(command: Command) -> Finished:
        await life.clock.sleep_until(Instant(life.clock.now() + 90_000))
        return Finished(duration_ms=90_000, exit_code=0)

    async def longer(command: Command) -> Finished:
        await life.clock.sleep_until(Instant(life.clock.now() + 120_000))
        return Finished(duration_ms=120_000, exit_code=0)

    life.script(a=long, b=longer).approve().run()
    life.expect(a="passed", b="passed", c="pending")
    started = next(at for at, event in life.history() if isinstance(event, AttemptStarted))
    ((at, reached),) = [(at, event) for at, event in life.history() if isinstance(event, BudgetReached)]
    assert (at - started, reached.spent) == (60_000, 60_000), "it was noticed when it happened"
    assert spent(life.report)["wall_clock_ms"] == 120_000
    assert life.answer(".budget", "extend").resume().status() == "completed"


def test_the_time_of_a_step_ends_its_attempt_and_then_asks():
    again = Retry(max_attempts=9, initial_delay_ms=0)
    life = Scenario(replace(step("a", on_failure=again, timeout_ms=10_000), budget=Budget(wall_clock_ms=15_000)))
    given: list[int] = []

    async def hangs(command: Command) -> Finished:
        given.append(command.timeout_ms)
        await life.clock.sleep_until(Instant(life.clock.now() + command.timeout_ms))
        return Finished(duration_ms=command.timeout_ms, timed_out=True)

    life.script(a=hangs).approve().run()
    assert (life.status(), given) == ("waiting", [10_000, 5_000])
    assert life.report is not None
    assert life.report.questions[0].item.endswith("/.budget/a")
    assert kinds(life, AttemptEnded)[-1].outcome.detail == (
        "did not end within 5 s, which was all that its budget had left"
    )


def test_what_a_tool_reports_is_recorded_as_reported():
    life = Scenario(step("a", tool="http_request", args={"url": "http://h/"}), step("b"), budget=Budget(cost_usd=1.0))
    life.toolbox.answers["GET http://h/"] = ToolResult(value="x", used=Usage(tokens=5, cost_usd=2.5))
    life.approve().run()
    (ended,) = kinds(life, AttemptEnded)
    assert ended.outcome.used == Usage(tokens=5, cost_usd=2.5)
    assert life.report is not None
    assert {one.what: one.measured for one in life.report.spending} == {
        "attempts": True,
        "wall_clock_ms": True,
        "tokens": False,
        "cost_usd": False,
    }
    assert life.status() == "waiting"


def test_lines_that_cannot_be_understood_are_said_and_not_counted():
    life = three().script(a=spends('{"tokens": 3}\nall of them\n{"tokens": -4}\n')).approve().run()
    (ended, *_) = kinds(life, AttemptEnded)
    assert ended.outcome.used == Usage(tokens=3)
    assert ended.outcome.detail == "2 lines of what it says it used could not be understood"
    assert life.status() == "completed"


def test_the_items_of_a_step_share_its_budget():
    each = replace(step("each"), for_each=ForEach(source="${list.output}", max=9), budget=Budget(attempts=2))
    life = Scenario(step("list", run="list"), each)
    life.shell.script["list"] = Finished(duration_ms=1, exit_code=0, output=b'["x", "y", "z"]', output_bytes=15)
    life.approve().run()
    assert (life.status(), begun(life)) == ("waiting", ["list", "each[0]", "each[1]"])
    assert life.answer(".budget/each", "extend").resume().status() == "completed"


def test_a_nested_plan_is_asked_about_by_itself():
    inner = plan(step("x"), step("y"), budget=Budget(tokens=10))
    life = Scenario(step("n", needs=(), action=NestedPlan(plan=inner)), step("b", needs=()), concurrency=1)
    life.script(x=spends('{"tokens": 11}')).approve().run()
    assert (life.status(), sorted(begun(life))) == ("waiting", ["b", "n/x"])
    life.answer(".budget/n", "extend").resume().expect(n="passed", b="passed")
    assert spent(life.report)["tokens"] == 11
    assert life.app.audits.verify().good


def test_a_fallback_is_not_paid_by_the_step_that_failed():
    failing = replace(
        step("a", on_failure=Fallback(steps=(StepId("f"),)), contract="check f"), budget=Budget(attempts=1)
    )
    life = Scenario(failing, fallbacks=(step("f", needs=()),)).script(a=1).approve().run()
    assert (life.status(), begun(life)) == ("completed", ["a", "a+f"])


def test_nothing_changes_for_a_plan_without_a_budget():
    life = three().approve().run()
    assert life.status() == "completed"
    assert spent(life.report) == {"attempts": 3, "wall_clock_ms": 0}


@pytest.mark.part(of=3)
@pytest.mark.parametrize("word", ["extend", "unlimited", "abort"])
def test_a_crash_anywhere_neither_loses_nor_doubles_the_question(word: str):
    steps = [step(name, idempotent=True) for name in "abcd"]
    boundary = 0
    while True:
        boundary += 1
        life = Scenario(*steps, budget=Budget(attempts=9, tokens=10), concurrency=1)
        life.script(b=spends('{"tokens": 11}')).approve().crash_at(boundary).run()
        crashed = life.crashed
        if life.run_id() is None:
            continue
        if crashed:
            life.resume()
        assert (life.status(), len(kinds(life, BudgetReached))) == ("waiting", 1), f"crashed at {boundary}"
        assert life.report is not None and [one.step for one in life.report.questions] == [".budget"]
        assert begun(life)[-1] == "b"
        life.resume()
        assert len(kinds(life, BudgetReached)) == 1, "going on without an answer asks nothing new"
        life.answer(".budget", word).resume()
        assert life.status() == ("failed" if word == "abort" else "completed")
        if not crashed:
            break
    assert boundary > 5


def decision_about_budget(life: Scenario, word: str) -> tuple[DecisionGiven, str, int]:
    """A decision that nobody signed, the plan's stream, and how many events the run has."""
    state, _, head = Records(life.ledger).run(life.run_id())  # type: ignore[arg-type]
    question = find_question(state, f"{life.run_id()}/.budget")
    return decided(state, question, word, KIM, head=head), state.lineage, state.size


def test_where_signatures_are_demanded_a_run_does_not_go_on_by_an_unsigned_word_about_its_budget():
    """Whoever can write the ledger could have written it."""
    life = three(attempts=1)
    asyncio.run(life.app.approvals.enroll(PASSPHRASES["kim"], KIM))
    life.workspace.configuration_text = b"[approval]\nrequire_signature = true\n"
    asyncio.run(life.app.approvals.trust(life.app.approvals.configuration()[1], KIM, PASSPHRASES["kim"]))
    signed(life.prepare(), "kim").run()
    decision, _, size = decision_about_budget(life, "unlimited")
    forged = Append(stream=f"run/{life.run_id()}", expected=size, events=(decision,))
    asyncio.run(life.ledger.append(life.clock.now(), forged))
    with pytest.raises(Refused) as refused:
        life.resume()
    assert refused.value.problems[0].code == "E_APPROVAL_SIGNATURE"
    assert begun(life) == ["a"]


def test_an_answer_about_a_budget_that_was_sent_is_not_overtaken_by_another():
    """The executor died before it took it up: whoever comes second is told that it was answered."""
    life = three(attempts=1).approve().run()
    decision, lineage, _ = decision_about_budget(life, "abort")
    sent = AnswerSent(run_id=life.run_id(), decision=decision)  # type: ignore[arg-type]
    size = life.ledger.size(lineage)
    asyncio.run(life.ledger.append(life.clock.now(), Append(stream=lineage, expected=size, events=(sent,))))
    with pytest.raises(Refused) as refused:
        life.answer(".budget", "unlimited")
    assert refused.value.problems[0].code == "E_ANSWER_STALE"
    life.resume()
    assert (life.status(), begun(life)) == ("failed", ["a"])
