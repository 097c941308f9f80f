"""Performs `validate_approval`: looks at the approval that the run was started on."""

from __future__ import annotations

from ordain.core.plan.action import ValidateApproval
from ordain.core.run.step_event import Outcome
from ordain.engine.begin import covers
from ordain.engine.context import RunContext
from ordain.engine.perform.effects import Attempt, not_begun


async def perform(run: RunContext, action: ValidateApproval, attempt: Attempt) -> Outcome:
    why = covers(run.opened.approval, action.scope)
    return not_begun(run, f"the approval {why}") if why is not None else Outcome(duration_ms=0)
