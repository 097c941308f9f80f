"""Expressions in CEL, `when` and custom conditions: which steps, data and parameters they ask for. The language itself
is behind `Expressions`. Every use of a step is written `steps["id"].output`, `.exit_code` or `.status`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from typing import Any, Protocol

import msgspec

from ordain.core.text.pattern import compile_later
from ordain.core.text.problem import closest

EXPRESSION_BYTES_MAX = 4096
VARIABLES = frozenset(["steps", "data", "params"])
"""What every expression can name; a repeated step adds its item and `index`."""
OWN_END = frozenset(["exit_code", "output"])
"""What the verification of a step can name besides: how the step itself ended."""
STEP_FIELDS = ("output", "exit_code", "status")
LOOPS = frozenset(["all", "exists", "exists_one", "map", "filter"])
"""Loops over a list or mapping, `list.all(item, …)`: the only work that can be repeated."""
_OWN_WORDS = frozenset(
    [
        "true", "false", "null", "in", "int", "uint", "double", "bool", "string", "bytes", "list", "map", "type",
        "dyn", "null_type", "google", "timestamp", "duration",
    ]
)  # fmt: skip


class ExpressionError(Exception):
    """An expression that gave neither true nor false, in words; it never counts as true."""


class Expressions(Protocol):
    """One expression language, whichever it is."""

    def check(self, expression: str, names: Set[str]) -> str | None:
        """What is wrong with an expression over these variables; None when it is good."""
        ...

    def evaluate(self, expression: str, variables: Mapping[str, Any]) -> bool:
        """Whether it is true of these values. Bounded in time and memory; raises ExpressionError in any other case."""
        ...

    def matches(self, pattern: str, text: str) -> bool:
        """Whether a pattern (RE2) matches a text somewhere, in linear time; raises ExpressionError for no pattern."""
        ...


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """What an expression names, and what is wrong with the way it does."""

    steps: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    params: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """Names that are neither of these, nor of the language, nor what the expression's own loops call their items."""
    statuses: tuple[str, ...] = ()
    faults: tuple[tuple[str, tuple[str, ...]], ...] = ()


_TOKEN = compile_later(
    r"""
    (?P<space> \s+ | //[^\n]* )
    | (?P<text> [bB]? [rR] (?: \"{3} .*? \"{3} | '{3} .*? '{3} | " [^"\n]* " | ' [^'\n]* ' )
              | [bB]? (?: \"{3} (?:[^\\]|\\.)*? \"{3} | '{3} (?:[^\\]|\\.)*? '{3}
                        | " (?:[^"\\\n]|\\.)* " | ' (?:[^'\\\n]|\\.)* ' ) )
    | (?P<name> [A-Za-z_][A-Za-z0-9_]* )
    | (?P<quoted> `[^`\n]*` )
    | (?P<number> [0-9][0-9A-Za-z_.]* )
    | (?P<mark> . )
    """,
    re.VERBOSE | re.DOTALL,
)

Token = tuple[str, str]
_END: Token = ("mark", "")


def tokens(expression: str) -> list[Token]:
    """(kind, text) of each token, white space and comments left out. Never fails; the language's own parser judges."""
    return [(found.lastgroup or "", found.group()) for found in _TOKEN.finditer(expression) if not found["space"]]


def named(expression: str) -> Named:
    """What an expression names of the plan. Too long a text names nothing; it is refused for its length."""
    if len(expression) > EXPRESSION_BYTES_MAX:
        return Named()
    line = tokens(expression)
    found: dict[str, list[str]] = {name: [] for name in (*VARIABLES, "others", "statuses")}
    faults: list[tuple[str, tuple[str, ...]]] = []
    known = _OWN_WORDS.union(items_of_loops(line))
    for at, (kind, name) in enumerate(line):
        if kind != "name" or _selected(line, at):
            continue
        if name in VARIABLES:
            key, after = _key(line, at + 1)
            if key is not None:
                found[name].append(key)
            if name == "steps":
                if key is not None and _key(line, after)[0] == "exit_code":
                    found["statuses"].append(key)
                faults += _step_faults(key, line, after)
        elif name not in known and line[at + 1 : at + 2] != [("mark", "(")]:
            found["others"].append(name)
    return Named(**{name: tuple(dict.fromkeys(keys)) for name, keys in found.items()}, faults=tuple(faults))


def items_of_loops(line: list[Token]) -> list[str]:
    """What the loops in an expression call their items, one name for each loop."""
    return [
        name[1]
        for dot, loop, opening, name in zip(line, line[1:], line[2:], line[3:], strict=False)
        if dot == ("mark", ".") and loop[1] in LOOPS and opening == ("mark", "(") and name[0] == "name"
    ]


def _step_faults(key: str | None, line: list[Token], after: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    if key is None:
        yield 'a step is named as in `steps["id"].output`', ()
        return
    field, _ = _key(line, after)
    if field not in STEP_FIELDS:
        there = ", ".join(f"`.{name}`" for name in STEP_FIELDS)
        yield f"of `{key}` there is {there}, and nothing else", closest(field or "", STEP_FIELDS)


def _selected(line: list[Token], at: int) -> bool:
    """Whether the name is a part of something before it, `x.name`; a dot with nothing before it is no selection."""
    if at == 0 or line[at - 1] != ("mark", "."):
        return False
    before = line[at - 2] if at >= 2 else _END
    return before != ("name", "in") and (before[0] != "mark" or before[1] in (")", "]", "}"))


def _key(line: list[Token], at: int) -> tuple[str | None, int]:
    """The literal key in `.key` or `["key"]` at a place, and the place behind it."""
    one, two, three = (line[at + offset] if at + offset < len(line) else _END for offset in range(3))
    if one == ("mark", ".") and two[0] in ("name", "quoted"):
        return two[1].strip("`"), at + 2
    if one == ("mark", "[") and two[0] == "text" and three == ("mark", "]"):
        return _plain(two[1]), at + 3
    return None, at


def _plain(text: str) -> str | None:
    """The content of a string literal that has no escapes in it."""
    found = re.fullmatch(r"""[rR]?("{3}|'{3}|"|')(.*)\1""", text, re.DOTALL)
    return found[2] if found and "\\" not in found[2] else None


def renamed(expression: str, names: Mapping[str, str]) -> str:
    """The expression with other ids for these steps; all else stays as it was written."""
    if len(expression) > EXPRESSION_BYTES_MAX:
        return expression
    found = [one for one in _TOKEN.finditer(expression) if not one["space"]]
    line = [(one.lastgroup or "", one.group()) for one in found]
    pieces, at = [], 0
    for number, token in enumerate(line):
        if token != ("name", "steps") or _selected(line, number):
            continue
        key, after = _key(line, number + 1)
        if key in names and key is not None:
            pieces += [expression[at : found[number + 1].start()], f'["{names[key]}"]']
            at = found[after - 1].end()
    return "".join([*pieces, expression[at:]])
