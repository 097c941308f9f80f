"""The workspace as a real directory: which one it is, its configuration, and what lint wants to know about it."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from pathlib import Path

from ordain.adapters.process.shell_text import ShellText
from ordain.adapters.tools.cel import Cel
from ordain.adapters.workspace import openat
from ordain.adapters.workspace.locate import configuration, git_head, read_regular
from ordain.adapters.workspace.operand import PatternLook, contents, operand_path, operand_pattern
from ordain.adapters.workspace.secret import KnownSecrets
from ordain.core.lint.path import edits, handed_files, wanted_files, written_places
from ordain.core.lint.program import started_by, wanted_words
from ordain.core.lint.survey import Facts, Survey
from ordain.core.plan.command import program_of
from ordain.core.plan.expr import ExpressionError
from ordain.core.plan.model import Plan
from ordain.core.plan.role import Schema, value_with
from ordain.core.plan.tool import ToolDefinition
from ordain.core.policy.path_use import spelt_path
from ordain.core.policy.script import Script, plain_script, programs
from ordain.core.policy.settings import Settings, secret_variables
from ordain.core.text.control import CONFIGURATION_FILE, folded, folded_pattern
from ordain.core.text.path import (
    COMPARED_MAX,
    handed_fault,
    holds_secrets,
    is_kept,
    is_pattern,
    path_fault,
    pattern_fault,
)
from ordain.core.text.pattern import WILD, PathPattern, normal, plain_part
from ordain.core.text.problem import Refused, refuse
from ordain.core.text.schema import patterns

EDITS_MAX = 200
EDITED_BYTES_MAX = 1 << 20
"""How many edits, and how much of a file, are looked at beforehand."""
SETTLED_NS = 2_000_000_000
"""How long after the last change of a file its stamp tells of the next; the system's clock of changes is coarse."""
_SYSTEM = ("/bin/", "/sbin/", "/usr/")
ENTRIES_MAX = 100_000


def _stamp(path: str) -> tuple[int, ...] | None:
    """What changes with a regular file; the last, when it was changed, nobody can set. Raises FileNotFoundError."""
    try:
        found = os.stat(path)  # noqa: PTH116 - quicker
    except FileNotFoundError:
        raise
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode, found.st_ctime_ns


class DirectoryWorkspace:
    """ports.Workspace on the file system."""

    def __init__(self, path: Path, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._path, self._now_ns, self._configured = path, now_ns, str(path / CONFIGURATION_FILE)
        self._configuration: tuple[tuple[int, ...], bytes | None] | None = None
        self._secrets = KnownSecrets()
        self._shell_text = ShellText()

    def identity(self) -> tuple[str, int, int]:
        real = os.path.realpath(self._path)
        found = Path(real).stat()
        return real, found.st_dev, found.st_ino

    def configuration(self) -> bytes | None:
        """Asked before each step. Read again where it changed, or is so young that a change could leave no trace."""
        try:
            stamp = _stamp(self._configured)
        except FileNotFoundError:
            return None
        if stamp is not None and self._configuration is not None and self._configuration[0] == stamp:
            return self._configuration[1]
        is_settled = stamp is not None and stamp[-1] + SETTLED_NS < self._now_ns()
        found = configuration(self._path)
        self._configuration = (stamp, found) if stamp is not None and is_settled else None
        return found

    def document(self, path: str) -> bytes | None:
        try:
            return read_regular(self._path / path)
        except OSError:
            return None

    def files(self, pattern: str) -> tuple[str, ...]:
        wanted = normal(pattern)
        if pattern_fault(pattern) is not None or not wanted:
            return ()
        names = filter(PathPattern(wanted).matches, _files(self._path, wanted))
        # A name that is not UTF-8 can stand in no plan.
        return tuple(sorted(name for name in names if path_fault(name) is None and name.isprintable()))

    def beginning(self, path: str, limit: int, secret_files: Sequence[str]) -> tuple[bytes, int]:
        try:
            with (
                openat.root(self._path) as root,
                openat.parent(root, path) as (parent, name),
                openat.file(parent, name, path) as file,
            ):
                if self._secrets.holds(file.fileno(), secret_files):
                    raise refuse("F_READ_MISSING", f"`{path}` is one of the files that hold secrets")
                return file.read(limit), os.fstat(file.fileno()).st_size
        except openat.EscapeError as error:
            raise refuse("F_PATH_ESCAPE", str(error)) from error
        except openat.IrregularError as error:
            raise refuse("F_READ_MISSING", f"`{path}` is no regular file") from error
        except FileNotFoundError as error:
            raise refuse("F_READ_MISSING", f"`{path}` is not there") from error
        except OSError as error:
            raise refuse("F_READ_MISSING", f"`{path}` cannot be read: {openat.reason(error)}") from error

    def withheld(self, path: str, secret_files: Sequence[str], *, deep: bool) -> str | None:
        if self._secrets.lies_at(self._path / path, secret_files, deep=deep):
            return f"is {'or holds ' * deep}one of the files that hold secrets"
        for directory, directories, files in os.walk(self._path / path) if deep else ():
            for name in (*directories, *files):
                inner = str(Path(directory, name).relative_to(self._path))
                if handed_fault(inner, touched=True) is not None:
                    return f"holds `{openat.shown(inner)}`, which is not for agents"
        return None

    def secret_places(self, secret_files: Sequence[str]) -> tuple[str, ...]:
        found = [place for place in self._secrets.places(secret_files) if place.is_relative_to(self._path)]
        for above, _, files in os.walk(self._path):
            found += (Path(above, name) for name in files if holds_secrets(name))
        plain = (place for place in found if place.is_file() and not place.is_symlink())
        return tuple(sorted({str(place.relative_to(self._path)) for place in plain}))

    def digests(self, paths: Sequence[str], patterns: Sequence[str]) -> dict[str, str]:
        names = {path for given in paths if (path := operand_path(given)) is not None}
        wanted = {pattern for given in patterns if (pattern := operand_pattern(given)) is not None}
        with contextlib.ExitStack() as held:
            try:
                look = PatternLook(held.enter_context(openat.root(self._path)))
            except OSError as error:
                raise refuse("E_WORKSPACE", f"{self._path} cannot be opened: {openat.reason(error)}.") from error
            return look.digests(names | look.matching(wanted))

    def contents(self, paths: Collection[str], patterns: Collection[str]) -> dict[str, str]:
        names = {*paths, *self._matching(patterns)}
        return contents(Path(os.path.realpath(self._path)), sorted(names))

    def _matching(self, patterns: Collection[str]) -> set[str]:
        """The files that patterns of `inputs` mean. Links are followed to where a pattern begins, and no further."""
        wanted: dict[tuple[str, str], set[str]] = {}
        root = os.path.realpath(self._path)
        for given in patterns:
            if (pattern := operand_pattern(given)) is not None and not self._leads_out(given):
                base = spelt_path("/".join(takewhile(WILD.isdisjoint, given.split("/")[:-1])))
                real = os.path.realpath(f"{root}/{base}")
                if real != os.path.normpath(f"{root}/{base}") and Path(real).is_dir():
                    rest = "/".join(part for part in pattern.split("/")[len(base.split("/")) :])
                    wanted.setdefault((real, f"{base}/"), set()).add(rest)
                else:
                    wanted.setdefault((root, ""), set()).add(pattern)
        found: set[str] = set()
        effort = 0
        for (place, above), texts in wanted.items():
            with openat.root(Path(place)) as held:
                look = PatternLook(held, effort)
                found |= {above + name for name in look.matching(texts)}
                effort = look.effort
        return found

    def real_path(self, path: str) -> str:
        root = os.path.realpath(self._path)
        try:
            real = os.path.realpath(f"{root}/{path}" if path[:1] != "/" else path)
        except (OSError, ValueError):  # no name that a file could have
            return spelt_path(path)
        return "" if real == root else real.removeprefix(f"{root}/")

    def scripts(self, texts: Iterable[str]) -> dict[str, Script]:
        return self._shell_text.scripts(texts)

    def git_head(self) -> str | None:
        return git_head(Path(os.path.realpath(self._path)))

    def facts(
        self, plan: Plan, tools: Mapping[str, ToolDefinition], settings: Settings, workspace_id: str | None
    ) -> Facts:
        survey = Survey(plan)
        contracts = dict.fromkeys(contract.command for _, contract in survey.contracts)
        commands = dict.fromkeys(action.command for _, action in survey.commands)
        checks = dict.fromkeys(text for _, text in survey.checks)
        scripts, faults, programs = self._texts(contracts | checks, commands)
        programs |= {one.argv[0] for _, call in survey.calls if (one := program_of(call)) is not None}
        read = frozenset(text for text in contracts if text in scripts or text in faults or plain_script(text))
        wanted = wanted_files(survey, tools)
        pattern_faults, idle_patterns = self._patterns(survey)
        missing = frozenset(path for path in wanted if not self._there(path))
        worded = wanted_words(survey, Facts(tools=tools, scripts=scripts))
        unhanded, secret_reads = self._unhanded(handed_files(survey) - missing, settings.secret_files)
        return Facts(
            tools=tools,
            settings=settings,
            shell_faults=faults,
            scripts=scripts,
            unread=frozenset(contracts) - read,
            unasked=frozenset(self._shell_text.unasked),
            expression_faults=self._expression_faults(survey),
            pattern_faults=pattern_faults,
            idle_patterns=idle_patterns,
            protecting_nothing=self._protecting_nothing(plan),
            empty_inputs=self._empty_inputs(survey),
            missing_programs=frozenset(name for name in programs if not self._installed(name)),
            missing_files=missing,
            unknown_paths=frozenset(path for path in worded if not self._there(path)),
            new_writes=self._new_writes(survey, tools),
            edits=self._edits(survey, settings.secret_files),
            unhanded=unhanded,
            secret_reads=secret_reads,
            secrets=self._secrets.known(secret_variables(settings), settings.secret_files)[0],
            workspace_id=workspace_id,
        )

    def _new_writes(self, survey: Survey, tools: Mapping[str, ToolDefinition]) -> frozenset[str]:
        """Where steps write and nothing is yet; it matters only where something is protected."""
        if not any(scope.plan.protect for scope in survey.scopes) and not any(step.protect for step in survey.steps):
            return frozenset()
        wanted = written_places(survey, Facts(tools=tools))
        return frozenset(path for path in wanted if path_fault(path) is None and not self._there(path))

    def _edits(self, survey: Survey, secret_files: Sequence[str]) -> dict[tuple[str, str], int]:
        """How often the texts that steps replace occur in their files, as far as agents may see those."""
        found: dict[tuple[str, str], int] = {}
        files: dict[str, bytes | None] = {}
        for _, path, old in islice(edits(survey), EDITS_MAX):
            if path not in files:
                files[path] = None
                with contextlib.suppress(Refused):
                    text, size = self.beginning(path, EDITED_BYTES_MAX, secret_files)
                    files[path] = text if size <= EDITED_BYTES_MAX and handed_fault(path) is None else None
            text_now = files[path]
            if text_now is not None and old:
                found[path, old] = text_now.count(old.encode("utf-8", "replace"))
        return found

    def _unhanded(self, paths: Collection[str], secret_files: Sequence[str]) -> tuple[dict[str, str], frozenset[str]]:
        """Which of these files cannot be put before an agent as they are, and why; and which hold secrets."""
        faults: dict[str, str] = {}
        secret = set()
        for path in paths:
            try:
                self.beginning(path, 0, ())
            except Refused as refused:
                faults[path] = refused.problems[0].detail
                continue
            try:
                self.beginning(path, 0, secret_files)
            except Refused:
                secret.add(path)
        return faults, frozenset(secret)

    def _texts(
        self, contracts: Collection[str], commands: Collection[str]
    ) -> tuple[dict[str, Script], dict[str, str], set[str]]:
        """The texts taken apart, except plain words; what is wrong with them; and which programs they start."""
        scripts: dict[str, Script] = {}
        faults: dict[str, str] = {}
        programs_started: set[str] = set()
        self._shell_text.scripts((*contracts, *commands))
        for text in (*contracts, *(text for text in commands if text not in contracts)):
            script, fault = self._shell_text.read(text)
            if fault is not None:
                faults[text] = fault
            elif script is not None:
                programs_started.update(programs(script) if text in contracts else started_by(text, script))
                if plain_script(text) is None:
                    scripts[text] = script
        return scripts, faults, programs_started

    def _expression_faults(self, survey: Survey) -> dict[tuple[str, frozenset[str]], str]:
        if not survey.asked:
            return {}
        expressions = Cel()
        wanted = {(asked.expression, asked.names) for asked in survey.asked}
        return {one: fault for one in wanted if (fault := expressions.check(*one)) is not None}

    def _patterns(self, survey: Survey) -> tuple[dict[str, str], frozenset[str]]:
        """What is wrong with the patterns that outputs and answers must match, and which match whatever is written."""
        wanted = {contract.stdout for _, contract in survey.contracts if contract.stdout is not None}
        wanted.update(text for _, one in survey.others for text in patterns(value_with(one, Schema) or {}))
        if not wanted:
            return {}, frozenset()
        expressions, faults, idle = Cel(), {}, set()
        for pattern in wanted:
            try:
                if all(expressions.matches(pattern, text) for text in ("", "\n", "\u2022 1 aZ\n")):
                    idle.add(pattern)
            except ExpressionError as error:
                faults[pattern] = str(error)
        return faults, frozenset(idle)

    def _protecting_nothing(self, plan: Plan) -> frozenset[str]:
        """The patterns of `protect` that mean no file; none where looking for them would take too long."""
        given = {*plan.protect, *(pattern for step in plan.steps for pattern in step.protect)}
        found: frozenset[str] = frozenset()
        if given:
            with contextlib.suppress(Refused, OSError), openat.root(self._path) as root:
                found = PatternLook(root).idle({text: operand_pattern(text) for text in given})
        return found

    def _empty_inputs(self, survey: Survey) -> dict[str, str]:
        """What `inputs` names and binds nothing by, and why; nothing where looking for it would take too long."""
        given = {one for step in survey.steps for one in step.inputs if "${" not in one and path_fault(one) is None}
        wanted = {one for one in given if is_pattern(one) or one.endswith("/")}
        empty = {one for one in given - wanted if not self._there(one) and not self._leads_out(one)}
        with contextlib.suppress(Refused, OSError):
            found = [folded(path) for path in self._matching(wanted)]
            if len(found) * len(wanted) < COMPARED_MAX:
                empty |= {one for one in wanted if not any(map(folded_pattern(one).matches, found))}
        why = dict.fromkeys(empty, "means no file that is there")
        why |= {one: "is git's or Ordain's, where no pattern looks" for one in empty & wanted if is_kept(one)}
        return why | dict.fromkeys(
            filter(self._leads_out, wanted), "leads out of the workspace, where no pattern looks"
        )

    def _leads_out(self, pattern: str) -> bool:
        """Whether what a pattern begins with lies elsewhere: whoever proposes a plan is not told what is there."""
        return self.real_path(plain_part(pattern))[:1] == "/"

    def _there(self, path: str) -> bool:
        with contextlib.suppress(OSError, ValueError):  # not to be looked at, or no name that a file could have
            return (self._path / path).exists()
        return False

    def _installed(self, program: str) -> bool:
        try:
            if "/" in program:
                # Who proposes a plan is not told what there is elsewhere on this machine.
                elsewhere = program[:1] in "/~" or ".." in program.split("/")
                own = not elsewhere or program.startswith(_SYSTEM)
                return not own or os.access(self._path / program, os.X_OK)
            return shutil.which(program) is not None
        except ValueError:  # no name that a file could have
            return False


def _files(root: Path, pattern: str) -> Iterator[str]:
    """The regular files that a pattern could mean. No link is followed, and nothing of git's or ours is looked at;
    raises Refused where there is more to see than anybody should wait for."""
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
