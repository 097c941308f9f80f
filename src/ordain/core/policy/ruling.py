"""Policy: which plans need a person's approval, which are denied, and why.

Deny wins, then ask, then allow; what no list names is asked. Every effect is judged by itself, and a plan is as its
worst effect. Rules look at the registry and the plan's bytes, never at prose. What the
entries of the lists mean is in `docs/approvals.md` and, for calls that agents make outside of any plan
(`core/guard/call.py`), in `docs/guard.md`; entries that mean nothing are found in `core/lint/settings.py`.

Doubt goes to the strict side. A path that only may touch what `deny` or `ask` names is asked about: one that is decided
at run time, one that lint refuses, a pattern, a directory above, and what may lie beneath what is destroyed or moved.
`allow` vouches for a call only if that is of a known tool about paths, is not opaque, and names no other path. A word
for a class or for an action of ours never allows a tool that bears it as its name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Generic, Literal, Self, TypeVar

import msgspec

from ordain.core.plan.model import Plan
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import ToolDefinition
from ordain.core.plan.value import StepId
from ordain.core.policy.fact import SHELL_READS, LineFacts
from ordain.core.policy.path_use import PATH, VAGUE, NamedPath, Subject, above, count, subjects
from ordain.core.policy.rule import RULE, ArgumentConditions, CallRule, Holds
from ordain.core.policy.settings import Settings
from ordain.core.text.control import folded
from ordain.core.text.path import COMPARED_MAX, pattern_fault
from ordain.core.text.pattern import PathPattern, normal, plain_part
from ordain.core.text.problem import Problem, blame_step

Rules = Mapping[str, CallRule]
_NO_RULES: Rules = {}


class _Entry(msgspec.Struct, frozen=True):
    text: str
    patterns: tuple[PathPattern, ...]
    part: str
    """The longest of the parts that are in everything it matches: seen sooner than whether it matches."""
    parts: tuple[str, ...]
    deep: bool
    """It matches everything beneath whatever it matches."""


_NOT_PLAIN = re.compile(r"[*?]+/?")


def _entry(text: str, *patterns: str, deep: bool) -> _Entry:
    parts = tuple(_NOT_PLAIN.split(patterns[0]))
    ready = tuple(PathPattern(pattern) for pattern in patterns)
    return _Entry(text=text, patterns=ready, part=max(parts, key=len), parts=parts, deep=deep)


class _Entries:
    """Patterns of a list, compared with paths as long as that takes bearable time."""

    def __init__(self) -> None:
        self.entries: list[_Entry] = []
        self.cost = 0

    @property
    def exhausted(self) -> bool:
        return self.cost > COMPARED_MAX

    def matching(self, path: str, *, deep: bool = False) -> set[str]:
        """The entries that match a path, or with `deep` everything beneath as well; none any more when exhausted."""
        near = [entry for entry in self.entries if entry.part in path]
        near = [entry for entry in near if entry.deep >= deep and all(part in path for part in entry.parts)]
        self.cost += len(path) * len(near)
        if self.exhausted:
            return set()
        return {entry.text for entry in near if any(pattern.matches(path) for pattern in entry.patterns)}


_Seen = TypeVar("_Seen")


class _PolicyList(Generic[_Seen]):
    """What the lists have in common: rules, words and patterns of paths among their entries."""

    def __init__(self, entries: Iterable[str], rules: Rules = _NO_RULES) -> None:
        same: Any = type(self)
        entries = set(entries)
        named = ((one, rules.get(one.removeprefix(RULE))) for one in entries if one.startswith(RULE))
        # A rule that names others means nothing by it.
        self._rules: dict[str, tuple[Self, ArgumentConditions]] = {
            entry: (same(rule.tools), ArgumentConditions(rule)) for entry, rule in named if rule is not None
        }
        others = {entry for entry in entries if not entry.startswith(RULE)}
        self._words = frozenset(entry for entry in others if not entry.startswith(PATH))
        self._all = others - self._words
        self._wild = _Entries()
        self._seen: dict[NamedPath, _Seen] = {}

    def begin_anew(self) -> None:
        """Forget what was compared: for lists that live long and judge many calls, each by itself."""
        self._wild.cost = 0
        self._seen.clear()
        for tools, _ in self._rules.values():
            tools.begin_anew()


class Strict(_PolicyList[tuple[set[str], set[str]]]):
    """The list `deny` or `ask`: what it names, and what it may name."""

    def __init__(self, entries: Iterable[str], rules: Rules = _NO_RULES) -> None:
        super().__init__(entries, rules)
        self._plain: dict[str, set[str]] = {}
        """By path, the entries that mean it and what is beneath it."""
        self._beneath: dict[str, set[str]] = {}
        """By directory, the entries that mean something in it and nothing outside it."""
        self._reach: dict[str, list[tuple[str, float]]] = {}
        """By directory, the entries of which patterns begin there, and how many names those can have."""
        self._deepest = 0
        """How many names any of those paths and directories has."""
        for entry in self._all:
            base = folded(entry.removeprefix(PATH))
            while base.endswith("/**"):
                base = base.removesuffix("/**")
            self._add(entry, base)

    def _add(self, entry: str, base: str) -> None:
        plain = plain_part(base)
        self._deepest = max(self._deepest, count(plain))
        for directory in above(plain):
            self._beneath.setdefault(directory, set()).add(entry)
        if plain == base:
            self._plain.setdefault(base, set()).add(entry)
        else:
            self._wild.entries.append(_entry(entry, base, f"{base}/**", deep=True))
            depth = math.inf if "**" in base else count(base)
            self._reach.setdefault(plain, []).append((entry, depth))

    @property
    def exhausted(self) -> bool:
        """There was more to compare than could be."""
        return self._wild.exhausted or any(tools.exhausted for tools, _ in self._rules.values())

    def names(self, subject: Subject) -> tuple[set[str], set[str], tuple[str, ...]]:
        """The entries that name an effect or, if none does, those that may; and the paths that they do it by."""
        surely, maybe, paths = self._by_words_and_paths(subject)
        sure_paths, may_paths = (paths, ()) if surely else ((), paths)
        for entry, (tools, conditions) in self._rules.items():
            sure, may, touched = tools.names(subject)
            held = conditions.meant(subject.args, subject.line) if sure or may else Holds.NO
            if sure and held is Holds.YES:
                surely, sure_paths = surely | {entry}, (*sure_paths, *touched)
            elif held is not Holds.NO:
                maybe, may_paths = maybe | {entry}, (*may_paths, *touched)
        return (surely, set(), sure_paths) if surely else (surely, maybe, may_paths)

    def _by_words_and_paths(self, subject: Subject) -> tuple[set[str], set[str], tuple[str, ...]]:
        words = set(self._words & subject.words)
        if not self._all or not subject.paths:
            return words, set(), ()
        touched = [(path.text, *self._touching(path)) for path in subject.paths]
        if surely := words.union(*(sure for _, sure, _ in touched)):
            return surely, set(), tuple(text for text, sure, _ in touched if sure)
        return set(), words.union(*(may for *_, may in touched)), tuple(text for text, _, may in touched if may)

    def _touching(self, path: NamedPath) -> tuple[set[str], set[str]]:
        if path not in self._seen:
            surely = self._wild.matching(path.known)
            surely.update(*(self._plain.get(one, ()) for one in self._above(path.known)))
            maybe = set(self._all if path.anywhere or self.exhausted else self._beneath.get(path.within, ()))
            if path.deep:
                reaching = (found for directory in self._above(path.within) for found in self._reach.get(directory, ()))
                maybe.update(entry for entry, depth in reaching if count(path.within) < depth)
            self._seen[path] = surely, maybe - surely
        return self._seen[path]

    def _above(self, path: str) -> Iterator[str]:
        """As many of the directories above a path as anything is known of: a path may have two thousand."""
        return islice(above(path), self._deepest + 1)


class AllowList(_PolicyList[set[str]]):
    """The list `allow`: what it vouches for."""

    def __init__(self, entries: Iterable[str], rules: Rules = _NO_RULES) -> None:
        super().__init__(entries, rules)
        for entry in self._all:
            text = entry.removeprefix(PATH)
            if pattern_fault(text) is None:
                pattern = normal(text)
                self._wild.entries.append(_entry(entry, pattern, deep=pattern.endswith("**")))

    def vouching(self, subject: Subject) -> tuple[set[str], set[str]]:
        """The entries that let an effect through by what it is; where none does, those that do it by its paths, which
        vouch together for every one of them."""
        by_name = set(self._words & (subject.surely - VAGUE if subject.effect.destructive else subject.surely))
        for entry, (tools, conditions) in self._rules.items():
            if any(tools.vouching(subject)) and conditions.vouched(subject.args):
                by_name.add(entry)
        if not by_name and subject.line is not None:
            by_name = self._by_commands(subject, subject.line)
        return (by_name, set()) if by_name else (by_name, self._by_paths(subject))

    def _by_commands(self, subject: Subject, line: LineFacts) -> set[str]:
        """The entries that vouch together for every command of a line, each by its strict reading."""
        rules = [(entry, one) for entry, (tools, one) in self._rules.items() if any(tools.vouching(subject))]
        found: set[str] = set()
        for command in line.strict or ():
            vouching = {entry for entry, one in rules if one.vouched_command(command)}
            if command.only_reads and SHELL_READS in self._words:
                vouching.add(SHELL_READS)
            if not vouching:
                return set()
            found |= vouching
        return found

    def nearly(self, subject: Subject) -> Iterator[str]:
        """The rules that would let an effect through but for arguments; told are only those that a rule names."""
        for entry, (tools, conditions) in sorted(self._rules.items()):
            if subject.args is not None and any(tools.vouching(subject)):
                unlike, unnamed = conditions.unlike(subject.args), conditions.unnamed(subject.args)
                if unlike:
                    yield f"`{entry}` would let it through, but for {quoted(unlike)}"
                elif unnamed:
                    yield f"`{entry}` would let it through, but for arguments that the rule does not name"

    def _by_paths(self, subject: Subject) -> set[str]:
        if not subject.about_paths or subject.effect.destructive:
            return set()
        found = [self._vouching(path) for path in subject.paths]
        return set[str]().union(*found) if all(found) else set()

    def _vouching(self, path: NamedPath) -> set[str]:
        if path not in self._seen:
            self._seen[path] = self._wild.matching(path.exact, deep=path.deep) if path.exact is not None else set()
        return self._seen[path]


class ListVerdict(msgspec.Struct, frozen=True):
    """What the lists say of one effect, in the words that all effects like it share."""

    answer: Literal["deny", "ask", "allow"]
    said: str
    paths: tuple[str, ...] = ()


class Judge:
    """The policy's three lists."""

    def __init__(self, settings: Settings) -> None:
        rules = settings.rules
        self._strict = {"deny": Strict(settings.deny, rules), "ask": Strict(settings.ask, rules)}
        self._allow = AllowList(settings.allow, rules)

    def verdict(self, subject: Subject) -> ListVerdict:
        for name, entries in self._strict.items():
            surely, maybe, paths = entries.names(subject)
            if surely and name == "deny":
                return ListVerdict("deny", f"the deny list names {quoted(surely)}", paths)
            if surely:
                return ListVerdict("ask", f"is in the policy's ask list ({quoted(surely)})", paths)
            if maybe:
                may = "may be" if any(entry.startswith(RULE) for entry in maybe) else "may touch"
                return ListVerdict("ask", f"{may} what the policy's {name} list names ({quoted(maybe)})", paths)
        words, vouching = self._allow.vouching(subject)
        if words & {subject.effect.tool, subject.effect.effect.value}:
            return ListVerdict("allow", "is allowed without asking")
        if words:
            return ListVerdict("allow", f"is allowed by {quoted(words)}")
        if vouching:
            return ListVerdict("allow", f"is allowed by {quoted(vouching)}", tuple(path.text for path in subject.paths))
        return ListVerdict("ask", "is not in the policy's allow list")

    def too_much(self) -> Iterator[Problem]:
        """That not every path could be compared with what is denied, which no approval overrides."""
        if self._strict["deny"].exhausted:
            why = "its paths cannot all be compared with the deny list, there is too much of both"
            hint = "Split the plan, or write fewer patterns with `*` in `[policy] deny`."
            yield blame_step(None, "E_POLICY_DENIED", f"Policy denies the plan: {why}.", hint)


def quoted(words: Iterable[str]) -> str:
    """Entries, as sentences have them."""
    return ", ".join(f"`{word}`" for word in sorted(words))


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """What policy says of a plan."""

    requires_approval: bool
    reasons: tuple[str, ...]
    denied: tuple[Problem, ...] = ()


class _Group(msgspec.Struct, frozen=True):
    steps: list[StepId]
    paths: set[tuple[str, ...]]


def rule(plan: Plan, tools: Mapping[str, ToolDefinition], settings: Settings) -> Ruling:
    """Whether this plan may run unasked, must be approved, or is denied; with a reason for each kind of effect."""
    judge = Judge(settings)
    groups: dict[tuple[str, EffectClass, str, str], _Group] = {}
    claims: list[str] = []
    for subject in subjects(plan, tools, settings):
        effect, verdict = subject.effect, judge.verdict(subject)
        key = (effect.tool, effect.effect, verdict.answer, verdict.said)
        group = groups.setdefault(key, _Group(steps=[], paths=set()))
        group.steps.append(effect.step)
        group.paths.add(verdict.paths)
        if effect.claimed_repeatable:
            claims.append(
                f"`{effect.step}` claims that it may be run again after a crash, which only an approver can say"
            )
    asks: list[str] = []
    allows: list[str] = []
    denied: list[Problem] = []
    for (tool, effect_class, answer, said), group in groups.items():
        # What is judged: with its paths where they decided and are the same for all.
        paths = next(iter(group.paths)) if len(group.paths) == 1 else ()
        times = f"{len(group.steps)} time{'s' if len(group.steps) > 1 else ''}"
        what = f"`{tool}`{''.join(f' `{path}`' for path in paths)} ({effect_class.value}, {times})"
        match answer:
            case "deny":
                detail, hint = f"Policy denies {what}: {said}.", "`[policy] deny` in ordain.toml says so."
                denied.append(blame_step(group.steps[0], "E_POLICY_DENIED", detail, hint))
            case "ask":
                asks.append(f"{what} {said}")
            case _:
                allows.append(f"{what} {said}")
    asks += claims
    denied += judge.too_much()
    return Ruling(requires_approval=bool(asks), reasons=tuple(asks or allows), denied=tuple(denied))
