"""What a run has spent, and within which limits: one account for the run, one for each step that has a budget.

Attempts and time are counted from what is recorded; tokens and money are what was reported. All numbers are whole:
money is counted in billionths of a dollar, so that sums are exact. `run_state` keeps the accounts, `budget` asks them.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from ordain.core.plan.model import Budget, Step, nested_plan_of
from ordain.core.plan.value import Instant, StepId
from ordain.core.plan.words import BILLION, counted, sayable
from ordain.core.run.step_event import Carried, Usage
from ordain.core.text.limit import INTEGER_MAX

KINDS = ("attempts", "wall_clock_ms", "tokens", "cost_usd")
"""What a budget can limit, by the names of its fields."""
MEASURED = frozenset({"attempts", "wall_clock_ms"})
"""Those that we count ourselves; of the others we know what is reported."""
RUN = StepId("")
"""The owner of the run's own account; of the others it is a step."""
BUDGET = ".budget"
"""What a question about the run's budget is about. No step can be called so."""


def budget_name(owner: StepId) -> StepId:
    """What a question about this account is about."""
    return StepId(f"{BUDGET}/{owner}" if owner else BUDGET)


def owner_of(name: str) -> StepId | None:
    """Whose account a question of this name is about; None where it is about a step."""
    head, _, owner = name.partition("/")
    return StepId(owner) if head == BUDGET else None


class Account(msgspec.Struct):
    """What was spent, and how much may be. Owned by a RunState."""

    given: dict[str, int]
    """What the plan gives."""
    limits: dict[str, int]
    """What may be spent in all, by now; nothing stands here of what has no limit."""
    spent: dict[str, int] = msgspec.field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    """Of the time, that until the last moment in which nobody was at work."""
    at_work: int = 0
    """How many steps are running or being verified."""
    since: Instant = Instant(0)
    """While there are any: since when without a break."""
    reached_at: Instant | None = None
    """When it was reached last."""
    decisions: int = 0
    """How often a person decided about it: a question is told from the one before by that."""

    def total(self, what: str, now: Instant) -> int:
        running = max(now - self.since, 0) if self.at_work and what == "wall_clock_ms" else 0
        return self.spent[what] + running

    def left(self, what: str, now: Instant) -> int:
        """How much of a limit may still be spent; less than nothing where it was passed."""
        return self.limits[what] - self.total(what, now)

    def ends_at(self) -> Instant | None:
        """When its time is over if somebody stays at work; None where nobody is, or there is no limit."""
        limit = self.limits.get("wall_clock_ms")
        return Instant(self.since + limit - self.spent["wall_clock_ms"]) if limit is not None and self.at_work else None

    def begin(self, at: Instant) -> None:
        if not self.at_work:
            self.since = at
        self.at_work += 1

    def end(self, at: Instant) -> None:
        self.at_work -= 1
        if not self.at_work:
            self.spent["wall_clock_ms"] += max(at - self.since, 0)

    def cut(self, seen_at: Instant, at: Instant) -> None:
        """Whoever was at work died, at the earliest when something was recorded last; others go on now."""
        if self.at_work:
            self.spent["wall_clock_ms"] += max(seen_at - self.since, 0)
            self.since = at

    def use(self, used: Usage) -> None:
        self.spent["tokens"] += max(used.tokens or 0, 0)
        self.spent["cost_usd"] += max(counted("cost_usd", used.cost_usd or 0), 0)

    def carry(self, before: Carried | None) -> None:
        """Count what runs before have spent of this, and allow what people allowed then."""
        if before is None:
            return
        for what in KINDS:
            self.spent[what] += before.spent.get(what, 0)
            if what in self.limits:
                self.limits[what] += before.extended.get(what, 0)

    def carried(self) -> Carried:
        """The same of this run and those before, for the next; nobody is at work on it."""
        extended = {what: self.limits[what] - given for what, given in self.given.items() if what in self.limits}
        return Carried(
            spent={what: amount for what, amount in self.spent.items() if amount},
            extended={what: more for what, more in extended.items() if more > 0},
        )

    def extend(self, what: str, now: Instant) -> None:
        """Allow the same amount once more, from what was spent on where that is more than was allowed."""
        self.limits[what] = max(self.limits[what], self.total(what, now)) + self.given[what]


def account_of(step: Step) -> Account | None:
    """The account of a step that has a budget, or whose nested plan has one; where both have, both hold."""
    inner = nested_plan_of(step) if step.for_each is None else None  # that of a repeated step is each item's
    nested = inner.budget if inner is not None else None
    return new_account(step.budget, nested) if step.budget is not None or nested is not None else None


def new_account(*budgets: Budget | None) -> Account:
    given: dict[str, int] = {}
    for budget in budgets:
        for what in KINDS:
            if (limit := getattr(budget, what, None)) is not None:
                given[what] = min(counted(what, limit), given.get(what, counted(what, limit)))
    return Account(given=given, limits=dict(given))


# --- What is reported ------------------------------------------------------------------------------------------------


class _UsageLine(msgspec.Struct, frozen=True):
    """A report that can be believed to be one."""

    tokens: Annotated[int, msgspec.Meta(ge=0, le=INTEGER_MAX)] | None = None
    cost_usd: Annotated[float, msgspec.Meta(ge=0, le=BILLION)] | None = None


_line = msgspec.json.Decoder(_UsageLine)


def read_usage(data: bytes) -> tuple[Usage | None, int]:
    """What lines of JSON like `{"tokens": 1200, "cost_usd": 0.02}` add up to, and how many lines are not like that."""
    wrong, lines = 0, []
    for line in data.split(b"\n"):
        if line.strip():
            try:
                lines.append(_line.decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError):
                wrong += 1
    tokens = [line.tokens for line in lines if line.tokens is not None]
    costs = [counted("cost_usd", line.cost_usd) for line in lines if line.cost_usd is not None]
    used = Usage(
        tokens=min(sum(tokens), INTEGER_MAX) if tokens else None,
        cost_usd=sayable("cost_usd", sum(costs)) if costs else None,
    )
    return (used if used != Usage() else None), wrong


def sound_usage(used: Usage | None) -> Usage | None:
    """What a tool reported, where that can be; what cannot be is not recorded."""
    return read_usage(msgspec.json.encode(used))[0] if used is not None else None
