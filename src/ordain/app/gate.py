"""The gate: who may permit a run, what that permission is bound to, and whether one permits a run here and now. The
approval is spent by the caller, in the transaction that opens the run."""

from __future__ import annotations

import msgspec

from ordain.app.plans import expire
from ordain.app.succession import going_on
from ordain.core.approval.approval import (
    CLOCK_SKEW_MS,
    Approval,
    Principal,
    Situation,
    action_kinds,
    check,
    drift,
    signed_bytes,
)
from ordain.core.approval.signature import fingerprint
from ordain.core.ledger import chain
from ordain.core.lineage.decision import Moments, persons_only, signed_decision, still_asked
from ordain.core.lineage.lineage import Permission, PlanState, Stage
from ordain.core.lineage.subset import subset_faults
from ordain.core.lineage.workspace import Approver, WorkspaceState
from ordain.core.plan.canonical import plan_id, short_id
from ordain.core.plan.model import Plan
from ordain.core.plan.value import Instant, PlanId, RunId
from ordain.core.policy.settings import Settings
from ordain.core.policy.tier import tier_of
from ordain.core.report.report import Review
from ordain.core.run.event import ApprovalExpired, ApprovalGiven, ApproverRevoked, Recorded, RunEvent
from ordain.core.run.run_state import RunState
from ordain.core.run.step_event import DecisionGiven
from ordain.core.text.problem import Problem, Refused, refuse
from ordain.ports.machine import Credential
from ordain.records.records import WORKSPACE_STREAM, lineage_id
from ordain.records.surroundings import Surroundings


class Gate:
    """Gives permissions, checks them, takes them back."""

    def __init__(self, here: Surroundings) -> None:
        self._here = here

    # --- Permitting ------------------------------------------------------------------------------------------------

    async def permit(
        self, stream: str, state: PlanState, by: Principal, shown: Review | None, credential: Credential | None
    ) -> Permission:
        """A person's permission, not recorded yet; none where things no longer stand as they were `shown`."""
        here, now = self._here, self._here.now()
        approver = await self.check_approvable(stream, state, by, credential.name if credential is not None else None)
        plan, settings = here.records.plan(stream), here.snapshot.settings
        situation = await self._situation(state, plan)
        seen = (state.plan_id, situation.base, situation.workspace.path, situation.continues)
        if shown is not None:
            continued = shown.successor.binding if shown.successor is not None else None
            if (shown.plan_id, shown.base, shown.workspace, continued) != seen:
                raise meanwhile(state.plan_id, *drift(shown.base, situation.base))
        size, head = here.ledger.checkpoint()
        assert state.proposer is not None
        approval = Approval(
            approval_id=here.ports.ids.mint("APPROVAL-"),
            plan_id=state.plan_id,
            workspace=situation.workspace,
            action_kinds=action_kinds(plan),
            base=situation.base,
            proposer=state.proposer,
            approver=Principal(name=approver.name, channel=by.channel) if approver is not None else by,
            tier=situation.tier,
            issued_at=now,
            expires_at=Instant(now + settings.approval_ttl_ms),
            nonce=here.ports.ids.mint(""),
            panes=situation.panes,
            boot_id=situation.now.boot_id,
            elapsed_ms=situation.now.elapsed_ms,
            shown_sha256=shown.shown_sha256 if shown is not None else "",
            ledger_size=shown.ledger_size if shown is not None else size,
            ledger_head=shown.ledger_head if shown is not None else head.hex(),
            key=fingerprint(approver.key) if approver is not None else None,
            continues=situation.continues,
            allow_subset=shown.allow_subset if shown is not None else False,
        )
        if credential is None:
            return Permission(approval=approval)
        return Permission(approval=approval, signature=await here.sign(credential, signed_bytes(approval), by))

    async def _situation(self, state: PlanState, plan: Plan) -> Situation:
        """How things stand, with the run that a successor would go on with."""
        going = going_on(self._here, state, plan)
        binding = going.binding if going is not None else None
        return msgspec.structs.replace(await self._here.situation(plan), continues=binding)

    async def check_approvable(
        self, stream: str, state: PlanState, by: Principal, signer: str | None
    ) -> Approver | None:
        """Whose key signs, if one does; raises Refused where this person's yes to this plan could not count."""
        command = f"ordain approve {short_id(state.plan_id)}"
        persons_only("approve a plan", by, command)
        self._refuse_elsewhere(stream, state)
        await self._refuse_undecidable(stream, state)
        settings = self._here.snapshot.settings
        plan = self._here.records.plan(stream)
        if denied := self._here.rule(plan, settings).denied:
            raise Refused(denied)
        self._here.refuse_tier(tier_of(plan, settings.tier))
        if barred := _barred(signer if signer is not None else by.name, state, settings):
            raise Refused([barred])
        return self._signer(signer, "An approval", command)

    def check_answering(self, by: Principal, signer: str | None, command: str) -> Approver | None:
        """Whose key signs an answer, if one does; raises Refused where this person's answer could not count. Whoever
        prepared a plan may answer what its run asks: somebody else has permitted all that an answer can lead to."""
        persons_only("answer this", by, command)
        settings = self._here.snapshot.settings
        if barred := _not_among(signer if signer is not None else by.name, settings, "answer"):
            raise Refused([barred])
        return self._signer(signer, "An answer", command)

    def _signer(self, signer: str | None, what: str, command: str) -> Approver | None:
        if signer is not None:
            return self._here.enrolled(signer)
        if self._here.snapshot.settings.require_signature:
            detail = f"{what} counts here only with the signature of an enrolled key."
            raise refuse("E_APPROVAL_SIGNATURE", detail, command=f"{command} --sign")
        return None

    # --- Checking --------------------------------------------------------------------------------------------------

    async def usable(self, state: PlanState, stream: str, plan: Plan, *, required: bool) -> Approval | None:
        """The approval that permits this run, None where none is needed; raises Refused. Records expired ones."""
        here = self._here
        now, command = here.now(), f"ordain approve {short_id(state.plan_id)}"
        self._refuse_elsewhere(stream, state)
        if not required or not state.permissions:
            await self._refuse_undecidable(stream, state)
        if not required:
            self._refuse_unfit_preparation(state, plan)
            return None
        if not state.permissions:
            raise Refused([_why_none(state, command)])
        situation = await self._situation(state, plan)
        settings, workspace = here.snapshot.settings, here.snapshot.workspace
        problems: list[Problem] = []
        for permission in reversed(state.permissions.values()):
            approval = permission.approval
            problem = (
                _not_by_a_person(approval, command)
                or _barred(approval.approver.name, state, settings)
                or self._unsigned(permission, settings, workspace, command)
                or check(approval, plan, situation)
            )
            if problem is None:
                return approval
            problems.append(problem)
            # One that is dated in the future is good again when the clock is right again.
            if problem.code == "E_APPROVAL_EXPIRED" and approval.issued_at <= now + CLOCK_SKEW_MS:
                await self._record_expiry(stream, approval)
        raise Refused(problems[:1])

    def _refuse_unfit_preparation(self, state: PlanState, plan: Plan) -> None:
        """Raise Refused where what the newest preparation sealed is not there, or does not fit."""
        changed: tuple[str, ...] = ("an older version prepared it, which sealed no environment",)
        if state.environment is not None:
            changed = self._here.misfits(state.environment, plan, own=True)
        if changed:
            detail = f"What the plan was prepared for has changed since: {changed[0]}."
            again = f"ordain prepare {self._here.named(state)}" if state.document is not None else None
            hints = (*(f"Also: {one}." for one in changed[1:]), "Prepare it again.")
            raise refuse("E_PLAN_STALE_BASE", detail, *hints, command=again)

    async def refuse_unsigned_run(self, run: RunState, approval_id: str | None, given: Permission | None) -> None:
        """Raise Refused where a run that was begun may not go on: signatures are a must here, and nothing that was
        signed permitted it, or answered what it asked. Whoever can write the ledger could have written it. A run of
        which nothing was attempted yet must still be permitted as if it began now."""
        here = self._here
        settings, workspace = here.snapshot.settings, here.snapshot.workspace
        of_budgets = any(account.decisions for account in run.accounts.values())
        if of_budgets or any(record.decisions for record in run.steps.values()):
            self._refuse_forged_decisions(run, settings, workspace)
        if not settings.require_signature:
            return
        if approval_id is None and not here.rule(run.plan, settings).requires_approval:
            return
        problem: Problem | None = Problem(
            code="E_APPROVAL_SIGNATURE",
            detail="This run was begun without a signature of an enrolled key, and here none goes on without.",
            hints=("Look who began it, and at the whole record: ordain audit verify.",),
        )
        approval = given.approval if given is not None else None
        if given is not None and approval is not None and given.signature is not None:
            known = workspace.approvers.get(approval.key or "")
            # A key that was revoked since was good when the run began.
            good = (
                known is not None
                and given.signature.key == approval.key
                and here.ports.keyring.verify(known.key, given.signature, signed_bytes(approval))
            )
            if good:
                # What went on unasked was judged when it began, by this approval of the plan that it is a part of.
                unasked = run.continues is not None and approval.plan_id != run.plan_id
                begun = unasked or any(record.attempts for record in run.steps.values())
                plan = here.records.plan(run.lineage, approval.plan_id) if unasked else run.plan
                situation = msgspec.structs.replace(await here.situation(plan), continues=approval.continues)
                problem = check(approval, plan, situation)
                for fault in subset_faults(plan, run.plan) if unasked else ():
                    problem = Problem(code="E_PLAN_HASH_MISMATCH", detail=f"Nobody approved this: {fault}.")
                bound = ("E_PLAN_HASH_MISMATCH", "E_PLAN_WORKSPACE")
                if begun and problem is not None and problem.code not in bound:
                    problem = None  # what it began under may have changed since
        if problem is not None:
            command = f"ordain cancel {run.run_id}"
            raise Refused([msgspec.structs.replace(problem, command=command)])

    def _refuse_forged_decisions(self, run: RunState, settings: Settings, workspace: WorkspaceState) -> None:
        """Raise Refused where a step of a run is where it is by an answer that is nobody's word."""
        moments = Moments()
        for recorded in self._here.records.run_events(run.run_id):
            event = recorded.event
            assert isinstance(event, RunEvent)
            if isinstance(event, DecisionGiven):
                wrong = self._why_not(run, event, settings, workspace)
                if wrong is None and event.key is not None:
                    known = workspace.approvers[event.key]
                    if not moments.fit(event):
                        wrong = (
                            "E_APPROVAL_SIGNATURE",
                            "has no valid signature for what it says and where it is recorded",
                        )
                    elif known.revoked_at is not None and self._revoked_before(event.key, recorded):
                        wrong = "E_APPROVAL_SIGNATURE", f"is signed by {known.name}, whose key had been revoked"
                if wrong is not None:
                    code, why = wrong
                    place = f"event {recorded.seq} of the run"
                    detail = f"The answer `{event.choice}` about `{event.step}` ({place}) {why}."
                    hint = "Look who answered, and at the whole record: ordain audit verify."
                    raise refuse(code, detail, hint, command=f"ordain cancel {run.run_id}")
            moments.add(event, bytes.fromhex(recorded.head))

    def sent(self, run: RunState) -> tuple[DecisionGiven, ...]:
        """The answers to what a run asks now that were sent, count, and that nobody has taken up yet."""
        if run.finished or not (run.waiting or run.doubtful or run.escalated or run.reached):
            return ()
        decisions = self._here.records.lineage(run.lineage).answers_sent.values()
        return tuple(one for one in decisions if still_asked(run, one) and self.counts(run, one))

    def counts(self, run: RunState, decision: DecisionGiven) -> bool:
        """Whether an answer that was sent to a run is the word of a person who may give it, as things stand now."""
        try:
            settings, workspace = self._here.snapshot.settings, self._here.snapshot.workspace
        except Refused:
            return False
        revoked = decision.key is not None and decision.key not in {fingerprint(one.key) for one in workspace.active}
        return not revoked and self._why_not(run, decision, settings, workspace) is None

    def _why_not(
        self, run: RunState, event: DecisionGiven, settings: Settings, workspace: WorkspaceState
    ) -> tuple[str, str] | None:
        """The code and the words of why an answer is nobody's word who may give it, whenever it was given."""
        code, why = "E_APPROVAL_SIGNATURE", None
        opened, identity = run.workspace_identity.id, plan_id(run.plan)
        said = signed_decision(event, workspace_id=opened, run_id=run.run_id, plan_id=identity)
        known = workspace.approvers.get(event.key or "")
        if not event.by.person:
            code, why = "E_APPROVAL_CHANNEL", f"came through {event.by.channel.value}, where no person can be"
        elif event.signature is None and event.key is None:
            why = "is not signed, and here only a signed answer counts" if settings.require_signature else None
        elif known is None or event.signature is None or event.signature.key != event.key:
            why = "is not signed by an enrolled key"
        elif not self._here.ports.keyring.verify(known.key, event.signature, said):
            why = "has no valid signature for what it says and where it is recorded"
        elif known.name != event.by.name:
            why = f"is signed by {known.name} in the name of {event.by.name}"
        if why is None and (barred := _not_among(event.by.name, settings, "answer")) is not None:
            code, why = barred.code, f"is by {event.by.name}, who is not among those who may answer here"
        return (code, why) if why is not None else None

    def _revoked_before(self, key: str, decision: Recorded) -> bool:
        """Whether a key had been revoked when this was recorded, by the order of events: instants prove nothing."""
        for _, stream, seq, body, head in self._here.ledger.everything():
            if (stream, seq) == (decision.stream, decision.seq):
                return False
            if stream == WORKSPACE_STREAM:
                event = chain.decode(body, head).event
                if isinstance(event, ApproverRevoked) and event.key == key:
                    return True
        return True

    async def _refuse_undecidable(self, stream: str, state: PlanState) -> None:
        """Raise Refused where a plan can be neither approved nor started. Records that its time is over."""
        here, now = self._here, self._here.now()
        again = f"ordain prepare {here.named(state)}" if state.document is not None else "ordain list"
        stage = state.status(now)
        if stage in (Stage.COMPLETED, Stage.FAILED) and now >= state.expires_at:
            stage = Stage.EXPIRED  # another run of it must be proposed anew
        match stage:
            case Stage.EXECUTING:
                raise refuse("E_RUN_OPEN", f"{state.open_run} of this plan has not ended.", command="ordain status")
            case Stage.EXPIRED:
                await expire(here, stream)
                raise refuse("E_PLAN_EXPIRED", "The plan was prepared too long ago.", command=again)
            case Stage.REJECTED | Stage.NEEDS_REVIEW:
                said = state.rejections[-1].words() if state.rejections else ""
                hints = (f"It was said: {said}",) if said else ()
                command = f"ordain revise {short_id(state.plan_id)} DOCUMENT"
                raise refuse("E_PLAN_REJECTED", "The plan was rejected.", *hints, command=command)
            case Stage.CANCELLED | Stage.ARCHIVED:
                detail = f"The plan is {stage}; prepare it again to have it carried out."
                raise refuse("E_PLAN_STAGE", detail, command=again)
            case _:
                pass

    def _refuse_elsewhere(self, stream: str, state: PlanState) -> None:
        """Raise Refused where a plan is another lineage's: what was given there must not be good here a second time."""
        known = self._here.records.lineage_of(state.plan_id)
        if known is not None and known != stream:
            detail = f"This very plan is known as {lineage_id(known)} already; a plan belongs to one lineage."
            raise refuse("E_PLAN_EXISTS", detail, command=f"ordain show {short_id(state.plan_id)}")

    def _unsigned(
        self, permission: Permission, settings: Settings, workspace: WorkspaceState, command: str
    ) -> Problem | None:
        """Why a permission's signature does not count, where it must or is there at all."""
        approval, signature = permission.approval, permission.signature
        if signature is None and approval.key is None and not settings.require_signature:
            return None
        known = workspace.approvers.get(approval.key or "")
        if known is not None and known.revoked_at is not None:
            detail = f"The approval was signed by {known.name}, whose key was revoked."
            return Problem(code="E_APPROVAL_REVOKED", detail=detail, command=command)
        signer = workspace.signed(signature, signed_bytes(approval), self._here.ports.keyring.verify)
        if signer is None or fingerprint(signer.key) != approval.key:
            detail = "The approval is not signed by an enrolled key."
            return Problem(code="E_APPROVAL_SIGNATURE", detail=detail, command=f"{command} --sign")
        if signer.name != approval.approver.name:
            detail = f"The approval is signed by {signer.name} in the name of {approval.approver.name}."
            return Problem(code="E_APPROVAL_SIGNATURE", detail=detail, command=f"{command} --sign")
        return None

    async def _record_expiry(self, stream: str, approval: Approval) -> None:
        def expired(state: PlanState) -> ApprovalExpired:
            return ApprovalExpired(approval_id=approval.approval_id)

        await self._here.records.decide(stream, expired, self._here.now())


def given(permission: Permission) -> ApprovalGiven:
    return ApprovalGiven(approval=permission.approval, signature=permission.signature)


def _barred(name: str, state: PlanState, settings: Settings) -> Problem | None:
    """Why this person may not approve this plan, whatever their signature."""
    if barred := _not_among(name, settings, "approve"):
        return barred
    if settings.separate and name in state.prepared_by.get(state.plan_id, ()):
        detail = f"{name} prepared this plan, and here the person who prepared a plan may not approve it."
        hint = "Somebody else approves it."
        return Problem(code="E_APPROVAL_SELF", detail=detail, hints=(hint,))
    return None


def _not_among(name: str, settings: Settings, verb: str) -> Problem | None:
    """Why this person's word does not count here at all, where the settings name whose does."""
    if not settings.approvers or name in settings.approvers:
        return None
    among = f"{name} is not among those who may {verb} here: {', '.join(settings.approvers)}."
    return Problem(code="E_APPROVAL_APPROVER", detail=among, hints=(f"One of them can {verb} it.",))


def _not_by_a_person(approval: Approval, command: str) -> Problem | None:
    """Why an approval is nobody's word: none of ours comes through such a channel, so somebody wrote it by hand."""
    if approval.approver.person:
        return None
    detail = f"{approval.approval_id} came through {approval.approver.channel.value}, where no person can be."
    return Problem(code="E_APPROVAL_CHANNEL", detail=detail, command=command)


def _why_none(state: PlanState, command: str) -> Problem:
    ended = [(approval_id, one.how) for approval_id, one in state.ended.items() if one.plan_id == state.plan_id]
    if not ended:
        return Problem(code="E_PLAN_APPROVAL_MISSING", detail="Nobody has approved this plan.", command=command)
    approval_id, how = ended[-1]
    match how:
        case "revoked":
            return Problem(code="E_APPROVAL_REVOKED", detail=f"{approval_id} was revoked.", command=command)
        case "expired" | "superseded":
            return Problem(code="E_APPROVAL_EXPIRED", detail=f"{approval_id} has ended: {how}.", command=command)
        case run_id if state.runs.get(RunId(run_id)) == Stage.COMPLETED:
            detail = f"The approval was used by {run_id}, which completed: what it was for is done."
            hint = f"Only to do it all once more, a person approves it again: {command}"
            return Problem(code="E_APPROVAL_SPENT", detail=detail, hints=(hint,), command=f"ordain show {run_id}")
        case run_id:
            return Problem(code="E_APPROVAL_SPENT", detail=f"The approval was used by {run_id}.", command=command)


def meanwhile(identity: PlanId, *differences: str) -> Refused:
    """The refusal of a yes to what is no longer so."""
    command = f"ordain approve {short_id(identity)}"
    hints = tuple(f"Since it was shown: {difference}." for difference in differences)
    return refuse("E_PLAN_STALE_BASE", "Things changed while the plan was being read.", *hints, command=command)
