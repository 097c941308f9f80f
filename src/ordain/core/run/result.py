"""What a step gave, as a value that other steps can refer to."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from ordain.core.plan.action import CallTool
from ordain.core.plan.canonical import canonical_bytes
from ordain.core.plan.command import command_text
from ordain.core.plan.graph import links, stores_of
from ordain.core.plan.model import Action, Plan, Step
from ordain.core.plan.refs import (
    Reference,
    StepOutput,
    StoredData,
    Unreadable,
    as_text,
    as_variable,
    escaped,
    literal,
    parse,
    part,
)
from ordain.core.plan.tool import COMMANDS, ToolDefinition, argument_faults, definition_of
from ordain.core.policy.program import may_be_options
from ordain.core.run.step_event import Outcome

# --- Result ----------------------------------------------------------------------------------------------------------

DEPTH_MAX = 100


class Missing(Exception):
    """There is nothing to refer to, in words that follow on "it"."""


def decoded(outcome: Outcome, data: bytes, action: Action) -> Any:
    """The value of an output; raises Missing where the bytes are not text, or not the JSON of a value."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise Missing("gave bytes that are no text (UTF-8)") from None
    if outcome.output_json:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise Missing("gave a value that cannot be read, or is nested too deep") from None
    commanded = command_text(action) is not None or outcome.exit_code is not None  # a handler may be a command
    return text.rstrip("\n") if commanded else text


def part_of(value: Any, path: tuple[str | int, ...]) -> Any:
    """The part of a value that a path leads to; of a text where that is JSON. Raises Missing."""
    if path and isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise Missing("gave a text that is not JSON, which has no parts") from None
    try:
        found = part(value, path)
    except (LookupError, TypeError):
        spelt = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
        raise Missing(f"has no part {spelt}") from None
    _refuse_odd(found)
    return found


def _refuse_odd(value: Any) -> None:
    """Raise Missing for a value that cannot be handed on: what a command writes is not ours to trust."""
    todo = [(value, 0)]
    while todo:
        one, depth = todo.pop()
        if depth > DEPTH_MAX:
            raise Missing(f"gave a value that is nested more than {DEPTH_MAX} deep")
        if isinstance(one, str):
            if not one.isascii() and any("\ud800" <= letter <= "\udfff" for letter in one):
                raise Missing("gave a text with half a character in it")
        elif isinstance(one, float):
            if not math.isfinite(one):
                raise Missing(f"gave {one}, which is no number")
        elif isinstance(one, Mapping):
            todo += [(inner, depth + 1) for pair in one.items() for inner in pair]
        elif isinstance(one, list | tuple):
            todo += [(inner, depth + 1) for inner in one]


def items_in(value: Any) -> list[Any]:
    """The items of a list, of a text that is a JSON list, or else one a line; raises Missing for anything else."""
    if isinstance(value, str):
        try:
            found = json.loads(value) if value.lstrip().startswith("[") else None
        except (ValueError, RecursionError):
            found = None
        _refuse_odd(found)
        return found if isinstance(found, list) else [line for line in value.splitlines() if line.strip()]
    if not isinstance(value, list | tuple):
        kind = "a mapping" if isinstance(value, Mapping) else f"`{json.dumps(value)}`"
        raise Missing(f"gave {kind} where a list is wanted")
    return list(value)


def referred_to(plan: Plan) -> frozenset[str]:
    """The steps of a plan whose results others refer to or ask about."""
    stores = stores_of(plan)
    return frozenset(link.target for step in (*plan.steps, *plan.fallbacks) for link in links(step, stores))


def outputs_used(step: Step, plan: Plan) -> Iterator[str]:
    """The steps of a plan whose outputs a step puts in, reads or may ask about; not those whose end is all it wants."""
    for link in links(step, stores_of(plan)):
        match parse(link.text):
            case Reference(source=StepOutput() | StoredData()):
                yield link.target
            case Unreadable() if link.text.startswith(("step:", "data.")):
                yield link.target
            case Unreadable() if link.code == "E_EXPR" and b".output" in canonical_bytes(step):
                yield link.target
            case _:
                pass


# --- Fit -------------------------------------------------------------------------------------------------------------
# Values that came from other steps, made to fit where they are put: nothing is begun with one that does not fit.


class Unfit(Missing):
    """What is referred to is there and cannot be put where the reference stands, in words."""


def fitted(written: Action, action: Action, tools: Mapping[str, ToolDefinition], item: str = "item") -> Action:
    """An action whose references were put in, with every value of the type that its place wants; raises Unfit."""
    if not isinstance(action, CallTool) or not isinstance(written, CallTool):
        return action
    tool = COMMANDS.get(action.tool) or definition_of(action, tools)
    if action.tool in COMMANDS:
        action = replace(action, args=_of_command(action.args))
    faults = argument_faults(tool, action.args) if tool is not None else []
    if faults:
        raise Unfit(faults[0][0].removesuffix("."))
    for at in may_be_options(written, item):
        if action.args["argv"][at].startswith("-"):
            raise Unfit(f"`argv[{at}]` would begin with `-`, and its program would take it for an option")
    return action


def _of_command(args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `shell` or `exec`, variables and words as text."""
    made = dict(args)
    if isinstance(env := args.get("env"), Mapping):
        made["env"] = {name: escaped(as_variable(literal(value))) for name, value in env.items()}
    if isinstance(argv := args.get("argv"), list | tuple):
        made["argv"] = [_word(value, at) for at, value in enumerate(argv)]
    return made


def _word(value: Any, at: int) -> str:
    if value is None or isinstance(value, list | tuple | Mapping):
        kind = "nothing" if value is None else "a mapping" if isinstance(value, Mapping) else "a list"
        raise Unfit(f"`argv[{at}]` would be {kind}, and an argument is one text or number")
    text = as_text(value)
    if "\0" in text:
        raise Unfit(f"`argv[{at}]` would hold a NUL, which no argument can")
    return text
