"""Rules about the shape of a plan: version, steps, ids, order, limits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from ordain.core.failure import Retry
from ordain.core.graph import cycles
from ordain.core.lint.facts import Facts
from ordain.core.model import PLAN_VERSION, Plan
from ordain.core.problem import Place, Problem, closest
from ordain.core.settings import DAY_MS

__all__ = ["limits", "needs_known", "no_cycles", "number_of_steps", "step_ids", "tier", "version", "workspace"]

STEPS_MAX = 20_000
STEPS_LARGE = 200
ATTEMPTS_MAX = 101
CONCURRENCY_MAX = 64

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def version(plan: Plan, facts: Facts) -> Iterator[Problem]:
    """A plan of a newer version may mean what we do not understand."""
    if plan.plan_version != PLAN_VERSION:
        yield Problem(
            code="E_PLAN_VERSION",
            detail=f"The plan is of version {plan.plan_version}; this program reads version {PLAN_VERSION}.",
        )


def number_of_steps(plan: Plan, facts: Facts) -> Iterator[Problem]:
    """A plan has steps, and not more than anybody can approve."""
    count = len(plan.steps)
    if count == 0:
        yield Problem(code="E_PLAN_NO_STEPS", detail="The plan has no steps.")
    elif count > STEPS_MAX:
        yield Problem(code="E_PLAN_TOO_MANY_STEPS", detail=f"The plan has {count} steps; {STEPS_MAX} are allowed.")
    elif count > STEPS_LARGE:
        yield Problem(
            code="W_PLAN_LARGE",
            detail=f"The plan has {count} steps; nobody reviews more than {STEPS_LARGE} with care.",
            hints=("Split it into plans that can each be approved on their own.",),
        )


def step_ids(plan: Plan, facts: Facts) -> Iterator[Problem]:
    """Every step has its own well-formed id."""
    for name, count in Counter(step.id for step in plan.steps).items():
        if count > 1:
            yield Problem(code="E_STEP_ID", detail=f"{count} steps have the id `{name}`.", where=Place(step=name))
        if not name.isascii():
            yield Problem(code="E_NAME", detail=f"The id `{name}` is not plain ASCII.", where=Place(step=name))
        elif not _ID.fullmatch(name) or name.isdigit() or name == "none":
            yield Problem(
                code="E_STEP_ID",
                detail=f"`{name}` cannot be an id.",
                where=Place(step=name),
                hints=("Use letters, digits, `_` and `-`, at most 64, not a number and not `none`.",),
            )


def needs_known(plan: Plan, facts: Facts) -> Iterator[Problem]:
    """What a step needs must be a step of the plan."""
    known = {step.id for step in plan.steps}
    for step in plan.steps:
        for need in step.needs:
            if need not in known:
                yield Problem(
                    code="E_STEP_UNKNOWN_NEED",
                    detail=f"`{step.id}` needs `{need}`, which is not a step of this plan.",
                    where=Place(step=step.id),
                    hints=closest(need, known),
                )


def no_cycles(plan: Plan, facts: Facts) -> Iterator[Problem]:
    """Steps that wait for each other never start."""
    for group in cycles({step.id: step.needs for step in plan.steps}):
        shown = ", ".join(f"`{name}`" for name in group)
        detail = f"{shown} needs itself." if len(group) == 1 else f"These steps need each other: {shown}."
        yield Problem(code="E_STEP_CYCLE", detail=detail, where=Place(step=group[0]))


def limits(plan: Plan, facts: Facts) -> Iterator[Problem]:
    """Timeouts, attempts and concurrency stay within what a run can keep."""

    def limit(detail: str, step: str | None = None) -> Problem:
        return Problem(code="E_STEP_LIMIT", detail=detail, where=Place(step=step) if step else None)

    if plan.concurrency is not None and not 1 <= plan.concurrency <= CONCURRENCY_MAX:
        yield limit(f"The plan's concurrency must be between 1 and {CONCURRENCY_MAX}.")
    if plan.timeout_ms is not None and not 0 < plan.timeout_ms <= DAY_MS:
        yield limit("The plan's timeout must be more than zero and at most a day.")
    if isinstance(plan.on_failure, Retry) and not 1 <= plan.on_failure.max_attempts <= ATTEMPTS_MAX:
        yield limit(f"The plan may retry a step at most {ATTEMPTS_MAX - 1} times.")
    for step in plan.steps:
        if step.timeout_ms is not None and not 0 < step.timeout_ms <= DAY_MS:
            yield limit(f"The timeout of `{step.id}` must be more than zero and at most a day.", step.id)
        if isinstance(step.on_failure, Retry) and not 1 <= step.on_failure.max_attempts <= ATTEMPTS_MAX:
            yield limit(f"`{step.id}` may be retried at most {ATTEMPTS_MAX - 1} times.", step.id)


def tier(plan: Plan, facts: Facts) -> Iterator[Problem]:
    """A plan may demand a trust tier; a weaker one is not good enough."""
    if plan.tier is not None and plan.tier > facts.tier:
        yield Problem(
            code="E_TIER",
            detail=f"The plan demands trust tier {plan.tier}; only tier {facts.tier} can be had here.",
        )


def workspace(plan: Plan, facts: Facts) -> Iterator[Problem]:
    """A plan may be for one workspace only."""
    if plan.workspace_id is not None and plan.workspace_id != facts.workspace_id:
        here = facts.workspace_id or "not yet known"
        yield Problem(
            code="E_PLAN_WORKSPACE",
            detail=f"The plan is for workspace {plan.workspace_id}; this one is {here}.",
        )
