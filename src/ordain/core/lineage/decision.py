"""What a person can be asked about a run, what each answer does, and the exact bytes that an answer signs.

An answer is bound to the run, the plan, the step and its attempt, to the words that were shown and to the run's chain
as it stood. It is recorded before anything else is of that step, or not at all.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from ordain.core.approval.approval import Channel, Principal
from ordain.core.approval.signature import statement
from ordain.core.lineage.ask import Given, answer_value, refuse_said, task_value
from ordain.core.plan.action import Ask
from ordain.core.plan.canonical import canonical_bytes, sha256
from ordain.core.plan.command import typed
from ordain.core.plan.failure import AskApproval, FailurePolicy, Recover, Replan, Retry
from ordain.core.plan.model import Step, check_of, contract_of
from ordain.core.plan.value import Instant, PlanId, RunId, StepId
from ordain.core.plan.words import action_words
from ordain.core.run.attempt import ABORT, CANNOT, CHECK, DONE, SKIP, Try, leads_to
from ordain.core.run.budget import amount_words, left, question_words
from ordain.core.run.consequence import last_policy, policy_of
from ordain.core.run.event import ProtectedChanged, RunEvent
from ordain.core.run.prompt import AGENT_CANNOT
from ordain.core.run.run_state import RunState, StepRecord
from ordain.core.run.schedule import all_after, asks, wants_proof
from ordain.core.run.spending import budget_name, owner_of
from ordain.core.run.step_event import (
    DecisionGiven,
    Evidence,
    Outcome,
    PreconditionBroken,
    Settlement,
    StepApprovalAsked,
    StepState,
    Verdict,
)
from ordain.core.task.work_item import Form, form_of
from ordain.core.text.problem import Problem, Refused, closest, refuse
from ordain.core.text.schema import Matches

# --- Decision --------------------------------------------------------------------------------------------------------


class Choice(msgspec.Struct, frozen=True):
    """One possible answer: its word, what it means, and what whoever gives it takes upon themselves."""

    word: str
    meaning: str
    consequence: str


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """Something only a person can decide. `item` is how to name it in an answer."""

    item: str
    step: StepId
    attempt: int
    kind: str
    """`doubt`, `escalation`, `ask`, `task`, `step_approval` before a step, or `budget`."""
    text: str
    choices: tuple[Choice, ...]
    detail: str = ""
    action: str = ""
    """Of a doubt or an escalation: what the step does, as the plan has it."""
    output_tail: str = ""
    """The redacted end of what its last attempt wrote."""
    contract: str = ""
    """The command of its contract, where it has one."""
    contract_output_tail: str = ""
    """The same of its contract, where that was run last."""
    check_output_tail: str = ""
    """The same of what was asked last whether it happened, where that was."""
    takes: str = ""
    """For a question of the plan that has no choices: `text`, or `json` for a value that fits the schema."""
    schema: Mapping[str, Any] = {}
    form: Form | None = None
    """Of a task: all of it."""
    wants: str = ""
    """What the failure policy wants of a planner: `replan` or `recover`."""
    policy: FailurePolicy | None = None
    """What was to follow a failure."""
    tries: tuple[Try, ...] = ()
    """What was tried, the last attempt too; of very many the newest."""
    since: Instant | None = None
    """Since when it waits for a person."""
    until: Instant | None = None
    """When it waits no longer."""
    behind: int = 0
    """How many steps cannot begin before it is answered."""

    @property
    def asking(self) -> str:
        """The command that answers it, up to the answer, as it is typed into a shell: `[` means something there."""
        return f"ordain answer {typed([self.item])}"


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A question as it was put to a person, and how things stood then: what an answer is bound to."""

    question: Question
    run_id: RunId
    plan_id: PlanId
    workspace_id: str
    head: str
    """Of the run's chain; with it everything that was recorded of the run."""
    tier: int


_AGAIN = "The step runs again. What earlier attempts did is not undone."
_UNVERIFIED = "It counts as passed without evidence, and every report says: unverified."
_DID_NOT = Choice(
    "did-not",
    "it did not take effect; run it again",
    "If it did take effect, it happens a second time: nothing checks that.",
)
_SKIP = Choice(
    SKIP, "go on without it", "Steps that need it run as if it were done. What it left behind is not looked at."
)
_PASS = Choice("pass", "it is done; recorded as passed by your decision, not by evidence", _UNVERIFIED)
_CHECK = Choice(
    CHECK,
    "run its contract again now",
    "If the contract holds, the step passes. If not, you are asked again. The step itself does not run.",
)
_ABORT = Choice("abort", "end the run as failed", "No further step starts. What was done is not undone.")
_ALLOW = Choice(
    "allow",
    "it may be done, exactly as shown",
    "It is carried out; were its arguments to change, you would be asked again.",
)
_DENY = Choice(
    "deny",
    "it must not be done",
    "It is skipped, and steps that need it are not begun; what it is part of cannot pass.",
)
_UNLIMITED = Choice(
    "unlimited",
    "go on without this limit for the rest of this run",
    "Nothing asks about it again in this run, whatever is spent.",
)
_CANNOT = Choice(
    CANNOT,
    "it cannot be done; say why",
    "Your reason is shown, and a person decides: another try, without it, or the end of the run.",
)


def _retry(policy: FailurePolicy) -> Choice:
    attempts = policy.max_attempts if isinstance(policy, Retry) else 1
    meaning = "one more attempt" if attempts == 1 else f"up to {attempts} more attempts, as its failure policy has it"
    return Choice("retry", meaning, _AGAIN)


def _done(*, checked: bool) -> Choice:
    return Choice(
        DONE,
        "it is done" if checked else "it is done; recorded as passed by your word, not by evidence",
        "Its contract is run then, and only that passes it." if checked else _UNVERIFIED,
    )


def _happened(*, checked: bool) -> Choice:
    return Choice(
        "happened",
        f"it took effect; {'run its contract now' if checked else 'go on'}",
        "Its contract is run now, and only that passes it. If it is broken, the failure policy applies."
        if checked
        else _UNVERIFIED,
    )


def questions(state: RunState) -> tuple[Question, ...]:
    """Everything this run waits for a person to decide, in the plan's order."""
    if state.finished:
        return ()
    open_ = sorted({*state.doubtful, *state.escalated, *state.waiting}, key=lambda step_id: state.position[step_id])
    about_steps = (question_about(state, step_id) for step_id in open_)
    return (*_budget_questions(state), *(found for found in about_steps if found is not None))


def question_about(state: RunState, step_id: StepId) -> Question | None:
    """What a person is asked about this step, if anything."""
    record, step = state.steps[step_id], state.step(step_id)
    match record.state:
        case StepState.IN_DOUBT if record.settle is Settlement.PERSON:
            asked = _doubt(step, record)
        case StepState.ESCALATED if record.asked is not None:
            asked = _permission(step, record.asked)
        case StepState.ESCALATED:
            asked = _escalation(state, step, record)
        case StepState.WAITING if asks(state, step_id):
            asked = _question(step, record) if isinstance(step.action, Ask) else _persons_task(step, record)
        case _:
            return None
    # What a person is only now asked to do was not tried yet; what they see is how it went before.
    tries = record.tries if asked.kind == "task" else (*record.tries, record.last_try()) if record.attempts else ()
    outcome, evidence = (tries[-1].outcome, tries[-1].evidence) if tries else (record.outcome, record.evidence)
    seen = evidence.output_tail if evidence is not None else ""
    about_effect, contract = asked.kind in ("doubt", "escalation"), contract_of(step)
    again = f"@{record.asked_before + 1}" if record.asked_before else ""
    asked_by = sha256(contract.command.encode()) if contract is not None else None
    by_contract = evidence is not None and evidence.command_sha256 == asked_by
    return replace(
        asked,
        item=f"{state.run_id}/{step_id}{again}",
        attempt=record.attempts,
        action=action_words(step.action) if about_effect else "",
        output_tail=outcome.output_tail if outcome is not None else "",
        contract=contract.command if about_effect and contract is not None else "",
        contract_output_tail=seen if by_contract else "",
        check_output_tail="" if by_contract else seen,
        policy=policy_of(state, step_id),
        tries=tries,
        since=record.ended_at if asked.kind == "escalation" else record.waits_since,
        behind=len(all_after(state, step_id)) - 1,
    )


_about = partial(Question, item="", attempt=0)
"""A question about a step, whose name and attempt are filled in by `question_about`."""


def _doubt(step: Step, record: StepRecord) -> Question:
    seen, checked = record.seen_before, contract_of(step) is not None
    # What holds without the effect says nothing about it.
    held = seen is not None and seen.verdict is Verdict.HELD
    without = "it held before the step too" if held else "nothing checks whether it would hold without the step"
    consequence = f"If the contract holds, the step passes; {without}. If not, you are asked again."
    check = replace(_CHECK, consequence=consequence)
    return _about(
        step=step.id,
        kind="doubt",
        text=f"`{step.description}` started, and Ordain was stopped before it saw the result. Did it happen?",
        choices=(_happened(checked=checked), *((check,) if checked and not record.tampered else ()), _DID_NOT, _ABORT),
        detail=record.how,
    )


_WANTS = {"replan": "another plan", "recover": "how to recover it"}


def _escalation(state: RunState, step: Step, record: StepRecord) -> Question:
    source, policy = record.broken or record.evidence or record.outcome, last_policy(state, step.id)
    wants = "replan" if isinstance(policy, Replan) else "recover" if isinstance(policy, Recover) else ""
    judged = record.evidence is not None and record.broken is None and not record.tampered
    checkable = judged and contract_of(step) is not None and not wants_proof(state, step.id)
    text = f"`{step.description}` did not succeed. What now?"
    if record.outcome is not None and record.outcome.error == AGENT_CANNOT:
        text = f"`{step.description}` cannot be done as its contract wants it, says who was to do it. What now?"
    elif isinstance(policy, AskApproval):
        text = policy.summary
    elif wants:
        text = f"`{step.description}` did not succeed, and a planner is to propose {_WANTS[wants]}. What now?"
    return _about(
        step=step.id,
        kind="escalation",
        text=text,
        choices=(_retry(policy_of(state, step.id)), *((_CHECK,) if checkable else ()), _SKIP, _PASS, _ABORT),
        detail=_seen(source, "contract" if contract_of(step) is not None else "verification"),
        wants=wants,
    )


def _seen(source: PreconditionBroken | Evidence | Outcome | None, check: str) -> str:
    """What was seen of a step that did not succeed; a contract's exit status is told from the step's own."""
    if isinstance(source, Evidence) and source.error is None:
        return f"its {check} is {source.verdict.value}: {source.detail}"
    return source.detail if source is not None else ""


def _permission(step: Step, asked: StepApprovalAsked) -> Question:
    return _about(
        step=step.id,
        kind="step_approval",
        text=f"May `{step.description}` be done? {asked.reason[:1].upper()}{asked.reason[1:]}.",
        choices=(_ALLOW, _DENY, _ABORT),
        detail=asked.shown,
    )


def _question(step: Step, record: StepRecord) -> Question:
    action = step.action
    assert isinstance(action, Ask)
    checked = "Its contract is run then, and only that passes it." if check_of(step) is not None else ""
    consequence = f"It becomes the result of `{step.id}`, which later steps may use. {checked}".rstrip()
    choices = tuple(Choice(word=word, meaning="", consequence=consequence) for word in action.choices)
    return _about(
        step=step.id,
        kind="ask",
        text=action.question,
        choices=choices if ABORT in action.choices else (*choices, _ABORT),
        detail=step.description if step.description != action.question else "",
        takes="" if action.choices else "json" if action.schema else "text",
        schema=action.schema,
        until=record.waits_until,
    )


def _persons_task(step: Step, record: StepRecord) -> Question:
    return _about(
        step=step.id,
        kind="task",
        text=step.description,
        choices=(_done(checked=check_of(step) is not None), _CANNOT, _ABORT),
        form=form_of(step, record.agent),
        until=record.waits_until,
    )


def still_asked(state: RunState, decision: DecisionGiven) -> bool:
    """Whether the very question that this decides is the one that is asked now, and can be decided so."""
    if state.finished:
        return False
    if decision.step in state.steps:
        asked = question_about(state, decision.step)
    else:
        asked = next((one for one in _budget_questions(state) if one.step == decision.step), None)
    return asked is not None and _answers(state, asked, decision)


def _answers(state: RunState, question: Question, decision: DecisionGiven) -> bool:
    """Whether a decision is what `decided` makes of its choice: anybody can write an answer that nobody signed."""
    outcome = decision.outcome
    if question.kind == "ask":
        action = state.step(question.step).action
        assert isinstance(action, Ask)
        words = (action.choices or ("answer",)) if outcome is not None else {ABORT}.difference(action.choices)
        possible = decision.choice in words and (outcome is None or outcome.error is None)
    elif question.kind == "task" and outcome is not None:
        possible = (decision.choice, outcome.error) in ((DONE, None), (CANNOT, AGENT_CANNOT))
    else:
        possible = outcome is None and decision.choice not in (DONE, CANNOT)
    if not possible:
        return False
    rest: dict[str, Any] = {name: getattr(decision, name) for name in ("head", "key", "outcome", "said")}
    try:
        made = decided(state, question, decision.choice, decision.by, **rest)
    except Refused:
        return False
    return replace(made, signature=decision.signature) == decision


def _budget_questions(state: RunState) -> Iterator[Question]:
    """One for each budget that was reached, once nothing that it pays for is at work, where anything is left to do."""
    for owner, reached in state.reached.items():
        account = state.accounts[owner]
        if account.at_work or state.aborted_by is not None or not (held := left(state, owner)):
            continue
        text, detail = question_words(state, owner)
        again = f"@{account.decisions + 1}" if account.decisions else ""
        amount = f"allow another {amount_words(reached.what, account.given[reached.what])}"
        extend = Choice("extend", amount, "The run goes on, and asks again when that is reached.")
        yield Question(
            item=f"{state.run_id}/{budget_name(owner)}{again}",
            step=budget_name(owner),
            attempt=0,
            kind="budget",
            text=text,
            choices=(extend, _UNLIMITED, _ABORT),
            detail=detail,
            since=account.reached_at,
            behind=len(held),
        )


def find_question(state: RunState, item: str) -> Question:
    """The question that a person names: `RUN/STEP`, `RUN` where only one thing is asked, and with `@2` the second one
    about the same step; raises Refused where that is not asked now."""
    asked = questions(state)
    step, mark, number = item.partition("/")[2].partition("@")
    found = next((one for one in asked if one.step == step or (not step and len(asked) == 1)), None)
    if found is None:
        about = f"{state.run_id} asks nothing about `{step}`." if step else f"Which step of {state.run_id} is meant?"
        raise refuse(
            "E_ANSWER_ITEM",
            about if asked else f"{state.run_id} asks nothing now.",
            *(["It asks about: " + ", ".join(one.item for one in asked) + "."] if asked else []),
            command="ordain status",
        )
    owner = owner_of(found.step)
    ended = state.steps[found.step].asked_before if owner is None else state.accounts[owner].decisions
    if (number if mark else "1") != str(ended + 1):
        raise stale(found, f"What is asked about `{found.step}` now is another question than this answers.")
    return found


def stale(question: Question, detail: str = "") -> Refused:
    """The refusal of an answer to what is not asked, or not so, any more."""
    detail = detail or "Something was recorded about the step while the question was being read."
    number = question.item.partition("@")[2] or "1"
    attempt = f", after attempt {question.attempt}" if question.attempt else ""
    hint = f"What is asked now is question {number} about it{attempt}. Look at it, then answer {question.item}."
    return refuse("E_ANSWER_STALE", detail, hint, command="ordain status")


def choice_named(question: Question, word: str) -> Choice:
    """The choice of this word; raises Refused for an answer that is not one of the choices."""
    known = {choice.word: choice for choice in question.choices}
    if word in known:
        return known[word]
    hints = closest(word, known) or ("Choose one of " + ", ".join(f"`{name}`" for name in known) + ".",)
    raise Refused([Problem(code="E_ANSWER_CHOICE", detail=f"`{word}` is no answer to this.", hints=hints)])


def value_given(state: RunState, question: Question, given: Given, matches: Matches) -> Any:
    """The value of an answer to a question of the plan, or that a task gives; UNSET where there is none. Raises Refused
    for what is no answer to it. `matches` looks at the patterns of a schema."""
    plain = given.value is msgspec.UNSET
    if question.kind == "task" and given.word == DONE:
        return task_value(given)
    refuse_said(given.said)
    if question.kind == "ask" and isinstance(action := state.step(question.step).action, Ask):
        if plain and given.word == ABORT and ABORT not in action.choices:
            return msgspec.UNSET
        if given.said:
            raise refuse("E_ANSWER_VALUE", "This is answered by the answer itself, and -m says something beside it.")
        return answer_value(action, given, matches)
    choice_named(question, given.word if plain else given.typed)
    if question.kind == "task" and given.word == CANNOT and not given.said.strip():
        why = "The person who decides what follows has to know why it cannot be done."
        raise refuse("E_ANSWER_VALUE", why, command=f"{question.asking} {CANNOT} -m WHY")
    return msgspec.UNSET


def decided(
    state: RunState,
    question: Question,
    word: str,
    by: Principal,
    *,
    head: str = "",
    key: str | None = None,
    outcome: Outcome | None = None,
    said: str = "",
) -> DecisionGiven:
    """The event for a person's answer, not signed yet; raises Refused for one that is none of the choices. What was
    answered to a question of the plan, or said of a task, is its outcome."""
    if outcome is not None and outcome.error is not None:
        to = StepState.ESCALATED
    elif outcome is not None:
        to = StepState.VERIFYING if check_of(state.step(question.step)) is not None else StepState.PASSED
    else:
        choice_named(question, word)
        checked = question.kind == "doubt" and contract_of(state.step(question.step)) is not None
        led = leads_to(question.kind, word, checked=checked)
        assert led is not None, "the answer to a question of the plan is an outcome"
        to = led
    return DecisionGiven(
        step=question.step,
        choice=word,
        by=by,
        to=to,
        aborts=outcome is None and word == ABORT,
        attempt=question.attempt,
        about=question.kind,
        # All that was shown of the step itself; what other steps do meanwhile changes nothing about the question.
        asked_sha256=hashlib.sha256(canonical_bytes(replace(question, behind=0))).hexdigest(),
        head=head,
        outcome=outcome,
        said=said,
        key=key,
    )


def signed_decision(event: DecisionGiven, *, workspace_id: str, run_id: str, plan_id: str) -> bytes:
    """What the signature of a decision is over: all of it, and which run of which plan it is about."""
    value = {name: getattr(event, name) for name in _SIGNED}
    # What was signed before there were such answers stays what it was.
    value |= {name: said for name in ("outcome", "said") if (said := getattr(event, name))}
    return statement("decision", {"workspace": workspace_id, "run": run_id, "plan": plan_id, **value})


_SIGNED = ("step", "attempt", "about", "asked_sha256", "head", "choice", "to", "aborts", "by", "key")


def persons_only(verb: str, by: Principal, command: str) -> None:
    """Refuse what only a person may do when it comes through a channel that an agent holds."""
    if by.channel is not Channel.TERMINAL:
        raise refuse(
            "E_APPROVAL_CHANNEL",
            f"Only a person can {verb}; this channel can only ask.",
            "Ask a person to type the command at a terminal.",
            command=command,
        )


# --- Commands --------------------------------------------------------------------------------------------------------


def spelt_word(word: str) -> str:
    """A word as it stands in a command, where it could look like an option."""
    return f"-- {shlex.quote(word)}" if word.startswith("-") else shlex.quote(word)


def asked_word(question: Question, word: str) -> str:
    """The word of a choice, with the place left open of what has to be said with it."""
    return f"{CANNOT} -m WHY" if (question.kind, word) == ("task", CANNOT) else spelt_word(word)


def answer_ways(question: Question) -> tuple[tuple[str, str], ...]:
    """The commands that answer a question and what each means, with the place of a value that is wanted left open."""
    ways = {
        "text": (("TEXT", "your answer, a text"),),
        "json": (("--value JSON", "your answer, a value that fits the schema"),),
    }.get(question.takes, ())
    choices = ((asked_word(question, choice.word), choice.meaning) for choice in question.choices)
    return tuple((f"{question.asking} {said}", meaning) for said, meaning in (*ways, *choices))


def answer_commands(question: Question) -> tuple[str, ...]:
    return tuple(command for command, _ in answer_ways(question))


# --- Moment ----------------------------------------------------------------------------------------------------------
# An answer counts where nothing of its step was recorded since it was given, although other steps may have gone on.

_SIZE = 32


class Moments:
    """The heads of one run's chain so far, and the last event of each step."""

    def __init__(self) -> None:
        self._heads = bytearray()
        self._last: dict[str, int] = {}
        """How many events there were with the last one of each step."""

    def add(self, event: RunEvent, head: bytes) -> None:
        """One more event of the run, and the head that it left."""
        self._heads += head
        size = len(self._heads) // _SIZE
        if isinstance(event, ProtectedChanged):
            self._last |= dict.fromkeys(event.steps, size)
        elif (step := getattr(event, "step", None)) is not None:
            self._last[step] = size

    def fit(self, decision: DecisionGiven) -> bool:
        """Whether this decision, as the next event, is of a moment since when nothing of its step was recorded."""
        try:
            head = bytes.fromhex(decision.head)
        except ValueError:
            return False
        if len(head) != _SIZE:
            return False
        at = max(self._last.get(decision.step, 1) - 1, 0) * _SIZE
        while (at := self._heads.find(head, at)) >= 0:
            if at % _SIZE == 0:
                return True
            at += 1
        return False
