"""Actions that are commands: what bash gets, and what a program gets with no shell between.

A call of the tool `shell` is a `run` step in other words; whoever judges, shows or carries out commands sees both
alike, through `command_of`. A call that does not fit its tool's parameters is no command: lint says what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ordain.core.action import CallTool, Custom, RunCommand
from ordain.core.model import Action
from ordain.core.tool import EXEC, SHELL, ToolDefinition, argument_faults, definition_of
from ordain.core.value import Value

__all__ = ["Program", "command_of", "command_text", "is_command", "program_of", "typed"]

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


class Program(Value, frozen=True):
    """A program and its arguments, handed over word by word."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = {}


def command_of(action: Action) -> RunCommand | None:
    """The command that bash gets, of a `run` step or of a call of `shell`."""
    if isinstance(action, RunCommand):
        return action
    args = _arguments(action, SHELL.name)
    return RunCommand(command=args["command"], env=args.get("env", {})) if args is not None else None


def program_of(action: Action) -> Program | None:
    """The program that a call of `exec` runs."""
    args = _arguments(action, EXEC.name)
    return Program(argv=tuple(args["argv"]), env=args.get("env", {})) if args is not None else None


def is_command(action: Action, tools: Mapping[str, ToolDefinition]) -> bool:
    """Whether the shell carries an action out."""
    if isinstance(action, Custom):
        handler = definition_of(action, tools)
        return handler is not None and bool(handler.command)
    return command_of(action) is not None or program_of(action) is not None


def command_text(action: Action) -> str | None:
    """What an action runs, as a person would type it; None where it is no command."""
    command, program = command_of(action), program_of(action)
    if command is not None:
        return command.command
    return typed(program.argv) if program is not None else None


def _arguments(action: Action, tool: str) -> Mapping[str, Any] | None:
    if not isinstance(action, CallTool) or action.tool != tool or action.operation is not None:
        return None
    definition = SHELL if tool == SHELL.name else EXEC
    return action.args if not argument_faults(definition, action.args) else None


def typed(argv: Sequence[str]) -> str:
    """Words as a person would type them into a shell."""
    return " ".join(word if _PLAIN.fullmatch(word) else "'" + word.replace("'", "'\"'\"'") + "'" for word in argv)
