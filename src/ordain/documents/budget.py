"""The words of a budget, `max 200k tokens, $1.50, 20 minutes, 40 attempts`, to a budget and back.

`write_budget` is the inverse of `read_budget` for every budget that words can say; the others are written as values.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from ordain.core.bound import INTEGER_MAX
from ordain.core.model import Budget
from ordain.core.problem import Problem
from ordain.documents.duration import read_duration, write_duration

__all__ = ["read_budget", "write_budget"]

_NUMBER = r"([0-9]{1,15}(?:\.[0-9]{1,15})?)"
_TOKENS = re.compile(rf"(?:max[ \t]+)?{_NUMBER}[ \t]*([kKMG])?[ \t]+tokens?")
_ATTEMPTS = re.compile(rf"(?:max[ \t]+)?{_NUMBER}[ \t]+attempts?")
_COST = re.compile(rf"(?:max[ \t]+)?\$[ \t]?{_NUMBER}")
_TIME = re.compile(rf"(?:max[ \t]+)?{_NUMBER}[ \t]+(second|minute|hour|day)s?(?:[ \t]+wall[ \t-]clock)?")
_DURATION = re.compile(r"(?:max[ \t]+)?([0-9]+[a-z]{1,2})(?:[ \t]+wall[ \t-]clock)?")

_SCALES = {None: 1, "k": 1_000, "K": 1_000, "M": 1_000_000, "G": 1_000_000_000}
_UNITS_MS = {"day": 86_400_000, "hour": 3_600_000, "minute": 60_000, "second": 1_000}
_FORM = "Write any of `max 200k tokens`, `$1.50`, `20 minutes` and `40 attempts`, with commas between them."


def read_budget(text: str) -> Budget | Problem:
    """The budget that these words describe, or what is wrong with them."""
    found: dict[str, Any] = {}
    for part in text.split(","):
        words = part.strip()
        read = _part(words)
        shown = words if len(words) <= 60 else words[:57] + "…"
        if read is None:
            return Problem(code="E_FIELD_VALUE", detail=f"`{shown}` is no part of a budget.", hints=(_FORM,))
        name, value = read
        if name in found:
            return Problem(code="E_DOC_DUPLICATE", detail=f"`{shown}` limits what was already limited.", hints=(_FORM,))
        found[name] = value
    return Budget(**found)


def write_budget(budget: Budget) -> str | None:
    """The words for a budget, or None where words can not say it exactly."""
    parts = []
    if budget.tokens is not None:
        parts.append(f"max {_tokens(budget.tokens)} tokens")
    if budget.cost_usd is not None:
        parts.append(f"${_cost(budget.cost_usd)}")
    if budget.wall_clock_ms is not None:
        parts.append(_time(budget.wall_clock_ms))
    if budget.attempts is not None:
        parts.append(f"{budget.attempts} attempt{'' if budget.attempts == 1 else 's'}")
    words = ", ".join(parts)
    return words if read_budget(words) == budget else None


def _part(words: str) -> tuple[str, int | float] | None:
    tokens = _TOKENS.fullmatch(words)
    if tokens:
        return _whole("tokens", Fraction(tokens[1]) * _SCALES[tokens[2]])
    cost = _COST.fullmatch(words)
    if cost:
        return "cost_usd", float(cost[1])
    attempts = _ATTEMPTS.fullmatch(words)
    if attempts:
        return _whole("attempts", Fraction(attempts[1]))
    time = _TIME.fullmatch(words)
    if time:
        return _whole("wall_clock_ms", Fraction(time[1]) * _UNITS_MS[time[2]])
    duration = _DURATION.fullmatch(words)
    duration_ms = read_duration(duration[1]) if duration else None
    return None if duration_ms is None else _whole("wall_clock_ms", Fraction(duration_ms))


def _whole(name: str, number: Fraction) -> tuple[str, int] | None:
    return (name, int(number)) if number.denominator == 1 and 0 < number <= INTEGER_MAX else None


def _tokens(count: int) -> str:
    for scale, mark in ((1_000_000, "M"), (1_000, "k")):
        if count % scale == 0:
            return f"{count // scale}{mark}"
    return str(count)


def _cost(dollars: float) -> str:
    cents = f"{dollars:.2f}"
    return cents if float(cents) == dollars else repr(dollars)


def _time(duration_ms: int) -> str:
    for unit, size_ms in _UNITS_MS.items():
        if duration_ms > 0 and duration_ms % size_ms == 0 and unit != "day":
            count = duration_ms // size_ms
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return write_duration(max(duration_ms, 0))
