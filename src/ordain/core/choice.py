"""What each answer of ours leads to: one table for whoever asks, records, folds or audits an answer."""

from __future__ import annotations

from ordain.core.event import DecisionGiven, StepState

__all__ = ["ABORT", "CANNOT", "DONE", "SKIP", "fits", "leads_to"]

ABORT = "abort"
"""Ends the run as failed, whatever is asked; unless a plan has this very word among its own choices."""
SKIP = "skip"
"""Goes on without a step that did not succeed."""
DONE, CANNOT = "done", "cannot"
"""What a person says of a task that was theirs; the second with a reason, and a person decides then."""

_LEADS_TO = {
    "doubt": {"happened": StepState.PASSED, "did-not": StepState.PENDING},
    "escalation": {"retry": StepState.PENDING, SKIP: StepState.SKIPPED, "pass": StepState.PASSED},
    "step_approval": {"allow": StepState.PENDING, "deny": StepState.SKIPPED},
    "budget": {"extend": StepState.PENDING, "unlimited": StepState.PENDING},
    "ask": {},
    "task": {},
}
"""For each kind of question, our own words and where they take the step; an answer that has an outcome goes by that."""


def leads_to(kind: str, choice: str, *, checked: bool) -> StepState | None:
    """Where one of our own words takes the step that was asked about; None where it is no answer to such a question.
    Even a person's word does not stand in for a contract that can be run: `checked` says that there is one."""
    if choice == ABORT:
        return StepState.FAILED
    if checked and (kind, choice) == ("doubt", "happened"):
        return StepState.VERIFYING
    return _LEADS_TO[kind].get(choice)


def fits(decision: DecisionGiven) -> bool:
    """Whether a decision takes its step where its choice can lead, whatever the step is."""
    if decision.outcome is not None:
        if decision.outcome.error is not None:
            said = (decision.about, decision.choice) == ("task", CANNOT)
            return said and decision.to is StepState.ESCALATED and not decision.aborts
        return decision.to in (StepState.VERIFYING, StepState.PASSED) and not decision.aborts
    if decision.about and decision.about not in _LEADS_TO:
        return False
    kinds = (decision.about,) if decision.about else tuple(_LEADS_TO)  # none: of before answers were bound
    led = {leads_to(kind, decision.choice, checked=checked) for kind in kinds for checked in (True, False)}
    return decision.to in led and decision.aborts is (decision.choice == ABORT)
