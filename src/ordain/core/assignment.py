"""Who would perform each task of a plan and with what, for whoever approves it: computed by the very rules by which a
run does it, never told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from ordain.core.action import Task
from ordain.core.agent import Agent, runner_words
from ordain.core.choosing import choose, has_network, model_of, tasks_of
from ordain.core.event import Limits
from ordain.core.kind import kind_of
from ordain.core.model import Plan
from ordain.core.scope import offered, unforeseen
from ordain.core.settings import Settings
from ordain.core.tool import ToolDefinition

__all__ = ["Assignment", "assignments"]


class Assignment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One task, and who performs it."""

    step: str
    """As a run calls it: `outer/inner` in a nested plan."""
    kind: str
    """What kind of work it is (`core.kind`)."""
    agent: str = ""
    """Empty where nobody is named."""
    why: str = ""
    """Why it is that agent."""
    runner: str = ""
    """What performs it: a preset, a command, a callable or a person; empty where there is no such agent."""
    human: bool = False
    model: str | None = None
    """None where the agent decides that itself."""
    tools: tuple[str, ...] = ()
    """What it may use through the step's own door."""
    unforeseen: tuple[str, ...] = ()
    """Those of them that can do anything: with which arguments, only the agent decides."""
    own_tools: bool = False
    """Whether it keeps tools of its own besides, which nothing but the sandbox holds to the step."""
    network: bool = False
    """Whether it has the network at trust tier 1; at tier 0 everything has."""
    env: tuple[str, ...] = ()
    """Variables it sees beside those that every command sees."""
    files: tuple[str, ...] = ()
    """Files of the home directory of which it has copies at trust tier 1."""
    login: bool = False
    """Whether it is a program whose login there it has besides."""
    prompt: Literal["", "agent", "settings"] = ""
    """Whose template its prompt is written by; empty: ours."""


def assignments(
    plan: Plan, settings: Settings | Limits, agents: Mapping[str, Agent], tools: Mapping[str, ToolDefinition]
) -> Iterator[Assignment]:
    """Every task of a plan and of those nested in it, in the order of the plan; by the settings in force, or by those
    that a run has kept."""
    for name, step, plans in tasks_of(plan):
        assert isinstance(step.action, Task)
        choice = choose(step, plans, settings.agent_for, settings.agent)
        agent = agents.get(choice.agent) if choice is not None else None
        lent = () if agent is not None and agent.human else offered(step.action, plans, tools)
        yield Assignment(
            step=name,
            kind=kind_of(step),
            agent=choice.agent if choice is not None else "",
            why=choice.why if choice is not None else "",
            runner=runner_words(agent) if agent is not None else "",
            human=agent is not None and agent.human,
            model=model_of(step, plans, agent),
            tools=lent,
            unforeseen=unforeseen(lent, tools),
            own_tools=agent is not None and agent.own_tools,
            network=agent is not None and has_network(step, agent),
            env=agent.env if agent is not None else (),
            files=agent.files if agent is not None else (),
            login=agent is not None and agent.preset is not None,
            prompt=_template(agent, settings),
        )


def _template(agent: Agent | None, settings: Settings | Limits) -> Literal["", "agent", "settings"]:
    if agent is not None and agent.human:
        return ""  # who is shown a form
    return "agent" if agent is not None and agent.prompt else "settings" if settings.prompt else ""
