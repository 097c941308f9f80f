"""Counting one lineage. What an event means for a plan is asked of `apply_lineage`, so that an event that is not
counted here is still followed.
"""

from __future__ import annotations

from collections import Counter

from ordain.core.event import (
    ApprovalGiven,
    LineageEvent,
    PlanArchived,
    PlanCancelled,
    PlanExpired,
    PlanPrepared,
    PlanRejected,
    RunStarted,
)
from ordain.core.lineage import PlanState, Stage, apply_lineage
from ordain.core.tally import Tally
from ordain.core.value import Instant, PlanId

__all__ = ["PlanTally"]


class PlanTally:
    """One lineage as it is counted."""

    def __init__(self) -> None:
        self.state = PlanState()
        self._proposed: dict[PlanId, Instant] = {}
        """When each plan was proposed that waits for its approval."""
        self._waited_ms: list[int] = []
        self._counted: Counter[str] = Counter()
        self._before_archiving: Stage | None = None

    @property
    def name(self) -> str:
        """What its steps are counted under: a document that is prepared again begins a new lineage, but is the same
        work."""
        return self.state.document or self.state.title

    def fold(self, event: LineageEvent, at: Instant) -> None:
        """Count one event; raises IllegalTransition for what cannot happen."""
        before = self.state.stage
        apply_lineage(self.state, event, at)
        match event:
            case PlanPrepared(plan_id=plan_id):
                self._proposed.setdefault(plan_id, at)
            case ApprovalGiven(approval=approval):
                proposed = self._proposed.pop(approval.plan_id, None)
                if proposed is not None:
                    self._waited_ms.append(max(at - proposed, 0))
            case PlanRejected():
                self._counted["rejections"] += 1
                self._proposed.clear()
            case PlanExpired():
                self._counted["expiries"] += 1
                self._proposed.clear()
            case PlanCancelled():
                self._proposed.clear()
            case PlanArchived():
                self._before_archiving = before
            case RunStarted(approval_id=approval_id):
                self._counted["runs_approved" if approval_id is not None else "runs_unasked"] += 1
            case _:
                pass

    def close(self, tally: Tally, now: Instant) -> None:
        """Add it to the rest, as it stands now."""
        state, counted = self.state, self._counted
        if state.stage is Stage.ARCHIVED:
            counted["archived"] += 1
            tally.plans[str(self._before_archiving)] += 1
        else:
            status = state.status(now)
            tally.plans[str(status)] += 1
            counted["expiries"] += status == Stage.EXPIRED and state.stage is not Stage.EXPIRED
        counted["revised"] += len(state.revisions) > 1
        first = next(iter(state.runs.values()), None)
        counted["tried"] += first is not None
        counted["completed_at_first"] += first == Stage.COMPLETED
        tally.plan_counts.update(counted)
        tally.to_approval_ms += self._waited_ms
        for one in state.ended.values():
            tally.approvals[one.how if one.how in ("revoked", "expired", "superseded") else "used"] += 1
        for permission in state.permissions.values():
            tally.approvals["unused" if now < permission.approval.expires_at else "expired"] += 1
