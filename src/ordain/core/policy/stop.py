"""The stop: nothing starts and no call passes until a person lifts it. What is said about one."""

from __future__ import annotations

import msgspec

from ordain.core.plan.value import Instant, RunId
from ordain.core.text.problem import Problem, blame_step

LIFT = "ordain stop --lift"


class StopOrder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who stopped work, when and why. Where the switch is on and cannot be read, that is unknown, and it counts."""

    by: str = ""
    """In words: the hook must answer at once, and loads nothing that knows principals."""
    at: Instant | None = None
    reason: str = ""
    everywhere: bool = False
    """In every workspace of the user, not in one."""
    fault: str = ""
    """Why it cannot be known whether work is stopped, in words. Nothing starts then either."""

    @property
    def words(self) -> str:
        where = "in every workspace of this user" if self.everywhere else "in this workspace"
        who = f", by {self.by}" if self.by else ""
        return f"Work is stopped {where}{who}{f': {self.reason}' if self.reason else ''}"


class StopReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a stop, or of lifting one."""

    stopped: tuple[StopOrder, ...]
    """What is in force for this workspace now."""
    ended: tuple[RunId, ...] = ()
    """The runs whose executor was killed."""
    not_ended: tuple[RunId, ...] = ()
    """Those that could not be ended from here. They begin no further step."""
    recorded: bool = False


def stopped_problem(stop: StopOrder) -> Problem:
    """The refusal of whatever would start, or call something."""
    if stop.fault:
        detail = f"{stop.fault}. Nothing starts while Ordain cannot read whether work is stopped."
        return Problem(code="E_STATE_DIR", detail=detail, command="ordain status")
    detail = f"{stop.words}. Nothing starts and no call is made until a person lifts that."
    hint = "Only a person at a terminal can lift it; then `ordain resume` settles what was under way."
    return blame_step(None, "E_STOPPED", detail, hint, command=LIFT)


def stop_notice(stop: StopOrder) -> Problem:
    """The same beside what somebody looks at."""
    if stop.fault:
        return Problem(code="W_STOPPED", detail=f"{stop.fault}. Nothing starts until Ordain can read it.")
    return Problem(code="W_STOPPED", detail=f"{stop.words}.", command=LIFT)
