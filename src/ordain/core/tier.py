"""The trust tier that a run of a plan has: the strongest that the plan, a plan in it or the configuration demands.

It is demanded, never found: where it cannot be had nothing is run, so no run has a weaker one than was approved.
"""

from __future__ import annotations

from collections.abc import Mapping

from ordain.core.agent import Agent
from ordain.core.bound import NESTED_PLANS_MAX
from ordain.core.model import NestedPlan, Plan
from ordain.core.problem import Problem

__all__ = ["STRONGEST", "tier_of", "tier_problem", "unheld_problems"]

STRONGEST = 1
"""The strongest trust tier that this version can give, where the system lets it."""


def tier_of(plan: Plan, at_least: int) -> int:
    """The tier of a plan's runs; `at_least` is what the configuration demands of every plan."""
    tier, plans = at_least, [plan]
    for _ in range(NESTED_PLANS_MAX + 1):  # deeper ones are refused, and one that holds itself has no end
        tier = max(tier, *(one.tier or 0 for one in plans))
        steps = (step for one in plans for step in (*one.steps, *one.fallbacks))
        inside = (step.action.plan for step in steps if isinstance(step.action, NestedPlan))
        plans = list({id(one): one for one in inside}.values())
        if not plans:
            break
    return tier


def tier_problem(tier: int, why: str) -> Problem:
    """The refusal where a tier is demanded that cannot be had, and why."""
    hints: tuple[str, ...] = ("Nothing is run at a weaker tier instead.",)
    if tier <= STRONGEST:
        hints = ("On Debian and Ubuntu: apt-get install bubblewrap (0.8 or newer).", *hints)
    return Problem(code="E_TIER", detail=f"Trust tier {tier} is demanded and cannot be had here: {why}.", hints=hints)


def unheld_problems(tier: int, agents: Mapping[str, Agent]) -> tuple[Problem, ...]:
    """The refusals where agents are to perform tasks at a tier that nothing can hold them to."""
    return tuple(
        Problem(
            code="E_TIER",
            detail=f"Trust tier {tier} is demanded, and the agent `{name}` is a function of the program that runs this:"
            " nothing holds it to anything.",
            hints=(
                f"Name it in ordain.toml, and it runs in a sandbox: `[agents.{name}]` with `python = MODULE:NAME`.",
            ),
        )
        for name, agent in agents.items()
        if tier and agent.registered
    )
