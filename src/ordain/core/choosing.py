"""Who performs a task, and why: the step's agent, else its plan's, else by a rule for that kind of work, else that of
the settings.

The one place that says so; lint, policy, the preview and the run all ask here, so what is shown is what happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from ordain.core.action import Task
from ordain.core.kind import kind_of
from ordain.core.model import NestedPlan, Plan, Step

__all__ = ["Choice", "agents_of", "choose"]


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    agent: str
    why: str


def choose(step: Step, plans: Iterable[Plan], by_kind: Mapping[str, str], default: str) -> Choice | None:
    """Who performs the task of a step that lies in these plans, the innermost first; None where nobody is named."""
    assert isinstance(step.action, Task)
    if step.action.agent:
        return Choice(agent=step.action.agent, why="the step names it")
    for depth, plan in enumerate(plans):
        if plan.agent:
            return Choice(agent=plan.agent, why="a plan around its plan names it" if depth else "the plan names it")
    kind = kind_of(step)
    if kind in by_kind:
        return Choice(agent=by_kind[kind], why=f"the rule for the kind {kind} names it")
    return Choice(agent=default, why="the settings name it for all others") if default else None


def agents_of(plan: Plan, by_kind: Mapping[str, str], default: str, around: tuple[Plan, ...] = ()) -> Iterator[str]:
    """Everybody who performs a task of a plan or of one nested in it; some more than once."""
    plans = (plan, *around)
    for step in (*plan.steps, *plan.fallbacks):
        if isinstance(step.action, Task):
            choice = choose(step, plans, by_kind, default)
            if choice is not None:
                yield choice.agent
        elif isinstance(step.action, NestedPlan):
            yield from agents_of(step.action.plan, by_kind, default, plans)
