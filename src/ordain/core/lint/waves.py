"""The steps of a plan by when they can begin: what each waits for, and waves.

A wave holds the steps that could begin together: everything they wait for is in earlier waves. Linear in steps and
needs. Steps that wait for each other in a circle, or for such steps, are in no wave; lint refuses them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from ordain.core.lint.survey import Survey
from ordain.core.plan.graph import Order
from ordain.core.plan.model import Plan
from ordain.core.plan.value import StepId

Needs = Mapping[StepId, Sequence[StepId]]
"""For each step, in the plan's order, the steps it waits for."""


def waits_for(plan: Plan) -> dict[StepId, tuple[StepId, ...]]:
    """What each step of the plan waits for: by its `needs`, and by what it refers to."""
    known = Survey(plan).scopes[0].needs
    return {
        StepId(name): tuple(StepId(need) for need in dict.fromkeys(needs) if need in known)
        for name, needs in known.items()
    }


def fallbacks_for(plan: Plan) -> dict[StepId, tuple[StepId, ...]]:
    """For each fallback of the plan, the steps whose own policy names it, in the plan's order."""
    users = Survey(plan).scopes[0].users
    return {
        fallback.id: tuple(step.id for step in (*plan.steps, *plan.fallbacks) if step.id in users[fallback.id])
        for fallback in plan.fallbacks
    }


def ordering(needs: Needs) -> Order:
    """Which step comes before which."""
    return Order(cast("Mapping[str, Sequence[str]]", needs))


def waves(needs: Needs) -> tuple[tuple[StepId, ...], ...]:
    """The steps by the longest way to them, each wave in the plan's order."""
    level: dict[str, int] = {}
    for name in ordering(needs).sequence:
        level[name] = 1 + max((level[need] for need in needs[StepId(name)]), default=-1)
    found: list[list[StepId]] = [[] for _ in range(1 + max(level.values(), default=-1))]
    for step in needs:
        if step in level:
            found[level[step]].append(step)
    return tuple(tuple(wave) for wave in found)
