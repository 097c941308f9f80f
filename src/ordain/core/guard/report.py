"""What was seen of guarded calls, added up by tool and by agent, and judged by the rules of today."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ordain.core.guard.call import CallStanding, Guard
from ordain.core.guard.command_report import ProgramSeen, commands_seen
from ordain.core.guard.sighting import Sighting
from ordain.core.guard.suggestion import Made, Suggestion, Today, Unsuggested, beginning, suggested, together
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import COMMANDS, ToolDefinition
from ordain.core.plan.value import Instant
from ordain.core.policy.fact import LineFacts
from ordain.core.text.limit import DAY_MS

NAMES_MAX = 500
"""How many tools and agents are told apart, and sessions of each."""
REST = "(others)"
"""What those beyond that are counted as."""
EXAMPLES_MAX = 3
CALLS_KEPT = 200
"""Of how many calls of a tool the arguments are looked at for rules."""
_NOTHING: Mapping[str, ToolDefinition] = {}
_NO_EFFECTS: Mapping[str, EffectClass] = {}


class ToolSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A tool, and how it was called without a plan."""

    tool: str
    effect: str
    """Its effect class; empty where nobody knew it."""
    destructive: bool
    calls: int
    refused: int
    """How many were; the others would have been, were the rules enforced."""
    codes: Mapping[str, int]
    agents: Mapping[str, int]
    sessions: int
    first: Instant
    last: Instant
    open_now: int = 0
    """How many need no plan any more by the rules of today."""
    examples: Sequence[str] = ()
    """Beginnings of arguments, without secrets."""
    plans: int = 0
    """How many of the newest plans have it."""


class AgentSeen(msgspec.Struct, frozen=True, kw_only=True):
    """An agent, by the name it goes by, and what it called without a plan."""

    agent: str
    calls: int
    refused: int
    sessions: int
    tools: Mapping[str, int]
    first: Instant
    last: Instant


class WatchReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen since then. Notes and no evidence, and agents are called what they call themselves."""

    since: Instant
    until: Instant
    mode: str
    calls: int
    refused: int
    """How many of the calls were refused."""
    would_be: int
    """How many were let through that would be refused were the rules of today enforced."""
    open_now: int
    """How many need no plan any more by the rules of today."""
    sessions: int
    incomplete: bool
    """Some were left out, because there were too many or there was no room."""
    tools: Sequence[ToolSeen]
    agents: Sequence[AgentSeen]
    suggestions: Sequence[Suggestion]
    toml: str
    """All suggestions together, as lines for ordain.toml; empty where there are none."""
    unsuggested: Sequence[Unsuggested]
    """Tools of which nothing is suggested though they need a plan."""
    programs: Sequence[ProgramSeen] = ()
    """What commands that need a plan start."""


class _ToolCount:
    """What is counted of one tool, or of one agent."""

    def __init__(self) -> None:
        self.calls = self.refused = 0
        self.first = self.last = Instant(0)
        self.others: Counter[str] = Counter()
        """The agents of a tool, the tools of an agent."""
        self.sessions: set[tuple[str, str]] = set()
        self.codes: Counter[str] = Counter()
        self.standing: Counter[CallStanding] = Counter()
        self.abouts: dict[tuple[str, bool, bool], int] = {}
        """By what was said, whether it is never open, and whether it was refused: how many calls."""
        self.effect, self.destructive = "", False

    def add(self, one: Sighting, other: str) -> None:
        if one.at >= self.last:
            self.effect, self.destructive = one.effect, one.destructive
        self.first = min(self.first, one.at) if self.calls else one.at
        self.last = max(self.last, one.at)
        self.calls += 1
        self.refused += one.refused
        self.others[_bounded(other, self.others)] += 1
        if len(self.sessions) < NAMES_MAX:
            self.sessions.add((one.agent, one.session))
        self.codes[one.code] += 1
        self.standing[one.standing] += 1
        said = one.about, one.kept, one.refused
        if said not in self.abouts and len(self.abouts) >= CALLS_KEPT:
            said = "", one.kept, one.refused
        self.abouts[said] = self.abouts.get(said, 0) + 1

    def counts(self) -> dict[str, Any]:
        """What is told of tools and agents alike."""
        told = {name: getattr(self, name) for name in ("calls", "refused", "first", "last")}
        return {**told, "sessions": len(self.sessions)}


class SightingReport:
    """Adds up sightings between two instants."""

    def __init__(self, since: Instant, until: Instant) -> None:
        self._since, self._until = since, until
        self._tools: defaultdict[str, _ToolCount] = defaultdict(_ToolCount)
        self._agents: defaultdict[str, _ToolCount] = defaultdict(_ToolCount)
        self._all = _ToolCount()

    def add(self, one: Sighting) -> None:
        if one.at < self._since or one.at // DAY_MS > self._until // DAY_MS:  # a clock that was set back or forth
            return
        tool, agent = _bounded(one.tool, self._tools), _bounded(one.agent, self._agents)
        self._tools[tool].add(one, agent)
        self._agents[agent].add(one, tool)
        self._all.add(one, tool)

    def report(
        self,
        guard: Guard,
        *,
        opened: Sequence[str],
        in_plans: Mapping[str, int],
        incomplete: bool,
        known: Mapping[str, ToolDefinition] = _NOTHING,
        effects: Mapping[str, EffectClass] = _NO_EFFECTS,
        understand: Callable[[str], LineFacts] | None = None,
    ) -> WatchReport:
        """All of it; `opened` is what `[guard] open` says now, `in_plans` how many plans call each tool, `known` are
        our own tools, and `effects` what the settings say of others; `understand` reads command lines."""
        tools = sorted(self._tools.items(), key=lambda found: (-found[1].calls, found[0]))
        agents = sorted(self._agents.items(), key=lambda found: (-found[1].calls, found[0]))
        today = {name: _today(name, seen, guard, _definition(name, seen, known, effects)) for name, seen in tools}
        found = [suggested(name, one, opened) for name, one in today.items() if name != REST and one.left]
        left = [made for name, one in today.items() if name in COMMANDS for made in one.left]
        programs, of_commands = commands_seen(left, understand, opened)
        suggestions = (*(one for one in found if isinstance(one, Suggestion)), *of_commands)
        return WatchReport(
            since=self._since,
            until=self._until,
            mode=guard.mode.value,
            calls=self._all.calls,
            refused=self._all.refused,
            would_be=sum(made.count for one in today.values() for made in one.left if not made.refused),
            open_now=sum(one.open_now for one in today.values()),
            sessions=len(self._all.sessions),
            incomplete=incomplete,
            tools=tuple(_tool(name, seen, today[name], in_plans) for name, seen in tools),
            agents=tuple(
                AgentSeen(agent=name, tools=dict(seen.others.most_common()), **seen.counts()) for name, seen in agents
            ),
            suggestions=suggestions,
            toml=together(suggestions, opened),
            unsuggested=tuple(one for one in found if isinstance(one, Unsuggested)),
            programs=programs,
        )


def _tool(name: str, seen: _ToolCount, today: Today, in_plans: Mapping[str, int]) -> ToolSeen:
    said: Counter[str] = Counter()
    for (about, _, _), count in seen.abouts.items():
        said[about] += count
    known = today.definition
    return ToolSeen(
        tool=name,
        effect=known.effect.value if known is not None else seen.effect,
        destructive=known.destructive if known is not None else seen.destructive,
        codes=dict(seen.codes.most_common()),
        agents=dict(seen.others.most_common()),
        open_now=today.open_now,
        examples=tuple([about for about, _ in said.most_common() if about][:EXAMPLES_MAX]),
        plans=in_plans.get(name, 0),
        **seen.counts(),
    )


def _bounded(name: str, known: Mapping[str, Any]) -> str:
    return name if name in known or len(known) < NAMES_MAX else REST


def _today(name: str, seen: _ToolCount, guard: Guard, definition: ToolDefinition | None) -> Today:
    left, open_now = [], 0
    for (about, kept, refused), count in seen.abouts.items():
        args, whole = beginning(about)
        made = Made(args=args, whole=whole, refused=refused, count=count)
        judged = guard.judge(made.call(name, definition, kept))
        if judged.standing is CallStanding.OPEN:
            open_now += count
        else:
            left.append(msgspec.structs.replace(made, why=judged.why, by_default=judged.by_default))
    return Today(
        definition=definition, left=tuple(left), open_now=open_now, was_denied=bool(seen.standing[CallStanding.DENIED])
    )


def _definition(
    name: str, seen: _ToolCount, known: Mapping[str, ToolDefinition], effects: Mapping[str, EffectClass]
) -> ToolDefinition | None:
    """What is known of a tool; None where nobody knew it, or where another version noted what we do not know."""
    if name in known:
        return known[name]
    if seen.effect not in list(EffectClass) or name == REST:
        return None
    effect = effects.get(name, EffectClass(seen.effect))
    destructive = seen.destructive and effect is not EffectClass.READS
    return ToolDefinition(name=name, description="", effect=effect, destructive=destructive, schema={})
