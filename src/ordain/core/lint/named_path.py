"""A rule about paths in words: a file that a command, a contract or a task only makes sense with is there, or a step
before may make it.

Only what is surely read is looked for: operands of programs that read files, scripts, input redirections, and in prose
what is to be read or changed. Where anything before might make the file, nothing is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ordain.core.lint.path import find_writers
from ordain.core.lint.survey import Facts, Scope, Survey
from ordain.core.plan.action import CallTool, Task
from ordain.core.plan.command import command_text, payload
from ordain.core.plan.model import Step
from ordain.core.plan.tool import DEFINITIONS
from ordain.core.policy.loading import is_named_by
from ordain.core.policy.program import bare
from ordain.core.policy.script import Script, SimpleCommand, plain_script
from ordain.core.text.control import folded
from ordain.core.text.path import path_fault
from ordain.core.text.pattern import compile_later
from ordain.core.text.problem import Problem, blame_step

_PATHS_MAX = 200
"""How many paths are looked for."""
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
    for step, path, where, own in worded_paths(survey, facts):
        scope = survey.scope_of(step)
        apart = scope.depth or step.id in scope.fallbacks or scope.order.circles or step.worktree or step.for_each
        if path not in facts.unknown_paths or path in told or apart or (own and makers.may_make(step, path)):
            continue
        made_by = makers.of(scope, path)
        if step.id not in made_by and not makers.before(scope, step, path):
            told.add(path)  # once is enough: whoever reads it looks for the others
            detail = f"The {where} of `{step.id}` needs `{path}`, which is not there and which no step before it makes."
            hint = f"`{made_by[0]}` writes it: add that to `needs`." if made_by else "Check the path."
            yield blame_step(step.id, "W_PATH_UNKNOWN", detail, hint)


class _Makers:
    """Which steps may make which files, found once for each plan and path."""

    def __init__(self, survey: Survey, facts: Facts) -> None:
        self._survey, self._facts = survey, facts
        self._writers = find_writers(survey, facts, directories=True)
        self._anything = {id(step) for step in survey.steps if not step.writes and _is_unbounded(step, facts)}
        self._masks: dict[tuple[int, str], int] = {}

    def may_make(self, step: Step, path: str) -> bool:
        """Whether a step may make a file that it does not name."""
        return id(step) in self._anything or is_named_by(path, step.writes, ())

    def of(self, scope: Scope, path: str) -> list[str]:
        """The steps of a plan that say that they write a file."""
        return [one.id for one in self._writers.of(folded(path)) if self._survey.scope_of(one) is scope]

    def before(self, scope: Scope, step: Step, path: str) -> bool:
        """Whether a step before may make a file."""
        key = id(scope), path
        if key not in self._masks:
            names = {*self.of(scope, path), *(one.id for one in scope.steps.values() if self.may_make(one, path))}
            self._masks[key] = scope.order.mask(names)
        return scope.order.after_any(self._masks[key], step.id)


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
    """The files that a script reads before it could have made any."""
    for one in script.commands:
        if one.directory != "":
            return
        operands = (*_operands(one), *one.inputs)
        for word in operands:
            if word is not None and _FILE.fullmatch(word) and ".." not in word and word not in one.outputs:
                yield word.removeprefix("./")
        if not _only_reads(one):
            return


def _operands(command: SimpleCommand) -> Iterator[str | None]:
    """The words of a command that are files it reads."""
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
