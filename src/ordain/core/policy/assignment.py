"""Who would perform each task of a plan and with what, for whoever approves it, by the rules by which a run does it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from ordain.core.plan.action import Task
from ordain.core.plan.model import Plan
from ordain.core.plan.tool import ToolDefinition
from ordain.core.policy.agent import (
    Agent,
    access_of,
    agent_digest,
    choose,
    has_network,
    is_open,
    kind_of,
    model_of,
    runner_words,
    shown_address,
    tasks_of,
)
from ordain.core.policy.scope import offered, unforeseen
from ordain.core.policy.settings import Limits, Settings, arbiter_of, candidates


class Assignment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One task, and who performs it."""

    step: str
    """As a run calls it: `outer/inner` in a nested plan."""
    kind: str
    agent: str = ""
    """Empty where nobody is named."""
    why: str = ""
    runner: str = ""
    """What performs it: a preset, a command, a callable, a model or a person; empty where there is no such agent."""
    human: bool = False
    model: str | None = None
    """None where the agent decides that itself."""
    tools: tuple[str, ...] = ()
    unforeseen: tuple[str, ...] = ()
    """Those of them that can do anything: with which arguments, only the agent decides."""
    own_tools: bool = False
    """Whether it keeps tools of its own besides, which nothing but the sandbox holds to the step."""
    network: bool = False
    """Whether it has the network at trust tier 1; at tier 0 everything has."""
    env: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """Files of the home directory of which it has copies at trust tier 1."""
    login: bool = False
    """Whether it is a program whose login there it has besides."""
    arbiter: str = ""
    """Who chooses the agent when the task begins, where that is left to one; `agent` is it otherwise."""
    arbiter_runner: str = ""
    """What is asked: a model, and where, or what is started."""
    among: tuple[str, ...] = ()
    address: str = ""
    """Of a model that Ordain itself speaks to: where it is told the task and everything that its tools answer."""
    key_env: str = ""
    """The variable whose value is sent there, and to nobody else, as the key."""
    prompt: Literal["", "agent", "settings"] = ""
    """Whose template its prompt is written by; empty: ours."""


def assignments(
    plan: Plan, settings: Settings | Limits, agents: Mapping[str, Agent], tools: Mapping[str, ToolDefinition]
) -> Iterator[Assignment]:
    """Every task of a plan and of those nested in it, in the order of the plan; by the settings in force, or by those
    that a run has kept."""
    judge = agents.get(settings.arbiter) if isinstance(settings, Limits) else arbiter_of(settings)
    for name, step, plans in tasks_of(plan):
        assert isinstance(step.action, Task)
        choice = choose(step, plans, settings.agent_for, settings.agent)
        agent = agents.get(choice.agent) if choice is not None else None
        known = agent or _NOBODY
        model = model_of(step, plans, agent)
        open_to = _among(settings, agents) if is_open(step, plans, settings.agent_for) else {}
        possible = (*open_to.values(), *([agent] if agent is not None else []))
        lent = () if known.human else offered(step.action, plans, tools)
        yield Assignment(
            step=name,
            kind=kind_of(step),
            agent=choice.agent if choice is not None else "",
            why=choice.why if choice is not None else "",
            runner=runner_words(known),
            human=known.human,
            model=str(access_of(known, model)) if known.is_model else model,
            tools=lent,
            unforeseen=unforeseen(lent, tools),
            own_tools=any(one.own_tools for one in possible),
            network=any(has_network(step, one) for one in possible if not one.is_model),
            env=known.env,
            files=known.files,
            login=known.preset is not None,
            arbiter=settings.arbiter if open_to else "",
            arbiter_runner=runner_words(judge or _NOBODY) if open_to else "",
            among=tuple(f"{name}: {runner_words(one)}" for name, one in open_to.items()),
            address=shown_address(known.base_url),
            key_env=known.key_env,
            # A person is shown a form, and no prompt.
            prompt="" if known.human else "agent" if known.prompt else "settings" if settings.prompt else "",
        )


_NOBODY = Agent()


def _among(settings: Settings | Limits, agents: Mapping[str, Agent]) -> Mapping[str, Agent]:
    """Those that the arbiter of these settings may choose from."""
    if not settings.arbiter:
        return {}
    if isinstance(settings, Limits):
        return {name: agents[name] for name in settings.among if name in agents}
    return {name: agents[name] for name in candidates(agents, settings, settings.tier)}


class RosterLine(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who can be given tasks, for people, programs and whoever plans or chooses."""

    name: str
    runner: str
    description: str
    model: str | None
    rules: tuple[str, ...]
    """The kinds of work that it does where a task names nobody."""
    default: bool
    own_tools: bool
    network: bool
    source: Literal["trusted", "registered", "not trusted"]
    """From the configuration, from the program that uses us, or from an ordain.toml that counts for nothing yet."""
    fault: str | None
    """Why it cannot be started here; null where nothing speaks against it."""
    digest: str
    """What an approval is bound to."""


def roster(
    settings: Settings,
    registered: Mapping[str, Agent],
    written: Mapping[str, Agent],
    faults: Mapping[str, str],
) -> Iterator[RosterLine]:
    """Everybody, those that are registered first. `written` are the agents of ordain.toml as it stands: what of them
    does not count yet comes last, under the same name where another one counts."""
    counting = {**registered, **{name: agent for name, agent in settings.agents.items() if name not in registered}}
    idle = [(name, agent) for name, agent in written.items() if settings.agents.get(name) != agent]
    for place, (name, agent) in enumerate((*counting.items(), *idle)):
        counts = place < len(counting)
        yield RosterLine(
            name=name,
            runner=runner_words(agent),
            description=agent.description,
            model=agent.model,
            rules=tuple(kind for kind, whose in settings.agent_for.items() if counts and whose == name),
            default=counts and settings.agent == name,
            own_tools=agent.own_tools,
            network=agent.network is True,
            source="not trusted" if not counts else "registered" if name in registered else "trusted",
            fault=faults.get(name) if counts else None,
            digest=agent_digest(agent),
        )


def inventory_lines(lines: tuple[RosterLine, ...]) -> Iterator[str]:
    """The inventory that planners get: one line for everybody whose definition counts."""
    for one in lines:
        if one.source != "not trusted":
            kinds = [*one.rules, *(["anything else"] if one.default else [])]
            does = f"; does {', '.join(kinds)} where a task names nobody" if kinds else ""
            model = f", model {one.model}" if one.model is not None else ""
            missing = f" (cannot be started here: {one.fault})" if one.fault is not None else ""
            about = f": {' '.join(one.description.split())}" if one.description else ""
            yield f"{one.name} [{one.runner}{model}{does}]{missing}{about}"
