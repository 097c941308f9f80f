"""Rules of the settings: calls by what they are called with, and examples that show what a rule means.

A rule names tools, in the words of the policy's lists, and may say what arguments must be like. It is used by its name,
as `rule:NAME`, in any list: `[policy] allow`, `ask`, `deny`, `[guard] guarded`, `open`. Its examples are calls that it
must match and calls that it must not; a configuration whose rules do not do what their examples say is not trusted.

What an argument is like is told by a text in which `*` stands for any characters, or by a value that it equals. Doubt
goes to the strict side, as in all lists: where a rule forbids or asks, letters are compared without regard to case, one
value of several is enough, and one that is not known yet may match; where it lets through, every value must match
letter by letter, and a `*` stands for no separator, so that `*@example.com` is one address and never two. `**` does.

Commands are never told apart by their text: to a rule with `where` no command is one it lets through, and every one
may be one it forbids.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

import msgspec

from ordain.core.secret_reference import named_secrets

__all__ = ["RULE", "CallRule", "Example", "Holds", "holds"]

RULE = "rule:"
VALUE_MAX = 1 << 20
"""How long a text may be that is compared."""
_SEPARATORS = frozenset(" ,;|<>\"'`()[]{}\\")


class Holds(IntEnum):
    """Whether something is so."""

    NO = 0
    MAYBE = 1
    YES = 2


class Example(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call that shows what a rule means."""

    tool: str
    """`tool` or `tool:operation`."""
    args: Mapping[str, Any] = {}


class CallRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`[rules.NAME]`."""

    tools: tuple[str, ...]
    """Entries as the policy's lists have them; a call is meant that any of them names."""
    where: Mapping[str, Any] = {}
    """By argument, what its value must be like: a text, a list of texts of which one must match, or a value."""
    matches: tuple[Example, ...] = ()
    matches_not: tuple[Example, ...] = ()


def holds(where: Mapping[str, Any], args: Mapping[str, Any] | None, *, strict: bool) -> Holds:
    """Whether arguments are what a rule says; None stands for what is no call with arguments, or a command."""
    if not where:
        return Holds.YES
    if args is None:
        return Holds.MAYBE if strict else Holds.NO
    return min(_value_holds(wanted, args[name], strict) if name in args else Holds.NO for name, wanted in where.items())


def _value_holds(wanted: Any, value: Any, strict: bool) -> Holds:
    if isinstance(value, list | tuple):
        if not value:
            return Holds.NO
        return (max if strict else min)(_value_holds(wanted, one, strict) for one in value)
    unknown = Holds.MAYBE if strict else Holds.NO
    if isinstance(value, Mapping):
        return unknown
    if isinstance(value, str) and (len(value) > VALUE_MAX or "${" in value or any(named_secrets(value))):
        return unknown
    choices: Sequence[Any] = wanted if isinstance(wanted, list | tuple) else (wanted,)
    return Holds.YES if any(_is_like(one, value, strict) for one in choices) else Holds.NO


def _is_like(wanted: Any, value: Any, strict: bool) -> bool:
    if isinstance(wanted, str):
        if strict:
            return text_matches(_folded(wanted), _folded(_written(value)))
        return isinstance(value, str) and not _torn(wanted, value) and text_matches(wanted, value)
    return _written(wanted) == _written(value) if strict else type(wanted) is type(value) and wanted == value


def _written(value: Any) -> str:
    """A single value as a text: a server may take `"5"` for 5."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return msgspec.json.encode(value).decode()


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _torn(pattern: str, value: str) -> bool:
    """Whether a value has something in it that separates values, which the pattern does not have itself."""
    if "**" in pattern:
        return False
    return any((one in _SEPARATORS or not one.isprintable()) and one not in pattern for one in value)


def text_matches(pattern: str, value: str) -> bool:
    """Whether a text is one that a pattern means. Each part is taken as soon as it comes, so that nothing is tried
    twice."""
    first, *others = re.split(r"\*+", pattern)
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
