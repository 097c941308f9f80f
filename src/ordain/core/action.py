"""Actions: the typed things a step can do. `NestedPlan`, which holds a plan, is with the plan in `core.model`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ordain.core.condition import ApprovalScope, WaitCondition
from ordain.core.value import Value

__all__ = [
    "AcquireLock",
    "Ask",
    "CallTool",
    "Custom",
    "LockAction",
    "MarkEventHandled",
    "ReleaseLock",
    "RunCommand",
    "RunWorkflow",
    "SendText",
    "StoreData",
    "Task",
    "ValidateApproval",
    "WaitFor",
]


class RunCommand(Value, frozen=True, tag_field="type", tag="run"):
    """Run a command with bash in the workspace; its exit status is observed by the harness.

    Values of earlier steps come in through `env`, which no value can break out of.
    """

    command: str
    env: Mapping[str, str] = {}


class CallTool(Value, frozen=True, tag_field="type", tag="tool"):
    """Call a registered tool with exactly these arguments."""

    tool: str
    operation: str | None = None
    args: Mapping[str, Any] = {}


class Task(Value, frozen=True, tag_field="type", tag="task"):
    """Have an agent do something; what it says about it is kept and never believed."""

    task: str
    agent: str | None = None
    instructions: str | None = None
    criteria: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None
    """The tools the agent may use; a tool and its operation are written `tool:operation`."""


class SendText(Value, frozen=True, tag_field="type", tag="send_text"):
    text: str
    pane_id: int | None = None
    pane: str | None = None
    keys: tuple[str, ...] = ()
    paste_mode: bool | None = None


class WaitFor(Value, frozen=True, tag_field="type", tag="wait_for"):
    condition: WaitCondition
    timeout_ms: int
    pane_id: int | None = None


class AcquireLock(Value, frozen=True, tag_field="type", tag="acquire_lock"):
    """Have a named lock that no other run has, waiting for it where one does."""

    lock_name: str
    timeout_ms: int | None = None
    """How long to wait for it; absent, as long as the step may take."""


class ReleaseLock(Value, frozen=True, tag_field="type", tag="release_lock"):
    """Give a named lock back before the run ends, which does it too."""

    lock_name: str


LockAction = AcquireLock | ReleaseLock
"""They happen in the ledger's own transaction: what is not recorded has not happened."""


class StoreData(Value, frozen=True, tag_field="type", tag="store_data"):
    key: str
    value: Any


class RunWorkflow(Value, frozen=True, tag_field="type", tag="run_workflow"):
    workflow_id: str
    params: Mapping[str, Any] = {}


class MarkEventHandled(Value, frozen=True, tag_field="type", tag="mark_event_handled"):
    event_id: int


class ValidateApproval(Value, frozen=True, tag_field="type", tag="validate_approval"):
    scope: ApprovalScope


class Ask(Value, frozen=True, tag_field="type", tag="ask"):
    """Ask a person; the answer is the step's result."""

    question: str
    choices: tuple[str, ...] = ()
    schema: Mapping[str, Any] = {}


class Custom(Value, frozen=True, tag_field="type", tag="custom"):
    """An action carried out by a handler registered under this type."""

    action_type: str
    payload: Any = None
