"""The verbs about the ledger as a whole: verify it, copy it, bring a copy back, count. Verifying needs no setting: it
must work where nothing else can be believed. A copy that is brought back permits nothing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from ordain.core.approval.approval import Principal
from ordain.core.ledger import chain
from ordain.core.ledger.audit import audit
from ordain.core.ledger.findings import Audit, Finding, Kind, Outputs, Rules
from ordain.core.ledger.link import Tip
from ordain.core.ledger.summary import PlanSummary, summarise
from ordain.core.lineage.decision import persons_only
from ordain.core.lineage.lineage import PlanState
from ordain.core.lineage.retention import RETENTION_STREAM
from ordain.core.plan.model import Plan
from ordain.core.plan.tool import ToolDefinition
from ordain.core.plan.value import Instant, PlanId, RunId
from ordain.core.policy.ruling import rule
from ordain.core.policy.settings import Settings
from ordain.core.report.statistics import Statistics
from ordain.core.report.tally import PlanTally, RunTally, Tally
from ordain.core.run import event as events
from ordain.core.run.attempt import is_whole
from ordain.core.run.run_state import IllegalTransition
from ordain.core.run.step_event import GroupKind, StepUnfolded
from ordain.core.text.problem import Refused, refuse
from ordain.documents.settings import read_settings
from ordain.ports.ledger import Ledger
from ordain.records.equipment import called
from ordain.records.records import Records, decoded_plan, impossible, names_run
from ordain.records.surroundings import Surroundings

# --- Auditing --------------------------------------------------------------------------------------------------------

LOOKS_MAX = 5
_SEALS = re.compile(rb'"(?!env_)\w*seal":"(hmac-sha256(?:-whole)?:[0-9a-f]{64})"')
"""Where an event names what is kept beside it: under every key that says so. The environment is never kept."""
_RESTORED = "The ledger was restored from a copy, which cannot know what became of this since."
_UNWHOLE = frozenset({Kind.MISSING, Kind.CHAIN, Kind.UNREADABLE, Kind.STRAY})
"""What leaves no sense in comparing tables with the events."""


class Audits:
    """Looks at the whole ledger of one workspace, and copies it."""

    def __init__(self, here: Surroundings, write_copies: Callable[[], int]) -> None:
        self._here, self._write_copies = here, write_copies

    def verify(self, keys: frozenset[str] = frozenset(), checkpoint: Tip | None = None) -> Audit:
        """Everything that does not fit in the ledger, and in the tables beside it; `core.audit` says what is meant.
        Where nothing was ever recorded there is nothing wrong, unless somebody kept a checkpoint of it."""
        here = self._here
        if not here.has_ledger():
            return audit((), verify=here.ports.keyring.verify, keys=keys, checkpoint=checkpoint)
        for _ in range(LOOKS_MAX):
            removals = here.ledger.size(RETENTION_STREAM)
            found = audit(
                here.ledger.everything(),
                verify=here.ports.keyring.verify,
                keys=keys,
                checkpoint=checkpoint,
                rules=self.rules(),
            )
            outputs, beside = _outputs(here.ledger, found.findings)
            if here.ledger.size(RETENTION_STREAM) == removals:
                break  # else something was removed while it was looked at
        if not any(finding.kind in _UNWHOLE for finding in found.findings):
            beside = (*beside, *_miscounted(here.ledger), *_stale(here.ledger))
        return msgspec.structs.replace(found, findings=found.findings + beside, outputs=outputs)

    def rules(self) -> Rules:
        """What configurations mean to this version."""
        return _RulesHere(self._here)

    def export(self) -> Iterator[bytes]:
        """The events as lines of JSON, for others to verify."""
        return self._here.ports.archive.export(self._ledger())

    def backup(self, target: Path, by: Principal) -> tuple[Tip, bool]:
        """Copy the ledger to a new file; what the copy adds up to, and whether exact outputs are in it: for a person at
        a terminal, and for all others only where the user's own configuration says so."""
        self._here.refuse_pretended(by)
        self._ledger()
        outputs = by.person or self._here.ports.host.user_settings().robot_backup_outputs
        return self._here.ports.archive.backup(target, outputs=outputs), outputs

    def rebuild(self) -> tuple[int, int]:
        """Make the tables beside the events, and our copies of proposals, anew; how many events and copies."""
        return self._ledger().rebuild(), self._write_copies()

    async def restore(self, source: Path, by: Principal) -> tuple[Tip, tuple[str, ...]]:
        """Make the ledger of a workspace that has none from a copy, in which every approval that is not used and every
        run that is open have ended: the copy cannot know what became of them since. What the copy added up to, and what
        ended. Whoever chooses the copy chooses who may approve and which settings hold, so only a person may."""
        here = self._here
        here.refuse_pretended(by)
        persons_only("restore a ledger", by, f"ordain audit restore {shlex.quote(str(source))}")
        self.refuse_restoring()
        with here.ports.lock.place("a restore of the ledger", 1):  # two at once must not place each other's drafts
            tip, draft = here.ports.archive.draft(source)
            try:
                ended = await _end_what_is_open(draft, by, here.now())
            finally:
                await draft.close()
            here.ports.archive.place()
        return tip, ended

    def refuse_restoring(self) -> None:
        """Raise Refused where there is a ledger: it is the authority, and nothing takes its place."""
        if self._here.has_ledger():
            detail = "This workspace has a ledger, and a copy never takes the place of one."
            hint = "Look at it with `ordain audit verify`; to have the copy instead, move the ledger's file away first."
            raise refuse("E_LEDGER_EXISTS", detail, hint)

    def statistics(self, ref: str | None = None, within_ms: int | None = None) -> Statistics:
        """How plans and runs went: all of them, one plan with its runs, or one run; `within_ms` looks back so far."""
        now = self._here.now()
        since = Instant(max(now - within_ms, 0)) if within_ms is not None else None
        if ref is None and not self._here.has_ledger():
            return Tally().statistics(since, now)
        return measure(self._here.ledger, now, ref, since)

    def _ledger(self) -> Ledger:
        if not self._here.has_ledger():
            raise refuse("E_LEDGER_MISSING", "Nothing was recorded in this workspace yet.", command="ordain status")
        return self._here.ledger


async def _end_what_is_open(ledger: Ledger, by: Principal, at: Instant) -> tuple[str, ...]:
    """End the open runs and the unused approvals of a copy that is nobody's ledger yet; which they were."""
    records, ended = Records(ledger), []
    for plan in ledger.plans():
        if plan.state.open_run is not None:
            state, _, head = records.run(plan.state.open_run)
            event = events.RunCancelled(by=by, reason=_RESTORED)
            await ledger.append(at, *records.cancelling(state, head, event, at))
            ended.append(str(state.run_id))
        for name in records.lineage(plan.stream).permissions:

            def revoked(state: PlanState, name: str = name) -> events.ApprovalRevoked:
                return events.ApprovalRevoked(approval_id=name, by=by, reason=_RESTORED)

            await records.decide(plan.stream, revoked, at)
            ended.append(name)
    return tuple(ended)


class _RulesHere(Rules):
    """What a configuration means to this version, by the tools as they were when a run was started."""

    def __init__(self, here: Surroundings) -> None:
        self._here = here

    def unasked(
        self, plan: Plan, trusted: events.ConfigTrusted | None, tools: Mapping[str, ToolDefinition] | None
    ) -> bool | None:
        if tools is not None:
            return not rule(plan, tools, _settings(trusted)).requires_approval
        unasked = not self._here.rule(plan, _settings(trusted)).requires_approval
        # What commands do depends on no definition; today's of a tool says nothing about an older run.
        return None if not unasked and next(called(plan), None) is not None else unasked

    def signatures(self, trusted: events.ConfigTrusted | None) -> bool:
        return _settings(trusted).require_signature

    def approvers(self, trusted: events.ConfigTrusted | None) -> tuple[str, ...]:
        return _settings(trusted).approvers

    def removes_outputs(self, trusted: events.ConfigTrusted | None) -> bool:
        return _settings(trusted).removes_outputs


def _settings(trusted: events.ConfigTrusted | None) -> Settings:
    return read_settings(trusted.text.encode())[0] if trusted is not None else Settings()


def _outputs(ledger: Ledger, findings: Iterable[Finding]) -> tuple[Outputs, tuple[Finding, ...]]:
    """Everything that is kept beside the events, compared with the seals in them; what was changed. An event about
    which something was found removed nothing."""
    doubted = {finding.seq for finding in findings if finding.stream == RETENTION_STREAM}
    seen: dict[str, bool | None] = {}
    changed: list[Finding] = []
    removed: set[str] = set()
    for _, stream, seq, body, head in ledger.everything():
        if stream == RETENTION_STREAM and seq not in doubted:
            removal = chain.decode(body, head).event
            removed |= set(removal.seals if isinstance(removal, events.OutputsRemoved) else ())
        for name in _SEALS.findall(body):
            seal = name.decode()
            removed.discard(seal)  # named again, so kept again
            if seal in seen:
                continue
            try:
                kept: object = ledger.artifact(seal) if is_whole(seal) else ledger.kept(seal)
                seen[seal] = kept is not None or None
            except Refused:
                seen[seal] = False
                sentence = f"What was kept with event {seq} is not what was sealed in it."
                changed.append(Finding(kind=Kind.OUTPUT, stream=stream, seq=seq, sentence=sentence))
    found = list(seen.values())
    gone = sum(seen.get(seal, False) is None for seal in removed)
    left_out = found.count(None) - gone
    return Outputs(intact=found.count(True), changed=found.count(False), removed=gone, left_out=left_out), tuple(
        changed
    )


def _miscounted(ledger: Ledger) -> Iterator[Finding]:
    """Every repeat that is said to have been for another number of items than were kept with it, if any were."""
    for _, stream, seq, body, head in ledger.everything():
        if b'"step_unfolded"' not in body:
            continue
        event = chain.decode(body, head).event
        if isinstance(event, StepUnfolded) and event.kind is GroupKind.ITEMS:
            try:
                kept = ledger.kept(event.items_seal)
                counted = len(msgspec.json.decode(kept, type=list[Any])) if kept is not None else event.count
            except (Refused, msgspec.DecodeError):
                sentence = f"The items that `{event.step}` was repeated for at event {seq} are not what was kept then."
            else:
                if counted == event.count:
                    continue
                sentence = f"`{event.step}` was repeated {event.count:,} times at event {seq}, for {counted:,} items."
            yield Finding(kind=Kind.HISTORY, stream=stream, seq=seq, sentence=sentence)


def _stale(ledger: Ledger) -> tuple[Finding, ...]:
    """What the tables beside the events say that the events do not. Where a run goes on meanwhile they are looked at
    again; where it never pauses, nothing is said about them."""
    for _ in range(LOOKS_MAX):
        before = ledger.checkpoint()
        told = _differences(ledger)
        found = tuple(Finding(kind=Kind.TABLE, stream=stream, seq=0, sentence=why) for stream, why in told)
        if not found or ledger.checkpoint() == before:
            return found
    return ()


def _differences(ledger: Ledger) -> Iterator[tuple[str, str]]:
    """Each stream about which a table says something else than its events, and what."""
    sizes: dict[str, int] = {}
    names: dict[str, str] = {}
    plans: dict[str, PlanSummary | None] = {}
    tip = chain.ORIGIN
    for _, stream, seq, body, head in ledger.everything():
        sizes[stream] = seq
        tip = chain.checkpoint((head,), tip)
        if stream.startswith("lineage/") or seq == 1:
            recorded = chain.decode(body, head)
            for name in events.ids_named(recorded.event):
                names.setdefault(name, stream)
            if stream.startswith("lineage/"):
                plans[stream] = summarise(plans.get(stream), recorded)
    for stream in ledger.streams(""):
        if stream not in sizes:
            yield stream, "The table of streams has a stream without events."
    for stream, size in sizes.items():
        try:
            fits = ledger.size(stream) == size and not ledger.read(stream, after=size)
        except Refused:  # the head is not what the last event left
            fits = False
        if not fits:
            yield stream, "The table of streams says something else than the events."
    for name, stream in names.items():
        if (name, stream) not in ledger.lookup(name):
            yield stream, f"The table of names does not lead from {name} here."
    kept = {plan.stream: plan for plan in ledger.plans()}
    for stream in sorted(kept.keys() | plans.keys()):
        if kept.get(stream) != plans.get(stream):
            yield stream, "The table of plans says something else than the events."
    if ledger.checkpoint() != tip:
        yield "", "The table of checkpoints says something else than the events."


# --- Measuring -------------------------------------------------------------------------------------------------------
# One lineage and one run are held at a time, so that a long history needs no more memory than a short one.


def measure(ledger: Ledger, now: Instant, ref: str | None = None, since: Instant | None = None) -> Statistics:
    """What was counted of all plans, of one plan and its runs, or of one run: plans that were first proposed and runs
    that were started at `since` or later. Raises Refused where the ledger is broken."""
    tally, records = Tally(), Records(ledger)
    if ref is not None and names_run(ref):
        run_id = records.find_run(ref)
        _lineage(ledger, records.run(run_id)[0].lineage, tally, now, since, only=run_id)
        return tally.statistics(since, now, plans=False)
    for stream in (records.find_plan(ref),) if ref is not None else ledger.streams("lineage/"):
        _lineage(ledger, stream, tally, now, since)
    return tally.statistics(since, now)


def _lineage(
    ledger: Ledger, stream: str, tally: Tally, now: Instant, since: Instant | None, only: RunId | None = None
) -> None:
    """Count one lineage and its runs, or `only` one of them."""
    plan = PlanTally()
    prepared: dict[PlanId, events.PlanPrepared] = {}
    started: list[RunId] = []
    for recorded in ledger.read(stream):
        event = recorded.event
        assert isinstance(event, events.LineageEvent)
        try:
            plan.fold(event, recorded.at)
        except IllegalTransition as error:
            raise impossible(recorded, error) from error
        if isinstance(event, events.PlanPrepared):
            prepared[event.plan_id] = event
        elif isinstance(event, events.RunStarted) and only in (None, event.run_id) and recorded.at >= (since or 0):
            started.append(event.run_id)
    if plan.state.opened_at >= (since or 0):
        plan.close(tally, now)

    @cache
    def plan_of(plan_id: PlanId) -> Plan:
        return decoded_plan(prepared[plan_id])

    for run_id in started:
        run: RunTally | None = None
        for recorded in ledger.read(f"run/{run_id}"):
            event = recorded.event
            assert isinstance(event, events.RunEvent)
            if run is None:
                if not isinstance(event, events.RunOpened) or event.plan_id not in prepared:
                    break
                run = RunTally(tally, plan_of(event.plan_id), plan.name)
            try:
                run.fold(event, recorded.at)
            except IllegalTransition as error:
                raise impossible(recorded, error) from error
        if run is None:
            raise refuse("E_LEDGER_BROKEN", f"{run_id} was started, and nothing of it is recorded.")
        run.close(now)
