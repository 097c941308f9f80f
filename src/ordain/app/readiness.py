"""What must hold before a run of a plan may start, besides what permits it; looked at before anything is spent."""

from __future__ import annotations

from ordain.core.approval.approval import Approval
from ordain.core.plan.model import Plan
from ordain.core.text.problem import Problem, Refused
from ordain.records.surroundings import Surroundings


def refuse_broken(here: Surroundings, plan: Plan, approval: Approval | None) -> None:
    """Raise Refused with every precondition of the plan that does not hold."""
    if not plan.preconditions:
        return
    from ordain.app.foresight import conditions_before  # few plans have any

    conditions = conditions_before(plan, approval, here)
    redactor = here.redactor()
    broken = [why for condition in plan.preconditions if (why := conditions.fault(condition)) is not None]
    if broken:
        raise Refused(
            Problem(
                code="E_PLAN_PRECONDITION_FAILED",
                detail=f"Before this plan begins something must hold that does not: {redactor.text(why)}.",
            )
            for why in broken
        )


async def refuse_unprotectable(here: Surroundings, plan: Plan) -> None:
    """Raise Refused where what the plan protects cannot be kept. Files that only come to be while it runs are looked at
    then."""
    for patterns in dict.fromkeys((plan.protect, *(step.protect for step in plan.steps))):
        if patterns:
            await here.ports.protection.save(patterns, ())
