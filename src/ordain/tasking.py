"""Performing a task: a work item is made of it, claimed, and handed to a fresh agent; what was seen becomes an outcome.

The prompt is redacted as a whole before anybody gets it, and kept beside the chain: what an agent was told can be read
later. What it says is kept too, and believed by nobody.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ordain.calling import Calling, Calls
from ordain.core.action import Task
from ordain.core.agent import Agent, reaches_tools
from ordain.core.cannot import AGENT_CANNOT, cannot_words, why_cannot
from ordain.core.choosing import has_network, model_of
from ordain.core.door import door_names
from ordain.core.event import Outcome, RunEvent, StepState, WorkClaimed, WorkOffered
from ordain.core.form import form_text
from ordain.core.kind import kind_of
from ordain.core.model import Step
from ordain.core.prompt import Setting, write_prompt
from ordain.core.run_state import RunState
from ordain.core.scope import offered
from ordain.core.spending import read_usage
from ordain.core.tool import ToolDefinition
from ordain.core.value import Instant, StepId
from ordain.core.work import Lease, WorkItem
from ordain.ports import Agents, Clock, Command, Doors, Finished, Shell
from ordain.reading import Gathered, NothingGivenError, Reading
from ordain.results import Results
from ordain.sink import Sink
from ordain.verify import signal_name

if TYPE_CHECKING:
    from ordain.performing import Performing

__all__ = ["Tasking"]

Record = Callable[[tuple[RunEvent, ...], tuple[bytes, ...]], Awaitable[None]]
"""Has events recorded, with bytes to keep, and goes on when they are durable."""


class Tasking:
    """The tasks of one run."""

    def __init__(
        self,
        state: RunState,
        performing: Performing,
        *,
        results: Results,
        reading: Reading,
        agents: Agents | None,
        doors: Doors | None,
        calling: Calling,
        shell: Shell,
        clock: Clock,
        sink: Sink,
        tools: Mapping[str, ToolDefinition],
        key: Callable[[StepId], str],
        mark: Callable[[StepId], str],
        record: Record,
    ) -> None:
        self._state, self._performing, self._results, self._reading = state, performing, results, reading
        self._agents, self._shell, self._clock, self._sink, self._tools = agents, shell, clock, sink, tools
        self._key, self._mark, self._record = key, mark, record
        self._doors, self._calling = doors, calling

    async def effect(self, step_id: StepId) -> Outcome:
        """Have the agent of a step do its task, and tell what was seen of it."""
        step, timeout_ms = self._state.step(step_id), self._performing.time_for(step_id)
        limits, record = self._state.limits_in_force, self._state.steps[step_id]
        agent = limits.agents.get(record.agent)
        if agent is None or self._agents is None:
            return self._not_begun(f"there is no agent `{record.agent}` here")
        gathered = await self._gather(step_id, step)
        if gathered.lacks:
            return self._lacking(gathered)
        if agent.registered and limits.tier:
            return self._not_begun(f"`{record.agent}` is a function of a program, and nothing holds it to tier 1")
        item = await self._offer(step_id, step, agent, gathered, timeout_ms)
        if agent.registered:
            return await self._performing.called(step_id, self._agents.call(agent, item), timeout_ms)
        calls = Calls(self._calling, item, self._mark(step_id))
        async with contextlib.AsyncExitStack() as held:
            room = held.enter_context(self._agents.room())
            doors = self._doors if self._has_door(agent) else None
            server = await held.enter_async_context(doors.open(room, calls)) if doors is not None else None
            try:
                invocation = self._agents.invocation(agent, item, room, server, sandboxed=limits.tier > 0)
            except ValueError as error:
                return self._not_begun(f"could not be started: {error}")
            names = {"ORDAIN_RUN": item.run_id, "ORDAIN_STEP": item.step, "ORDAIN_STEP_KEY": item.key}
            command = Command(
                text=" ".join(invocation.argv[:1]),
                argv=invocation.argv,
                env={**self._shell.environment((*limits.env, *agent.env)), **invocation.env, **names},
                timeout_ms=timeout_ms,
                mark=self._mark(step_id),
                whole=True,
                reports=True,
                errors_apart=True,
                stdin=invocation.stdin,
                writes=step.writes or None,
                network=has_network(step, agent),
                sees=(room, *invocation.sees, *(server.sees if server is not None else ())),
                home=invocation.home,
                changes=invocation.changes,
                directory=invocation.directory,
            )
            finished = await self._shell.run(command)
            said = invocation.read(finished)
        outcome = self._finished(step_id, finished, said.text, said.error, timeout_ms, used=said.used)
        if calls.cannot is not None:  # whatever else it says, and however it came to its end
            detail = cannot_words(f"`{record.agent}`", calls.cannot)
            outcome = replace(outcome, error=AGENT_CANNOT, detail=detail)
        return replace(outcome, refused=calls.refused)

    def _has_door(self, agent: Agent) -> bool:
        """Whether an agent reaches tools through a door: everyone that is a process, where there can be one."""
        return reaches_tools(agent) and self._doors is not None and self._doors.fault() is None

    async def hand_over(self, step_id: StepId) -> Outcome | None:
        """Offer the task of a step to the person that it is given to, who takes it when they answer; the outcome where
        that is not possible."""
        step = self._state.step(step_id)
        agent = self._state.limits_in_force.agents[self._state.steps[step_id].agent]
        gathered = await self._gather(step_id, step)
        if gathered.lacks:
            return self._lacking(gathered)
        await self._offer(step_id, step, agent, gathered, step.timeout_ms or 0)
        return None

    def _lacking(self, gathered: Gathered) -> Outcome:
        escapes = any(lack.code == "F_PATH_ESCAPE" for lack in gathered.lacks)
        detail = "what it reads cannot be handed over: " + "; ".join(lack.words for lack in gathered.lacks)
        return self._not_begun(detail, "F_PATH_ESCAPE" if escapes else "F_READ_MISSING")

    async def _offer(self, step_id: StepId, step: Step, agent: Agent, gathered: Gathered, timeout_ms: int) -> WorkItem:
        """Make a work item, have it recorded, and claim it for an agent."""
        assert isinstance(step.action, Task)
        state, record = self._state, self._state.steps[step_id]
        plans = tuple(state.plans_around(step_id))
        tools = offered(step.action, plans, self._tools)
        setting = Setting(
            plan=plans[0],
            step=step,
            agent=record.agent,
            tools=tuple(door_names(tools).values()),
            reads=gathered.shown,
            attempt=record.attempts,
            tries=record.tries,
            writes=step.writes,
            has_door=self._has_door(agent),
        )
        if agent.human:  # who is shown a form, and nothing else
            written = form_text(step, record.agent)
        else:
            written = write_prompt(agent.prompt or state.limits_in_force.prompt, setting)
        prompt = self._sink.text(written)
        body = prompt.encode("utf-8", "replace")
        item = WorkItem(
            agent=record.agent,
            kind=kind_of(step),
            plan_id=state.plan_id,
            run_id=state.run_id,
            step=step_id,
            attempt=record.attempts,
            key=self._key(step_id),
            timeout_ms=timeout_ms,
            reads=gathered.reads,
            tools=tools,
            model=model_of(step, plans, agent),
            prompt_seal=self._sink.seal(body),
            prompt_bytes=len(body),
        )
        offer: tuple[RunEvent, ...] = (WorkOffered(step=step_id, attempt=item.attempt, item=item),)
        if not agent.human:
            lease = Lease(worker=f"executor {state.epoch}", until=Instant(self._clock.now() + timeout_ms))
            offer += (WorkClaimed(step=step_id, attempt=item.attempt, lease=lease),)
        await self._record(offer, (body,))
        return replace(item, prompt=prompt, task=self._sink.text(step.action.task))

    async def _gather(self, step_id: StepId, step: Step) -> Gathered:
        """What the step reads, as it is now."""
        assert isinstance(step.action, Task)

        def output(name: str) -> Any:
            other = self._state.named(step_id, name)
            record = self._state.steps.get(other)
            if record is None or record.state is StepState.SKIPPED:
                raise NothingGivenError("was not run, so it gave nothing")
            return self._results.output(other)

        return await self._reading.gather(step.action, output)

    # --- What was seen -------------------------------------------------------------------------------------------

    def _finished(
        self, step_id: StepId, finished: Finished, text: bytes, wrong: str | None, timeout_ms: int, *, used: object
    ) -> Outcome:
        error, detail = None, ""
        cannot = why_cannot(text, finished.reported)
        if cannot is not None:
            error, detail = AGENT_CANNOT, cannot_words(f"`{self._state.steps[step_id].agent}`", cannot)
        elif finished.timed_out:
            error, detail = "F_STEP_TIMEOUT", f"did not end within {timeout_ms / 1000:g} s"
        elif finished.fault is not None:
            error, detail = "F_STEP_FAILED", f"could not be started: {finished.fault}"
        elif finished.signal is not None:
            error, detail = "F_STEP_FAILED", f"killed by {signal_name(finished.signal)}"
        elif finished.exit_code != 0:
            error, detail = "F_STEP_FAILED", f"exit status {finished.exit_code}{f': {wrong}' if wrong else ''}"
        elif wrong is not None:
            error, detail = "F_STEP_FAILED", wrong
        outcome = self._performing.outcome(
            step_id,
            finished.duration_ms,
            error,
            detail,
            text,
            len(text),
            None,
            beside=_after(text, finished.errors),
            exit_code=finished.exit_code,
            leftovers=finished.leftovers,
        )
        reported, _ = read_usage(finished.reported)
        return replace(outcome, used=used or reported)

    def _not_begun(self, detail: str, error: str = "F_STEP_FAILED") -> Outcome:
        return Outcome(duration_ms=0, error=error, detail=self._sink.text(detail))


def _after(text: bytes, errors: bytes) -> bytes:
    """What came beside a text, as it is shown after it."""
    return b"\n" + errors if errors and text and not text.endswith(b"\n") else errors
