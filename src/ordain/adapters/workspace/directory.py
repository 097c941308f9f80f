"""The workspace as a real directory: which one it is, its configuration, what lint wants to know about it, and what is
in the files that a plan names."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path

from ordain.adapters.process.shell_text import ShellText
from ordain.adapters.workspace.content import contents
from ordain.adapters.workspace.locate import configuration, read_regular
from ordain.adapters.workspace.openat import (
    EscapeError,
    IrregularError,
    open_directory,
    open_file,
    open_parent,
    open_root,
)
from ordain.adapters.workspace.secret import KnownSecrets
from ordain.core.lint.path import handed_files, wanted_files, written_places
from ordain.core.lint.survey import Facts, Survey
from ordain.core.plan.expr import ExpressionError
from ordain.core.plan.model import Plan
from ordain.core.plan.role import Schema, value_with
from ordain.core.plan.tool import ToolDefinition
from ordain.core.policy.path_use import ABSENT, spelt_path
from ordain.core.policy.script import Script, plain_script, programs
from ordain.core.policy.settings import Settings, secret_variables
from ordain.core.text.control import folded, folded_pattern
from ordain.core.text.limit import DOCUMENT_BYTES_MAX
from ordain.core.text.path import (
    COMPARED_MAX,
    OFF_LIMITS,
    handed_fault,
    is_kept,
    is_pattern,
    path_fault,
    pattern_fault,
)
from ordain.core.text.pattern import WILD, PathPattern, normal, plain_part
from ordain.core.text.problem import Refused, refuse
from ordain.core.text.schema import patterns

ENTRIES_MAX = 100_000
"""How many files and directories are looked at for one pattern."""
EFFORT_MAX = 20_000_000
"""How much is done to find operands in one look: as much as comparing so many characters with a pattern. That takes
some seconds."""
_STEP_EFFORT = 4
"""What it takes to open a directory on the way, or to turn to a pattern."""
OPERANDS_MAX = 20_000
"""How many operands one approval is bound to."""
OPERAND_BYTES_MAX = 16 << 30
"""How much is read in one look; that takes about a minute. A file with holes can claim any size."""
_CHUNK_BYTES = 1 << 20


class DirectoryWorkspace:
    """ports.Workspace on the file system."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._secrets = KnownSecrets()
        self._shell_text = ShellText()

    def identity(self) -> tuple[str, int, int]:
        real = os.path.realpath(self._path)
        found = Path(real).stat()
        return real, found.st_dev, found.st_ino

    def configuration(self) -> bytes | None:
        return configuration(self._path)

    def document(self, path: str) -> bytes | None:
        try:
            return read_regular(self._path / path)
        except OSError:
            return None

    def files(self, pattern: str) -> tuple[str, ...]:
        wanted = normal(pattern)
        if pattern_fault(pattern) is not None or not wanted:
            return ()
        found = PathPattern(wanted)
        # A name that is not UTF-8 can stand in no plan.
        return tuple(
            sorted(
                name
                for name in _files(self._path, wanted)
                if found.matches(name) and path_fault(name) is None and name.isprintable()
            )
        )

    def beginning(self, path: str, limit: int, secret_files: Sequence[str]) -> tuple[bytes, int]:
        try:
            with (
                open_root(self._path) as root,
                open_parent(root, path) as (parent, name),
                open_file(parent, name, path) as file,
            ):
                if self._secrets.holds(file.fileno(), secret_files):
                    raise refuse("F_READ_MISSING", f"`{path}` is one of the files that hold secrets")
                return file.read(limit), os.fstat(file.fileno()).st_size
        except EscapeError as error:
            raise refuse("F_PATH_ESCAPE", str(error)) from error
        except IrregularError as error:
            raise refuse("F_READ_MISSING", f"`{path}` is no regular file") from error
        except FileNotFoundError as error:
            raise refuse("F_READ_MISSING", f"`{path}` is not there") from error
        except OSError as error:
            reason = os.strerror(error.errno or errno.EIO).lower()
            raise refuse("F_READ_MISSING", f"`{path}` cannot be read: {reason}") from error

    def withheld(self, path: str, secret_files: Sequence[str], *, deep: bool) -> str | None:
        if self._secrets.lies_at(self._path / path, secret_files, deep=deep):
            return f"is {'or holds ' * deep}one of the files that hold secrets"
        for directory, directories, files in os.walk(self._path / path) if deep else ():
            for name in (*directories, *files):
                inner = str(Path(directory, name).relative_to(self._path))
                if handed_fault(inner, touched=True) is not None:
                    return f"holds `{_shown(inner)}`, which is not for agents"
        return None

    def digests(self, paths: Sequence[str], patterns: Sequence[str]) -> dict[str, str]:
        names = {path for given in paths if (path := operand_path(given)) is not None}
        wanted = {pattern for given in patterns if (pattern := operand_pattern(given)) is not None}
        try:
            root = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            reason = os.strerror(error.errno or errno.EIO).lower()
            raise refuse("E_WORKSPACE", f"{self._path} cannot be opened: {reason}.") from error
        try:
            look = PatternLook(root)
            names |= look.matching(wanted)
            if len(names) > OPERANDS_MAX:
                raise refuse("E_BASE_UNREADABLE", f"The plan names more than {OPERANDS_MAX:,} files.")
            return {name: look.digest(name) for name in sorted(names)}
        finally:
            os.close(root)

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
            with open_root(Path(place)) as held:
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
        place = Path(os.path.realpath(self._path))
        try:
            for directory in (place, *place.parents):
                repository = _repository(directory / ".git")
                if repository is not None:
                    return _head(repository)
        except OSError as error:
            raise _head_untold(os.strerror(error.errno or errno.EIO).lower()) from error
        except ValueError as error:
            raise _head_untold("`.git` names a directory that cannot be") from error
        return None

    def facts(
        self, plan: Plan, tools: Mapping[str, ToolDefinition], settings: Settings, workspace_id: str | None
    ) -> Facts:
        survey = Survey(plan)
        contracts = dict.fromkeys(contract.command for _, contract in survey.contracts)
        commands = dict.fromkeys(action.command for _, action in survey.commands)
        scripts, faults, programs = self._texts(contracts, commands)
        read = frozenset(text for text in contracts if text in scripts or text in faults or plain_script(text))
        wanted = wanted_files(survey, tools)
        pattern_faults, idle_patterns = self._patterns(survey)
        missing = frozenset(path for path in wanted if not self._there(path))
        unhanded, secret_reads = self._unhanded(handed_files(survey) - missing, settings.secret_files)
        return Facts(
            tools=tools,
            settings=settings,
            shell_faults=faults,
            scripts=scripts,
            unread=frozenset(contracts) - read,
            expression_faults=self._expression_faults(survey),
            pattern_faults=pattern_faults,
            idle_patterns=idle_patterns,
            protecting_nothing=self._protecting_nothing(plan),
            empty_inputs=self._empty_inputs(survey),
            missing_programs=frozenset(name for name in programs if not self._installed(name)),
            missing_files=missing,
            new_writes=self._new_writes(survey, tools),
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
        """The texts taken apart, except plain words; what is wrong with them; and the programs that contracts start."""
        scripts: dict[str, Script] = {}
        faults: dict[str, str] = {}
        programs_started: set[str] = set()
        self._shell_text.scripts((*contracts, *commands))
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
        from ordain.adapters.tools.cel import Cel  # few plans have expressions

        expressions = Cel()
        wanted = {(asked.expression, asked.names) for asked in survey.asked}
        return {one: fault for one in wanted if (fault := expressions.check(*one)) is not None}

    def _patterns(self, survey: Survey) -> tuple[dict[str, str], frozenset[str]]:
        """What is wrong with the patterns that contracts' outputs and people's answers must match, and which match
        whatever is written."""
        wanted = {contract.stdout for _, contract in survey.contracts if contract.stdout is not None}
        wanted.update(text for _, one in survey.others for text in patterns(value_with(one, Schema) or {}))
        if not wanted:
            return {}, frozenset()
        from ordain.adapters.tools.cel import Cel

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
            with contextlib.suppress(Refused, OSError), open_root(self._path) as root:
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
        return why | {
            one: "leads out of the workspace, where no pattern looks" for one in wanted if self._leads_out(one)
        }

    def _leads_out(self, pattern: str) -> bool:
        """Whether what a pattern begins with lies elsewhere: whoever proposes a plan is not told what is there."""
        return self.real_path(plain_part(pattern))[:1] == "/"

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


# --- What is in the files that a plan names ------------------------------------------------------------------------


def operand_path(path: str) -> str | None:
    """The one spelling of a path that is looked at; None for what git keeps or is ours, which nobody looks at: git
    changes its files by itself. Raises Refused for what does not lie beneath the workspace."""
    spelt = spelt_path(path)
    fault = path_fault(path) or (None if spelt else "is the workspace itself")
    if fault is not None and fault != OFF_LIMITS:
        raise refuse("E_PATH", f"The path `{path[:200]}` {fault}.")
    return spelt if not is_kept(path) else None


def operand_pattern(pattern: str) -> str | None:
    """What folded names are compared with, so that a pattern means here what it protects; None and Refused as above."""
    fault = pattern_fault(pattern)
    if fault is not None and fault != OFF_LIMITS:
        raise refuse("E_PATH", f"The pattern `{pattern[:200]}` {fault}.")
    return folded(pattern) + "/**" * pattern.endswith("/") if fault is None else None


class _Wanted:
    """A pattern of folded paths, the directories it begins with, and how deep it goes."""

    def __init__(self, text: str) -> None:
        parts = text.split("/")
        self.text = text
        self.pattern = PathPattern(text)
        self.along = tuple(takewhile(lambda part: not set(part) & set("*?"), parts[:-1]))
        self._depth_max = None if "**" in text else len(parts)

    def goes_by(self, depth: int, name: str) -> bool:
        return depth >= len(self.along) or self.along[depth] == name

    def goes_below(self, depth: int) -> bool:
        return self._depth_max is None or depth + 1 < self._depth_max


class PatternLook:
    """One look at the files beneath a held directory. No link is followed, so nothing outside is seen; whatever cannot
    be seen is refused, for nobody would notice when it changes; and a look has an end."""

    def __init__(self, root: int, effort: int = 0) -> None:
        self._root = root
        self.effort = effort
        self._bytes = 0

    def matching(self, patterns: Collection[str]) -> set[str]:
        """Everything but directories that a pattern means, and the links where a pattern would go on beneath."""
        found: set[str] = set()
        self._spend(sum(len(text) * (1 + len(text) // 512) for text in patterns))
        todo = [("", 0, [_Wanted(text) for text in sorted(patterns)])] if patterns else []
        while todo:
            above, depth, wanted = todo.pop()
            self._spend(_STEP_EFFORT * depth)
            for own_name, is_directory, is_link in self.entries(above):
                self._spend(_STEP_EFFORT * len(wanted))
                name, path = folded(own_name), above + own_name
                if name in (".git", ".ordain"):
                    continue
                on = [one for one in wanted if one.goes_by(depth, name)]
                if is_directory:
                    below = [one for one in on if one.goes_below(depth)]
                    todo += [(f"{path}/", depth + 1, below)] if below else []
                elif any((is_link and depth < len(one.along)) or self._matches(one, folded(path)) for one in on):
                    found.add(_text(path))
        return found

    def idle(self, patterns: Mapping[str, str | None]) -> frozenset[str]:
        """The names of the patterns that mean nothing that is there; one without a pattern never means anything."""
        texts = {text for text in patterns.values() if text is not None}
        paths = [folded(path) for path in self.matching(texts)]
        wanted = {text: _Wanted(text) for text in texts}
        used = {text for text, one in wanted.items() if any(self._matches(one, path) for path in paths)}
        return frozenset(name for name, text in patterns.items() if text not in used)

    def _matches(self, wanted: _Wanted, path: str) -> bool:
        if not wanted.pattern.may_match(path):
            return False
        self._spend(len(path) * (2 + len(wanted.text) // 256))
        return wanted.pattern.matches(path)

    def entries(self, above: str) -> Iterator[tuple[str, bool, bool]]:
        """What is in a directory: each name, whether it is a directory, and whether it is a link."""
        try:
            with open_directory(self._root, above) as held, os.scandir(held) as entries:
                for entry in entries:
                    yield entry.name, entry.is_dir(follow_symlinks=False), entry.is_symlink()
        except FileNotFoundError:  # gone since its name was read
            return
        except (OSError, EscapeError) as error:
            raise _unreadable(above, error) from error

    def _spend(self, effort: int) -> None:
        self.effort += effort
        if self.effort > EFFORT_MAX:
            hint = "Begin patterns with the directory that is meant: `tests/**`."
            raise refuse("E_BASE_UNREADABLE", "The files that the plan names take too long to find.", hint)

    def digest(self, path: str) -> str:
        """What is at a path: `sha256:…` of a regular file's content, `link:…` of a link's target, and else a word."""
        try:
            with open_parent(self._root, path) as (parent, name):
                return self._seen(parent, name, path)
        except EscapeError:
            return self._link_along(path)
        except (FileNotFoundError, NotADirectoryError, UnicodeEncodeError):
            return ABSENT
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return ABSENT
            raise _unreadable(path, error) from error

    def _seen(self, parent: int, name: str, path: str) -> str:
        # Looked at before it is opened: opening a pipe or a device can do something.
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            return "link:" + hashlib.sha256(os.fsencode(os.readlink(name, dir_fd=parent))).hexdigest()
        if stat.S_ISDIR(mode):
            return "directory"
        return self._content(parent, name, path) if stat.S_ISREG(mode) else "other"

    def _link_along(self, path: str) -> str:
        """The first link on the way to a path: all there is of the path, as nobody goes through it."""
        parts = path.split("/")
        try:
            for depth in range(1, len(parts)):
                self._spend(_STEP_EFFORT * depth)
                with open_parent(self._root, "/".join(parts[:depth])) as (parent, name):
                    if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                        return self._seen(parent, name, path)
        except (OSError, EscapeError) as error:
            raise _changing(path) from error
        raise _changing(path)

    def _content(self, parent: int, name: str, path: str) -> str:
        """The digest of as many bytes as the file had when it was opened; one that is being written is refused."""
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=parent)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            opened = os.fstat(descriptor)
            if not stat.S_ISREG(opened.st_mode):
                raise _changing(path)
            left = opened.st_size
            self._bytes += left
            if self._bytes > OPERAND_BYTES_MAX:
                detail = f"With `{path}`, the files that the plan names have more than {OPERAND_BYTES_MAX:,} bytes."
                raise refuse("E_BASE_UNREADABLE", detail)
            digest = hashlib.sha256()
            while left and (chunk := file.read(min(left, _CHUNK_BYTES))):
                digest.update(chunk)
                left -= len(chunk)
            read = os.fstat(descriptor)
            if left or (read.st_size, read.st_mtime_ns) != (opened.st_size, opened.st_mtime_ns):
                raise _changing(path)
        return f"sha256:{digest.hexdigest()}"


def _text(path: str) -> str:
    """A path as it stands in a record; one that is not UTF-8 could be told from no other there."""
    if _shown(path) != path:
        raise refuse("E_BASE_UNREADABLE", f"The name `{_shown(path)}` is not UTF-8, and the plan's patterns mean it.")
    return path


def _shown(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _unreadable(path: str, error: OSError | EscapeError) -> Refused:
    reason = os.strerror(error.errno or errno.EIO).lower() if isinstance(error, OSError) else str(error)
    return refuse("E_BASE_UNREADABLE", f"`{_shown(path) or '.'}` cannot be read: {reason}.")


def _changing(path: str) -> Refused:
    return refuse("E_BASE_UNREADABLE", f"`{path}` changes while it is read.", "Wait until nobody writes it any more.")


# --- Which commit is checked out -----------------------------------------------------------------------------------

_COMMIT = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REF = re.compile(rb"refs(?:/[^/.\0][^/\0]*)+")
"""No part begins with a dot: none leads elsewhere, and `refs/heads/.invalid` stands where references are kept in a
reftable."""
_OF_ONE_WORKTREE = (b"refs/bisect/", b"refs/rewritten/", b"refs/worktree/")
_REFS_DEPTH_MAX = 5


def _repository(place: Path) -> Path | None:
    """The directory that a `.git` is or names; one without a HEAD is none to git either. Git is not run: it would do
    what its configuration says."""
    try:
        if stat.S_ISDIR(place.stat().st_mode):
            (place / "HEAD").lstat()
            return place
    except FileNotFoundError:
        return None
    kind, _, path = read_regular(place).partition(b":")
    if kind != b"gitdir":
        raise _head_untold("`.git` is neither a directory nor does it name one")
    return place.parent / os.fsdecode(path.strip())


def _head(repository: Path) -> str | None:
    """The commit that HEAD comes down to; None where there is none yet."""
    pointer = _git_file(repository / "commondir")
    common = repository / os.fsdecode(pointer) if pointer is not None else repository
    text: bytes | None = read_regular(repository / "HEAD").strip()
    for _ in range(_REFS_DEPTH_MAX):
        if text is None or _COMMIT.fullmatch(text):
            return text.decode() if text is not None else None
        kind, _, rest = text.partition(b":")
        name = rest.strip()
        if kind != b"ref" or not _REF.fullmatch(name):
            break
        # A reference is packed before its own file is deleted, so it is found in one of them.
        text = _git_file((repository if name.startswith(_OF_ONE_WORKTREE) else common) / os.fsdecode(name))
        if text is None:
            text = _packed(common, name)
    raise _head_untold("HEAD, or what it refers to, is of a form that is not read here")


def _packed(common: Path, name: bytes) -> bytes | None:
    lines = (_git_file(common / "packed-refs") or b"").splitlines()
    return next((commit for commit, _, packed in (line.partition(b" ") for line in lines) if packed == name), None)


def _git_file(path: Path) -> bytes | None:
    """The text of a file of git's; None where there is none. A directory may be left where a reference was."""
    try:
        if path.is_dir():
            return None
        text = read_regular(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if len(text) > DOCUMENT_BYTES_MAX:
        raise OSError(errno.EFBIG, "larger than anybody should wait for")
    return text.strip()


def _head_untold(reason: str) -> Refused:
    return refuse(
        "E_BASE_UNREADABLE",
        f"The commit that is checked out cannot be told: {reason}.",
        "Approvals are bound to it because of `bind_git_head` in ordain.toml.",
    )
