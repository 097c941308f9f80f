"""How often a run may go on by what somebody proposes who is no person, before a person has to decide."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable

from ordain.core.lineage.lineage import PlanState
from ordain.core.plan.canonical import canonical_bytes
from ordain.core.plan.model import Plan
from ordain.core.plan.value import StepId
from ordain.core.run.run_state import RunState
from ordain.core.run.step_event import StepState
from ordain.core.text.problem import Problem

MAX_REPLANS = 3
_FAILED = (StepState.FAILED, StepState.ESCALATED)


def cause_of(state: RunState, step_id: StepId) -> str:
    """How a step failed, in a word that is the same where it fails so again: what was broken, and its exit status."""
    record = state.steps[step_id]
    if record.broken is not None:
        return record.broken.error
    if record.evidence is not None and record.evidence.verdict != "held":
        status = record.evidence.exit_code
        return f"contract {record.evidence.verdict.value}" + (f" {status}" if status is not None else "")
    outcome = record.outcome
    if outcome is None or outcome.error is None:
        return record.state.value
    return outcome.error + (f" {outcome.exit_code}" if outcome.exit_code is not None else "")


def cause_words(cause: str) -> str:
    """The same for a person to read."""
    return re.sub(r" (\d+)$", r", exit status \1", cause.removeprefix(": "))


def causes_of(state: RunState) -> tuple[str, ...]:
    """What of a run failed, and how, each as `STEP: CAUSE` by the plan's own name for the step."""
    failed = (name for name in state.reading_order() if state.steps[name].state in _FAILED)
    found = tuple(dict.fromkeys(f"{state.written_name(name)}: {cause_of(state, name)}" for name in failed))
    return found or (f": {state.status or 'stopped'}",)


def not_passed(state: RunState) -> tuple[StepId, ...]:
    return tuple(
        step.id
        for step in state.plan.steps
        if (record := state.steps[step.id]).state is not StepState.PASSED and (record.attempts or record.broken)
    )


def remainder_of(plan: Plan, former: RunState, kept: Collection[StepId]) -> str:
    """The digest of what a plan has left to do after a run of which these steps are kept, and how that is checked. A
    step that is kept only if its check holds now is left to do: its check may be what changed."""
    left = [
        (step.action, step.verification.strategy if step.verification is not None else None, step.for_each)
        for step in plan.steps
        if step.id not in kept or former.steps[step.id].state is not StepState.PASSED
    ]
    return hashlib.sha256(canonical_bytes(left)).hexdigest()


def replan_fault(
    state: PlanState, causes: Iterable[str], remainder: str = "", *, most: int = MAX_REPLANS, besides: str = ""
) -> Problem | None:
    """Why a person has to decide how a run goes on that failed so. Asked before a try begins, and with the remainder
    once there is a proposal, then `besides` its own try."""
    tries = [one for name, one in state.replans.items() if name != besides]
    if remainder and any(one.remainder == remainder for one in tries):
        detail = "What is left to do was proposed before, just so, and did not help: it goes round in circles."
        return _asks("E_REPLAN_STALLED", detail)
    if len(tries) >= most:
        return _asks("E_REPLAN_LIMIT", f"This plan was replanned {len(tries)} times, and {most} are allowed.")
    known = {cause for one in tries for cause in one.causes}
    if again := next((cause for cause in causes if cause in known), None):
        return _asks("E_REPLAN_LIMIT", f"It was replanned for this already: {cause_words(again)}.")
    return None


def _asks(code: str, detail: str) -> Problem:
    hint = "A person decides how it goes on: what the planner proposed may wait, or they `ordain revise` it themselves."
    return Problem(code=code, detail=detail, hints=(hint,), command="ordain inbox")
