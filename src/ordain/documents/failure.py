"""The `on_fail` grammar: one line of words to a failure policy and back.

`write_failure` is the inverse of `read_failure` for every policy that words can say; a skip with `warn` and numbers
out of bounds can only be written as values. The documented delay forms are special cases of one:
`retry(N, FIRST xFACTOR +INCREMENT max LONGEST)`, each part optional.
"""

from __future__ import annotations

import json
import re
from typing import assert_never

import msgspec

from ordain.core.bound import ATTEMPTS_MAX, DAY_MS, FACTOR_MAX
from ordain.core.failure import (
    Abort,
    AskApproval,
    Continue,
    Escalate,
    FailurePolicy,
    Fallback,
    Recover,
    Replan,
    Retry,
    Skip,
)
from ordain.core.name import id_fault
from ordain.core.problem import Problem, closest
from ordain.core.scalar import string_fault
from ordain.core.value import StepId
from ordain.documents.duration import read_duration, write_duration

__all__ = ["read_failure", "write_failure"]

_RETRIES_MAX = ATTEMPTS_MAX - 1

_BARE: dict[str, type[Abort | Skip | Continue | Escalate | Replan | Recover]] = {
    "abort": Abort,
    "skip": Skip,
    "continue": Continue,
    "escalate": Escalate,
    "replan": Replan,
    "recover": Recover,
}
_TERM = re.compile(
    r"""[ \t]* (?P<word>[A-Za-z_]+) [ \t]* (?P<call>\( (?P<inside> (?: "(?:[^"\\]|\\.)*+" | [^()"] )*+ ) \))? [ \t]*""",
    re.VERBOSE,
)
_THEN = re.compile(r",[ \t]*then[ \t]")
_RETRY = re.compile(
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
    second = _TERM.fullmatch(text, then.end()) if then else None
    if second is None:
        return _wrong("E_FIELD_VALUE", f"`{_shown(text[first.end() :])}` is not understood here.", *_FORMS)
    last = _term(second)
    if isinstance(last, Problem):
        return last
    if not isinstance(policy, Retry):
        return _wrong("E_FIELD_VALUE", "Only `retry` may stand before `then`: nothing follows the others.", *_FORMS)
    if isinstance(last, Retry):
        return _wrong("E_FIELD_VALUE", "A retry can not follow a retry.", "Write one `retry` with the sum of attempts.")
    return msgspec.structs.replace(policy, then=last)


def write_failure(policy: FailurePolicy) -> str:
    """The words for a policy, exactly as `read_failure` reads them."""
    match policy:
        case Abort(message=None):
            return "abort"
        case Abort(message=message):
            return f"abort({json.dumps(message, ensure_ascii=False)})"
        case Skip():
            return "skip"
        case Continue():
            return "continue"
        case Escalate():
            return "escalate"
        case AskApproval(summary=summary):
            return f"ask({json.dumps(summary, ensure_ascii=False)})"
        case Fallback(steps=steps):
            return f"fallback({', '.join(steps)})"
        case Replan():
            return "replan"
        case Recover():
            return "recover"
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
            summary = _read_text(inside or "")
            if summary is None:
                return _wrong("E_FIELD_VALUE", "The summary of `ask` is one text in quotes.", 'Write `ask("why")`.')
            return summary if isinstance(summary, Problem) else AskApproval(summary=summary)
        case "abort" if inside is not None:
            message = _read_text(inside)
            if message is None:
                return _wrong("E_FIELD_VALUE", "The message of `abort` is one text in quotes.", 'Write `abort("why")`.')
            return message if isinstance(message, Problem) else Abort(message=message)
    if word not in _BARE:
        hints = closest(word, [*_BARE, "retry", "ask", "fallback"]) or _FORMS
        return _wrong("E_FIELD_VALUE", f"`{_shown(word)}` is nothing to do on failure.", *hints)
    if inside is not None:
        return _wrong("E_FIELD_VALUE", f"`{word}` takes nothing in brackets.", f"Write `{word}`.")
    return _BARE[word]()


def _read_text(inside: str) -> str | Problem | None:
    """A text in quotes, as JSON spells it; None where it is something else."""
    try:
        text = json.loads(inside) if inside.lstrip().startswith('"') else None
    except ValueError:
        return None
    if text is None:
        return None
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
    for name in ("first", "increment", "longest"):
        if found[name] is None:
            continue
        delay_ms = read_duration(found[name])
        if delay_ms is None:
            return _wrong(
                "E_FIELD_VALUE", f"`{_shown(found[name])}` is not a duration.", "Write `250ms`, `30s` or `10m`."
            )
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
