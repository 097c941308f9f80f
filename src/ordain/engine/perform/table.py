"""Who performs which action: those that do something, and those that only look at something outside of the run."""

from __future__ import annotations

from typing import Any

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
from ordain.core.plan.model import NestedPlan
from ordain.core.plan.tool import action_kind
from ordain.core.plan.value import StepId
from ordain.core.run.result import Missing, Unfit
from ordain.core.run.step_event import Outcome
from ordain.engine.context import RunContext
from ordain.engine.perform import approval, command, custom, data, lock, tool, wait, wait_for_file
from ordain.engine.perform.effects import Attempt, Performer, cut_short, not_begun, time_for
from ordain.engine.wait import Watcher

PERFORMERS: dict[type[Any], Performer] = {
    RunCommand: command.perform,
    CallTool: tool.perform,
    StoreData: data.perform,
    ValidateApproval: approval.perform,
    Custom: custom.perform,
}

WATCHERS: dict[type[Any], Watcher] = {
    WaitFor: wait.look,
    WaitForFile: wait_for_file.look,
    AcquireLock: lock.look_to_acquire,
    ReleaseLock: lock.look_to_release,
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
