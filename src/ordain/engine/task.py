"""Performing a task: a work item is made of it, claimed, and handed to a fresh agent; what was seen becomes an outcome.
The prompt is redacted as a whole and kept beside the chain; so is what the agent says, which nobody believes."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from msgspec.structs import replace

from ordain.core.plan.action import Task
from ordain.core.plan.model import Step
from ordain.core.plan.value import Instant, StepId
from ordain.core.policy.agent import Agent, has_network, is_open, kind_of, model_of, reaches_tools
from ordain.core.policy.scope import offered
from ordain.core.run.course import course_of
from ordain.core.run.event import RunEvent
from ordain.core.run.prompt import AGENT_CANNOT, Setting, ToolAccess, bounded, cannot_words, why_cannot, write_prompt
from ordain.core.run.spending import read_usage, sound_usage
from ordain.core.run.step_event import GroupKind, Outcome, StepState, WorkClaimed, WorkOffered
from ordain.core.task.offer import door_names
from ordain.core.task.work_item import Lease, WorkItem, form_text
from ordain.core.text.limit import OUTPUT_BYTES_MAX
from ordain.engine.affected import with_affected
from ordain.engine.arbiter import Arbiter, Chosen, with_used
from ordain.engine.call import Calls
from ordain.engine.context import RunContext
from ordain.engine.perform import effects
from ordain.engine.reads import Gathered, NothingGivenError, StepReads
from ordain.engine.spoken import SpokenTask
from ordain.ports.agent import Doors, Said
from ordain.ports.process import Finished
from ordain.ports.tool import Lost, ToolResult
from ordain.records.sink import in_parts

WORDS_BYTES_MAX = 4 << 20
"""How much of what an agent says is kept whole: looking for secrets in more would hold up the run."""


class TaskPerformer:
    """The tasks of one run."""

    def __init__(self, run: RunContext) -> None:
        self._run, self._state, self._sink, self._results = run, run.state, run.sink, run.results
        self._reading = StepReads(run.ports.workspace, run.records, run.sink, run.settings.secret_files)
        self._refusing = asyncio.Lock()

    async def effect(self, step_id: StepId) -> Outcome:
        step, timeout_ms = self._state.step(step_id), effects.time_for(self._run, step_id)
        limits, name = self._run.limits, self._state.steps[step_id].agent
        chosen, began = None, self._run.ports.clock.now()
        if limits.arbiter and is_open(step, tuple(self._state.plans_around(step_id)), limits.agent_for):
            chosen = await Arbiter(self._run).choose(step_id, timeout_ms)
            name, timeout_ms = chosen.agent, max(1, timeout_ms - (self._run.ports.clock.now() - began))
        outcome = await self._by(step_id, step, name, chosen, timeout_ms)
        return outcome if chosen is None else with_used(outcome, chosen.used)

    async def _by(self, step_id: StepId, step: Step, name: str, chosen: Chosen | None, timeout_ms: int) -> Outcome:
        limits = self._run.limits
        agent = limits.agents.get(name)
        if agent is None:
            return effects.not_begun(self._run, f"there is no agent `{name}` here")
        gathered = await self._gather(step_id, step)
        if gathered.lacks:
            return self._lacking(gathered)
        if agent.registered and limits.tier:
            return effects.not_begun(self._run, f"`{name}` is a function of a program, and nothing holds it to tier 1")
        item = await self._offer(step_id, step, agent, gathered, timeout_ms, chosen)
        if agent.registered:
            outcome = await effects.call_within(self._run, step, self._called(agent, item), timeout_ms)
        elif agent.is_model:
            calls = Calls(self._run, item, self._run.mark(step_id), self._refusing)
            outcome = self._after_calls(calls, item, await SpokenTask(self._run, step, agent, item, calls).outcome())
            if calls.touched is not None:  # it has no other hands
                outcome = with_affected(outcome, calls.touched, self._sink)
        else:
            outcome = await self._started(step, agent, item)
        if outcome.error == AGENT_CANNOT:
            return replace(outcome, detail=bounded(outcome.detail))
        return effects.cut_short(self._run, step, timeout_ms, outcome)

    async def _started(self, step: Step, agent: Agent, item: WorkItem) -> Outcome:
        ports, limits, mark = self._run.ports, self._run.limits, self._run.mark(step.id)
        agents, calls = ports.agents, Calls(self._run, item, mark, self._refusing)
        async with contextlib.AsyncExitStack() as held:
            try:
                room = held.enter_context(agents.room())
                doors = door_for(agent, ports.doors)
                server = await held.enter_async_context(doors.open(room, calls)) if doors is not None else None
                invocation = agents.invocation(agent, item, room, server, sandboxed=limits.tier > 0)
            except (ValueError, OSError) as error:  # a full disk too: nothing has begun
                return effects.not_begun(self._run, f"could not be started: {error}")
            names = {"ORDAIN_RUN": item.run_id, "ORDAIN_STEP": item.step, "ORDAIN_STEP_KEY": item.key}
            command = invocation.command(
                room,
                server,
                env={**ports.shell.environment((*limits.env, *agent.env)), **invocation.env, **names},
                timeout_ms=item.timeout_ms,
                mark=mark,
                whole=True,
                writes=step.writes or None,
                network=has_network(step, agent),
            )
            finished = await ports.shell.run(command)
            said = invocation.read(finished)
        return self._after_calls(calls, item, self._finished(step.id, finished, said, item.timeout_ms))

    def _after_calls(self, calls: Calls, item: WorkItem, outcome: Outcome) -> Outcome:
        if calls.lost is not None and calls.cannot is None:
            raise Lost(calls.lost)  # a further attempt might do the same a second time
        if calls.cannot is not None:  # whatever else it says, and however it came to its end
            detail = self._sink.text(cannot_words(f"`{item.agent}`", calls.cannot))
            outcome = replace(outcome, error=AGENT_CANNOT, detail=detail)
        return replace(outcome, refused=calls.refused)

    async def _called(self, agent: Agent, item: WorkItem) -> ToolResult:
        result = await self._run.ports.agents.call(agent, item)
        return replace(result, value=self._sink.value(result.value))

    async def hand_over(self, step_id: StepId) -> Outcome | None:
        """Offer the task of a step to the person that it is given to; the outcome where that is not possible."""
        step = self._state.step(step_id)
        agent = self._run.limits.agents[self._state.steps[step_id].agent]
        gathered = await self._gather(step_id, step)
        if gathered.lacks:
            return self._lacking(gathered)
        await self._offer(step_id, step, agent, gathered, step.timeout_ms or 0)
        return None

    def _lacking(self, gathered: Gathered) -> Outcome:
        escapes = any(lack.code == "F_PATH_ESCAPE" for lack in gathered.lacks)
        detail = "what it reads cannot be handed over: " + "; ".join(lack.words for lack in gathered.lacks)
        return effects.not_begun(self._run, detail, "F_PATH_ESCAPE" if escapes else "F_READ_MISSING")

    async def _offer(
        self,
        step_id: StepId,
        step: Step,
        agent: Agent,
        gathered: Gathered,
        timeout_ms: int,
        chosen: Chosen | None = None,
    ) -> WorkItem:
        """Make a work item, have it recorded, and claim it for an agent."""
        assert isinstance(step.action, Task)
        state, record = self._state, self._state.steps[step_id]
        plans = tuple(state.plans_around(step_id))
        tools = offered(step.action, plans, self._run.tools)
        setting = Setting(
            plan=plans[0],
            step=self._without_label(step),
            agent=chosen.agent if chosen is not None else record.agent,
            tools=tuple(door_names(tools).values()),
            reads=gathered.shown,
            attempt=record.attempts,
            tries=record.tries,
            writes=step.writes,
            reaches=reach_of(agent, self._run.ports.doors),
            course=course_of(state, step_id) if self._run.limits.progress else None,
        )
        if agent.human:  # who is shown a form, and nothing else
            written = form_text(step, record.agent)
        else:
            written = write_prompt(agent.prompt or self._run.limits.prompt, setting)
        prompt = self._sink.text(written)
        body = prompt.encode("utf-8", "replace")
        item = WorkItem(
            agent=setting.agent,
            arbiter=self._run.limits.arbiter if chosen is not None else "",
            why=chosen.why if chosen is not None else "",
            kind=kind_of(step),
            plan_id=state.plan_id,
            run_id=state.run_id,
            step=step_id,
            attempt=record.attempts,
            key=self._results.key(step_id),
            timeout_ms=timeout_ms,
            reads=gathered.reads,
            tools=tools,
            model=model_of(step, plans, agent),
            prompt_seal=self._sink.seal(body),
            prompt_bytes=len(body),
        )
        offer: tuple[RunEvent, ...] = (WorkOffered(step=step_id, attempt=item.attempt, item=item),)
        if not agent.human:
            lease = Lease(worker=f"executor {state.epoch}", until=Instant(self._run.ports.clock.now() + timeout_ms))
            offer += (WorkClaimed(step=step_id, attempt=item.attempt, lease=lease),)
        await self._run.journal.record(*offer, keeps=(body,))
        return replace(item, prompt=prompt, task=self._sink.text(step.action.task))

    def _without_label(self, step: Step) -> Step:
        """A step whose title is the plan's own, also where it is that of an item, which was written by others."""
        member = self._state.members.get(step.id)
        if member is None or member.kind is not GroupKind.ITEMS:
            return step
        return replace(step, description=self._state.step(member.parent).description)

    async def _gather(self, step_id: StepId, step: Step) -> Gathered:
        assert isinstance(step.action, Task)

        def output(name: str) -> Any:
            other = self._state.named(step_id, name)
            record = self._state.steps.get(other)
            if record is None or record.state is StepState.SKIPPED:
                raise NothingGivenError("was not run, so it gave nothing")
            return self._results.output(other)

        return await self._reading.gather(step.action, output, lambda: self._results.own_item(step_id))

    def _finished(self, step_id: StepId, finished: Finished, said: Said, timeout_ms: int) -> Outcome:
        error, detail = effects.how_it_ended(finished, timeout_ms)
        if said.error is not None and error in (None, "F_STEP_FAILED") and finished.exit_code is not None:
            error, detail = "F_STEP_FAILED", f"{detail}: {said.error}" if detail else said.error
        cannot = why_cannot(said.text, finished.reported)
        if cannot is not None:
            error, detail = AGENT_CANNOT, cannot_words(f"`{self._state.steps[step_id].agent}`", cannot)
        reported, wrong = read_usage(finished.reported)
        kept, size = self._kept(finished, said)
        text, whole = kept[-OUTPUT_BYTES_MAX:], in_parts(kept) if size == len(kept) else None
        gap = b"\n" if finished.errors and text and not text.endswith(b"\n") else b""
        outcome = effects.make_outcome(
            self._run,
            step_id,
            finished.duration_ms,
            error,
            effects.with_unread(detail, wrong),
            text,
            size,
            whole,
            beside=gap + finished.errors,
            exit_code=finished.exit_code,
            leftovers=finished.leftovers,
            output_json=said.as_value and error is None and whole is None and effects.is_structure(text),
        )
        return replace(outcome, used=sound_usage(said.used) or reported)

    def _kept(self, finished: Finished, said: Said) -> tuple[bytes, int]:
        """What an agent said, without secrets, and how long that is; of very much, the end, and how much there was."""
        if said.text != finished.output or len(said.text) >= finished.output_bytes:
            kept = self._sink.words(said.text, whole=True)
            return kept, len(kept)
        whole = finished.whole
        if whole is not None and whole.parts is not None and whole.size <= WORDS_BYTES_MAX:
            kept = self._sink.words(b"".join(whole.parts()), whole=True)
            return kept, len(kept)
        # Only the end is at hand, whose first secret may have lost its beginning.
        return self._sink.words(said.text, whole=False), finished.output_bytes


def reach_of(agent: Agent, doors: Doors | None) -> ToolAccess:
    """How an agent reaches the tools of its step."""
    if agent.is_model:
        return ToolAccess.ITSELF
    return ToolAccess.SERVER if door_for(agent, doors) is not None else ToolAccess.NONE


def door_for(agent: Agent, doors: Doors | None) -> Doors | None:
    """What an agent reaches the tools of its step through: everyone that is a process, where there can be a door."""
    return doors if reaches_tools(agent) and doors is not None and doors.fault() is None else None
