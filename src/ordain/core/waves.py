"""The steps of a plan by when they can begin: what each waits for, an order to read them in, and waves.

A wave holds the steps that could begin together: everything they wait for is in earlier waves. Linear in steps and
needs. Steps that wait for each other in a circle are in no wave and in no order; lint refuses such plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush

from ordain.core.graph import dependents
from ordain.core.lint.survey import Survey
from ordain.core.model import Plan
from ordain.core.value import StepId

__all__ = ["reading_order", "waits_for", "waves"]


def waits_for(plan: Plan) -> dict[StepId, tuple[StepId, ...]]:
    """For each step of the plan, in its order, the steps it waits for: by `needs` and by what it refers to."""
    known = Survey(plan).scopes[0].needs
    return {
        StepId(name): tuple(StepId(need) for need in dict.fromkeys(needs) if need in known)
        for name, needs in known.items()
    }


def reading_order(needs: Mapping[StepId, Iterable[StepId]]) -> list[StepId]:
    """The steps as they are written, moved down only where they would stand above what they wait for."""
    position = {name: number for number, name in enumerate(needs)}
    names = list(needs)
    waiting = {name: len(set(wanted)) for name, wanted in needs.items()}
    needed_by = dependents({name: set(wanted) for name, wanted in needs.items()})
    free = [position[name] for name, count in waiting.items() if count == 0]
    heapify(free)
    found = []
    while free:
        name = names[heappop(free)]
        found.append(name)
        for other in needed_by[name]:
            waiting[other] -= 1
            if waiting[other] == 0:
                heappush(free, position[other])
    return found


def waves(needs: Mapping[StepId, Iterable[StepId]]) -> tuple[tuple[StepId, ...], ...]:
    """The steps by the longest way to them, each wave in the plan's order."""
