"""The verbs about plans: prepare, revise, reject, cancel, archive, and the expiry that announces itself. Every decision
is recorded against the lineage as it stood when it was made, with who decided and through which channel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

import msgspec

from ordain.app.lint import Params, placed, plan_or_refuse
from ordain.app.plan_view import PlanQueries
from ordain.app.refusals import Refusals
from ordain.app.retention import Retention
from ordain.app.review import Reviews
from ordain.core.approval.approval import Principal
from ordain.core.approval.diff.pairing import checks_of, is_same_work, work_of
from ordain.core.ledger.summary import PlanSummary
from ordain.core.lineage.lineage import TRANSITIONS, PlanState, Rejection, Stage
from ordain.core.plan.canonical import canonical_bytes, plan_id, reread_plan, short_id
from ordain.core.plan.model import Plan
from ordain.core.plan.template import Filled
from ordain.core.plan.value import Instant, PlanId, RunId, StepId
from ordain.core.policy.agent import unheld_problems
from ordain.core.policy.settings import Settings
from ordain.core.policy.tier import tier_of
from ordain.core.report.report import PlanLine, Prepared, RunReport
from ordain.core.run.event import (
    LineageEvent,
    PlanArchived,
    PlanCancelled,
    PlanExpired,
    PlanOrigin,
    PlanPrepared,
    PlanRejected,
)
from ordain.core.text.limit import DAY_MS, HOUR_MS
from ordain.core.text.problem import Place, Problem, Refused, Severity, closest, refuse
from ordain.core.text.redaction import Redactor
from ordain.documents.document import Document
from ordain.documents.include import document_digest
from ordain.records.records import first_lineage, lineage_id, refuse_foreign, refuse_superseded
from ordain.records.surroundings import Surroundings


class Source(NamedTuple):
    """The document that a plan comes from, if it is a file."""

    file: str | None = None
    sha256: str | None = None
    origin: PlanOrigin | None = None
    """Where a planner of ours wrote it: how it came to be."""


class Succession(NamedTuple):
    """What is said with a new version of a plan that has a run."""

    run_id: RunId | None = None
    """The run to go on with, where one was named; else the one that is open."""
    again_from: StepId | None = None
    reason: str = ""


_REVISED = (Stage.PROPOSED, Stage.APPROVED, Stage.REJECTED, Stage.NEEDS_REVIEW, Stage.EXPIRED)
"""Where preparing a changed document makes a revision; what ran or was put away stays as it was."""
_PUT_AWAY = (Stage.CANCELLED, Stage.ARCHIVED)
"""Where it makes one as well if the plan was rejected: putting it away does not undo what was said."""
ARCHIVED_AT_ONCE = 100
"""How many plans that ended long ago are archived at a time."""
PER_HOUR = 200
"""How many plans an agent can propose within an hour."""
REVISIONS_MAX = 100
"""How many revisions of one plan agents can propose."""
LIFE_MAX = 1_000
"""How many events the story of a plan has when agents can add no more proposals to it."""
LOOKED_BACK = 1_000
"""Among how many of the newest plans is looked for one that was rejected and comes again in other words."""
FEEDBACK_MAX = 4_000
"""How much can be said about a plan that is rejected; it is shown whole wherever the plan is."""


class PlanVerbs(PlanQueries):
    """The plans of one workspace."""

    def __init__(
        self,
        here: Surroundings,
        reviews: Reviews,
        report: Callable[[RunId], RunReport],
        refusals: Refusals,
        *,
        per_hour: int = PER_HOUR,
        revisions_max: int = REVISIONS_MAX,
        life_max: int = LIFE_MAX,
    ) -> None:
        super().__init__(here, reviews, report)
        self._refusals = refusals
        self._per_hour, self._revisions_max, self._life_max = per_hour, revisions_max, life_max

    # --- Proposing -------------------------------------------------------------------------------------------------

    async def prepare(
        self, data: bytes, file: str | None, by: Principal, params: Params = (), origin: PlanOrigin | None = None
    ) -> Prepared:
        """Check a document and store its plan's bytes; what was stored is what can be approved and run. The plan of a
        document that was prepared before, and not carried out yet, is a revision of that one. Values for parameters, as
        they were typed, make a plan of its own; `origin` says how a plan of a planner came to be."""
        async with self._refusals.recording("prepare", file or "", by):
            document, problems = self.reviews.lint(data, file, params, storing=True)
            plan = plan_or_refuse(document, problems)
            stream = None if params or file is None else self._revised(file)
            source = Source(file, document_digest(data, document.included), origin)
            return await self._prepare(plan, by, problems, source, stream)

    async def prepare_plan(self, plan: Plan, by: Principal) -> Prepared:
        """The same for a plan made by code; a template takes the defaults of its parameters."""
        async with self._refusals.recording("prepare", str(getattr(plan, "title", "")), by):
            filled = self.reviews.filled(reread_plan(plan), ())
            if not isinstance(filled, Filled):
                raise Refused(filled)
            problems = self.reviews.lint_plan(filled.plan)
            plan_or_refuse(Document(plan=filled.plan, problems=()), problems)
            return await self._prepare(filled.plan, by, problems, Source(), None)

    async def revise(
        self,
        ref: str,
        by: Principal,
        data: bytes | None = None,
        file: str | None = None,
        params: Params = (),
        origin: PlanOrigin | None = None,
        *,
        reason: str = "",
    ) -> Prepared:
        """Replace a plan by another one of the same lineage: from a document, or from its own, edited since. While a
        run of it is open, that proposes to go on with the run by the new plan: the run stays as it is until then."""
        async with self._refusals.asked_for("revise", ref, by):
            succession = Succession(reason=reason)
            return await self._revise(ref, by, data, file, params, origin, succession)

    async def succeed(
        self,
        run: str,
        by: Principal,
        data: bytes,
        file: str | None = None,
        params: Params = (),
        origin: PlanOrigin | None = None,
        *,
        again_from: str | None = None,
        reason: str = "",
    ) -> Prepared:
        """Propose to go on with a run, also after its end, by another plan. Nothing is kept from `again_from` on."""
        step = StepId(again_from) if again_from is not None else None
        async with self._refusals.asked_for("rerun", run, by):
            run_id = self._records.find_run(run)
            succession = Succession(run_id=run_id, again_from=step, reason=reason)
            return await self._revise(run_id, by, data, file, params, origin, succession)

    async def _revise(
        self,
        ref: str,
        by: Principal,
        data: bytes | None,
        file: str | None,
        params: Params,
        origin: PlanOrigin | None,
        succession: Succession,
    ) -> Prepared:
        stream = self._here.records.find_lineage(ref)
        state = self._here.records.lineage(stream)
        if data is None:
            file = state.document
            path = file or self.copies.path(stream)
            data = self.copies.text(stream) if file is None else self._here.ports.workspace.document(path)
            if data is None:
                detail = f"{path}, which the plan was prepared from, cannot be read."
                raise refuse("E_DOC_NOT_FOUND", detail, command=f"ordain revise {short_id(state.plan_id)} DOCUMENT")
        document, problems = self.reviews.lint(data, file, params, storing=True)
        plan = plan_or_refuse(document, problems)
        known = self._here.records.lineage_of(plan_id(plan))
        if known not in (None, stream):
            detail = f"This very plan is known as {lineage_id(known or '')} already; a plan belongs to one lineage."
            raise refuse("E_PLAN_EXISTS", detail, command=f"ordain show {short_id(plan_id(plan))}")
        digest = document_digest(data, document.included) if file is not None else None
        source = Source(file, digest, origin)
        return await self._prepare(plan, by, problems, source, stream, succession)

    def judge(self, data: bytes) -> tuple[Document, tuple[Problem, ...]]:
        """Everything that keeps a document from being proposed as it stands, and all it is warned of."""
        document, problems = self.reviews.lint(data, None, (), storing=True)
        if document.plan is not None and all(one.severity is Severity.WARNING for one in problems):
            problems += tuple(placed(self._unfit(document.plan, self._here.held()), document, None))
        return document, problems

    def _unfit(self, plan: Plan, here: Surroundings) -> Sequence[Problem]:
        """Why a plan that lint lets pass cannot be proposed here."""
        settings = here.snapshot.settings
        unheld = self.reviews.not_yet(plan, here) or unheld_problems(
            tier_of(plan, settings.tier), here.kept_agents(plan, settings)
        )
        return unheld or here.rule(plan, settings).denied or _secrets_of(reread_plan(plan), here.redactor())

    def _revised(self, file: str) -> str | None:
        """The lineage that a document's plan is a revision of, if it is one."""
        if not self._here.has_ledger():
            return None
        found = self._here.ledger.plans(document=file)
        last = max(found, key=lambda summary: summary.state.prepared_at, default=None)
        if last is None:
            return None
        rejected = last.state.stage in _PUT_AWAY and last.state.rejections
        return last.stream if last.state.stage in _REVISED or rejected else None

    async def _prepare(
        self,
        plan: Plan,
        by: Principal,
        notices: tuple[Problem, ...],
        source: Source,
        revised: str | None,
        succession: Succession | None = None,
    ) -> Prepared:
        here = self._here.held()
        settings, before = here.snapshot.settings, here.snapshot.notices
        if unfit := self._unfit(plan, here):
            raise Refused(unfit)
        # Said now or never: with its first plan a moved directory gets a record of its own.
        notices += tuple(problem for problem in before if problem.code == "W_WORKSPACE_MOVED")
        as_of = Retention(here).due()
        plan = reread_plan(plan)  # what is appended stays, so it must be readable
        await here.identity()
        await self.expire_overdue()
        identity, now = plan_id(plan), here.now()
        reason = here.redactor().text(succession.reason.strip()) if succession is not None else ""
        # Named after its first plan, so that two who prepare the same plan at once prepare the same lineage.
        stream = here.records.lineage_of(identity) or revised or first_lineage(identity)
        is_new_day = all(one.state.opened_at // DAY_MS != now // DAY_MS for one in here.ledger.plans(newest=1))
        notices += await self._put_away_ended(by, settings, but=stream) if is_new_day else ()
        if revised is not None and revised != stream:
            notices += _left_behind(here.records.lineage(revised), lineage_id(revised), lineage_id(stream))
        expires_at, preparation = Instant(now + settings.propose_ttl_ms), here.ports.ids.mint("PREP-")

        alike = self._rejected_alike(plan, by, stream) if not by.person else ()

        def proposed(state: PlanState) -> PlanPrepared:
            goes_on = _gone_on_with(state, succession)
            _refuse_succession(state, identity, plan, goes_on, succession)
            self._refuse_proposal(state, identity, by, settings, alike, goes_on)
            # The same plan without a file takes nothing away from the one that has it.
            kept = state if source.file is None and identity == state.plan_id else None
            again_from = succession.again_from if succession is not None else None
            return PlanPrepared(
                plan_id=identity,
                plan=msgspec.Raw(canonical_bytes(plan)),
                document=source.file if kept is None else kept.document,
                document_sha256=source.sha256 if kept is None else kept.document_sha256,
                by=by,
                expires_at=expires_at,
                revises=state.plan_id if state.plan_id not in ("", identity) else None,
                environment=here.environment(plan, settings),
                preparation=preparation,
                origin=source.origin,
                continues=goes_on,
                again_from=(again_from or state.again_from) if goes_on is not None else None,
                reason=reason,
            )

        state = await here.records.decide(stream, proposed, now)
        self.copies.write(stream, state)
        if as_of is not None:  # only now, so that it is told whatever becomes of the proposal
            notices += await Retention(self._here).remove(by, as_of)
        review = self.reviews.review(plan, stream, state, notices)
        short = short_id(identity)
        startable = state.open_run is None or state.open_run == state.continues
        prepared = Prepared(
            review=review,
            lineage=lineage_id(stream),
            expires_at=expires_at,
            approval_command=f"ordain approve {short}" if review.requires_approval and startable else None,
            commit_command=f"ordain commit {short} --preparation {preparation}" if startable else "ordain status",
            preparation=preparation,
        )
        if prepared.approval_command is not None and state.stage is Stage.PROPOSED and not by.person:
            here.notify(
                "approval_wanted",
                plan_id=identity,
                lineage=prepared.lineage,
                title=plan.title,
                by=by,
                expires_at=expires_at,
                command=prepared.approval_command,
            )
        return prepared

    def _rejected_alike(self, plan: Plan, by: Principal, stream: str) -> tuple[Rejection, ...]:
        """The rejections of other plans that this agent proposed and that were this one in other words."""
        found: list[Rejection] = []
        scripts = self._here.scripts(plan)
        work, checks = work_of(plan, scripts), checks_of(plan, scripts)
        for one in self._here.ledger.plans(newest=LOOKED_BACK):
            for rejection in one.state.rejections if one.stream != stream else ():
                with suppress(Refused):  # one that cannot be read is like no other
                    if by.name in one.state.prepared_by.get(rejection.plan_id, ()):
                        old = self._here.records.plan(one.stream, rejection.plan_id)
                        if is_same_work(work, work_of(old, self._here.scripts(old)), checks):
                            found.append(rejection)
        return tuple(found)

    def _refuse_proposal(
        self,
        state: PlanState,
        identity: PlanId,
        by: Principal,
        settings: Settings,
        alike: tuple[Rejection, ...],
        goes_on: RunId | None,
    ) -> None:
        """Raise Refused where this may not be proposed, or not by an agent. `alike` are rejections of the same work."""
        if state.stage is Stage.EXECUTING and identity != state.plan_id and goes_on is None:
            raise refuse("E_RUN_OPEN", f"{state.open_run} of this plan has not ended.", command="ordain status")
        if by.person:
            return
        refuse_foreign(state, by)
        rejections = (*alike, *state.rejections)
        hints = (f"It was said: {rejections[-1].words()}",) if rejections else ()
        if state.stage is Stage.NEEDS_REVIEW or len(rejections) >= settings.max_rejections:
            detail = f"This plan was rejected {len(rejections)} times; the next revision must be a person's."
            if alike:
                detail += " Proposals with the same actions count, whatever they are called."
            shown = short_id(state.plan_id or rejections[-1].plan_id)
            raise refuse("E_PLAN_NEEDS_REVIEW", detail, *hints, command=f"ordain show {shown}")
        if any(identity == one.plan_id for one in state.rejections):
            detail = "Exactly this plan was rejected; propose another one."
            raise refuse("E_PLAN_REJECTED", detail, *hints, command=f"ordain show {short_id(state.plan_id)}")
        self._refuse_flood(state, identity, by)
        if state.stage not in (Stage.PROPOSED, Stage.APPROVED):
            pending = [
                summary
                for summary in self._here.ledger.plans(open_only=True)
                if summary.state.stage is Stage.PROPOSED and _same_agent(summary.state.proposer, by)
            ]
            if len(pending) >= settings.max_pending:
                detail = f"{len(pending)} proposals by {by.name} wait for a decision already."
                hint = "A person decides them, or they are cancelled, before there can be more."
                raise refuse("E_PROPOSALS_TOO_MANY", detail, hint, command="ordain inbox")

    def _refuse_flood(self, state: PlanState, identity: PlanId, by: Principal) -> None:
        """Raise Refused where agents have proposed more than anybody could read: each proposal is kept for good."""
        revised = len(state.revisions) >= self._revisions_max and identity not in state.revisions
        if revised or state.size >= self._life_max:
            detail = "This plan has been proposed again and again; the next time must be a person's."
            raise refuse("E_PROPOSALS_TOO_MANY", detail, command=f"ordain show {short_id(state.plan_id)}")
        if state.plan_id:
            return
        since = self._here.now() - HOUR_MS
        newest = self._here.ledger.plans(newest=self._per_hour)
        if sum(one.state.opened_at > since and _same_agent(one.state.proposer, by) for one in newest) >= self._per_hour:
            detail = f"{by.name} has proposed {self._per_hour} plans within an hour."
            raise refuse("E_PROPOSALS_TOO_MANY", detail, "Wait, or let a person propose it.", command="ordain list")

    # --- Declining -------------------------------------------------------------------------------------------------

    async def reject(
        self, ref: str, by: Principal, feedback: str, comments: Mapping[StepId, str] | None = None
    ) -> PlanLine:
        """Say no to a plan and what should change; every approval of it that was not used ends."""
        async with self._refusals.asked_for("reject", ref, by):
            here, comments = self._here, comments or {}
            (stream, seen), settings = here.records.current(ref), here.snapshot.settings
            redactor = here.redactor()
            steps = {step.id for step in here.records.plan(stream).steps} if comments else set()
            for step in comments:
                if step not in steps:
                    raise refuse("E_STEP_UNKNOWN", f"The plan has no step `{step}`.", *closest(step, sorted(steps)))
            if len(feedback) + sum(map(len, comments.values())) > FEEDBACK_MAX:
                raise refuse("E_FEEDBACK", f"That is more than {FEEDBACK_MAX:,} characters.", "Say it shorter.")
            if not feedback.strip() and not comments:
                hint = "Say it with -m, or --comment of a step."
                raise refuse("E_FEEDBACK", "A rejection says what should change.", hint)

            def rejected(state: PlanState) -> PlanRejected:
                refuse_superseded(seen.plan_id, state)  # a no is for what was looked at, as a yes is
                too_often = len(state.rejections) + 1 >= settings.max_rejections
                self._refuse_stage(state, "rejected too often" if too_often else "rejected", "rejected")
                return PlanRejected(
                    plan_id=state.plan_id,
                    by=by,
                    feedback=redactor.text(feedback.strip()),
                    comments={step: redactor.text(text) for step, text in comments.items()},
                    needs_review=too_often,
                )

            state = await self._decide(stream, rejected)
            if state.stage is Stage.NEEDS_REVIEW:
                here.notify("needs_review", plan_id=state.plan_id, title=state.title, by=by)
            return self._line_of(state)

    async def cancel(self, ref: str, by: Principal, reason: str = "") -> PlanLine:
        """Take a proposal back."""
        async with self._refusals.asked_for("cancel", ref, by):
            (stream, seen), text = self._here.records.current(ref), self._here.redactor().text(reason)
            return await self._put_away(stream, seen, PlanCancelled(by=by, reason=text), "cancelled")

    async def archive(self, ref: str, by: Principal) -> PlanLine:
        """Put away a plan that has come to its end. Nothing is deleted: the ledger keeps it."""
        async with self._refusals.asked_for("archive", ref, by):
            return await self._put_away(*self._here.records.current(ref), PlanArchived(by=by), "archived")

    async def _put_away(self, stream: str, seen: PlanState, event: LineageEvent, word: str) -> PlanLine:
        def decided(state: PlanState) -> LineageEvent:
            refuse_superseded(seen.plan_id, state)
            self._refuse_stage(state, word, word)
            return event

        return self._line_of(await self._decide(stream, decided))

    async def _decide(self, stream: str, decision: Callable[[PlanState], LineageEvent]) -> PlanState:
        _ = self._here.snapshot.settings  # refused where the record cannot be believed
        await self.expire_overdue()
        state = await self._here.records.decide(stream, decision, self._here.now())
        self.copies.write(stream, state)
        return state

    def _refuse_stage(self, state: PlanState, what: str, word: str) -> None:
        if state.stage is Stage.EXECUTING:
            command = f"ordain cancel {state.open_run}" if what == "cancelled" else "ordain status"
            raise refuse("E_RUN_OPEN", f"{state.open_run} of this plan has not ended.", command=command)
        if state.stage not in TRANSITIONS[what]:
            possible = ", ".join(sorted(stage for stage in TRANSITIONS[what] if stage is not None))
            detail = f"The plan is {state.stage}, so it cannot be {word}."
            hint = f"That can be done to a plan that is {possible}."
            raise refuse("E_PLAN_STAGE", detail, hint, command=f"ordain show {short_id(state.plan_id)}")

    # --- Expiry ----------------------------------------------------------------------------------------------------

    def overdue(self) -> Iterator[PlanSummary]:
        """The proposals whose time is over and that are not recorded as that."""
        now, plans = self._here.now(), self._here.ledger.plans(open_only=True) if self._here.has_ledger() else ()
        return (one for one in plans if one.state.status(now) == Stage.EXPIRED)

    def has_overdue(self) -> bool:
        """Whether a proposal ran out of time and nobody has recorded it yet."""
        return any(self.overdue())

    async def expire_overdue(self) -> int:
        """Record, if the ledger can be written, and tell, which proposals nobody decided in time; how many."""
        count = 0
        for summary in self.overdue():
            state = await expire(self._here, summary.stream)
            if state is not None:
                count += 1
                self.copies.write(summary.stream, state)
        return count

    # --- Copies and archive ----------------------------------------------------------------------------------------

    def write_copies(self, *, open_only: bool = False) -> int:
        """Write our copies of the proposals that came without a file anew; how many there are."""
        without = [one for one in self._here.ledger.plans(open_only=open_only) if one.state.document is None]
        for summary in without:
            self.copies.write(summary.stream, summary.state)
        return len(without)

    async def _put_away_ended(self, by: Principal, settings: Settings, *, but: str) -> tuple[Problem, ...]:
        """Archive the plans that ended long ago, and say which: once a day, for there may be very many."""
        here, now = self._here, self._here.now()
        then = now - settings.archive_after_ms
        ended = (one for one in here.ledger.plans() if one.stream != but and _ended_by(one.state, then))
        put_away: list[PlanState] = []
        for summary in islice(ended, ARCHIVED_AT_ONCE):

            def archived(state: PlanState, seen: PlanState = summary.state) -> PlanArchived:
                if (state.plan_id, state.stage, state.changed_at) != (seen.plan_id, seen.stage, seen.changed_at):
                    raise refuse("E_PLAN_STAGE", "Somebody did something with it meanwhile.")
                return PlanArchived(by=by)

            with suppress(Refused):
                state = await here.records.decide(summary.stream, archived, now)
                self.copies.write(summary.stream, state)
                put_away.append(state)
        if not put_away:
            return ()
        titles = ", ".join(f"`{one.title}`" for one in put_away[:3])
        more = f" and {len(put_away) - 3:,} more" if len(put_away) > 3 else ""
        command = "ordain list --status archived"
        here.notify("archived", title=f"{titles}{more}", command=command)
        detail = f"Archived, because they ended long ago (`[plans] archive_after`): {titles}{more}."
        hint = "Nothing is deleted: their runs and outputs are where they were."
        if settings.removes_outputs:
            hint = "Archiving deletes nothing; how long kept outputs stay is what `[retention]` says."
        return (Problem(code="W_PLANS_ARCHIVED", detail=detail, hints=(hint,), command=command),)


def _left_behind(state: PlanState, left: str, known: str) -> tuple[Problem, ...]:
    """That a document says by now what another plan is, while the proposal that it was before still waits."""
    if state.stage not in (Stage.PROPOSED, Stage.APPROVED):
        return ()
    detail = (
        f"This very plan is {known} already, so that is proposed again; {left}, which the document was, still waits."
    )
    hint = "A plan belongs to one lineage. Where only the new one is wanted, take the other back."
    return (Problem(code="W_PLAN_LEFT_BEHIND", detail=detail, hints=(hint,), command=f"ordain cancel {left}"),)


def _ended_by(state: PlanState, then: int) -> bool:
    """Whether a plan had come to its end by this instant, and nobody has anything left to do with it."""
    return not state.open and state.stage is not Stage.ARCHIVED and not state.permissions and state.changed_at <= then


async def expire(here: Surroundings, stream: str) -> PlanState | None:
    """Record, and tell, that nobody decided a proposal in time; None where that is not so, or cannot be written."""
    now = here.now()
    _ = here.snapshot.settings  # as for every other decision: refused before anything is recorded

    def expired(state: PlanState) -> PlanExpired:
        if state.status(now) != Stage.EXPIRED or state.stage is Stage.EXPIRED:
            raise refuse("E_PLAN_STAGE", "Somebody decided it meanwhile.")
        return PlanExpired(plan_id=state.plan_id)

    try:
        state = await here.records.decide(stream, expired, now)
    except Refused:
        return None
    command = f"ordain prepare {here.named(state)}" if state.document is not None else "ordain list"
    here.notify("expired", plan_id=state.plan_id, title=state.title, command=command)
    return state


def _gone_on_with(state: PlanState, succession: Succession | None) -> RunId | None:
    """The run that a new version goes on with: while one is open there is no other kind of revision."""
    if state.continues is not None or succession is None:
        return state.continues
    return state.open_run if succession.run_id is None else succession.run_id


def _refuse_succession(
    state: PlanState, identity: PlanId, plan: Plan, goes_on: RunId | None, succession: Succession | None
) -> None:
    """Raise Refused where a plan cannot go on with a run: it is that run's own, or the run is not the newest."""
    running = state.beneath.plan_id if state.beneath is not None else state.plan_id
    if goes_on is None:
        return
    newest = next(reversed(state.runs), None)
    if succession is not None and succession.run_id not in (None, newest):
        detail = f"{succession.run_id} is not the newest run of its plan; what passed then may have failed since."
        raise refuse("E_RUN_OLD", detail, command=f"ordain rerun {newest} --with DOCUMENT")
    if identity == running:
        detail = f"This is the very plan of {goes_on}; there is nothing new to go on with."
        command = "ordain status" if goes_on == state.open_run else f"ordain rerun {goes_on}"
        raise refuse("E_SUCCESSOR_SAME", detail, "Answer what the run asks, or change the plan.", command=command)
    names = [step.id for step in plan.steps]
    if succession is not None and succession.again_from is not None and succession.again_from not in names:
        detail = f"The new plan has no step `{succession.again_from}`."
        raise refuse("E_RUN_STEP", detail, *closest(succession.again_from, names))


def _same_agent(proposer: Principal | None, by: Principal) -> bool:
    """Whether an agent proposed this by whatever channel it has."""
    return proposer is not None and not proposer.person and proposer.name == by.name


def _secrets_of(plan: Plan, redactor: Redactor) -> Sequence[Problem]:
    """What of a plan would have to be hidden: whoever approves it must see all of it."""
    if redactor.data(canonical_bytes(plan)) == canonical_bytes(plan):
        return ()
    parts = [(f"Step {number}", Place(step=step.id), step) for number, step in enumerate(plan.steps, 1)]
    around = msgspec.structs.replace(plan, steps=())
    found = [
        Problem(
            code="E_PLAN_SECRET",
            detail=f"{who} holds a secret that is known here, or what looks like one.",
            where=where,
            hints=("Let the program read it from where secrets are kept, such as a file that only you can read.",),
        )
        for who, where, part in (*parts, ("The plan", None, around))
        if redactor.data(canonical_bytes(part)) != canonical_bytes(part)
    ]
    return found or [Problem(code="E_PLAN_SECRET", detail="The plan holds a secret that is known here.")]
