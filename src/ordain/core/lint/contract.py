"""Rules about commands and contracts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ordain.core.action import RunCommand
from ordain.core.lint.facts import Facts
from ordain.core.model import Plan, all_steps, contract_of
from ordain.core.problem import Place, Problem

__all__ = [
    "command_syntax",
    "contract_missing_program",
    "contract_sigpipe",
    "contract_syntax",
    "contract_vacuous",
    "text_length",
]

COMMAND_BYTES_MAX = 120_000
"""Linux takes a single argument of up to 128 KiB."""

_ALWAYS_TRUE = re.compile(r"(?:^|\|\||;|\n)\s*(?:true|:|exit\s+0|/bin/true)\s*;?\s*$")
_GREP_QUIET = re.compile(r"\|\s*(?:[ef]?grep)\s+(?:-\w*q\w*|--quiet|--silent)")


def _contracts(plan: Plan) -> Iterator[tuple[str, str, int]]:
    for step in all_steps(plan):
        contract = contract_of(step)
        if contract is not None:
            yield step.id, contract.command, contract.exit_code


def command_syntax(plan: Plan, facts: Facts) -> Iterator[Problem]:
    """A command that bash cannot parse would fail only when its turn comes."""
    for step in all_steps(plan):
        if isinstance(step.action, RunCommand):
            text = step.action.command
            if not text.strip():
                yield Problem(
                    code="E_COMMAND_SYNTAX", detail=f"The command of `{step.id}` is empty.", where=Place(step=step.id)
                )
            elif text in facts.shell_faults:
                yield Problem(
                    code="E_COMMAND_SYNTAX",
                    detail=f"bash cannot read the command of `{step.id}`: {facts.shell_faults[text]}.",
                    where=Place(step=step.id),
                )


def contract_syntax(plan: Plan, facts: Facts) -> Iterator[Problem]:
    """A contract must say something, in words that bash can parse."""
    for step, text, _ in _contracts(plan):
        if not text.strip():
            yield Problem(
                code="E_CONTRACT_SYNTAX", detail=f"The contract of `{step}` is empty.", where=Place(step=step)
            )
        elif text in facts.shell_faults:
            yield Problem(
                code="E_CONTRACT_SYNTAX",
                detail=f"bash cannot read the contract of `{step}`: {facts.shell_faults[text]}.",
                where=Place(step=step),
            )


def text_length(plan: Plan, facts: Facts) -> Iterator[Problem]:
    """The operating system takes a command only up to a length."""
    texts = [(step.id, step.action.command) for step in all_steps(plan) if isinstance(step.action, RunCommand)]
    for step, text in [*texts, *((step, text) for step, text, _ in _contracts(plan))]:
        if len(text.encode("utf-8", "surrogatepass")) > COMMAND_BYTES_MAX:
            yield Problem(
                code="E_STEP_LIMIT",
                detail=f"A command of `{step}` is longer than {COMMAND_BYTES_MAX} bytes.",
                where=Place(step=step),
                hints=("Put it into a script file and run that.",),
            )


def contract_vacuous(plan: Plan, facts: Facts) -> Iterator[Problem]:
    """A contract that holds whatever happens proves nothing."""
    for step, text, exit_code in _contracts(plan):
        if exit_code == 0 and _ALWAYS_TRUE.search(text):
            yield Problem(
                code="E_CONTRACT_VACUOUS",
                detail=f"The contract of `{step}` holds whatever happens: it ends in a command that always succeeds.",
                where=Place(step=step),
                hints=("Let it end with the check itself, such as `test -s report.txt` or `pytest -q`.",),
            )


def contract_sigpipe(plan: Plan, facts: Facts) -> Iterator[Problem]:
    """Under pipefail, `… | grep -q` may kill its writer and look broken."""
    for step, text, _ in _contracts(plan):
        if _GREP_QUIET.search(text):
            yield Problem(
                code="W_CONTRACT_SIGPIPE",
                detail=f"In the contract of `{step}`, `grep -q` may end before the command that feeds it.",
                where=Place(step=step),
                hints=("Write `| grep PATTERN >/dev/null`, which reads to the end.",),
            )


def contract_missing_program(plan: Plan, facts: Facts) -> Iterator[Problem]:
    """A contract that cannot be started can never hold."""
    for step, text, _ in _contracts(plan):
        if text in facts.missing_programs:
            yield Problem(
                code="W_CONTRACT_PROGRAM",
                detail=f"The contract of `{step}` uses `{facts.missing_programs[text]}`, which is not installed.",
                where=Place(step=step),
            )
