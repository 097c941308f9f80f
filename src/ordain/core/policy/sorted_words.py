"""The words of a known program, sorted by its entry in the table: options with values, operands with roles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import msgspec

from ordain.core.policy.fact import CommandFact
from ordain.core.policy.program import Words
from ordain.core.policy.program_table import ProgramEntry, ProgramTable


class SortedWords:
    """The words of a known program, sorted into options with values and operands by its entry."""

    def _begin(self, words: Words) -> None:
        self._words, self.strict = words, True
        self.listed = True
        """Whether the table lists every option that is there."""
        self.options: list[tuple[str, str | None]] = []
        self.operands: list[tuple[int, str | None]] = []
        self.started: list[Words] = []
        """Commands that options start: `find -exec`."""
        self.module: Words = ()
        """The command that an option begins, with all that follows: `python -m`."""

    def __init__(self, table: ProgramTable, words: Words) -> None:
        self.program = str(words[0])
        base = table.base(self.program) or ProgramEntry()
        self.base, self.entry, self.subcommand, self.arguments, self._before = base, base, "", words[1:], 0
        self._verbs = table.verbs
        self._begin(words)
        self._sort(base, 1, has_subcommands := table.has_subcommands(self.program))
        found = table.find(self.program, [word for _, word in self.operands]) if has_subcommands else None
        if found is None or not found[1]:
            self.strict = self.strict and not (has_subcommands and self.operands)
            return
        self.entry, used = found
        self.subcommand = " ".join(str(word) for _, word in self.operands[:used])
        after = self.operands[used - 1][0] + 1
        before = [one for one in self.options if self._place(one[0]) < after]
        self._begin(words[:after])
        self._sort(base, 1, True)
        strict, listed = self.strict or base.any_option, self.listed
        self._begin(words)
        self.strict, self.listed, self.options, self._before = strict, listed, before, len(before)
        options, any_option = {**base.options, **self.entry.options}, self.entry.any_option or base.any_option
        self._sort(msgspec.structs.replace(self.entry, options=options, any_option=any_option), after, False)
        self.arguments = words[after:]

    @property
    def title(self) -> str:
        return f"{self.program} {self.subcommand}".rstrip()

    def _place(self, option: str) -> int:
        return next((at for at, word in enumerate(self._words) if word is not None and word.startswith(option)), 0)

    def _sort(self, entry: ProgramEntry, start: int, subcommands: bool) -> None:
        at, words = start, self._words
        stops = not entry.permuted or any(role.rstrip("*") in ("command", "remote") for role in entry.operands)
        fixed = sum(role.rstrip("*") not in ("command", "remote") for role in entry.operands) if entry.permuted else 0
        fixed = max(fixed, sum(role in ("text", "host") for role in entry.operands[:2]) if not entry.permuted else 0)
        while at < len(words):
            word = words[at]
            at += 1
            if word is None:
                self.strict = False
                self.operands.append((at - 1, None))
            elif word == "--" and not (stops and not subcommands and len(self.operands) > fixed):
                self.options.append(("--", None))
                self.operands += [(place, words[place]) for place in range(at, len(words))]
                return
            elif word.startswith("-") and len(word) > 1:
                at = self._option(entry, word, at, subcommands)
            elif entry.words and word.startswith("+") and word in entry.options:
                self.options.append((word, None))
            else:
                self.operands.append((at - 1, word))
            if stops and not subcommands and len(self.operands) > fixed:
                self.operands += [(place, words[place]) for place in range(at, len(words))]
                return

    def _option(self, entry: ProgramEntry, word: str, at: int, subcommands: bool) -> int:
        """Take an option; where the next word is."""
        words, known = self._words, entry.options
        name, equals, value = word.partition("=")
        if known.get(word) in ("!", ">"):
            rest = words[at:]
            ends = [place for place, one in enumerate(rest) if one in (";", "\\;", "+")] if known[word] == "!" else []
            end = ends[0] if ends else len(rest)
            if known[word] == ">":
                self.module = rest
            else:
                self.started.append(rest[:end])
            self.options.append((word, rest[0] if rest else None))
            return at + end + (1 if ends else 0)
        if entry.words or word.startswith("--"):
            if name not in known:
                near = [one for one in known if not entry.words and one.startswith(name)]
                if len(near) != 1:
                    self._unlisted(entry)
                    self.strict = self.strict and not near  # it may be short for one of them
                    self.options.append((name, value if equals else None))
                    return at
                name, self.strict = near[0], False
            if known[name] == ":" and not equals:
                follows = words[at] if at < len(words) else None
                self.strict = self.strict and follows is not None
                self.options.append((name, follows))
                return at + 1
            self.options.append((name, value if equals else None))
            return at
        if word[1:].isdigit() and "-#" in known:
            self.options.append(("-#", word[1:]))
            return at
        for place, letter in enumerate(name[1:], 1):
            option = f"-{letter}"
            kind = known.get(option)
            if kind is None:
                self._unlisted(entry)
                self.options.append((option, None))
            elif kind == ":":
                attached = word[place + 1 :]
                follows = attached or (words[at] if at < len(words) else None)
                self.strict = self.strict and follows is not None
                self.options.append((option, follows))
                return at if attached else at + 1
            else:
                self.options.append((option, None))
        return at

    def _unlisted(self, entry: ProgramEntry) -> None:
        self.strict, self.listed = self.strict and entry.any_option, self.listed and entry.every_option

    def inner(self) -> Words:
        """The command that this one starts."""
        return next((rest for role, _, rest in self.roles() if role == "command"), ())

    def roles(self) -> Iterator[tuple[str, str | None, Words]]:
        """Each operand with its role; a command or a text that is started comes with all its words."""
        roles, left = self.entry.operands, list(self.operands)
        given = {token for tokens, _, _ in self.further for token in tokens}
        if (roles and f"{roles[0]}@" in given) or (roles[:1] == ("filter",) and "script@" in given):
            roles = roles[1:]  # `sed -e`: an option has what the first operand would be
        if "in_place" in given:
            roles = tuple(role.replace("reads", "writes") for role in roles)
        for place, role in enumerate(roles):
            name, behind = role.rstrip("*"), len(roles) - place - 1
            if left and (name in ("command", "remote") or role == "shell*"):
                yield name, left[0][1], tuple(word for _, word in left)
                return
            take = max(len(left) - behind, 0) if role.endswith("*") else min(1, max(len(left), 0))
            for _ in range(take):
                word = left.pop(0)[1]
                yield name, word, (word,) if name == "shell" else tuple(one for _, one in left)
        for _, word in left:
            self.strict = False
            yield "text", word, ()

    @cached_property
    def further(self) -> Sequence[tuple[tuple[str, ...], str, str | None]]:
        """What holds because of options and operands, which that is, and its value."""
        return tuple(self._further())

    def _further(self) -> Iterator[tuple[tuple[str, ...], str, str | None]]:
        for entry in (self.entry,) if self.base is self.entry else (self.entry, self.base):
            for place, (option, value) in enumerate(self.options):
                if entry is not self.entry and place >= self._before and option in self.entry.options:
                    continue  # a subcommand means something else by it: `git switch -c`
                for pattern, tokens in entry.by_option.get(option, ()):
                    if pattern is None or (value is not None and pattern.fullmatch(value)):
                        yield tokens, option, value
            if not self.operands:
                yield entry.without_operands, "", None
                if not self.options:
                    yield entry.when_alone, "", None
            yield from self._by_operand(entry)

    def _by_operand(self, entry: ProgramEntry) -> Iterator[tuple[tuple[str, ...], str, str | None]]:
        """What holds because of operands. Behind one that acts none takes alarms back: it may name what is deleted."""
        has_acted = False
        for _, word in self.operands:
            if word is None:
                continue
            found = [entry.by_operand[word]] if word in entry.by_operand else []
            found += [tokens for pattern, tokens in entry.by_operand_pattern if pattern.fullmatch(word)]
            for tokens in found:
                if not has_acted or _CALMING.isdisjoint(tokens):
                    yield tokens, word, word
            verb = self._verbs.deeds((word,), wide=False) if "verb*" in entry.operands else ()
            has_acted = has_acted or not _ENDING.isdisjoint([*sum(found, ()), *(one.fact for one in verb)])


_CALMING = frozenset(["!", "!!"])
_ENDING = frozenset([CommandFact.DELETES, CommandFact.IRREVERSIBLE, CommandFact.DISRUPTS])
"""What no later word takes back."""
