"""Words of documents for durations, budgets and failure policies, read and written. What `write_…` gives `read_…` reads
back; what words cannot say exactly is written as values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, assert_never

import msgspec

from ordain.core.plan.failure import (
    Abort,
    AfterFallback,
    AskApproval,
    Continue,
    Escalate,
    FailurePolicy,
    Fallback,
    LastPolicy,
    Recover,
    Replan,
    Retry,
    Skip,
)
from ordain.core.plan.model import Budget
from ordain.core.plan.name import id_fault
from ordain.core.plan.value import StepId
from ordain.core.text.limit import ATTEMPTS_MAX, DAY_MS, FACTOR_MAX, INTEGER_MAX, string_fault
from ordain.core.text.pattern import compile_later
from ordain.core.text.problem import Problem, closest

# --- Durations: `250ms`, `30s`, `10m`, `2h`, `1d` --------------------------------------------------------------------

_UNITS_MS = {"d": DAY_MS, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_DURATION = compile_later(r"(0|[1-9][0-9]{0,17})(ms|s|m|h|d)")


def read_duration(text: str) -> int | None:
    """The milliseconds of a duration, or None where the text is not one."""
    found = _DURATION.fullmatch(text)
    return int(found[1]) * _UNITS_MS[found[2]] if found else None


def write_duration(duration_ms: int) -> str:
    """The shortest exact spelling, in the largest unit that divides it."""
    if duration_ms == 0:
        return "0s"
    unit = next(name for name, size_ms in _UNITS_MS.items() if duration_ms % size_ms == 0)
    return f"{duration_ms // _UNITS_MS[unit]}{unit}"


# --- Budgets: `max 200k tokens, $1.50, 20 minutes, 40 attempts` ------------------------------------------------------

_NUMBER = r"([0-9]{1,15}(?:\.[0-9]{1,15})?)"
_TOKENS = compile_later(rf"(?:max[ \t]+)?{_NUMBER}[ \t]*([kKMG])?[ \t]+tokens?")
_ATTEMPTS = compile_later(rf"(?:max[ \t]+)?{_NUMBER}[ \t]+attempts?")
_TIME = compile_later(rf"(?:max[ \t]+)?{_NUMBER}[ \t]+(second|minute|hour|day)s?(?:[ \t]+wall[ \t-]clock)?")
_COST = compile_later(rf"(?:max[ \t]+)?\$[ \t]?{_NUMBER}")
_BUDGET_TIME = compile_later(r"(?:max[ \t]+)?([0-9]+[a-z]{1,2})(?:[ \t]+wall[ \t-]clock)?")

_SCALES = {None: 1, "k": 1_000, "K": 1_000, "M": 1_000_000, "G": 1_000_000_000}
_SPELLED_UNITS_MS = {"day": DAY_MS, "hour": 3_600_000, "minute": 60_000, "second": 1_000}
_PARTS: tuple[tuple[re.Pattern[str], str, Callable[[re.Match[str]], int]], ...] = (
    (_TOKENS, "tokens", lambda found: _SCALES[found[2]]),
    (_ATTEMPTS, "attempts", lambda found: 1),
    (_TIME, "wall_clock_ms", lambda found: _SPELLED_UNITS_MS[found[2]]),
)
_FORM = "Write any of `max 200k tokens`, `$1.50`, `20 minutes` and `40 attempts`, with commas between them."


def read_budget(text: str) -> Budget | Problem:
    """The budget that these words describe, or what is wrong with them."""
    found: dict[str, Any] = {}
    for part in text.split(","):
        read = _part(part.strip())
        if read is None:
            return _wrong("E_FIELD_VALUE", f"`{_shown(part)}` is no part of a budget.", _FORM)
        name, value = read
        if name in found:
            return _wrong("E_DOC_DUPLICATE", f"`{_shown(part)}` limits what was already limited.", _FORM)
        found[name] = value
    return Budget(**found)


def write_budget(budget: Budget) -> str | None:
    """The words for a budget, or None where words can not say it exactly."""
    parts = []
    if budget.tokens is not None:
        mark = next((one for one in ("M", "k") if budget.tokens % _SCALES[one] == 0), None)
        parts.append(f"max {budget.tokens // _SCALES[mark]}{mark or ''} tokens")
    if budget.cost_usd is not None:
        cents = f"{budget.cost_usd:.2f}"
        parts.append(f"${cents if float(cents) == budget.cost_usd else repr(budget.cost_usd)}")
    if budget.wall_clock_ms is not None:
        parts.append(_time(budget.wall_clock_ms))
    if budget.attempts is not None:
        parts.append(f"{budget.attempts} attempt{'' if budget.attempts == 1 else 's'}")
    return words if read_budget(words := ", ".join(parts)) == budget else None


def _part(words: str) -> tuple[str, int | float] | None:
    for form, name, unit in _PARTS:
        if found := form.fullmatch(words):
            return _whole(name, found[1], unit(found))
    cost, duration = _COST.fullmatch(words), _BUDGET_TIME.fullmatch(words)
    if cost:
        return "cost_usd", float(cost[1])
    duration_ms = read_duration(duration[1]) if duration else None
    return None if duration_ms is None else _whole("wall_clock_ms", str(duration_ms), 1)


def _whole(name: str, said: str, unit: int) -> tuple[str, int] | None:
    """What so many of a unit are, exactly; None where that is no whole number or too large."""
    before, _, after = said.partition(".")
    number, rest = divmod(int(before + after) * unit, 10 ** len(after))
    return (name, number) if rest == 0 and 0 < number <= INTEGER_MAX else None


def _time(duration_ms: int) -> str:
    for unit in ("hour", "minute", "second"):
        count, rest = divmod(duration_ms, _SPELLED_UNITS_MS[unit])
        if count > 0 and rest == 0:
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return write_duration(max(duration_ms, 0))


BILLION = 1_000_000_000
"""Money is counted in billionths of a dollar, so that sums are exact."""


def counted(what: str, amount: float) -> int:
    """An amount as it is counted: whole."""
    return round(amount * BILLION) if what == "cost_usd" else int(amount)


def sayable(what: str, count: int) -> int | float:
    """The inverse of `counted`: an amount in the unit of a budget."""
    return count / BILLION if what == "cost_usd" else count


# --- Failure policies (`on_fail`) ------------------------------------------------------------------------------------
# A skip with `warn` and numbers out of bounds can only be written as values. All delay forms are special cases of one:
# `retry(N, FIRST xFACTOR +INCREMENT max LONGEST)`, each part optional.

_RETRIES_MAX = ATTEMPTS_MAX - 1

_BARE: dict[str, type[Abort | Skip | Continue | Escalate | Replan | Recover]] = {
    str(kind.__struct_config__.tag): kind for kind in (Abort, Skip, Continue, Escalate, Replan, Recover)
}
_TERM = compile_later(
    r"""[ \t]* (?P<word>[A-Za-z_]+) [ \t]* (?P<call>\( (?P<inside> (?: "(?:[^"\\]|\\.)*+" | [^()"] )*+ ) \))? [ \t]*""",
    re.VERBOSE,
)
_THEN = compile_later(r",[ \t]*then[ \t]")
_RETRY = compile_later(
    r"""
    [ \t]* (?P<count>[0-9]{1,18}) [ \t]*
    (?: , [ \t]* (?P<first>[0-9]+[a-z]+)
        (?: [ \t]* x(?P<factor>[0-9]{1,9}(?:\.[0-9]{1,17})?) )?
        (?: [ \t]* \+(?P<increment>[0-9]+[a-z]+) )?
        (?: [ \t]* [ \t]max[ \t]+ (?P<longest>[0-9]+[a-z]+) )?
        [ \t]*
    )?
    """,
    re.VERBOSE,
)
_FORMS = (
    "Write `abort`, `skip`, `continue`, `escalate`, `fallback(id)`, or `retry(2), then escalate`.",
    "Delays: `retry(3, 1s)`, `retry(3, 1s +1s)`, `retry(3, 1s x2 max 30s)`.",
)


def read_failure(text: str) -> FailurePolicy | Problem:
    """The policy that these words describe, or what is wrong with them."""
    first = _TERM.match(text)
    if first is None:
        return _wrong("E_FIELD_VALUE", f"`{_shown(text)}` does not say what to do on failure.", *_FORMS)
    policy = _term(first)
    if isinstance(policy, Problem) or first.end() == len(text):
        return policy
    then = _THEN.match(text, first.end())
    if then is None or _TERM.match(text, then.end()) is None:
        return _wrong("E_FIELD_VALUE", f"`{_shown(text[first.end() :])}` is not understood here.", *_FORMS)
    last = read_failure(text[then.end() :])
    return last if isinstance(last, Problem) else _followed(policy, last)


def _followed(policy: FailurePolicy, last: FailurePolicy) -> FailurePolicy | Problem:
    """The policy after which, where it did not help, another follows."""
    match policy, last:
        case Retry(), Retry():
            hint = "Write one `retry` with the sum of attempts."
            return _wrong("E_FIELD_VALUE", "A retry can not follow a retry.", hint)
        case Retry(), _ if not isinstance(last, LastPolicy):
            word = write_failure(last).partition("(")[0]
            return _wrong("E_FIELD_VALUE", f"`{word}` can not follow a retry.", *_FORMS)
        case Fallback(), _ if not isinstance(last, AfterFallback):
            word = write_failure(last).partition("(")[0]
            hint = "Write `retry(2), then fallback(a, b), then abort`: each at most once, in this order."
            return _wrong("E_FIELD_VALUE", f"`{word}` can not follow a fallback.", hint)
        case ((Retry() | Fallback()), _):
            return msgspec.structs.replace(policy, then=last)
        case _:
            what = "Only `retry` and `fallback` may come before `then`: nothing follows the others."
            return _wrong("E_FIELD_VALUE", what, *_FORMS)


def write_failure(policy: FailurePolicy) -> str:
    """The words for a policy, exactly as `read_failure` reads them."""
    match policy:
        case Abort(message=None):
            return "abort"
        case Abort(message=message):
            return f"abort({json.dumps(message, ensure_ascii=False)})"
        case Skip() | Continue() | Escalate() | Replan() | Recover():
            return str(policy.__struct_config__.tag)
        case AskApproval(summary=summary):
            return f"ask({json.dumps(summary, ensure_ascii=False)})"
        case Fallback(steps=steps, then=after):
            return f"fallback({', '.join(steps)})" + (f", then {write_failure(after)}" if after else "")
        case Retry():
            then = f", then {write_failure(policy.then)}" if policy.then else ""
            return f"retry({policy.max_attempts - 1}{_write_delay(policy)}){then}"
        case _:
            assert_never(policy)


def _write_delay(retry: Retry) -> str:
    factor = f" x{retry.backoff_multiplier:g}" if retry.backoff_multiplier != 1 else ""
    if factor and float(factor[2:]) != retry.backoff_multiplier:
        factor = f" x{retry.backoff_multiplier!r}"
    increment = f" +{write_duration(retry.increment_ms)}" if retry.increment_ms else ""
    longest = f" max {write_duration(retry.max_delay_ms)}" if retry.max_delay_ms is not None else ""
    if not (retry.initial_delay_ms or factor or increment or longest):
        return ""
    return f", {write_duration(retry.initial_delay_ms)}{factor}{increment}{longest}"


def _term(found: re.Match[str]) -> FailurePolicy | Problem:
    word, inside = found["word"], found["inside"]
    match word:
        case "retry":
            return _read_retry(inside)
        case "fallback":
            return _read_fallback(inside or "")
        case "ask":
            summary = _read_text(inside or "", "The summary of `ask`", 'Write `ask("why")`.')
            return summary if isinstance(summary, Problem) else AskApproval(summary=summary)
        case "abort" if inside is not None:
            message = _read_text(inside, "The message of `abort`", 'Write `abort("why")`.')
            return message if isinstance(message, Problem) else Abort(message=message)
    if word not in _BARE:
        hints = closest(word, [*_BARE, "retry", "ask", "fallback"]) or _FORMS
        return _wrong("E_FIELD_VALUE", f"`{_shown(word)}` is nothing to do on failure.", *hints)
    if inside is not None:
        return _wrong("E_FIELD_VALUE", f"`{word}` takes nothing in brackets.", f"Write `{word}`.")
    return _BARE[word]()


def _read_text(inside: str, what: str, hint: str) -> str | Problem:
    """A text in quotes, as JSON spells it."""
    try:
        text = json.loads(inside) if inside.lstrip().startswith('"') else None
    except ValueError:
        text = None
    if text is None:
        return _wrong("E_FIELD_VALUE", f"{what} is one text in quotes.", hint)
    fault = string_fault(text)
    return _wrong(*fault) if fault else text


def _read_fallback(inside: str) -> Fallback | Problem:
    steps = [word.strip() for word in inside.split(",")]
    for step in steps:
        if not step:
            return _wrong("E_FIELD_VALUE", "`fallback` names no step here.", "Write `fallback(undo)`.")
        fault = id_fault(step)
        if fault:
            return _wrong(*fault)
    return Fallback(steps=tuple(StepId(step) for step in steps))


def _read_retry(inside: str | None) -> Retry | Problem:
    found = _RETRY.fullmatch(inside or "")
    if found is None:
        return _wrong("E_FIELD_VALUE", f"`retry({_shown(inside or '')})` is not understood.", *_FORMS)
    count = int(found["count"])
    if not 1 <= count <= _RETRIES_MAX:
        return _wrong("E_STEP_LIMIT", f"{count} further attempts are asked for; 1 to {_RETRIES_MAX} are allowed.")
    delays: dict[str, int] = {}
    for name in (one for one in ("first", "increment", "longest") if found[one] is not None):
        delay_ms = read_duration(found[name])
        if delay_ms is None:
            what = f"`{_shown(found[name])}` is not a duration."
            return _wrong("E_FIELD_VALUE", what, "Write `250ms`, `30s` or `10m`.")
        if delay_ms > DAY_MS:
            return _wrong("E_STEP_LIMIT", f"A delay of {found[name]} is more than a day.")
        delays[name] = delay_ms
    factor = float(found["factor"] or 1)
    if not 1 <= factor <= FACTOR_MAX:
        return _wrong("E_STEP_LIMIT", f"The delay grows by x{found['factor']}; x1 to x{FACTOR_MAX} are allowed.")
    retry = Retry(
        max_attempts=count + 1,
        initial_delay_ms=delays.get("first", 0),
        increment_ms=delays.get("increment", 0),
        max_delay_ms=delays.get("longest"),
    )
    # The default must stay untouched: 1.0 given and 1 absent would be two digests of one policy.
    return retry if factor == 1 else msgspec.structs.replace(retry, backoff_multiplier=factor)


def _shown(text: str) -> str:
    text = text.strip()
    return text if len(text) <= 60 else text[:57] + "…"


def _wrong(code: str, detail: str, *hints: str) -> Problem:
    return Problem(code=code, detail=detail, hints=hints)


ACTION_CHARACTERS = 2000


def action_words(action: Any) -> str:
    """What a step does, as the plan has it: its command, or else its kind and its values."""
    values = msgspec.to_builtins(action)
    words = str(values.get("command") or f"{values.pop('type', '')} {json.dumps(values, ensure_ascii=False)}")
    return words if len(words) <= ACTION_CHARACTERS else f"{words[:ACTION_CHARACTERS]}…"
