"""Asking an arbiter, a model or an agent, who performs a task that neither step, plan nor rule gives to anybody. It
gets no tools; an answer that names none of those it was offered counts for nothing, and the settings' own choice
holds."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from ordain.core.plan.action import Task
from ordain.core.plan.value import StepId
from ordain.core.policy.agent import Agent, access_of
from ordain.core.policy.assignment import roster
from ordain.core.policy.settings import Settings
from ordain.core.report.brief import arbitration, read_choice, run_standing
from ordain.core.report.report import Life, run_report
from ordain.core.run.budget import tokens_left
from ordain.core.run.spending import read_usage, sound_usage
from ordain.core.run.step_event import Outcome, Usage
from ordain.core.task.work_item import WorkItem
from ordain.core.text.problem import Refused
from ordain.engine.context import RunContext
from ordain.engine.perform.effects import how_it_ended
from ordain.ports.model import ModelFailed, ModelRequest, UserText

ASKED_MS = 60_000
"""How long it may take; a step is not held up for longer."""
ANSWER_TOKENS = 4000
REASON_MAX = 300
_MEMBER = re.compile(r"\[\d+\]")


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """Who performs a task, by an arbiter or because it gave no answer that counts."""

    agent: str
    why: str
    used: Usage | None = None


class _NoAnswer(Exception):
    """Why an arbiter gave no answer, in words."""


class Arbiter:
    """The arbiter of one run."""

    def __init__(self, run: RunContext) -> None:
        self._run, self._name = run, run.limits.arbiter

    async def choose(self, step_id: StepId, timeout_ms: int) -> Chosen:
        """Who performs the task of a step in this attempt. Whatever goes wrong is a choice, with the reason."""
        run, used = self._run, None
        try:
            offered = self._offered(step_id)
            if len(offered) < 2:
                raise _NoAnswer("there is nobody else to choose from")
            text = run.sink.text(self._text(step_id, offered))
            within, agent = min(timeout_ms, ASKED_MS), run.limits.agents[self._name]
            model = agent.is_model
            asked = self._spoken(step_id, agent, text) if model else self._started(step_id, agent, text, within)
            said, used = await run.deadlines.within(within / 1000, asked)
            found = read_choice(said, tuple(offered))
            if found is None:
                raise _NoAnswer("its answer names none of those it was offered, or several")
        except (TimeoutError, ModelFailed, _NoAnswer) as failed:
            why = "it did not answer in time" if isinstance(failed, TimeoutError) else str(failed)
            words = run.sink.text(" ".join(why.split()))[:REASON_MAX]
            why = f"the settings name it, and the arbiter {self._name} chose nobody: {words}"
            return Chosen(agent=run.limits.agent, why=why, used=used)
        name, reason = found
        reason = run.sink.text(reason)[:REASON_MAX] or "it gave no reason"
        return Chosen(agent=name, why=f"the arbiter {self._name} chose it: {reason}", used=used)

    def _offered(self, step_id: StepId) -> Mapping[str, Agent]:
        """Those whom the approval covers, policy permits for this step, and that could be started here."""
        run, step = self._run, self._run.state.step(step_id)
        assert isinstance(step.action, Task)
        found = {}
        for name in run.limits.among:
            agent = run.limits.agents[name]
            fault = None if agent.is_model else run.ports.agents.fault(agent)
            given = replace(step, action=replace(step.action, agent=name), needs=())
            if fault is None and run.authority.unpermitted(given) is None:
                found[name] = agent
        return found

    def _text(self, step_id: StepId, offered: Mapping[str, Agent]) -> str:
        run, limits = self._run, self._run.limits
        report = run_report(run.state, run.state.plan_id, run.ports.clock.now(), Life(executing=True))
        standing = run_standing(run.state, run.state.plan_id, report, run.ports.toolbox.definitions())
        shown = Settings(agents=dict(offered), agent=limits.agent, agent_for=limits.agent_for)
        # What the plan calls the step: `outer/inner`, without the item or the fallback that it is.
        planned = "/".join(_MEMBER.sub("", part).rpartition("+")[2] for part in step_id.split("/"))
        try:
            return arbitration(standing, planned, tuple(roster(shown, {}, {}, {})), at_once=True).text
        except Refused as refused:
            raise _NoAnswer(refused.problems[0].detail) from refused

    async def _spoken(self, step_id: StepId, agent: Agent, text: str) -> tuple[str, Usage | None]:
        run, access = self._run, access_of(agent)
        key = run.ports.shell.environment((access.key_env,)).get(access.key_env, "") if access.key_env else ""
        if run.ports.models is None or (access.key_env and not key):
            raise _NoAnswer("its key is not there" if run.ports.models is not None else "nothing here speaks to models")
        left = tokens_left(run.state, step_id, run.ports.clock.now())
        if left == 0:
            raise _NoAnswer("the budget has no tokens left")
        most = ANSWER_TOKENS if left is None else min(left, ANSWER_TOKENS)
        request = ModelRequest(system="", messages=(UserText(text=text),), output_tokens_max=most)
        async with run.ports.models.client(access, key) as client:
            turn = await client.respond(request, lambda news: None)
        return turn.text, Usage(tokens=turn.usage.tokens, cost_usd=turn.usage.cost_usd)

    async def _started(self, step_id: StepId, agent: Agent, text: str, timeout_ms: int) -> tuple[str, Usage | None]:
        run, ports, record = self._run, self._run.ports, self._run.state.steps[step_id]
        item = WorkItem(
            agent=self._name,
            kind="review",
            plan_id=run.state.plan_id,
            run_id=run.state.run_id,
            step=step_id,
            attempt=record.attempts,
            key=f"{run.results.key(step_id)}/arbiter",
            timeout_ms=timeout_ms,
            model=agent.model,
            task=text,
            prompt=text,
        )
        if agent.registered:
            result = await ports.agents.call(agent, item)
            if result.error is not None:
                raise _NoAnswer(result.detail)
            return str(result.value if result.value is not None else ""), sound_usage(result.used)
        try:
            with ports.agents.room() as room:
                invocation = ports.agents.invocation(agent, item, room, None, sandboxed=run.limits.tier > 0)
                command = invocation.command(
                    room,
                    env={**ports.shell.environment((*run.limits.env, *agent.env)), **invocation.env},
                    timeout_ms=timeout_ms,
                    mark=f"{run.mark(step_id)}/arbiter",
                    writes=(),
                    network=agent.network is True,
                )
                finished = await ports.shell.run(command)
                said = invocation.read(finished)
        except (ValueError, OSError) as fault:
            raise _NoAnswer(f"it could not be started: {fault}") from fault
        error, detail = how_it_ended(finished, timeout_ms)
        if error is not None or said.error is not None:
            raise _NoAnswer(detail or said.error or "")
        used = sound_usage(said.used) or read_usage(finished.reported)[0]
        return said.text.decode("utf-8", "replace"), used


def with_used(outcome: Outcome, used: Usage | None) -> Outcome:
    """An outcome with what its arbiter used as well."""
    if used is None:
        return outcome
    own = outcome.used or Usage()
    tokens = [one for one in (own.tokens, used.tokens) if one is not None]
    costs = [one for one in (own.cost_usd, used.cost_usd) if one is not None]
    both = Usage(tokens=sum(tokens) if tokens else None, cost_usd=sum(costs) if costs else None)
    return replace(outcome, used=both)
