"""Which refusals are recorded, and how many: enough to see who tries what, never so many that they fill the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ordain.core.approval.approval import Principal
from ordain.core.plan.value import Instant
from ordain.core.run.event import Recorded, RequestRefused
from ordain.core.text.limit import HOUR_MS
from ordain.core.text.problem import Problem

REFUSALS_STREAM = "refusals"
PER_HOUR = 60
"""How many of one code are recorded of one caller within an hour, so that one kind cannot hide another, nor one caller
another; what is refused beyond that is only told."""
COUNTED_MS = HOUR_MS
"""How far back they are counted."""

_TOLD = frozenset((
    "E_APPROVAL_CHANNEL", "E_APPROVAL_EXPIRED", "E_APPROVAL_REVOKED", "E_APPROVAL_SPENT", "E_CALLS_TOO_MANY",
    "E_CALL_ARGUMENTS", "E_CALL_BOUNDS", "E_CALL_SCOPE", "E_DOOR_TOKEN", "E_PLAN_APPROVAL_MISSING",
    "E_PLAN_HASH_MISMATCH", "E_PLAN_NEEDS_REVIEW", "E_PLAN_NOT_YOURS", "E_PLAN_REJECTED", "E_PLAN_STALE_BASE",
    "E_PLAN_SUPERSEDED", "E_POLICY_DENIED", "E_PROPOSALS_TOO_MANY", "E_TOOL_ARGS_NOT_APPROVED", "E_TOOL_GUARDED",
))  # fmt: skip


class RefusalText(NamedTuple):
    """The problem that a refusal is recorded with."""

    problem: Problem
    last: bool
    """Whether it is the last one of its kind that is recorded for a while."""


def telling(by: Principal, problems: Sequence[Problem], newest: Sequence[Recorded], now: Instant) -> RefusalText | None:
    """What a refusal is recorded as, if it is; among `newest` are all that still count."""
    problem = next((problem for problem in problems if problem.code in _TOLD), None)
    if by.person or problem is None:
        return None
    alike = sum(
        recorded.at > now - COUNTED_MS and (recorded.event.by.name, recorded.event.code) == (by.name, problem.code)
        for recorded in newest
        if isinstance(recorded.event, RequestRefused)
    )
    return RefusalText(problem, last=alike == PER_HOUR - 1) if alike < PER_HOUR else None
