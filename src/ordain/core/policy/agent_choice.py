"""Who performs a task, and why: the step's agent, else its plan's, else by a rule for that kind of work, else that of
the settings; and with which model and network, where the step goes first as well.

The one place that says so; lint, policy, the preview and the run all ask here, so what is shown is what happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from ordain.core.plan.actions.task import Task
from ordain.core.plan.model import NestedPlan, Plan, Step
from ordain.core.policy.agent import Agent, kind_of


class AgentChoice(msgspec.Struct, frozen=True, kw_only=True):
    agent: str
    why: str


def choose(step: Step, plans: Iterable[Plan], by_kind: Mapping[str, str], default: str) -> AgentChoice | None:
    """Who performs the task of a step that lies in these plans, the innermost first; None where nobody is named."""
    assert isinstance(step.action, Task)
    if step.action.agent:
        return AgentChoice(agent=step.action.agent, why="the step names it")
    for depth, plan in enumerate(plans):
        if plan.agent:
            return AgentChoice(
                agent=plan.agent, why="a plan around its plan names it" if depth else "the plan names it"
            )
    kind = kind_of(step)
    if kind in by_kind:
        return AgentChoice(agent=by_kind[kind], why=f"the rule for the kind {kind} names it")
    return AgentChoice(agent=default, why="the settings name it for all others") if default else None


def model_of(step: Step, plans: Iterable[Plan], agent: Agent | None) -> str | None:
    """The model for the task of a step that lies in these plans, the innermost first; None where the agent decides."""
    named = step.model or next((plan.model for plan in plans if plan.model), None)
    return named or (agent.model if agent is not None else None)


def has_network(step: Step, agent: Agent) -> bool:
    """Whether an agent has the network for a step at trust tier 1: as the step says, else as its definition does."""
    return step.network if step.network is not None else agent.network is True


def tasks_of(
    plan: Plan, outer: str = "", around: tuple[Plan, ...] = ()
) -> Iterator[tuple[str, Step, tuple[Plan, ...]]]:
    """Every step that has a task, in the order of `all_steps`: what a run calls it, the step, and the plans that it
    lies in, the innermost first."""
    plans = (plan, *around)
    for step in (*plan.steps, *plan.fallbacks):
        if isinstance(step.action, Task):
            yield f"{outer}{step.id}", step, plans
        elif isinstance(step.action, NestedPlan):
            yield from tasks_of(step.action.plan, f"{outer}{step.id}/", plans)


def agents_of(plan: Plan, by_kind: Mapping[str, str], default: str) -> Iterator[str]:
    """Everybody who performs a task of a plan or of one nested in it; some more than once."""
    for _, step, plans in tasks_of(plan):
        choice = choose(step, plans, by_kind, default)
        if choice is not None:
            yield choice.agent
