"""A plan through its life: `PlanState`, the fold of one lineage's events, and the one table of its stages.

The stage follows from the events alone; the status that people see is derived from it and the time, never stored. The
state holds all but the plans' bytes, so that it can be kept beside the chain for quick looking.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import assert_never

import msgspec
from msgspec.structs import replace

from ordain.core.approval.approval import Approval, Channel, Principal
from ordain.core.approval.signature import Signature
from ordain.core.plan.value import Instant, PlanId, RunId, StepId
from ordain.core.policy.sealing import SealedEnvironment
from ordain.core.run import event as events
from ordain.core.run.run_state import IllegalTransition
from ordain.core.run.step_event import DecisionGiven
from ordain.core.text.limit import short_title


class Stage(StrEnum):
    """Where a plan is in its life."""

    PROPOSED = "proposed"
    """Checked, stored, and waiting for a decision."""
    APPROVED = "approved"
    EXECUTING = "executing"
    COMPLETED = "completed"
    FAILED = "failed"
    REJECTED = "rejected"
    NEEDS_REVIEW = "needs_review"
    """Rejected so often that only a person may propose the next revision."""
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    ARCHIVED = "archived"


_UNDECIDED = (Stage.PROPOSED, Stage.APPROVED)
_DECLINED = (Stage.REJECTED, Stage.NEEDS_REVIEW, Stage.CANCELLED, Stage.EXPIRED)
_ENDED = (Stage.COMPLETED, Stage.FAILED)
_PUT_AWAY = (Stage.CANCELLED, Stage.EXPIRED, Stage.ARCHIVED)


def _all(stages: tuple[Stage | None, ...], to: Stage) -> dict[Stage | None, Stage]:
    return dict.fromkeys(stages, to)


def _staying(*stages: Stage) -> dict[Stage | None, Stage]:
    return {stage: stage for stage in stages}


TRANSITIONS: Mapping[str, Mapping[Stage | None, Stage]] = {
    "proposed": _all((None, *_UNDECIDED, *_ENDED, *_DECLINED, Stage.ARCHIVED), Stage.PROPOSED),
    "proposed again, with a good approval": _all((Stage.APPROVED, *_ENDED), Stage.APPROVED),
    "proposed again while it runs": _staying(Stage.EXECUTING),
    "proposed to go on with a run": _all((*_UNDECIDED, Stage.EXECUTING, *_ENDED, *_PUT_AWAY), Stage.PROPOSED),
    "approved": _all((*_UNDECIDED, *_ENDED), Stage.APPROVED),
    "an approval ended, another is left": _staying(Stage.APPROVED, Stage.EXECUTING, *_ENDED),
    "the last approval ended": _all((Stage.APPROVED,), Stage.PROPOSED) | _staying(Stage.EXECUTING, *_ENDED),
    "rejected": _all(_UNDECIDED, Stage.REJECTED),
    "rejected too often": _all(_UNDECIDED, Stage.NEEDS_REVIEW),
    "cancelled": _all((*_UNDECIDED, Stage.REJECTED, Stage.NEEDS_REVIEW, Stage.EXPIRED), Stage.CANCELLED),
    "expired": _all((Stage.PROPOSED,), Stage.EXPIRED),
    "run started": _all((*_UNDECIDED, *_ENDED), Stage.EXECUTING),
    "asked to stop": _staying(Stage.EXECUTING),
    "answer sent": _staying(Stage.EXECUTING),
    "run completed": {Stage.EXECUTING: Stage.COMPLETED},
    "run failed": {Stage.EXECUTING: Stage.FAILED},
    "run cancelled": {Stage.EXECUTING: Stage.CANCELLED},
    "run replaced": _staying(*_UNDECIDED),
    "archived": _all((*_ENDED, *_DECLINED), Stage.ARCHIVED),
}
"""What happened → from which stage → to which. What is not here cannot happen, and no event records it."""


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """One no, with what should change."""

    plan_id: PlanId
    by: Principal
    at: Instant
    feedback: str
    comments: Mapping[StepId, str] = {}

    def words(self) -> str:
        """Everything that was said, on one line."""
        said = [self.feedback, *(f"{step}: {text}" for step, text in self.comments.items())]
        return " · ".join(" ".join(part.split()) for part in said if part.strip())


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    """An approval that no run has used, with its signature if it has one."""

    approval: Approval
    signature: Signature | None = None


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """An approval that is good for nothing any more."""

    plan_id: PlanId
    how: str
    """The run that used it, or `revoked`, `expired`, `superseded` by another revision."""


class Preparation(msgspec.Struct, frozen=True, kw_only=True):
    """One time a plan was prepared. It starts one run: who asks again gets that run."""

    plan_id: PlanId
    run_id: RunId | None = None
    environment: SealedEnvironment | None = None
    """What a run of it gets that needs no approval."""
    old: bool = False
    """Recorded by a version that gave preparations no ids: a run that names none was started for it."""


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a plan, and why there is one."""

    number: int
    """Counted from one."""
    plan_id: PlanId
    previous_plan_id: PlanId | None = None
    by: Principal
    reason: str = ""
    continues: RunId | None = None
    """The run that it was proposed to go on with."""


class ReplanTry(msgspec.Struct, frozen=True, kw_only=True):
    """One time that somebody who is no person was asked how a run goes on, or went on unasked."""

    run_id: RunId
    causes: tuple[str, ...]
    """What had failed, each as `STEP: CAUSE`."""
    remainder: str = ""
    error: str = ""
    open: bool = False
    """Nothing has come of it yet."""


class Beneath(msgspec.Struct, frozen=True, kw_only=True):
    """How a lineage stands while a successor of its run is proposed: where nobody wants that, it stands so again."""

    stage: Stage
    plan_id: PlanId
    title: str
    document: str | None
    document_sha256: str | None
    proposer: Principal | None
    prepared_at: Instant
    expires_at: Instant
    environment: SealedEnvironment | None


class PlanState(msgspec.Struct):
    """One lineage, folded from its events: the newest revision, its approvals, its runs."""

    stage: Stage | None = None
    plan_id: PlanId = PlanId("")
    title: str = ""
    document: str | None = None
    document_sha256: str | None = None
    proposer: Principal | None = None
    origin: events.PlanOrigin | None = None
    """How the newest revision came to be, where a planner wrote it."""
    prepared_by: dict[PlanId, tuple[str, ...]] = {}
    """The names of all who ever prepared each plan: preparing it again in another name does not change who did."""
    opened_at: Instant = Instant(0)
    prepared_at: Instant = Instant(0)
    changed_at: Instant = Instant(0)
    expires_at: Instant = Instant(0)
    revisions: dict[PlanId, int] = {}
    """Every plan this lineage has had, and the number of the newest event that holds its bytes."""
    permissions: dict[str, Permission] = {}
    """Approvals of the newest revision that nothing has ended yet, by id, oldest first. None is left where the plan was
    declined or put away."""
    ended: dict[str, Ended] = {}
    """Every other approval."""
    approved_at: dict[PlanId, Instant] = {}
    """When each plan was approved last."""
    last_rejection: Rejection | None = None
    """What was said last, until the plan is carried out."""
    rejections: tuple[Rejection, ...] = ()
    """Since a person last proposed a revision."""
    preparations: dict[str, Preparation] = {}
    """By their ids, oldest first. An approval that comes when the newest has had its run counts as one."""
    runs: dict[RunId, str | None] = {}
    """Run and how it ended; None while it is open."""
    environment: SealedEnvironment | None = None
    """What the newest preparation sealed, for a run that needs no approval."""
    stop_asked: events.StopAsked | None = None
    """What whoever carries out the open run was asked last."""
    stop_asked_at: Instant = Instant(0)
    answers_sent: dict[StepId, DecisionGiven] = {}
    """The newest answer about each step of the open run that was sent to whoever carries it out."""
    size: int = 0
    versions: tuple[Version, ...] = ()
    """Every version as it was proposed, the newest last; empty where an older version of ours kept this state."""
    continues: RunId | None = None
    """Of a proposed successor: the run that it would go on with."""
    again_from: StepId | None = None
    """From which step on nothing of that run would be kept."""
    beneath: Beneath | None = None
    """While a successor is proposed: what it would replace."""
    replans: dict[str, ReplanTry] = {}
    """Every time that somebody who is no person said how a run goes on, by its id."""

    def version(self, identity: PlanId) -> Version | None:
        """Which version of the lineage a plan is, and what is known of it."""
        return next((one for one in reversed(self.versions) if one.plan_id == identity), None)

    def owned_by(self, by: Principal) -> bool:
        """Whether this caller may see and handle it: an MCP client has only what was prepared in its own name."""
        return by.channel is not Channel.MCP or any(by.name in names for names in self.prepared_by.values())

    @property
    def preparation(self) -> str:
        """The newest preparation: what `commit` means when it names none."""
        return next((name for name, one in reversed(self.preparations.items()) if one.plan_id == self.plan_id), "")

    @property
    def open_run(self) -> RunId | None:
        return next((run_id for run_id, ended in self.runs.items() if ended is None), None)

    @property
    def open(self) -> bool:
        """Whether somebody may still have to do something about it."""
        return self.stage in (Stage.PROPOSED, Stage.APPROVED, Stage.EXECUTING, Stage.REJECTED, Stage.NEEDS_REVIEW)

    def status(self, now: Instant) -> str:
        """The plan's status in one word: the stage as it is at this time."""
        if self.stage is Stage.APPROVED and not any(now < one.approval.expires_at for one in self.permissions.values()):
            return Stage.EXPIRED if now >= self.expires_at else Stage.PROPOSED
        if self.stage is Stage.PROPOSED and now >= self.expires_at:
            return Stage.EXPIRED
        return self.stage or "draft"


class _Titled(msgspec.Struct):
    title: str = ""


def apply_lineage(state: PlanState, event: events.LineageEvent, at: Instant) -> PlanState:
    """Fold one event of a lineage into its state and return it; raises IllegalTransition for what cannot happen."""
    state.size += 1
    # Time that was recorded has passed, whatever a clock says later.
    for approval_id, one in list(state.permissions.items()):
        if at >= one.approval.expires_at:
            _end(state, approval_id, "expired")
    match event:
        case events.PlanPrepared():
            _prepared(state, event, at)
        case events.ReplanBegun() | events.ReplanEnded():
            _replanned(state, event)
        case events.PlanRejected():
            said = Rejection(
                plan_id=event.plan_id, by=event.by, at=at, feedback=event.feedback, comments=event.comments
            )
            state.rejections += (said,)
            state.last_rejection = said
            _decline(state, "rejected too often" if event.needs_review else "rejected")
        case events.PlanCancelled():
            _decline(state, "cancelled")
        case events.PlanExpired():
            _move(state, "expired")
            _stand_as_before(state)
        case events.PlanArchived():
            _end_all(state, "revoked")
            _move(state, "archived")
        case events.ApprovalGiven():
            _approved(state, event, at)
        case events.ApprovalRevoked(approval_id=approval_id):
            _end(state, approval_id, "revoked")
        case events.ApprovalExpired(approval_id=approval_id):
            _end(state, approval_id, "expired")
        case events.RunStarted():
            _started(state, event)
        case events.StopAsked():
            if event.run_id != state.open_run or event.to not in ("paused", "cancelled", "failed"):
                raise IllegalTransition(f"{event.run_id} cannot be asked to be {event.to}")
            if not overtaken(event, state.stop_asked):
                state.stop_asked, state.stop_asked_at = event, at
            _move(state, "asked to stop", open_run=True)
        case events.AnswerSent():
            if event.run_id != state.open_run:
                raise IllegalTransition(f"{event.run_id} is answered, and is not open")
            state.answers_sent[event.decision.step] = event.decision
            _move(state, "answer sent", open_run=True)
        case events.RunEnded():
            _ended(state, event)
        case _:
            assert_never(event)
    state.changed_at = at
    return state


def overtaken(asked: events.StopAsked, before: events.StopAsked | None) -> bool:
    """Whether what is asked of a run's executor comes too late: nobody can pause what somebody had ended."""
    return asked.to == "paused" and before is not None and before.to != "paused"


def _replanned(state: PlanState, event: events.ReplanBegun | events.ReplanEnded) -> None:
    if isinstance(event, events.ReplanBegun):
        if event.replan in state.replans or event.run_id not in state.runs:
            raise IllegalTransition(f"{event.replan} is begun twice, or about no run of this plan")
        causes = (f"{event.step}: {event.cause}",)
        state.replans[event.replan] = ReplanTry(run_id=event.run_id, causes=causes, open=True)
        return
    begun = state.replans.get(event.replan)
    if begun is None or not begun.open:
        raise IllegalTransition(f"{event.replan} ends, and is not under way")
    state.replans[event.replan] = replace(begun, open=False, remainder=event.remainder, error=event.error)


def _approved(state: PlanState, event: events.ApprovalGiven, at: Instant) -> None:
    approval = event.approval
    if approval.approval_id in state.permissions or approval.approval_id in state.ended:
        raise IllegalTransition(f"approval {approval.approval_id} is recorded twice")
    state.permissions[approval.approval_id] = Permission(approval=approval, signature=event.signature)
    state.approved_at[approval.plan_id] = at
    newest = state.preparations.get(state.preparation)
    if newest is not None and newest.run_id is not None:
        state.preparations[approval.approval_id] = Preparation(plan_id=approval.plan_id, environment=state.environment)
    _move(state, "approved")


def _started(state: PlanState, event: events.RunStarted) -> None:
    if event.run_id in state.runs:
        raise IllegalTransition(f"{event.run_id} is started twice")
    if event.continues != state.continues or state.open_run is not None:
        raise IllegalTransition(f"{event.run_id} goes on with {event.continues}, and not with what it could")
    if event.approval_id is not None:
        if event.approval_id not in state.permissions:
            raise IllegalTransition(f"approval {event.approval_id} cannot be spent")
        del state.permissions[event.approval_id]
        state.ended[event.approval_id] = Ended(plan_id=event.plan_id, how=event.run_id)
    _spend_preparation(state, event)
    state.runs[event.run_id] = None
    state.last_rejection = state.continues = state.again_from = state.beneath = None
    if event.unasked is not None and event.continues is not None:
        state.replans[event.run_id] = ReplanTry(
            run_id=event.continues, causes=event.unasked.causes, remainder=event.unasked.remainder
        )
    _move(state, "run started")


def _ended(state: PlanState, event: events.RunEnded) -> None:
    replaced = event.status == "replaced"
    if event.run_id != state.open_run:
        raise IllegalTransition(f"{event.run_id} ends, and is not open")
    if replaced and event.run_id != state.continues:
        raise IllegalTransition(f"{event.run_id} is replaced, and nothing is proposed that would go on with it")
    state.runs[event.run_id] = event.status
    state.stop_asked = None
    state.answers_sent.clear()
    for approval_id in list(state.permissions) if event.status == Stage.CANCELLED else ():
        _end(state, approval_id, "revoked")
    _move(state, f"run {event.status}", open_run=not replaced)


def _spend_preparation(state: PlanState, event: events.RunStarted) -> None:
    """Bind a run to what it was started for; raises IllegalTransition where that has a run already."""
    name = event.preparation or state.preparation
    found = state.preparations.get(name)
    if not event.preparation and (found is None or not found.old):
        return
    if found is None or found.plan_id != event.plan_id or (found.run_id is not None and not found.old):
        raise IllegalTransition(f"preparation {name} cannot start {event.run_id}")
    state.preparations[name] = replace(found, run_id=event.run_id)


def _prepared(state: PlanState, event: events.PlanPrepared, at: Instant) -> None:
    again = event.plan_id == state.plan_id
    if event.continues is not None:
        _go_on_from(state, event.continues)
    elif state.beneath is not None or (state.open_run is not None and not again):
        raise IllegalTransition(f"{event.plan_id} does not go on with {state.open_run}, as whatever comes now must")
    if not again or event.continues != state.continues:
        made = Version(
            number=len(state.versions) + 1,
            plan_id=event.plan_id,
            previous_plan_id=event.revises,
            by=event.by,
            reason=event.reason,
            continues=event.continues,
        )
        state.versions += (made,)
    state.continues, state.again_from = event.continues, event.again_from
    if state.stage is None:
        state.opened_at = at
    if not again:
        _end_all(state, "superseded")  # before the newest revision becomes another one
    state.origin = event.origin or (state.origin if again else None)
    if event.by.person:
        state.rejections = ()
    state.plan_id, state.title = event.plan_id, short_title(msgspec.json.decode(event.plan, type=_Titled).title)
    state.document, state.document_sha256, state.proposer = event.document, event.document_sha256, event.by
    known = state.prepared_by.get(event.plan_id, ())
    state.prepared_by[event.plan_id] = tuple(dict.fromkeys((*known, event.by.name)))
    state.prepared_at, state.expires_at, state.environment = at, event.expires_at, event.environment
    state.revisions.pop(event.plan_id, None)
    state.revisions[event.plan_id] = state.size
    name = event.preparation or f"PREP-{state.size}"
    if name in state.preparations:
        raise IllegalTransition(f"preparation {name} is recorded twice")
    state.preparations[name] = Preparation(
        plan_id=event.plan_id, environment=event.environment, old=not event.preparation
    )
    if event.continues is not None and not state.permissions:
        _move(state, "proposed to go on with a run")
    elif again and state.stage is Stage.EXECUTING:
        _move(state, "proposed again while it runs")
    elif state.permissions:
        _move(state, "proposed again, with a good approval")
    else:
        _move(state, "proposed")


def _end(state: PlanState, approval_id: str, how: str) -> None:
    """An approval ends without having been used; one that has ended already ended as it did."""
    if state.permissions.pop(approval_id, None) is None:
        return
    state.ended[approval_id] = Ended(plan_id=state.plan_id, how=how)
    _move(state, "an approval ended, another is left" if state.permissions else "the last approval ended")


def _end_all(state: PlanState, how: str) -> None:
    state.ended |= dict.fromkeys(state.permissions, Ended(plan_id=state.plan_id, how=how))
    state.permissions.clear()


def _decline(state: PlanState, what: str) -> None:
    _end_all(state, "revoked")
    _move(state, what)
    _stand_as_before(state)


def _go_on_from(state: PlanState, run_id: RunId) -> None:
    """Remember how the lineage stands before a successor of its newest run is proposed."""
    if run_id != next(reversed(state.runs), None) or state.stage is None:
        raise IllegalTransition(f"{run_id} is not the newest run of this plan")
    if state.beneath is None:
        state.beneath = Beneath(**{name: getattr(state, name) for name in Beneath.__struct_fields__})


def _stand_as_before(state: PlanState) -> None:
    """What was declined would have replaced a run: the lineage stands as before; what was said about it stays."""
    if state.beneath is not None:
        for name in Beneath.__struct_fields__:
            setattr(state, name, getattr(state.beneath, name))
        state.continues = state.again_from = state.beneath = None


def _move(state: PlanState, what: str, *, open_run: bool = False) -> None:
    """Go where the table says. What happens to an `open_run` while a successor is proposed happens beneath that."""
    beneath = state.beneath if open_run else None
    stage = beneath.stage if beneath is not None else state.stage
    to = TRANSITIONS.get(what, {}).get(stage)
    if to is None:
        raise IllegalTransition(f"`{what}` cannot happen to a plan that is {stage or 'new'}")
    if beneath is not None:
        state.beneath = replace(beneath, stage=to)
    else:
        state.stage = to
