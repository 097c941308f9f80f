"""What was seen of guarded calls, added up: who called what without a plan, what rules would open, where plans lack.

Pure, and fed one sighting at a time, so that a long log needs no more memory than a short one: names are whatever
agents say, and beyond a bound they are counted together. Suggestions are drafts for a person to read: nothing is ever
suggested to be opened that is destructive, denied, opaque or a command, or that nobody knows. Where a tool only sounds
as if it reads, that is said to be for a person to judge.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from ordain.core.bound import DAY_MS
from ordain.core.call_rule import RULE
from ordain.core.guard import Call, Guard, Standing
from ordain.core.sighting import Sighting
from ordain.core.tool import COMMANDS, EffectClass, ToolDefinition
from ordain.core.value import Instant

__all__ = ["AgentSeen", "Day", "Gap", "Suggestion", "ToolSeen", "Watch", "WatchReport"]

NAMES_MAX = 500
"""How many tools and agents are told apart, and sessions of each."""
REST = "(others)"
"""What those beyond that are counted as."""
EXAMPLES_MAX = 3
CALLS_KEPT = 200
"""Of how many calls of a tool the arguments are looked at for rules."""
OFTEN_CALLS, OFTEN_SESSIONS = 5, 2
"""From how many calls, or sessions, on a tool counts as called often."""
RULE_SHARE = 0.5
"""What part of a tool's calls a rule must let through to be worth suggesting."""
_VALUE_MAX = 80

_READING = re.compile(r"(?:get|list|read|search|find|show|describe|count|lookup|view|check|status)(?:[_\-A-Z]|$)")
"""How the names of operations begin that sound as if they only read."""


class Day(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen on one day, in UTC."""

    since: Instant
    calls: int = 0
    refused: int = 0


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
    by_day: Sequence[int]
    examples: Sequence[str] = ()
    """Beginnings of arguments, without secrets."""


class AgentSeen(msgspec.Struct, frozen=True, kw_only=True):
    """An agent, by the name it goes by, and what it called without a plan."""

    agent: str
    calls: int
    refused: int
    sessions: int
    tools: Mapping[str, int]
    first: Instant
    last: Instant


class Suggestion(msgspec.Struct, frozen=True, kw_only=True):
    """What could be said of a tool, and what that would change."""

    kind: Literal["open", "rule", "effects"]
    """To open it, to open calls that a rule means, or to say that it reads."""
    tool: str
    entry: str
    """What `[guard] open` would have; empty where what it has is enough."""
    toml: str
    """The table that goes with it; empty where there is none."""
    lets_through: int
    """How many of the calls that were seen need no plan then."""
    of: int
    why: str


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that is often called without a plan."""

    tool: str
    calls: int
    sessions: int
    agents: int
    plans: int
    """How many of the newest plans have it."""


class WatchReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen since then. Notes and no evidence, and agents are called what they call themselves."""

    since: Instant
    until: Instant
    mode: str
    calls: int
    refused: int
    """How many of the calls were refused."""
    would_be: int
    """How many were let through that would be refused were the rules enforced."""
    sessions: int
    incomplete: bool
    """Some were left out, because there were too many or there was no room."""
    days: Sequence[Day]
    tools: Sequence[ToolSeen]
    agents: Sequence[AgentSeen]
    suggestions: Sequence[Suggestion]
    toml: str
    """All suggestions together, as lines for ordain.toml; empty where there are none."""
    gaps: Sequence[Gap]


class _Seen:
    """What is counted of one tool, or of one agent."""

    def __init__(self) -> None:
        self.calls = self.refused = 0
        self.first = self.last = Instant(0)
        self.others: Counter[str] = Counter()
        """The agents of a tool, the tools of an agent."""
        self.sessions: set[tuple[str, str]] = set()
        self.codes: Counter[str] = Counter()
        self.standing: Counter[Standing] = Counter()
        self.by_day: Counter[int] = Counter()
        self.abouts: dict[str, int] = {}
        self.effect, self.destructive = "", False

    def add(self, one: Sighting, other: str, day: int) -> None:
        self.first = min(self.first, one.at) if self.calls else one.at
        self.last = max(self.last, one.at)
        self.calls += 1
        self.refused += one.refused
        self.others[_bounded(other, self.others)] += 1
        if len(self.sessions) < NAMES_MAX:
            self.sessions.add((one.agent, one.session))
        self.codes[one.code] += 1
        self.standing[one.standing] += 1
        self.by_day[day] += 1
        if one.about in self.abouts or len(self.abouts) < CALLS_KEPT:
            self.abouts[one.about] = self.abouts.get(one.about, 0) + 1
        self.effect, self.destructive = one.effect, self.destructive or one.destructive


class Watch:
    """Adds up sightings between two instants."""

    def __init__(self, since: Instant, until: Instant) -> None:
        self._since, self._until = since, until
        self._first_day = since // DAY_MS
        self._tools: defaultdict[str, _Seen] = defaultdict(_Seen)
        self._agents: defaultdict[str, _Seen] = defaultdict(_Seen)
        self._days: dict[int, list[int]] = {day: [0, 0] for day in range(self._first_day, until // DAY_MS + 1)}
        self._all = _Seen()

    def add(self, one: Sighting) -> None:
        day = one.at // DAY_MS
        if one.at < self._since or day not in self._days:  # a clock that was set back or forth
            return
        self._days[day][0] += 1
        self._days[day][1] += one.refused
        tool, agent = _bounded(one.tool, self._tools), _bounded(one.agent, self._agents)
        self._tools[tool].add(one, agent, day)
        self._agents[agent].add(one, tool, day)
        self._all.add(one, tool, day)

    def report(
        self, guard: Guard, *, opened: Sequence[str], in_plans: Mapping[str, int], incomplete: bool
    ) -> WatchReport:
        """All of it; `opened` is what `[guard] open` says now, `in_plans` how many plans call each tool."""
        tools = sorted(self._tools.items(), key=lambda found: (-found[1].calls, found[0]))
        agents = sorted(self._agents.items(), key=lambda found: (-found[1].calls, found[0]))
        suggestions = tuple(_suggestions(tools, guard, opened))
        return WatchReport(
            since=self._since,
            until=self._until,
            mode=guard.mode.value,
            calls=self._all.calls,
            refused=self._all.refused,
            would_be=self._all.calls - self._all.refused,
            sessions=len(self._all.sessions),
            incomplete=incomplete,
            days=tuple(
                Day(since=Instant(day * DAY_MS), calls=calls, refused=refused)
                for day, (calls, refused) in self._days.items()
            ),
            tools=tuple(self._tool(name, seen) for name, seen in tools),
            agents=tuple(_agent(name, seen) for name, seen in agents),
            suggestions=suggestions,
            toml=_together(suggestions, opened),
            gaps=tuple(_gaps(tools, in_plans)),
        )

    def _tool(self, name: str, seen: _Seen) -> ToolSeen:
        return ToolSeen(
            tool=name,
            effect=seen.effect,
            destructive=seen.destructive,
            calls=seen.calls,
            refused=seen.refused,
            codes=dict(seen.codes.most_common()),
            agents=dict(seen.others.most_common()),
            sessions=len(seen.sessions),
            first=seen.first,
            last=seen.last,
            by_day=tuple(seen.by_day[day] for day in self._days),
            examples=tuple(sorted(filter(None, seen.abouts), key=lambda one: -seen.abouts[one])[:EXAMPLES_MAX]),
        )


def _bounded(name: str, known: Mapping[str, Any]) -> str:
    return name if name in known or len(known) < NAMES_MAX else REST


def _agent(name: str, seen: _Seen) -> AgentSeen:
    return AgentSeen(
        agent=name,
        calls=seen.calls,
        refused=seen.refused,
        sessions=len(seen.sessions),
        tools=dict(seen.others.most_common()),
        first=seen.first,
        last=seen.last,
    )


def _gaps(tools: Iterable[tuple[str, _Seen]], in_plans: Mapping[str, int]) -> Iterator[Gap]:
    for name, seen in tools:
        often = seen.calls >= OFTEN_CALLS or len(seen.sessions) >= OFTEN_SESSIONS
        if often and name != REST and not seen.standing[Standing.DENIED]:
            yield Gap(
                tool=name,
                calls=seen.calls,
                sessions=len(seen.sessions),
                agents=len(seen.others),
                plans=in_plans.get(name, 0),
            )


# --- Suggested rules -------------------------------------------------------------------------------------------------


def _suggestions(tools: Iterable[tuple[str, _Seen]], guard: Guard, opened: Sequence[str]) -> Iterator[Suggestion]:
    """For each tool at most one, where that may be opened at all and nobody has said that it is guarded."""
    for name, seen in tools:
        server, _, operation = name.partition(":")
        if name == REST or server in COMMANDS or seen.standing[Standing.DENIED] or not _unnamed(name, seen, guard):
            continue
        if operation and _READING.match(operation) and seen.effect == EffectClass.OPAQUE:
            yield Suggestion(
                kind="effects",
                tool=name,
                entry="",
                toml=f"[tools.{_key(server)}.effects]\n{_key(operation)} = {_text(EffectClass.READS.value)}",
                lets_through=seen.calls if EffectClass.READS in opened else 0,
                of=seen.calls,
                why="It sounds as if it only reads. Nobody here knows: look at what the server does first.",
            )
        elif seen.effect in (EffectClass.REPEATABLE, EffectClass.CHECKABLE) and not seen.destructive:
            yield _narrow(name, seen) or Suggestion(
                kind="open",
                tool=name,
                entry=name,
                toml="",
                lets_through=seen.calls,
                of=seen.calls,
                why=f"It is {seen.effect} and not destructive. This opens it with any arguments.",
            )


def _unnamed(name: str, seen: _Seen, guard: Guard) -> bool:
    """Whether a tool that somebody knew is guarded only because nothing opens it: what somebody named is meant."""
    if seen.effect not in list(EffectClass):  # also what another version noted
        return False
    definition = ToolDefinition(
        name=name, description="", effect=EffectClass(seen.effect), destructive=seen.destructive, schema={}
    )
    return guard.judge(Call(tool=name, definition=definition)).by_default


def _narrow(name: str, seen: _Seen) -> Suggestion | None:
    """A rule for the calls that have one argument in common, where those are many and not all."""
    calls = [(args, count) for about, count in seen.abouts.items() if (args := _arguments(about)) is not None]
    values: Counter[tuple[str, str]] = Counter()
    for args, count in calls:
        for key, value in args.items():
            if isinstance(value, str) and value and len(value) <= _VALUE_MAX and "*" not in value:
                values[key, value] += count
    (key, value), count = values.most_common(1)[0] if values else (("", ""), 0)
    others = [args for args, _ in calls if args.get(key) != value]
    if count < max(OFTEN_CALLS, RULE_SHARE * seen.calls) or not others:
        return None
    alike = [args for args, _ in calls if args.get(key) == value]
    besides = sorted({name for args in alike for name in args} - {key})
    rule = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")
    return Suggestion(
        kind="rule",
        tool=name,
        entry=f"{RULE}{rule}",
        toml=f"[rules.{_key(rule)}]\ntools = {_list([name])}\nwhere = {_inline({key: value})}\n"
        + (f"besides = {_list(besides)}\n" if besides else "")
        + f"matches = [{_example(name, alike[0])}]\nmatches_not = [{_example(name, others[0])}]",
        lets_through=count,
        of=seen.calls,
        why=f"Most of its calls have the same `{key}`.",
    )


def _arguments(about: str) -> dict[str, Any] | None:
    """The arguments of a call, where they were short enough to be noted whole and nothing was taken out."""
    try:
        found = json.loads(about)
    except ValueError:
        return None
    plain = isinstance(found, dict) and all(isinstance(value, str | int | float | bool) for value in found.values())
    return found if plain and "[redacted" not in about else None


def _together(suggestions: Sequence[Suggestion], opened: Sequence[str]) -> str:
    entries = [one.entry for one in suggestions if one.entry]
    tables: dict[str, list[str]] = {"[guard]": [f"open = {_list([*opened, *entries])}"]} if entries else {}
    for head, *lines in (one.toml.splitlines() for one in suggestions if one.toml):
        tables.setdefault(head, []).extend(lines)
    return "\n\n".join("\n".join([head, *lines]) for head, lines in tables.items())


def _example(tool: str, args: Mapping[str, Any]) -> str:
    return f"{{ tool = {_text(tool)}, args = {_inline(args)} }}"


def _list(entries: Sequence[str]) -> str:
    return f"[{', '.join(map(_text, entries))}]"


def _inline(value: Mapping[str, Any]) -> str:
    return f"{{ {', '.join(f'{_key(key)} = {_text(one)}' for key, one in value.items())} }}"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _text(value: str | float | bool) -> str:
    """A value as TOML has it: as JSON has it, but for what JSON leaves as it is."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
