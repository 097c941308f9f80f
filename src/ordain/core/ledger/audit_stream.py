"""The streams of a ledger as the audit follows them: plans, runs, locks and signals, and what all of them know."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from ordain.core.approval.approval import CLOCK_SKEW_MS, Approval, Principal, action_kinds, signed_bytes
from ordain.core.approval.signature import Signature, Verifier, fingerprint
from ordain.core.ledger import chain
from ordain.core.ledger.findings import Finding, Kind, Rules
from ordain.core.ledger.link import Tip
from ordain.core.ledger.step_result import StepResults
from ordain.core.lineage.decision import Moments, signed_decision
from ordain.core.lineage.lineage import PlanState, apply_lineage
from ordain.core.lineage.subset import subset_faults
from ordain.core.lineage.workspace import Approver, WorkspaceState
from ordain.core.plan.canonical import PLAN_TYPE, canonical_bytes, digest, plan_from_bytes, short_id
from ordain.core.plan.model import Plan, contract_of
from ordain.core.plan.value import Instant, PlanId, RunId, StepId
from ordain.core.run.attempt import fits
from ordain.core.run.event import (
    ApprovalExpired,
    ApprovalGiven,
    ApprovalRevoked,
    Event,
    LockEvent,
    LockTaken,
    PlanArchived,
    PlanCancelled,
    PlanExpired,
    PlanPrepared,
    PlanRejected,
    RunCancelled,
    RunEnded,
    RunOpened,
    RunStarted,
    SignalGiven,
    Unasked,
)
from ordain.core.run.run_state import IllegalTransition, RunState
from ordain.core.run.state import apply
from ordain.core.run.step_event import AttemptEnded, DecisionGiven, StepKept, StepState
from ordain.core.run.wait import LockState, SignalState, apply_lock, apply_signal, signal_of


class AuditedStream(msgspec.Struct):
    """Where one chain stands, and what its events are handed to."""

    look: Callable[[Event, Instant, int], None]
    events: frozenset[type]
    size: int = 0
    head: bytes = chain.ORIGIN.head
    before: bytes = chain.ORIGIN.head
    """The head before the newest event."""
    last: Event | None = None
    """The newest event, where it can be read."""


class GivenApproval(msgspec.Struct):
    """An approval that was given, what its signature is worth, and what became of it."""

    lineage: str
    approval: Approval
    signer: Approver | None
    """None where nothing proves whose word it is."""
    arrived: int
    ended: str | None = None


class StartedRun:
    """A run as its lineage tells of it."""

    def __init__(
        self, lineage: str, seq: int, event: RunStarted, plan: Plan | None, given: GivenApproval | None
    ) -> None:
        self.lineage, self.seq, self.event, self.plan, self.given = lineage, seq, event, plan, given
        self.signer = given.signer if given is not None else None
        """None as well where the approval does not permit this run: then the signature says nothing about it."""
        self.ended: tuple[int, RunEnded] | None = None
        self.results = StepResults()
        self.replaced_by: RunId | None = None
        self.policy = ""
        self.answers = self.answers_signed = 0


Wrong = tuple[Kind, str]
"""What is wrong, and the sentence that says it."""
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
IMPOSSIBLE = (IllegalTransition, LookupError, ArithmeticError, ValueError, AssertionError, RecursionError)
"""What folding events can raise of a plan that nobody linted: anything may be missing in it, too large, too deep."""
WORKSPACE = "workspace"


class AuditState:
    """What is known after the events looked at so far."""

    def __init__(self, verify: Verifier, keys: frozenset[str], kept: Tip | None, rules: Rules) -> None:
        self.verify, self.keys, self.kept, self.rules = verify, keys, kept, rules
        self.findings: list[Finding] = []
        self.streams: dict[str, AuditedStream] = {}
        self.size = 0
        self.digests = bytearray(chain.ORIGIN.head)
        """The checkpoint's digest after each event, one after the other: an approval may name any of them."""
        self.workspace = WorkspaceState()
        self.plans: dict[PlanId, str] = {}
        """Every plan, and the lineage that had it first: it belongs to that one."""
        self.approvals: dict[str, GivenApproval] = {}
        """By id, of all lineages: what was given for one plan is not given again for another."""
        self.started: dict[RunId, StartedRun] = {}
        self.locks: list[LockState] = []
        self.signals: dict[str, SignalState] = {}
        self.given: set[tuple[str, str]] = set()
        """Every signal with the seal of each value that it was given with."""
        self.holders: dict[str, tuple[str, ...]] = {}
        """The streams that name each seal and may need what is kept under it."""
        self.unreadable: dict[PlanId, Finding] = {}
        """What is wrong with plans that cannot be read. It counts as soon as a run was started of one."""
        self.signed_events = 0
        self.times: list[int] = []
        """When each event says that it was recorded, in order of arrival."""

    def find(self, kind: Kind, stream: str, seq: int, sentence: str) -> None:
        self.findings.append(Finding(kind=kind, stream=stream, seq=seq, sentence=sentence))

    def cannot_be(self, stream: str, seq: int, error: Exception) -> None:
        self.find(Kind.HISTORY, stream, seq, f"Event {seq} cannot have happened: {error}.")

    def barred(self, name: str) -> bool:
        """Whether this person's word did not count by the configuration that is trusted at this event."""
        among = self.rules.approvers(self.workspace.trusted)
        return bool(among) and name not in among

    def signer(self, by: Principal, key: str | None, signature: Signature | None, said: bytes) -> Approver | str | None:
        """Who signed what this person said, or why that is not good; None where it does not claim that anybody did."""
        if signature is None and key is None:
            return None
        signer = self.workspace.signed(signature, said, self.verify)
        if signer is None or fingerprint(signer.key) != key:
            return "is not signed by a key that was enrolled and not revoked"
        if signer.name != by.name:
            return f"is signed by {signer.name} in the name of {by.name}"
        if self.keys and key not in self.keys:
            return f"is signed with {key}, which is not among the keys given"
        return signer

    def ended_before(self, run_id: RunId, again: StartedRun) -> bool:
        """Whether a run of the same plan had ended when this one was started."""
        former = self.started.get(run_id)
        if former is None or former.ended is None:
            return False
        return (former.lineage, former.event.plan_id) == (again.lineage, again.event.plan_id)

    def chain(self, run_id: RunId) -> Iterator[RunId]:
        """A run and those that it goes on with, to the first."""
        seen = set[RunId]()
        name: RunId | None = run_id
        while name is not None and name not in seen:
            seen.add(name)
            yield name
            started = self.started.get(name)
            name = started.event.continues if started is not None else None

    def head_of(self, stream: str) -> str:
        """The head of a run's chain as whoever approved its successor saw it."""
        found = self.streams.get(stream)
        replaced = found is not None and getattr(found.last, "replaced_by", None) is not None
        return (found.before if replaced else found.head).hex() if found is not None else ""

    def digest(self, size: int) -> bytes:
        return bytes(self.digests[32 * size : 32 * size + 32])


class LineageAudit:
    """One plan through its revisions."""

    def __init__(self, auditor: AuditState, name: str) -> None:
        self.auditor, self.name = auditor, name
        self.state: PlanState | None = PlanState()
        """None once something was recorded that cannot happen: what follows from it means nothing."""
        self.plan_id: PlanId | None = None
        self.plan: Plan | None = None
        self.plans: dict[PlanId, Plan | None] = {}
        self.beneath: PlanId | None = None
        """The plan of the run that a proposed successor would go on with: where that is declined, the newest again."""
        self.newest: RunId | None = None
        self.open: dict[str, GivenApproval] = {}
        """The approvals that a run could still use."""

    def look(self, event: Event, at: Instant, seq: int) -> None:
        found = len(self.auditor.findings)
        for given in tuple(self.open.values()):
            if at >= given.approval.expires_at:
                self.end(given, "expired")
        match event:
            case PlanPrepared():
                self.prepared(event, seq)
            case PlanRejected() | PlanCancelled() | PlanArchived():
                self.end_all("revoked")
                self.stand_as_before()
            case PlanExpired():
                self.stand_as_before()
            case ApprovalRevoked(approval_id=approval_id) if approval_id in self.open:
                self.end(self.open[approval_id], "revoked")
            case ApprovalExpired(approval_id=approval_id) if approval_id in self.open:
                self.end(self.open[approval_id], "expired")
            case ApprovalGiven():
                self.given(event, seq)
            case RunStarted():
                self.started(event, at, seq)
            case RunEnded():
                self.ended(event, seq)
        self.fold(event, at, seq, found)

    def fold(self, event: Event, at: Instant, seq: int, found: int) -> None:
        if self.state is None:
            return
        try:
            apply_lineage(self.state, event, at)  # type: ignore[arg-type]
        except (IllegalTransition, *UNREADABLE) as error:
            self.state = None
            if len(self.auditor.findings) == found:  # otherwise it is told already, and better
                self.auditor.cannot_be(self.name, seq, error)

    def find(self, kind: Kind, seq: int, sentence: str) -> None:
        self.auditor.find(kind, self.name, seq, sentence)

    def end(self, given: GivenApproval, how: str) -> None:
        given.ended = how
        self.open.pop(given.approval.approval_id, None)

    def end_all(self, how: str) -> None:
        for given in tuple(self.open.values()):
            self.end(given, how)

    def stand_as_before(self) -> None:
        if self.beneath is not None:
            self.plan_id, self.plan, self.beneath = self.beneath, self.plans.get(self.beneath), None

    def prepared(self, event: PlanPrepared, seq: int) -> None:
        if event.continues is not None and self.beneath is None:
            self.beneath = self.plan_id
        if event.plan_id != self.plan_id:
            self.end_all("superseded")
        self.auditor.plans.setdefault(event.plan_id, self.name)
        self.plan_id, self.plan = event.plan_id, self.read(event, seq)
        self.plans[event.plan_id] = self.plan

    def read(self, event: PlanPrepared, seq: int) -> Plan | None:
        body = bytes(event.plan)
        if f"plan:{digest(PLAN_TYPE, body)}" != event.plan_id:
            self.find(Kind.PLAN, seq, f"The plan in event {seq} does not have the digest {short_id(event.plan_id)}….")
            return None
        try:
            plan = plan_from_bytes(body)
            if canonical_bytes(plan) == body:
                return plan
            self.find(Kind.FORM, seq, f"The plan in event {seq} is not spelt as any plan is that was prepared.")
        except (*UNREADABLE, ValueError) as error:
            sentence = f"The plan {short_id(event.plan_id)} in event {seq} cannot be read by this version: {error}."
            found = Finding(kind=Kind.FORM, stream=self.name, seq=seq, sentence=sentence)
            self.auditor.unreadable[event.plan_id] = found
        return None

    def given(self, event: ApprovalGiven, seq: int) -> None:
        auditor, approval = self.auditor, event.approval
        name = approval.approval_id
        wrongs = list(self.faults(approval))
        signer = auditor.signer(approval.approver, approval.key, event.signature, signed_bytes(approval))
        if isinstance(signer, str):
            wrongs.append((Kind.SIGNATURE, f"{name} {signer}."))
        elif signer is not None and self.pinned(approval):
            auditor.signed_events = max(auditor.signed_events, approval.ledger_size)
        for kind, sentence in wrongs:
            self.find(kind, seq, sentence)
        if name not in auditor.approvals:
            proved = signer if isinstance(signer, Approver) and not wrongs else None
            self.open[name] = auditor.approvals[name] = GivenApproval(self.name, approval, proved, len(auditor.times))

    def faults(self, approval: Approval) -> Iterator[Wrong]:
        """What is wrong with an approval, whoever signed it."""
        name = approval.approval_id
        if name in self.auditor.approvals:
            yield Kind.APPROVAL, f"{name} is given a second time."
        if approval.plan_id != self.plan_id:
            yield Kind.APPROVAL, f"{name} is for another plan than the one that was proposed here."
        elif self.elsewhere():
            yield Kind.APPROVAL, f"{name} is for a plan that belongs to another lineage."
        elif self.plan is not None and approval.action_kinds != action_kinds(self.plan):
            yield Kind.ACTIONS, f"{name} names other kinds of action than its plan has."
        if approval.uses != 1:
            yield Kind.APPROVAL, f"{name} is for {approval.uses} runs, and an approval is for one."
        if not approval.approver.person:
            yield Kind.APPROVAL, f"{name} came through {approval.approver.channel}, where no person can be."
        if approval.workspace.id != self.auditor.workspace.workspace_id:
            yield Kind.APPROVAL, f"{name} was given for another workspace."
        if approval.ledger_head and not self.pinned(approval):
            sentence = f"{name} was given when the first {approval.ledger_size} events were others than they are now."
            yield Kind.CHECKPOINT, sentence

    def elsewhere(self) -> bool:
        """Whether the newest plan is another lineage's: what was given there must not be good here a second time."""
        return self.plan_id is not None and self.auditor.plans[self.plan_id] != self.name

    def pinned(self, approval: Approval) -> bool:
        """Whether what the approver saw of the ledger is still there; what came after the approval, nobody saw."""
        size = approval.ledger_size
        return 0 <= size < self.auditor.size and self.auditor.digest(size).hex() == approval.ledger_head

    def started(self, event: RunStarted, at: Instant, seq: int) -> None:
        auditor, run_id = self.auditor, event.run_id
        if (unreadable := auditor.unreadable.pop(event.plan_id, None)) is not None:
            auditor.findings.append(unreadable)
        if event.plan_id != self.plan_id:
            self.find(Kind.COMMITMENT, seq, f"{run_id} is of another plan than the one that was proposed here.")
        elif self.elsewhere():
            self.find(Kind.COMMITMENT, seq, f"{run_id} is of a plan that belongs to another lineage.")
        for kind, sentence in self.broken_chain(event):
            self.find(kind, seq, sentence)
        self.newest, self.beneath = run_id, None
        given = auditor.approvals.get(event.approval_id or "")
        plan = self.plan if event.plan_id == self.plan_id else None
        started = StartedRun(self.name, seq, event, plan, given)
        if event.approval_id is not None:
            for kind, sentence in self.refusals(event, given, at):
                self.find(kind, seq, sentence)
                started.signer = None
            if started.signer is None and auditor.keys:
                self.find(Kind.SIGNATURE, seq, f"{run_id} was started on nothing that one of the keys signed.")
            elif started.signer is None and auditor.rules.signatures(auditor.workspace.trusted):
                sentence = f"{run_id} was started unsigned, and the configuration wants signatures."
                self.find(Kind.SIGNATURE, seq, sentence)
            if given is not None:
                self.end(given, f"used by {run_id}")
        elif plan is not None and event.unasked is not None:
            for kind, sentence in self.asked(event, event.unasked, plan):
                self.find(kind, seq, sentence)
        elif plan is not None:
            unasked = auditor.rules.unasked(plan, auditor.workspace.trusted, event.tools)
            started.policy = "cannot be re-checked" if unasked is None else "allowed" if unasked else "asked"
            if unasked is False:
                sentence = f"{run_id} was started without an approval, and the policy in force asked for one."
                self.find(Kind.APPROVAL, seq, sentence)
        if run_id in auditor.started:
            self.find(Kind.COMMITMENT, seq, f"{run_id} is started a second time.")
        else:
            auditor.started[run_id] = started

    def broken_chain(self, event: RunStarted) -> Iterator[Wrong]:
        """What is wrong with the run that this one goes on with."""
        former = self.auditor.started.get(event.continues) if event.continues is not None else None
        if event.continues is not None and (former is None or event.continues != self.newest or former.ended is None):
            said = f"{event.run_id} goes on with {event.continues}"
            yield Kind.COMMITMENT, f"{said}, which is not the run before it, or has not ended."

    def asked(self, event: RunStarted, unasked: Unasked, plan: Plan) -> Iterator[Wrong]:
        """Why somebody had to be asked about a run that went on unasked."""
        given = self.auditor.approvals.get(unasked.approval_id)
        said = f"{event.run_id} went on unasked by {unasked.approval_id}"
        if given is None or not given.approval.allow_subset or event.continues is None:
            yield Kind.APPROVAL, f"{said}, which does not allow that."
        elif given.ended is None or given.ended.removeprefix("used by ") not in [*self.auditor.chain(event.continues)]:
            yield Kind.APPROVAL, f"{said}, which no run before it was started on."
        elif (approved := self.plans.get(given.approval.plan_id)) is not None:
            for fault in subset_faults(approved, plan)[:1]:
                yield Kind.ACTIONS, f"{said}, and {fault}."

    def refusals(self, event: RunStarted, given: GivenApproval | None, at: Instant) -> Iterator[Wrong]:
        """Why this run should not have been started on this approval."""
        started = f"{event.run_id} was started on {event.approval_id}"
        if given is None:
            yield Kind.APPROVAL, f"{started}, which was never given."
            return
        if given.lineage != self.name:
            yield Kind.APPROVAL, f"{started}, which was given elsewhere."
        elif given.ended is not None:
            yield Kind.APPROVAL, f"{started}, which had ended: {given.ended}."
        if given.approval.plan_id != event.plan_id:
            yield Kind.APPROVAL, f"{started}, which is for another plan."
        approver = given.approval.approver.name
        if self.auditor.barred(approver):
            yield Kind.APPROVAL, f"{started}, which {approver} gave, who was not among those who may."
        bound = given.approval.continues
        if (bound.run_id if bound is not None else None) != event.continues:
            yield Kind.APPROVAL, f"{started}, which is for going on with another run."
        elif bound is not None and bound.head != self.auditor.head_of(f"run/{bound.run_id}"):
            yield Kind.APPROVAL, f"{started}, and of {bound.run_id} more was recorded than the approver saw."
        if given.approval.issued_at > at + CLOCK_SKEW_MS:
            yield Kind.APPROVAL, f"{started} before that was given."
        if max(self.auditor.times[given.arrived :], default=0) >= given.approval.expires_at:
            yield Kind.APPROVAL, f"{started} after its time: something recorded before that is dated later."
        signer = given.signer
        if signer is not None and self.auditor.workspace.approvers[fingerprint(signer.key)].revoked_at is not None:
            yield Kind.SIGNATURE, f"{started} after the key of {signer.name} was revoked."

    def ended(self, event: RunEnded, seq: int) -> None:
        if event.status == "cancelled":
            self.end_all("revoked")
        started = self.auditor.started.get(event.run_id)
        if started is None or started.lineage != self.name:
            self.find(Kind.COMMITMENT, seq, f"{event.run_id} ended here and was not started here.")
        elif started.ended is not None:
            self.find(Kind.COMMITMENT, seq, f"{event.run_id} ends a second time.")
        else:
            started.ended = seq, event


class RunAudit:
    def __init__(self, auditor: AuditState, name: str) -> None:
        self.auditor, self.name = auditor, name
        self.opened = False
        self.plan_id = PlanId("")
        """What the run says that it is of."""
        self.state: RunState | None = None
        """None before it is opened, where its plan cannot be read, and after what cannot happen."""
        self.moments = Moments()

    def look(self, event: Event, at: Instant, seq: int) -> None:
        if not self.opened:
            self.opened = True
            self.open(event, seq)
        if isinstance(event, DecisionGiven):
            self.decided(event, seq)
        self.resulted(event, seq)
        self.moments.add(event, self.auditor.streams[self.name].head)  # type: ignore[arg-type]
        if self.state is None:
            return
        if isinstance(event, AttemptEnded) and event.outcome.error is None:
            self.signalled(self.state, event, seq)
        try:
            apply(self.state, event, at)  # type: ignore[arg-type]
        except IMPOSSIBLE as error:
            self.state = None
            self.auditor.cannot_be(self.name, seq, error)

    def resulted(self, event: Event, seq: int) -> None:
        """Note what a step came to, and compare what is kept of another run with that run."""
        started = self.auditor.started.get(self.run_id)
        if started is None:
            return
        started.results.add(event)
        if isinstance(event, RunCancelled):
            started.replaced_by = event.replaced_by
        before = started.event.continues
        if before is None or not isinstance(event, StepKept):
            return
        former = self.auditor.started.get(before)
        if former is None or former.results.misfit(event, before):
            sentence = f"`{event.step}` is kept at event {seq} as it did not go in the run before."
            self.auditor.find(Kind.COMMITMENT, self.name, seq, sentence)

    def signalled(self, state: RunState, event: AttemptEnded, seq: int) -> None:
        """Where a step had what it waited for: that the signal was there by then, given since the run was opened."""
        key = signal_of(state.step(event.step)) if event.step in state.steps else None
        if key is not None:
            signal = self.auditor.signals.get(key, SignalState(key=key))
            if signal.size <= state.signals.get(key, 0):
                sentence = f"`{event.step}` went on at event {seq} on the signal `{key}`, which was not given by then."
                self.auditor.find(Kind.HISTORY, self.name, seq, sentence)
            elif (key, event.outcome.output_seal) not in self.auditor.given:
                sentence = f"`{event.step}` went on at event {seq} with a value that the signal `{key}` never had."
                self.auditor.find(Kind.HISTORY, self.name, seq, sentence)

    @property
    def run_id(self) -> RunId:
        return RunId(self.name.removeprefix("run/"))

    def decided(self, event: DecisionGiven, seq: int) -> None:
        auditor, name = self.auditor, f"The answer `{event.choice}` about `{event.step}`"
        workspace_id = auditor.workspace.workspace_id or ""
        said = signed_decision(event, workspace_id=workspace_id, run_id=self.run_id, plan_id=self.plan_id)
        signer = auditor.signer(event.by, event.key, event.signature, said)
        wrongs = [*self.faults(event), *self.unsigned(signer)]
        for kind, sentence in wrongs:
            auditor.find(kind, self.name, seq, f"{name} {sentence}.")
        started = auditor.started.get(self.run_id)
        if started is not None:
            started.answers += 1
            started.answers_signed += signer is not None and not wrongs

    def faults(self, event: DecisionGiven) -> Iterator[Wrong]:
        """What is wrong with an answer, whoever signed it."""
        auditor = self.auditor
        if not event.by.person:
            yield Kind.DECISION, f"came through {event.by.channel}, where no person can be"
        elif auditor.barred(event.by.name):
            yield Kind.DECISION, f"is by {event.by.name}, who was not among those who may answer"
        if not fits(event):
            yield Kind.DECISION, f"takes it to {event.to.value}, where that cannot lead"
        elif (event.about, event.to) == ("doubt", StepState.PASSED) and self.contracted(event):
            yield Kind.HISTORY, "passed it, and it has a contract, which alone can"
        # Answers of before they were bound have none of these, and say nothing of the place that they were given in.
        bound = event.head or event.attempt or event.key is not None
        if bound and event.head != auditor.streams[self.name].before.hex() and not self.moments.fit(event):
            yield Kind.DECISION, "was given when the run was another one than before it here"

    def unsigned(self, signer: Approver | str | None) -> Iterator[Wrong]:
        if isinstance(signer, str):
            yield Kind.SIGNATURE, signer
        elif signer is None and self.auditor.keys:
            yield Kind.SIGNATURE, "is nothing that one of the keys signed"
        elif signer is None and self.auditor.rules.signatures(self.auditor.workspace.trusted):
            yield Kind.SIGNATURE, "is unsigned, and the configuration wants signatures"

    def contracted(self, event: DecisionGiven) -> bool:
        """Whether it is known that the step which was asked about has a contract."""
        step = self.state.defined.get(event.step) if self.state is not None else None
        return step is not None and contract_of(step) is not None

    def open(self, event: Event, seq: int) -> None:
        auditor = self.auditor
        started = auditor.started.get(self.run_id)
        if isinstance(event, RunOpened):
            self.plan_id = event.plan_id
        if not isinstance(event, RunOpened):
            sentence = f"A run begins with event {seq}, which does not open it."
        elif started is None:
            sentence = f"No plan says that {event.run_id} was started."
        elif (event.run_id, event.plan_id, event.lineage) != (self.run_id, started.event.plan_id, started.lineage):
            sentence = f"{event.run_id} says that it is a run of another plan than the plan says."
        elif event.workspace.id != auditor.workspace.workspace_id:
            sentence = f"{event.run_id} was run in another workspace."
        elif started.given is not None and started.given.approval.workspace != event.workspace:
            sentence = f"{event.run_id} was run in another directory than it was approved for."
        elif event.rerun_of is not None and not auditor.ended_before(event.rerun_of, started):
            sentence = f"{event.run_id} does {event.rerun_of} again, which is no run of its plan that had ended."
        elif event.continues != started.event.continues:
            sentence = f"{event.run_id} goes on with another run than its plan says."
        elif _approved_to_keep(started) not in (None, event.may_keep):
            sentence = f"{event.run_id} may keep other steps of the run before than was approved."
        else:
            try:
                self.state = RunState(started.plan) if started.plan is not None else None
            except IMPOSSIBLE as error:
                auditor.find(Kind.HISTORY, self.name, seq, f"No run of this plan can have been opened: {error}.")
            return
        auditor.find(Kind.COMMITMENT, self.name, seq, sentence)
        if started is not None:
            started.signer = None


def _approved_to_keep(started: StartedRun) -> tuple[StepId, ...] | None:
    """What the approver of a run saw that it may keep of another one; None where it goes on with none."""
    bound = started.given.approval.continues if started.given is not None else None
    return bound.kept if bound is not None else None


class LockAudit:
    def __init__(self, auditor: AuditState, name: str) -> None:
        self.auditor, self.name = auditor, name
        self.state = LockState(name=name.removeprefix("lock/"))
        auditor.locks.append(self.state)

    def look(self, event: Event, at: Instant, seq: int) -> None:
        assert isinstance(event, LockEvent)
        self.state.size = seq - 1  # a row may be missing before it
        try:
            apply_lock(self.state, event)
        except IllegalTransition as error:
            self.auditor.cannot_be(self.name, seq, error)
            self.state.holder = event.run_id if isinstance(event, LockTaken) else None
        started = self.auditor.started.get(event.run_id)
        if started is None:
            sentence = f"No plan says that {event.run_id} was started, which is said to have had this lock."
            self.auditor.find(Kind.HISTORY, self.name, seq, sentence)
        elif started.ended is not None and isinstance(event, LockTaken):
            self.auditor.find(Kind.HISTORY, self.name, seq, f"{event.run_id} took this lock after it had ended.")


class SignalAudit:
    def __init__(self, auditor: AuditState, name: str) -> None:
        self.auditor, self.name = auditor, name
        self.state = SignalState(key=name.removeprefix("signal/"))
        auditor.signals[self.state.key] = self.state

    def look(self, event: Event, at: Instant, seq: int) -> None:
        assert isinstance(event, SignalGiven)
        self.state.size = seq - 1  # a row may be missing before it
        self.auditor.given.add((self.state.key, event.value_seal))
        try:
            apply_signal(self.state, event)
        except IllegalTransition as error:
            self.auditor.cannot_be(self.name, seq, error)
