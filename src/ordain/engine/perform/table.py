"""Performs actions: a function for each class that does something or looks at something outside of the run, the
tables of who does what, and the steps that wait."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from ordain.core.plan.action import (
    AcquireLock,
    Ask,
    CallTool,
    Custom,
    ReleaseLock,
    RunCommand,
    StoreData,
    Task,
    ValidateApproval,
    WaitFor,
    WaitForFile,
)
from ordain.core.plan.command import command_of, program_of, typed
from ordain.core.plan.condition import External
from ordain.core.plan.model import NestedPlan
from ordain.core.plan.refs import literal
from ordain.core.plan.tool import ToolDefinition, action_kind, definition_of
from ordain.core.plan.value import Instant, StepId
from ordain.core.run import wait
from ordain.core.run.result import Missing, Unfit
from ordain.core.run.step_event import Outcome, StepState
from ordain.core.text.problem import Refused
from ordain.core.text.secret import SecretMissing, with_secrets
from ordain.engine.begin import covers
from ordain.engine.context import RunContext
from ordain.engine.perform.effects import (
    Attempt,
    Performer,
    call_tool,
    call_within,
    cut_short,
    not_begun,
    run_command,
    time_for,
    value_outcome,
)
from ordain.ports.ledger import Append
from ordain.records.conflict import conflicts, is_conflict


async def _command(run: RunContext, action: RunCommand, attempt: Attempt) -> Outcome:
    return await run_command(run, attempt, action.command, variables=action.env)


async def _tool(run: RunContext, action: CallTool, attempt: Attempt) -> Outcome:
    """A command, a tool that is built in, or one of somebody else."""
    command, program = command_of(action), program_of(action)
    if command is not None:
        return await run_command(run, attempt, command.command, variables=command.env)
    if program is not None:
        argv = tuple(literal(list(program.argv)))
        return await run_command(run, attempt, typed(argv), argv=argv, variables=program.env)
    tool = definition_of(action, run.tools)
    if tool is not None and tool.schema is not None:
        return await _tool_of_others(run, action, attempt, tool)
    return await call_tool(run, attempt, action.tool, literal(action.args))


async def _tool_of_others(run: RunContext, action: CallTool, attempt: Attempt, tool: ToolDefinition) -> Outcome:
    written = run.state.step(attempt.step_id).action
    assert isinstance(written, CallTool)
    try:
        args = with_secrets(written.args, literal(action.args), run.secret)
    except SecretMissing as missing:
        return not_begun(run, str(missing))
    call = run.ports.sources.call(tool, args, run.results.key(attempt.step.id), run.secret)
    return await call_within(run, attempt.step, call, attempt.timeout_ms)


async def _data(run: RunContext, action: StoreData, attempt: Attempt) -> Outcome:
    """The value is the result of the step, which is how it is stored."""
    return value_outcome(run, attempt.step_id, literal(action.value))


async def _approval(run: RunContext, action: ValidateApproval, attempt: Attempt) -> Outcome:
    why = covers(run.opened.approval, action.scope)
    return not_begun(run, f"the approval {why}") if why is not None else Outcome(duration_ms=0)


async def _custom(run: RunContext, action: Custom, attempt: Attempt) -> Outcome:
    """A handler, which is a command or a Python callable, gets the payload."""
    handler, payload = definition_of(action, run.tools), literal(action.payload)
    if handler is not None and handler.command:
        stdin = json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")
        words = handler.command
        return await run_command(run, attempt, typed(words), argv=words, stdin=stdin, handler=True)
    if handler is None:
        return not_begun(run, "there is no handler for it here")
    call = run.ports.handlers.call(handler, payload, run.results.key(attempt.step.id))
    return await call_within(run, attempt.step, call, attempt.timeout_ms)


# --- What waits ------------------------------------------------------------------------------------------------------


class Look(NamedTuple):
    """What a look came to; without a stream to wait for, another follows after a while."""

    found: wait.Settled | None
    stream: str | None = None
    size: int = 0


Watcher = Callable[[RunContext, Any, StepId, Instant], Look]


def _wait(run: RunContext, action: WaitFor, step_id: StepId, now: Instant) -> Look:
    """The stream of the signal says whether it was given."""
    condition = action.condition
    if not isinstance(condition, External):  # refused before a run can start (core.lint.unsupported)
        detail = f"the wait condition {condition.__struct_config__.tag} is not carried out by this version"
        return Look(wait.badly(run.state, step_id, now, "F_STEP_FAILED", detail))
    signal = run.records.signal(condition.key)
    found = wait.at_signal(run.state, step_id, signal, now, action.timeout_ms)
    return Look(found, wait.stream_of_signal(condition.key), signal.size)


def _wait_for_file(run: RunContext, action: WaitForFile, step_id: StepId, now: Instant) -> Look:
    """Nobody tells when a file comes, so it is looked for again and again."""
    try:
        run.ports.workspace.beginning(action.path, 0, ())
    except Refused as refused:
        problem = refused.problems[0]
        if problem.code != "F_READ_MISSING":  # a link leads elsewhere: to wait would help nobody
            return Look(wait.badly(run.state, step_id, now, problem.code, problem.detail))
        return Look(wait.waits(run.state, step_id, now, f"the file `{action.path}`", action.timeout_ms))
    return Look(wait.well(run.state, step_id, now))


def _acquire_lock(run: RunContext, action: AcquireLock, step_id: StepId, now: Instant) -> Look:
    lock = run.records.lock(action.lock_name)
    return Look(wait.take_lock(run.state, step_id, lock, now, action.timeout_ms), wait.stream_of(lock.name), lock.size)


def _release_lock(run: RunContext, action: ReleaseLock, step_id: StepId, now: Instant) -> Look:
    lock = run.records.lock(action.lock_name)
    return Look(wait.release_lock(run.state, step_id, lock, now), wait.stream_of(lock.name), lock.size)


# --- Who does what ---------------------------------------------------------------------------------------------------

PERFORMERS: dict[type[Any], Performer] = {
    RunCommand: _command,
    CallTool: _tool,
    StoreData: _data,
    ValidateApproval: _approval,
    Custom: _custom,
}

WATCHERS: dict[type[Any], Watcher] = {
    WaitFor: _wait,
    WaitForFile: _wait_for_file,
    AcquireLock: _acquire_lock,
    ReleaseLock: _release_lock,
}
"""Of the actions that say of themselves that they wait for something outside (`About.waits`)."""

ELSEWHERE: dict[type[Any], str] = {
    Task: "ordain.engine.task",
    NestedPlan: "ordain.core.run.group",
    Ask: "ordain.core.lineage.ask",
}
"""Actions with machinery of their own: an agent, a plan that becomes steps, a person."""


async def perform_step(run: RunContext, step_id: StepId) -> Outcome:
    """Do what a step says, and return what was seen of it. References are put in right before the effect."""
    try:
        step = run.results.step(step_id)
    except Unfit as unfit:
        return not_begun(run, f"what it refers to does not fit: {unfit}", "F_REF_VALUE")
    except Missing as missing:
        return not_begun(run, f"what it refers to is not there: {missing}")
    attempt = Attempt(step_id, step, time_for(run, step_id))
    perform = PERFORMERS.get(type(step.action))
    if perform is None:
        # Refused before a run can start (core.lint.unsupported); said here too, so that nothing is half-done.
        return not_begun(run, f"{action_kind(step.action)} is not carried out by this version")
    return cut_short(run, step, attempt.timeout_ms, await perform(run, step.action, attempt))


POLL_MS = 200
"""How long after a look at what nobody tells the next one follows."""


class Waits:
    """The steps of one run that have come to something outside of it: a lock of another run, a signal. Only what is
    durable is decided from, and what follows is recorded in one append with it."""

    def __init__(self, run: RunContext) -> None:
        self._run, self._state, self._journal, self._ledger = run, run.state, run.journal, run.journal.ledger
        self._arrived: list[StepId] = []

    def arrives(self, step_id: StepId) -> None:
        """A step has come there, or should look again."""
        self._arrived.append(step_id)

    def next(self, *, stopping: bool) -> StepId | None:
        """The next step that is to look; one that waits does not where the executor stops."""
        while self._arrived:
            step_id = self._arrived.pop(0)
            state = self._state.steps[step_id].state
            if state is StepState.RUNNING or (state is StepState.WAITING and not stopping):
                return step_id
        return None

    async def look(self, step_id: StepId) -> None:
        """Record what a step finds. Everything before it must be durable."""
        overtaken = conflicts()
        while True:
            found, stream, size = self._look(step_id, self._journal.tick())
            if found is None:
                return
            if found.change is None or stream is None:
                self._journal.fold(found.event)
                return
            try:
                change = Append(stream=stream, expected=size, events=(found.change,))
                await self._journal.write_with(found.event, change)
                return
            except Refused as refused:
                # Another run was quicker; whatever else is wrong is not ours to try again.
                if not is_conflict(refused) or self._ledger.size(stream) == size:
                    raise
                next(overtaken)

    async def stand_by(self, step_id: StepId) -> None:
        """Wait until a step may find something else, or its time is over."""
        now = self._journal.now
        found, stream, size = self._look(step_id, now)
        until = self._state.steps[step_id].waits_until
        if found is not None or until is None:
            return
        if stream is None:
            await self._run.ports.clock.sleep_until(min(until, Instant(now + POLL_MS)))
            return
        change: asyncio.Task[Any] = asyncio.create_task(self._ledger.grown(stream, size))
        alarm: asyncio.Task[Any] = asyncio.create_task(self._run.ports.clock.sleep_until(until))
        try:
            await asyncio.wait((change, alarm), return_when=asyncio.FIRST_COMPLETED)
            if change.done():
                change.result()  # a ledger that cannot be read ends the loop
        finally:
            change.cancel()
            alarm.cancel()
            await asyncio.gather(change, alarm, return_exceptions=True)

    def _look(self, step_id: StepId, now: Instant) -> Look:
        action = self._state.step(step_id).action
        return WATCHERS[type(action)](self._run, action, step_id, now)
