"""By which name the work of a step is counted, and which program was missing where one was.

A name is taken from what is plainly written: nothing is parsed as bash would, so a name here is a label, never a
reason for anything.
"""

from __future__ import annotations

import re

from ordain.core.action import CallTool
from ordain.core.command import command_of, program_of
from ordain.core.lint.script import RESERVED
from ordain.core.model import Action
from ordain.core.tool import action_kind

__all__ = ["COULD_NOT_RUN", "could_not_start", "kind_of", "missing_program"]

COULD_NOT_RUN = (126, 127)
"""What a shell exits with where a program cannot be run, or is not there."""

_BEFORE = r"\s*(?:(?:cd|set)\s+[^\s;&|]+\s*(?:&&|;|\n)\s*|[A-Za-z_][A-Za-z0-9_]*=[^\s'\"$`();|&<>]*\s+)*"
"""Where to go, options of the shell, variables: what stands before the first program and is none."""
_FIRST_WORD = re.compile(_BEFORE + r"([A-Za-z0-9_.+@/:\[-]+)(?=[\s;|&<>)]|$)")
_NOT_FOUND = re.compile(
    r"(?:^|[:/]\s|\s)['\"`‘]?([^\s:'\"`’‘]+)['\"`’]?: "
    r"(?:command not found|not found|No such file or directory|Permission denied|cannot execute[^\n]*)\s*$",
    re.MULTILINE,
)


def kind_of(action: Action) -> str:
    """What an action counts as: the first program of a command, `shell` where that is not plainly written, the tool of
    a call, the kind of any other."""
    command, program = command_of(action), program_of(action)
    if command is not None:
        found = _FIRST_WORD.match(command.command)
        return _base(found[1]) if found is not None and found[1] not in RESERVED else "shell"
    if program is not None:
        return _base(program.argv[0])
    return action.tool if isinstance(action, CallTool) else action_kind(action)


def _base(program: str) -> str:
    return program.rstrip("/").rpartition("/")[2] or program


def could_not_start(detail: str) -> bool:
    """Whether a program that is run without a shell was not there, or is none, by what the system said."""
    return detail.startswith(("could not be started: [Errno 2]", "could not be started: [Errno 13]"))


def missing_program(output: str, action: Action | None) -> str | None:
    """The program that could not be run, by what was written about it last, or because the action runs no other."""
    said = _NOT_FOUND.findall(output)
    if said:
        return str(said[-1])
    program = program_of(action) if action is not None else None
    return program.argv[0] if program is not None else None
