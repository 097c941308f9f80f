"""Steps that ask a person, and answers given while the run goes on: the answer is the step's result, counts once and
for the question that was asked, and no crash loses or doubles it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.build import step
from tests.rows import each
from tests.scenario import KIM, Scenario
from tests.test_answers import decisions, item, run_stream, waiting
from tests.test_gate import KIMS, PAT, PATS, demanding, do, forge, refused
from tests.twins.execution import ToldNotifier
from tests.words import (
    AnswerSent,
    Ask,
    AskApproval,
    AttemptEnded,
    AttemptStarted,
    AttemptWaiting,
    Channel,
    Command,
    CustomCondition,
    DecisionGiven,
    DoubtFound,
    Escalate,
    Finished,
    Given,
    Kind,
    Outcome,
    Principal,
    Recorded,
    Records,
    Recover,
    Refused,
    Replan,
    Retry,
    RunCommand,
    RunState,
    Skip,
    Start,
    Step,
    StepState,
    Verification,
    Wake,
    decide,
    decided,
    still_asked,
)

DAY = 86_400_000
WHICH = Ask(question="Which version?")
COLOUR = Ask(question="Which colour?", choices=("red", "green"))
COUNT = Ask(
    question="How many, and for whom?",
    schema={"type": "object", "required": ["count"], "properties": {"count": {"type": "integer", "minimum": 1}}},
)


def ask(name: str = "a", action: Ask = WHICH, **fields: Any) -> Step:
    return step(name, action=action, **fields)


def asking(*steps: Step) -> Scenario:
    life = Scenario(*(steps or (ask(), step("b")))).approve().run()
    assert life.status() == "waiting"
    return life


def result(life: Scenario, name: str = "a") -> bytes:
    _, parts = life.app.runs.exact_output(str(life.run_id()), name, KIM)
    return b"".join(parts)


def kinds(life: Scenario, kind: type) -> list[Any]:
    return [event for _, event in life.history() if isinstance(event, kind)]


def sound(life: Scenario) -> None:
    assert life.app.audits.verify().findings == ()


# --- The question ----------------------------------------------------------------------------------------------------


def test_a_question_waits_for_days_and_its_answer_is_the_result() -> None:
    life = asking().expect(a="waiting", b="pending")
    (asked,) = life.app.runs.run(str(life.run_id())).questions
    assert (asked.kind, asked.text, asked.takes, asked.behind) == ("ask", "Which version?", "text", 1)
    assert life.app.runs.run(str(life.run_id())).steps[0].waiting == "waits for an answer to: Which version?"
    life.clock.advance(9 * DAY)
    assert life.resume().status() == "waiting", "nobody has answered"
    do(life.app.answers.answer(item(life), "1.4.0", KIM))
    (given,) = decisions(life)
    assert (given.about, given.choice, given.to) == ("ask", "answer", StepState.PASSED)
    assert given.outcome is not None and given.outcome.duration_ms == 9 * DAY
    assert life.resume().status() == "completed"
    assert result(life) == b"1.4.0" and life.world.effects == ["b"]
    assert len(kinds(life, AttemptStarted)) == 2 and not kinds(life, DoubtFound)
    assert life.report is not None
    assert (life.report.steps[0].evidence, life.report.steps[0].decided_by) == ("answered by kim: 1.4.0", "kim")
    assert life.report.steps[1].decided_by is None
    sound(life)


@each(
    "action, given, kept",
    [
        (WHICH, "two words", b"two words"),
        (WHICH, Given(value="abort"), b"abort"),
        (WHICH, "", b""),
        (COLOUR, "red", b"red"),
        (COLOUR, Given(value="green"), b"green"),
        (COUNT, Given(value={"count": 3}), b'{"count": 3}'),
        (COUNT, '{"count": 3, "for": "kim"}', b'{"count": 3, "for": "kim"}'),
        (Ask(question="?", schema={"type": "string"}), "1.40", b"1.40"),
        (Ask(question="?", schema={"type": ["number", "string"]}), "1.5", b"1.5"),
        (Ask(question="?", schema={"type": "boolean"}), "true", b"true"),
        (Ask(question="?", schema={"type": "null"}), Given(value=None), b"null"),
        (Ask(question="?", choices=("abort", "go")), "abort", b"abort"),
    ],
)
def test_answers_of_each_kind(action: Ask, given: str | Given, kept: bytes) -> None:
    life = asking(ask(action=action))
    do(life.app.answers.answer(item(life), given, KIM))
    assert life.resume().status() == "completed"
    if kept:
        assert result(life) == kept
    sound(life)


@each(
    "action, given, code",
    [
        (WHICH, Given(value=3), "E_ANSWER_VALUE"),
        (WHICH, "x" * (1 << 21), "E_ANSWER_VALUE"),
        (COLOUR, "blue", "E_ANSWER_CHOICE"),
        (COLOUR, Given(value=3), "E_ANSWER_CHOICE"),
        (WHICH, "\udcff", "E_ANSWER_VALUE"),
        (WHICH, Given(value="\ud800"), "E_ANSWER_VALUE"),
        (COUNT, "1e999", "E_ANSWER_VALUE"),
        (COUNT, "three", "E_ANSWER_VALUE"),
        (COUNT, Given(value={"count": 0}), "E_ANSWER_VALUE"),
        (COUNT, Given(value={}), "E_ANSWER_VALUE"),
        (COUNT, '{"count": NaN}', "E_ANSWER_VALUE"),
        (Ask(question="?", schema={"type": "number"}), Given(value=float("inf")), "E_ANSWER_VALUE"),
        (Ask(question="?", schema={"type": "number"}), "1e400", "E_ANSWER_VALUE"),
        (Ask(question="?", schema={"type": "integer"}), str(2**60), "E_ANSWER_VALUE"),
    ],
)
def test_what_is_no_answer_is_refused_and_nothing_is_recorded(action: Ask, given: str | Given, code: str) -> None:
    life = asking(ask(action=action))
    assert refused(life, life.app.answers.answer(item(life), given, KIM)) == [code]
    with pytest.raises(Refused):
        life.app.answers.check_answering(life.app.answers.asked(item(life)), given, KIM)


@pytest.mark.parametrize("channel", [Channel.ROBOT, Channel.SCRIPT, Channel.LIBRARY])
def test_only_a_person_answers(channel: Channel) -> None:
    life = asking()
    by = Principal(name="kim", channel=channel)
    assert refused(life, life.app.answers.answer(item(life), "1", by)) == ["E_APPROVAL_CHANNEL"]


def test_abort_gives_the_run_up() -> None:
    life = asking()
    do(life.app.answers.answer(item(life), "abort", KIM))
    assert life.resume().expect(a="failed", b="cancelled").status() == "failed"
    assert decisions(life)[0].aborts and decisions(life)[0].outcome is None
    sound(life)


def test_what_does_not_need_the_answer_goes_on() -> None:
    life = asking(ask(), step("b"), step("c", needs=()), ask("d", COLOUR, needs=()))
    assert life.world.effects == ["c"]
    assert [one.step for one in life.app.runs.run(str(life.run_id())).questions] == ["a", "d"]
    life.answer("d", "red").answer("a", "1").resume().expect(a="passed", b="passed", d="passed")
    sound(life)


def test_a_contract_judges_the_answer_and_the_policy_follows() -> None:
    contract = Verification(strategy=CustomCondition(name="right", expression='output == "right"'))
    one = replace(ask(on_failure=Retry(max_attempts=2, then=Skip())), verification=contract)
    life = asking(one).answer("a", "wrong").resume().expect(a="waiting")
    assert item(life) == f"{life.run_id()}/a@2"
    (asked,) = life.app.runs.run(str(life.run_id())).questions
    assert [one.attempt for one in asked.tries] == [1, 2]
    assert asked.tries[0].evidence is not None and asked.tries[0].evidence.verdict.value == "broken"
    life.answer("a", "wrong again").resume().expect(a="skipped")
    assert life.status() == "completed"
    right = asking(one).answer("a", "right").resume()
    assert right.report is not None and right.report.steps[0].evidence == "verification held"
    sound(life)


def test_an_answer_is_redacted_where_it_is_shown_and_exact_where_it_is_used() -> None:
    life = Scenario(ask())
    life.secrets.values = {"TOKEN": "hunter2-hunter2-hunter2"}
    life.app = life.new_app()
    life.approve().run()
    do(life.app.answers.answer(item(life), "hunter2-hunter2-hunter2", KIM))
    assert b"hunter2" not in b"".join(body for _, _, _, body, _ in life.ledger.everything())
    assert life.resume().report is not None
    assert "[redacted TOKEN]" in life.report.steps[0].evidence  # type: ignore[union-attr]
    assert result(life) == b"hunter2-hunter2-hunter2"


def test_a_crash_at_any_moment_leaves_no_doubt_and_asks_again_at_most() -> None:
    for boundary in range(1, 40):
        life = Scenario(step("z"), ask(idempotent=False), step("b")).approve().crash_at(boundary).run()
        if not life.crashed:
            break
        if life.run_id() is None:
            continue
        while life.resume().status() != "waiting":
            if life.app.runs.run(str(life.run_id())).questions:  # pragma: no branch
                break
        if life.expect().states()["z"] == "in_doubt":
            continue
        life.expect(a="waiting").answer("a", "1").resume().expect(a="passed", b="passed")
        assert not [one for one in kinds(life, DoubtFound) if one.step == "a" and one.settle.value == "person"]
        sound(life)
    else:
        raise AssertionError("it never came to its end")


def test_a_rerun_asks_again_what_passed_by_a_persons_word() -> None:
    life = asking(ask(), step("b")).answer("a", "1").resume()
    do(life.app.approvals.approve(str(life.plan_id), KIM))
    report = do(life.app.runs.rerun(str(life.run_id()), KIM, again_from="b"))
    assert (report.status, [one.step for one in report.questions]) == ("waiting", ["a"])


# --- Time ------------------------------------------------------------------------------------------------------------


def test_only_its_own_timeout_ends_a_question() -> None:
    life = Scenario(ask(), timeout_ms=1000).approve().run()
    life.clock.advance(400 * DAY)
    assert life.resume().status() == "waiting"
    assert kinds(life, AttemptWaiting)[0].until is None


def test_a_timeout_is_one_instant_and_found_by_whoever_looks() -> None:
    life = asking(ask(timeout_ms=DAY, on_failure=Escalate()))
    assert life.app.runs.run(str(life.run_id())).questions[0].until == kinds(life, AttemptWaiting)[0].until
    life.clock.advance(DAY - 1)
    assert life.resume().expect(a="waiting").status() == "waiting"
    life.clock.advance(1)
    assert life.app.runs.run(str(life.run_id())).status == "stopped", "whoever resumes it finds that its time is over"
    first = item(life)
    life.resume().expect(a="escalated")
    (ended,) = kinds(life, AttemptEnded)
    assert (ended.outcome.error, ended.outcome.duration_ms) == ("F_STEP_TIMEOUT", DAY)
    assert item(life) == f"{first}@2"
    assert refused(life, life.app.answers.answer(first, "skip", KIM)) == ["E_ANSWER_STALE"], (
        "that was about another question"
    )
    life.answer("a", "skip").resume().expect(a="skipped")
    sound(life)


def test_an_executor_that_stays_for_others_wakes_when_the_time_is_over() -> None:
    life = Scenario(ask(timeout_ms=5000, on_failure=Skip()), step("c", needs=()), step("d", needs="a"))

    async def slow(command: Command) -> Finished:
        await life.clock.sleep_until(life.clock.now() + 60_000)  # type: ignore[arg-type]
        return Finished(duration_ms=60_000, exit_code=0)

    life.script(c=slow).approve().run().expect(a="skipped", c="passed", d="passed")
    (ended,) = [one for one in kinds(life, AttemptEnded) if one.step == "a"]
    assert ended.outcome.duration_ms == 5000 and life.status() == "completed"


def test_nobody_stays_only_to_see_that_a_person_does_not_answer() -> None:
    life = asking(ask(timeout_ms=DAY))
    state = Records(life.ledger).run(life.run_id())[0]  # type: ignore[arg-type]
    assert decide(state, life.clock.now()) == ()


def test_a_retry_that_is_waited_for_and_a_question_wake_at_whichever_comes_first() -> None:
    policy = Retry(max_attempts=2, initial_delay_ms=50_000)
    life = Scenario(ask(timeout_ms=5000), step("c", needs=(), on_failure=policy)).script(c=1).approve()
    seen: list[Any] = []

    def look(recorded: Recorded) -> None:
        if isinstance(recorded.event, AttemptEnded) and recorded.event.step == "c":
            state: RunState = Records(life.ledger).run(life.run_id())[0]  # type: ignore[arg-type]
            seen.append(decide(state, recorded.at))

    do(life.app.runs.commit(str(life.plan_id), KIM, look))
    (wake,) = [one for one in seen[0] if isinstance(one, Wake)]
    assert wake.at == kinds(life, AttemptWaiting)[0].until
    assert not [one for one in seen[0] if isinstance(one, Start)]


# --- While somebody is at work ---------------------------------------------------------------------------------------


def while_at_work(life: Scenario, work: Callable[[], Awaitable[Any]], name: str = "c") -> Scenario:
    """Carry out a run whose step `name` does this in its midst, as another process would."""

    async def busy(command: Command) -> Finished:
        for _ in range(20):  # until everything else has come as far as it can
            await asyncio.sleep(0)
        await work()
        for _ in range(50):
            await asyncio.sleep(0)
        return Finished(duration_ms=1, exit_code=0)

    return life.script(**{name: busy}).approve().run()


def busy_life(*steps: Step) -> Scenario:
    return Scenario(*(steps or (ask(), step("b"))), step("c", needs=()))


def test_an_executor_at_work_takes_an_answer_up_at_once() -> None:
    life = busy_life()
    seen: list[str] = []

    async def work() -> None:
        report = await life.new_app().answers.answer(f"{life.run_id()}/a", "1.4.0", KIM)
        seen.append(",".join(report.answered))
        for _ in range(30):
            await asyncio.sleep(0)
        seen.append(life.states()["b"])

    while_at_work(life, work)
    assert life.status() == "completed" and seen[1] == "passed", "b went on while c was at work"
    (sent,) = [one.event for one in life.ledger.read(life.ledger.streams("lineage/")[0]) if _is_sent(one)]
    assert [sent.decision] == decisions(life)
    assert result(life) == b"1.4.0"
    sound(life)


def _is_sent(one: Recorded) -> bool:
    return isinstance(one.event, AnswerSent)


def test_a_signed_answer_that_was_sent_is_good_for_whoever_goes_on() -> None:
    life = demanding(busy_life(step("a", on_failure=Escalate()), ask("d", needs=()))).script(a=1).prepare()
    do(life.app.approvals.approve(str(life.plan_id), KIM, credential=KIMS))

    async def busy(command: Command) -> Finished:
        for _ in range(20):
            await asyncio.sleep(0)
        await life.new_app().answers.answer(f"{life.run_id()}/a", "skip", KIM, None, KIMS)
        return Finished(duration_ms=1, exit_code=0)

    assert life.script(c=busy).run().expect(a="skipped").status() == "waiting"
    do(life.app.answers.answer(item(life, "d"), "1", KIM, None, KIMS))
    assert life.resume().status() == "completed"
    assert [(run.answers, run.answers_signed) for run in life.app.audits.verify().runs] == [(2, 2)]
    sound(life)


@pytest.mark.parametrize("word", ["retry", "skip", "pass", "abort"])
def test_an_escalation_is_answered_while_others_go_on(word: str) -> None:
    life = busy_life(step("a", on_failure=Escalate()), step("b")).script(a=1)

    async def work() -> None:
        await life.new_app().answers.answer(f"{life.run_id()}/a", word, KIM)

    while_at_work(life, work)
    after = {"retry": "escalated", "skip": "skipped", "pass": "passed", "abort": "failed"}[word]
    assert life.states()["a"] == after
    assert len(decisions(life)) == 1
    sound(life)


def test_of_two_who_answer_at_once_one_counts_and_the_other_is_told() -> None:
    life = busy_life()
    told: list[Any] = []

    async def work() -> None:
        both = [life.new_app().answers.answer(f"{life.run_id()}/a", word, by) for word, by in (("1", KIM), ("2", PAT))]
        told.extend(await asyncio.gather(*both, return_exceptions=True))

    while_at_work(life, work)
    assert [type(one).__name__ for one in told].count("Refused") == 1
    (wrong,) = [one for one in told if isinstance(one, Refused)]
    assert wrong.problems[0].code == "E_ANSWER_STALE"
    assert len(decisions(life)) == 1 and life.status() == "completed"
    sound(life)


def test_an_answer_that_nobody_lived_to_take_up_is_taken_up_once_by_the_next() -> None:
    """A kill between sent and taken up, at every moment after it was sent."""
    passed = 0
    for boundary in range(3, 12):  # the first two are those of whoever sends it
        life = busy_life()

        async def work(life: Scenario = life, boundary: int = boundary) -> None:
            life.world.boundaries, life.world.dies_at = 0, boundary
            await life.new_app().answers.answer(f"{life.run_id()}/a", "1", KIM)

        while_at_work(life, work)
        life.shell.script.clear()  # the next executor is not disturbed
        sent = [one for one in life.ledger.read(life.ledger.streams("lineage/")[0]) if _is_sent(one)]
        assert len(sent) == 1
        if life.crashed:
            passed += 1
            report = life.app.runs.run(str(life.run_id()))
            if not decisions(life):
                assert (report.questions, report.answered) == ((), (f"{life.run_id()}/a",))
                assert report.status == "stopped"
                again = life.app.answers.answer(f"{life.run_id()}/a", "2", PAT)
                assert refused(life, again) == ["E_ANSWER_STALE"], "one answer counts"
            while life.app.runs.run(str(life.run_id())).status != "completed":
                life.resume()
                for name, state in life.states().items():
                    if state == "in_doubt":
                        life.answer(name, "happened" if name in life.world.effects else "did-not")
        life.expect(a="passed", b="passed")
        assert [one.by for one in decisions(life) if one.step == "a"] == [KIM]
        assert life.world.effects.count("b") == 1
        sound(life)
    assert passed > 3, "too few crashes to show anything"


def test_a_sent_answer_is_taken_up_only_if_its_question_is_still_asked() -> None:
    life = waiting()
    question = life.app.answers.asked(item(life))
    do(life.app.answers.answer(item(life), "retry", KIM))
    stream = Records(life.ledger).run(life.run_id())[0].lineage  # type: ignore[arg-type]
    late = replace(decisions(life)[0], choice="pass", to=StepState.PASSED)
    forge(life, stream, AnswerSent(run_id=life.run_id(), decision=late))  # type: ignore[arg-type]
    life.resume().expect(a="escalated")
    assert len(decisions(life)) == 1 and question.question.item != item(life)


def test_a_forged_answer_that_was_sent_counts_for_nothing() -> None:
    life = waiting(step("a", on_failure=Escalate()), demand=True)
    do(life.app.answers.answer(item(life), "retry", KIM, None, KIMS))
    made = replace(decisions(life)[0], choice="pass", to=StepState.PASSED)
    life.resume()
    (asked,) = life.app.runs.run(str(life.run_id())).questions
    state = Records(life.ledger).run(life.run_id())[0]  # type: ignore[arg-type]
    head = life.ledger.read(run_stream(life))[-1].head
    real = decided(state, asked, "pass", KIM, head=head)
    for forged in (real, replace(real, key=made.key, signature=made.signature)):
        forge(life, state.lineage, AnswerSent(run_id=life.run_id(), decision=forged))  # type: ignore[arg-type]
        assert life.resume().expect(a="escalated").status() == "waiting"
    do(life.app.answers.answer(item(life), "skip", PAT, None, PATS))
    assert life.resume().status() == "completed"
    sound(life)


def test_no_pattern_of_a_plan_keeps_whoever_answers() -> None:
    """`re` would take longer than there is time on this one."""
    slow = Ask(question="Which?", schema={"type": "string", "pattern": "^(a+)+$"})
    life = asking(ask(action=slow))
    text = "a" * 5_000
    assert refused(life, life.app.answers.answer(item(life), text + "!", KIM)) == ["E_ANSWER_VALUE"]
    do(life.app.answers.answer(item(life), text, KIM))
    assert life.resume().status() == "completed"


SAYS_ANOTHER_THING: dict[str, Any] = {
    "retry, and it passes": {"choice": "retry", "to": StepState.PASSED},
    "retry, and it is skipped": {"choice": "retry", "to": StepState.SKIPPED},
    "retry, and the run ends": {"choice": "retry", "to": StepState.FAILED, "aborts": True},
    "abort, and it is tried again": {"choice": "abort", "to": StepState.PENDING},
    "abort, and nothing ends": {"choice": "abort", "to": StepState.FAILED, "aborts": False},
    "where nothing leads": {"choice": "pass", "to": StepState.VERIFYING},
    "a word of another question": {"choice": "happened", "to": StepState.PASSED},
    "no word": {"choice": "whatever", "to": StepState.PASSED},
    "of another attempt": {"attempt": 7},
    "with a result": {"outcome": Outcome(duration_ms=1)},
}


@each("how", SAYS_ANOTHER_THING)
def test_a_sent_answer_that_does_not_do_what_it_says_is_nothing_to_anybody(how: str) -> None:
    """Anybody who can write the ledger can send one, where no signature is demanded."""
    life = waiting()
    state = Records(life.ledger).run(life.run_id())[0]  # type: ignore[arg-type]
    (asked,) = life.app.runs.run(str(life.run_id())).questions
    forged = replace(decided(state, asked, "retry", KIM), **SAYS_ANOTHER_THING[how])
    forge(life, state.lineage, AnswerSent(run_id=life.run_id(), decision=forged))  # type: ignore[arg-type]
    assert life.resume().expect(a="escalated").status() == "waiting"
    assert not decisions(life)
    do(life.app.answers.answer(item(life), "skip", KIM))
    assert life.resume().status() == "completed"


@pytest.mark.parametrize(
    ("choices", "forged"),
    [
        (("yes", "no"), {"choice": "yes", "to": StepState.FAILED, "outcome": None}),
        (("yes", "no"), {"choice": "maybe"}),
        (("yes", "no"), {"to": StepState.VERIFYING}),
        (("yes", "no"), {"outcome": Outcome(duration_ms=1, error="F_STEP_FAILED")}),
        (("abort", "yes"), {"choice": "abort", "to": StepState.FAILED, "aborts": True, "outcome": None}),
        ((), {"choice": "yes"}),
    ],
)
def test_a_sent_answer_to_a_question_of_the_plan_is_one_that_could_be_given(choices: Any, forged: Any) -> None:
    life = Scenario(step("a", action=Ask(question="Well?", choices=choices))).approve().run()
    state = Records(life.ledger).run(life.run_id())[0]  # type: ignore[arg-type]
    (asked,) = life.app.runs.run(str(life.run_id())).questions
    good = decided(state, asked, "yes" if choices else "answer", KIM, outcome=Outcome(duration_ms=1))
    assert still_asked(state, good) and not still_asked(state, replace(good, **forged))


def test_an_answer_of_a_key_that_was_revoked_before_it_was_taken_up_does_not_count() -> None:
    life = demanding(busy_life(step("a", on_failure=Escalate()))).script(a=1)
    do(life.app.approvals.enroll(PATS, PAT, KIMS))
    life.prepare()
    do(life.app.approvals.approve(str(life.plan_id), KIM, credential=KIMS))

    async def busy(command: Command) -> Finished:
        for _ in range(20):
            await asyncio.sleep(0)
        life.ledger.grown = _never  # type: ignore[method-assign]
        await life.new_app().answers.answer(f"{life.run_id()}/a", "skip", PAT, None, PATS)
        await life.new_app().approvals.revoke_approver("pat", KIM, credential=KIMS)
        return Finished(duration_ms=1, exit_code=0)

    life.script(c=busy).run()
    assert life.expect(a="escalated").status() == "waiting"
    do(life.app.answers.answer(item(life), "skip", KIM, None, KIMS))
    assert life.resume().status() == "completed"
    sound(life)


async def _never(stream: str, size: int) -> None:
    await asyncio.Event().wait()


# --- Where a decision may stand --------------------------------------------------------------------------------------


def moved(life: Scenario, given: DecisionGiven) -> set[str]:
    """What the audit finds where somebody wrote this decision as the next event."""
    forge(life, run_stream(life), given)
    return {finding.kind for finding in life.app.audits.verify().findings}


def test_a_decision_that_is_moved_or_given_twice_is_found() -> None:
    one, other = (waiting(*(step(name, needs=(), on_failure=Escalate()) for name in "ab")) for _ in range(2))
    do(one.app.answers.answer(item(one), "retry", KIM))
    first = decisions(one)[0]
    one.resume()
    assert Kind.DECISION in moved(one, replace(first, attempt=2)), "of the question before"
    twice = waiting(*(step(name, needs=(), on_failure=Escalate()) for name in "ab"))
    do(twice.app.answers.answer(item(twice), "retry", KIM))
    assert Kind.DECISION in moved(twice, decisions(twice)[0])
    other.clock.advance(1)
    assert Kind.DECISION in moved(other, replace(first, head="ab" * 32)), "of another run"


def test_a_decision_may_stand_later_where_nothing_of_its_step_came_between() -> None:
    life = waiting(*(step(name, needs=(), on_failure=Escalate()) for name in "ab"))
    head = life.ledger.read(run_stream(life))[-1].head
    do(life.app.answers.answer(item(life, "b"), "retry", KIM))
    life.resume()
    do(life.app.answers.answer(item(life), "skip", KIM))
    later = decisions(life)[-1]
    assert later.head != head
    again = waiting(*(step(name, needs=(), on_failure=Escalate()) for name in "ab"))
    early = again.ledger.read(run_stream(again))[-1].head
    do(again.app.answers.answer(item(again, "b"), "retry", KIM))
    again.resume()
    assert moved(again, replace(later, head=early)) == set()


# --- Context ---------------------------------------------------------------------------------------------------------


def test_a_question_holds_every_try_with_how_it_ended() -> None:
    life = Scenario(step("a", on_failure=Retry(max_attempts=3, initial_delay_ms=1000, then=Escalate())), step("b"))
    life.script(a=7).approve().run().answer("a", "retry").resume()
    (asked,) = life.app.runs.run(str(life.run_id())).questions
    assert [one.attempt for one in asked.tries] == [1, 2, 3, 4, 5, 6]
    assert [one.outcome.exit_code for one in asked.tries if one.outcome is not None] == [7] * 6
    assert [one.decided_by for one in asked.tries] == [None, None, "kim", None, None, None]
    assert asked.tries[2].how == "retry" and asked.since == asked.tries[-1].ended_at
    assert isinstance(asked.policy, Retry) and asked.behind == 1


def test_only_so_many_tries_are_remembered_and_none_of_what_passed_at_once() -> None:
    policy = Retry(max_attempts=50, then=Escalate())
    life = Scenario(step("z"), step("a", on_failure=policy)).script(a=1).approve().run()
    state = Records(life.ledger).run(life.run_id())[0]  # type: ignore[arg-type]
    (asked,) = life.app.runs.run(str(life.run_id())).questions
    assert [one.attempt for one in asked.tries] == list(range(31, 51))
    assert state.steps["z"].tries == ()  # type: ignore[index]


def test_a_doubt_tells_what_was_tried() -> None:
    life = Scenario(step("a")).approve().crash_at(5).run().resume()
    (asked,) = life.app.runs.run(str(life.run_id())).questions
    assert (asked.kind, asked.tries[0].ended_at, asked.tries[0].outcome) == ("doubt", None, None)
    assert asked.since is not None and asked.tries[0].how


@pytest.mark.parametrize(("policy", "wants"), [(Replan(), "replan"), (Recover(), "recover"), (Escalate(), "")])
@pytest.mark.parametrize("retried", [False, True])
def test_replan_and_recover_escalate_with_a_brief(policy: Any, wants: str, retried: bool) -> None:
    full = Retry(max_attempts=2, then=policy) if retried else policy
    life = Scenario(step("z", contract="check z"), step("a", on_failure=full), step("b")).script(a=1).approve().run()
    (asked,) = life.app.runs.run(str(life.run_id())).questions
    assert (asked.kind, asked.wants) == ("escalation", wants)
    brief = life.app.runs.brief(str(life.run_id()), "a")
    assert (brief.wants, brief.step.id, brief.state) == (wants, "a", StepState.ESCALATED)
    assert [one.id for one in brief.passed] == ["z"] and brief.passed[0].evidence.startswith("contract held")
    assert [(one.id, one.needs) for one in brief.remains] == [("b", ("a",))]
    assert [one.attempt for one in brief.tries] == ([1, 2] if retried else [1])
    assert brief.plan == life.plan and brief.limits.concurrency > 0
    json.loads(msgspec.json.encode(brief))
    life.answer("a", "skip").resume()
    assert life.app.runs.brief(str(life.run_id()), "a").question is None


def test_ask_as_a_policy_asks_with_its_summary() -> None:
    life = Scenario(step("a", on_failure=AskApproval(summary="Go on without the mirror?"))).script(a=1).approve().run()
    (asked,) = life.app.runs.run(str(life.run_id())).questions
    assert (asked.text, [one.word for one in asked.choices]) == (
        "Go on without the mirror?",
        ["retry", "skip", "pass", "abort"],
    )


# --- Being told ------------------------------------------------------------------------------------------------------


def test_people_are_told_once_when_a_question_arises_and_not_at_the_end() -> None:
    life = busy_life(ask(), step("b"), step("d", needs=(), on_failure=Escalate())).script(d=1)
    life.workspace.configuration_text = b'[notify]\ncommand = ["tell"]\n'
    do(life.app.approvals.trust(life.app.approvals.configuration()[1], KIM))
    seen: list[list[str]] = []

    async def work() -> None:
        seen.append([json.loads(message)["kind"] for _, message in life.notifier.told])

    while_at_work(life, work)
    assert sorted(seen[0]) == ["ask", "escalation"], "while c was still at work"
    life.answer("a", "1").resume().answer("d", "retry").resume()
    told = [json.loads(message) for _, message in life.notifier.told]
    assert [one["kind"] for one in told] == [*seen[0], "escalation"], "once each; the last one is a new question"
    first = next(one for one in told if one["kind"] == "ask")
    assert first["command"] == f"ordain answer {life.run_id()}/a"
    assert first["question"]["behind"] == 1 and first["commands"][0].endswith(" TEXT")


def test_whoever_is_told_cannot_disturb_the_run() -> None:
    life = Scenario(ask(), step("c", needs=()))
    life.workspace.configuration_text = b'[notify]\ncommand = ["tell"]\n'
    do(life.app.approvals.trust(life.app.approvals.configuration()[1], KIM))

    class Broken(ToldNotifier):
        def tell(self, command: Sequence[str], message: bytes) -> None:
            raise OSError("no such program")

    life.notifier = Broken()
    life.app = life.new_app()
    assert life.approve().run().expect(c="passed").status() == "waiting"


# --- Who answered ----------------------------------------------------------------------------------------------------


def test_a_later_step_can_be_given_who_answered() -> None:
    told = step(
        "b", action=RunCommand(command="do b", env={"WHO": "${a.answered_by}", "SAID": "${a.output}"}), needs=()
    )
    life = asking(ask(), told).answer("a", "4.2").resume()
    (call,) = [one for one in life.shell.calls if one.text == "do b"]
    assert (call.env["WHO"], call.env["SAID"]) == (KIM.name, "4.2")
