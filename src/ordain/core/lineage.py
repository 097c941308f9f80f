"""A plan through its life: `PlanState`, the fold of one lineage's events.

A lineage is the thing people talk about through its revisions; a revision is a plan id. Statuses are derived here
from events and the time, never stored.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from ordain.core.approval import Approval
from ordain.core.event import ApprovalGiven, LineageEvent, PlanPrepared, RunEnded, RunStarted
from ordain.core.state import IllegalTransition
from ordain.core.value import Instant, PlanId, RunId

__all__ = ["PlanState", "apply_lineage"]


class PlanState(msgspec.Struct):
    """One lineage, folded from its events: the newest revision, its approvals, its runs."""

    plan_id: PlanId = PlanId("")
    prepared: PlanPrepared | None = None
    revisions: dict[PlanId, bytes] = {}
    """The canonical bytes of every plan this lineage has had."""
    approvals: dict[str, Approval] = {}
    spent: dict[str, RunId] = {}
    runs: dict[RunId, str | None] = {}
    """Run and how it ended; None while it is open."""
    size: int = 0

    @property
    def open_run(self) -> RunId | None:
        """The run that has started and not ended, if any."""
        return next((run_id for run_id, ended in self.runs.items() if ended is None), None)

    def unspent(self) -> tuple[Approval, ...]:
        """Approvals no run has used, newest first."""
        return tuple(a for a in reversed(self.approvals.values()) if a.approval_id not in self.spent)

    def status(self, now: Instant) -> str:
        """The plan's status in one word, derived."""
        if self.open_run is not None:
            return "executing"
        unspent = [approval for approval in self.unspent() if now < approval.expires_at]
        if unspent:
            return "approved"
        if self.runs:
            return list(self.runs.values())[-1] or "executing"
        if self.prepared is not None and now >= self.prepared.expires_at:
            return "expired"
        return "proposed"


def apply_lineage(state: PlanState, event: LineageEvent) -> PlanState:
    """Fold one event of a lineage into its state and return it."""
    match event:
        case PlanPrepared():
            state.plan_id, state.prepared = event.plan_id, event
            state.revisions[event.plan_id] = bytes(event.plan)
        case ApprovalGiven(approval=approval):
            state.approvals[approval.approval_id] = approval
        case RunStarted():
            if event.approval_id is not None:
                if event.approval_id in state.spent or event.approval_id not in state.approvals:
                    raise IllegalTransition(f"approval {event.approval_id} cannot be spent")
                state.spent[event.approval_id] = event.run_id
            state.runs[event.run_id] = None
        case RunEnded():
            state.runs[event.run_id] = event.status
        case _:
            assert_never(event)
    state.size += 1
    return state
