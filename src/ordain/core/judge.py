"""Lists of entries, ready to be compared with effects: what is denied, what is asked about, what is let through.

What the entries mean is told in `core.policy`. The same judge judges plans (`core.policy`) and single calls
(`core.guard`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Literal

import msgspec

from ordain.core.call_rule import RULE, CallRule, Conditions, Holds
from ordain.core.path import COMPARED_MAX, folded, pattern_fault
from ordain.core.pattern import Pattern, normal
from ordain.core.problem import Problem
from ordain.core.settings import Settings
from ordain.core.subject import PATH, VAGUE, NamedPath, Subject, above, count, plain_part

__all__ = ["Allowing", "Judge", "Strict", "Verdict", "quoted"]


Rules = Mapping[str, CallRule]
_NO_RULES: Rules = {}


class _Entry(msgspec.Struct, frozen=True):
    """A pattern of a list."""

    text: str
    patterns: tuple[Pattern, ...]
    part: str
    """The longest of the parts that are in everything it matches: seen sooner than whether it matches."""
    parts: tuple[str, ...]
    deep: bool
    """It matches everything beneath whatever it matches."""


_NOT_PLAIN = re.compile(r"[*?]+/?")


def _entry(text: str, *patterns: str, deep: bool) -> _Entry:
    parts = tuple(_NOT_PLAIN.split(patterns[0]))
    ready = tuple(Pattern(pattern) for pattern in patterns)
    return _Entry(text=text, patterns=ready, part=max(parts, key=len), parts=parts, deep=deep)


class _Entries:
    """Patterns of a list, compared with paths as long as that takes bearable time."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._cost = 0

    def begin_anew(self) -> None:
        self._cost = 0

    def add(self, entry: _Entry) -> None:
        self._entries.append(entry)

    @property
    def exhausted(self) -> bool:
        return self._cost > COMPARED_MAX

    def matching(self, path: str, *, deep: bool = False) -> set[str]:
        """The entries that match a path, or with `deep` everything beneath as well; none any more when exhausted."""
        near = [entry for entry in self._entries if entry.part in path]
        near = [entry for entry in near if entry.deep >= deep and all(part in path for part in entry.parts)]
        self._cost += len(path) * len(near)
        if self.exhausted:
            return set()
        return {entry.text for entry in near if any(pattern.matches(path) for pattern in entry.patterns)}


def _rules_among(entries: Iterable[str], rules: Rules) -> Iterator[tuple[str, CallRule]]:
    """The entries that are rules, and those. A rule that names others means nothing by it."""
    named = ((entry, rules.get(entry.removeprefix(RULE))) for entry in entries if entry.startswith(RULE))
    return ((entry, rule) for entry, rule in named if rule is not None)


class Strict:
    """The list `deny` or `ask`: what it names, and what it may name."""

    def __init__(self, entries: Iterable[str], rules: Rules = _NO_RULES) -> None:
        entries = set(entries)
        self._rules = {entry: (Strict(rule.tools), Conditions(rule)) for entry, rule in _rules_among(entries, rules)}
        entries = {entry for entry in entries if not entry.startswith(RULE)}
        self._words = frozenset(entry for entry in entries if not entry.startswith(PATH))
        self._all = entries - self._words
        self._plain: dict[str, set[str]] = {}
        """By path, the entries that mean it and what is beneath it."""
        self._wild = _Entries()
        self._beneath: dict[str, set[str]] = {}
        """By directory, the entries that mean something in it and nothing outside it."""
        self._reach: dict[str, list[tuple[str, float]]] = {}
        """By directory, the entries of which patterns begin there, and how many names those can have."""
        self._deepest = 0
        """How many names any of those paths and directories has."""
        self._seen: dict[NamedPath, tuple[set[str], set[str]]] = {}
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
            self._wild.add(_entry(entry, base, f"{base}/**", deep=True))
            depth = math.inf if "**" in base else count(base)
            self._reach.setdefault(plain, []).append((entry, depth))

    @property
    def exhausted(self) -> bool:
        """There was more to compare than could be."""
        return self._wild.exhausted or any(tools.exhausted for tools, _ in self._rules.values())

    def begin_anew(self) -> None:
        """Forget what was compared: for lists that live long and judge many calls, each by itself."""
        self._wild.begin_anew()
        self._seen.clear()
        for tools, _ in self._rules.values():
            tools.begin_anew()

    def names(self, subject: Subject) -> tuple[set[str], set[str], tuple[str, ...]]:
        """The entries that name an effect or, if none does, those that may; and the paths that they do it by."""
        surely, maybe, paths = self._by_words_and_paths(subject)
        sure_paths, may_paths = (paths, ()) if surely else ((), paths)
        for entry, (tools, conditions) in self._rules.items():
            sure, may, touched = tools.names(subject)
            held = conditions.meant(subject.args) if sure or may else Holds.NO
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
        """The entries that mean a path, and those that may."""
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


class Allowing:
    """The list `allow`: what it vouches for."""

    def __init__(self, entries: Iterable[str], rules: Rules = _NO_RULES) -> None:
        entries = set(entries)
        self._rules = {entry: (Allowing(rule.tools), Conditions(rule)) for entry, rule in _rules_among(entries, rules)}
        entries = {entry for entry in entries if not entry.startswith(RULE)}
        self._words = frozenset(entry for entry in entries if not entry.startswith(PATH))
        self._patterns = _Entries()
        self._seen: dict[NamedPath, set[str]] = {}
        for entry in entries - self._words:
            text = entry.removeprefix(PATH)
            if pattern_fault(text) is None:
                pattern = normal(text)
                self._patterns.add(_entry(entry, pattern, deep=pattern.endswith("**")))

    def vouching(self, subject: Subject) -> tuple[set[str], set[str]]:
        """The entries that let an effect through by what it is; where none does, those that do it by its paths, which
        vouch together for every one of them."""
        by_name = set(self._words & (subject.surely - VAGUE if subject.effect.destructive else subject.surely))
        for entry, (tools, conditions) in self._rules.items():
            if any(tools.vouching(subject)) and conditions.vouched(subject.args):
                by_name.add(entry)
        return (by_name, set()) if by_name else (by_name, self._by_paths(subject))

    def nearly(self, subject: Subject) -> Iterator[str]:
        """The rules that would let an effect through but for its arguments, and for which; of those only what a rule
        names is told."""
        for entry, (tools, conditions) in sorted(self._rules.items()):
            if subject.args is not None and any(tools.vouching(subject)):
                unlike, unnamed = conditions.unlike(subject.args), conditions.unnamed(subject.args)
                if unlike:
                    yield f"`{entry}` would let it through, but for {quoted(unlike)}"
                elif unnamed:
                    yield f"`{entry}` would let it through, but for arguments that the rule does not name"

    def begin_anew(self) -> None:
        """Forget what was compared: for lists that live long and judge many calls, each by itself."""
        self._patterns.begin_anew()
        self._seen.clear()
        for tools, _ in self._rules.values():
            tools.begin_anew()

    def _by_paths(self, subject: Subject) -> set[str]:
        if not subject.about_paths or subject.effect.destructive:
            return set()
        found = [self._vouching(path) for path in subject.paths]
        return set[str]().union(*found) if all(found) else set()

    def _vouching(self, path: NamedPath) -> set[str]:
        if path not in self._seen:
            vouching = self._patterns.matching(path.exact, deep=path.deep) if path.exact is not None else set[str]()
            self._seen[path] = vouching
        return self._seen[path]


class Verdict(msgspec.Struct, frozen=True):
    """What the lists say of one effect, in the words that all effects like it share."""

    answer: Literal["deny", "ask", "allow"]
    said: str
    paths: tuple[str, ...] = ()
    """The paths that decided; none where no path did."""


class Judge:
    """The policy's three lists."""

    def __init__(self, settings: Settings) -> None:
        rules = settings.rules
        self._deny, self._ask = Strict(settings.deny, rules), Strict(settings.ask, rules)
        self._allow = Allowing(settings.allow, rules)

    def verdict(self, subject: Subject) -> Verdict:
        denied, may_be_denied, paths = self._deny.names(subject)
        if denied:
            return Verdict("deny", f"the deny list names {quoted(denied)}", paths)
        if may_be_denied:
            return Verdict(
                "ask", f"{_may(may_be_denied)} what the policy's deny list names ({quoted(may_be_denied)})", paths
            )
        asked, may_be_asked, paths = self._ask.names(subject)
        if asked:
            return Verdict("ask", f"is in the policy's ask list ({quoted(asked)})", paths)
        if may_be_asked:
            return Verdict(
                "ask", f"{_may(may_be_asked)} what the policy's ask list names ({quoted(may_be_asked)})", paths
            )
        words, vouching = self._allow.vouching(subject)
        if words & {subject.effect.tool, subject.effect.effect.value}:
            return Verdict("allow", "is allowed without asking")
        if words:
            return Verdict("allow", f"is allowed by {quoted(words)}")
        if vouching:
            return Verdict("allow", f"is allowed by {quoted(vouching)}", tuple(path.text for path in subject.paths))
        return Verdict("ask", "is not in the policy's allow list")

    def too_much(self) -> Iterator[Problem]:
        """That not every path could be compared with what is denied. Asking would not do: no approval overrides a
        deny."""
        if self._deny.exhausted:
            yield Problem(
                code="E_POLICY_DENIED",
                detail="Policy denies the plan: its paths cannot all be compared with the deny list, there is too much "
                "of both.",
                hints=("Split the plan, or write fewer patterns with `*` in `[policy] deny`.",),
            )


def _may(entries: Iterable[str]) -> str:
    return "may be" if any(entry.startswith(RULE) for entry in entries) else "may touch"


def quoted(words: Iterable[str]) -> str:
    """Entries, as sentences have them."""
    return ", ".join(f"`{word}`" for word in sorted(words))
