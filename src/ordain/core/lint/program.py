"""Rules about what commands, contracts and tasks name in words: the programs that they start are installed, and the
files that they only make sense with are there, or a step before brings them.

Only what is certain is told. A program that a command asks for first (`command -v x`), or may install itself, is left
out; only those files are looked for that are surely read, and where anything before might make one, nothing is said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ordain.core.lint.path import find_writers
from ordain.core.lint.survey import Facts, Scope, Survey
from ordain.core.plan.action import CallTool, Task
from ordain.core.plan.command import command_text, payload, program_of
from ordain.core.plan.model import Step
from ordain.core.plan.tool import DEFINITIONS
from ordain.core.policy.loading import is_named_by
from ordain.core.policy.program import bare
from ordain.core.policy.script import Script, SimpleCommand, plain_script, programs
from ordain.core.text.control import folded
from ordain.core.text.path import path_fault
from ordain.core.text.pattern import compile_later
from ordain.core.text.problem import Problem, blame_step

_INSTALLS = frozenset(["install", "add", "sync", "ci", "i", "get", "setup", "bootstrap"])
_ASKS = frozenset(["command", "type", "which", "hash"])
"""What is asked whether a program is there."""
_LOADS = frozenset([".", "source", "alias", "module"])
"""What may make programs known that are in no directory of `PATH`."""
_PROGRAMS_MAX = 100
"""After so many programs that are not there, the reader has heard enough."""
_HINT = "Install it, or add the step that does."


def contract_starts(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A contract that cannot be started can never hold, unless a step before brings the program."""
    if not facts.missing_programs:
        return
    brought = _Before(_bringing)
    for step, what, text in survey.looks:
        script = facts.scripts.get(text) or plain_script(text)
        for program in sorted(facts.missing_programs.intersection(programs(script))) if script is not None else ():
            if len(brought.masks) >= _PROGRAMS_MAX:
                return
            if not _brings(step, program) and not brought.has(survey.scope_of(step), step, program):
                detail = f"The {what} of `{step.id}` uses `{program}`, which is not installed."
                yield blame_step(step.id, "W_CONTRACT_PROGRAM", detail, _HINT)


def command_starts(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A command whose program is not there fails only when its turn comes, after the steps before it took effect."""
    if not facts.missing_programs:
        return
    brought, users = _Before(_bringing), dict[str, list[Step]]()
    for step, program in _started(survey, facts):
        if program in users:
            users[program].append(step)
        elif len(users) < _PROGRAMS_MAX and not brought.has(survey.scope_of(step), step, program):
            users[program] = [step]
    for program, steps in users.items():
        more = f" and {len(steps) - 1:,} more" if len(steps) > 1 else ""
        named = f"`{program}`" if program.isascii() else "a program"  # other letters are shown where they are escaped
        detail = f"`{steps[0].id}`{more} starts {named}, which is not installed: it would fail."
        yield blame_step(steps[0].id, "W_PROGRAM_MISSING", detail, _HINT)


def started_by(text: str, script: Script) -> Iterator[str]:
    """The programs that a command wants to be there already."""
    if "PATH=" in text or not _INSTALLS.isdisjoint(text.split()):
        return
    if any(words[0] in _LOADS for words in script.own_words):
        return
    asked = {name for words in script.own_words if words[0] in _ASKS for name in words[1:]}
    several = len(script.commands) > 1
    for program in programs(script):
        # What it starts by a path in the workspace, another part of it may have built.
        built = several and "/" in program and not program.startswith("/")
        if program not in asked and not built:
            yield program


def _started(survey: Survey, facts: Facts) -> Iterator[tuple[Step, str]]:
    for step, command in survey.commands:
        text = command.command
        script = facts.scripts.get(text) or plain_script(text) if "PATH" not in command.env else None
        found = started_by(text, script) if script is not None else ()
        yield from ((step, name) for name in sorted(facts.missing_programs.intersection(found)))
    for step, action in survey.calls:
        program = program_of(action)
        if program is not None and "PATH" not in program.env and program.argv[0] in facts.missing_programs:
            yield step, program.argv[0]


class _Before:
    """Whether a step before another one makes something; which do is found once for each plan and thing."""

    def __init__(self, makers: Callable[[Scope, str], Iterable[str]]) -> None:
        self._makers = makers
        self.masks: dict[tuple[int, str], int] = {}

    def has(self, scope: Scope, step: Step, what: str) -> bool:
        key = id(scope), what
        if key not in self.masks:
            self.masks[key] = scope.order.mask(self._makers(scope, what))
        return scope.order.after_any(self.masks[key], step.id)


def _bringing(scope: Scope, program: str) -> Iterator[str]:
    return (name for name, step in scope.steps.items() if _brings(step, program))


def _brings(step: Step, program: str) -> bool:
    name = program.rpartition("/")[2]
    if any(folded(path).rpartition("/")[2] == name.lower() for path in step.writes):
        return True
    text = command_text(step.action)
    if text is not None:
        # A path in the workspace may be what any command builds; a bare name must be named or installed.
        return "/" in program or name in text or not _INSTALLS.isdisjoint(text.split())
    match step.action:
        case CallTool(args=args):
            paths = (str(args.get(argument, "")) for argument in ("path", "to"))
            return any(folded(path).rpartition("/")[2] == name.lower() for path in paths)
        case Task(task=text):
            return "/" in program or name in text or "install" in text.lower()
        case _:
            return True


# --- Files -----------------------------------------------------------------------------------------------------------

_PATHS_MAX = 200
_WORK_MAX = 500_000
"""How many paths times steps are gone through; that takes about a second."""
_SUFFIX = (
    r"\.(?:c|cc|cfg|conf|cpp|css|csv|go|h|hpp|html|ini|java|js|json|jsx|kt|md|mjs|php|proto|py|rb|rs|rst|scss|sh|sql|"
    r"svelte|swift|tf|toml|ts|tsx|txt|vue|xml|ya?ml)"
)
_FILE = compile_later(rf"(?:\./)?[A-Za-z0-9_][\w.+@-]*(?:/[\w.+@-]+)*{_SUFFIX}", re.ASCII)
"""What is, by its looks, a file beneath the workspace and nothing else."""
_CODE = compile_later(r".*\.(?:js|jsx|mjs|php|py|rb|sh|ts|tsx)", re.ASCII)
_BRANCHES = compile_later(r"\|\||!|\b(?:if|for|while|until|case|exec|eval)\b")
_READERS = frozenset(("cat", "cmp", "diff", "head", "nl", "sha256sum", "source", ".", "tac", "tail", "wc"))
_SEARCHERS = frozenset(("egrep", "fgrep", "grep"))
_INTERPRETERS = frozenset(("bash", "node", "perl", "php", "python", "python3", "ruby", "sh"))
_CHECKERS = frozenset(
    ("eslint", "flake8", "jest", "mypy", "py.test", "pylint", "pytest", "ruff", "shellcheck", "vitest")
)
_IDLE = frozenset(("cd", "echo", "false", "ls", "printf", "set", "sleep", "stat", "test", "true", "["))
"""These make no file; nor do those above that only read."""
_WANTED = compile_later(
    rf"\b(?:change|correct|delete|edit|extend|fix|look at|modify|open|read|refactor|remove|see|update) `?"
    rf"((?:\./)?[A-Za-z0-9_][\w.+@-]*(?:/[\w.+@-]+)*{_SUFFIX})(?![\w/-])",
    re.IGNORECASE | re.ASCII,
)


class WordedPath(NamedTuple):
    """A path that a step's words need."""

    step: Step
    path: str
    where: str
    own: bool
    """Whether what the step itself does comes before."""


def worded_paths(survey: Survey, facts: Facts) -> Iterator[WordedPath]:
    """The files that words of steps need to be there."""
    looking = [(step, "command", command.command, False) for step, command in survey.commands]
    looking += [(step, "contract", contract.command, True) for step, contract in survey.contracts]
    for step, where, text, own in looking:
        script = None if _BRANCHES.search(text) else facts.scripts.get(text) or plain_script(text)
        for path in dict.fromkeys(_read_first(script)) if script is not None else ():
            yield WordedPath(step, path, where, own)
    for _, step, task in survey.tasks:
        words = "\n".join((task.task, task.instructions or "", *task.criteria))
        yield from (WordedPath(step, path, "task", False) for path in dict.fromkeys(_WANTED.findall(words)))


def wanted_words(survey: Survey, facts: Facts) -> frozenset[str]:
    """The paths to be looked for, as many as anybody waits for."""
    paths = dict.fromkeys(one.path for one in worded_paths(survey, facts))
    return frozenset([path for path in paths if path_fault(path) is None][:_PATHS_MAX])


def named_there(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A file that words of a step need is there, or a step before may make it."""
    if not facts.unknown_paths or len(facts.unknown_paths) * len(survey.steps) > _WORK_MAX:
        return
    makers, told = _Makers(survey, facts), set[str]()
    before = _Before(makers.possible)
    for step, path, where, own in worded_paths(survey, facts):
        scope = survey.scope_of(step)
        apart = scope.depth or step.id in scope.fallbacks or scope.order.circles or step.worktree or step.for_each
        if path not in facts.unknown_paths or path in told or apart or (own and makers.may_make(step, path)):
            continue
        made_by = makers.of(scope, path)
        if step.id not in made_by and not before.has(scope, step, path):
            told.add(path)  # once is enough: whoever reads it looks for the others
            detail = f"The {where} of `{step.id}` needs `{path}`, which is not there and which no step before it makes."
            hint = f"`{made_by[0]}` writes it: add that to `needs`." if made_by else "Check the path."
            yield blame_step(step.id, "W_PATH_UNKNOWN", detail, hint)


class _Makers:
    def __init__(self, survey: Survey, facts: Facts) -> None:
        self._survey = survey
        self._writers = find_writers(survey, facts, directories=True)
        self._anything = {id(step) for step in survey.steps if not step.writes and _is_unbounded(step, facts)}

    def may_make(self, step: Step, path: str) -> bool:
        """Whether a step may make a file that it does not name."""
        return id(step) in self._anything or is_named_by(path, step.writes, ())

    def of(self, scope: Scope, path: str) -> list[str]:
        """The steps of a plan that say that they write a file."""
        return [one.id for one in self._writers.of(folded(path)) if self._survey.scope_of(one) is scope]

    def possible(self, scope: Scope, path: str) -> set[str]:
        """The steps of a plan that may make a file."""
        return {*self.of(scope, path), *(one.id for one in scope.steps.values() if self.may_make(one, path))}


def _is_unbounded(step: Step, facts: Facts) -> bool:
    """Whether a step may make any file, without saying so."""
    if isinstance(step.action, Task):
        return True  # who performs it is told its contract, too
    text = command_text(step.action)
    if text is None:
        # What a built-in tool writes it names, and who knows of any other.
        named = isinstance(step.action, CallTool) and step.action.tool in DEFINITIONS
        return not named or "${" in str(payload(step.action))
    script = facts.scripts.get(text) or plain_script(text)
    return script is None or not all(_only_reads(one) for one in script.commands)


def _only_reads(command: SimpleCommand) -> bool:
    return not command.outputs and bare(command.program) in _READERS | _SEARCHERS | _IDLE


def _read_first(script: Script) -> Iterator[str]:
    for one in script.commands:
        if one.directory != "":
            return
        for word in (*_operands(one), *one.inputs):
            if word is not None and _FILE.fullmatch(word) and ".." not in word and word not in one.outputs:
                yield word.removeprefix("./")
        if not _only_reads(one):
            return


def _operands(command: SimpleCommand) -> Iterator[str | None]:
    program, words = bare(command.program), command.words[1:]
    plain = [word for word in words if word is None or not word.startswith("-")]
    if program in _READERS:
        yield from plain
    elif program in _SEARCHERS:
        yield from plain[1:]
    elif program in _INTERPRETERS and words and words[0] is not None and _CODE.fullmatch(words[0]):
        yield words[0]
    elif program in _CHECKERS:
        after_option = {number + 1 for number, word in enumerate(words) if word is not None and word.startswith("-")}
        for number, word in enumerate(words):
            if number not in after_option and word is not None and _CODE.fullmatch(word.partition("::")[0]):
                yield word.partition("::")[0]
