"""`lint`: all the rules, run over a plan, all problems at once. A rule looks at the survey of the plan and at the
facts, and knows no other rule. The order here is the order of the corpus: structure, references, surroundings,
contracts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ordain.core.lint import agent as agents
from ordain.core.lint import content, contract, reference, structure, unsupported
from ordain.core.lint import path as paths
from ordain.core.lint import program as programs
from ordain.core.lint import tool as tools
from ordain.core.lint.survey import Facts, Survey
from ordain.core.plan.model import Plan
from ordain.core.text.problem import Problem

Rule = Callable[[Survey, Facts], Iterator[Problem]]

RULES: tuple[Rule, ...] = (
    *(structure.version, structure.number_of_steps, structure.nesting, structure.step_ids, structure.names),
    *(structure.needs_known, structure.fallbacks_known, structure.no_cycles, structure.fallbacks_end, structure.locks),
    *(structure.params, structure.repeated, structure.limits, structure.budgets, structure.text_length),
    *(content.texts, content.letters, content.lengths, content.numbers, content.values, content.questions),
    *(structure.tier, structure.held_writes, structure.workspace, structure.length_of_title),
    *(reference.known, reference.misspelt, reference.options, reference.comes_before, reference.completed_known),
    *(reference.reads_known, reference.may_be_missing, reference.places, reference.expressions, reference.data_order),
    *(tools.known, tools.handlers, tools.operations, tools.scope, tools.arguments, tools.secrets, tools.requests),
    *(tools.sizes, tools.variables),
    *(agents.named, agents.known, agents.startable, agents.used, agents.workflows, agents.unverified, agents.budget),
    *(agents.uncounted, agents.elsewhere),
    *(paths.read_kinds, paths.beneath, paths.protecting, paths.reads_there, paths.topics_there, paths.writes_apart),
    *(paths.edits_fit, paths.protected_apart),
    content.no_secrets,
    *(contract.syntax, contract.syntax_unasked, contract.contract_status, contract.contract_output),
    *(contract.contract_proof, contract.contract_vacuous, contract.expression_vacuous, contract.contract_negated),
    contract.contract_pipe,
    *(contract.contract_unread, contract.contract_existence, contract.contract_sigpipe, contract.fallback_unproved),
    *(programs.contract_starts, programs.command_starts, programs.named_there),
    unsupported.not_yet,
)


WANT_ALL: frozenset[Rule] = frozenset(
    (
        *(structure.number_of_steps, structure.step_ids, structure.needs_known, structure.fallbacks_known),
        *(structure.no_cycles, structure.fallbacks_end, structure.locks),
        *(reference.known, reference.comes_before, reference.completed_known, reference.reads_known),
        *(reference.may_be_missing, reference.expressions, reference.data_order),
        *(agents.named, agents.used, agents.budget, agents.uncounted),
        *(paths.reads_there, paths.edits_fit, paths.writes_apart, paths.protected_apart),
        *(programs.contract_starts, programs.command_starts, programs.named_there),
    )
)
"""Rules that could be wrong about a plan of which a part is missing: what they miss may stand in that part."""


def lint(plan: Plan, facts: Facts, *, partial: bool = False) -> tuple[Problem, ...]:
    """Everything wrong with a plan in these surroundings; of a partial one what is wrong whatever the rest says."""
    survey = Survey(plan)
    rules = [rule for rule in RULES if rule not in WANT_ALL] if partial else RULES
    return tuple(problem for rule in rules for problem in rule(survey, facts))
