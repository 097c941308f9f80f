"""Performing a task: a work item is made of it, claimed, and handed to a fresh agent; what was seen becomes an outcome.

The prompt is redacted as a whole before anybody gets it, and kept beside the chain: what an agent was told can be read
later. What it says is kept too, and believed by nobody.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ordain.core.action import Task
from ordain.core.agent import Agent
from ordain.core.cannot import AGENT_CANNOT, Cannot, cannot_words, why_cannot
from ordain.core.event import Outcome, RunEvent, WorkClaimed, WorkOffered
from ordain.core.kind import kind_of
from ordain.core.model import Step
from ordain.core.prompt import Setting, Shown, write_prompt
from ordain.core.run_state import RunState
from ordain.core.scope import offered
from ordain.core.spending import read_usage
from ordain.core.tool import ToolDefinition
from ordain.core.value import Instant, StepId
from ordain.core.work import Lease, Read, WorkItem
from ordain.ports import Agents, Clock, Command, Finished, Shell, ToolResult
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
        agents: Agents | None,
        shell: Shell,
        clock: Clock,
        sink: Sink,
        tools: Mapping[str, ToolDefinition],
        key: Callable[[StepId], str],
        mark: Callable[[StepId], str],
        record: Record,
    ) -> None:
        self._state, self._performing = state, performing
        self._agents, self._shell, self._clock, self._sink, self._tools = agents, shell, clock, sink, tools
        self._key, self._mark, self._record = key, mark, record

    async def effect(self, step_id: StepId) -> Outcome:
        """Have the agent of a step do its task, and tell what was seen of it."""
        step, timeout_ms = self._state.step(step_id), self._performing.time_for(step_id)
        limits, record = self._state.limits_in_force, self._state.steps[step_id]
        agent = limits.agents.get(record.agent)
        if agent is None or self._agents is None:
            return self._not_begun(f"there is no agent `{record.agent}` here")
        item = await self._offer(step_id, step, agent, timeout_ms)
        if agent.registered:
            return await self._performing.called(step_id, _unless_cannot(self._agents.call(agent, item)), timeout_ms)
        with self._agents.room() as room:
            invocation = self._agents.invocation(agent, item, room, None)
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
                network=agent.network is True,
                sees=invocation.sees,
                home=invocation.home,
            )
            finished = await self._shell.run(command)
            said = invocation.read(finished)
        return self._finished(step_id, finished, said.text, said.error, timeout_ms, used=said.used)

    async def hand_over(self, step_id: StepId) -> Outcome | None:
        """Offer the task of a step to the person that it is given to, who takes it when they answer; the outcome where
        that is not possible."""
        agent = self._state.limits_in_force.agents[self._state.steps[step_id].agent]
        await self._offer(step_id, self._state.step(step_id), agent, self._state.step(step_id).timeout_ms or 0)
        return None

    async def _offer(self, step_id: StepId, step: Step, agent: Agent, timeout_ms: int) -> WorkItem:
        """Make a work item, have it recorded, and claim it for an agent."""
        assert isinstance(step.action, Task)
        state, record = self._state, self._state.steps[step_id]
        plans = tuple(state.plans_around(step_id))
        shown, reads = self._reads(step_id, step.action)
        tools = offered(step.action, plans, self._tools)
        setting = Setting(
            plan=plans[0],
            step=step,
            agent=record.agent,
            tools=tools,
            reads=shown,
            attempt=record.attempts,
            last=record.tries[-1] if record.tries else None,
            writes=step.writes,
        )
        prompt = self._sink.text(write_prompt(agent.prompt or state.limits_in_force.prompt, setting))
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
            reads=reads,
            tools=tools,
            model=step.model or next((plan.model for plan in plans if plan.model), None) or agent.model,
            prompt_seal=self._sink.seal(body),
            prompt_bytes=len(body),
        )
        offer: tuple[RunEvent, ...] = (WorkOffered(step=step_id, attempt=item.attempt, item=item),)
        if not agent.human:
            lease = Lease(worker=f"executor {state.epoch}", until=Instant(self._clock.now() + timeout_ms))
            offer += (WorkClaimed(step=step_id, attempt=item.attempt, lease=lease),)
        await self._record(offer, (body,))
        return replace(item, prompt=prompt)

    def _reads(self, step_id: StepId, task: Task) -> tuple[tuple[Shown, ...], tuple[Read, ...]]:
        return (), ()

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
            error, detail = "F_STEP_FAILED", f"exit status {finished.exit_code}"
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
            beside=finished.errors,
            exit_code=finished.exit_code,
            leftovers=finished.leftovers,
        )
        reported, _ = read_usage(finished.reported)
        return replace(outcome, used=used or reported)

    def _not_begun(self, detail: str) -> Outcome:
        return Outcome(duration_ms=0, error="F_STEP_FAILED", detail=self._sink.text(detail))


async def _unless_cannot(call: Coroutine[Any, Any, ToolResult]) -> ToolResult:
    """What a callable gave; one that says that it cannot has not broken."""
    try:
        return await call
    except Cannot as cannot:
        return ToolResult(error=AGENT_CANNOT, detail=cannot_words("it", str(cannot)))
