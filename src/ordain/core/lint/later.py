"""What the plan format has and this version does not carry out.

Such a plan is a good plan, and lint says so with a warning; but it is refused when it is prepared, because nothing that
is approved may be ignored when it runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from ordain.core.action import CallTool, LockAction, RunCommand, StoreData
from ordain.core.condition import (
    Contract,
    CustomCondition,
    NoCheck,
    PaneExists,
    PaneState,
    PatternMatched,
    PatternNotMatched,
)
from ordain.core.failure import Abort, Continue, Escalate, FailurePolicy, Fallback, Retry, Skip
from ordain.core.lint.facts import Facts
from ordain.core.lint.survey import Survey
from ordain.core.model import NestedPlan, Plan, Step, all_steps
from ordain.core.problem import Place, Problem
from ordain.core.tool import action_kind

__all__ = ["not_yet", "not_yet_refused"]

_PLAN_FIELDS = ("task", "agent", "model")
_STEP_FIELDS = ("writes", "model", "network", "worktree", "pool")
_step_values = attrgetter(*_STEP_FIELDS)
_NOTHING = ((), None, None, None, None)
"""The values of a step that uses none of these fields."""


def not_yet(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A warning for each part of the plan that this version does not carry out."""
    for step, what in _parts(survey.plan):
        yield Problem(
            code="W_NOT_YET",
            detail=f"This version does not carry out {what}; it will refuse to prepare the plan.",
            where=Place(step=step) if step is not None else None,
        )


def not_yet_refused(plan: Plan) -> tuple[Problem, ...]:
    """The same as refusals, for when the plan is to be stored and run."""
    return tuple(
        Problem(
            code="E_NOT_YET",
            detail=f"This version does not carry out {what}.",
            where=Place(step=step) if step is not None else None,
        )
        for step, what in _parts(plan)
    )


def _parts(plan: Plan) -> Iterator[tuple[str | None, str]]:
    for name in _PLAN_FIELDS:
        if getattr(plan, name):
            yield None, f"the plan's `{name}`"
    yield from ((None, what) for what in _policy_parts(plan.on_failure))
    for step in all_steps(plan):
        for what in _step_parts(step):
            yield step.id, what
        if isinstance(step.action, NestedPlan):
            inner = step.action.plan
            yield from ((step.id, f"`{name}` of a nested plan") for name in _PLAN_FIELDS if getattr(inner, name))


def _step_parts(step: Step) -> Iterator[str]:
    if _step_values(step) != _NOTHING:
        for name in _STEP_FIELDS:
            if getattr(step, name) not in (None, ()):
                yield f"`{name}`"
    action = step.action
    if isinstance(action, CallTool) and action.operation is not None:
        yield "`operation`"
    if not isinstance(action, RunCommand | CallTool | LockAction | StoreData | NestedPlan):
        yield f"the action `{action_kind(action)}`"
    for condition in step.preconditions:
        if isinstance(condition, PaneExists | PaneState | PatternMatched | PatternNotMatched):
            yield f"the precondition `{condition.__struct_config__.tag}`"
    if step.verification is not None:
        strategy = step.verification.strategy
        if not isinstance(strategy, Contract | CustomCondition | NoCheck):
            yield f"the verification `{strategy.__struct_config__.tag}`"
    if step.on_failure is not None:
        yield from _policy_parts(step.on_failure)


def _policy_parts(policy: FailurePolicy | None) -> Iterator[str]:
    last = policy.then if isinstance(policy, Retry) else policy
    if isinstance(last, Skip) and last.warn is not None:
        yield "`warn` of the failure policy `skip`"
    if last is not None and not isinstance(last, Abort | Skip | Continue | Escalate | Fallback):
        yield f"the failure policy `{last.__struct_config__.tag}`"
