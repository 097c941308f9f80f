"""Everybody who can be given tasks, as one value for people, programs and whoever plans or chooses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from ordain.core.agent import Agent, agent_digest, runner_words
from ordain.core.settings import Settings

__all__ = ["RosterLine", "inventory_lines", "roster"]


class RosterLine(msgspec.Struct, frozen=True, kw_only=True):
    """One agent."""

    name: str
    runner: str
    """What performs its tasks: a preset, a command, a callable or a person."""
    description: str
    model: str | None
    """What it uses where neither the step nor the plan names one."""
    rules: tuple[str, ...]
    """The kinds of work that it does where a task names nobody."""
    default: bool
    """Whether it does what no rule names."""
    own_tools: bool
    network: bool
    """Whether it has the network at trust tier 1."""
    source: Literal["trusted", "registered", "not trusted"]
    """Where its definition is from: the configuration that a person trusted, the program that uses us, or an
    ordain.toml that counts for nothing yet."""
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
    for name, agent in {
        **registered,
        **{one: it for one, it in settings.agents.items() if one not in registered},
    }.items():
        yield _line(name, agent, settings, "registered" if name in registered else "trusted", faults.get(name))
    for name, agent in written.items():
        if settings.agents.get(name) != agent:
            yield _line(name, agent, Settings(), "not trusted", None)


def _line(
    name: str,
    agent: Agent,
    settings: Settings,
    source: Literal["trusted", "registered", "not trusted"],
    fault: str | None,
) -> RosterLine:
    return RosterLine(
        name=name,
        runner=runner_words(agent),
        description=agent.description,
        model=agent.model,
        rules=tuple(kind for kind, whose in settings.agent_for.items() if whose == name),
        default=settings.agent == name,
        own_tools=agent.own_tools,
        network=agent.network is True,
        source=source,
        fault=fault,
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
