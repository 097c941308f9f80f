"""Deciding what a run asks a person: bound to what was shown, signed where signatures are demanded. Where somebody is
at work on the run, the answer is sent to them by way of the plan's stream; whoever carries out the run next takes it up
if nobody did."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable

import msgspec

from ordain.app.gate import Gate
from ordain.app.refusals import Refusals
from ordain.core.approval.approval import Principal
from ordain.core.approval.signature import fingerprint
from ordain.core.lineage.ask import Given, answer_bytes
from ordain.core.lineage.decision import (
    Asked,
    Question,
    answer_commands,
    asked_word,
    decided,
    find_question,
    persons_only,
    questions,
    signed_decision,
    spelt_word,
    stale,
    still_asked,
    value_given,
)
from ordain.core.plan.expr import ExpressionError
from ordain.core.plan.value import PlanId, RunId
from ordain.core.report.progress import Told
from ordain.core.report.report import RunReport
from ordain.core.run import step_event
from ordain.core.run.attempt import CANNOT, DONE
from ordain.core.run.event import AnswerSent, BudgetReached, Recorded
from ordain.core.run.prompt import AGENT_CANNOT, bounded, cannot_words
from ordain.core.run.run_state import RunState
from ordain.core.text.limit import short_title
from ordain.core.text.problem import Refused, refuse
from ordain.ports.ledger import Append
from ordain.ports.machine import Credential
from ordain.records.conflict import is_conflict, retried
from ordain.records.records import WORKSPACE_STREAM, names_run
from ordain.records.surroundings import Surroundings

# --- Answering -------------------------------------------------------------------------------------------------------

TAKING_UP_S = 5.0
"""How long it is waited for an executor to take up what it was sent."""
LOOKING_S = 0.05


class Answers:
    """People's answers to the runs of one workspace."""

    def __init__(self, here: Surroundings, gate: Gate, report: Callable[[RunId], RunReport]) -> None:
        self._here, self._gate, self._report = here, gate, report

    def asked(self, item: str) -> Asked:
        """What a run asks a person by this name, as it stands; the person is shown it before they answer."""
        run_id = self._here.records.find_run(item.partition("/")[0])
        return _asked(item, *self._here.records.run(run_id))

    def open_questions(self) -> tuple[Question, ...]:
        """Everything that the runs of this workspace ask and that nobody has answered yet."""
        plans = self._here.ledger.plans(open_only=True) if self._here.has_ledger() else ()
        runs = [run_id for plan in plans if (run_id := plan.state.open_run) is not None]
        return tuple(one for run_id in runs for one in self._report(run_id).questions)

    def item_meant(self, what: str | None, word: str = "") -> str:
        """The full name of the open question that a person means by the run and the step, the step alone, or nothing
        where only one is open; raises Refused with the commands to paste. `word` is the answer they gave."""
        name = what or ""
        if names_run(name.partition("/")[0]):
            step = name.partition("/")[2]
            if not step or "@" in step:
                return name
            found = self._here.records.find_run(name.partition("/")[0])
            return next((one.item for one in self._report(found).questions if one.step == step), name)
        asked = self.open_questions()
        meant = [one for one in asked if not name or name in (one.step, one.item.partition("/")[2])]
        if len(meant) == 1:
            return meant[0].item
        named = f" about `{name}`" if name else ""
        if not meant:
            open_ = tuple(f"Open: {one.asking}" for one in asked)
            raise refuse("E_ANSWER_ITEM", f"No question{named} is open.", *open_, command="ordain status")
        lines = [f"{one.asking} {asked_word(one, word)}".strip() if word else one.asking for one in meant]
        raise refuse("E_ANSWER_ITEM", f"{len(meant)} questions{named} are open. Name one:", *lines)

    def names_question(self, what: str) -> bool:
        """Whether this names a run, or the step of an open question."""
        if names_run(what.partition("/")[0]):
            return True
        return any(what in (one.step, one.item.partition("/")[2]) for one in self.open_questions())

    def check_answering(self, asked: Asked, given: str | Given, by: Principal, signer: str | None = None) -> None:
        """Raise Refused where this person's answer to this question could not count, before anybody signs it."""
        self._here.refuse_pretended(by)
        given = _given(given)
        value_given(self._here.records.run(asked.run_id)[0], asked.question, given, self._matches)
        self._gate.check_answering(by, signer, _command(asked.question.item, given))

    async def answer(
        self,
        item: str,
        given: str | Given,
        by: Principal,
        shown: Asked | None = None,
        credential: Credential | None = None,
    ) -> RunReport:
        """Decide what a run asks a person, and sign that where a credential is given. An executor at work takes it up;
        else the run goes on with `resume`. `shown` is what the person saw."""
        async with Refusals(self._here).recording("answer", item, by):
            return self._report(await self._answer(item, _given(given), by, shown, credential))

    async def _answer(
        self, item: str, given: Given, by: Principal, shown: Asked | None, credential: Credential | None
    ) -> RunId:
        """Record a person's decision about what a run asks. `shown` is what the person saw: when that is no longer what
        is asked, nothing is recorded. Where nobody is at work on the run it goes on with `resume`."""
        here = self._here
        run_id = here.records.find_run(item.partition("/")[0])
        persons_only("answer this", by, _command(item, given))
        if here.ports.lock.holder(run_id) is None:
            try:
                with here.ports.lock.claim(run_id):
                    await self._record(item, given, by, shown, credential)
                return run_id
            except Refused as refused:
                if refused.problems[0].code != "E_RUN_BUSY":
                    raise
        await self._send(item, given, by, shown, credential)
        return run_id

    async def _record(
        self, item: str, given: Given, by: Principal, shown: Asked | None, credential: Credential | None
    ) -> None:
        """While nobody is at work on the run: the decision stands in its own stream."""
        here, workspace = self._here, self._here.snapshot.workspace
        state, event, exact = await self._decision(item, given, by, shown, credential)
        try:
            await here.ledger.append(
                here.now(),
                Append(stream=WORKSPACE_STREAM, expected=workspace.size, events=()),
                Append(stream=f"run/{state.run_id}", expected=state.size, events=(event,), keeps=exact),
            )
        except Refused as refused:
            if not is_conflict(refused):
                raise
            raise stale(find_question(state, item)) from refused

    async def _send(
        self, item: str, given: Given, by: Principal, shown: Asked | None, credential: Credential | None
    ) -> None:
        """While somebody is: only they add to it, and are sent the decision. Of several people the first one counts."""
        here = self._here
        workspace = here.snapshot.workspace
        state, event, exact = await self._decision(item, given, by, shown, credential)

        async def sent() -> None:
            lineage = here.records.lineage(state.lineage)
            if here.snapshot.workspace.size != workspace.size:
                raise stale(find_question(state, item))
            self._refuse_answered(state, find_question(state, item))
            if lineage.open_run != state.run_id:
                raise _too_late(state.run_id, f"{state.run_id} has ended just now.")
            answer = AnswerSent(run_id=state.run_id, decision=event)
            await here.ledger.append(
                here.now(),
                Append(stream=WORKSPACE_STREAM, expected=workspace.size, events=()),
                Append(stream=state.lineage, expected=lineage.size, events=(answer,), keeps=exact),
            )

        await retried(sent)
        await self._taken_up(state, event)

    async def _taken_up(self, state: RunState, event: step_event.DecisionGiven) -> None:
        """Wait a while for whoever is at work to record the decision; raises Refused where another one was quicker."""
        import asyncio  # only here is anybody waited for

        here, loop, run_id = self._here, asyncio.get_running_loop(), state.run_id
        until = loop.time() + TAKING_UP_S
        while True:
            at_work = here.ports.lock.holder(run_id) is not None  # first: what it records last is read after that
            if any(one.event == event for one in here.ledger.read(f"run/{run_id}", state.size)):
                return
            here.records.catch_up(state, "")
            if not still_asked(state, event):
                detail = f"Before this answer was taken up, something else was recorded about `{event.step}`."
                raise _too_late(run_id, detail)
            if not at_work or loop.time() > until:
                return  # whoever goes on with the run takes it up
            await asyncio.sleep(LOOKING_S)

    async def _decision(
        self, item: str, given: Given, by: Principal, shown: Asked | None, credential: Credential | None
    ) -> tuple[RunState, step_event.DecisionGiven, tuple[bytes, ...]]:
        """A run as it stands, the decision about what it asks, and the exact answer where that is to be kept."""
        here = self._here
        run_id = here.records.find_run(item.partition("/")[0])
        state, plan_id, head = here.records.run(run_id)
        asked = _asked(item, state, plan_id, head)
        self._refuse_answered(state, asked.question)
        if shown is not None and _bound(shown) != _bound(asked):
            raise stale(asked.question)
        signer = credential.name if credential is not None else None
        approver = self._gate.check_answering(by, signer, _command(asked.question.item, given))
        if approver is not None:
            by = Principal(name=approver.name, channel=by.channel)
        key = fingerprint(approver.key) if approver is not None else None
        value = value_given(state, asked.question, given, self._matches)
        exact = answer_bytes(value) if value is not msgspec.UNSET else None
        outcome = self._outcome(asked.question, given, by, exact, is_text=isinstance(value, str))
        word = given.word
        if asked.question.kind == "ask" and outcome is not None:
            word = "answer" if asked.question.takes else str(value)
        said = here.sink().text(given.said) if outcome is None else ""
        event = decided(state, asked.question, word, by, head=head, key=key, outcome=outcome, said=said)
        if credential is not None:
            body = signed_decision(event, workspace_id=asked.workspace_id, run_id=run_id, plan_id=plan_id)
            event = msgspec.structs.replace(event, signature=await here.sign(credential, body, by))
        return state, event, (exact,) if exact else ()

    def _matches(self, pattern: str, text: str) -> bool:
        """Whether a text matches a pattern of the plan's, which must not hold anybody up."""
        try:
            return self._here.ports.expressions().matches(pattern, text)
        except ExpressionError:
            return False

    def _outcome(
        self, question: Question, given: Given, by: Principal, exact: bytes | None, *, is_text: bool
    ) -> step_event.Outcome | None:
        """An answer as it may stand in an event, where it has an outcome."""
        now, sink = self._here.now(), self._here.sink()
        duration_ms = max(now - (question.since or now), 0)
        if question.kind == "task" and given.word == CANNOT:
            detail = bounded(sink.text(cannot_words(by.name, given.said)))
            return step_event.Outcome(duration_ms=duration_ms, error=AGENT_CANNOT, detail=detail)
        if exact is None:
            return (
                step_event.Outcome(duration_ms=duration_ms) if (question.kind, given.word) == ("task", DONE) else None
            )
        observed = sink.output(exact)
        return step_event.Outcome(
            duration_ms=duration_ms,
            output_tail=observed.tail,
            output_bytes=observed.size,
            output_seal=observed.seal,
            hidden=sink.hidden((exact,), whole=True),
            output_json=not is_text,
        )

    def _refuse_answered(self, state: RunState, question: Question) -> None:
        for one in self._gate.sent(state):
            if one.step == question.step:
                detail = f"{one.by.name} answered this already; the run takes it up when it goes on."
                raise _too_late(state.run_id, detail)


def _given(given: str | Given) -> Given:
    return Given(word=given) if isinstance(given, str) else given


def _bound(asked: Asked) -> Asked:
    """What a person was shown, but for what other steps did meanwhile."""
    return msgspec.structs.replace(asked, head="", question=msgspec.structs.replace(asked.question, behind=0))


def _too_late(run_id: RunId, detail: str) -> Refused:
    return refuse("E_ANSWER_STALE", detail, command=f"ordain show {run_id}")


def _command(item: str, given: Given) -> str:
    words = ["ordain answer", shlex.quote(item)]
    if given.said:
        words += ["-m", shlex.quote(given.said)]
    if given.value is not msgspec.UNSET:
        spelt = json.dumps(given.value, ensure_ascii=False, separators=(",", ":"))
        spelt = spelt.encode(errors="backslashreplace").decode()  # as JSON spells what UTF-8 cannot
        words += ["--value", shlex.quote(spelt)]
    return " ".join([*words, spelt_word(given.word)] if given.word else words)


def _asked(item: str, state: RunState, plan_id: PlanId, head: str) -> Asked:
    return Asked(
        question=find_question(state, item),
        run_id=state.run_id,
        plan_id=plan_id,
        workspace_id=state.workspace_identity.id,
        head=head,
        tier=state.limits_in_force.tier,
    )


# --- Telling ---------------------------------------------------------------------------------------------------------
# Each question is told once, when it arises: what was asked already when an executor took the run was told by the one
# before it. An executor that was killed between asking and telling has told nobody.

_ARISES = (
    step_event.AttemptEnded,
    step_event.AttemptWaiting,
    BudgetReached,
    step_event.ContractBroken,
    step_event.ContractHeld,
    step_event.ContractInconclusive,
    step_event.DecisionGiven,
    step_event.DoubtChecked,
    step_event.DoubtFound,
    step_event.DoubtReferred,
    step_event.FallbackEnded,
    step_event.PreconditionBroken,
    step_event.StepApprovalAsked,
)
"""The events with which a question can arise; one about a budget when the last of what it pays for has ended."""


class QuestionNotifier:
    """An observer of one run, whose state it looks at."""

    def __init__(self, here: Surroundings, state: RunState) -> None:
        self._here, self._state = here, state
        self._told = {question.item for question in questions(state)}

    def observe(self, told: Told) -> None:
        state = self._state
        open_ = state.waiting or state.doubtful or state.escalated or state.reached
        if not open_ or not isinstance(told, Recorded) or not isinstance(told.event, _ARISES):
            return
        for question in questions(state):
            if question.item not in self._told:
                self._told.add(question.item)
                self._here.notify(
                    question.kind,
                    run_id=state.run_id,
                    title=short_title(state.plan.title),
                    text=question.text,
                    command=question.asking,
                    commands=answer_commands(question),
                    question=msgspec.to_builtins(question),
                )
