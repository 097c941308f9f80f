"""The workspace as a real directory: which one it is, its configuration, and what lint wants to know about it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from ordain.core.action import RunCommand
from ordain.core.lint.facts import Facts
from ordain.core.model import Plan, all_steps, contract_of
from ordain.core.problem import refuse
from ordain.core.tool import ToolDefinition
from ordain.documents.configuration import CONFIGURATION_FILE

__all__ = ["DirectoryWorkspace", "find_workspace", "real_directory"]

_PLAIN = re.compile(r"[A-Za-z0-9_./,:=@%+ -]*")
_RESERVED = frozenset(
    [
        "if",
        "then",
        "else",
        "elif",
        "fi",
        "for",
        "while",
        "until",
        "do",
        "done",
        "case",
        "esac",
        "select",
        "function",
        "in",
        "time",
        "{",
        "}",
        "[[",
        "]]",
        "coproc",
        "!",
    ]
)
_BUILTINS = frozenset(
    [
        "[",
        "test",
        ":",
        ".",
        "source",
        "true",
        "false",
        "echo",
        "printf",
        "cd",
        "pwd",
        "read",
        "exit",
        "export",
        "set",
        "unset",
        "shift",
        "eval",
        "exec",
        "command",
        "type",
        "let",
        "local",
        "declare",
        "return",
        "trap",
        "wait",
        "kill",
        "ulimit",
        "umask",
        "getopts",
        "hash",
        "builtin",
        "mapfile",
        "readarray",
    ]
)


def find_workspace(start: Path) -> Path:
    """The nearest directory at or above `start` that holds ordain.toml, .ordain or .git; else `start` itself."""
    start = real_directory(start)
    for candidate in (start, *start.parents):
        if any((candidate / name).exists() for name in (CONFIGURATION_FILE, ".ordain", ".git")):
            return candidate
    return start


def real_directory(path: Path) -> Path:
    """Where this really is; raises Refused when it is not there (any more) or not a directory."""
    try:
        real = Path(os.path.realpath(path))
        if real.is_dir():
            return real
    except OSError:
        pass
    raise refuse("E_WORKSPACE", f"{path} is not a directory, or not there any more.")


class DirectoryWorkspace:
    """ports.Workspace on the file system."""

    def __init__(self, path: Path, tier: int) -> None:
        self._path = path
        self._tier = tier

    def identity(self) -> tuple[str, int, int]:
        real = os.path.realpath(self._path)
        found = Path(real).stat()
        return real, found.st_dev, found.st_ino

    def configuration(self) -> bytes | None:
        try:
            return (self._path / CONFIGURATION_FILE).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            reason = os.strerror(error.errno or 0).lower()
            raise refuse("E_CONFIG", f"{CONFIGURATION_FILE} cannot be read: {reason}.") from error

    def document(self, path: str) -> bytes | None:
        try:
            return (self._path / path).read_bytes()
        except OSError:
            return None

    def facts(self, plan: Plan, tools: Mapping[str, ToolDefinition], workspace_id: str | None) -> Facts:
        steps = list(all_steps(plan))
        contracts = [contract.command for step in steps if (contract := contract_of(step)) is not None]
        commands = [step.action.command for step in steps if isinstance(step.action, RunCommand)]
        faults = {text: fault for text in {*contracts, *commands} if (fault := _syntax_fault(text))}
        missing = {
            text: program
            for text in contracts
            if text not in faults and (program := _first_program(text)) and not _installed(program, self._path)
        }
        return Facts(
            tools=tools, shell_faults=faults, missing_programs=missing, tier=self._tier, workspace_id=workspace_id
        )


def _syntax_fault(text: str) -> str | None:
    """What bash says is wrong with a command, without running it. Plain words need no process to be sure of."""
    if _PLAIN.fullmatch(text) and not _RESERVED & set(text.split()):
        return None
    bash = shutil.which("bash")
    if bash is None:
        return None
    try:
        done = subprocess.run(
            [bash, "--noprofile", "--norc", "-n"],
            input=text.encode("utf-8", "surrogateescape"),
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
            capture_output=True,
            timeout=10,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "bash took too long to read it"
    messages = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    if done.returncode == 0 and not messages:
        return None
    return re.sub(r"^.*?(line \d+: )", r"\1", messages[0]) if messages else f"exit status {done.returncode}"


def _first_program(text: str) -> str | None:
    """The program a command begins with, where that can be told from its first words."""
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        return None
    for word in _past_assignments(words):
        plain = re.fullmatch(r"[A-Za-z0-9_./+-]+", word)
        return word if plain and word not in _BUILTINS and word not in _RESERVED else None
    return None


def _past_assignments(words: list[str]) -> Iterator[str]:
    for word in words:
        if word != "!" and not re.match(r"[A-Za-z_][A-Za-z0-9_]*=", word):
            yield word


def _installed(program: str, workspace: Path) -> bool:
    if "/" in program:
        # A path in the workspace may be made by an earlier step; only an absolute one can be told now.
        return not program.startswith("/") or os.access(program, os.X_OK)
    return shutil.which(program) is not None
