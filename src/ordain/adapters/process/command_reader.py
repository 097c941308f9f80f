"""Command lines understood: the table of programs from its files, ours and then the user's own, and the parser.

The user's own are in `programs/*.toml` beside the account's `config.toml`, wherever variables point: who starts a run
must not say that a program only reads.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import ordain
from ordain.adapters.process.program import untrusted_because
from ordain.adapters.process.shell_text import ShellText
from ordain.adapters.state.user_rules import account_home
from ordain.adapters.workspace.locate import read_regular
from ordain.core.policy.command_facts import FactReader
from ordain.core.policy.fact import LineFacts
from ordain.core.policy.program_table import ProgramTable, parse_entry
from ordain.core.text.problem import Problem, Refused

PROGRAMS = "programs"
_OURS = Path(ordain.__file__).parent / "data" / PROGRAMS


@cache
def line_reader(
    workspace: Path, stricter: tuple[tuple[str, tuple[str, ...]], ...], control: tuple[str, ...]
) -> Callable[[str], LineFacts]:
    """What reads command lines for a workspace, by facts that it adds and patterns of control files that it names."""
    texts = [path.read_text() for path in sorted(_OURS.glob("*.toml"))]
    table = ProgramTable((*texts, *_own_entries(workspace)), (_OURS.parent / "verbs.toml").read_text(), dict(stricter))
    shell = ShellText()
    return FactReader(table, lambda text: shell.scripts([text]).get(text), os.path.realpath(workspace), control).line


def _own_entries(workspace: Path) -> list[str]:
    home = account_home()
    place = Path(home, ".config", "ordain", PROGRAMS) if home is not None else None
    if place is None or not place.is_dir():
        return []
    found, problems = [], []
    for path in sorted(place.glob("*.toml")):
        if (fault := untrusted_because(path, workspace)) is None:
            try:
                found.append(read_regular(path).decode())
                for title, said in tomllib.loads(found[-1]).items():
                    fault = fault or _entry_fault(title, said)
            except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
                fault = f"cannot be read: {error}"
        if fault is not None:
            hint = "Correct that, or move the file away; nothing is read from it as it is."
            problems.append(Problem(code="E_CONFIG_USER", detail=f"Your own file {path} {fault}.", hints=(hint,)))
    if problems:
        raise Refused(problems)
    return found


def _entry_fault(title: str, said: object) -> str | None:
    try:
        parse_entry(said if isinstance(said, dict) else {"": ""})
        return None
    except (ValueError, AttributeError) as error:
        return f"has the entry `{title}`, which is none: {error}"
