"""From `[rules.NAME]` of `ordain.toml` to a rule: strict, with everything that is wrong with it. Whether its entries
mean anything here, and do what its examples say, is told where the tools are known (`core/lint/settings.py`)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ordain.core.plan.tool import COMMANDS, HANDLER, OWN_ACTION_KINDS, SHELL, unbearable
from ordain.core.policy.path_use import AGENT
from ordain.core.policy.rule import COMMAND_KEYS, RULE, CallRule, Example
from ordain.core.text.limit import INTEGER_MAX, string_fault
from ordain.core.text.problem import closest

ENTRIES_MAX = 100
"""Of one list in a rule."""
PATTERN_MAX = 500
_KEYS = ("tools", "where", "besides", "never", "matches", "matches_not")
_STARS = re.compile(r"\*+")

Fault = tuple[str, tuple[str, ...]]
"""What is wrong, beginning with the key, and hints."""


def read_rule(content: Mapping[str, Any]) -> tuple[CallRule, list[Fault]]:
    """The rule that a section says, and everything wrong with it."""
    faults: list[Fault] = [(f"{key} is no key of a rule", closest(key, _KEYS)) for key in content if key not in _KEYS]
    tools = tuple(_tools(content.get("tools"), faults))
    where = dict(_where(content.get("where", {}), faults))
    besides = tuple(_names("besides", content.get("besides", []), faults))
    never = tuple(_names("never", content.get("never", []), faults))
    matches, matches_not = (tuple(_examples(key, content.get(key, []), faults)) for key in _KEYS[4:])
    if where:
        whole = [entry for entry in tools if entry in COMMANDS]
        if whole and len(whole) < len(tools):
            detail = f"tools has {_listed(whole)} beside other tools, and where asks other things of commands"
            faults.append((detail, ("Make a rule of its own for commands.",)))
        for name in where if whole and len(whole) == len(tools) else ():
            if name not in COMMAND_KEYS:
                faults.append((f"where.{name} is nothing to ask of a command", closest(name, COMMAND_KEYS)))
        others = [one for one in tools if one in OWN_ACTION_KINDS or one.startswith((AGENT, HANDLER))]
        if others:
            faults.append((f"where is about arguments of calls, and tools has {_listed(others)}", ()))
        if never and len(whole) < len(tools):
            faults.append(("never is about the words of commands, and tools has something else", ()))
    elif besides or never:
        faults.append((f"{'besides' if besides else 'never'} says nothing without `where`", ()))
    if twice := [name for name in besides if name in where]:
        faults.append((f"besides names {_listed(twice)}, and so does where", ()))
    rule = CallRule(tools=tools, where=where, besides=besides, never=never, matches=matches, matches_not=matches_not)
    return rule, faults


def _listed(words: list[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _names(key: str, value: Any, faults: list[Fault]) -> Iterator[str]:
    if not isinstance(value, list) or len(value) > ENTRIES_MAX:
        faults.append((f"{key} must be a list of names, at most {ENTRIES_MAX}", ()))
        return
    for one in value:
        if isinstance(one, str) and one and string_fault(one) is None and len(one) <= PATTERN_MAX:
            yield one
        else:
            faults.append((f"{key} must be a list of names, and one of them is none", ()))


def _tools(value: Any, faults: list[Fault]) -> Iterator[str]:
    if value is None or value == []:
        faults.append(("tools must name what the rule is about", ('Such as tools = ["mail:send"].',)))
        return
    for entry in _names("tools", value, faults):
        if not entry.isascii():
            faults.append((f"tools names `{entry}`, which is no name", ()))
        elif entry.startswith(RULE):
            faults.append((f"tools names `{entry}`, and a rule is made of no others", ()))
        else:
            yield entry


# --- What arguments are like -----------------------------------------------------------------------------------------


def _where(value: Any, faults: list[Fault]) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict) or len(value) > ENTRIES_MAX:
        hint = 'Such as where = { to = "*@example.com" }.'
        faults.append(("where must be a section that says what arguments are like", (hint,)))
        return
    for name, wanted in value.items():
        each = wanted if isinstance(wanted, list) else [wanted]
        if not 0 < len(each) <= ENTRIES_MAX:
            faults.append((f"where.{name} must have something in its list, and at most {ENTRIES_MAX} of it", ()))
            continue
        wrong = [fault for one in each if (fault := _wanted_fault(one)) is not None]
        faults += [(f"where.{name} {fault}", hints) for fault, hints in wrong]
        if not wrong:
            yield name, tuple(each) if isinstance(wanted, list) else wanted


def _wanted_fault(one: Any) -> Fault | None:
    if not isinstance(one, str):
        number = isinstance(one, int | float) and math.isfinite(one) and abs(one) <= INTEGER_MAX
        return None if number else ("must be a text, a number, true, false, or a list of these", ())
    if not one or len(one) > PATTERN_MAX:
        return f"must be a text of 1 to {PATTERN_MAX} characters", ()
    if fault := string_fault(one):
        return f"cannot be such a text: {fault[1].removesuffix('.')}", ()
    stars = {len(found) > 1 for found in _STARS.findall(one)}
    if not _STARS.sub("", one):
        return "is like every text", ("Name the argument in `besides` if it may be anything.",)
    if len(stars) > 1:
        return "has both `*` and `**`", ("`*` stands for a part without separators, `**` for anything; take one.",)
    return None


# --- Examples --------------------------------------------------------------------------------------------------------


def _examples(key: str, value: Any, faults: list[Fault]) -> Iterator[Example]:
    if not isinstance(value, list) or len(value) > ENTRIES_MAX:
        faults.append((f"{key} must be a list of calls, at most {ENTRIES_MAX}", (_SUCH_AS,)))
        return
    for number, one in enumerate(value, 1):
        example = _example(one)
        if isinstance(example, Example):
            yield example
        else:
            faults.append((f"{key}, call {number}, {example}", (_SUCH_AS,)))


_SUCH_AS = """Such as 'mail:send {"to": "kim@example.com"}', or { tool = "mail:send", args = { to = "…" } }."""


def _example(value: Any) -> Example | str:
    if isinstance(value, str):
        if value.startswith("$ "):
            return Example(tool=SHELL.name, args={"command": value[2:]})
        tool, _, written = value.strip().partition(" ")
        args = _read_args(written) if written.strip() else {}
        if isinstance(args, str):
            return args
    elif isinstance(value, dict) and value.keys() <= {"tool", "args"} and isinstance(value.get("tool"), str):
        tool, args = value["tool"], value.get("args", {})
    else:
        return "must be a text, or a section of `tool` and `args`"
    if not tool or not tool.isascii() or not tool.isprintable():
        return "names no tool"
    if not isinstance(args, dict) or unbearable(args) or not _is_json(args):
        return "has arguments that no call has"
    return Example(tool=tool, args=args)


def _read_args(written: str) -> dict[str, Any] | str:
    from ordain.documents.json import read_json  # only people who write examples this way need it

    read = read_json(written)
    if read.problems:
        return f"cannot be read: {read.problems[0].detail.removesuffix('.')}"
    return read.value if isinstance(read.value, dict) else "has arguments that are no JSON object"


def _is_json(value: Any) -> bool:
    """TOML has dates and more numbers than JSON."""
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, dict | list):
            todo += one.values() if isinstance(one, dict) else one
        elif isinstance(one, str):
            if string_fault(one) is not None:
                return False
        elif not isinstance(one, int | float) or not math.isfinite(one) or abs(one) > INTEGER_MAX:
            return False
    return True
