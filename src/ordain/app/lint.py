"""Checking documents: every problem of the plan in one, in its text and in these surroundings. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from ordain.core.lint.path import topics_of
from ordain.core.lint.rules import lint
from ordain.core.lint.unsupported import not_yet_refused
from ordain.core.plan.action import CallTool, Task
from ordain.core.plan.canonical import plan_hash, plan_id
from ordain.core.plan.graph import edges_fault
from ordain.core.plan.model import Plan, all_steps
from ordain.core.plan.refs import references
from ordain.core.plan.template import Filled, file_patterns, fill
from ordain.core.plan.tool import ToolDefinition, handler_of
from ordain.core.policy.settings import Settings
from ordain.core.policy.tier import tier_of
from ordain.core.report.lint_report import LintReport
from ordain.core.text.problem import Place, Problem, Refused, Severity, blame_step
from ordain.documents.document import Document
from ordain.documents.reading import read
from ordain.documents.typed_value import read_values
from ordain.records.equipment import Equipment, called

if TYPE_CHECKING:
    from ordain.records.surroundings import Surroundings

_OF_CONFIGURATION = frozenset(
    ["E_AGENT_UNKNOWN", "E_STEP_AGENT", "E_TOOL_UNKNOWN", "E_TOOL_OPERATION", "E_ACTION_UNKNOWN"]
)
"""What a plan lacks that only a configuration can give it."""
Params = Sequence[tuple[str, str]]
"""Names and values of a template's parameters, as they were typed."""


class DocumentLint:
    """Looks at documents in their surroundings. The record is opened only where there is one: linting must not need a
    state directory, and starts sooner without."""

    def __init__(self, equipment: Equipment, whole: Callable[[], Surroundings]) -> None:
        self._equipment, self.whole = equipment, whole

    @property
    def here(self) -> Equipment:
        """What a document is judged by: with the settings of the record, where there is one."""
        return self.whole() if self._equipment.has_ledger() else self._equipment

    def report(self, data: bytes, file: str | None = None, params: Params = ()) -> LintReport:
        """Everything wrong with a document, in its text and in these surroundings. Writes nothing. A template is looked
        at as it is; with values for its parameters, the plan it becomes."""
        document, problems = self.lint(data, file, params or None)
        if all(problem.severity is not Severity.ERROR for problem in problems):
            problems += self.denied(document, file)
        problems += self.untrusted(problems)
        plan = document.plan
        identity = plan_id(plan) if plan is not None else None
        filled = self.filled(plan, ()) if plan is not None and plan.params and not params else None
        return LintReport(
            wanted=filled if isinstance(filled, tuple) else (),
            file=file,
            dialect=document.dialect or document.notation,
            plan_id=identity,
            plan_hash=plan_hash(identity) if identity is not None else None,
            title=plan.title if plan is not None else None,
            steps=len(plan.steps) if plan is not None else 0,
            problems=problems,
        )

    def lint(
        self, data: bytes, file: str | None, params: Params | None, *, storing: bool = False
    ) -> tuple[Document, tuple[Problem, ...]]:
        """The document with the plan it becomes with these values, or as it stands where `params` is None; `storing`
        when it is to be stored, so that every setting in force counts."""
        document = read(data, file, self.here.fetch)
        origin: Mapping[str, str] = {}
        if params is not None and document.plan is not None:
            filled = self.filled(document.plan, params)
            if not isinstance(filled, Filled):
                problems = (*document.problems, *placed(filled, document, file))
                return msgspec.structs.replace(document, plan=None), problems
            document, origin = msgspec.structs.replace(document, plan=filled.plan), filled.origin
        plan = document.plan or document.partial
        if plan is None:
            return document, document.problems
        found = (*self._lint(plan, partial=document.plan is None, storing=storing), *_of_dialect(document, plan))
        return document, (*document.problems, *placed(found, document, file, origin))

    def not_yet(self, plan: Plan, here: Surroundings | None = None) -> tuple[Problem, ...]:
        """What of a plan this version does not carry out; such a plan is not stored, and was not since it is so."""
        here = here or self.whole()
        settings = here.snapshot.settings
        tier = tier_of(plan, settings.tier)
        return not_yet_refused(plan, here.tools(settings), panes=here.ports.panes is not None, tier=tier)

    def denied(self, document: Document, file: str | None) -> tuple[Problem, ...]:
        """Why policy lets nobody store a document's plan, where there is a policy that can be read."""
        plan = document.plan
        if plan is None or not self._equipment.has_ledger():
            return ()
        here = self.whole()
        with suppress(Refused):  # linting must not need a state directory
            return tuple(placed(here.rule(plan, here.snapshot.settings).denied, document, file))
        return ()

    def untrusted(self, problems: Sequence[Problem]) -> tuple[Problem, ...]:
        """That the configuration does not count, where it could say what a plan was found to lack."""
        if any(problem.code in _OF_CONFIGURATION for problem in problems):
            with suppress(Refused):  # linting must not need a state directory
                return tuple(one for one in self.whole().snapshot.notices if one.code == "W_CONFIG_UNTRUSTED")
        return ()

    def lint_plan(self, plan: Plan) -> tuple[Problem, ...]:
        """The same for a plan made by code."""
        return self._lint(plan, partial=False, storing=True)

    def _lint(self, plan: Plan, *, partial: bool, storing: bool) -> tuple[Problem, ...]:
        # The ledger is looked at only for a plan that names its workspace, or what only a trusted configuration can
        # say: linting must not need a state directory.
        if (crowded := edges_fault(plan)) is not None:
            return (crowded,)  # before anything is looked at for it
        here = self.here
        known = {**here.ports.toolbox.definitions(), **here.ports.sources.registered()}
        named = plan.workspace_id is not None and here.has_ledger()
        workspace_id = self.whole().records.workspace_id() if named else None
        settings = here.settings_there() if storing or _asks_settings(plan, known) else Settings()
        tools, unreached = here.found_tools(settings, set(called(plan)))
        settings = msgspec.structs.replace(settings, agents=here.known_agents(settings))
        facts = here.ports.workspace.facts(plan, tools, settings, workspace_id)
        tier = tier_of(plan, settings.tier)
        fault = here.tier_fault(tier)
        had = {"tier": 0, "tier_fault": fault} if fault is not None else {"tier": tier}
        topics = {name for step in all_steps(plan) if isinstance(step.action, Task) for name in topics_of(step.action)}
        facts = msgspec.structs.replace(
            facts,
            panes=here.ports.panes is not None,
            unreached=unreached,
            agents=here.known_agents(settings),
            agent_faults={**here.arbiter_fault(plan, settings), **here.agent_faults(plan, settings)},
            empty_topics=frozenset(topics - here.topics_there() if topics else ()),
            **had,
        )
        return lint(plan, facts, partial=partial)

    def filled(self, plan: Plan, params: Params) -> Filled | tuple[Problem, ...]:
        """The plan a template becomes with these values, or what is wrong with them."""
        values, wrong = read_values(plan.params, params)
        made = fill(plan, values, self.matching(plan), {name for name, _ in params if name not in values})
        return made if isinstance(made, Filled) else (*wrong, *made)

    def matching(self, plan: Plan) -> Mapping[str, tuple[str, ...]]:
        """The names of the files that each pattern among a template's parameters means."""
        return {pattern: self._equipment.ports.workspace.files(pattern) for pattern in file_patterns(plan)}


def _of_dialect(document: Document, plan: Plan) -> Iterator[Problem]:
    """What a document in the form of another program would mean there, and does not here."""
    followed = [step.id for step in plan.steps if step.on_failure is None]
    if document.dialect == "s2" and plan.on_failure is None and followed and len(plan.steps) > 1:
        detail = "In this dialect, steps that do not need a failed one go on. Ordain ends the run at the first failure."
        hint = "Write `critical: false` in the steps whose failure should not end it."
        yield blame_step(followed[0], "W_DIALECT_FAILURE", detail, hint)


def plan_or_refuse(document: Document, problems: Sequence[Problem]) -> Plan:
    """The plan of a document that has no errors."""
    if document.plan is None or any(problem.severity is not Severity.WARNING for problem in problems):
        raise Refused(problems)
    return document.plan


def placed(
    problems: Sequence[Problem], document: Document, file: str | None, origin: Mapping[str, str] | None = None
) -> Iterator[Problem]:
    """The same problems with the line in the document where their step begins, or the step it was generated from, or
    where the field of the plan stands; what its reader told already is left out."""
    told = {(problem.code, problem.where.step if problem.where else None) for problem in document.problems}
    unknown = {(problem.code, problem.detail): problem.where for problem in document.unknown}
    for problem in problems:
        step = problem.where.step if problem.where is not None else None
        if (problem.code, step) in told:
            continue
        if problem.code == "E_PLAN_TOO_MANY_EDGES":  # to find its line would cost more than all that was refused
            yield msgspec.structs.replace(problem, where=Place(file=file))
            continue
        field = problem.where.field if problem.where is not None else None
        place = _place_of((origin or {}).get(step, step) if step else "", document)
        place = document.fields.get(field, place) if field is not None else place
        place = unknown.get((problem.code, problem.detail)) or place
        where = msgspec.structs.replace(place, file=place.file or file, step=step)
        yield msgspec.structs.replace(problem, where=where)


def _place_of(step: str, document: Document) -> Place:
    """Where a step of the document, or the only one of this name in plans inside it, is; nowhere if in other files
    too."""
    inside = [place for name, place in document.inner.items() if name.rpartition("/")[2] == step]
    if step in document.places:
        own = document.places[step]
        return own if all(place.file == own.file for place in inside) else Place()
    return inside[0] if len(inside) == 1 else Place()


def _asks_settings(plan: Plan, tools: Mapping[str, ToolDefinition]) -> bool:
    """Whether lint needs the settings: for agents, tools that are not built in, or steps that may be skipped."""
    return plan.agent is not None or any(
        isinstance(step.action, Task)
        or handler_of(step.action) is not None
        or (
            isinstance(step.action, CallTool)
            and (step.action.tool not in tools or next(references(step.action.args), None) is not None)
        )
        for step in all_steps(plan)
    )
