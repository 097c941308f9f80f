"""Performing an effect: a command is run, a tool is called, and what was seen becomes an outcome.

References are put in here, right before the effect, from what is recorded. Nothing is decided: a failure is an outcome.
The exact result is held until the outcome is recorded, and kept in the same append.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from ordain.conditions import covers
from ordain.core.action import CallTool, Custom, StoreData, ValidateApproval
from ordain.core.approval import Approval
from ordain.core.bound import ENV_BYTES_MAX, OUTPUT_BYTES_MAX
from ordain.core.budget import time_left_ms
from ordain.core.command import command_of, program_of, typed
from ordain.core.event import Outcome
from ordain.core.fit import Unfit
from ordain.core.model import NestedPlan, Plan, Step, all_steps
from ordain.core.refs import literal
from ordain.core.resolve import as_variable
from ordain.core.result import Missing, referred_to
from ordain.core.run_state import RunState
from ordain.core.schedule import effect_class
from ordain.core.secret_reference import Secret, SecretMissing, with_secrets
from ordain.core.spending import read_usage, sound_usage
from ordain.core.tool import EffectClass, ToolDefinition, action_kind, definition_of
from ordain.core.value import StepId
from ordain.deadline import Deadlines
from ordain.ports import (
    Artifact,
    Clock,
    Command,
    Finished,
    Handlers,
    Ledger,
    Lost,
    Shell,
    Sources,
    Toolbox,
    ToolResult,
    Whole,
)
from ordain.results import Results
from ordain.sink import Sink, in_parts
from ordain.verify import signal_name

__all__ = ["Performing", "how_it_ended", "is_structure", "with_unread"]

_JSON = json.JSONEncoder(ensure_ascii=False)


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
    ) -> None:
        """`unwritten` are the artifacts that are to be recorded and still need room; `approval` is what the run was
        started on."""
        self._approval = approval
        self._state, self._results = state, results
        self._shell, self._toolbox, self._clock, self._sink, self._ledger = shell, toolbox, clock, sink, ledger
        self._key, self._mark, self._unwritten = key, mark, unwritten
        self._handlers, self._tools = handlers, tools
        self._sources, self._secret = sources, secret
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
            return self._not_begun(f"what it refers to does not fit: {unfit}", "F_REF_VALUE")
        except Missing as missing:
            return self._not_begun(f"what it refers to is not there: {missing}")
        timeout_ms = self.time_for(step_id)
        return self.cut_short(step, timeout_ms, await self._effect(step_id, step, timeout_ms))

    async def _effect(self, step_id: StepId, step: Step, timeout_ms: int) -> Outcome:
        command = self._command(step, timeout_ms)
        if isinstance(command, Outcome):
            return command
        if command is not None:
            as_value = isinstance(step.action, Custom)
            return self._finished(step_id, await self._shell.run(command), timeout_ms, as_value=as_value)
        tool = definition_of(step.action, self._tools)
        if tool is not None and tool.schema is not None:
            return await self._call_of_others(step_id, step, tool, timeout_ms)
        match step.action:
            case CallTool(tool=name, args=args):
                call = self._toolbox.call(name, literal(args), self._key(step.id))
                return await self._call(step, call, timeout_ms)
            case Custom(payload=payload):
                if tool is None or self._handlers is None:
                    return self._not_begun("there is no handler for it here")
                call = self._handlers.call(tool, literal(payload), self._key(step.id))
                return await self._call(step, call, timeout_ms)
            case StoreData(value=value):
                return self.value(step_id, literal(value))
            case ValidateApproval(scope=scope):
                why = covers(self._approval, scope)
                return self._not_begun(f"the approval {why}") if why is not None else Outcome(duration_ms=0)
            case action:
                # Refused before a run can start (core.lint.later); said here too, so that nothing is ever half-done.
                return self._not_begun(f"{action_kind(action)} is not carried out by this version")

    def time_for(self, step_id: StepId) -> int:
        """How long an attempt of a step may take that begins now: no longer than its budget lasts."""
        timeout_ms = self.timeout_ms(self._state.step(step_id))
        left_ms = time_left_ms(self._state, step_id, self._clock.now())
        return timeout_ms if left_ms is None else min(timeout_ms, left_ms)

    def cut_short(self, step: Step, timeout_ms: int, outcome: Outcome) -> Outcome:
        """An outcome that says so where it was the budget, and not the step, that left no more time."""
        if outcome.error == "F_STEP_TIMEOUT" and timeout_ms < self.timeout_ms(step):
            return replace(outcome, detail=f"{outcome.detail}, which was all that its budget had left")
        return outcome

    def timeout_ms(self, step: Step) -> int:
        """How long an attempt of a step may take."""
        return step.timeout_ms or self._state.plan.timeout_ms or self._state.limits_in_force.step_timeout_ms

    def _not_begun(self, detail: str, error: str = "F_STEP_FAILED") -> Outcome:
        return Outcome(duration_ms=0, error=error, detail=self._sink.text(detail))

    # --- Commands ------------------------------------------------------------------------------------------------

    def _command(self, step: Step, timeout_ms: int) -> Command | Outcome | None:
        """What the shell runs for a step; None where its action is no command, an outcome where it cannot be run."""
        argv: tuple[str, ...] = ()
        stdin = b""
        command, program = command_of(step.action), program_of(step.action)
        handler = definition_of(step.action, self._tools) if isinstance(step.action, Custom) else None
        if command is not None:
            text, variables = command.command, command.env
        elif program is not None:
            argv = tuple(literal(list(program.argv)))
            text, variables = typed(argv), program.env
        elif isinstance(step.action, Custom) and handler is not None and handler.command:
            argv, variables = handler.command, {}
            text, stdin = typed(argv), _JSON.encode(literal(step.action.payload)).encode("utf-8", "replace")
        else:
            return None
        given = {name: as_variable(value) for name, value in literal(dict(variables)).items()}
        for name, value in given.items():
            if "\0" in value:
                why = f"the value for the variable `{name}` holds a NUL, which no variable can"
                return self._not_begun(why, "F_REF_VALUE")
            if len(value.encode()) > ENV_BYTES_MAX:
                size = f"{len(value.encode()):,} bytes for the variable `{name}` are more than the {ENV_BYTES_MAX:,}"
                return self._not_begun(f"{size} that a variable can hold; hand it over in a file", "F_REF_VALUE")
        names = {"ORDAIN_RUN": self._state.run_id, "ORDAIN_STEP": step.id, "ORDAIN_STEP_KEY": self._key(step.id)}
        return Command(
            text=text,
            argv=argv,
            env=self._shell.environment(self._state.limits_in_force.env) | given | names,
            timeout_ms=timeout_ms,
            mark=self._mark(step.id),
            whole=True,
            reports=True,
            # What others refer to is what it gives, not what it says on the side.
            errors_apart=handler is not None or self._state.written_name(step.id) in self._referred,
            stdin=stdin,
            writes=step.writes or None,
            network=step.network is True,
        )

    @cached_property
    def _referred(self) -> frozenset[str]:
        """The names of steps whose results others refer to, in whichever plan."""
        plans: list[Plan] = [self._state.plan]
        plans += [step.action.plan for step in all_steps(self._state.plan) if isinstance(step.action, NestedPlan)]
        return frozenset().union(*(referred_to(plan) for plan in plans))

    def _finished(self, step_id: StepId, finished: Finished, timeout_ms: int, *, as_value: bool) -> Outcome:
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
        )
        return replace(outcome, used=used) if used is not None else outcome

    async def called(self, step_id: StepId, call: Coroutine[Any, Any, ToolResult], timeout_ms: int) -> Outcome:
        """What was seen of a call that does a step's work."""
        return await self._call(self._state.step(step_id), call, timeout_ms)

    # --- Tools ---------------------------------------------------------------------------------------------------

    async def _call(self, step: Step, call: Coroutine[Any, Any, ToolResult], timeout_ms: int) -> Outcome:
        started = self._clock.now()
        try:
            result = await self._deadlines.within(timeout_ms / 1000, call)
        except TimeoutError:
            result = ToolResult(error="F_STEP_TIMEOUT", detail=f"did not end within {timeout_ms / 1000:g} s")
        except Exception as error:
            # A bug in a tool, or nobody is left to answer. Where it does no harm to call it again, the step fails;
            # else it is in doubt.
            if effect_class(step, self._tools) not in (EffectClass.READS, EffectClass.REPEATABLE):
                raise
            why = str(error) if isinstance(error, Lost) else f"the tool broke: {error!r}"
            result = ToolResult(error="F_STEP_FAILED", detail=why)
        outcome = self._given_back(step.id, result, self._clock.now() - started)
        used = sound_usage(result.used)
        return replace(outcome, used=used) if used is not None else outcome

    async def _call_of_others(self, step_id: StepId, step: Step, tool: ToolDefinition, timeout_ms: int) -> Outcome:
        written = self._state.step(step_id).action
        assert isinstance(step.action, CallTool) and isinstance(written, CallTool)
        if self._sources is None:
            return self._not_begun("there is no such tool here")
        try:
            args = with_secrets(written.args, literal(step.action.args), self._secret)
        except SecretMissing as missing:
            return self._not_begun(str(missing))
        return await self._call(step, self._sources.call(tool, args, self._key(step.id), self._secret), timeout_ms)

    def _given_back(self, step_id: StepId, result: ToolResult, duration_ms: int) -> Outcome:
        if result.output is not None:
            data, size = result.output[-OUTPUT_BYTES_MAX:], max(result.output_bytes, len(result.output))
            return self.outcome(step_id, duration_ms, result.error, result.detail, data, size, result.whole)
        if result.error is not None or result.value is None:
            return self.outcome(step_id, duration_ms, result.error, result.detail, b"", 0, None)
        return self.value(step_id, result.value, duration_ms)

    # --- What was seen -------------------------------------------------------------------------------------------

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
    ) -> Outcome:
        """What was seen, as it may be recorded; the exact result is held for that. What came `beside` it is shown with
        its end and not part of it."""
        exact: bytes | Artifact = data
        if whole is None:
            output = self._sink.output(data, size)
        elif whole.parts is not None and self._has_room(whole.size):
            output, exact = self._sink.artifact(data, whole)
        else:
            output = self._sink.long(data, whole)
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
