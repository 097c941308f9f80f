"""From a document or a stored plan to what can be said about it: problems, and a review with everything an approver
must see. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import msgspec

from ordain.app.lint import DocumentLint, Params, placed, plan_or_refuse
from ordain.app.retention import ANNOUNCED
from ordain.app.succession import successor as reviewed_successor
from ordain.core.approval.diff.difference import PlanDifference, Side, Since, concern_words, difference, summary
from ordain.core.lineage.lineage import PlanState, Rejection
from ordain.core.plan.canonical import plan_hash, plan_id
from ordain.core.plan.model import Plan
from ordain.core.plan.template import Filled
from ordain.core.plan.value import Instant, PlanId
from ordain.core.policy.assignment import assignments
from ordain.core.policy.bound_file import Writes, not_bound
from ordain.core.policy.effect import planned_effects
from ordain.core.policy.settings import limits
from ordain.core.policy.tier import tier_of
from ordain.core.report.file_diff import BYTES_MAX, file_diffs
from ordain.core.report.report import Review, RunReport
from ordain.core.report.simulation import foreknown
from ordain.core.report.succession import StepComment, Successor, standings
from ordain.core.text.path import handed_fault, path_fault
from ordain.core.text.problem import Problem, Refused
from ordain.documents.reading import read
from ordain.records.records import lineage_id
from ordain.records.surroundings import Surroundings


class Reviews(DocumentLint):
    """Looks at plans in their surroundings."""

    def __init__(self, here: Surroundings) -> None:
        super().__init__(here, lambda: here)
        self._here = here

    def in_document(self, data: bytes, file: str | None = None, params: Params | None = None) -> Side:
        """The plan in a document, filled in with these values, or as it stands where `params` is None; raises Refused
        when there is none to speak of. What else is wrong with it is not looked at."""
        document = read(data, file, self._here.fetch)
        if document.plan is None:
            raise Refused(document.problems)
        filled = self.filled(document.plan, params) if params is not None else Filled(plan=document.plan)
        if not isinstance(filled, Filled):
            raise Refused(tuple(placed(filled, document, file)))
        return Side(plan_id=plan_id(filled.plan), plan=filled.plan, document=file)

    def review_document(self, data: bytes, file: str | None = None, params: Params = ()) -> Review:
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
        self, plan: Plan, stream: str, state: PlanState, notices: Sequence[Problem] = (), run: RunReport | None = None
    ) -> Review:
        """A stored plan as an approver must see it."""
        now, identity = self._here.now(), plan_id(plan)
        status = state.status(now) if identity == state.plan_id else "superseded"
        review = self._review(
            plan,
            lineage=stream,
            status=status,
            document=state.document,
            notices=(*notices, *self._here.drift(state)),
            rejections=state.rejections or ((state.last_rejection,) if state.last_rejection is not None else ()),
            successor=reviewed_successor(self._here, state, plan),
        )
        proposer, origin = (state.proposer, state.origin) if identity == state.plan_id else (None, None)
        unused, version = len(state.permissions), state.version(identity)
        return msgspec.structs.replace(
            review, proposer=proposer, origin=origin, run=run, unused=unused, version=version
        )

    def _review(
        self,
        plan: Plan,
        *,
        status: str,
        document: str | None,
        notices: tuple[Problem, ...],
        lineage: str | None = None,
        rejections: tuple[Rejection, ...] = (),
        successor: Successor | None = None,
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
        own = tuple(one for one in notices if one.code not in ANNOUNCED)
        sources = RiskSources(tools, settings.understand, tasks, own, left_out, unusual, concerns)
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
            notices=notices,
            rejections=rejections,
            ledger_size=size,
            ledger_head=head.hex(),
            signature_required=settings.require_signature,
            since=since,
            since_rejected=since_rejected,
            successor=successor,
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
    """What changed since the last plan a person approved of this lineage or document, and since a later rejected
    one."""
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
