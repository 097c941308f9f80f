"""Telling people what a run asks them, when it arises and while the run goes on with other steps.

Each question is told once: what was asked already when an executor took the run was told by the one before it. Nothing
here changes anything; an executor that was killed between asking and telling has told nobody.
"""

from __future__ import annotations

import msgspec

from ordain.answering import answer_commands
from ordain.core.decision import questions
from ordain.core.event import (
    AttemptEnded,
    AttemptWaiting,
    BudgetReached,
    ContractBroken,
    ContractHeld,
    ContractInconclusive,
    DecisionGiven,
    DoubtFound,
    DoubtReferred,
    FallbackEnded,
    PreconditionBroken,
    Recorded,
    StepApprovalAsked,
)
from ordain.core.progress import Told
from ordain.core.run_state import RunState
from ordain.surroundings import Surroundings

__all__ = ["Telling"]

_ARISES = (
    AttemptEnded,
    AttemptWaiting,
    BudgetReached,
    ContractBroken,
    ContractHeld,
    ContractInconclusive,
    DecisionGiven,
    DoubtFound,
    DoubtReferred,
    FallbackEnded,
    PreconditionBroken,
    StepApprovalAsked,
)
"""The events with which a question can arise; one about a budget when the last of what it pays for has ended."""


class Telling:
    """An observer of one run, whose state it looks at."""

    def __init__(self, here: Surroundings, state: RunState) -> None:
        self._here, self._state = here, state
        self._told = {question.item for question in questions(state)}

    def observe(self, told: Told) -> None:
        state = self._state
        if not isinstance(told, Recorded):
            return
        open_ = state.waiting or state.doubtful or state.escalated or state.reached
        if open_ and isinstance(told.event, _ARISES):
            self._tell()

    def _tell(self) -> None:
        for question in questions(self._state):
            if question.item not in self._told:
                self._told.add(question.item)
                self._here.notify(
                    question.kind,
                    run_id=self._state.run_id,
                    title=self._state.plan.title,
                    text=question.text,
                    command=question.asking,
                    commands=answer_commands(question),
                    question=msgspec.to_builtins(question),
                )
