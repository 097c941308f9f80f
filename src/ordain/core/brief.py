"""What a planner needs to know to propose how a run goes on after a step that did not get through.

A pure function of the run: the plan, the step, everything that was tried of it with what was seen, what is done and how
that is known, what remains, and within which limits. Whoever reads it decides nothing: what comes of it is a proposal.
"""

from __future__ import annotations

import msgspec

from ordain.core.decision import Question, question_about
from ordain.core.event import Limits, StepState
from ordain.core.failure import FailurePolicy
from ordain.core.model import Plan, Step
from ordain.core.report import RunReport, StepReport
from ordain.core.run_state import SETTLED, RunState
from ordain.core.schedule import policy_of
from ordain.core.tries import Try
from ordain.core.value import Instant, PlanId, RunId, StepId

__all__ = ["Brief", "Remaining", "brief"]


class Remaining(msgspec.Struct, frozen=True, kw_only=True):
    """A step that is neither done nor given up, and what keeps it."""

    id: StepId
    state: StepState
    needs: tuple[StepId, ...]
    """Those that are not satisfied yet."""
    waiting: str | None


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """One step of one run, and everything around it."""

    run_id: RunId
    plan_id: PlanId
    status: str
    step: Step
    state: StepState
    wants: str
    """What the failure policy wants of a planner: `replan` or `recover`; empty where it wants nothing of one."""
    policy: FailurePolicy
    """What was to follow a failure of the step."""
    question: Question | None
    """What a person is asked about it now."""
    tries: tuple[Try, ...]
    """Each attempt with its outcome, its verdict and the end of what was written."""
    passed: tuple[StepReport, ...]
    """What is done, and how that is known; what counts only by a person's word says so."""
    others: tuple[StepReport, ...]
    """What has ended otherwise: failed, skipped, cancelled."""
    remains: tuple[Remaining, ...]
    limits: Limits
    plan: Plan
    as_of: Instant
    """When something was recorded of the run last."""


def brief(state: RunState, plan_id: PlanId, step_id: StepId, report: RunReport) -> Brief:
    """What is to be known about a step of a run that stands as the report says."""
    record, question = state.steps[step_id], None if state.finished else question_about(state, step_id)
    reports = {one.id: one for one in report.steps}
    ended = [one for one in state.plan.steps if state.steps[one.id].state in SETTLED and one.id != step_id]
    is_done = {one.id: state.steps[one.id].state is StepState.PASSED for one in ended}
    open_ = [one for one in state.plan.steps if one.id not in is_done and one.id != step_id]
    return Brief(
        run_id=state.run_id,
        plan_id=plan_id,
        status=report.status,
        step=state.step(step_id),
        state=record.state,
        wants=question.wants if question is not None else "",
        policy=policy_of(state, step_id),
        question=question,
        tries=(*record.tries, record.last_try()) if record.attempts else (),
        passed=tuple(reports[step] for step, passed in is_done.items() if passed),
        others=tuple(reports[step] for step, passed in is_done.items() if not passed),
        remains=tuple(
            Remaining(
                id=one.id,
                state=state.steps[one.id].state,
                needs=state.unmet_needs(one.id),
                waiting=reports[one.id].waiting,
            )
            for one in open_
        ),
        limits=state.limits_in_force,
        plan=state.plan,
        as_of=state.changed_at,
    )
