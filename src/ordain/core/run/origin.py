"""How a plan came to be that a planner wrote, as it is recorded beside it."""

from __future__ import annotations

import msgspec

from ordain.core.approval.approval import Principal


class PlanOrigin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One planning that ended with a plan. What it counts, the planner's own side reports or we counted; nothing of it
    is evidence."""

    planner: str
    """The model or agent that wrote the plan."""
    goal: str
    """What was asked for, without secrets."""
    asked_by: Principal
    rounds: int
    """How many documents it handed in."""
    first_wrong: int = 0
    """How many problems the first of them had."""
    requests: int = 0
    calls: int = 0
    """Of tools."""
    tokens: int = 0
    cost_usd: float | None = None
    """None where no price is known."""
    unenforced: bool = False
    """Whether it was started without a sandbox, so that nothing kept it from writing."""
