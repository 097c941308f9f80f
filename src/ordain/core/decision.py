"""What a person can be asked about a run, what each answer does, and the exact bytes that an answer signs.

An answer is bound to its question: to the run, the plan, the step and its attempt, to the words that were shown, and to
the run's chain as it stood. It is recorded right after that, or not at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from ordain.core.approval import Channel, Principal
from ordain.core.budget import amount_words, left, question_words
from ordain.core.canonical import canonical_bytes
from ordain.core.event import DecisionGiven, Settlement, StepState
from ordain.core.model import contract_of
from ordain.core.problem import Problem, Refused, closest, refuse
from ordain.core.signature import statement
from ordain.core.spending import budget_name, owner_of
from ordain.core.state import RunState
from ordain.core.value import PlanId, RunId, StepId

__all__ = [
    "Asked",
    "Choice",
    "Question",
    "choice_named",
    "decided",
    "find_question",
    "persons_only",
    "questions",
    "signed_decision",
    "stale",
]


class Choice(msgspec.Struct, frozen=True, kw_only=True):
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
    """`doubt`, `escalation` or `budget`."""
    text: str
    choices: tuple[Choice, ...]
    detail: str = ""
    output_tail: str = ""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A question as it was put to a person, and how things stood then: what an answer is bound to."""

    question: Question
    run_id: RunId
    plan_id: PlanId
    workspace_id: str
    head: str
    """Of the run's chain; with it everything that was recorded of the run."""
    tier: int


_AGAIN = "It is carried out again, and what an earlier attempt did is not taken back."
_UNVERIFIED = "It counts as passed without evidence, and every report says: unverified."
_DID_NOT = Choice(
    word="did-not",
    meaning="its effect is not there; run it again",
    consequence="If its effect is there after all, it happens a second time: nothing checks that.",
)
_RETRY = Choice(word="retry", meaning="one more attempt", consequence=_AGAIN)
_SKIP = Choice(
    word="skip",
    meaning="go on without it",
    consequence="Steps that need it go on as if it were done; what it left behind is not looked at.",
)
_PASS = Choice(
    word="pass",
    meaning="it is done; recorded as passed by your decision, not by evidence",
    consequence=_UNVERIFIED,
)
_ABORT = Choice(
    word="abort",
    meaning="end the run as failed",
    consequence="Nothing more is begun, and what was done is not taken back.",
)


_UNLIMITED = Choice(
    word="unlimited",
    meaning="go on without this limit for the rest of this run",
    consequence="Nothing asks about it again in this run, whatever is spent.",
)


def _extend(amount: str) -> Choice:
    return Choice(
        word="extend",
        meaning=f"allow another {amount}",
        consequence="The run goes on, and asks again when that is reached.",
    )


def _happened(*, checked: bool) -> Choice:
    return Choice(
        word="happened",
        meaning="its effect is there; go on (its contract, if any, is run now)",
        consequence="Its contract is run now, and only that passes it." if checked else _UNVERIFIED,
    )


def questions(state: RunState) -> tuple[Question, ...]:
    """Everything this run waits for a person to decide, in the plan's order."""
    if state.finished:
        return ()
    found = list(_budget_questions(state))
    for step_id in sorted({*state.doubtful, *state.escalated}, key=lambda step_id: state.position[step_id]):
        record, step = state.steps[step_id], state.step(step_id)
        choices: tuple[Choice, ...]
        if record.state is StepState.IN_DOUBT:
            if record.settle is not Settlement.PERSON:
                continue
            kind, choices = "doubt", (_happened(checked=contract_of(step) is not None), _DID_NOT, _ABORT)
            text = f"`{step.description}` was begun, and the executor died before it saw the end. Did it happen?"
            detail = record.how
        else:
            kind, choices = "escalation", (_RETRY, _SKIP, _PASS, _ABORT)
            text = f"`{step.description}` did not succeed. What now?"
            source = record.evidence or record.outcome
            detail = source.detail if source is not None else ""
        last = record.evidence or record.outcome
        again = f"@{record.decisions + 1}" if record.decisions else ""
        found.append(
            Question(
                item=f"{state.run_id}/{step_id}{again}",
                step=step_id,
                attempt=record.attempts,
                kind=kind,
                text=text,
                choices=choices,
                detail=detail,
                output_tail=last.output_tail if last is not None else "",
            )
        )
    return tuple(found)


def _budget_questions(state: RunState) -> Iterator[Question]:
    """One for each budget that was reached, once nothing that it pays for is at work, from when on what was spent stays
    as it is; and none where nothing is left to do."""
    for owner, reached in state.reached.items():
        account = state.accounts[owner]
        if account.at_work or state.aborted_by is not None or not left(state, owner):
            continue
        text, detail = question_words(state, owner)
        again = f"@{account.decisions + 1}" if account.decisions else ""
        amount = amount_words(reached.what, account.given[reached.what])
        yield Question(
            item=f"{state.run_id}/{budget_name(owner)}{again}",
            step=budget_name(owner),
            attempt=0,
            kind="budget",
            text=text,
            choices=(_extend(amount), _UNLIMITED, _ABORT),
            detail=detail,
        )


def _decided_before(state: RunState, name: StepId) -> int:
    """How often a person decided about what a question of this name is about."""
    owner = owner_of(name)
    return state.steps[name].decisions if owner is None else state.accounts[owner].decisions


def find_question(state: RunState, item: str) -> Question:
    """The question that a person names: `RUN/STEP`, `RUN` where only one thing is asked, and with `@2` the second one
    about the same step. Raises Refused where nothing of that name is asked now, or another question about the step is.

    A question about a step ends with a decision and no other way, so their number says which one is meant.
    """
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
    if (number if mark else "1") != str(_decided_before(state, found.step) + 1):
        raise stale(found, f"What is asked about `{found.step}` now is another question than this answers.")
    return found


def stale(question: Question, detail: str = "") -> Refused:
    """The refusal of an answer to what is not asked, or not so, any more."""
    detail = detail or "Something was recorded about the run while the question was being read."
    about = f"It is about attempt {question.attempt} now; look" if question.attempt else "Look"
    hint = f"{about} at it, then answer {question.item}."
    return refuse("E_ANSWER_STALE", detail, hint, command="ordain status")


def choice_named(question: Question, word: str) -> Choice:
    """The choice of this word; raises Refused for an answer that is not one of the choices."""
    known = {choice.word: choice for choice in question.choices}
    if word in known:
        return known[word]
    hints = closest(word, known) or ("Choose one of " + ", ".join(f"`{name}`" for name in known) + ".",)
    raise Refused([Problem(code="E_ANSWER_CHOICE", detail=f"`{word}` is no answer to this.", hints=hints)])


def decided(
    state: RunState, question: Question, word: str, by: Principal, *, head: str = "", key: str | None = None
) -> DecisionGiven:
    """The event for a person's answer, not signed yet; raises Refused for an answer that is not one of the choices."""
    choice_named(question, word)
    match word:
        case "happened":
            # Even a person's word does not stand in for a contract that can be run.
            checked = contract_of(state.step(question.step)) is not None
            to = StepState.VERIFYING if checked else StepState.PASSED
        case "did-not" | "retry" | "extend" | "unlimited":
            to = StepState.PENDING
        case "skip":
            to = StepState.SKIPPED
        case "pass":
            to = StepState.PASSED
        case _:
            to = StepState.FAILED
    return DecisionGiven(
        step=question.step,
        choice=word,
        by=by,
        to=to,
        aborts=word == "abort",
        attempt=question.attempt,
        about=question.kind,
        asked_sha256=hashlib.sha256(canonical_bytes(question)).hexdigest(),
        head=head,
        key=key,
    )


def signed_decision(event: DecisionGiven, *, workspace_id: str, run_id: str, plan_id: str) -> bytes:
    """What the signature of a decision is over: all of it, and which run of which plan it is about."""
    value = {
        "workspace": workspace_id,
        "run": run_id,
        "plan": plan_id,
        "step": event.step,
        "attempt": event.attempt,
        "about": event.about,
        "asked_sha256": event.asked_sha256,
        "head": event.head,
        "choice": event.choice,
        "to": event.to.value,
        "aborts": event.aborts,
        "by": msgspec.to_builtins(event.by),
        "key": event.key,
    }
    return statement("decision", value)


def persons_only(verb: str, by: Principal, command: str) -> None:
    """Refuse what only a person may do when it comes through a channel that an agent holds."""
    if by.channel is not Channel.TERMINAL:
        raise refuse(
            "E_APPROVAL_CHANNEL",
            f"Only a person can {verb}; this channel can only ask.",
            "Ask a person to type the command at a terminal.",
            command=command,
        )
