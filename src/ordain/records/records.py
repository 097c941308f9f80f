"""What the ledger says, found and folded: from the name a person typed to the state of a plan or a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, get_args

import msgspec

from ordain.core.approval.approval import Principal
from ordain.core.approval.signature import Verifier
from ordain.core.ledger import chain
from ordain.core.lineage.lineage import Permission, PlanState, apply_lineage
from ordain.core.lineage.workspace import WorkspaceState, apply_workspace
from ordain.core.plan.canonical import action_digest, plan_from_bytes, plan_id, short_id
from ordain.core.plan.model import Plan
from ordain.core.plan.value import Instant, PlanId, RunId
from ordain.core.run.event import (
    ApprovalGiven,
    LineageEvent,
    LockEvent,
    LockReleased,
    PlanPrepared,
    Recorded,
    RunCancelled,
    RunEnded,
    RunEvent,
    RunOpened,
    RunStarted,
    SignalGiven,
    TopicPosted,
    WorkspaceEvent,
    WorkspaceOpened,
    WorkStopped,
)
from ordain.core.run.run_state import IllegalTransition, RunState
from ordain.core.run.state import apply
from ordain.core.run.step_event import AttemptEnded, Outcome
from ordain.core.run.topic import apply_topic, stream_of_topic
from ordain.core.run.wait import LockState, SignalState, apply_lock, apply_signal, locks_of, stream_of, stream_of_signal
from ordain.core.text.problem import Refused, refuse
from ordain.ports.ledger import Append, Ledger
from ordain.records.conflict import retried

WORKSPACE_STREAM = "workspace"
_FOLDED_MAX = 8
"""How many plans are kept folded: a server looks at many, and a verb at few."""
_RUNS_REMEMBERED = 50
_PLANS_REMEMBERED = 200
"""How far back it is looked for how long things take."""


class Records:
    """Questions to one ledger, and the one way to record a decision about a lineage."""

    def __init__(self, ledger: Ledger, folded: dict[str, PlanState] | None = None) -> None:
        """`folded` are lineages that were folded before: a chain only grows, so only what is new is read."""
        self._ledger, self._folded = ledger, folded if folded is not None else {}

    # --- Finding ---------------------------------------------------------------------------------------------------

    def find_lineage(self, ref: str) -> str:
        """The lineage that a plan or a run meant by a person is of."""
        return self.run(self.find_run(ref))[0].lineage if names_run(ref) else self.find_plan(ref)

    def find_plan(self, ref: str) -> str:
        """The lineage a person means: by plan id, plan hash, 8 hex digits of it, lineage id, or its document."""
        return self.find(ref)[0]

    def find_revision(self, ref: str) -> tuple[str, PlanId]:
        """The lineage and the very plan a person means: the one with this id, or the newest of a lineage."""
        stream, identity = self.find(ref)
        return stream, identity or self.lineage(stream).plan_id

    def current(self, ref: str) -> tuple[str, PlanState]:
        """The lineage a person means, and its state; raises Refused where a revision replaced the plan they named."""
        stream, identity = self.find(ref)
        state = self.lineage(stream)
        if identity is not None:
            refuse_superseded(identity, state)
        return stream, state

    def find(self, ref: str) -> tuple[str, PlanId | None]:
        """The lineage a person means, and the very plan where they named one and not the lineage."""
        found: list[tuple[str, PlanId | None]]
        if names_lineage(ref):
            found = [(stream, None) for stream in self._ledger.streams("lineage/" + ref.upper())]
        else:
            if names_document(ref):
                if (prepared := self.last_prepared(ref)) is not None:
                    return prepared[0], None
                raise refuse(
                    "E_PLAN_NOT_FOUND",
                    f"`{ref}` is not the name of a plan.",
                    "Give at least 8 hex digits of its id, PLAN-…, or the document it was prepared from.",
                    command="ordain status",
                )
            digits = ref.removeprefix("plan:").removeprefix("sha256:").lower()
            found = [(stream, PlanId(identity)) for identity, stream in self._ledger.lookup("plan:" + digits)]
        if not found:
            raise refuse(
                "E_PLAN_NOT_FOUND",
                f"No plan `{ref}` is known here.",
                "`ordain list --all` has the plans of this workspace; it may be one of another.",
                command="ordain inbox --all",
            )
        if len(found) > 1:
            raise refuse("E_PLAN_AMBIGUOUS", f"`{ref}` fits {len(found)} plans.", "Give more digits.")
        return found[0]

    def last_prepared(self, document: str) -> tuple[str, PlanId] | None:
        """The lineage and plan that were prepared last from a document of this name, if any were."""
        found = max(self._ledger.plans(document=document), key=lambda plan: plan.state.prepared_at, default=None)
        return (found.stream, found.state.plan_id) if found is not None else None

    def prepared_before(self, document: str, identity: PlanId) -> tuple[str, PlanId] | None:
        """The lineage and plan that were prepared from a document of this name before that one, if any were."""
        found = sorted(self._ledger.plans(document=document), key=lambda plan: plan.state.prepared_at, reverse=True)
        versions = ((one.stream, plan) for one in found for plan in reversed(one.state.revisions))
        return next((one for one in versions if one[1] != identity), None)

    def last_rejected(self, stream: str, document: str | None, besides: PlanId) -> tuple[Instant, str, PlanId] | None:
        """The same as `last_approved`, of what was rejected."""
        found = [
            (one.at, where, one.plan_id)
            for where, state in self._states(stream, document).items()
            for one in (*state.rejections, *((state.last_rejection,) if state.last_rejection is not None else ()))
            if one.plan_id != besides
        ]
        return max(found, default=None)

    def last_approved(self, stream: str, document: str | None, besides: PlanId) -> tuple[Instant, str, PlanId] | None:
        """When a person last approved another plan of this lineage or from this document, its lineage and the plan."""
        found = [
            (at, where, identity)
            for where, state in self._states(stream, document).items()
            for identity, at in state.approved_at.items()
            if identity != besides
        ]
        return max(found, default=None)

    def _states(self, stream: str, document: str | None) -> dict[str, PlanState]:
        """This lineage and every other one from the same document."""
        summaries = self._ledger.plans(document=document) if document is not None else ()
        return {summary.stream: summary.state for summary in summaries} | {stream: self.lineage(stream)}

    def lineage_of(self, identity: PlanId) -> str | None:
        """The lineage that holds exactly this plan, if it was ever prepared."""
        return next((stream for name, stream in self._ledger.lookup(identity) if name == identity), None)

    def find_run(self, ref: str) -> RunId:
        """The run a person means, by any unambiguous beginning of its id."""
        found = self._ledger.lookup(ref.upper()) if names_run(ref) else ()
        if not found:
            raise refuse("E_RUN_NOT_FOUND", f"No run `{ref}` is known here.", command="ordain status")
        if len(found) > 1:
            raise refuse("E_RUN_AMBIGUOUS", f"`{ref}` fits {len(found)} runs.", "Give more letters.")
        return RunId(found[0][0])

    def open_runs(self) -> list[RunId]:
        """The runs of this workspace that have not ended."""
        return [run_id for plan in self._ledger.plans(open_only=True) if (run_id := plan.state.open_run)]

    def only_open_run(self, verb: str) -> RunId:
        """The one run that has not ended; `verb` is what somebody wants to do with it."""
        runs = self.open_runs()
        if not runs:
            raise refuse("E_RUN_NOT_FOUND", "No run of this workspace is open.", command="ordain status")
        if len(runs) > 1:
            raise refuse(
                "E_RUN_AMBIGUOUS",
                f"{len(runs)} runs have not ended. Name one:",
                *(f"ordain {verb} {run_id}" for run_id in runs),
                command=f"ordain {verb} {runs[-1]}",
            )
        return runs[0]

    # --- Folding ---------------------------------------------------------------------------------------------------

    def lineage(self, stream: str) -> PlanState:
        """One plan through its life, folded from its chain. Whoever asks may change what they get."""
        state = _copied(self._folded.get(stream, PlanState()))
        events = self._ledger.read(stream, state.size)
        _fold(events, LineageEvent, lambda event, at: apply_lineage(state, event, at))
        self._folded.pop(stream, None)
        self._folded[stream] = _copied(state)
        while len(self._folded) > _FOLDED_MAX:
            del self._folded[next(iter(self._folded))]
        return state

    def plan(self, stream: str, identity: PlanId | None = None) -> Plan:
        """A lineage's plan, decoded from the very bytes that were hashed: the newest, or the one with this id.
        Raises Refused with E_PLAN_HASH_MISMATCH when the stored bytes do not have the digest they were stored under."""
        state = self.lineage(stream)
        number = state.revisions[identity or state.plan_id]
        prepared = self._ledger.read(stream, number - 1)[0].event
        assert isinstance(prepared, PlanPrepared)
        return decoded_plan(prepared)

    def readable_plan(self, stream: str, identity: PlanId | None = None) -> Plan | None:
        """The same, or None where it can not be read: one such plan hides no other."""
        try:
            return self.plan(stream, identity)
        except Refused as refused:
            if not is_unreadable(refused):
                raise
            return None

    def run(self, run_id: RunId) -> tuple[RunState, PlanId, str]:
        """A run's state, its plan's id, and the head of its chain."""
        events = self._ledger.read(f"run/{run_id}")
        opened = events[0].event if events else None
        if not isinstance(opened, RunOpened):
            raise refuse("E_LEDGER_BROKEN", f"{run_id} was started, and nothing of it is recorded.")
        state = RunState(self.plan(opened.lineage, opened.plan_id))
        _fold(events, RunEvent, lambda event, at: apply(state, event, at))
        return state, opened.plan_id, events[-1].head

    def catch_up(self, state: RunState, head: str) -> str:
        """Fold into a run's state what was recorded since; the head of its chain now. A long run is read once."""
        for recorded in self._ledger.read(f"run/{state.run_id}", state.size):
            assert isinstance(recorded.event, RunEvent)
            apply(state, recorded.event, recorded.at)
            head = recorded.head
        return head

    def start_of(self, run_id: RunId, lineage: str) -> tuple[str | None, Permission | None]:
        """The id of the approval that a run was started on, if it needed one, and that approval as it was given."""
        self.lineage(lineage)  # refused where something in it cannot have happened
        events = [recorded.event for recorded in self._ledger.read(lineage)]
        started = next((one for one in events if isinstance(one, RunStarted) and one.run_id == run_id), None)
        if started is None:
            raise refuse("E_LEDGER_BROKEN", f"{run_id} was never started: its plan's record does not know it.")
        given = {
            one.approval.approval_id: Permission(approval=one.approval, signature=one.signature)
            for one in events
            if isinstance(one, ApprovalGiven)
        }
        # One that went on unasked stands on the approval that allows that.
        approval_id = started.unasked.approval_id if started.unasked is not None else started.approval_id
        return approval_id, given.get(approval_id or "")

    def run_events(self, run_id: RunId) -> tuple[Recorded, ...]:
        """The events of a run, in order."""
        return tuple(self._ledger.read(f"run/{run_id}"))

    def lineage_events(self, stream: str) -> tuple[Recorded, ...]:
        """The events of a plan and of all its runs, each run's between its start and its end."""
        found: list[Recorded] = []
        for recorded in self._ledger.read(stream):
            of_run = self.run_events(recorded.event.run_id) if isinstance(recorded.event, RunStarted) else ()
            found += [recorded, *of_run]
        return tuple(found)

    def workspace_id(self) -> str | None:
        """The id minted for this workspace, if it was ever used."""
        events = (recorded.event for recorded in self._ledger.read(WORKSPACE_STREAM)[:1])
        return next((one.workspace.id for one in events if isinstance(one, WorkspaceOpened)), None)

    def workspace(self, verify: Verifier) -> WorkspaceState:
        """The workspace's own state: id, trusted configuration, approvers."""
        state = WorkspaceState()
        for recorded in self._ledger.read(WORKSPACE_STREAM):
            assert isinstance(recorded.event, WorkspaceEvent)
            apply_workspace(state, recorded.event, recorded.at, verify)
        return state

    def stopped_at(self) -> Instant:
        """When all work here was stopped last; 0 where it never was."""
        found = (one.at for one in self._ledger.read(WORKSPACE_STREAM) if isinstance(one.event, WorkStopped))
        return max(found, default=Instant(0))

    def durations(self) -> dict[str, list[int]]:
        """The same as `outcomes`, of how long they took."""
        return {digest: [one.duration_ms for one in outcomes] for digest, outcomes in self.outcomes().items()}

    def outcomes(self) -> dict[str, list[Outcome]]:
        """How actions went that went well, newest runs first, by the digest of the action."""
        found: dict[str, list[Outcome]] = {}
        plans = self._ledger.plans(newest=_PLANS_REMEMBERED)
        runs = [(plan.stream, run_id) for plan in plans for run_id in plan.state.runs]
        for stream, run_id in runs[-_RUNS_REMEMBERED:]:
            for recorded in self.run_events(run_id):
                event = recorded.event
                if isinstance(event, RunOpened):
                    plan = self.readable_plan(stream, event.plan_id)
                    actions = {step.id: action_digest(step.action) for step in plan.steps} if plan is not None else {}
                elif isinstance(event, AttemptEnded) and event.outcome.error is None and event.step in actions:
                    found.setdefault(actions[event.step], []).append(event.outcome)
        return found

    def lock(self, name: str) -> LockState:
        """One lock as it stands."""
        state = LockState(name=name)
        _fold(self._ledger.read(stream_of(name)), LockEvent, lambda event, at: apply_lock(state, event))
        return state

    def signal(self, key: str) -> SignalState:
        """One signal as it stands."""
        state = SignalState(key=key)
        _fold(self._ledger.read(stream_of_signal(key)), SignalGiven, lambda event, at: apply_signal(state, event))
        return state

    def topic(self, name: str, newest: int) -> tuple[Recorded, ...]:
        """The last messages of a topic, so many at most, in order."""
        stream = stream_of_topic(name)
        found = tuple(self._ledger.read(stream, max(self._ledger.size(stream) - newest, 0)))
        _fold(found, TopicPosted, lambda event, at: apply_topic(name, event))
        return found

    def giving_back(self, state: RunState, status: str) -> tuple[Append, ...]:
        """What gives back every lock that a run still holds, to be recorded together with its end."""
        locks = [lock for name in locks_of(state.plan) if (lock := self.lock(name)).holder == state.run_id]
        reason = f"the run ended ({status})"
        return tuple(
            Append(
                stream=stream_of(lock.name),
                expected=lock.size,
                events=(LockReleased(lock=lock.name, run_id=state.run_id, reason=reason),),
            )
            for lock in locks
        )

    def cancelling(self, state: RunState, head: str, event: RunCancelled, at: Instant) -> tuple[Append, ...]:
        """What ends a run as it stands, in the streams of the run, of its plan (with its last head), of its locks."""
        stream = f"run/{state.run_id}"
        last = chain.head_after(head, stream, state.size, (event,), at)
        ended = RunEnded(run_id=state.run_id, status=event.status, head=last)
        return (
            Append(stream=stream, expected=state.size, events=(event,)),
            Append(stream=state.lineage, expected=self._ledger.size(state.lineage), events=(ended,)),
            *self.giving_back(state, event.status),
        )

    # --- Writing ---------------------------------------------------------------------------------------------------

    async def decide(self, stream: str, decision: Callable[[PlanState], LineageEvent], at: Instant) -> PlanState:
        """Record what `decision` makes of a lineage, asked again after a conflict. Returns the state after it."""

        async def decided() -> PlanState:
            state = self.lineage(stream)
            expected, event = state.size, decision(state)
            after = apply_lineage(state, event, at)  # first, so that what cannot happen is never recorded
            await self._ledger.append(at, Append(stream=stream, expected=expected, events=(event,)))
            return after

        return await retried(decided)


def _fold(events: Iterable[Recorded], kind: Any, step: Callable[[Any, Instant], object]) -> None:
    """Take events of one kind into a state; raises Refused for one that cannot have happened."""
    kinds = frozenset(get_args(kind) or (kind,))  # `isinstance` compares with each in turn
    for recorded in events:
        assert type(recorded.event) in kinds
        try:
            step(recorded.event, recorded.at)
        except IllegalTransition as error:
            raise impossible(recorded, error) from error


def _copied(state: PlanState) -> PlanState:
    """A state of its own: events change its tables in place, and never what is in them."""
    tables = {name: dict(kept) for name in state.__struct_fields__ if isinstance(kept := getattr(state, name), dict)}
    return msgspec.structs.replace(state, **tables)


def impossible(recorded: Recorded, error: IllegalTransition) -> Refused:
    """The refusal of a history that cannot have been."""
    return refuse(
        "E_LEDGER_BROKEN",
        f"Event {recorded.seq} of `{recorded.stream}` cannot have happened: {error}.",
        "Its chain is whole, so somebody wrote it who could write the file.",
        command="ordain audit verify",
    )


def decoded_plan(event: PlanPrepared) -> Plan:
    """The plan that was prepared, from the bytes that were stored."""
    try:
        plan = plan_from_bytes(bytes(event.plan))
    except msgspec.DecodeError as error:
        raise refuse(
            "E_PLAN_UNREADABLE",
            f"The plan {short_id(event.plan_id)} cannot be read: {error}.",
            "Nothing of it can run here. Take it back, or use the version that prepared it.",
            command=f"ordain cancel {short_id(event.plan_id)}",
        ) from error
    if plan_id(plan) != event.plan_id:
        raise refuse("E_PLAN_HASH_MISMATCH", "The stored plan does not have the digest it was stored under.")
    return plan


def is_unreadable(refused: Refused) -> bool:
    """Whether a plan is only unknown to this version, and nobody changed what was recorded."""
    return refused.problems[0].code in ("E_PLAN_UNREADABLE", "E_LEDGER_VERSION")


def names_lineage(ref: str) -> bool:
    """Whether this is the name of a lineage, and not of a document that begins like one."""
    return re.fullmatch(r"PLAN-[A-Z0-9]*", ref.upper()) is not None


def names_document(ref: str) -> bool:
    """Whether this can only be the name of a document: no id of a plan looks like it."""
    digits = ref.removeprefix("plan:").removeprefix("sha256:").lower()
    return not names_lineage(ref) and (len(digits) < 8 or not all(digit in "0123456789abcdef" for digit in digits))


def names_run(ref: str) -> bool:
    return re.fullmatch(r"RUN-[A-Z0-9]*", ref.upper()) is not None


def refuse_superseded(identity: PlanId, state: PlanState) -> None:
    """Raise Refused where this plan is not the newest of its lineage."""
    if identity != state.plan_id:
        raise refuse(
            "E_PLAN_SUPERSEDED",
            f"{short_id(identity)} was replaced by the revision {short_id(state.plan_id)}.",
            command=f"ordain show {short_id(state.plan_id)}",
        )


def refuse_foreign(state: PlanState, by: Principal) -> None:
    """Raise Refused where a plan is not this caller's to see or handle."""
    if state.plan_id and not state.owned_by(by):
        # It is not told which plan it is: the beginning of a name must not lead to the rest of it.
        detail = f"This plan was prepared by somebody else, so it is not for {by.name} to handle."
        raise refuse("E_PLAN_NOT_YOURS", detail, "Propose a plan of your own, or ask a person.")


def first_lineage(identity: PlanId) -> str:
    """The stream of the lineage that begins with this plan."""
    import base64  # looking at documents asks for no name

    digest = bytes.fromhex(identity.removeprefix("plan:"))
    return "lineage/PLAN-" + base64.b32encode(digest[:10]).decode()


def lineage_id(stream: str) -> str:
    """The name of a lineage, from its stream."""
    return stream.removeprefix("lineage/")


def instant(at: Instant) -> str:
    """A moment, in UTC, for people."""
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
