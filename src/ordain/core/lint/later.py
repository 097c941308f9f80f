"""What the plan format has and this version does not carry out.

Such a plan is a good plan, and lint says so with a warning; but it is refused when it is prepared, because nothing that
is approved may be ignored when it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any

from ordain.core.action import Ask, CallTool, LockAction, RunCommand
from ordain.core.condition import Contract, CustomCondition, NoCheck
from ordain.core.expr import named
from ordain.core.failure import FailurePolicy, Fallback, Retry, Skip
from ordain.core.lint.facts import Facts
from ordain.core.lint.survey import Survey
from ordain.core.model import Plan, Step
from ordain.core.payload import payload
from ordain.core.problem import Place, Problem
from ordain.core.refs import (
    ParamValue,
    Reference,
    StepExitCode,
    StepOutput,
    StoredData,
    Unreadable,
    parse,
    references,
)
from ordain.core.tool import action_kind

__all__ = ["not_yet", "not_yet_refused"]

_PLAN_FIELDS = ("task", "fallbacks", "preconditions", "budget", "agent", "model")
_STEP_FIELDS = (
    "when", "for_each", "preconditions", "writes", "approval", "budget", "model", "network", "worktree", "pool",
)  # fmt: skip
_step_values = attrgetter(*_STEP_FIELDS)
_NOTHING = (None, None, (), (), None, None, None, None, None, None)
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
    for step in plan.steps:
        for what in _step_parts(step):
            yield step.id, what


def _step_parts(step: Step) -> Iterator[str]:
    if _step_values(step) != _NOTHING:
        for name in _STEP_FIELDS:
            if getattr(step, name) not in (None, ()) and not (name == "for_each" and _known_before(step)):
                yield f"`{name}`"
    action = step.action
    if isinstance(action, RunCommand | CallTool | LockAction | Ask):
        if isinstance(action, CallTool) and action.operation is not None:
            yield "`operation`"
        values = payload(action)
        if values and _refers_to_results(values):
            yield "references to earlier results"
    else:
        yield f"the action `{action_kind(action)}`"
    if step.verification is not None:
        strategy = step.verification.strategy
        if isinstance(strategy, CustomCondition):
            if named(strategy.expression).data:
                yield "stored data in the verification `custom`"
        elif not isinstance(strategy, Contract | NoCheck):
            yield f"the verification `{strategy.__struct_config__.tag}`"
    if step.on_failure is not None:
        yield from _policy_parts(step.on_failure)


def _refers_to_results(values: Mapping[str, Any]) -> bool:
    """Whether some value is known only when another step has run; parameters and items are known before."""
    for text in references(values):
        reference = parse(text)
        if isinstance(reference, Unreadable) or isinstance(reference.source, StepOutput | StepExitCode | StoredData):
            return True
    return False


def _known_before(step: Step) -> bool:
    """Whether a step is repeated over a parameter, and becomes several steps before anything runs."""
    reference = parse(step.for_each.source) if step.for_each is not None else None
    return isinstance(reference, Reference) and isinstance(reference.source, ParamValue)


def _policy_parts(policy: FailurePolicy | None) -> Iterator[str]:
    last = policy.then if isinstance(policy, Retry) else policy
    if isinstance(last, Skip) and last.warn is not None:
        yield "`warn` of the failure policy `skip`"
    if isinstance(last, Fallback):
        yield f"the failure policy `{last.__struct_config__.tag}`"
