"""What rules would open of what was seen, as lines for ordain.toml; and where none would, why.

A draft for a person to read, one for each tool, as narrow as what was seen. Nothing is suggested to be opened that is
destructive, denied, opaque or a command, that nobody knows, or that is never open.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Literal

import msgspec

from ordain.core.guard.call import Call
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import COMMANDS, ToolDefinition
from ordain.core.policy.path_use import PATH
from ordain.core.policy.rule import RULE
from ordain.core.text.path import path_fault, pattern_fault
from ordain.core.text.pattern import WILD

OFTEN_CALLS = 5
"""From how many calls on a tool counts as called often."""
SHARE = 0.5
"""What part of a tool's calls a rule must let through to be worth suggesting."""
_VALUE_MAX = 80
_SINGLE = (str, int, float, bool)

_READING = re.compile(r"(?:get|list|read|search|find|show|describe|count|lookup|view|check|status)(?:[_\-A-Z]|$)")
"""How the names of operations begin that sound as if they only read."""
_AND_MORE = re.compile(r"(?:[_\-](?:and|or|then|in|out|write)|(?:And|Or|Then|In|Out|Write))(?:[_\-A-Z]|$)")
"""What makes them sound as if that is not all: `find_and_replace`, `getOrCreate`, `check_out`."""
_ADDRESS = re.compile(r"[\w.+~-]+(@[\w-]+(?:\.[\w-]+)+)", re.ASCII)
_HIDDEN = re.compile(r"\$\{|\[redacted")
_CUT = "…"
"""In place of the arguments that were not noted: a rule that lets through names none that is called so."""


class Suggestion(msgspec.Struct, frozen=True, kw_only=True):
    """What could be said of a tool, and what that would change."""

    kind: Literal["open", "path", "rule", "effects"]
    """To open it, to open paths, to open calls that a rule means, or to say that it reads."""
    tool: str
    program: str = ""
    """The program, where it is about commands of one."""
    entry: str
    """What `[guard] open` would have; empty where what it has is enough."""
    toml: str
    """The table that goes with it; empty where there is none."""
    lets_through: int
    """How many of the calls that were seen need no plan then."""
    of: int
    why: str


class Unsuggested(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of which nothing is suggested."""

    tool: str
    calls: int
    why: str


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of which the same was noted, and how the rules of today stand to them."""

    args: Mapping[str, Any]
    whole: bool
    """Whether these are all arguments that there were."""
    refused: bool
    count: int
    why: str = ""
    by_default: bool = False

    def call(self, tool: str, definition: ToolDefinition | None, kept: bool) -> Call:
        """The call, as far as it is known. Arguments that are not are none that a rule lets through."""
        args = self.args if self.whole else {**self.args, _CUT: ""}
        return Call(tool=tool, args=args, definition=definition, kept="is never open" if kept else "")


class Today(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that was seen, as the rules of today stand to it."""

    definition: ToolDefinition | None
    left: tuple[Made, ...]
    """The calls that still need a plan."""
    open_now: int
    was_denied: bool


def beginning(about: str) -> tuple[dict[str, Any], bool]:
    """The arguments that can be read of what was noted of a call, and whether they are all that there were."""
    decoder, found, at = json.JSONDecoder(), dict[str, Any](), 1
    try:
        whole = json.loads(about)
        return (whole, not _HIDDEN.search(about)) if isinstance(whole, dict) else ({}, False)
    except (ValueError, RecursionError):
        pass
    try:  # it was cut: what stands before that is as it was written
        while True:
            key, at = decoder.raw_decode(about, at)
            value, end = decoder.raw_decode(about, at + 2)
            if not isinstance(key, str) or about[at : at + 2] != ": " or about[end : end + 2] != ", ":
                return found, False
            found[key], at = value, end + 2
    except (ValueError, RecursionError):
        return found, False


def suggested(name: str, today: Today, opened: Sequence[str]) -> Suggestion | Unsuggested:
    """What could be opened of a tool's calls; at most one thing, and nothing that somebody has named as guarded."""
    server, _, operation = name.partition(":")
    calls, tool = sum(one.count for one in today.left), today.definition
    openable = [one for one in today.left if one.by_default]
    through = sum(one.count for one in openable)
    reads = f"[tools.{_key(server)}.effects]\n{_key(operation)} = {toml_text(EffectClass.READS.value)}"
    if server in COMMANDS:
        why = "Commands are opened by `shell:reads` or a rule on facts; `ordain guard check` says what each does."
    elif today.was_denied:
        why = "It was denied."
    elif tool is None:
        why = "Nobody here knows it. Only its own name would open it."
    elif not openable:
        why = f"It {today.left[0].why}."
    elif tool.effect is EffectClass.OPAQUE and _READING.match(operation) and not _AND_MORE.search(operation):
        through = through if EffectClass.READS in opened else 0
        why = "It sounds as if it only reads. Nobody here knows: look at what the server does first."
        return Suggestion(kind="effects", tool=name, entry="", toml=reads, lets_through=through, of=calls, why=why)
    elif tool.effect is EffectClass.OPAQUE:
        how = f"If it only reads, say so: {reads.replace(chr(10), ' ')}. " if operation else ""
        why = f"Nobody said what it does. {how}Else open some of its calls by a rule, if any."
        why += _in_common(openable, calls)
    elif tool.destructive:
        why = "It is destructive. Open some of its calls by a rule, if any." + _in_common(openable, calls)
    elif tool.effect is EffectClass.READS:
        why = "It only reads: `reads` in `[guard] open` would open it."
    else:
        why = f"It is {tool.effect.value} and not destructive. This opens it with any arguments."
        whole = Suggestion(kind="open", tool=name, entry=name, toml="", lets_through=through, of=calls, why=why)
        return _of_paths(name, tool, openable, calls) or _narrow(name, openable, calls) or whole
    return Unsuggested(tool=name, calls=calls, why=why)


def _of_paths(name: str, tool: ToolDefinition, calls: Sequence[Made], of: int) -> Suggestion | None:
    """The one path, or the directory that all paths lie in which the calls name."""
    paths: set[str] = set()
    through = 0
    for one in calls:
        named = [one.args.get(parameter.name) for parameter in tool.parameters if parameter.path]
        plain = [path for path in named if isinstance(path, str) and _plain(path)]
        if named and len(plain) == len(named):
            paths.update(plain)
            through += one.count
    parts = [path.split("/")[:-1] for path in paths]
    common = [at[0] for at in takewhile(lambda at: len(set(at)) == 1, zip(*parts, strict=False))]
    text = next(iter(paths)) if len(paths) == 1 else "/".join([*common, "**"])
    if not paths or text == "**" or pattern_fault(text) is not None:
        return None
    why = "This opens what file tools do there that is not destructive, whatever is written."
    return Suggestion(kind="path", tool=name, entry=f"{PATH}{text}", toml="", lets_through=through, of=of, why=why)


def _plain(path: str) -> bool:
    known = path_fault(path, writes=True) is None and WILD.isdisjoint(path) and not _HIDDEN.search(path)
    return known and all(part not in ("", ".") for part in path.split("/"))


def _narrow(name: str, calls: Sequence[Made], of: int) -> Suggestion | None:
    """A rule for the calls that have one argument in common, where those are many."""
    whole = [one for one in calls if one.whole and all(isinstance(value, _SINGLE) for value in one.args.values())]
    (key, wanted), count = _commonest(whole)
    if count < _least(of):
        return None
    alike = [one.args for one in whole if wanted in _likes(one.args.get(key))]
    others = [one.args for one in whole if wanted not in _likes(one.args.get(key))]
    besides = sorted({name for args in alike for name in args} - {key})
    rule = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")
    return Suggestion(
        kind="rule",
        tool=name,
        entry=f"{RULE}{rule}",
        toml=f"[rules.{_key(rule)}]\ntools = {inline_list([name])}\nwhere = {_inline({key: wanted})}\n"
        + (f"besides = {inline_list(besides)}\n" if besides else "")
        + f"matches = [{_example(name, alike[0])}]"
        + (f"\nmatches_not = [{_example(name, others[0])}]" if others else ""),
        lets_through=count,
        of=of,
        why=f"{'Most' if count < of else 'All'} of its calls have {'such a' if '*' in wanted else 'the same'} `{key}`."
        + (f" It leaves free, whatever they are: {', '.join(f'`{one}`' for one in besides)}." if besides else ""),
    )


def _in_common(calls: Sequence[Made], of: int) -> str:
    """What a rule could be about, as a sentence; empty where calls have too little in common."""
    (key, wanted), count = _commonest(calls)
    return f" {count} of {of} calls have `{key}` like `{wanted}`." if count >= _least(of) else ""


def _least(of: int) -> float:
    return max(OFTEN_CALLS, SHARE * of)


def _commonest(calls: Sequence[Made]) -> tuple[tuple[str, str], int]:
    """The argument and the value that most calls have; or the end of an address, where still more have that."""
    values: Counter[tuple[str, str]] = Counter()
    for one in calls:
        for key, value in one.args.items():
            values.update(dict.fromkeys(((key, like) for like in _likes(value)), one.count))
    return values.most_common(1)[0] if values else (("", ""), 0)


def _likes(value: Any) -> Iterator[str]:
    """What a value is like: itself, and where it is an address all of that place; nothing where it is no short text."""
    if isinstance(value, str) and value and len(value) <= _VALUE_MAX and "*" not in value:
        yield value
        if found := _ADDRESS.fullmatch(value):
            yield f"*{found[1]}"


# --- As lines --------------------------------------------------------------------------------------------------------


def together(suggestions: Sequence[Suggestion], opened: Sequence[str]) -> str:
    """All of them, as lines for ordain.toml, in which `[guard] open` has what it has now."""
    entries = [one.entry for one in suggestions if one.entry]
    opening = [f"open = {inline_list(list(dict.fromkeys([*opened, *entries])))}"]
    tables: dict[str, list[str]] = {"[guard]": opening} if entries else {}
    for head, *lines in (one.toml.split("\n") for one in suggestions if one.toml):
        tables.setdefault(head, []).extend(lines)
    return "\n\n".join("\n".join([head, *lines]) for head, lines in tables.items())


def _example(tool: str, args: Mapping[str, Any]) -> str:
    return f"{{ tool = {toml_text(tool)}, args = {_inline(args)} }}"


def inline_list(entries: Sequence[str]) -> str:
    return f"[{', '.join(map(toml_text, entries))}]"


def _inline(value: Mapping[str, Any]) -> str:
    return f"{{ {', '.join(f'{_key(key)} = {toml_text(one)}' for key, one in value.items())} }}"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_text(name)


def toml_text(value: str | float | bool) -> str:
    """A value as JSON has it, with whatever cannot be seen written out: an agent said it, and a person reads it."""
    written = json.dumps(value, ensure_ascii=False)
    return "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in written)
