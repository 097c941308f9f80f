"""Which files a step has changed, as far as that can be seen: told to people and to later steps, and no evidence. File
tools say it by their operands; around an agent that is a process alone at work, the workspace is looked at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from ordain.core.plan.action import Task
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import COMMANDS, ToolDefinition
from ordain.core.plan.value import StepId
from ordain.core.policy.scope import offered
from ordain.core.run.step_event import Outcome
from ordain.engine.context import RunContext
from ordain.records.sink import Sink

FILES_MAX = 100


class AffectedFiles:
    """The looks of one run at what its steps change."""

    def __init__(self, run: RunContext) -> None:
        self._run, self._begun, self._under_way = run, 0, 0

    async def during(self, step_id: StepId, effect: Callable[[StepId], Awaitable[Outcome]]) -> Outcome:
        self._begun += 1
        self._under_way += 1
        try:
            return await self._looked(step_id, effect)
        finally:
            self._under_way -= 1

    async def _looked(self, step_id: StepId, effect: Callable[[StepId], Awaitable[Outcome]]) -> Outcome:
        look = self._run.ports.protection.stamps
        begun, before = self._begun, await look() if self._wants_look(step_id) else None
        outcome = await effect(step_id)
        if outcome.affected_files is not None:
            return outcome
        if before is not None and self._begun == begun and self._is_alone(step_id):
            after = await look()
            if after is not None:
                changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
                return with_affected(outcome, changed, self._run.sink)
        if outcome.error is None and (paths := self._touched(step_id)) is not None:
            return with_affected(outcome, paths, self._run.sink)
        return outcome

    def _is_alone(self, step_id: StepId) -> bool:
        return self._under_way == 1 and not self._run.state.active.keys() - {step_id}

    def _wants_look(self, step_id: StepId) -> bool:
        run, action = self._run, self._run.state.step(step_id).action
        if not isinstance(action, Task) or not self._is_alone(step_id):
            return False
        agent = run.limits.agents.get(run.state.steps[step_id].agent)
        if agent is None or agent.human:
            return False
        lent = offered(action, tuple(run.state.plans_around(step_id)), run.tools)
        return not agent.is_model or not all(touches(run.tools[name], {}) is not None for name in lent)

    def _touched(self, step_id: StepId) -> tuple[str, ...] | None:
        name, args = self._run.results.call(step_id) or ("", {})
        return touches(self._run.tools[name], args) if name in self._run.tools else None


def touches(tool: ToolDefinition, args: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The paths that a call of a tool changes; None where its arguments do not say that."""
    if tool.effect is EffectClass.READS:
        return ()
    if tool.schema is not None or tool.name in COMMANDS or not any(one.path for one in tool.parameters):
        return None
    return tuple(str(args[one.name]) for one in tool.parameters if one.path and one.name in args)


def with_affected(outcome: Outcome, paths: Iterable[str], sink: Sink) -> Outcome:
    """An outcome with the files that it affected, as they may be written."""
    named = sorted(set(paths))
    return replace(
        outcome,
        affected_files=tuple(sink.text(path) for path in named[:FILES_MAX]),
        affected_more=max(0, len(named) - FILES_MAX),
    )
