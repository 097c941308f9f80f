"""Performing an effect: a command is run, a tool is called, and what was seen becomes an outcome. A failure is an
outcome too. The exact result is held until the outcome is recorded, and kept in the same append."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from msgspec.structs import replace

from ordain.core.plan.model import Step
from ordain.core.plan.refs import as_variable, literal
from ordain.core.plan.role import EffectClass
from ordain.core.plan.value import StepId
from ordain.core.policy.fact import Risk
from ordain.core.run.budget import time_left_ms
from ordain.core.run.result import Missing
from ordain.core.run.schedule import effect_class
from ordain.core.run.spending import read_usage, sound_usage
from ordain.core.run.step_event import GroupKind, Outcome
from ordain.core.text.limit import ENV_BYTES_MAX, OUTPUT_BYTES_MAX
from ordain.core.text.redaction import Hidden
from ordain.engine.context import RunContext
from ordain.engine.journal import Exact
from ordain.engine.verify import signal_name
from ordain.ports.process import Command, Finished, Whole
from ordain.ports.tool import Lost, ToolResult
from ordain.records.sink import in_parts


class Attempt(NamedTuple):
    """What a performer gets besides its action: the step as it is written, with all that it refers to put in."""

    step_id: StepId
    """What the run calls it."""
    step: Step
    timeout_ms: int


Performer = Callable[[RunContext, Any, Attempt], Awaitable[Outcome]]
"""Does what an action of its class says; a failure is an outcome."""

NAMED_MAX = 5
_JSON = json.JSONEncoder(ensure_ascii=False)
Spans = tuple[Hidden, ...]


def not_begun(run: RunContext, detail: str, error: str = "F_STEP_FAILED") -> Outcome:
    """The outcome of an attempt that did nothing, and why."""
    return Outcome(duration_ms=0, error=error, detail=run.sink.text(detail))


def timeout_of(run: RunContext, step: Step) -> int:
    """How many milliseconds an attempt of a step may take."""
    return step.timeout_ms or run.state.plan.timeout_ms or run.limits.step_timeout_ms


def time_for(run: RunContext, step_id: StepId) -> int:
    """The same of an attempt that begins now: no longer than its budget lasts."""
    timeout_ms = timeout_of(run, run.state.step(step_id))
    left_ms = time_left_ms(run.state, step_id, run.ports.clock.now())
    return timeout_ms if left_ms is None else min(timeout_ms, left_ms)


def cut_short(run: RunContext, step: Step, timeout_ms: int, outcome: Outcome) -> Outcome:
    """An outcome that says so where it was the budget, and not the step, that left no more time."""
    if outcome.error == "F_STEP_TIMEOUT" and timeout_ms < timeout_of(run, step):
        return replace(outcome, detail=f"{outcome.detail}, which was all that its budget had left")
    return outcome


# --- Commands ----------------------------------------------------------------------------------------------------


async def run_command(
    run: RunContext,
    attempt: Attempt,
    text: str,
    *,
    argv: tuple[str, ...] = (),
    variables: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    handler: bool = False,
) -> Outcome:
    """Run a command for a step: bash gets the text, or a program its words. Of a `handler` the output is a value."""
    step, shell = attempt.step, run.ports.shell
    given = {name: as_variable(value) for name, value in literal(dict(variables or {})).items()}
    for name, value in given.items():
        if "\0" in value:
            why = f"the value for the variable `{name}` holds a NUL, which no variable can"
            return not_begun(run, why, "F_REF_VALUE")
        if len(value.encode()) > ENV_BYTES_MAX:
            size = f"{len(value.encode()):,} bytes for the variable `{name}` are more than the {ENV_BYTES_MAX:,}"
            return not_begun(run, f"{size} that a variable can hold; hand it over in a file", "F_REF_VALUE")
    names = {"ORDAIN_RUN": run.state.run_id, "ORDAIN_STEP": step.id, "ORDAIN_STEP_KEY": run.results.key(step.id)}
    safe = {"PYTHONSAFEPATH": "1"} if handler else {}
    command = Command(
        text=text,
        argv=argv,
        apart=handler,
        found_outside=handler,
        env=shell.environment(run.limits.env) | given | names | safe,
        timeout_ms=attempt.timeout_ms,
        mark=run.mark(step.id),
        whole=True,
        reports=True,
        # What others refer to is what it gives, not what it says on the side.
        errors_apart=handler or run.state.written_name(step.id) in run.results.referred,
        stdin=stdin,
        writes=() if not given and not handler and only_reads(run, text) else step.writes or None,
        network=step.network is True,
    )
    finished = await shell.run(command)
    hidden = await _find_hidden(run, finished.whole)
    error, detail = how_it_ended(finished, attempt.timeout_ms)
    used, wrong = read_usage(finished.reported)
    outcome = make_outcome(
        run,
        attempt.step_id,
        finished.duration_ms,
        error,
        with_unread(detail, wrong),
        finished.output,
        finished.output_bytes,
        finished.whole,
        beside=finished.errors,
        exit_code=finished.exit_code,
        leftovers=finished.leftovers,
        output_json=handler and error is None and finished.whole is None and is_structure(finished.output),
        hidden=hidden,
    )
    return replace(outcome, used=used) if used is not None else outcome


def how_it_ended(finished: Finished, timeout_ms: int) -> tuple[str | None, str]:
    """What went wrong with a process, as a code and in words; neither where it ended well."""
    if finished.control:
        return "F_CONTROL_FILE", f"touched control files, which no step may: {'; '.join(finished.control)}"
    if finished.timed_out:
        detail = f"did not end within {timeout_ms / 1000:g} s"
        if finished.still_there is not None:
            detail += f", and could not be ended: {finished.still_there}"
        return "F_STEP_TIMEOUT", detail
    if finished.fault is not None:
        return "F_STEP_FAILED", f"could not be started: {finished.fault}"
    if finished.signal is not None:
        return "F_STEP_FAILED", f"killed by {signal_name(finished.signal)}"
    if finished.exit_code != 0:
        return "F_STEP_FAILED", f"exit status {finished.exit_code}"
    return None, ""


def with_unread(detail: str, wrong: int) -> str:
    """What is said of an end, with how many lines of what was used nobody could read: budgets count them as nothing."""
    if not wrong:
        return detail
    unread = f"{wrong} line{'s' * (wrong != 1)} of what it says it used could not be understood"
    return f"{detail}; {unread}" if detail else unread


def is_structure(data: bytes) -> bool:
    """Whether this is the JSON of an object or a list."""
    try:
        return isinstance(json.loads(data), dict | list)
    except (ValueError, RecursionError):
        return False


# --- Tools -------------------------------------------------------------------------------------------------------


async def call_tool(run: RunContext, attempt: Attempt, name: str, args: Mapping[str, Any]) -> Outcome:
    """Call a built-in tool for a step, with its key, the control files of the settings and the time that is left."""
    key, control = run.results.key(attempt.step.id), run.limits.sandbox.control
    call = run.ports.toolbox.call(name, args, key, control=control, secret_files=run.settings.secret_files)
    return await call_within(run, attempt.step, call, attempt.timeout_ms)


async def call_within(run: RunContext, step: Step, call: Coroutine[Any, Any, ToolResult], timeout_ms: int) -> Outcome:
    """What was seen of a call, which may take so long."""
    clock, started = run.ports.clock, run.ports.clock.now()
    try:
        result = await run.deadlines.within(timeout_ms / 1000, call)
    except TimeoutError:
        result = ToolResult(error="F_STEP_TIMEOUT", detail=f"did not end within {timeout_ms / 1000:g} s")
    except Exception as error:
        # A bug in a tool, or nobody is left to answer. Where it does no harm to call it again, the step fails;
        # else it is in doubt.
        if effect_class(step, run.tools) not in (EffectClass.READS, EffectClass.REPEATABLE):
            raise
        why = str(error) if isinstance(error, Lost) else f"the tool broke: {error!r}"
        result = ToolResult(error="F_STEP_FAILED", detail=why)
    duration_ms = clock.now() - started
    hidden, used = await _find_hidden(run, result.whole), sound_usage(result.used)
    if result.output is not None:
        data, size = result.output[-OUTPUT_BYTES_MAX:], max(result.output_bytes, len(result.output))
        outcome = make_outcome(
            run, step.id, duration_ms, result.error, result.detail, data, size, result.whole, hidden=hidden
        )
    elif result.error is not None or result.value is None:
        outcome = make_outcome(run, step.id, duration_ms, result.error, result.detail, b"", 0, None)
    else:
        outcome = value_outcome(run, step.id, result.value, duration_ms)
    return replace(outcome, used=used) if used is not None else outcome


# --- What was seen -----------------------------------------------------------------------------------------------


def only_reads(run: RunContext, text: str) -> bool:
    """Whether a command only reads by a strict reading: at tier 1 it is held to that."""
    understand = run.settings.understand if run.limits.tier else None
    return understand is not None and understand(text).risk is Risk.READS


async def _find_hidden(run: RunContext, whole: Whole | None) -> Spans | None:
    """Where secrets are in a long output, looked for in a thread: that takes seconds."""
    if whole is None or whole.parts is None:
        return None
    return await asyncio.to_thread(run.sink.hidden, whole.parts(), whole=True)


def value_outcome(run: RunContext, step_id: StepId, value: object, duration_ms: int = 0) -> Outcome:
    """The outcome of what went well and gave a value."""
    is_json = not isinstance(value, str)
    data = (_JSON.encode(value) if is_json else str(value)).encode("utf-8", "replace")
    end, whole = data[-OUTPUT_BYTES_MAX:], in_parts(data)
    return make_outcome(run, step_id, duration_ms, None, "", end, len(data), whole, output_json=is_json)


def make_outcome(
    run: RunContext,
    step_id: StepId,
    duration_ms: int,
    error: str | None,
    detail: str,
    data: bytes,
    size: int,
    whole: Whole | None,
    *,
    beside: bytes = b"",
    exit_code: int | None = None,
    leftovers: int = 0,
    output_json: bool = False,
    hidden: Spans | None = None,
) -> Outcome:
    """What was seen, as it may be recorded; the exact result is held. What came `beside` it is shown with its end."""
    sink = run.sink
    held: Exact = data
    if whole is None and not size:
        output, hidden = sink.output(b""), ()
    elif whole is None:
        output, hidden = sink.output(data, size), sink.hidden((data,), whole=size == len(data))
    elif whole.parts is not None and run.journal.has_room(whole.size):
        output, held = sink.artifact(data, whole)
        hidden = sink.hidden(whole.parts(), whole=True) if hidden is None else hidden
    else:
        output, hidden = sink.long(data, whole), sink.hidden((data,), whole=False)
    if data:
        run.journal.hold(step_id, held)
    return Outcome(
        duration_ms=duration_ms,
        error=error,
        detail=sink.text(detail),
        output_tail=sink.output(data + beside).tail if beside else output.tail,
        output_bytes=output.size,
        output_seal=output.seal,
        whole_seal=output.whole_seal,
        hidden=hidden,
        exit_code=exit_code,
        leftovers=leftovers,
        output_json=output_json,
    )


def gathered(run: RunContext, step_id: StepId) -> Outcome:
    """The outcome of a step that was repeated (a list, with nothing for what was skipped) or that holds a plan."""
    state, now = run.state, run.journal.now
    group = state.groups[step_id]
    duration_ms = max(now - (state.steps[step_id].started_at or now), 0)
    failed = [name for name in group.members if not state.steps[name].satisfies]
    if failed:
        what = "items" if group.kind is GroupKind.ITEMS else "steps"
        ends = ((name, state.steps[name]) for name in failed[:NAMED_MAX])
        named = ", ".join(f"{name} ({'denied' if one.denied else one.state.value})" for name, one in ends)
        more = f" and {len(failed) - NAMED_MAX} more" if len(failed) > NAMED_MAX else ""
        detail = f"{len(failed)} of its {len(group.members)} {what} did not pass: {named}{more}"
        return Outcome(duration_ms=duration_ms, error="F_STEP_FAILED", detail=detail)
    gave: dict[StepId, Any] = dict.fromkeys(group.members)
    for name in gave:
        with suppress(Missing):
            gave[name] = run.results.output(name)
    nested = group.kind is GroupKind.NESTED
    value = {state.members[name].name: one for name, one in gave.items()} if nested else list(gave.values())
    return value_outcome(run, step_id, value, duration_ms)
