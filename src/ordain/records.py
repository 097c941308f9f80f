"""What the ledger says, found and folded: from the name a person typed to the state of a plan or a run."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import msgspec

from ordain.core.canonical import action_digest, plan_from_bytes, plan_id, short_id
from ordain.core.event import (
    ApprovalGiven,
    AttemptEnded,
    ConfigTrusted,
    Event,
    LineageEvent,
    PlanPrepared,
    Recorded,
    RunEvent,
    RunOpened,
    RunStarted,
    WorkspaceOpened,
)
from ordain.core.lineage import PlanState, apply_lineage
from ordain.core.model import Plan
from ordain.core.problem import Refused, refuse
from ordain.core.state import RunState, apply
from ordain.core.value import Instant, PlanId, RunId
from ordain.ports import Append, Ledger

__all__ = ["WORKSPACE_STREAM", "Records", "first_lineage", "lineage_id", "stored_plan"]

WORKSPACE_STREAM = "workspace"
_RUNS_REMEMBERED = 50
"""How far back it is looked for how long things take."""


class Records:
    """Questions to one ledger. Writes only facts that are true whatever else was recorded meanwhile."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    # --- Finding ---------------------------------------------------------------------------------------------------

    def find_plan(self, ref: str) -> str:
        """The lineage a person means: by plan id, plan hash, any unambiguous 8 hex digits of it, or lineage id."""
        return self._find(ref)[0]

    def find_revision(self, ref: str) -> tuple[str, PlanId]:
        """The lineage and the very plan a person means: the one with this id, or the newest of a lineage."""
        stream, identity = self._find(ref)
        return stream, identity or self.lineage(stream).plan_id

    def _find(self, ref: str) -> tuple[str, PlanId | None]:
        found: list[tuple[str, PlanId | None]]
        if ref.upper().startswith("PLAN-"):
            found = [(stream, None) for stream in self._ledger.streams("lineage/" + ref.upper())]
        else:
            digits = ref.removeprefix("plan:").removeprefix("sha256:").lower()
            if len(digits) < 8 or not all(digit in "0123456789abcdef" for digit in digits):
                raise refuse(
                    "E_PLAN_NOT_FOUND",
                    f"`{ref}` is not the name of a plan.",
                    "Give at least 8 hex digits of its id, or PLAN-…; a document is stored first by `ordain prepare`.",
                    command="ordain status",
                )
            found = [(stream, PlanId(identity)) for identity, stream in self._ledger.lookup("plan:" + digits)]
        if not found:
            raise refuse("E_PLAN_NOT_FOUND", f"No plan `{ref}` is known here.", command="ordain status")
        if len(found) > 1:
            raise refuse("E_PLAN_AMBIGUOUS", f"`{ref}` fits {len(found)} plans.", "Give more digits.")
        return found[0]

    def last_prepared(self, document: str) -> tuple[str, PlanId] | None:
        """The lineage and plan that were prepared last from a document of this name, if any were."""
        found: tuple[Instant, str, PlanId] | None = None
        for stream in self.lineages():
            for recorded in self._ledger.read(stream):
                event = recorded.event
                if (
                    isinstance(event, PlanPrepared)
                    and event.document == document
                    and (found is None or recorded.at >= found[0])
                ):
                    found = (recorded.at, stream, event.plan_id)
        return found[1:] if found is not None else None

    def last_approved(self, document: str, besides: PlanId) -> tuple[Instant, str, PlanId] | None:
        """When a person last approved another plan from a document of this name, its lineage and the plan."""
        found: tuple[Instant, str, PlanId] | None = None
        for stream in self.lineages():
            documents: dict[PlanId, str | None] = {}
            for recorded in self._ledger.read(stream):
                event = recorded.event
                if isinstance(event, PlanPrepared):
                    documents[event.plan_id] = event.document
                elif isinstance(event, ApprovalGiven):
                    approved = event.approval.plan_id
                    fits = approved != besides and documents.get(approved) == document
                    if fits and (found is None or recorded.at >= found[0]):
                        found = (recorded.at, stream, approved)
        return found

    def lineage_of(self, identity: PlanId) -> str | None:
        """The lineage that holds exactly this plan, if it was ever prepared."""
        return next((stream for name, stream in self._ledger.lookup(identity) if name == identity), None)

    def find_run(self, ref: str) -> RunId:
        """The run a person means, by any unambiguous beginning of its id."""
        found = self._ledger.lookup(ref.upper()) if ref.upper().startswith("RUN-") else ()
        if not found:
            raise refuse("E_RUN_NOT_FOUND", f"No run `{ref}` is known here.", command="ordain status")
        if len(found) > 1:
            raise refuse("E_RUN_AMBIGUOUS", f"`{ref}` fits {len(found)} runs.", "Give more letters.")
        return RunId(found[0][0])

    def only_open_run(self) -> RunId:
        """The one run that has not ended."""
        runs = [run_id for stream in self.lineages() if (run_id := self.lineage(stream).open_run)]
        if not runs:
            raise refuse("E_RUN_NOT_FOUND", "No run of this workspace is waiting to go on.", command="ordain status")
        if len(runs) > 1:
            raise refuse(
                "E_RUN_AMBIGUOUS",
                f"{len(runs)} runs have not ended: {', '.join(runs)}.",
                command=f"ordain resume {runs[-1]}",
            )
        return runs[0]

    # --- Folding ---------------------------------------------------------------------------------------------------

    def lineages(self) -> Sequence[str]:
        """Every lineage's stream, oldest first."""
        return self._ledger.streams("lineage/")

    def lineage(self, stream: str) -> PlanState:
        """One plan through its life."""
        state = PlanState()
        for recorded in self._ledger.read(stream):
            assert isinstance(recorded.event, LineageEvent)
            apply_lineage(state, recorded.event)
        return state

    def run(self, run_id: RunId) -> tuple[RunState, PlanId, str]:
        """A run's state, its plan's id, and the head of its chain."""
        events = self._ledger.read(f"run/{run_id}")
        opened = events[0].event
        assert isinstance(opened, RunOpened)
        state = RunState(stored_plan(self.lineage(opened.lineage), opened.plan_id))
        for recorded in events:
            assert isinstance(recorded.event, RunEvent)
            apply(state, recorded.event, recorded.at)
        return state, opened.plan_id, events[-1].head

    def run_events(self, run_id: RunId) -> tuple[Recorded, ...]:
        """The events of a run, in order."""
        return tuple(self._ledger.read(f"run/{run_id}"))

    def lineage_events(self, stream: str) -> tuple[Recorded, ...]:
        """The events of a plan and of all its runs, each run's between its start and its end."""
        found: list[Recorded] = []
        for recorded in self._ledger.read(stream):
            found.append(recorded)
            if isinstance(recorded.event, RunStarted):
                found += self.run_events(recorded.event.run_id)
        return tuple(found)

    def workspace_id(self) -> str | None:
        """The id minted for this workspace, if it was ever used."""
        for recorded in self._ledger.read(WORKSPACE_STREAM)[:1]:
            if isinstance(recorded.event, WorkspaceOpened):
                return recorded.event.workspace.id
        return None

    def trusted_configuration(self) -> ConfigTrusted | None:
        """The configuration a person trusted last."""
        events = [recorded.event for recorded in self._ledger.read(WORKSPACE_STREAM)]
        return next((event for event in reversed(events) if isinstance(event, ConfigTrusted)), None)

    def durations(self) -> dict[str, list[int]]:
        """How long actions took that went well, newest runs first, by the digest of the action."""
        found: dict[str, list[int]] = {}
        runs = [(stream, run_id) for stream in self.lineages() for run_id in self.lineage(stream).runs]
        for stream, run_id in runs[-_RUNS_REMEMBERED:]:
            state = self.lineage(stream)
            for recorded in self.run_events(run_id):
                event = recorded.event
                if isinstance(event, RunOpened):
                    actions = {step.id: action_digest(step.action) for step in stored_plan(state, event.plan_id).steps}
                elif isinstance(event, AttemptEnded) and event.outcome.error is None:
                    found.setdefault(actions[event.step], []).append(event.outcome.duration_ms)
        return found

    # --- Writing ---------------------------------------------------------------------------------------------------

    async def note(self, stream: str, event: Event, at: Instant) -> None:
        """Append one event that is true whatever else was recorded meanwhile."""
        while True:
            size = len(self._ledger.read(stream))
            try:
                await self._ledger.append(at, Append(stream=stream, expected=size, events=(event,)))
                return
            except Refused as refused:
                if refused.problems[0].code != "E_LEDGER_CONFLICT":
                    raise


def stored_plan(state: PlanState, identity: PlanId | None = None) -> Plan:
    """The plan decoded from the very bytes that were hashed: the newest, or the one with this id.

    Raises Refused with E_PLAN_HASH_MISMATCH when the stored bytes do not have the digest they were stored under.
    """
    wanted = identity or state.plan_id
    try:
        plan = plan_from_bytes(state.revisions[wanted])
    except msgspec.DecodeError as error:
        raise refuse(
            "E_LEDGER_VERSION",
            f"The plan {short_id(wanted)} has something that this version does not know: {error}.",
            "It was prepared by a newer version; use that one.",
        ) from error
    if plan_id(plan) != wanted:
        raise refuse("E_PLAN_HASH_MISMATCH", "The stored plan does not have the digest it was stored under.")
    return plan


def first_lineage(identity: PlanId) -> str:
    """The stream of the lineage that begins with this plan."""
    digest = bytes.fromhex(identity.removeprefix("plan:"))
    return "lineage/PLAN-" + base64.b32encode(digest[:10]).decode()


def lineage_id(stream: str) -> str:
    """The name of a lineage, from its stream."""
    return stream.removeprefix("lineage/")
