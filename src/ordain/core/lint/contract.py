"""Rules about commands and contracts: bash can read them, and a contract says something that may be false."""

from __future__ import annotations

from collections.abc import Iterator

from ordain.core.lint.status import constant_status, ignores_failures
from ordain.core.lint.survey import Facts, Survey, last_policy
from ordain.core.plan.actions.task import Task
from ordain.core.plan.actions.tool import CallTool
from ordain.core.plan.command import command_text
from ordain.core.plan.condition import Contract
from ordain.core.plan.failure import Fallback
from ordain.core.plan.model import Step, check_of
from ordain.core.plan.refs import without_references
from ordain.core.policy.script import Negated, Script, existence_only, programs, stops_reading, top_level
from ordain.core.text.control import folded
from ordain.core.text.problem import Problem, blame_step


def _compound(survey: Survey, facts: Facts) -> Iterator[tuple[Step, Contract, Script]]:
    """The contracts that are more than plain words, taken apart; one that nobody could take apart is left out."""
    if facts.scripts:
        for step, contract in survey.contracts:
            script = facts.scripts.get(contract.command)
            if script is not None:
                yield step, contract, script


def _all(survey: Survey, facts: Facts) -> Iterator[tuple[Step, Contract, Script]]:
    yield from survey.plain_contracts
    yield from _compound(survey, facts)


def command_syntax(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A command that bash cannot parse would fail only when its turn comes."""
    for step, action in survey.commands:
        yield from _syntax(step, "command", action.command, facts)


def contract_syntax(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A contract must say something, in words that bash can parse."""
    for step, contract in survey.contracts:
        yield from _syntax(step, "contract", contract.command, facts)


def _syntax(step: Step, what: str, text: str, facts: Facts) -> Iterator[Problem]:
    code = "E_COMMAND_SYNTAX" if what == "command" else "E_CONTRACT_SYNTAX"
    if not text or text.isspace():
        yield blame_step(step.id, code, f"The {what} of `{step.id}` is empty.")
    elif text in facts.shell_faults:
        yield blame_step(step.id, code, f"bash cannot read the {what} of `{step.id}`: {facts.shell_faults[text]}.")


def contract_status(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A process ends with a status from 0 to 255."""
    for step, contract in survey.contracts:
        if not 0 <= contract.exit_code <= 255:
            detail = f"The contract of `{step.id}` wants the exit status {contract.exit_code}."
            yield blame_step(step.id, "E_FIELD_VALUE", detail, "Exit statuses are whole numbers from 0 to 255.")


def contract_output(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """The pattern of a contract's output is one."""
    for step, contract in survey.contracts if facts.pattern_faults else ():
        fault = facts.pattern_faults.get(contract.stdout or "")
        if fault is not None and contract.stdout is not None:
            detail = f"The contract of `{step.id}` has no good `stdout` pattern: {fault}."
            hint = "Patterns are those of RE2: no look-around, no back-references."
            yield blame_step(step.id, "E_FIELD_VALUE", detail, hint)


def contract_proof(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Only a command can be seen broken before a step."""
    with_contract = {id(step) for step, _ in survey.contracts}
    for step in survey.steps:
        if step.proof is not None and id(step) not in with_contract:
            detail = f"`{step.id}` wants the proof `{step.proof}` and has no contract that could be broken first."
            yield blame_step(step.id, "E_FIELD_VALUE", detail, "Add a `contract`, or leave `proof` out.")


def contract_vacuous(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A contract that holds whatever happens proves nothing."""
    for step, contract, script in _all(survey, facts):
        by_status = contract.stdout is None or contract.stdout in facts.idle_patterns
        if by_status and constant_status(script) == contract.exit_code:
            detail = f"The contract of `{step.id}` holds whatever happens: its exit status is always the same."
            hint = "Let it end with the check itself, such as `test -s report.txt` or `pytest -q`."
            yield blame_step(step.id, "E_CONTRACT_VACUOUS", detail, hint)


def contract_negated(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """`! command` holds also when the command could not do its work."""
    for step, _, script in _compound(survey, facts):
        if constant_status(script) is None and any(isinstance(one, Negated) for one in top_level(script)):
            detail = f"The contract of `{step.id}` holds when a command fails, for whatever reason."
            hint = "Write it without `!` and add `exit_code == 1`: grep says 1 for absent, 2 for an error."
            yield blame_step(step.id, "W_CONTRACT_NEGATED", detail, hint)


def contract_pipe(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Contracts stop at the first failure, also inside a pipe, unless they switch that off."""
    for step, contract, script in _compound(survey, facts):
        words = ignores_failures(script)
        if words is not None and not (words.startswith("trap") and constant_status(script) == contract.exit_code):
            detail = f"The contract of `{step.id}` says `{words}`, so that failures inside it do not count."
            hint = f"Leave `{words}` out; where one command may fail, write `command || test $? -eq 1`."
            yield blame_step(step.id, "W_CONTRACT_PIPE", detail, hint)


def contract_unread(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Of a contract that is too long or too tangled to be taken apart, nobody can say that it is no sham."""
    for step, contract in survey.contracts if facts.unread else ():
        # One with a reference in it is refused for that.
        if contract.command in facts.unread and without_references(contract.command) == contract.command:
            detail = f"The contract of `{step.id}` cannot be looked into: failures inside it may not count."
            hint = "Put what is long into a script of the workspace, and let the contract run that."
            yield blame_step(step.id, "W_CONTRACT_PIPE", detail, hint)


def contract_existence(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """That a file is there says nothing of what is in it."""
    for step, contract, script in _all(survey, facts):
        shown = existence_only(script) if contract.stdout is None else None
        if shown is not None:
            detail = f"The contract of `{step.id}` asks only whether something is there: `{shown}`."
            hint = "Ask what is in it: `test -s FILE` for not empty, `grep PATTERN FILE >/dev/null`, `cmp A B`."
            yield blame_step(step.id, "W_CONTRACT_EXISTENCE", detail, hint)


def fallback_unproved(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Nothing can say that a step without a contract is done after all."""
    for step in survey.steps:
        last = last_policy(step.on_failure)
        if isinstance(last, Fallback) and check_of(step) is None:
            names = ", ".join(last.steps)
            detail = f"`{step.id}` falls back on {names}, and has no contract that could pass it afterwards."
            hint = "It stays failed, and the plan's failure policy follows. A contract would tell."
            yield blame_step(step.id, "W_FALLBACK_UNPROVED", detail, hint)
    for scope in survey.scopes:
        last = last_policy(scope.plan.on_failure)
        if isinstance(last, Fallback):
            plain = [one.id for one in scope.steps.values() if not last_policy(one.on_failure) and not check_of(one)]
            if plain:
                more = f" and {len(plain) - 1:,} more" if len(plain) > 1 else ""
                detail = (
                    f"The plan falls back on {', '.join(last.steps)}, and for `{plain[0]}`{more} there is no "
                    "contract that could pass it afterwards."
                )
                hint = "Such a step stays failed. A contract would tell."
                yield blame_step(plain[0], "W_FALLBACK_UNPROVED", detail, hint)


def contract_sigpipe(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Under pipefail, a reader that ends early may kill its writer and look broken."""
    for step, _, script in _compound(survey, facts):
        shown = stops_reading(script)
        if shown is not None:
            detail = f"In the contract of `{step.id}`, `{shown}` may end before the command that feeds it."
            hint = "Write `| grep PATTERN >/dev/null`, or `| sed -n 1p`, which read to the end."
            yield blame_step(step.id, "W_CONTRACT_SIGPIPE", detail, hint)


# --- Programs that are not there -----------------------------------------------------------------------------------

_INSTALLS = frozenset(["install", "add", "sync", "ci", "i", "get", "setup", "bootstrap"])
_PROGRAMS_MAX = 100
"""After so many programs that are not there, the reader has heard enough."""


def contract_missing_program(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A contract that cannot be started can never hold, unless a step before brings the program."""
    if not facts.missing_programs:
        return
    bringing: dict[tuple[int, str], int] = {}
    for step, _, script in _all(survey, facts):
        for program in facts.missing_programs.intersection(programs(script)):
            scope = survey.scope_of(step)
            key = id(scope), program
            if key not in bringing:
                if len(bringing) == _PROGRAMS_MAX:
                    return
                bringing[key] = scope.order.mask(name for name, other in scope.steps.items() if _brings(other, program))
            if not _brings(step, program) and not scope.order.after_any(bringing[key], step.id):
                detail = f"The contract of `{step.id}` uses `{program}`, which is not installed."
                yield blame_step(step.id, "W_CONTRACT_PROGRAM", detail, "Install it, or add the step that does.")


def _brings(step: Step, program: str) -> bool:
    """Whether a step may install or make a program."""
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
