"""Rules of the settings: calls by what they are called with, and examples that show what a rule means.

`docs/guard.md` says what a rule means in either direction. Where it forbids or asks, letters are compared without
regard to case and to signs that nobody sees, one value of several is enough, and what is not known yet may match. Where
it lets through, every value must match letter by letter and be of the kind that was written, and the call has no
argument that is named neither in `where` nor in `besides`. Commands are told apart by facts (`core.policy.fact`), never
by their text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import Any

import msgspec

from ordain.core.policy.fact import ALARMS, CommandFact, CommandFacts, LineFacts
from ordain.core.text.secret import named_secrets

RULE = "rule:"
TEXT_MAX = 1 << 16
"""How many characters of an argument are compared."""
VALUES_MAX = 1_000
"""How many values and lists an argument may have that is compared."""
_STARS = re.compile(r"\*+")
_PART_OF = r"""[^\s,;|<>"'`()\[\]{}\\]"""
"""What a value is made of that is one of several in a text: everything but what sets them apart."""
_WAY_OUT = re.compile(r"(?<![^/\\])\.\.(?![^/\\])")
_NOT_STAR = re.compile(r"([^\w.+~*-])")
"""What `*` does not stand for where a rule lets through."""


class Holds(IntEnum):
    """Whether something is so."""

    NO = 0
    MAYBE = 1
    YES = 2


class Example(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call that shows what a rule means."""

    tool: str
    args: Mapping[str, Any] = {}


class CallRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`[rules.NAME]`."""

    tools: tuple[str, ...]
    """Entries as the policy's lists have them; a call is meant that any of them names."""
    where: Mapping[str, Any] = {}
    """By argument, what its value must be like: a text, a value, or a list of these."""
    besides: tuple[str, ...] = ()
    """Arguments that may be there besides, whatever they are, where the rule lets a call through."""
    never: tuple[str, ...] = ()
    """What no word of a command may be like where the rule lets it through, before its program too."""
    matches: tuple[Example, ...] = ()
    matches_not: tuple[Example, ...] = ()


class ArgumentConditions:
    """What a rule says of arguments, ready to be compared; None are those of a command, or of what is no call."""

    def __init__(self, rule: CallRule) -> None:
        self._where = {name: _wanted(value) for name, value in rule.where.items()}
        self._forbidden = [(_folded(name), wanted) for name, wanted in self._where.items()]
        self._named = self._where.keys() | set(rule.besides)
        self._never = [_STARS.split(pattern) for pattern in rule.never]

    def meant(self, args: Mapping[str, Any] | None, line: LineFacts | None = None) -> Holds:
        """Whether a call, or a command line, is one that the rule forbids or asks about."""
        if not self._where:
            return Holds.YES
        if line is not None:
            return max((self._meant_command(command) for command in line.commands), default=Holds.MAYBE)
        if args is None:
            return Holds.MAYBE
        said: dict[str, list[Any]] = {}
        for name, value in args.items():
            said.setdefault(_folded(name), []).append(value)
        return min(
            max((_meant(wanted, value) for value in said.get(name, ())), default=Holds.NO)
            for name, wanted in self._forbidden
        )

    def _meant_command(self, command: CommandFacts) -> Holds:
        said, open_ended = command.keys(), CommandFact.UNKNOWN in command.facts
        held = Holds.YES
        for name, wanted in self._where.items():
            value = said.get(name)
            if value is None or not (_is_flag(wanted) or _meant(wanted, value) is not Holds.NO):
                held = min(held, Holds.MAYBE if open_ended and not command.program else Holds.NO)
            elif not _is_flag(wanted):
                held = min(held, _meant(wanted, value))
        return held

    def vouched_command(self, command: CommandFacts) -> bool:
        """Whether a command, by its strict reading, is one that the rule lets through."""
        said = command.keys()
        if not self._where or not command.strict or (command.runner and "through" not in self._named):
            return False
        if any(fact.value not in self._named for fact in command.facts & _TO_BE_NAMED) or self.kept_by(command):
            return False
        return all(
            (_is_flag(wanted) or _vouched(wanted, said[name])) if name in said else name == "arguments"
            for name, wanted in self._where.items()
        )

    def kept_by(self, command: CommandFacts) -> list[str]:
        """The words that keep a command from being let through, as the rule says that it never has such."""
        return [word for word in command.said if any(text_matches(one, word) for one in self._never)]

    def vouched(self, args: Mapping[str, Any] | None) -> bool:
        """Whether a call is one that the rule lets through."""
        if not self._where:
            return True
        return args is not None and not self.unnamed(args) and not self.unlike(args)

    def unlike(self, args: Mapping[str, Any]) -> list[str]:
        """The arguments that keep a call from being let through, as they are not what the rule says, or not there."""
        return [name for name, wanted in self._where.items() if name not in args or not _vouched(wanted, args[name])]

    def unnamed(self, args: Mapping[str, Any]) -> list[str]:
        """The arguments that keep a call from being let through, as the rule does not name them."""
        return [name for name in args if name not in self._named] if self._where else []


_TO_BE_NAMED = ALARMS | {CommandFact.UNKNOWN}
"""The facts that a rule must name to open a command that they hold for."""
COMMAND_KEYS = ("program", "subcommand", "arguments", "through", *(fact.value for fact in CommandFact))


# --- One argument ----------------------------------------------------------------------------------------------------

_UNKNOWN = object()
"""In place of a value of which nothing can be told."""


def _is_flag(wanted: tuple[_Text | _Equal, ...]) -> bool:
    """Whether a rule asks that a fact holds, whatever it is about."""
    return len(wanted) == 1 and isinstance(wanted[0], _Equal) and wanted[0].is_true


def _meant(wanted: tuple[_Text | _Equal, ...], value: Any) -> Holds:
    found = Holds.NO
    for one in _single(value):
        held = Holds.MAYBE if one is _UNKNOWN else max(each.meant(one) for each in wanted)
        if held is Holds.YES:
            return held
        found = max(found, held)
    return found


def _vouched(wanted: tuple[_Text | _Equal, ...], value: Any) -> bool:
    values = list(_single(value))
    return bool(values) and all(
        one is not _UNKNOWN and one is not None and any(each.vouched(one) for each in wanted) for one in values
    )


def _single(value: Any) -> Iterator[Any]:
    """The single values of an argument: itself, or those of a list, however deep. None stands for an empty list."""
    todo, room, characters = [value], VALUES_MAX, TEXT_MAX
    while todo:
        one = todo.pop()
        room -= 1
        if isinstance(one, list | tuple):
            todo += one[: room + 1] or [None]
        elif isinstance(one, str):
            characters -= len(one)
            later = "${" in one or any(named_secrets(one))
            yield _UNKNOWN if later or characters < 0 else one
        else:
            yield one if one is None or isinstance(one, bool | int | float) else _UNKNOWN
        if room <= 0 and todo:
            yield _UNKNOWN
            return


def _wanted(value: Any) -> tuple[_Text | _Equal, ...]:
    each = value if isinstance(value, list | tuple) else (value,)
    return tuple(_Text(one) if isinstance(one, str) else _Equal(one) for one in each)


class _Equal:
    def __init__(self, value: Any) -> None:
        self._value = value
        self._number = isinstance(value, int | float) and not isinstance(value, bool)
        self.is_true = value is True

    def meant(self, value: Any) -> Holds:
        if value is None or type(value) is type(self._value):
            return Holds.YES if value is not None and value == self._value else Holds.NO
        number = _number(value)
        if self._number and number is not None:
            return Holds.YES if number == self._value else Holds.NO
        if isinstance(value, str) and value.strip().casefold() in _written(self._value):
            return Holds.YES
        return Holds.MAYBE  # whoever is called may take it for that

    def vouched(self, value: Any) -> bool:
        return type(value) is type(self._value) and bool(value == self._value)


class _Text:
    """A text with stars in it, or without."""

    def __init__(self, pattern: str) -> None:
        self._parts = _STARS.split(pattern)
        self._folded = _STARS.split(_folded(pattern))
        self._longest = max(self._folded, key=len)
        stars = {len(found) > 1 for found in _STARS.findall(pattern)}
        self._anything, self._mixed = False not in stars, len(stars) > 1
        self._pieces, self._normal = (_NOT_STAR.split(one) for one in (pattern, unicodedata.normalize("NFKC", pattern)))
        self._ways_out = len(_WAY_OUT.findall(pattern))

    def meant(self, value: Any) -> Holds:
        texts = [value] if isinstance(value, str) else _written(value)
        if not texts:
            return Holds.NO if value is None else Holds.MAYBE
        for text in texts:
            readings = (reading for reading in _readings(text) if self._longest in reading)
            if text_matches(self._parts, text) or any(map(self._stands_in, readings)):
                return Holds.YES
        return Holds.NO

    def _stands_in(self, text: str) -> bool:
        """Whether a text is what is meant, or one of the values that it may be a list of."""
        at = 0
        for part in self._among:
            found = part.search(text, at)
            if found is None:
                return False
            at = found.end()
        return True

    @cached_property
    def _among(self) -> list[re.Pattern[str]]:
        """The parts between the stars, of which the first begins a value and the last ends one."""
        first, *others = map(re.escape, self._folded)
        *before, last = (f"(?<!{_PART_OF}){first}", *others)
        return [re.compile(part) for part in (*before, f"{last}(?!{_PART_OF})")]

    def vouched(self, value: Any) -> bool:
        if not isinstance(value, str) or self._mixed or len(_WAY_OUT.findall(value)) > self._ways_out:
            return False
        if self._anything:
            return text_matches(self._parts, value)
        normal = unicodedata.normalize("NFKC", value)
        return _has_pieces(self._pieces, value) and _has_pieces(self._normal, normal)


def _has_pieces(pieces: list[str], value: str) -> bool:
    """Whether a text is a pattern's, with each star in place of what it may stand for."""
    theirs = _NOT_STAR.split(value, maxsplit=len(pieces) // 2 + 1)
    if "*" in value or len(theirs) != len(pieces) or theirs[1::2] != pieces[1::2]:
        return False
    return all(text_matches(_STARS.split(mine), one) for mine, one in zip(pieces[::2], theirs[::2], strict=True))


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _written(value: Any) -> list[str]:
    """The ways a single value that is no text may be written as one; none where nobody would."""
    if isinstance(value, bool):
        return ["true"] if value else ["false"]
    if value is None or (isinstance(value, int) and value.bit_length() > 1024):
        return []
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e16
    return [str(value), *([str(int(value))] if whole else ())]


@lru_cache(maxsize=4)
def _readings(text: str) -> tuple[str, ...]:
    """A text as somebody may take it: without regard to case, and to signs that nobody sees."""
    folded = _folded(text)
    return (folded,) if folded.isprintable() else (folded, "".join(filter(str.isprintable, folded)))


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def text_matches(parts: list[str], value: str) -> bool:
    """Whether a text has these parts between stars; each is taken as soon as it comes, so nothing is tried twice."""
    first, *others = parts
    if not others:
        return value == first
    *middle, last = others
    if len(value) < len(first) + len(last) or not value.startswith(first) or not value.endswith(last):
        return False
    at, end = len(first), len(value) - len(last)
    for part in middle:
        at = value.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True
