"""Values that came from other steps, made to fit where they are put, or refused there.

A variable of a command and an argument of a program are text; what a tool takes is of the kind that it says. Nothing is
begun with a value that does not fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ordain.core.action import CallTool
from ordain.core.model import Action
from ordain.core.refs import literal
from ordain.core.resolve import as_text, as_variable, escaped
from ordain.core.result import Missing
from ordain.core.tool import COMMANDS, ToolDefinition, argument_faults, definition_of

__all__ = ["Unfit", "fitted"]


class Unfit(Missing):
    """What is referred to is there and cannot be put where the reference stands, in words."""


def fitted(action: Action, tools: Mapping[str, ToolDefinition]) -> Action:
    """An action whose references were put in, with every value of the type that its place wants; raises Unfit."""
    if not isinstance(action, CallTool):
        return action
    tool = COMMANDS.get(action.tool) or definition_of(action, tools)
    if action.tool in COMMANDS:
        action = replace(action, args=_of_command(action.args))
    faults = argument_faults(tool, action.args) if tool is not None else []
    if faults:
        raise Unfit(faults[0][0].removesuffix("."))
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
