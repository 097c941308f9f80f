"""`lint`: all the rules, run over a plan, all problems at once.

One small function per rule; a rule looks at the plan and the facts and knows no other rule. The order here is the
order of the corpus: structure, surroundings, contracts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ordain.core.lint import contract, later, structure, tools
from ordain.core.lint.facts import Facts
from ordain.core.model import Plan
from ordain.core.problem import Problem

__all__ = ["RULES", "lint"]

Rule = Callable[[Plan, Facts], Iterator[Problem]]

RULES: tuple[Rule, ...] = (
    structure.version,
    structure.number_of_steps,
    structure.step_ids,
    structure.needs_known,
    structure.no_cycles,
    structure.limits,
    structure.tier,
    structure.workspace,
    tools.known,
    tools.scope,
    tools.values,
    tools.arguments,
    tools.paths,
    contract.text_length,
    contract.command_syntax,
    contract.contract_syntax,
    contract.contract_vacuous,
    contract.contract_sigpipe,
    contract.contract_missing_program,
    later.not_yet,
)


def lint(plan: Plan, facts: Facts) -> tuple[Problem, ...]:
    """Everything wrong with a plan in these surroundings; empty is good."""
    return tuple(problem for rule in RULES for problem in rule(plan, facts))
