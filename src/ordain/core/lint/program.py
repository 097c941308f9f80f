"""Rules about programs: what commands, contracts and checks start is installed, or a step before brings it.

Only what is certain is told: a program that a command asks for first (`command -v x`), that it may install itself or
find by a `PATH` of its own, is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from ordain.core.lint.survey import Facts, Scope, Survey
from ordain.core.plan.action import CallTool, Task
from ordain.core.plan.command import command_text, program_of
from ordain.core.plan.model import Step
from ordain.core.policy.script import Script, plain_script, programs
from ordain.core.text.control import folded
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
    brought = _Brought()
    looking = [(step, "contract", contract.command) for step, contract in survey.contracts]
    looking += [(step, "check", text) for step, text in survey.checks]
    for step, what, text in looking:
        for program in _missing(text, facts):
            if brought.full:
                return
            if not _brings(step, program) and not brought.before(survey.scope_of(step), step, program):
                detail = f"The {what} of `{step.id}` uses `{program}`, which is not installed."
                yield blame_step(step.id, "W_CONTRACT_PROGRAM", detail, _HINT)


def command_starts(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A command whose program is not there fails only when its turn comes, after the steps before it took effect."""
    if not facts.missing_programs:
        return
    brought, users = _Brought(), dict[str, list[Step]]()
    for step, program in _started(survey, facts):
        if program in users:
            users[program].append(step)
        elif len(users) < _PROGRAMS_MAX and not brought.before(survey.scope_of(step), step, program):
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


def _missing(text: str, facts: Facts) -> list[str]:
    script = facts.scripts.get(text) or plain_script(text)
    return sorted(facts.missing_programs.intersection(programs(script))) if script is not None else []


class _Brought:
    """Which steps bring which programs, found once for each plan and program."""

    def __init__(self) -> None:
        self._masks: dict[tuple[int, str], int] = {}

    @property
    def full(self) -> bool:
        return len(self._masks) >= _PROGRAMS_MAX

    def before(self, scope: Scope, step: Step, program: str) -> bool:
        """Whether a step before brings the program."""
        key = id(scope), program
        if key not in self._masks:
            found = (name for name, other in scope.steps.items() if _brings(other, program))
            self._masks[key] = scope.order.mask(found)
        return scope.order.after_any(self._masks[key], step.id)


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
