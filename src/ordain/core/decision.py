"""What a person can be asked about a run, and what each answer does."""

from __future__ import annotations

import msgspec

from ordain.core.approval import Channel, Principal
from ordain.core.event import DecisionGiven, Settlement, StepState
from ordain.core.model import contract_of
from ordain.core.problem import Problem, Refused, closest, refuse
from ordain.core.state import RunState
from ordain.core.value import StepId

__all__ = ["Choice", "Question", "decided", "persons_only", "questions"]


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One possible answer: its word, and what it means."""

    word: str
    meaning: str


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """Something only a person can decide. `item` is how to name it in an answer."""

    item: str
    step: StepId
    kind: str
    """`doubt` or `escalation`."""
    text: str
    choices: tuple[Choice, ...]
    detail: str = ""
    output_tail: str = ""


_HAPPENED = Choice(word="happened", meaning="its effect is there; go on (its contract, if any, is run now)")
_DID_NOT = Choice(word="did-not", meaning="its effect is not there; run it again")
_RETRY = Choice(word="retry", meaning="one more attempt")
_SKIP = Choice(word="skip", meaning="go on without it")
_PASS = Choice(word="pass", meaning="it is done; recorded as passed by your decision, not by evidence")
_ABORT = Choice(word="abort", meaning="end the run as failed")


def questions(state: RunState) -> tuple[Question, ...]:
    """Everything this run waits for a person to decide, in the plan's order."""
    if state.finished:
        return ()
    found = []
    for step_id in sorted({*state.doubtful, *state.escalated}, key=lambda step_id: state.position[step_id]):
        record, step = state.steps[step_id], state.step(step_id)
        choices: tuple[Choice, ...]
        if record.state is StepState.IN_DOUBT:
            if record.settle is not Settlement.PERSON:
                continue
            kind, choices = "doubt", (_HAPPENED, _DID_NOT, _ABORT)
            text = f"`{step.description}` was begun, and the executor died before it saw the end. Did it happen?"
            detail = record.how
        else:
            kind, choices = "escalation", (_RETRY, _SKIP, _PASS, _ABORT)
            text = f"`{step.description}` did not succeed. What now?"
            source = record.evidence or record.outcome
            detail = source.detail if source is not None else ""
        last = record.evidence or record.outcome
        found.append(
            Question(
                item=f"{state.run_id}/{step_id}",
                step=step_id,
                kind=kind,
                text=text,
                choices=choices,
                detail=detail,
                output_tail=last.output_tail if last is not None else "",
            )
        )
    return tuple(found)


def decided(state: RunState, question: Question, word: str, by: Principal) -> DecisionGiven:
    """The event for a person's answer; raises Refused for an answer that is not one of the choices."""
    known = [choice.word for choice in question.choices]
    if word not in known:
        hints = closest(word, known) or ("Choose one of " + ", ".join(f"`{name}`" for name in known) + ".",)
        raise Refused([Problem(code="E_ANSWER_CHOICE", detail=f"`{word}` is no answer to this.", hints=hints)])
    match word:
        case "happened":
            # Even a person's word does not stand in for a contract that can be run.
            checked = contract_of(state.step(question.step)) is not None
            to = StepState.VERIFYING if checked else StepState.PASSED
        case "did-not" | "retry":
            to = StepState.PENDING
        case "skip":
            to = StepState.SKIPPED
        case "pass":
            to = StepState.PASSED
        case _:
            to = StepState.FAILED
    return DecisionGiven(step=question.step, choice=word, by=by, to=to, aborts=word == "abort")


def persons_only(verb: str, by: Principal, command: str) -> None:
    """Refuse what only a person may do when it comes through a channel that an agent holds."""
    if by.channel is not Channel.TERMINAL:
        raise refuse(
            "E_APPROVAL_CHANNEL",
            f"Only a person can {verb}; this channel can only ask.",
            "Ask a person to type the command at a terminal.",
            command=command,
        )
