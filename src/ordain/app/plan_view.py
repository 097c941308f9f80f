"""Looking at plans: reviews, comparisons, simulations, lists and the inbox."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ordain.app.lint import Params, plan_or_refuse
from ordain.app.proposal_copy import ProposalCopies
from ordain.app.renamed import warn_renamed
from ordain.app.review import Reviews
from ordain.app.workspace import WorkspaceView
from ordain.core.approval.approval import Principal
from ordain.core.approval.diff.difference import Comparison, Side, difference
from ordain.core.guard.plan_note import PlanNote
from ordain.core.ledger.summary import PlanSummary
from ordain.core.lineage.decision import answer_commands
from ordain.core.lineage.lineage import PlanState, Stage
from ordain.core.lineage.retention import RETENTION_STREAM
from ordain.core.plan.canonical import plan_id, short_id
from ordain.core.plan.model import Plan
from ordain.core.plan.value import PlanId, RunId
from ordain.core.policy.assignment import assignments
from ordain.core.policy.effect import planned_effects
from ordain.core.policy.settings import Settings, limits, sandbox_limits
from ordain.core.policy.tier import STRONGEST
from ordain.core.report.brief import Arbitration, arbitration, plan_standing, run_standing
from ordain.core.report.report import InboxItem, PlanLine, Review, RunReport, ToldPrompt
from ordain.core.report.risk import PlanRisk
from ordain.core.report.simulation import Simulation, foreknown, simulate
from ordain.core.run.event import Recorded
from ordain.core.run.step_event import StepState
from ordain.core.text.problem import Problem, Refused, refuse
from ordain.records.records import WORKSPACE_STREAM, Records, is_unreadable, lineage_id, names_document, names_run
from ordain.records.surroundings import Surroundings

if TYPE_CHECKING:
    from ordain.app.prompt import Prompts
    from ordain.ports.process import Shell


RISKS_SHOWN_MAX = 20
"""How many proposals of an inbox are looked through for risks, the most dangerous first."""


class PlanQueries:
    """The plans of one workspace, for whoever looks."""

    def __init__(self, here: Surroundings, reviews: Reviews, report: Callable[[RunId], RunReport]) -> None:
        self._here, self.reviews, self._report = here, reviews, report
        self.copies, self.lint, self._workspace = ProposalCopies(here), reviews.report, WorkspaceView(here)
        self.review_document, self.in_document, self.fetch = reviews.review_document, reviews.in_document, here.fetch

    @property
    def _records(self) -> Records:
        return self._here.records

    def review(self, ref: str) -> Review:
        """A stored plan as an approver must see it, with its newest run if it has one."""
        stream, identity = self._records.find(ref)
        state = self._records.lineage(stream)
        run_id = next(reversed(state.runs), None)
        return self.reviews.review(
            self._records.plan(stream, identity),
            stream,
            state,
            self.copies.drift(stream, state),
            self._report(run_id) if run_id is not None else None,
        )

    async def simulate_document(
        self, data: bytes, file: str | None = None, params: Params = (), by: Principal | None = None
    ) -> Simulation:
        """How a run of a document's plan would go. Contracts run for a person only, where policy does not deny them, in
        the sandbox of tier 1: for all others nothing of a plan runs before its run."""
        document, problems = self.reviews.lint(data, file, params)
        return await self._simulate(plan_or_refuse(document, problems), by, problems)

    async def simulate(self, ref: str, by: Principal | None = None) -> Simulation:
        """The same for a stored plan."""
        plan = self._records.plan(*self._records.find(ref))
        return await self._simulate(plan, by, self.reviews.not_yet(plan))

    async def known(self, review: Review, by: Principal) -> Review:
        """The review with what is known now of preconditions and contracts: for a person at a terminal alone, after
        policy, in the sandbox of tier 1, and soon or not at all."""
        here, plan, foresight = self._here, review.plan, _foresight()
        if not by.person or here.is_pretended(by) or here.rule(plan, here.snapshot.settings).denied:
            return review
        looked = await foresight.look_at_contracts(plan, here, *self._sandbox(by), within_ms=foresight.LOOKED_MS)
        kept = {one.step for one in review.successor.kept} if review.successor is not None else set()
        return replace(review, known=foreknown(plan, foresight.conditions_before(plan, None, here).fault, looked, kept))

    def _sandbox(self, by: Principal | None) -> tuple[Shell | None, str]:
        """Where contracts are looked at before a run, or why nowhere."""
        here = self._here
        if by is None or not by.person or here.is_pretended(by):
            return None, "not known yet: contracts of a plan run before its run only for a person at a terminal"
        if (fault := here.tier_fault(STRONGEST)) is not None or here.ports.sandbox is None:
            return None, fault or ""
        return here.ports.sandbox.shell(sandbox_limits(here.snapshot.settings)), ""

    async def _simulate(self, plan: Plan, by: Principal | None, notices: tuple[Problem, ...]) -> Simulation:
        here = self._here
        if by is not None:
            here.refuse_pretended(by)
        usual = self._records.durations() if here.has_ledger() else {}
        settings = here.snapshot.settings
        looked = await _foresight().look_at_contracts(plan, here, *self._sandbox(by))
        at_once = plan.concurrency or limits(settings).concurrency
        tasks = tuple(assignments(plan, settings, here.known_agents(settings), here.tools(settings, plan)))
        foreseen = simulate(plan, plan_id(plan), concurrency=at_once, looked=looked, usual=usual, tasks=tasks)
        return replace(foreseen, notices=(*notices, *here.rule(plan, settings).denied))

    def refuse_edited(self, ref: str, verb: str) -> None:
        """Raise Refused where a plan is named by a document that says something else by now."""
        stream, _ = self._records.find(ref)
        state = self._records.lineage(stream)
        if names_document(ref) and self._here.drift(state):
            raise refuse(
                "E_DOC_DRIFT",
                f"{state.document} is not what the plan was prepared from: it was edited or deleted since.",
                f"To have what the file says, prepare it again: ordain prepare {self._here.named(state)}",
                f"To {verb} what was prepared, name the plan: ordain {verb} {short_id(state.plan_id)}",
                command=f"ordain prepare {self._here.named(state)}",
            )

    def stored(self, ref: str) -> Side:
        """A stored plan by itself: the very one with this id, or the newest of a lineage."""
        return self._stored(*self._records.find_revision(ref))

    def last_prepared(self, document: str) -> Side:
        """The plan that was prepared last from the document of this name."""
        found = self._records.last_prepared(document) if self._here.has_ledger() else None
        if found is None:
            command = f"ordain prepare {shlex.quote(document)}"
            raise refuse("E_PLAN_NOT_FOUND", f"No plan was prepared from {document} yet.", command=command)
        return self._stored(*found)

    def prepared_before(self, document: str, identity: PlanId) -> Side | None:
        """The version that was prepared from the document of this name before that one, if there was another."""
        found = self._records.prepared_before(document, identity)
        return self._stored(*found) if found is not None else None

    def was_prepared(self, document: str) -> bool:
        """Whether a plan was ever prepared from the document of this name."""
        return self._here.has_ledger() and self._records.last_prepared(document) is not None

    def _stored(self, stream: str, identity: PlanId) -> Side:
        document = self._records.lineage(stream).document
        plan = self._records.plan(stream, identity)
        return Side(plan_id=identity, plan=plan, lineage=lineage_id(stream), document=document)

    def diff(self, old: Side, new: Side) -> Comparison:
        """What changed from one plan to another, and what of it to read first."""
        settings = self._here.snapshot.settings
        tools = self._here.tools(settings, old.plan, new.plan)
        return Comparison(old=old, new=new, difference=difference(old.plan, new.plan, tools, settings))

    def recorded(self, ref: str) -> int:
        """How many events were recorded about this plan or run: more where something happened since."""
        stream = f"run/{self._records.find_run(ref)}" if names_run(ref) else self._records.find_plan(ref)
        return self._here.ledger.size(stream)

    def __call__(self, *, open_only: bool = False, newest: int | None = None) -> tuple[PlanLine, ...]:
        warn_renamed("plans", "plans.all")
        return self.all(open_only=open_only, newest=newest)

    def all(self, *, open_only: bool = False, newest: int | None = None) -> tuple[PlanLine, ...]:
        """The plans of the workspace, oldest first, each with its newest run while that is not finished."""
        if not self._here.has_ledger():
            return ()
        return tuple(self.lines(self._here.ledger.plans(open_only=open_only, newest=newest)))

    def owned(self, by: Principal, newest: int | None = None) -> tuple[PlanSummary, ...]:
        """The plans that are this caller's to see, oldest first, among so many of the newest; none is looked at."""
        self._here.refuse_pretended(by)
        found = self._here.ledger.plans(newest=newest) if self._here.has_ledger() else ()
        return tuple(one for one in found if one.state.owned_by(by))

    def lines(self, found: Iterable[PlanSummary]) -> Iterator[PlanLine]:
        """How such plans stand. Each is looked at when it is asked for, so that a few of many cost little."""
        settings = self._here.snapshot.settings
        return (self._line(one, settings) for one in found)

    def plan_count(self) -> int:
        """How many plans the workspace has had."""
        return self._here.ledger.plan_count() if self._here.has_ledger() else 0

    def _line(self, summary: PlanSummary, settings: Settings) -> PlanLine:
        state = summary.state
        status = state.status(self._here.now())
        if status == Stage.APPROVED and self._all_revoked(state):
            status = Stage.PROPOSED
        requires_approval, destructive, run, plan = True, 0, None, None
        version = state.version(state.plan_id)
        word, feedback = str(status), state.rejections[-1].words() if state.rejections else None
        try:
            run = self._report(state.open_run) if state.open_run is not None else None
            plan = self._records.plan(summary.stream) if status == Stage.PROPOSED else None
        except Refused as refused:  # one that can not be read hides no other
            if not is_unreadable(refused):
                raise
            word, feedback = "unreadable", refused.problems[0].detail
        if plan is not None:
            requires_approval = self._here.rule(plan, settings).requires_approval
            destructive = sum(one.destructive for one in planned_effects(plan, self._here.tools(settings, plan)))
        assert state.proposer is not None
        return PlanLine(
            lineage=lineage_id(summary.stream),
            plan_id=state.plan_id,
            title=state.title,
            status=run.status if run is not None and state.continues is None else word,
            document=state.document,
            proposer=state.proposer,
            opened_at=state.opened_at,
            prepared_at=state.prepared_at,
            changed_at=state.changed_at,
            expires_at=state.expires_at,
            revisions=len(state.revisions),
            requires_approval=requires_approval,
            destructive=destructive,
            feedback=feedback,
            unused=len(state.permissions),
            last_run=next(reversed(state.runs), None),
            run=run,
            version=version.number if version is not None else len(state.revisions),
            previous_plan_id=version.previous_plan_id if version is not None else None,
            reason=version.reason if version is not None else "",
            continues=state.continues,
        )

    def _all_revoked(self, state: PlanState) -> bool:
        """Whether every approval of a plan was signed by a key that was revoked since."""
        keys = {one.approval.key or "" for one in state.permissions.values()}
        approvers = self._here.snapshot.workspace.approvers
        return all(key in approvers and approvers[key].revoked_at is not None for key in keys)

    def inbox(self) -> tuple[InboxItem, ...]:
        """Everything that waits for a person here, the most dangerous first."""
        items = [item for line in self.all(open_only=True) for item in _waiting(line, self._workspace.workspace_path)]
        items.sort(key=lambda item: (-item.destructive, item.since))
        proposals = [item for item in items if item.kind == "approval"][:RISKS_SHOWN_MAX]
        return tuple(replace(item, risks=self._risks(item)) if item in proposals else item for item in items)

    def _risks(self, item: InboxItem) -> tuple[PlanRisk, ...]:
        with contextlib.suppress(Refused):  # what cannot be shown says so where it is approved
            return self.review(item.plan_id).risks
        return ()

    def notes(self) -> tuple[PlanNote, ...]:
        """Plans in prose that agents left their plan mode with."""
        kept = self._here.ports.notes
        return kept.all() if kept is not None else ()

    def dismiss_note(self, note_id: str) -> None:
        """Forget one of them; raises Refused where there is none."""
        kept = self._here.ports.notes
        if kept is None or not kept.dismiss(note_id):
            raise refuse("E_PLAN_NOT_FOUND", f"There is no note `{note_id}`.", command="ordain inbox")

    def log(self, ref: str | None) -> tuple[Recorded, ...]:
        """The ledger's own events about a run, or about a plan and all its runs, or about the workspace itself."""
        if ref is None:
            streams = (WORKSPACE_STREAM, RETENTION_STREAM) if self._here.has_ledger() else ()
            return tuple(one for stream in streams for one in self._here.ledger.read(stream))
        if names_run(ref):
            return self._records.run_events(self._records.find_run(ref))
        return self._records.lineage_events(self._records.find_plan(ref))

    def plan_line(self, ref: str) -> PlanLine:
        """One plan as a list shows it."""
        return self._line_of(self._records.lineage(self._records.find_plan(ref)))

    def _line_of(self, state: PlanState) -> PlanLine:
        stream = self._records.find_plan(state.plan_id)
        return self._line(PlanSummary(stream=stream, state=state), self._here.snapshot.settings)

    def arbiter(self, ref: str, step: str | None) -> Arbitration:
        """What to know to choose the agent of a task of a run or plan, by default of the first not done."""
        review = None if names_run(ref) else self.review(ref)
        report = self._report(self._records.find_run(ref)) if review is None else review.run
        if report is not None and (review is None or report.plan_id == review.plan_id):
            state, identity, _ = self._records.run(report.run_id)
            standing = run_standing(state, identity, report, self._here.ports.toolbox.definitions())
        else:
            assert review is not None
            standing = plan_standing(review)
        return arbitration(standing, step, self._workspace.agents())

    async def prompt_of(self, plan: Plan, step: str) -> ToldPrompt:
        """What the agent of a step of a plan would be told now."""
        return await self.prompts.foreseen(plan, step)

    @property
    def prompts(self) -> Prompts:
        """What agents are told."""
        from ordain.app.prompt import Prompts  # few look at prompts

        return Prompts(self._here)


UNDER_WAY = (StepState.RUNNING, StepState.WAITING, StepState.VERIFYING)


def _waiting(line: PlanLine, workspace: str) -> list[InboxItem]:
    item = partial(InboxItem, title=line.title, plan_id=line.plan_id, workspace=workspace)
    short = short_id(line.plan_id)
    if line.run is not None and line.continues is not None:
        of_run = replace(line, plan_id=line.run.plan_id, continues=None)
        return [*_waiting(of_run, workspace), *_waiting(replace(line, run=None), workspace)]
    if line.run is not None and line.run.status in ("stalled", "stopped"):
        run_id, at_work = line.run.run_id, [step.id for step in line.run.steps if step.state in UNDER_WAY]
        begun = f"; {', '.join(at_work)} had begun" if at_work else ""
        silent = line.run.status == "stalled"
        why = f"no sign of life from {run_id} for too long" if silent else f"nobody carries out {run_id} any more"
        take_over = " --take-over" if silent else ""
        others = f"to end it as failed, ordain cancel {run_id} --failed{take_over}"
        return [
            item(
                kind=line.run.status,
                commands=(f"ordain resume {run_id}",),
                since=line.run.changed_at,
                detail=f"{why}{begun}; {others}",
            )
        ]
    if line.run is not None:
        return [
            item(
                kind=question.kind,
                commands=answer_commands(question),
                since=question.since or line.changed_at,
                detail=question.text,
                expires_at=question.until,
                question=question,
            )
            for question in line.run.questions
        ]
    kinds = {
        "proposed": ("approval", f"ordain approve {short}"),
        "needs_review": ("review", f"ordain show {short}"),
        "unreadable": ("unreadable", f"ordain cancel {short}"),
    }
    if line.status not in kinds or (line.status == "proposed" and not line.requires_approval):
        return []
    kind, command = kinds[line.status]
    goes_on = f"; goes on with {line.continues}" if line.continues is not None else ""
    return [
        item(
            kind=kind,
            commands=(command,),
            since=line.prepared_at,
            detail=line.feedback or "" if kind == "unreadable" else f"proposed by {line.proposer.words}{goes_on}",
            expires_at=line.expires_at if kind == "approval" else None,
            destructive=line.destructive,
        )
    ]


def _foresight() -> ModuleType:
    from ordain.app import foresight  # only what looks ahead needs the engine's conditions

    return foresight
