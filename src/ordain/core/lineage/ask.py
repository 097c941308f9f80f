"""Steps that only a person can do: until when they wait, and what counts as an answer. Nothing else ends them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec

from ordain.core.plan.action import Ask
from ordain.core.plan.value import Instant, StepId
from ordain.core.run.run_state import RunState
from ordain.core.run.step_event import AttemptEnded, AttemptWaiting, Outcome
from ordain.core.run.wait import ended_outside
from ordain.core.text.limit import OUTPUT_BYTES_MAX, number_fault
from ordain.core.text.problem import closest, refuse
from ordain.core.text.schema import Matches, misfits

SAID_MAX = 4000
"""How many characters somebody may say with an answer."""


def waiting_for(state: RunState, step_id: StepId) -> AttemptWaiting:
    """The event for a step that has come to what a person is to answer or to do. Only a timeout of its own ends it."""
    step, record = state.step(step_id), state.steps[step_id]
    until = Instant((record.started_at or 0) + step.timeout_ms) if step.timeout_ms is not None else None
    persons = f"a person to do it, as `{record.agent}`"
    reason = f"an answer to: {step.action.question}" if isinstance(step.action, Ask) else persons
    return AttemptWaiting(step=step_id, attempt=record.attempts, reason=reason, until=until)


def given_up(state: RunState, step_id: StepId, now: Instant) -> AttemptEnded:
    detail = f"waited in vain for {state.steps[step_id].waits_for}"
    return ended_outside(state, step_id, now, Outcome(duration_ms=0, error="F_STEP_TIMEOUT", detail=detail))


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """A person's answer: a word or text as they typed it, or a JSON value; and what they say with it."""

    word: str = ""
    value: Any = msgspec.UNSET
    said: str = ""

    @property
    def typed(self) -> str:
        """The answer as it stands in a command."""
        value = f"--value {_spelt(self.value)}" if self.value is not msgspec.UNSET else ""
        return f"{self.word} {value}".strip()


def answer_value(action: Ask, given: Given, matches: Matches) -> Any:
    """The value that answers the question; raises Refused where it is none. `matches` looks at patterns of a schema."""
    is_text = given.value is msgspec.UNSET
    value = given.word if is_text else given.value
    if action.choices:
        return _choice(action, value)
    if not action.schema:
        if not isinstance(value, str):
            raise _refused("This asks for a text, and what was given is another value.", "Give it as plain words.")
        return _sized(value)
    if is_text:
        value = _typed(action, given.word, matches)
    if wrong := [*_unkept(value)] or [*misfits(action.schema, value, matches)]:
        said = "; ".join(wrong[:5])
        raise _refused(f"The answer does not fit: {said}.", f"It should fit: {_spelt(action.schema)}")
    return _sized(value)


def task_value(given: Given) -> Any:
    """What a person gives with the word that their task is done, if anything; raises Refused where it cannot be."""
    if given.value is msgspec.UNSET:
        return _sized(given.said) if given.said else msgspec.UNSET
    if given.said:
        raise _refused("A task gives one result, and this says two.", "Give it with -m as a text, or with --value.")
    if wrong := [*_unkept(given.value)]:
        raise _refused(f"The value cannot be kept: {'; '.join(wrong[:5])}.")
    return _sized(given.value)


def refuse_said(said: str) -> None:
    """Raise Refused where somebody says more with an answer than can stand beside it."""
    if len(said) > SAID_MAX:
        raise _refused(f"{len(said):,} characters are more than the {SAID_MAX:,} that can be said with an answer.")


def _choice(action: Ask, value: Any) -> str:
    if isinstance(value, str) and value in action.choices:
        return value
    detail = f"`{_spelt(value)}` is not one of the choices."
    named = "Choose one of " + ", ".join(f"`{name}`" for name in action.choices) + "."
    raise refuse("E_ANSWER_CHOICE", detail, *(closest(value, action.choices) if isinstance(value, str) else ()), named)


def _typed(action: Ask, word: str, matches: Matches) -> Any:
    """What somebody means who typed this where a value is wanted: JSON, or plain words where a text fits."""
    try:
        value = json.loads(word, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        if (wrong := next(misfits(action.schema, word, matches), None)) is not None:
            raise _refused(f"`{word[:200]}` is not JSON, and as a text it does not fit: {wrong}.") from None
        return word
    # A version such as 1.40 is a number to JSON and a text to whoever asked for one.
    fits = not any(misfits(action.schema, value, matches))
    return value if fits or any(misfits(action.schema, word, matches)) else word


def _unkept(value: Any) -> Iterator[str]:
    """What keeps a value from being the same wherever it is read."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if (fault := number_fault(value)) is not None:
            yield fault[1].rstrip(".")
    elif isinstance(value, list | tuple | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _unkept(one)


def _sized(value: Any) -> Any:
    try:
        size = len(_spelt(value).encode())
    except UnicodeEncodeError:
        raise _refused("The answer holds what is not UTF-8.") from None
    if size > OUTPUT_BYTES_MAX:
        raise _refused(f"The answer has {size:,} bytes; {OUTPUT_BYTES_MAX:,} is the most that an answer may have.")
    return value


def answer_bytes(value: Any) -> bytes:
    """The result of a step that was answered so: a text as it is, any other value as JSON."""
    return _spelt(value).encode("utf-8", "replace")


def _spelt(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(msgspec.to_builtins(value), ensure_ascii=False)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_refused = partial(refuse, "E_ANSWER_VALUE")
