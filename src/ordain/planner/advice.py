"""Advice about one step that did not get through: a closed set of ways to go on, each of which becomes a plan. Only
what is named in it changes: what passed, the other steps and the step's own check stay word for word."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from ordain.core.plan.action import CallTool, RunCommand, Task
from ordain.core.plan.model import Action, Plan, Step
from ordain.core.plan.value import StepId
from ordain.core.text.problem import Problem
from ordain.documents.markdown.writer import write_markdown
from ordain.documents.reading import read
from ordain.planner.rest import WholePlan, put_together


class RetryAdvice(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="advice", tag="retry", forbid_unknown_fields=True
):
    """Try it with other arguments, or with another command."""

    reason: str
    args: Mapping[str, Any] | None = None
    command: str | None = None


class AssignAdvice(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="advice", tag="assign", forbid_unknown_fields=True
):
    """Give the task to another agent or model."""

    reason: str
    agent: str | None = None
    model: str | None = None


class InsertAdvice(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="advice", tag="insert", forbid_unknown_fields=True
):
    """Do these steps before it."""

    reason: str
    steps: str


class SkipAdvice(msgspec.Struct, frozen=True, kw_only=True, tag_field="advice", tag="skip", forbid_unknown_fields=True):
    """Leave it out."""

    reason: str


Advice = RetryAdvice | AssignAdvice | InsertAdvice | SkipAdvice


def read_advice(text: str) -> Advice | Problem:
    """What a planner handed in, as advice."""
    try:
        advice: Advice = msgspec.json.decode(text.encode("utf-8", "replace"), type=Advice)
    except (msgspec.DecodeError, RecursionError) as error:
        return _fault(f"This is no advice: {error}.", "Hand in one JSON object of those that are listed, alone.")
    return advice


def advised(plan: Plan, step_id: StepId, kept: Collection[StepId], advice: Advice) -> WholePlan | Problem:
    """The document of a plan that goes on as advised."""
    try:
        return _advised(plan, step_id, kept, advice)
    except (ValueError, RecursionError):  # arguments too deep, or numbers too large for any document
        return _fault("What is advised cannot be written in a document.", "Give flat arguments and small numbers.")


def _advised(plan: Plan, step_id: StepId, kept: Collection[StepId], advice: Advice) -> WholePlan | Problem:
    step = next(one for one in plan.steps if one.id == step_id)
    match advice:
        case RetryAdvice():
            made = _retried(step, advice)
        case AssignAdvice():
            made = _assigned(step, advice)
        case SkipAdvice():
            left = tuple(replace(one, needs=_without(one.needs, step)) for one in plan.steps if one.id != step_id)
            return _whole(replace(plan, steps=left))
        case InsertAdvice():
            return _inserted(plan, step_id, kept, advice.steps)
    if isinstance(made, Problem):
        return made
    return _whole(replace(plan, steps=tuple(made if one.id == step_id else one for one in plan.steps)))


def _retried(step: Step, advice: RetryAdvice) -> Step | Problem:
    action: Action | None = None
    match step.action:
        case CallTool() if advice.args is not None and advice.command is None:
            action = replace(step.action, args=advice.args)
        case RunCommand() if advice.command is not None and advice.args is None:
            action = replace(step.action, command=advice.command)
    if action is None:
        wanted = {"CallTool": "`args`", "RunCommand": "`command`"}.get(type(step.action).__name__)
        hint = f"Give {wanted} and nothing else." if wanted else "Choose other advice, or give up."
        return _fault(f"`{step.id}` cannot be tried again with that.", hint)
    if action == step.action:
        return _fault(f"`{step.id}` would be tried with what it was tried with.", "Change it, or choose other advice.")
    return replace(step, action=action)


def _assigned(step: Step, advice: AssignAdvice) -> Step | Problem:
    if not isinstance(step.action, Task):
        return _fault(f"`{step.id}` is no task of an agent.", "Choose other advice, or give up.")
    made = replace(
        step,
        action=replace(step.action, agent=advice.agent or step.action.agent),
        model=advice.model or step.model,
    )
    if made == step:
        return _fault(f"`{step.id}` has that agent and model already.", "Name another, or choose other advice.")
    return made


def _inserted(plan: Plan, step_id: StepId, kept: Collection[StepId], steps: str) -> WholePlan | Problem:
    """The steps are read where they will stand, so that they may need what passed."""
    frozen = replace(plan, fallbacks=())
    whole = put_together(frozen, kept, steps)
    if isinstance(whole, Problem):
        return whole
    document = read(whole.text.encode("utf-8", "surrogatepass"))
    if document.plan is None:
        problem = whole.placed(document.problems[0])
        where = f" (line {problem.where.line} of `steps`)" if problem.where and problem.where.line else ""
        return replace(problem, detail=f"{problem.detail}{where}", where=None)
    before = [one for one in plan.steps if one.id in kept]
    added = document.plan.steps[len(before) :]
    known = {one.id for one in plan.steps}
    if again := next((one.id for one in added if one.id in known), None):
        return _fault(f"The plan has a step `{again}` already.", "Give what is inserted ids of its own.")
    rest = []
    for one in plan.steps:
        if one.id in kept:
            continue
        if one.id == step_id:
            rest += [*added, replace(one, needs=(*one.needs, *(new.id for new in added)))]
        else:
            rest.append(one)
    return _whole(replace(plan, steps=(*before, *rest)))


def _whole(plan: Plan) -> WholePlan:
    return WholePlan(text=write_markdown(plan, lists=False), first=0, at=0, lines=0)


def _without(needs: tuple[StepId, ...], gone: Step) -> tuple[StepId, ...]:
    """What is waited for once a step is gone: in its place what that waited for, so that no order is lost."""
    return tuple(dict.fromkeys(new for one in needs for new in (gone.needs if one == gone.id else (one,))))


def _fault(detail: str, hint: str) -> Problem:
    return Problem(code="E_REPLAN_ADVICE", detail=detail, hints=(hint,))
