"""`lint`: all the rules, run over a plan, all problems at once.

One small function per rule; a rule looks at the survey of the plan and at the facts, and knows no other rule. The order
here is the order of the corpus: structure, references, surroundings, contracts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ordain.core.lint import agents, content, contract, later, limits, paths, reference, secret, structure, tools
from ordain.core.lint.facts import Facts
from ordain.core.lint.survey import Survey
from ordain.core.model import Plan
from ordain.core.problem import Problem

__all__ = ["RULES", "lint"]

Rule = Callable[[Survey, Facts], Iterator[Problem]]

RULES: tuple[Rule, ...] = (
    structure.version,
    structure.number_of_steps,
    structure.nesting,
    structure.step_ids,
    structure.names,
    structure.needs_known,
    structure.fallbacks_known,
    structure.no_cycles,
    structure.fallbacks_end,
    structure.params,
    structure.repeated,
    limits.limits,
    limits.text_length,
    content.texts,
    content.lengths,
    content.numbers,
    content.values,
    structure.tier,
    structure.workspace,
    reference.known,
    reference.misspelt,
    reference.comes_before,
    reference.may_be_missing,
    reference.places,
    reference.expressions,
    tools.known,
    tools.operations,
    tools.scope,
    tools.arguments,
    tools.sizes,
    tools.variables,
    agents.named,
    agents.known,
    agents.workflows,
    agents.budget,
    paths.read_kinds,
    paths.beneath,
    paths.reads_there,
    paths.writes_apart,
    secret.no_secrets,
    contract.command_syntax,
    contract.contract_syntax,
    contract.contract_status,
    contract.contract_vacuous,
    contract.contract_negated,
    contract.contract_pipe,
    contract.contract_existence,
    contract.contract_sigpipe,
    contract.contract_missing_program,
    later.not_yet,
)


def lint(plan: Plan, facts: Facts) -> tuple[Problem, ...]:
    """Everything wrong with a plan in these surroundings; empty is good."""
    survey = Survey(plan)
    return tuple(problem for rule in RULES for problem in rule(survey, facts))
