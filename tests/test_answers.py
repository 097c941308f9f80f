"""An answer to what a run asks is as strong as an approval: bound to its question, a person's, and signed where that is
wanted; and no answer that somebody wrote into the ledger takes a run anywhere."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from msgspec.structs import replace

from tests.build import step
from tests.rows import each
from tests.scenario import KIM, ROBOT, Scenario
from tests.test_gate import KIMS, PAT, PATS, demanding, do, forge, refused, trust
from tests.words import (
    ApproverRevoked,
    AttemptStarted,
    Channel,
    DecisionGiven,
    DoubtFound,
    Escalate,
    Kind,
    PlanId,
    Principal,
    Records,
    Refused,
    Retry,
    RunId,
    RunStarted,
    Settlement,
    Signature,
    SignatureRefused,
    StepState,
    fingerprint,
    questions,
    revocation,
    signed,
    signed_decision,
)

SAM = Principal(name="sam", channel=Channel.TERMINAL)


def waiting(*steps: Any, demand: bool = False) -> Scenario:
    """A run that asks about every one of its steps, which all failed."""
    life = Scenario(*(steps or (step("a", on_failure=Escalate()),)))
    if demand:
        demanding(life)
        do(life.app.approvals.enroll(PATS, PAT, KIMS))
    life.script(a=1, b=1).prepare()
    do(life.app.approvals.approve(str(life.plan_id), KIM, credential=KIMS if demand else None))
    assert life.run().status() == "waiting"
    return life


def two() -> tuple[Any, Any]:
    return step("a", on_failure=Escalate()), step("b", needs=(), on_failure=Escalate())


def item(life: Scenario, name: str = "a") -> str:
    return next(one.item for one in life.app.runs.run(str(life.run_id())).questions if one.step == name)


def decisions(life: Scenario) -> list[DecisionGiven]:
    return [event for _, event in life.history() if isinstance(event, DecisionGiven)]


def run_stream(life: Scenario) -> str:
    return f"run/{life.run_id()}"


# --- What an answer is bound to --------------------------------------------------------------------------------------


def test_a_decision_says_what_it_is_an_answer_to() -> None:
    life = waiting()
    before = life.ledger.read(run_stream(life))[-1]
    do(life.app.answers.answer(item(life), "retry", KIM))
    (given,) = decisions(life)
    assert (given.attempt, given.about, given.head) == (1, "escalation", before.head)
    assert (given.by, given.key, given.signature) == (KIM, None, None)
    life.resume().answer("a", "skip")
    again = decisions(life)[-1]
    assert (again.attempt, len(again.asked_sha256)) == (2, 64)
    assert again.head != given.head


def test_the_digest_of_a_question_is_of_what_was_seen() -> None:
    digests = set()
    for status in (1, 2):
        life = Scenario(step("a", on_failure=Escalate())).script(a=status).approve().run().answer("a", "skip")
        digests.add(decisions(life)[0].asked_sha256)
    assert len(digests) == 2


@pytest.mark.parametrize("named", ["{run}/a", "{run}", "{run}/a@1", "{run}/a@3", "{run}/a@", "{run}/a@02", "{run}/a@x"])
def test_an_answer_to_an_earlier_question_is_refused(named: str) -> None:
    """The command that somebody copied from the first question must not answer the second."""
    life = waiting()
    first = item(life)
    life.answer("a", "retry").resume()
    assert (first, item(life)) == (f"{life.run_id()}/a", f"{life.run_id()}/a@2")
    assert refused(life, life.app.answers.answer(named.format(run=life.run_id()), "pass", KIM)) == ["E_ANSWER_STALE"]
    life.answer("a", "skip").resume()
    assert life.status() == "completed"


def test_a_first_question_has_no_number_however_many_attempts_there_were() -> None:
    life = Scenario(step("a", on_failure=Retry(max_attempts=3, then=Escalate()))).script(a=1).approve().run()
    assert item(life) == f"{life.run_id()}/a"
    do(life.app.answers.answer(f"{life.run_id()}/a@1", "skip", KIM))
    assert decisions(life)[0].attempt == 3


def test_a_doubt_and_then_an_escalation_of_one_attempt_are_two_questions() -> None:
    life = Scenario(step("a", contract="check a", on_failure=Escalate())).approve().crash_at(5).run().resume()
    life.shell.script["check a"] = 1
    assert life.expect(a="in_doubt").status() == "waiting"
    life.answer("a", "happened").resume().expect(a="escalated")
    (asked,) = life.app.runs.run(str(life.run_id())).questions
    assert (asked.item, asked.attempt) == (f"{life.run_id()}/a@2", 1)
    with pytest.raises(Refused) as raised:
        do(life.app.answers.answer(f"{life.run_id()}/a", "abort", KIM))
    (problem,) = raised.value.problems
    # `@2` counts questions, and not attempts.
    told = f"What is asked now is question 2 about it, after attempt 1. Look at it, then answer {life.run_id()}/a@2."
    assert (problem.code, problem.hints) == ("E_ANSWER_STALE", (told,))


def test_an_answer_counts_only_for_what_was_shown() -> None:
    life = waiting(*two())
    shown = life.app.answers.asked(item(life))
    do(life.app.answers.answer(item(life), "retry", KIM))  # somebody else, meanwhile
    life.resume()
    assert refused(life, life.app.answers.answer(item(life), "pass", KIM, shown)) == ["E_ANSWER_STALE"]
    do(life.app.answers.answer(item(life), "pass", KIM, life.app.answers.asked(item(life))))
    assert [one.choice for one in decisions(life)] == ["retry", "pass"]


def test_what_other_steps_do_while_somebody_reads_takes_nothing_from_their_answer() -> None:
    life = waiting(*two())
    shown = life.app.answers.asked(item(life))
    do(life.app.answers.answer(item(life, "b"), "skip", KIM))  # somebody else, meanwhile
    do(life.app.answers.answer(item(life), "pass", KIM, shown))
    assert [one.step for one in decisions(life)] == ["b", "a"]
    assert life.app.audits.verify().good


def test_an_answer_is_not_recorded_where_the_settings_changed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    life = waiting()
    append, once = life.ledger.append, []

    async def late(at: Any, *appends: Any) -> Any:
        if not once:
            once.append(True)
            forged = SignatureRefused(name="kim", by=KIM)
            await append(at, replace(appends[0], events=(forged,)))
        return await append(at, *appends)

    monkeypatch.setattr(life.ledger, "append", late)
    assert refused(life, life.app.answers.answer(item(life), "pass", KIM), SignatureRefused) == ["E_ANSWER_STALE"]
    assert decisions(life) == []


def test_every_choice_says_what_it_leads_to() -> None:
    life = waiting()
    (asked,) = life.app.runs.run(str(life.run_id())).questions
    told = {choice.word: choice.consequence for choice in asked.choices}
    assert "unverified" in told["pass"] and "again" in told["retry"] and "not looked at" in told["skip"]
    for contract, words in ((None, "unverified"), ("check a", "contract is run now")):
        doubtful = Scenario(step("a", contract=contract)).approve().crash_at(5).run().resume()
        (asked,) = doubtful.app.runs.run(str(doubtful.run_id())).questions
        told = {choice.word: choice.consequence for choice in asked.choices}
        assert words in told["happened"] and "a second time" in told["did-not"]


def broken(*, doubtful: bool = False, policy: Any = None) -> Scenario:
    """A run that asks about a step whose contract is broken, or which is in doubt."""
    life = Scenario(step("a", contract="check a", on_failure=policy or Escalate()), step("b")).approve()
    life.shell.script["check a"] = 1
    return life.crash_at(5).run().resume() if doubtful else life.run()


def test_a_check_is_offered_where_a_contract_can_tell() -> None:
    plain = Scenario(step("a")).approve().crash_at(5).run().resume()
    failed = Scenario(step("a", contract="check a", on_failure=Escalate())).script(a=1).approve().run()
    for life, kind, offered in (
        (broken(), "escalation", True),
        (broken(doubtful=True), "doubt", True),
        (failed, "escalation", False),
        (waiting(), "escalation", False),
        (plain, "doubt", False),
    ):
        (asked,) = life.app.runs.run(str(life.run_id())).questions
        assert (asked.kind, "check" in {one.word for one in asked.choices}) == (kind, offered)
        if not offered:
            assert refused(life, life.app.answers.answer(item(life), "check", KIM)) == ["E_ANSWER_CHOICE"]


def test_a_check_that_fails_starts_nothing_and_is_asked_about_again() -> None:
    """However many retries the plan has: to look once more is no reason to try again."""
    life = broken(policy=Retry(max_attempts=2, then=Escalate()))
    for number in (2, 3):
        life.answer("a", "check").resume().expect(a="escalated")
        assert item(life) == f"{life.run_id()}/a@{number}"
    assert life.world.effects.count("a") == 2, "the two attempts of the plan"
    life.shell.script["check a"] = 0
    assert life.answer("a", "check").resume().expect(a="passed").status() == "completed"
    assert life.app.audits.verify().good


@pytest.mark.parametrize("doubtful", [False, True])
def test_killed_at_any_boundary_of_a_check_nothing_is_lost_or_done_twice(doubtful: bool) -> None:
    died = 0
    for boundary in range(2 if doubtful else 1, 14, 2):
        life = broken(doubtful=doubtful)
        begun, name = life.world.effects.count("a"), item(life)
        life.shell.script["check a"] = 0
        life.crash_at(boundary).execute(lambda life=life, name=name: life.app.answers.answer(name, "check", KIM))
        died += life.crashed
        if not decisions(life):
            assert item(life) == name, "it was not recorded, so it is asked again"
            life.answer("a", "check")
        life.crash_at(boundary).resume()
        died += life.crashed
        while (report := life.app.runs.run(str(life.run_id()))).status != "completed":
            if "b" in {one.step for one in report.questions}:
                life.answer("b", "happened")
            life.resume()
        assert life.expect(a="passed").world.effects.count("a") == begun, boundary
        assert life.app.audits.verify().good
    assert died > 4


# --- Who may answer --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channel", [Channel.ROBOT, Channel.SCRIPT, Channel.LIBRARY])
@pytest.mark.parametrize("demand", [False, True])
def test_no_agent_answers_not_even_with_a_passphrase(channel: Channel, demand: bool) -> None:
    life = waiting(demand=demand)
    by = Principal(name="kim", channel=channel)
    work = life.app.answers.answer(item(life), "pass", by, None, KIMS if demand else None)
    assert refused(life, work) == ["E_APPROVAL_CHANNEL"]


def test_only_those_named_may_answer_and_whoever_prepared_it_may() -> None:
    life = waiting()
    trust(life, '[approval]\napprovers = ["kim"]\nseparate = true\n')
    assert refused(life, life.app.answers.answer(item(life), "skip", PAT)) == ["E_APPROVAL_APPROVER"]
    do(life.app.answers.answer(item(life), "skip", KIM))  # kim prepared the plan: what an answer leads to was permitted
    assert life.resume().status() == "completed"


def test_where_signatures_are_demanded_an_answer_is_signed() -> None:
    life = waiting(demand=True)
    assert refused(life, life.app.answers.answer(item(life), "skip", KIM)) == ["E_APPROVAL_SIGNATURE"]
    with pytest.raises(Refused) as caught:
        life.app.answers.check_answering(life.app.answers.asked(item(life)), "skip", KIM)
    assert caught.value.problems[0].command == f"ordain answer {item(life)} skip --sign"
    do(life.app.answers.answer(item(life), "skip", SAM, None, PATS))
    (given,) = decisions(life)
    assert given.by == PAT and given.signature is not None  # the name is the key's, not the user's
    assert given.key == given.signature.key == fingerprint(life.keyring.public_key("pat"))
    assert life.resume().status() == "completed"
    assert life.app.audits.verify().good


def test_an_answer_can_be_signed_where_nobody_demands_it() -> None:
    life = waiting()
    do(life.app.approvals.enroll(KIMS, KIM))
    do(life.app.answers.answer(item(life), "skip", KIM, None, KIMS))
    assert decisions(life)[0].signature is not None
    found = life.app.audits.verify()
    assert found.good and [(run.answers, run.answers_signed) for run in found.runs] == [(1, 1)]


def test_a_revoked_or_unknown_key_answers_nothing() -> None:
    life = waiting(demand=True)
    do(life.app.approvals.revoke_approver("pat", KIM, credential=KIMS))
    for credential in (PATS, replace(PATS, name="eve")):
        assert refused(life, life.app.answers.answer(item(life), "skip", PAT, None, credential)) == [
            "E_APPROVAL_SIGNATURE"
        ]
    trust(life, '[approval]\nrequire_signature = true\napprovers = ["pat"]\n', KIMS)
    assert refused(life, life.app.answers.answer(item(life), "skip", PAT, None, KIMS)) == ["E_APPROVAL_APPROVER"]


def test_wrong_passphrases_are_counted_together_with_those_of_approvals() -> None:
    life = waiting(demand=True)
    wrong = replace(KIMS, passphrase="guess")
    other = do(life.app.plans.prepare_plan(Scenario(step("z")).plan, KIM)).review.plan_id
    for number in range(5):
        work = (
            life.app.answers.answer(item(life), "skip", KIM, None, wrong)
            if number % 2
            else life.app.approvals.approve(other, KIM, None, wrong)
        )
        assert refused(life, work, SignatureRefused) == ["E_APPROVAL_SIGNATURE"]
    assert refused(life, life.app.answers.answer(item(life), "skip", KIM, None, KIMS)) == ["E_APPROVAL_RATE"]
    life.clock.advance(60_000)
    do(life.app.answers.answer(item(life), "skip", KIM, None, KIMS))


def test_a_word_that_is_no_choice_is_refused_before_anybody_signs() -> None:
    life = waiting(demand=True)
    assert refused(life, life.app.answers.answer(item(life), "pas", KIM, None, replace(KIMS, passphrase="guess"))) == [
        "E_ANSWER_CHOICE"
    ]


# --- Answers that nobody gave ----------------------------------------------------------------------------------------


def sign_as(life: Scenario, event: DecisionGiven, name: str, **other: str) -> DecisionGiven:
    """What somebody writes who has this key; `other` says another run, plan or workspace than the one it stands in."""
    seed = hashlib.sha256(name.encode()).digest()
    run, plan_id, _ = Records(life.ledger).run(life.run_id())  # type: ignore[arg-type]
    place = {"workspace_id": run.workspace_identity.id, "run_id": str(run.run_id), "plan_id": str(plan_id)} | other
    event = replace(event, key=signed(seed, b"").key)
    return replace(event, signature=signed(seed, signed_decision(event, **place)))


def made_up(life: Scenario, **fields: Any) -> DecisionGiven:
    """A decision as Ordain would record it here and now, for the one who can write the ledger to begin with."""
    last = life.ledger.read(run_stream(life))[-1]
    (asked, *_) = questions(Records(life.ledger).run(life.run_id())[0])  # type: ignore[arg-type]
    given = DecisionGiven(
        step=asked.step,
        choice="pass",
        by=KIM,
        to=StepState.PASSED,
        attempt=asked.attempt,
        about=asked.kind,
        asked_sha256="0" * 64,
        head=last.head,
    )
    return replace(given, **fields)


FORGERIES: dict[str, Any] = {
    "unsigned": lambda life: made_up(life),
    "of before answers were bound": lambda life: made_up(life, attempt=0, about="", asked_sha256="", head=""),
    "another choice": lambda life: replace(
        sign_as(life, made_up(life, choice="retry", to=StepState.PENDING), "kim"), choice="pass"
    ),
    "another state": lambda life: replace(
        sign_as(life, made_up(life, choice="retry", to=StepState.PENDING), "kim"), to=StepState.PASSED
    ),
    "the abort taken out": lambda life: replace(sign_as(life, made_up(life, aborts=True), "kim"), aborts=False),
    "of another step": lambda life: replace(sign_as(life, made_up(life), "kim"), step="b"),
    "of another attempt": lambda life: replace(sign_as(life, made_up(life, attempt=2), "kim"), attempt=1),
    "of no attempt": lambda life: replace(sign_as(life, made_up(life), "kim"), attempt=0),
    "about something else": lambda life: replace(sign_as(life, made_up(life), "kim"), about="doubt"),
    "to another question": lambda life: replace(sign_as(life, made_up(life), "kim"), asked_sha256="1" * 64),
    "of another run": lambda life: sign_as(life, made_up(life), "kim", run_id="RUN-OTHER"),
    "of another plan": lambda life: sign_as(life, made_up(life), "kim", plan_id="plan:0"),
    "of another workspace": lambda life: sign_as(life, made_up(life), "kim", workspace_id="WS-OTHER"),
    "from an earlier moment": lambda life: sign_as(
        life, made_up(life, head=life.ledger.read(run_stream(life))[0].head), "kim"
    ),
    "bound to no moment": lambda life: sign_as(life, made_up(life, head=""), "kim"),
    "by nobody's key": lambda life: sign_as(life, made_up(life, by=replace(KIM, name="eve")), "eve"),
    "in another's name": lambda life: sign_as(life, made_up(life, by=PAT), "kim"),
    "the signature taken out": lambda life: replace(sign_as(life, made_up(life), "kim"), signature=None),
    "the signature and the key taken out": lambda life: replace(
        sign_as(life, made_up(life), "kim"), signature=None, key=None
    ),
    "the key taken out": lambda life: replace(sign_as(life, made_up(life), "kim"), key=None),
    "the signature of an approval": lambda life: replace(
        sign_as(life, made_up(life), "kim"),
        signature=Signature(key=fingerprint(life.keyring.public_key("kim")), value=_approval(life).value),
    ),
}


def _approval(life: Scenario) -> Signature:
    stream = life.ledger.streams("lineage/")[0]
    found = next(iter(Records(life.ledger).start_of(life.run_id(), stream)[1:]))
    assert found is not None and found.signature is not None, stream
    return found.signature


@each("how", FORGERIES)
def test_a_forged_answer_takes_a_run_nowhere(how: str) -> None:
    life = waiting(*two(), demand=True)
    forge(life, run_stream(life), FORGERIES[how](life))
    assert refused(life, life.app.runs.resume(None)) == ["E_APPROVAL_SIGNATURE"]
    found = life.app.audits.verify()
    assert {finding.kind for finding in found.findings} & {Kind.SIGNATURE, Kind.DECISION}
    assert [(run.answers, run.answers_signed) for run in found.runs] == [(1, 0)]
    assert do(life.app.runs.cancel_run(str(life.run_id()), ROBOT)).status == "cancelled"  # the way out that is named


def test_what_the_forgers_begin_with_is_good_as_it_is() -> None:
    """So that each of the above is refused for what was changed in it."""
    life = waiting(*two(), demand=True)
    forge(life, run_stream(life), sign_as(life, made_up(life), "kim"))
    assert life.resume().expect(a="passed").status() == "waiting"
    assert life.app.audits.verify().good


@pytest.mark.parametrize("demand", [False, True])
def test_an_answer_of_one_who_may_not_answer_takes_a_run_nowhere_signed_or_not(demand: bool) -> None:
    life = waiting(demand=demand)
    only = f'[approval]\nrequire_signature = {str(demand).lower()}\napprovers = ["pat"]\n'
    trust(life, only, KIMS if demand else None)
    event = made_up(life)
    forge(life, run_stream(life), sign_as(life, event, "kim") if demand else event)
    assert refused(life, life.app.runs.resume(None)) == ["E_APPROVAL_APPROVER"]
    (finding,) = life.app.audits.verify().findings
    assert (finding.kind, "kim" in finding.sentence) == (Kind.DECISION, True)


def test_a_run_on_an_approval_of_one_who_may_not_approve_is_found() -> None:
    life = Scenario(step("a")).approve()
    trust(life, '[approval]\napprovers = ["pat"]\n')
    stream = life.ledger.streams("lineage/")[0]
    (approval_id,) = Records(life.ledger).lineage(stream).permissions
    run_id, plan_id = RunId("RUN-X"), PlanId(str(life.plan_id))
    started = RunStarted(run_id=run_id, plan_id=plan_id, approval_id=approval_id, by=KIM)
    forge(life, stream, started)
    found = [one.sentence for one in life.app.audits.verify().findings if one.kind is Kind.APPROVAL]
    assert len(found) == 1 and "which kim gave" in found[0]


@pytest.mark.parametrize("demand", [False, True])
def test_an_answer_from_a_robot_takes_a_run_nowhere_signed_or_not(demand: bool) -> None:
    life = waiting(demand=demand)
    event = made_up(life, by=replace(KIM, channel=Channel.ROBOT))
    forge(life, run_stream(life), sign_as(life, event, "kim") if demand else event)
    assert refused(life, life.app.runs.resume(None)) == ["E_APPROVAL_CHANNEL"]
    assert {finding.kind for finding in life.app.audits.verify().findings} == {Kind.DECISION}


def test_a_bad_signature_is_refused_where_none_was_needed() -> None:
    life = waiting()
    do(life.app.approvals.enroll(KIMS, KIM))
    forge(life, run_stream(life), FORGERIES["another choice"](life))
    assert refused(life, life.app.runs.resume(None)) == ["E_APPROVAL_SIGNATURE"]


def test_an_answer_about_an_attempt_that_is_over_cannot_have_happened() -> None:
    life = waiting()
    life.answer("a", "retry").resume()
    forge(life, run_stream(life), made_up(life, attempt=1))
    assert refused(life, life.app.runs.resume(None)) == ["E_LEDGER_BROKEN"]
    assert Kind.HISTORY in {finding.kind for finding in life.app.audits.verify().findings}


@pytest.mark.parametrize("revoked_first", [False, True])
def test_a_key_that_was_revoked_counts_for_what_came_before(revoked_first: bool) -> None:
    """By order of arrival: the forger who has the stolen key can write any time into an event."""
    life = waiting(*two(), demand=True)
    life.clock.advance(60_000)
    if not revoked_first:
        do(life.app.answers.answer(item(life), "skip", PAT, None, PATS))
    do(life.app.approvals.revoke_approver("pat", KIM, credential=KIMS))
    if revoked_first:
        life.clock.advance(-30_000)
        forge(life, run_stream(life), sign_as(life, made_up(life, by=PAT), "pat"))
        assert refused(life, life.app.runs.resume(None)) == ["E_APPROVAL_SIGNATURE"]
        assert {finding.kind for finding in life.app.audits.verify().findings} == {Kind.SIGNATURE}
    else:
        assert life.resume().expect(a="skipped").status() == "waiting"
        assert life.app.audits.verify().good


def test_a_revocation_that_nobody_signed_for_stops_everything() -> None:
    life = waiting(demand=True)
    key = fingerprint(life.keyring.public_key("pat"))
    eve = signed(hashlib.sha256(b"eve").digest(), revocation("", 1, key))
    forge(life, "workspace", ApproverRevoked(key=key, by=PAT, reason="", signature=eve))
    assert refused(life, life.app.answers.answer(item(life), "skip", PAT, None, PATS)) == ["E_APPROVAL_SIGNATURE"]


def test_a_run_that_needed_no_approval_is_answered_with_a_signature_too() -> None:
    life = demanding(Scenario(step("look", tool="read_file", args={"path": "gone"}, on_failure=Escalate()))).prepare()
    assert life.run().status() == "waiting"
    forge(life, run_stream(life), made_up(life))
    assert refused(life, life.app.runs.resume(None)) == ["E_APPROVAL_SIGNATURE"]


def test_an_unsigned_answer_of_before_signatures_were_demanded_is_told_and_the_run_can_be_ended() -> None:
    life = waiting(*two())
    do(life.app.answers.answer(item(life), "skip", KIM))
    do(life.app.approvals.enroll(KIMS, KIM))
    trust(life, "[approval]\nrequire_signature = true\n", KIMS)
    assert refused(life, life.app.runs.resume(None)) == ["E_APPROVAL_SIGNATURE"]
    assert do(life.app.runs.cancel_run(str(life.run_id()), KIM)).status == "cancelled"
    assert life.app.audits.verify().good  # it was given when nobody demanded more


def test_doubt_that_was_made_up_needs_a_signed_answer_all_the_same() -> None:
    """Who writes the ledger can make a question; only a person can answer it."""
    life = waiting(demand=True)
    forge(
        life,
        run_stream(life),
        sign_as(life, made_up(life, choice="retry", to=StepState.PENDING), "kim"),
        AttemptStarted(step="a", attempt=2, key="k"),
        DoubtFound(step="a", attempt=2, settle=Settlement.PERSON, reason="made up"),
    )
    forge(life, run_stream(life), made_up(life, choice="happened"))
    assert refused(life, life.app.runs.resume(None)) == ["E_APPROVAL_SIGNATURE"]
