"""What the steps of a run came to, as an audit compares it with what a successor says that it has kept."""

from __future__ import annotations

from ordain.core.plan.value import RunId, StepId
from ordain.core.run.event import Event
from ordain.core.run.step_event import (
    AttemptEnded,
    AttemptStarted,
    ContractHeld,
    DecisionGiven,
    DoubtChecked,
    DoubtSettled,
    Outcome,
    PreconditionBroken,
    StepKept,
    StepState,
    StepUnfolded,
)


class StepResults:
    """What the steps of a run came to, as far as a successor may take it over."""

    def __init__(self) -> None:
        self.outcomes: dict[StepId, Outcome | None] = {}
        self.well: dict[StepId, RunId | None] = {}
        """The steps that were seen, or said, to have gone well; and where it was another run that did them, which."""

    def add(self, event: Event) -> None:
        match event:
            case AttemptStarted() | StepUnfolded() | PreconditionBroken():
                self.outcomes.pop(event.step, None)
                self.well.pop(event.step, None)
            case StepKept():
                self.outcomes[event.step], self.well[event.step] = event.outcome, event.run_id
            case AttemptEnded() | DecisionGiven() if event.outcome is not None:
                self.outcomes[event.step] = event.outcome
                if event.outcome.error is None:
                    self.well[event.step] = None
            case (
                ContractHeld() | DoubtChecked() | DecisionGiven(to=StepState.PASSED) | DoubtSettled(to=StepState.PASSED)
            ):
                self.well[event.step] = None

    def misfit(self, event: StepKept, former: RunId) -> bool:
        """Whether a step is said to be kept of this run that was not, or not with this result."""
        if event.step not in self.well or self.outcomes.get(event.step) != event.outcome:
            return True
        return event.run_id != (self.well[event.step] or former)
