"""What the plan format has and this version does not carry out: lint warns of it, and it is refused when the plan is
prepared, because nothing that is approved may be ignored when it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter

import msgspec

from ordain.core.lint.survey import Facts, Survey
from ordain.core.plan.action import Task
from ordain.core.plan.command import is_command
from ordain.core.plan.condition import Precondition
from ordain.core.plan.model import Plan, Step, contract_of, nested_plan_of
from ordain.core.plan.role import Inner, PaneName, about, field_with, value_with
from ordain.core.plan.tool import ToolDefinition, action_kind
from ordain.core.policy.tier import tier_of
from ordain.core.text.problem import Problem, blame_step

_STEP_FIELDS = ("writes", "network", "worktree", "pool")
_step_values = attrgetter(*_STEP_FIELDS)
_NOTHING = ((), None, None, None)
"""The values of a step that uses none of these fields."""
_HELD_BY_SANDBOX = ("writes", "network")
"""Those that hold for a command at tier 1."""


def not_yet(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A warning for each part of the plan that this version does not carry out."""
    for step, what in _parts(survey, facts.tools, panes=facts.panes, tier=tier_of(survey.plan, facts.settings.tier)):
        detail = f"This version does not carry out {what}; it will refuse to prepare the plan."
        yield blame_step(step, "W_NOT_YET", detail)


def not_yet_refused(plan: Plan, tools: Mapping[str, ToolDefinition], *, panes: bool, tier: int) -> tuple[Problem, ...]:
    """The same as refusals, for when the plan is to be stored and run. `panes`: panes can be looked at."""
    return tuple(
        blame_step(step, "E_NOT_YET", f"This version does not carry out {what}.")
        for step, what in _parts(Survey(plan), tools, panes=panes, tier=tier)
    )


def _parts(
    survey: Survey, tools: Mapping[str, ToolDefinition], *, panes: bool, tier: int
) -> Iterator[tuple[str | None, str]]:
    for scope in survey.scopes:
        yield from ((None, what) for what in _condition_parts(scope.plan.preconditions, panes=panes))
    for step in survey.steps:
        if _step_values(step) != _NOTHING:
            yield from ((step.id, what) for what in _field_parts(step, tools, tier))
        yield from ((step.id, what) for what in _step_parts(step, panes=panes))


def _field_parts(step: Step, tools: Mapping[str, ToolDefinition], tier: int) -> Iterator[str]:
    for name in _STEP_FIELDS:
        if getattr(step, name) in (None, ()):
            continue
        if name not in _HELD_BY_SANDBOX:
            yield f"`{name}`"
        elif isinstance(step.action, Task) and name == "writes":
            continue  # its tools are held to it at every tier
        elif tier == 0:
            yield f"`{name}` at trust tier 0, where nothing would hold a step to it"
        elif not isinstance(step.action, Task) and not is_command(step.action, tools):
            yield f"`{name}` of a step that is no command"


def _step_parts(step: Step, *, panes: bool) -> Iterator[str]:
    action = step.action
    if about(action).unsupported:
        yield f"the action `{action_kind(action)}`"
    inner = value_with(action, Inner)
    if inner is not None and _looks_at_pane(inner):
        yield f"the wait condition `{inner.__struct_config__.tag}`"
    if nested_plan_of(step) is not None:
        yield from (f"`{name}` of a step that holds a plan" for name, given in _around(step) if given is not None)
    if step.preconditions:
        yield from _condition_parts(step.preconditions, panes=panes)
    if step.verification is not None and _looks_at_pane(step.verification.strategy):
        yield f"the verification `{step.verification.strategy.__struct_config__.tag}`"


def _around(step: Step) -> Iterator[tuple[str, object]]:
    """What is about one attempt, and a plan is none. What it protects would not be while its own contract runs."""
    yield "timeout", step.timeout_ms
    yield "proof", step.proof
    yield "protect", step.protect if step.protect and contract_of(step) is not None else None


def _looks_at_pane(condition: msgspec.Struct) -> bool:
    """Whether a condition is about a pane: only the preconditions that are can be looked at."""
    return field_with(type(condition), PaneName) is not None


def _condition_parts(conditions: tuple[Precondition, ...], *, panes: bool) -> Iterator[str]:
    for condition in conditions:
        if not panes and _looks_at_pane(condition):
            yield f"the precondition `{condition.__struct_config__.tag}`"
