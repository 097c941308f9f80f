"""From a document or a stored plan to what can be said about it: problems, and a review with everything an approver
must see. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from ordain.app.succession import successor as reviewed_successor
from ordain.core.approval.approval import Principal
from ordain.core.approval.diff.difference import PlanDifference, Side, Since, concern_words, difference, summary
from ordain.core.lineage.comment import StepComment, standings
from ordain.core.lineage.lineage import PlanState, Rejection, Version
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
from ordain.core.plan.value import Instant, PlanId
from ordain.core.policy.assignment import assignments
from ordain.core.policy.bound_file import Writes, not_bound
from ordain.core.policy.effect import planned_effects
from ordain.core.policy.settings import Settings, limits
from ordain.core.policy.tier import tier_of
from ordain.core.report.file_diff import BYTES_MAX, file_diffs
from ordain.core.report.foreknown import foreknown
from ordain.core.report.report import Review, RunReport
from ordain.core.report.succession import Successor
from ordain.core.text.path import handed_fault, path_fault
from ordain.core.text.problem import Place, Problem, Refused, Severity, blame_step
from ordain.documents.document import Document
from ordain.documents.reading import read
from ordain.documents.typed_value import read_values
from ordain.records.records import lineage_id
from ordain.records.surroundings import Surroundings, called

_OF_CONFIGURATION = frozenset(
    ["E_AGENT_UNKNOWN", "E_STEP_AGENT", "E_TOOL_UNKNOWN", "E_TOOL_OPERATION", "E_ACTION_UNKNOWN"]
)
"""What a plan lacks that only a configuration can give it."""
Params = Sequence[tuple[str, str]]
"""Names and values of a template's parameters, as they were typed."""


class Reviews:
    """Looks at plans in their surroundings."""

    def __init__(self, here: Surroundings) -> None:
        self._here = here

    def lint(
        self, data: bytes, file: str | None, params: Params | None, *, storing: bool = False
    ) -> tuple[Document, tuple[Problem, ...]]:
        """The document with the plan it becomes with these values, or as it stands where `params` is None; `storing`
        when it is to be stored, so that every setting in force counts."""
        document = read(data, file, self._here.fetch)
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
        here = here or self._here
        settings = here.snapshot.settings
        tier = tier_of(plan, settings.tier)
        return not_yet_refused(plan, here.tools(settings), panes=here.ports.panes is not None, tier=tier)

    def denied(self, document: Document, file: str | None) -> tuple[Problem, ...]:
        """Why policy lets nobody store a document's plan, where there is a policy that can be read."""
        here, plan = self._here, document.plan
        if plan is None or not here.has_ledger():
            return ()
        with suppress(Refused):  # linting must not need a state directory
            return tuple(placed(here.rule(plan, here.snapshot.settings).denied, document, file))
        return ()

    def untrusted(self, problems: Sequence[Problem]) -> tuple[Problem, ...]:
        """That the configuration does not count, where it could say what a plan was found to lack."""
        if any(problem.code in _OF_CONFIGURATION for problem in problems):
            with suppress(Refused):  # linting must not need a state directory
                return tuple(one for one in self._here.snapshot.notices if one.code == "W_CONFIG_UNTRUSTED")
        return ()

    def lint_plan(self, plan: Plan) -> tuple[Problem, ...]:
        """The same for a plan made by code."""
        return self._lint(plan, partial=False, storing=True)

    def _lint(self, plan: Plan, *, partial: bool, storing: bool) -> tuple[Problem, ...]:
        # The ledger is looked at only for a plan that names its workspace, or what only a trusted configuration can
        # say: linting must not need a state directory.
        if (crowded := edges_fault(plan)) is not None:
            return (crowded,)  # before anything is looked at for it
        here = self._here
        known = {**here.ports.toolbox.definitions(), **here.ports.sources.registered()}
        named = plan.workspace_id is not None and here.has_ledger()
        workspace_id = here.records.workspace_id() if named else None
        asked = here.has_ledger() and (storing or _asks_settings(plan, known))
        settings = here.snapshot.settings if asked else Settings()
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
        return {pattern: self._here.ports.workspace.files(pattern) for pattern in file_patterns(plan)}

    def in_document(self, data: bytes, file: str | None, params: Params | None) -> Side:
        """The plan in a document, filled in with these values, or as it stands where `params` is None; raises Refused
        when there is none to speak of. What else is wrong with it is not looked at."""
        document = read(data, file, self._here.fetch)
        if document.plan is None:
            raise Refused(document.problems)
        filled = self.filled(document.plan, params) if params is not None else Filled(plan=document.plan)
        if not isinstance(filled, Filled):
            raise Refused(tuple(placed(filled, document, file)))
        return Side(plan_id=plan_id(filled.plan), plan=filled.plan, document=file)

    def review_document(self, data: bytes, file: str | None, params: Params) -> Review:
        """What a document's plan would do; raises Refused when it has errors."""
        document, problems = self.lint(data, file, params)
        if document.plan is None and not params and {problem.code for problem in problems} >= {"E_PARAM"}:
            # A template whose values are still wanted can be looked at all the same.
            wanted = tuple(problem for problem in problems if problem.code == "E_PARAM")
            document, problems = self.lint(data, file, None)
            plan = plan_or_refuse(document, problems)
            return self._review(plan, status="template", document=file, notices=(*wanted, *problems))
        plan = plan_or_refuse(document, problems)
        return self._review(plan, status="draft", document=file, notices=problems)

    def review(
        self,
        plan: Plan,
        stream: str,
        state: PlanState,
        notices: Sequence[Problem] = (),
        run: RunReport | None = None,
    ) -> Review:
        """A stored plan as an approver must see it."""
        now, identity = self._here.now(), plan_id(plan)
        status = state.status(now) if identity == state.plan_id else "superseded"
        review = self._review(
            plan,
            lineage=stream,
            status=status,
            document=state.document,
            proposer=state.proposer if identity == state.plan_id else None,
            notices=(*notices, *self._here.drift(state)),
            run=run,
            rejections=state.rejections or ((state.last_rejection,) if state.last_rejection is not None else ()),
            unused=len(state.permissions),
            successor=reviewed_successor(self._here, state, plan),
            version=state.version(identity),
        )
        return msgspec.structs.replace(review, origin=state.origin if identity == state.plan_id else None)

    def _review(
        self,
        plan: Plan,
        *,
        status: str,
        document: str | None,
        notices: tuple[Problem, ...],
        lineage: str | None = None,
        proposer: Principal | None = None,
        run: RunReport | None = None,
        rejections: tuple[Rejection, ...] = (),
        unused: int = 0,
        successor: Successor | None = None,
        version: Version | None = None,
    ) -> Review:
        from ordain.core.report.risk_search import RiskSources, find_risks  # only where a plan is shown

        here = self._here.held()
        settings = here.snapshot.settings
        ruling, tier = here.rule(plan, settings), tier_of(plan, settings.tier)
        identity, tools = plan_id(plan), here.tools(settings, plan)
        base, workspace = here.base(plan), here.ports.workspace.identity()[0]
        writes = Writes(tools, here.scripts(plan), tier, here.ports.workspace.real_path)

        def hidden(path: str) -> bool:  # an agent could ask for any file of the machine whether it is there
            return not here.ports.terminal and here.ports.workspace.real_path(path)[:1] == "/"

        operands = {path: what for path, what in base.operands.items() if not hidden(path)}
        since, since_rejected = _since(here, plan, identity, lineage, document) if lineage is not None else (None, None)
        requires_approval, reasons = ruling.requires_approval, ruling.reasons
        if successor is not None:
            if since is not None and since.plan_id == successor.previous_plan_id:
                since = None  # it is told as what changes from the run on
            requires_approval, reasons = not successor.unasked, successor.reasons(reasons)
        size, head = here.ledger.checkpoint() if lineage is not None else (0, b"")
        notices = (*notices, *here.snapshot.notices, *ruling.denied, *here.ports.weaknesses)
        tasks = tuple(assignments(plan, settings, here.known_agents(settings), tools))
        left_out = not_bound(plan, here.named_files(plan), base.operands, writes, hidden)
        unusual = here.unusual(plan, settings)
        concerns = since.concerns if since is not None else ()
        sources = RiskSources(tools, settings.understand, tasks, notices, left_out, unusual, concerns)
        return Review(
            plan_id=identity,
            plan_hash=plan_hash(identity),
            lineage=lineage_id(lineage) if lineage is not None else None,
            status=status,
            plan=plan,
            workspace=workspace,
            requires_approval=requires_approval,
            reasons=reasons,
            effects=planned_effects(plan, tools, settings),
            risks=find_risks(plan, sources),
            diffs=file_diffs(plan, partial(_text_of, here)),
            tasks=tasks,
            known=foreknown(plan),
            tier=tier,
            base=msgspec.structs.replace(base, operands=operands),
            not_bound=left_out,
            unusual=unusual,
            limits=limits(
                settings, agents=here.covered_agents(plan, settings), tier=tier, among=here.among(plan, settings)
            ),
            document=document,
            proposer=proposer,
            notices=notices,
            run=run,
            rejections=rejections,
            unused=unused,
            ledger_size=size,
            ledger_head=head.hex(),
            signature_required=settings.require_signature,
            since=since,
            since_rejected=since_rejected,
            successor=successor,
            version=version,
            comments=tuple(_comments(here, plan, identity, lineage, rejections)) if lineage is not None else (),
        )


def _text_of(here: Surroundings, path: str) -> str | None:
    """What is in a file of the workspace, without secrets; None where it is no text that anybody may be shown."""
    if path_fault(path) is not None or handed_fault(path, touched=True) is not None:
        return None
    try:
        data, size = here.ports.workspace.beginning(path, BYTES_MAX, here.snapshot.settings.secret_files)
        return here.redactor().text(data.decode()) if size <= BYTES_MAX else None
    except (Refused, UnicodeDecodeError):
        return None


def _since(
    here: Surroundings, plan: Plan, identity: PlanId, lineage: str, document: str | None
) -> tuple[Since | None, Since | None]:
    """What changed since the last plan a person approved of this lineage or from this document, and since the last
    one that was rejected, where that was later; None where that is nothing."""
    approved = here.records.last_approved(lineage, document, besides=identity)
    rejected = here.records.last_rejected(lineage, document, besides=identity)
    if approved is not None and rejected is not None and (approved[0] > rejected[0] or approved[2] == rejected[2]):
        rejected = None
    return _change(here, plan, approved, approved=True), _change(here, plan, rejected, approved=False)


def _comments(
    here: Surroundings, plan: Plan, identity: PlanId, lineage: str, rejections: Sequence[Rejection]
) -> Iterator[StepComment]:
    """What became of what was said about steps of the versions before this one."""
    for one in rejections:
        if one.plan_id == identity or not one.comments:
            continue
        former = here.records.readable_plan(lineage, one.plan_id)
        if former is not None:
            settings = here.snapshot.settings
            yield from standings(one, difference(former, plan, here.tools(settings, former, plan), settings))


def _change(
    here: Surroundings, plan: Plan, found: tuple[Instant, str, PlanId] | None, *, approved: bool
) -> Since | None:
    if found is None or (former := here.records.readable_plan(found[1], found[2])) is None:
        return None
    settings = here.snapshot.settings
    changed = difference(former, plan, here.tools(settings, former, plan), settings)
    return Since(
        plan_id=found[2],
        approved_at=found[0] if approved else None,
        rejected_at=found[0] if not approved else None,
        concerns=tuple(detail for _, detail in concern_words(changed.concerns)),
        summary=summary(changed),
        changes=PlanDifference(fields=changed.fields, steps=changed.steps, fallbacks=changed.fallbacks),
    )


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
        where = msgspec.structs.replace(place, file=place.file or file, step=step)
        yield msgspec.structs.replace(problem, where=where)


def _place_of(step: str, document: Document) -> Place:
    """Where a step is: one of the document itself, or the only one of this name in the plans inside it. Nowhere where
    one of this name is in another file too."""
    inside = [place for name, place in document.inner.items() if name.rpartition("/")[2] == step]
    if step in document.places:
        own = document.places[step]
        return own if all(place.file == own.file for place in inside) else Place()
    return inside[0] if len(inside) == 1 else Place()


def _asks_settings(plan: Plan, tools: Mapping[str, ToolDefinition]) -> bool:
    """Whether lint needs the settings to judge a plan: it names agents, tools that are not built in, or results of
    steps that the settings may let be skipped."""
    return plan.agent is not None or any(
        isinstance(step.action, Task)
        or handler_of(step.action) is not None
        or (
            isinstance(step.action, CallTool)
            and (step.action.tool not in tools or next(references(step.action.args), None) is not None)
        )
        for step in all_steps(plan)
    )
