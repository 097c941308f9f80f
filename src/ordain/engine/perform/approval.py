"""Performs `validate_approval`: looks at the approval that the run was started on."""

from __future__ import annotations

from ordain.core.plan.actions.approval import ValidateApproval
from ordain.core.run.step_event import Outcome
from ordain.engine.begin import covers
from ordain.engine.perform.effects import Attempt, Performing


async def perform(run: Performing, action: ValidateApproval, attempt: Attempt) -> Outcome:
    why = covers(run.approval, action.scope)
    return run.not_begun(f"the approval {why}") if why is not None else Outcome(duration_ms=0)
