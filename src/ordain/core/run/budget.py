"""Whether a budget pays for what comes next: reserved before a step begins, and a person is asked where it is reached.

Steps at work together share time, so of that the longest claim counts, and of everything else the sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ordain.core.plan.canonical import action_digest
from ordain.core.plan.model import nested_plan_of
from ordain.core.plan.value import Instant, StepId
from ordain.core.plan.words import sayable
from ordain.core.run.event import BudgetReached, Expected
from ordain.core.run.run_state import RunState
from ordain.core.run.spending import KINDS, MEASURED, RUN, Account, budget_name
from ordain.core.run.step_event import GroupKind, Outcome, StepState


class Held(msgspec.Struct, frozen=True):
    """A step that waits until others have ended, which may spend what it would need, or until a person has decided."""

    why: str


def may_begin(state: RunState, step_id: StepId, now: Instant) -> BudgetReached | Held | None:
    """What keeps a step from beginning now: a budget that it reaches, or what others have reserved."""
    if not state.budgeted:
        return None
    if state.held(step_id):
        return Held("a person's decision about the budget")
    waits = None
    for what in KINDS:
        found = _kept_by(state, step_id, what, now)
        if isinstance(found, BudgetReached):
            return found
        waits = waits or found
    return waits


def _kept_by(state: RunState, step_id: StepId, what: str, now: Instant) -> BudgetReached | Held | None:
    own, waits = state.accounts.get(step_id), None
    below: StepId | None = None
    for owner in state.payers(step_id):
        account = state.accounts[owner]
        if what not in account.limits:
            continue
        limit, spent = account.limits[what], account.total(what, now)
        need = 1 if owner == step_id else _need(state, step_id, own, what, now)
        others = _claims(state, owner, what, now, besides={step_id, below})
        if spent + need > limit:
            return _reached(owner, what, account, now, others, need, step_id)
        if what != "wall_clock_ms" and spent + sum(others) + need > limit:
            waits = Held(f"others, which may still need {amount_words(what, sum(others))} of the budget")
        below = owner
    return waits


def _need(state: RunState, step_id: StepId, own: Account | None, what: str, now: Instant) -> int:
    """What a step reserves when it begins: what is left of its own budget, and without one no more than is certain."""
    if own is not None and what in own.limits:
        return max(own.left(what, now), 0)
    step = state.step(step_id)
    gathers = step.for_each is not None or nested_plan_of(step) is not None  # and its steps are looked at themselves
    return 1 if what in MEASURED and not gathers else 0


def _claims(state: RunState, owner: StepId, what: str, now: Instant, besides: set[StepId | None]) -> list[int]:
    """What the steps at work may still spend from an account; one inside of another spends what that has reserved."""
    found = []
    for step_id in (*state.active, *state.waiting, *state.gathering):
        account = state.accounts.get(step_id)
        if account is None or what not in account.limits or step_id in besides:
            continue
        # Where only the fallback of a step is left, it spends nothing itself.
        if step_id not in state.gathering or state.groups[step_id].kind is not GroupKind.FALLBACK:
            payers = [one for one in state.payers(step_id) if one != step_id and what in state.accounts[one].limits]
            if payers and payers[0] == owner:
                found.append(max(account.left(what, now), 0))
    return found


def _reached(
    owner: StepId,
    what: str,
    account: Account,
    now: Instant,
    others: Sequence[int],
    need: int = 0,
    step_id: StepId | None = None,
) -> BudgetReached:
    reserved = max(others, default=0) if what == "wall_clock_ms" else sum(others)
    return BudgetReached(
        step=budget_name(owner),
        what=what,
        spent=sayable(what, account.total(what, now)),
        reserved=sayable(what, reserved),
        limit=sayable(what, account.limits[what]),
        wanted=sayable(what, need),
        wanted_by=step_id,
    )


# --- Time ------------------------------------------------------------------------------------------------------------


def _timed(state: RunState) -> Iterator[tuple[StepId, Account, Instant]]:
    """The accounts whose time is running, and when it is over; a step without steps of its own has its timeout."""
    for owner in (RUN, *state.gathering):
        account = state.accounts.get(owner)
        if account is not None and (ends := account.ends_at()) is not None and owner not in state.reached:
            yield owner, account, ends


def over_by_now(state: RunState, now: Instant) -> list[BudgetReached]:
    """The budgets whose time is over while somebody is at work."""
    return [
        _reached(owner, "wall_clock_ms", account, now, _claims(state, owner, "wall_clock_ms", now, besides=set()))
        for owner, account, ends in _timed(state)
        if ends <= now
    ]


def over_at(state: RunState, now: Instant) -> Instant | None:
    """When the time of the next budget will be over."""
    return min((ends for _, _, ends in _timed(state) if ends > now), default=None)


def time_left_ms(state: RunState, step_id: StepId, now: Instant) -> int | None:
    """How long an attempt may take by the budget of the step itself; at least a moment, for it has begun."""
    account = state.accounts.get(step_id)
    if account is None or "wall_clock_ms" not in account.limits:
        return None
    return max(account.left("wall_clock_ms", now), 1)


def tokens_left(state: RunState, step_id: StepId, now: Instant) -> int | None:
    """How many tokens an attempt may still use by every budget that pays for it, but for what others have reserved."""
    left, below = [], None
    for owner in state.payers(step_id):
        account = state.accounts[owner]
        if "tokens" in account.limits:
            reserved = sum(_claims(state, owner, "tokens", now, besides={step_id, below}))
            left.append(account.left("tokens", now) - reserved)
            below = owner
    return max(min(left), 0) if left else None


# --- What is left ----------------------------------------------------------------------------------------------------


def left(state: RunState, owner: StepId) -> list[StepId]:
    """The steps that an account would pay for and that have not begun, or begin again."""
    return [
        step_id
        for step_id in state.reading_order()
        if state.steps[step_id].state is StepState.PENDING and owner in state.payers(step_id)
    ]


def expected(state: RunState, owner: StepId, before: Mapping[str, Sequence[Outcome]]) -> Expected:
    """What is left to do will probably need; `before` says by the digest of an action how it went well."""
    steps = left(state, owner)
    known = [outcomes for step_id in steps if (outcomes := before.get(action_digest(state.step(step_id).action)))]
    tokens = [amounts for outcomes in known if (amounts := _reported(outcomes, "tokens"))]
    costs = [amounts for outcomes in known if (amounts := _reported(outcomes, "cost_usd"))]
    return Expected(
        steps=len(steps),
        known=len(known),
        wall_clock_ms=sum(round(_median([one.duration_ms for one in of])) for of in known) if known else None,
        tokens=sum(round(_median(amounts)) for amounts in tokens) if tokens else None,
        cost_usd=sum(_median(amounts) for amounts in costs) if costs else None,
    )


def _median(amounts: Sequence[float]) -> float:
    """The middle one; of two in the middle, what is halfway."""
    ordered, half = sorted(amounts), len(amounts) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _reported(outcomes: Sequence[Outcome], what: str) -> list[float]:
    used = (one.used for one in outcomes if one.used is not None)
    return [amount for one in used if (amount := getattr(one, what)) is not None]


# --- In words --------------------------------------------------------------------------------------------------------


class Spending(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One kind of what a run, or a step with a budget, has spent."""

    what: str
    spent: int | float
    limit: int | float | None = None
    """What may be spent by now, with what people have added; absent where there is no limit."""
    measured: bool
    """Whether we counted it ourselves; otherwise it is what was reported."""
    step: StepId | None = None
    """Whose budget it is of; absent for the run's."""


def spending(state: RunState, now: Instant) -> tuple[Spending, ...]:
    """What was spent: by the run everything that is known, by steps where they have a limit."""
    return tuple(
        Spending(
            what=what,
            spent=sayable(what, account.total(what, now)),
            limit=sayable(what, account.limits[what]) if what in account.limits else None,
            measured=what in MEASURED,
            step=owner or None,
        )
        for owner, account in state.accounts.items()
        for what in KINDS
        if what in account.limits or (owner == RUN and (what in MEASURED or account.spent[what]))
    )


STEPS_NAMED_MAX = 20


def question_words(state: RunState, owner: StepId) -> tuple[str, str]:
    """What a person is asked about a budget that was reached, and what they need to know for it."""
    reached, account = state.reached[owner], state.accounts[owner]
    whose = f"The budget of `{owner}`" if owner else "The budget of the plan"
    limit = amount_said(reached.what, reached.limit)
    if reached.wanted_by is not None and reached.spent < reached.limit:
        wanted = amount_said(reached.what, reached.wanted)
        text = f"{whose} allows {limit}, which is not enough for `{reached.wanted_by}`: it may need {wanted}. What now?"
    else:
        text = f"{whose} is reached: {limit}. What now?"
    steps = left(state, owner)
    named = ", ".join(steps[:STEPS_NAMED_MAX]) + (", …" if len(steps) > STEPS_NAMED_MAX else "")
    left_to_do = f"{len(steps)} step{'s' * (len(steps) != 1)} ({named})"
    return text, f"Spent: {_spent(account)}. Left to do: {left_to_do}. {_expectation(reached.expected)}"


def _spent(account: Account) -> str:
    measured = " and ".join(amount_words(what, account.spent[what]) for what in KINDS if what in MEASURED)
    reported = [
        amount_words(what, account.spent[what])
        for what in KINDS
        if what not in MEASURED and (account.spent[what] or what in account.given)
    ]
    return f"{measured} (measured)" + (f", {' and '.join(reported)} (as reported)" if reported else "")


def _expectation(need: Expected | None) -> str:
    if need is None or not need.known:
        return "What they need is unknown: no earlier run did the same."
    amounts = [amount_said(what, amount) for what in KINDS if (amount := getattr(need, what, None)) is not None]
    unknown = need.steps - need.known
    rest = f"; of {unknown} of them nothing is known" if unknown else ""
    return f"By earlier runs they need about {' and '.join(amounts)}{rest}."


def amount_words(what: str, count: int) -> str:
    return amount_said(what, sayable(what, count))


def amount_said(what: str, amount: float) -> str:
    """An amount as people say it."""
    if what in ("attempts", "tokens"):
        return f"{amount:,} {what.removesuffix('s')}{'s' * (amount != 1)}"
    if what == "cost_usd":
        return f"${amount:,.2f}" if round(amount, 2) == amount else f"${amount:,.9f}".rstrip("0")
    return f"{_time(int(amount))} at work"


def _time(milliseconds: int) -> str:
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:g} s"
    minutes, seconds = divmod(round(milliseconds / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "min"), (seconds, "s"))
    return " ".join(f"{count} {unit}" for count, unit in parts if count)
