"""Whether a ledger can be believed: every event looked at once, in order of arrival, and all that does not fit, told.

Looks at nothing but the events, and never raises for what is stored. What needs no rules of ours is checked by
tools/verify_ledger.py too, which shares no line with this; tests hold the two to the same findings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, get_args

from ordain.core.approval.signature import Verifier, fingerprint
from ordain.core.ledger import chain
from ordain.core.ledger.audit_stream import (
    UNREADABLE,
    WORKSPACE,
    AuditedStream,
    AuditState,
    LineageAudit,
    LockAudit,
    RunAudit,
    SignalAudit,
    StartedRun,
)
from ordain.core.ledger.chain import Entry
from ordain.core.ledger.findings import Audit, AuditedRun, Kind, Rules, Signed
from ordain.core.ledger.link import Tip
from ordain.core.lineage.refusal import REFUSALS_STREAM
from ordain.core.lineage.retention import NEED_NOTHING, RETENTION_STREAM
from ordain.core.lineage.workspace import apply_workspace
from ordain.core.plan.value import Instant, RunId
from ordain.core.run.attempt import seals_in
from ordain.core.run.event import (
    ApproverEnrolled,
    ApproverRevoked,
    ConfigTrusted,
    Event,
    LineageEvent,
    LockEvent,
    OutputsRemoved,
    RequestRefused,
    RunCancelled,
    RunEvent,
    RunFinished,
    SignalGiven,
    TopicPosted,
    WorkspaceEvent,
)
from ordain.core.run.run_state import IllegalTransition
from ordain.core.run.topic import apply_topic, topic_named
from ordain.core.run.wait import stream_of


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
    signature counts, and no approval or answer without one. `checkpoint` is one that somebody kept: the ledger may have
    grown since, and nothing else. `rules` say what a configuration means; else that is not judged.
    """
    auditor = _Auditor(verify, keys, checkpoint, rules or Rules())
    auditor.look(rows)
    return auditor.result()


_AUDITS: Mapping[str, tuple[type[LineageAudit | RunAudit | LockAudit | SignalAudit], Any]] = {
    "lineage": (LineageAudit, LineageEvent),
    "run": (RunAudit, RunEvent),
    "lock": (LockAudit, LockEvent),
    "signal": (SignalAudit, SignalGiven),
}
"""By the kind of a stream: who follows it, and the events that belong in it."""


class _Auditor(AuditState):
    """Looks at every event once, and hands it to its stream."""

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
            if name not in NEED_NOTHING:
                for seal in seals_in(body):
                    holders = self.holders.get(seal, ())
                    self.holders[seal] = holders if name in holders else (*holders, name)
            try:
                recorded = chain.decode(body, head)
            except UNREADABLE as error:
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

    def stream(self, name: str) -> AuditedStream:
        kind, slash, _ = name.partition("/")
        if slash and kind in _AUDITS:
            made, events = _AUDITS[kind]
            return AuditedStream(made(self, name).look, _types(events))
        if name == WORKSPACE:
            return AuditedStream(self.look_at_workspace, _types(WorkspaceEvent))
        if slash and kind == "topic":
            return AuditedStream(partial(self.look_at_topic, name), frozenset([TopicPosted]))
        if name == RETENTION_STREAM:
            return AuditedStream(self.look_at_removal, frozenset([OutputsRemoved]))
        return AuditedStream(lambda *_: None, frozenset([RequestRefused] if name == REFUSALS_STREAM else []))

    # --- The workspace's own stream --------------------------------------------------------------------------------

    def look_at_workspace(self, event: Event, at: Instant, seq: int) -> None:
        state = self.workspace
        state.size = seq - 1  # what is signed names the number of the event, and a row may be missing before it
        known = len(state.unsigned)
        apply_workspace(state, event, at, self.verify)  # type: ignore[arg-type]
        for said in state.unsigned[known:]:
            self.find(Kind.SIGNATURE, WORKSPACE, seq, f"No good signature: {said}.")
        signature = event.signature if isinstance(event, ConfigTrusted | ApproverEnrolled | ApproverRevoked) else None
        if signature is not None and self.keys and signature.key not in self.keys:
            sentence = f"Event {seq} is signed with {signature.key}, which is not among the keys given."
            self.find(Kind.SIGNATURE, WORKSPACE, seq, sentence)

    def look_at_topic(self, name: str, event: Event, at: Instant, seq: int) -> None:
        assert isinstance(event, TopicPosted)
        try:
            apply_topic(topic_named(name), event)
        except IllegalTransition as error:
            self.cannot_be(name, seq, error)

    def look_at_removal(self, event: Event, at: Instant, seq: int) -> None:
        assert isinstance(event, OutputsRemoved)
        said = f"Event {seq} removes what {event.run_id} kept"
        if not self.rules.removes_outputs(self.workspace.trusted):
            self.find(Kind.HISTORY, RETENTION_STREAM, seq, f"{said}, and no `[retention]` was trusted by then.")
        elif not self.has_ended(f"run/{event.run_id}"):
            self.find(Kind.HISTORY, RETENTION_STREAM, seq, f"{said}, which had not ended.")
        elif not all(self.may_go(seal, f"run/{event.run_id}") for seal in event.seals):
            sentence = f"{said}, and more: something that it had not named, or that others name too."
            self.find(Kind.HISTORY, RETENTION_STREAM, seq, sentence)

    def has_ended(self, stream: str) -> bool:
        started = self.started.get(RunId(stream.removeprefix("run/"))) if stream.startswith("run/") else None
        return started is not None and started.ended is not None

    def may_go(self, seal: str, run: str) -> bool:
        """Whether this run named a seal, and so far no other stream did but those of runs that have ended."""
        holders = self.holders.get(seal, ())
        return run in holders and all(map(self.has_ended, holders))

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
            self.find(Kind.SIGNATURE, WORKSPACE, 0, f"The key {key} was never enrolled in this ledger.")
        if (kept := self.kept) is not None and kept.size > self.size:
            sentence = f"There are {self.size} events, and there were {kept.size}: the end is gone."
            self.find(Kind.CHECKPOINT, "", 0, sentence)
        elif kept is not None and self.digest(kept.size) != kept.head:
            sentence = f"The first {kept.size} events are not those of the checkpoint that was kept."
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

    def compare(self, run_id: RunId, started: StartedRun) -> None:
        """What a lineage says of a run with the run itself, when both are known to their end."""
        run = self.streams.get(f"run/{run_id}")
        if run is None:
            sentence = f"{run_id} was started, and there is nothing of it."
            self.find(Kind.COMMITMENT, started.lineage, started.seq, sentence)
            return
        finished = run.last.status if isinstance(run.last, RunFinished | RunCancelled) else None
        heir = self.started.get(started.replaced_by) if started.replaced_by is not None else None
        if finished == "replaced" and (heir is None or heir.event.continues != run_id):
            sentence = f"{run_id} was replaced, and no run goes on in its place."
            self.find(Kind.COMMITMENT, f"run/{run_id}", run.size, sentence)
        if started.ended is None:
            if finished is not None:
                sentence = f"{run_id} has finished, and its plan does not say so."
                self.find(Kind.COMMITMENT, f"run/{run_id}", run.size, sentence)
            return
        seq, ended = started.ended
        if ended.head != run.head.hex() or finished != ended.status:
            sentence = f"Event {seq} says how {run_id} ended, and the run is another one now."
            self.find(Kind.COMMITMENT, started.lineage, seq, sentence)


def _audited(started: StartedRun) -> AuditedRun:
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
    return frozenset(get_args(union) or (union,))
