"""The workspace as a real directory: which one it is, its configuration, and what lint wants to know about it."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping
from itertools import takewhile
from pathlib import Path

from ordain.adapters.shell_text import ShellText
from ordain.core.bound import DOCUMENT_BYTES_MAX
from ordain.core.environment import holds_secret
from ordain.core.lint.facts import Facts
from ordain.core.lint.paths import path_fault, pattern_fault, wanted_files
from ordain.core.lint.script import Script, plain_script, programs
from ordain.core.lint.survey import Survey
from ordain.core.model import Plan
from ordain.core.pattern import Pattern, normal
from ordain.core.problem import refuse
from ordain.core.settings import Settings
from ordain.core.tool import ToolDefinition
from ordain.documents.configuration import CONFIGURATION_FILE

__all__ = ["DirectoryWorkspace", "find_workspace", "real_directory"]

ENTRIES_MAX = 100_000
"""How many files and directories are looked at for one pattern."""


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
        self._shell_text = ShellText()

    def identity(self) -> tuple[str, int, int]:
        real = os.path.realpath(self._path)
        found = Path(real).stat()
        return real, found.st_dev, found.st_ino

    def configuration(self) -> bytes | None:
        try:
            return _read_regular(self._path / CONFIGURATION_FILE)
        except FileNotFoundError:
            return None
        except OSError as error:
            reason = os.strerror(error.errno or 0).lower()
            raise refuse("E_CONFIG", f"{CONFIGURATION_FILE} cannot be read: {reason}.") from error

    def document(self, path: str) -> bytes | None:
        try:
            return _read_regular(self._path / path)
        except OSError:
            return None

    def files(self, pattern: str) -> tuple[str, ...]:
        wanted = normal(pattern)
        if pattern_fault(pattern) is not None or not wanted:
            return ()
        found = Pattern(wanted)
        # A name that is not UTF-8 can stand in no plan.
        return tuple(
            sorted(
                name
                for name in _files(self._path, wanted)
                if found.matches(name) and path_fault(name) is None and name.isprintable()
            )
        )

    def facts(
        self, plan: Plan, tools: Mapping[str, ToolDefinition], settings: Settings, workspace_id: str | None
    ) -> Facts:
        survey = Survey(plan)
        contracts = dict.fromkeys(contract.command for _, contract in survey.contracts)
        commands = dict.fromkeys(action.command for _, action in survey.commands)
        scripts, faults, programs = self._texts(contracts, commands)
        read = frozenset(text for text in contracts if text in scripts or text in faults or plain_script(text))
        wanted = wanted_files(survey, tools)
        return Facts(
            tools=tools,
            settings=settings,
            shell_faults=faults,
            scripts=scripts,
            unread=frozenset(contracts) - read,
            expression_faults=self._expression_faults(survey),
            missing_programs=frozenset(name for name in programs if not self._installed(name)),
            missing_files=frozenset(path for path in wanted if not self._there(path)),
            secrets={name: value for name, value in os.environ.items() if holds_secret(name, value)},
            tier=self._tier,
            workspace_id=workspace_id,
        )

    def _texts(
        self, contracts: Collection[str], commands: Collection[str]
    ) -> tuple[dict[str, Script], dict[str, str], set[str]]:
        """The texts taken apart, except plain words; what is wrong with them; and the programs that contracts start."""
        scripts: dict[str, Script] = {}
        faults: dict[str, str] = {}
        programs_started: set[str] = set()
        for text in (*contracts, *(text for text in commands if text not in contracts)):
            script, fault = self._shell_text.read(text)
            if fault is not None:
                faults[text] = fault
            elif script is not None and text in contracts:
                programs_started.update(programs(script))
                if plain_script(text) is None:
                    scripts[text] = script
        return scripts, faults, programs_started

    def _expression_faults(self, survey: Survey) -> dict[tuple[str, frozenset[str]], str]:
        if not survey.asked:
            return {}
        from ordain.adapters.cel import Cel  # few plans have expressions

        expressions = Cel()
        wanted = {(asked.expression, asked.names) for asked in survey.asked}
        return {one: fault for one in wanted if (fault := expressions.check(*one)) is not None}

    def _there(self, path: str) -> bool:
        try:
            return (self._path / path).exists()
        except (OSError, ValueError):  # not to be looked at, or no name that a file could have
            return False

    def _installed(self, program: str) -> bool:
        try:
            if "/" in program:
                return os.access(self._path / program, os.X_OK)
            return shutil.which(program) is not None
        except ValueError:  # no name that a file could have
            return False


def _read_regular(path: Path) -> bytes:
    """The content of a regular file of bearable size; a pipe or device in its place must not hold us up."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return file.read(DOCUMENT_BYTES_MAX + 1)


def _files(root: Path, pattern: str) -> Iterator[str]:
    """The regular files that a pattern could mean, by their paths beneath the root. No link is followed, and nothing of
    git's or ours is looked at; raises Refused where there is more to see than anybody should wait for."""
    parts = pattern.split("/")
    plain = list(takewhile(lambda part: not set(part) & set("*?"), parts[:-1]))
    if any((root / Path(*plain[:depth])).is_symlink() for depth in range(1, len(plain) + 1)):
        return
    depth_max = None if "**" in pattern else len(parts)
    todo = [("".join(f"{part}/" for part in plain), len(plain) + 1)]
    seen = 0
    while todo:
        above, depth = todo.pop()
        try:
            entries = os.scandir(root / above)
        except (OSError, ValueError):  # not there, not to be looked at, or no name that a file could have
            continue
        with entries:
            for entry in entries:
                seen += 1
                if seen > ENTRIES_MAX:
                    hint = "Begin the pattern with the directory that is meant: `src/**/*.py`."
                    raise refuse("E_PARAM", f"`{pattern}` looks at more than {ENTRIES_MAX:,} files.", hint)
                if entry.is_file(follow_symlinks=False):
                    yield above + entry.name
                elif entry.name in (".git", ".ordain") or depth == depth_max:
                    continue
                elif entry.is_dir(follow_symlinks=False):
                    todo.append((f"{above}{entry.name}/", depth + 1))
