"""Performing an effect: a command is run, a tool is called, and what was seen becomes an outcome.

References are put in here, right before the effect, from what is recorded. Nothing is decided: a failure is an outcome.
The exact result is held until the outcome is recorded, and kept in the same append.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from msgspec.structs import replace

from ordain.core.approval.approval import Approval
from ordain.core.plan.model import NestedPlan, Plan, Step, all_steps
from ordain.core.plan.refs import as_variable, literal
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import ToolDefinition, action_kind
from ordain.core.plan.value import StepId
from ordain.core.run.budget import time_left_ms
from ordain.core.run.result import Missing, Unfit, referred_to
from ordain.core.run.run_state import RunState
from ordain.core.run.schedule import effect_class
from ordain.core.run.spending import read_usage, sound_usage
from ordain.core.run.step_event import Outcome
from ordain.core.text.limit import ENV_BYTES_MAX, OUTPUT_BYTES_MAX
from ordain.core.text.redaction import Hidden
from ordain.core.text.secret import Secret
from ordain.engine.perform.deadline import Deadlines
from ordain.engine.result import Results
from ordain.engine.verify import signal_name
from ordain.ports.ledger import Artifact, Ledger
from ordain.ports.machine import Clock
from ordain.ports.process import Command, Finished, Shell, Whole
from ordain.ports.tool import Handlers, Lost, Sources, Toolbox, ToolResult
from ordain.records.sink import Sink, in_parts


class Attempt(NamedTuple):
    """What a performer gets besides its action: the step as it is written, with all that it refers to put in."""

    step_id: StepId
    """What the run calls it."""
    step: Step
    timeout_ms: int


Performer = Callable[["Performing", Any, Attempt], Awaitable[Outcome]]
"""Does what an action of its class says; a failure is an outcome."""

_JSON = json.JSONEncoder(ensure_ascii=False)
Spans = tuple[Hidden, ...]


class Performing:
    """The effects of one run."""

    def __init__(
        self,
        state: RunState,
        *,
        results: Results,
        shell: Shell,
        toolbox: Toolbox,
        handlers: Handlers | None,
        sources: Sources | None,
        secret: Secret,
        tools: Mapping[str, ToolDefinition],
        clock: Clock,
        sink: Sink,
        ledger: Ledger,
        key: Callable[[StepId], str],
        mark: Callable[[StepId], str],
        unwritten: Sequence[Artifact],
        approval: Approval | None,
        performers: Mapping[type[Any], Performer],
    ) -> None:
        """`unwritten` are the artifacts that are to be recorded and still need room; `approval` is what the run was
        started on."""
        self.approval, self._performers = approval, performers
        self.state, self._results = state, results
        self._shell, self.toolbox, self._clock, self._sink, self._ledger = shell, toolbox, clock, sink, ledger
        self.key, self._mark, self._unwritten = key, mark, unwritten
        self.handlers, self.tools = handlers, tools
        self.sources, self.secret = sources, secret
        self._deadlines = Deadlines()
        self.exact: dict[StepId, bytes | Artifact] = {}
        """The results of attempts that are not yet recorded as ended."""

    def close(self) -> None:
        self._deadlines.close()

    async def effect(self, step_id: StepId) -> Outcome:
        """Do what a step is to do, and tell what was seen of it."""
        try:
            step = self._results.step(step_id)
        except Unfit as unfit:
            return self.not_begun(f"what it refers to does not fit: {unfit}", "F_REF_VALUE")
        except Missing as missing:
            return self.not_begun(f"what it refers to is not there: {missing}")
        attempt = Attempt(step_id, step, self.time_for(step_id))
        perform = self._performers.get(type(step.action))
        if perform is None:
            # Refused before a run can start (core.lint.unsupported); said here too, so that nothing is half-done.
            return self.not_begun(f"{action_kind(step.action)} is not carried out by this version")
        return self.cut_short(step, attempt.timeout_ms, await perform(self, step.action, attempt))

    def time_for(self, step_id: StepId) -> int:
        """How long an attempt of a step may take that begins now: no longer than its budget lasts."""
        timeout_ms = self.timeout_ms(self.state.step(step_id))
        left_ms = time_left_ms(self.state, step_id, self._clock.now())
        return timeout_ms if left_ms is None else min(timeout_ms, left_ms)

    def cut_short(self, step: Step, timeout_ms: int, outcome: Outcome) -> Outcome:
        """An outcome that says so where it was the budget, and not the step, that left no more time."""
        if outcome.error == "F_STEP_TIMEOUT" and timeout_ms < self.timeout_ms(step):
            return replace(outcome, detail=f"{outcome.detail}, which was all that its budget had left")
        return outcome

    def timeout_ms(self, step: Step) -> int:
        """How long an attempt of a step may take."""
        return step.timeout_ms or self.state.plan.timeout_ms or self.state.limits_in_force.step_timeout_ms

    def not_begun(self, detail: str, error: str = "F_STEP_FAILED") -> Outcome:
        """The outcome of an attempt that did nothing, and why."""
        return Outcome(duration_ms=0, error=error, detail=self._sink.text(detail))

    # --- Commands ------------------------------------------------------------------------------------------------

    async def shell(
        self,
        attempt: Attempt,
        text: str,
        *,
        argv: tuple[str, ...] = (),
        variables: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        handler: bool = False,
    ) -> Outcome:
        """Run a command for a step: bash gets the text, or a program its words. Of a `handler` the output is a value,
        and the program is found where the step can put none."""
        step = attempt.step
        given = {name: as_variable(value) for name, value in literal(dict(variables or {})).items()}
        for name, value in given.items():
            if "\0" in value:
                why = f"the value for the variable `{name}` holds a NUL, which no variable can"
                return self.not_begun(why, "F_REF_VALUE")
            if len(value.encode()) > ENV_BYTES_MAX:
                size = f"{len(value.encode()):,} bytes for the variable `{name}` are more than the {ENV_BYTES_MAX:,}"
                return self.not_begun(f"{size} that a variable can hold; hand it over in a file", "F_REF_VALUE")
        names = {"ORDAIN_RUN": self.state.run_id, "ORDAIN_STEP": step.id, "ORDAIN_STEP_KEY": self.key(step.id)}
        safe = {"PYTHONSAFEPATH": "1"} if handler else {}
        command = Command(
            text=text,
            argv=argv,
            apart=handler,
            found_outside=handler,
            env=self._shell.environment(self.state.limits_in_force.env) | given | names | safe,
            timeout_ms=attempt.timeout_ms,
            mark=self._mark(step.id),
            whole=True,
            reports=True,
            # What others refer to is what it gives, not what it says on the side.
            errors_apart=handler or self.state.written_name(step.id) in self._referred,
            stdin=stdin,
            writes=step.writes or None,
            network=step.network is True,
        )
        finished = await self._shell.run(command)
        hidden = await self._find_hidden(finished.whole)
        return self._finished(attempt.step_id, finished, attempt.timeout_ms, as_value=handler, hidden=hidden)

    @cached_property
    def _referred(self) -> frozenset[str]:
        """The names of steps whose results others refer to, in whichever plan."""
        plans: list[Plan] = [self.state.plan]
        plans += [step.action.plan for step in all_steps(self.state.plan) if isinstance(step.action, NestedPlan)]
        return frozenset().union(*(referred_to(plan) for plan in plans))

    def _finished(
        self, step_id: StepId, finished: Finished, timeout_ms: int, *, as_value: bool, hidden: Spans | None
    ) -> Outcome:
        """What was seen of a command; its output is a value, and not text, where it is to be one and is JSON."""
        error, detail = how_it_ended(finished, timeout_ms)
        used, wrong = read_usage(finished.reported)
        detail = with_unread(detail, wrong)
        outcome = self.outcome(
            step_id,
            finished.duration_ms,
            error,
            detail,
            finished.output,
            finished.output_bytes,
            finished.whole,
            beside=finished.errors,
            exit_code=finished.exit_code,
            leftovers=finished.leftovers,
            output_json=as_value and error is None and finished.whole is None and is_structure(finished.output),
            hidden=hidden,
        )
        return replace(outcome, used=used) if used is not None else outcome

    async def called(self, step_id: StepId, call: Coroutine[Any, Any, ToolResult], timeout_ms: int) -> Outcome:
        """What was seen of a call that does a step's work."""
        return await self.call(self.state.step(step_id), call, timeout_ms)

    # --- Tools ---------------------------------------------------------------------------------------------------

    async def call(self, step: Step, call: Coroutine[Any, Any, ToolResult], timeout_ms: int) -> Outcome:
        """What was seen of a call, which may take so long."""
        started = self._clock.now()
        try:
            result = await self._deadlines.within(timeout_ms / 1000, call)
        except TimeoutError:
            result = ToolResult(error="F_STEP_TIMEOUT", detail=f"did not end within {timeout_ms / 1000:g} s")
        except Exception as error:
            # A bug in a tool, or nobody is left to answer. Where it does no harm to call it again, the step fails;
            # else it is in doubt.
            if effect_class(step, self.tools) not in (EffectClass.READS, EffectClass.REPEATABLE):
                raise
            why = str(error) if isinstance(error, Lost) else f"the tool broke: {error!r}"
            result = ToolResult(error="F_STEP_FAILED", detail=why)
        duration_ms = self._clock.now() - started
        outcome = self._given_back(step.id, result, duration_ms, await self._find_hidden(result.whole))
        used = sound_usage(result.used)
        return replace(outcome, used=used) if used is not None else outcome

    def _given_back(self, step_id: StepId, result: ToolResult, duration_ms: int, hidden: Spans | None) -> Outcome:
        error, detail = result.error, result.detail
        if result.output is not None:
            data, size = result.output[-OUTPUT_BYTES_MAX:], max(result.output_bytes, len(result.output))
            return self.outcome(step_id, duration_ms, error, detail, data, size, result.whole, hidden=hidden)
        if error is not None or result.value is None:
            return self.outcome(step_id, duration_ms, error, detail, b"", 0, None)
        return self.value(step_id, result.value, duration_ms)

    # --- What was seen -------------------------------------------------------------------------------------------

    async def _find_hidden(self, whole: Whole | None) -> Spans | None:
        """Where secrets are in a long output. That takes seconds, so other steps go on meanwhile."""
        if whole is None or whole.parts is None:
            return None
        return await asyncio.to_thread(self._sink.hidden, whole.parts(), whole=True)

    def value(self, step_id: StepId, value: object, duration_ms: int = 0) -> Outcome:
        """The outcome of what went well and gave a value."""
        is_text = isinstance(value, str)
        data = (value if isinstance(value, str) else _JSON.encode(value)).encode("utf-8", "replace")
        end, whole = data[-OUTPUT_BYTES_MAX:], in_parts(data)
        return self.outcome(step_id, duration_ms, None, "", end, len(data), whole, output_json=not is_text)

    def outcome(
        self,
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
        """What was seen, as it may be recorded; the exact result is held for that. What came `beside` it is shown with
        its end and not part of it. `hidden` is where secrets are in the whole, where that was looked for before."""
        exact: bytes | Artifact = data
        if whole is None:
            output, hidden = self._sink.output(data, size), self._sink.hidden((data,), whole=size == len(data))
        elif whole.parts is not None and self._has_room(whole.size):
            output, exact = self._sink.artifact(data, whole)
            hidden = self._sink.hidden(whole.parts(), whole=True) if hidden is None else hidden
        else:
            output, hidden = self._sink.long(data, whole), self._sink.hidden((data,), whole=False)
        if data:
            self.exact[step_id] = exact
        return Outcome(
            duration_ms=duration_ms,
            error=error,
            detail=self._sink.text(detail),
            output_tail=self._sink.output(data + beside).tail if beside else output.tail,
            output_bytes=output.size,
            output_seal=output.seal,
            whole_seal=output.whole_seal,
            hidden=hidden,
            exit_code=exit_code,
            leftovers=leftovers,
            output_json=output_json,
        )

    def _has_room(self, size: int) -> bool:
        """Whether an artifact can be kept besides those that are to be and are not yet written."""
        held = [*self._unwritten, *self.exact.values()]
        return self._ledger.has_room(size + sum(one.size for one in held if isinstance(one, Artifact)))


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
