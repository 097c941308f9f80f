"""Whether a ledger can be believed: every event looked at once, in order of arrival, and all that does not fit, told.

Looks at nothing but the events, so no table beside them can lie for them, and never raises for what is stored: bytes
that cannot be read are a finding like any other. What needs no rules of ours is checked by tools/verify_ledger.py too,
which shares no line with this; tests hold the two to the same findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

import msgspec

from ordain.core.approval.approval import CLOCK_SKEW_MS, Approval, Principal, action_kinds, signed_bytes
from ordain.core.approval.signature import Signature, Verifier, fingerprint
from ordain.core.ledger import chain
from ordain.core.ledger.chain import Entry
from ordain.core.ledger.link import Tip
from ordain.core.lineage.decision import Moments, signed_decision
from ordain.core.lineage.lineage import PlanState, apply_lineage
from ordain.core.lineage.refusal import REFUSALS_STREAM
from ordain.core.lineage.workspace import Approver, WorkspaceState, apply_workspace
from ordain.core.plan.canonical import PLAN_TYPE, canonical_bytes, digest, plan_from_bytes, short_id
from ordain.core.plan.model import Plan, contract_of
from ordain.core.plan.tool import ToolDefinition
from ordain.core.plan.value import Instant, PlanId, RunId
from ordain.core.run.attempt import fits
from ordain.core.run.event import (
    ApprovalExpired,
    ApprovalGiven,
    ApprovalRevoked,
    ApproverEnrolled,
    ApproverRevoked,
    ConfigTrusted,
    Event,
    LineageEvent,
    LockEvent,
    LockTaken,
    PlanArchived,
    PlanCancelled,
    PlanPrepared,
    PlanRejected,
    RequestRefused,
    RunCancelled,
    RunEnded,
    RunEvent,
    RunFinished,
    RunOpened,
    RunStarted,
    SignalGiven,
    TopicPosted,
    WorkspaceEvent,
)
from ordain.core.run.run_state import IllegalTransition, RunState
from ordain.core.run.state import apply
from ordain.core.run.step_event import AttemptEnded, DecisionGiven, StepState
from ordain.core.run.topic import apply_topic, topic_named
from ordain.core.run.wait import LockState, SignalState, apply_lock, apply_signal, signal_of, stream_of


class Kind(StrEnum):
    """What is wrong, in a word."""

    MISSING = "missing"
    """The order of arrival has a gap, or goes back."""
    CHAIN = "chain"
    """An event is not what was recorded, or not where."""
    UNREADABLE = "unreadable"
    """Bytes that fit their chain and say nothing this version understands."""
    STRAY = "stray"
    """An event in a stream where its kind does not belong."""
    PLAN = "plan"
    """A plan's bytes do not have the digest they are called by."""
    COMMITMENT = "commitment"
    """A plan and a run of it do not say the same about each other."""
    APPROVAL = "approval"
    """A run that its approval does not permit."""
    DECISION = "decision"
    """An answer that is of nobody who may answer, that does not do what its word says, or that was given elsewhere in a
    run than where it stands."""
    SIGNATURE = "signature"
    """A signature that is needed is missing, or one that is there does not count."""
    CHECKPOINT = "checkpoint"
    """The ledger is not the one that somebody saw."""
    FORM = "form"
    """A plan's bytes are not the one spelling that could have been prepared."""
    ACTIONS = "actions"
    """An approval names other kinds of action than its plan has."""
    HISTORY = "history"
    """Something that cannot happen is recorded."""
    OUTPUT = "output"
    """What is kept beside the events is not what was sealed in them."""
    TABLE = "table"
    """A table beside the events says something else than they do. It was never believed, and can be made anew."""


NEEDS_RULES = frozenset({Kind.FORM, Kind.ACTIONS, Kind.HISTORY})
"""What only a verifier finds that knows the rules of plans and runs; the independent one does not."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that does not fit, and at which event; `seq` is 0 where it is about a whole stream or ledger."""

    kind: Kind
    stream: str
    seq: int
    sentence: str


class Signed(StrEnum):
    """Whose word a run was started on."""

    SIGNED = "signed"
    """A person's, who signed it with a key that counts."""
    UNSIGNED = "unsigned"
    """Somebody's at a terminal: nothing proves it."""
    NOT_NEEDED = "claims no approval"
    """Nobody's: the run says that policy asked for no approval."""


class AuditedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run, and whose word it was started on."""

    run_id: RunId
    plan_id: PlanId
    lineage: str
    status: str | None
    """How it ended; None while it is open."""
    approval: Signed
    by: str | None = None
    key: str | None = None
    """The fingerprint of the key that signed."""
    policy: str = ""
    """`allowed` where policy let it run unasked, by what was recorded with it; `cannot be re-checked` where an older
    version recorded too little, which is neither good nor bad."""
    answers: int = 0
    answers_signed: int = 0
    """How many of a person's answers the run went by, and how many of them are proved to be somebody's."""


class Outputs(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept beside the events, compared with the seals in them."""

    intact: int = 0
    changed: int = 0
    left_out: int = 0
    """Sealed, and not here: never kept, or left out of a copy. Neither good nor bad."""


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """What the audit of a whole ledger showed."""

    events: int
    streams: int
    plans: int
    head: str
    """With `events` the checkpoint: whoever keeps both can tell later that nothing before it was changed or cut off."""
    findings: tuple[Finding, ...]
    runs: tuple[AuditedRun, ...]
    approvers: tuple[Approver, ...]
    """Everybody who was enrolled, also those whose key was revoked."""
    signed_events: int
    """How many events, from the first on, a good signature vouches for: none of them can be rewritten."""
    outputs: Outputs = Outputs()
    unreadable: tuple[str, ...] = ()
    """The plans that this version cannot read and that no run was started of, with the reason. Neither good nor bad."""

    @property
    def good(self) -> bool:
        return not self.findings

    @property
    def chain_intact(self) -> bool:
        """Whether every event is what was recorded, where it was recorded."""
        return not any(one.kind in (Kind.MISSING, Kind.CHAIN, Kind.CHECKPOINT) for one in self.findings)


class Rules:
    """What a trusted configuration means; as it stands it forbids nothing."""

    def unasked(
        self, plan: Plan, trusted: ConfigTrusted | None, tools: Mapping[str, ToolDefinition] | None
    ) -> bool | None:
        """Whether a plan could run without anybody's approval, by these definitions; None where nobody can tell."""
        return True

    def signatures(self, trusted: ConfigTrusted | None) -> bool:
        """Whether every approval and every answer had to be signed."""
        return False

    def approvers(self, trusted: ConfigTrusted | None) -> tuple[str, ...]:
        """Who alone could approve and answer, by name; empty where anybody could."""
        return ()


def audit(
    rows: Iterable[Entry],
    *,
    verify: Verifier,
    keys: frozenset[str] = frozenset(),
    checkpoint: Tip | None = None,
    rules: Rules | None = None,
) -> Audit:
    """Look at all events in order of arrival.

    `keys` are the fingerprints of keys that the auditor knows from elsewhere: where there are any, no other key's
    signature counts and neither an approval nor an answer counts without one, whatever the ledger says. `checkpoint` is
    one that somebody kept: the ledger may have grown since, and nothing else. `rules` say what a configuration means;
    where they are not given, that is not judged.
    """
    auditor = _Auditor(verify, keys, checkpoint, rules or Rules())
    auditor.look(rows)
    return auditor.result()


class _AuditedStream:
    """Where one chain stands, and what its events are handed to."""

    __slots__ = ("before", "events", "head", "last", "look", "size")

    def __init__(self, look: Callable[[Event, Instant, int], None], events: frozenset[type]) -> None:
        self.size, self.head = chain.ORIGIN
        self.before = self.head
        """The head before the newest event."""
        self.look, self.events = look, events
        self.last: Event | None = None
        """The newest event, where it can be read."""


class _Given:
    """An approval that was given, what its signature is worth, and what became of it."""

    def __init__(self, lineage: str, approval: Approval, signer: Approver | None, arrived: int) -> None:
        self.lineage, self.approval, self.arrived = lineage, approval, arrived
        self.signer = signer
        """None where nothing proves whose word it is."""
        self.ended: str | None = None


class _Started:
    """A run as its lineage tells of it."""

    def __init__(self, lineage: str, seq: int, event: RunStarted, plan: Plan | None, given: _Given | None) -> None:
        self.lineage, self.seq, self.event, self.plan, self.given = lineage, seq, event, plan, given
        self.signer = given.signer if given is not None else None
        """None as well where the approval does not permit this run: then the signature says nothing about it."""
        self.ended: tuple[int, RunEnded] | None = None
        self.policy = ""
        self.answers = self.answers_signed = 0


class _Wrong(NamedTuple):
    kind: Kind
    sentence: str


_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_IMPOSSIBLE = (IllegalTransition, LookupError, ArithmeticError, ValueError, AssertionError, RecursionError)
"""What folding events can raise of a plan that nobody linted: anything may be missing in it, too large, too deep."""
_WORKSPACE = "workspace"


class _Auditor:
    """What is known after the events looked at so far."""

    def __init__(self, verify: Verifier, keys: frozenset[str], kept: Tip | None, rules: Rules) -> None:
        self.verify, self.keys, self.kept, self.rules = verify, keys, kept, rules
        self.findings: list[Finding] = []
        self.streams: dict[str, _AuditedStream] = {}
        self.size = 0
        self.digests = bytearray(chain.ORIGIN.head)
        """The checkpoint's digest after each event, one after the other: an approval may name any of them."""
        self.workspace = WorkspaceState()
        self.plans: dict[PlanId, str] = {}
        """Every plan, and the lineage that had it first: it belongs to that one."""
        self.approvals: dict[str, _Given] = {}
        """By id, of all lineages: what was given for one plan is not given again for another."""
        self.started: dict[RunId, _Started] = {}
        self.locks: list[LockState] = []
        self.signals: dict[str, SignalState] = {}
        self.given: set[tuple[str, str]] = set()
        """Every signal with the seal of each value that it was given with."""
        self.unreadable: dict[PlanId, Finding] = {}
        """What is wrong with plans that cannot be read. It counts as soon as a run was started of one."""
        self.signed_events = 0
        self.times: list[int] = []
        """When each event says that it was recorded, in order of arrival."""

    # --- Chains ----------------------------------------------------------------------------------------------------

    def look(self, rows: Iterable[Entry]) -> None:
        streams, digests = self.streams, self.digests
        after = bytes(digests)
        arrived = 0
        for position, name, seq, body, head in rows:
            arrived += 1
            if position != arrived:
                sentence = f"What arrived as number {position} comes where number {arrived} was due."
                self.find(Kind.MISSING, name, seq, sentence)
                arrived = position
            stream = streams.get(name)
            if stream is None:
                stream = streams[name] = self.stream(name)
            wrong: str | None = None
            if head != chain.extend(stream.head, body):
                wrong = f"Event {seq} is not what was recorded: its bytes do not fit its place in the chain."
            elif seq != stream.size + 1:
                wrong = f"Event {seq} comes where event {stream.size + 1} was due."
            stream.before, stream.size, stream.head = stream.head, seq, head
            after = chain.checkpoint((head,), Tip(0, after)).head
            digests += after
            self.size += 1
            try:
                recorded = chain.decode(body, head)
            except _UNREADABLE as error:
                stream.last = None
                if wrong is None:
                    self.find(Kind.UNREADABLE, name, seq, f"Event {seq} cannot be read by this version: {error}.")
                else:
                    self.find(Kind.CHAIN, name, seq, wrong)
                continue
            if wrong is None and (recorded.stream != name or recorded.seq != seq):
                wrong = f"Event {seq} says that it is event {recorded.seq} of `{recorded.stream}`."
            if wrong is not None:
                self.find(Kind.CHAIN, name, seq, wrong)
            self.times.append(recorded.at)
            event = stream.last = recorded.event
            if type(event) in stream.events:
                stream.look(event, recorded.at, seq)
            else:
                sentence = f"Event {seq} is a {type(event).__name__}, which does not belong in this stream."
                self.find(Kind.STRAY, name, seq, sentence)

    def find(self, kind: Kind, stream: str, seq: int, sentence: str) -> None:
        self.findings.append(Finding(kind=kind, stream=stream, seq=seq, sentence=sentence))

    def stream(self, name: str) -> _AuditedStream:
        """A stream that is seen for the first time."""
        if name == _WORKSPACE:
            return _AuditedStream(self.look_at_workspace, _types(WorkspaceEvent))
        if name.startswith("lineage/"):
            return _AuditedStream(_Lineage(self, name).look, _types(LineageEvent))
        if name.startswith("run/"):
            return _AuditedStream(_Run(self, name).look, _types(RunEvent))
        if name.startswith("lock/"):
            return _AuditedStream(_Lock(self, name).look, _types(LockEvent))
        if name.startswith("signal/"):
            return _AuditedStream(_Signal(self, name).look, frozenset([SignalGiven]))
        if name.startswith("topic/"):
            return _AuditedStream(partial(self.look_at_topic, name), frozenset([TopicPosted]))
        if name == REFUSALS_STREAM:
            return _AuditedStream(lambda event, at, seq: None, frozenset([RequestRefused]))
        return _AuditedStream(lambda event, at, seq: None, frozenset())

    # --- The workspace's own stream --------------------------------------------------------------------------------

    def look_at_workspace(self, event: Event, at: Instant, seq: int) -> None:
        state = self.workspace
        state.size = seq - 1  # what is signed names the number of the event, and a row may be missing before it
        known = len(state.unsigned)
        apply_workspace(state, event, at, self.verify)  # type: ignore[arg-type]
        for said in state.unsigned[known:]:
            self.find(Kind.SIGNATURE, _WORKSPACE, seq, f"No good signature: {said}.")
        signature = event.signature if isinstance(event, ConfigTrusted | ApproverEnrolled | ApproverRevoked) else None
        if signature is not None and self.keys and signature.key not in self.keys:
            sentence = f"Event {seq} is signed with {signature.key}, which is not among the keys given."
            self.find(Kind.SIGNATURE, _WORKSPACE, seq, sentence)

    def look_at_topic(self, name: str, event: Event, at: Instant, seq: int) -> None:
        assert isinstance(event, TopicPosted)
        try:
            apply_topic(topic_named(name), event)
        except IllegalTransition as error:
            self.find(Kind.HISTORY, name, seq, f"Event {seq} cannot have happened: {error}.")

    def barred(self, name: str) -> bool:
        """Whether this person's word did not count by the configuration that is trusted at this event."""
        among = self.rules.approvers(self.workspace.trusted)
        return bool(among) and name not in among

    def signer(self, by: Principal, key: str | None, signature: Signature | None, said: bytes) -> Approver | str | None:
        """Who signed what this person said; None where it does not claim that anybody did, or why the signature is not
        good."""
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

    # --- The end ---------------------------------------------------------------------------------------------------

    def result(self) -> Audit:
        for run_id, started in self.started.items():
            self.compare(run_id, started)
        for lock in self.locks:
            holder = self.started.get(lock.holder) if lock.holder is not None else None
            if holder is not None and holder.ended is not None:
                sentence = f"{lock.holder} has ended, and did not give the lock back."
                self.find(Kind.HISTORY, stream_of(lock.name), lock.size, sentence)
        for key in sorted(self.keys - self.workspace.approvers.keys()):
            self.find(Kind.SIGNATURE, _WORKSPACE, 0, f"The key {key} was never enrolled in this ledger.")
        if self.kept is not None and self.kept.size > self.size:
            sentence = f"There are {self.size} events, and there were {self.kept.size}: the end is gone."
            self.find(Kind.CHECKPOINT, "", 0, sentence)
        elif self.kept is not None and self.digest(self.kept.size) != self.kept.head:
            sentence = f"The first {self.kept.size} events are not those of the checkpoint that was kept."
            self.find(Kind.CHECKPOINT, "", 0, sentence)
        return Audit(
            events=self.size,
            streams=len(self.streams),
            plans=len(self.plans),
            head=self.digest(self.size).hex(),
            findings=tuple(self.findings),
            runs=tuple(map(_audited, self.started.values())),
            approvers=tuple(self.workspace.approvers.values()),
            signed_events=self.signed_events,
            unreadable=tuple(one.sentence for one in self.unreadable.values()),
        )

    def compare(self, run_id: RunId, started: _Started) -> None:
        """What a lineage says of a run with the run itself, when both are known to their end."""
        run = self.streams.get(f"run/{run_id}")
        if run is None:
            sentence = f"{run_id} was started, and there is nothing of it."
            self.find(Kind.COMMITMENT, started.lineage, started.seq, sentence)
            return
        finished = run.last.status if isinstance(run.last, RunFinished | RunCancelled) else None
        if started.ended is None:
            if finished is not None:
                sentence = f"{run_id} has finished, and its plan does not say so."
                self.find(Kind.COMMITMENT, f"run/{run_id}", run.size, sentence)
            return
        seq, ended = started.ended
        if ended.head != run.head.hex() or finished != ended.status:
            sentence = f"Event {seq} says how {run_id} ended, and the run is another one now."
            self.find(Kind.COMMITMENT, started.lineage, seq, sentence)

    def ended_before(self, run_id: RunId, again: _Started) -> bool:
        """Whether a run of the same plan had ended when this one was started."""
        former = self.started.get(run_id)
        return (
            former is not None
            and (former.lineage, former.event.plan_id) == (again.lineage, again.event.plan_id)
            and former.ended is not None
        )

    def digest(self, size: int) -> bytes:
        return bytes(self.digests[32 * size : 32 * size + 32])


class _Lineage:
    """One plan through its revisions."""

    def __init__(self, auditor: _Auditor, name: str) -> None:
        self.auditor, self.name = auditor, name
        self.state: PlanState | None = PlanState()
        """None once something was recorded that cannot happen: what follows from it means nothing."""
        self.plan_id: PlanId | None = None
        self.plan: Plan | None = None
        self.open: dict[str, _Given] = {}
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
            case _:
                pass
        self.fold(event, at, seq, found)

    def fold(self, event: Event, at: Instant, seq: int, found: int) -> None:
        if self.state is None:
            return
        try:
            apply_lineage(self.state, event, at)  # type: ignore[arg-type]
        except (IllegalTransition, *_UNREADABLE) as error:
            self.state = None
            if len(self.auditor.findings) == found:  # otherwise it is told already, and better
                self.find(Kind.HISTORY, seq, f"Event {seq} cannot have happened: {error}.")

    def find(self, kind: Kind, seq: int, sentence: str) -> None:
        self.auditor.find(kind, self.name, seq, sentence)

    def end(self, given: _Given, how: str) -> None:
        given.ended = how
        self.open.pop(given.approval.approval_id, None)

    def end_all(self, how: str) -> None:
        for given in tuple(self.open.values()):
            self.end(given, how)

    def prepared(self, event: PlanPrepared, seq: int) -> None:
        if event.plan_id != self.plan_id:
            self.end_all("superseded")
        self.plan_id, self.plan = event.plan_id, None
        self.auditor.plans.setdefault(event.plan_id, self.name)
        body = bytes(event.plan)
        if f"plan:{digest(PLAN_TYPE, body)}" != event.plan_id:
            self.find(Kind.PLAN, seq, f"The plan in event {seq} does not have the digest {short_id(event.plan_id)}….")
            return
        try:
            plan = plan_from_bytes(body)
            if canonical_bytes(plan) == body:
                self.plan = plan
            else:
                self.find(Kind.FORM, seq, f"The plan in event {seq} is not spelt as any plan is that was prepared.")
        except (*_UNREADABLE, ValueError) as error:
            sentence = f"The plan {short_id(event.plan_id)} in event {seq} cannot be read by this version: {error}."
            self.auditor.unreadable[event.plan_id] = Finding(
                kind=Kind.FORM, stream=self.name, seq=seq, sentence=sentence
            )

    def given(self, event: ApprovalGiven, seq: int) -> None:
        auditor, approval = self.auditor, event.approval
        name = approval.approval_id
        wrongs = list(self.faults(approval))
        signer = auditor.signer(approval.approver, approval.key, event.signature, signed_bytes(approval))
        if isinstance(signer, str):
            wrongs.append(_Wrong(Kind.SIGNATURE, f"{name} {signer}."))
        elif signer is not None and self.pinned(approval):
            auditor.signed_events = max(auditor.signed_events, approval.ledger_size)
        for wrong in wrongs:
            self.find(wrong.kind, seq, wrong.sentence)
        if name not in auditor.approvals:
            proved = signer if isinstance(signer, Approver) and not wrongs else None
            self.open[name] = auditor.approvals[name] = _Given(self.name, approval, proved, len(auditor.times))

    def faults(self, approval: Approval) -> Iterable[_Wrong]:
        """What is wrong with an approval, whoever signed it."""
        name = approval.approval_id
        if name in self.auditor.approvals:
            yield _Wrong(Kind.APPROVAL, f"{name} is given a second time.")
        if approval.plan_id != self.plan_id:
            yield _Wrong(Kind.APPROVAL, f"{name} is for another plan than the one that was proposed here.")
        elif self.elsewhere():
            yield _Wrong(Kind.APPROVAL, f"{name} is for a plan that belongs to another lineage.")
        elif self.plan is not None and approval.action_kinds != action_kinds(self.plan):
            yield _Wrong(Kind.ACTIONS, f"{name} names other kinds of action than its plan has.")
        if approval.uses != 1:
            yield _Wrong(Kind.APPROVAL, f"{name} is for {approval.uses} runs, and an approval is for one.")
        if not approval.approver.person:
            yield _Wrong(Kind.APPROVAL, f"{name} came through {approval.approver.channel}, where no person can be.")
        if approval.workspace.id != self.auditor.workspace.workspace_id:
            yield _Wrong(Kind.APPROVAL, f"{name} was given for another workspace.")
        if approval.ledger_head and not self.pinned(approval):
            sentence = f"{name} was given when the first {approval.ledger_size} events were others than they are now."
            yield _Wrong(Kind.CHECKPOINT, sentence)

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
        given = auditor.approvals.get(event.approval_id or "")
        plan = self.plan if event.plan_id == self.plan_id else None
        started = _Started(self.name, seq, event, plan, given)
        if event.approval_id is not None:
            for wrong in self.refusals(event, given, at):
                self.find(wrong.kind, seq, wrong.sentence)
                started.signer = None
            if started.signer is None and auditor.keys:
                self.find(Kind.SIGNATURE, seq, f"{run_id} was started on nothing that one of the keys signed.")
            elif started.signer is None and auditor.rules.signatures(auditor.workspace.trusted):
                sentence = f"{run_id} was started unsigned, and the configuration wants signatures."
                self.find(Kind.SIGNATURE, seq, sentence)
            if given is not None:
                self.end(given, f"used by {run_id}")
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

    def refusals(self, event: RunStarted, given: _Given | None, at: Instant) -> Iterable[_Wrong]:
        """Why this run should not have been started on this approval."""
        started = f"{event.run_id} was started on {event.approval_id}"
        if given is None:
            yield _Wrong(Kind.APPROVAL, f"{started}, which was never given.")
            return
        if given.lineage != self.name:
            yield _Wrong(Kind.APPROVAL, f"{started}, which was given elsewhere.")
        elif given.ended is not None:
            yield _Wrong(Kind.APPROVAL, f"{started}, which had ended: {given.ended}.")
        if given.approval.plan_id != event.plan_id:
            yield _Wrong(Kind.APPROVAL, f"{started}, which is for another plan.")
        approver = given.approval.approver.name
        if self.auditor.barred(approver):
            yield _Wrong(Kind.APPROVAL, f"{started}, which {approver} gave, who was not among those who may.")
        if given.approval.issued_at > at + CLOCK_SKEW_MS:
            yield _Wrong(Kind.APPROVAL, f"{started} before that was given.")
        if max(self.auditor.times[given.arrived :], default=0) >= given.approval.expires_at:
            yield _Wrong(Kind.APPROVAL, f"{started} after its time: something recorded before that is dated later.")
        signer = given.signer
        if signer is not None and self.auditor.workspace.approvers[fingerprint(signer.key)].revoked_at is not None:
            yield _Wrong(Kind.SIGNATURE, f"{started} after the key of {signer.name} was revoked.")

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


class _Run:
    def __init__(self, auditor: _Auditor, name: str) -> None:
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
        self.moments.add(event, self.auditor.streams[self.name].head)  # type: ignore[arg-type]
        if self.state is None:
            return
        if isinstance(event, AttemptEnded) and event.outcome.error is None:
            self.signalled(self.state, event, seq)
        try:
            apply(self.state, event, at)  # type: ignore[arg-type]
        except _IMPOSSIBLE as error:
            self.state = None
            self.auditor.find(Kind.HISTORY, self.name, seq, f"Event {seq} cannot have happened: {error}.")

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
        wrongs = []
        if not event.by.person:
            wrongs.append(_Wrong(Kind.DECISION, f"{name} came through {event.by.channel}, where no person can be."))
        elif auditor.barred(event.by.name):
            sentence = f"{name} is by {event.by.name}, who was not among those who may answer."
            wrongs.append(_Wrong(Kind.DECISION, sentence))
        if not fits(event):
            wrongs.append(_Wrong(Kind.DECISION, f"{name} takes it to {event.to.value}, where that cannot lead."))
        elif (event.about, event.to) == ("doubt", StepState.PASSED) and self.contracted(event):
            sentence = f"{name} passed it, and it has a contract, which alone can."
            wrongs.append(_Wrong(Kind.HISTORY, sentence))
        # Answers of before they were bound have none of these, and say nothing of the place that they were given in.
        bound = event.head or event.attempt or event.key is not None
        if bound and event.head != auditor.streams[self.name].before.hex() and not self.moments.fit(event):
            wrongs.append(_Wrong(Kind.DECISION, f"{name} was given when the run was another one than before it here."))
        signer = auditor.signer(event.by, event.key, event.signature, said)
        if isinstance(signer, str):
            wrongs.append(_Wrong(Kind.SIGNATURE, f"{name} {signer}."))
        elif signer is None and auditor.keys:
            wrongs.append(_Wrong(Kind.SIGNATURE, f"{name} is nothing that one of the keys signed."))
        elif signer is None and auditor.rules.signatures(auditor.workspace.trusted):
            wrongs.append(_Wrong(Kind.SIGNATURE, f"{name} is unsigned, and the configuration wants signatures."))
        for wrong in wrongs:
            auditor.find(wrong.kind, self.name, seq, wrong.sentence)
        started = auditor.started.get(self.run_id)
        if started is not None:
            started.answers += 1
            started.answers_signed += signer is not None and not wrongs

    def contracted(self, event: DecisionGiven) -> bool:
        """Whether it is known that the step which was asked about has a contract."""
        if self.state is None or event.step not in self.state.steps:
            return False
        return contract_of(self.state.step(event.step)) is not None

    def open(self, event: Event, seq: int) -> None:
        auditor = self.auditor
        started = auditor.started.get(self.run_id)
        if isinstance(event, RunOpened):
            self.plan_id = event.plan_id
        if not isinstance(event, RunOpened):
            sentence = f"A run begins with event {seq}, which does not open it."
        elif started is None:
            sentence = f"No plan says that {event.run_id} was started."
        elif (event.run_id, event.plan_id, event.lineage) != (
            started.event.run_id,
            started.event.plan_id,
            started.lineage,
        ):
            sentence = f"{event.run_id} says that it is a run of another plan than the plan says."
        elif event.workspace.id != auditor.workspace.workspace_id:
            sentence = f"{event.run_id} was run in another workspace."
        elif started.given is not None and started.given.approval.workspace != event.workspace:
            sentence = f"{event.run_id} was run in another directory than it was approved for."
        elif event.rerun_of is not None and not auditor.ended_before(event.rerun_of, started):
            sentence = f"{event.run_id} does {event.rerun_of} again, which is no run of its plan that had ended."
        else:
            try:
                self.state = RunState(started.plan) if started.plan is not None else None
            except _IMPOSSIBLE as error:
                auditor.find(Kind.HISTORY, self.name, seq, f"No run of this plan can have been opened: {error}.")
            return
        auditor.find(Kind.COMMITMENT, self.name, seq, sentence)
        if started is not None:
            started.signer = None


class _Lock:
    def __init__(self, auditor: _Auditor, name: str) -> None:
        self.auditor, self.name = auditor, name
        self.state = LockState(name=name.removeprefix("lock/"))
        auditor.locks.append(self.state)

    def look(self, event: Event, at: Instant, seq: int) -> None:
        assert isinstance(event, LockEvent)
        self.state.size = seq - 1  # a row may be missing before it
        try:
            apply_lock(self.state, event)
        except IllegalTransition as error:
            self.auditor.find(Kind.HISTORY, self.name, seq, f"Event {seq} cannot have happened: {error}.")
            self.state.holder = event.run_id if isinstance(event, LockTaken) else None
        started = self.auditor.started.get(event.run_id)
        if started is None:
            sentence = f"No plan says that {event.run_id} was started, which is said to have had this lock."
            self.auditor.find(Kind.HISTORY, self.name, seq, sentence)
        elif started.ended is not None and isinstance(event, LockTaken):
            self.auditor.find(Kind.HISTORY, self.name, seq, f"{event.run_id} took this lock after it had ended.")


class _Signal:
    def __init__(self, auditor: _Auditor, name: str) -> None:
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
            self.auditor.find(Kind.HISTORY, self.name, seq, f"Event {seq} cannot have happened: {error}.")


def _audited(started: _Started) -> AuditedRun:
    event, given, signer = started.event, started.given, started.signer
    approval = Signed.UNSIGNED if event.approval_id is not None else Signed.NOT_NEEDED
    return AuditedRun(
        run_id=event.run_id,
        plan_id=event.plan_id,
        lineage=started.lineage,
        status=started.ended[1].status if started.ended is not None else None,
        approval=Signed.SIGNED if signer is not None else approval,
        by=signer.name if signer is not None else given.approval.approver.name if given is not None else None,
        key=fingerprint(signer.key) if signer is not None else None,
        policy=started.policy,
        answers=started.answers,
        answers_signed=started.answers_signed,
    )


def _types(union: Any) -> frozenset[type]:
    return frozenset(union.__args__)
