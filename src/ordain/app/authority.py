"""What a run may not do, whatever permits it: begin where a precondition does not hold, and go on with what is denied
once work is stopped or a person trusted a `deny`. What the run was started with still denies what it denied then."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ordain.app.refusals import Refusals
from ordain.core.approval.approval import Approval, Principal
from ordain.core.plan.model import Plan, Step
from ordain.core.plan.tool import ToolDefinition
from ordain.core.plan.value import RunId
from ordain.core.policy.settings import Settings
from ordain.core.policy.stop import stopped_problem
from ordain.core.run.step_event import DecisionGiven
from ordain.core.text.problem import Problem, Refused, refuse
from ordain.records.surroundings import Surroundings


class RunAuthority:
    """engine.Authority: asked before each step, contract and call of an agent; cheap while nothing changed."""

    def __init__(
        self,
        here: Surroundings,
        settings: Settings,
        kept: Mapping[str, ToolDefinition],
        *,
        approved: bool,
        judged_at: int | None,
        counts: Callable[[DecisionGiven], bool] = lambda decision: False,
    ) -> None:
        """`kept` are the definitions that the run keeps; `judged_at` is how long the workspace's stream was when policy
        was asked about the whole plan, None where an earlier executor did that; `counts` says whose answers count."""
        self._here, self._settings, self._kept, self._approved = here, settings, kept, approved
        self._judged_at, self.counts = judged_at, counts

    def denied(self, step: Step, resolved: bool = False) -> Problem | None:
        """What policy denies of a step that is about to begin; `resolved` where its values were not known before.
        Raises Refused while work is stopped."""
        snapshot = self._here.snapshot
        if snapshot.stops:
            raise Refused([stopped_problem(snapshot.stops[0])])
        newest = snapshot.settings if snapshot.workspace.size != self._judged_at else None  # else the same as then
        problem = self._here.denied(step, newest, self._kept) if newest is not None else None
        return problem or (self._here.denied(step, self._settings, self._kept) if resolved else None)

    def unpermitted(self, step: Step) -> Problem | None:
        """What policy has against a call that an agent makes: it is denied, or would be asked about and nobody was."""
        if stops := self._here.snapshot.stops:
            return stopped_problem(stops[0])
        newly = self.denied(step)
        ruling = self._here.rule_step(step, self._settings, self._kept)
        if newly or ruling.denied or self._approved or not ruling.requires_approval:
            return newly or next(iter(ruling.denied), None)
        detail = f"Nobody was asked about this plan, and this call wants that: {ruling.reasons[0]}."
        hint = "Have the plan proposed with this call as a step of its own."
        return Problem(code="E_PLAN_APPROVAL_MISSING", detail=detail, hints=(hint,))

    async def refused(self, subject: str, who: Principal, problem: Problem) -> None:
        """Record that a call was refused to an agent."""
        await Refusals(self._here).record("call", subject, who, (problem,))


def taken_over(run_id: RunId) -> Refused:
    """Nobody can be at work on what we have claimed, unless the claim was lost while we were frozen."""
    return refuse("E_FENCED", f"{run_id} was taken over before this executor began with it.")


# --- Before a run begins ---------------------------------------------------------------------------------------------


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
    """Raise Refused where what the plan protects cannot be kept; files that come later are looked at then."""
    for patterns in dict.fromkeys((plan.protect, *(step.protect for step in plan.steps))):
        if patterns:
            await here.ports.protection.save(patterns, ())
