"""Who performs which action: those that do something, and those that only look at something outside of the run."""

from __future__ import annotations

from typing import Any

from ordain.core.plan.actions.approval import ValidateApproval
from ordain.core.plan.actions.ask import Ask
from ordain.core.plan.actions.command import RunCommand
from ordain.core.plan.actions.custom import Custom
from ordain.core.plan.actions.data import StoreData
from ordain.core.plan.actions.lock import AcquireLock, ReleaseLock
from ordain.core.plan.actions.task import Task
from ordain.core.plan.actions.tool import CallTool
from ordain.core.plan.actions.wait import WaitFor
from ordain.core.plan.actions.wait_for_file import WaitForFile
from ordain.core.plan.model import NestedPlan
from ordain.engine.perform import approval, command, custom, data, lock, tool, wait, wait_for_file
from ordain.engine.perform.effects import Performer
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
