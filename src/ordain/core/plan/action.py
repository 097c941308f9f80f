"""Every action that a step can have, but for the nested plan (`core.plan.model`): its fields with their roles, and what
it is like."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Annotated, Any, ClassVar

from msgspec.structs import replace

from ordain.core.plan.condition import ApprovalScope, WaitCondition
from ordain.core.plan.role import (
    About,
    CommandText,
    DataKey,
    Duration,
    EffectClass,
    Handed,
    HandlerName,
    Inner,
    Name,
    Number,
    PaneName,
    PathRead,
    Payload,
    Picked,
    Prose,
    Schema,
    ToolScope,
)
from ordain.core.plan.value import Value


class RunCommand(Value, frozen=True, tag_field="type", tag="run"):
    """Run a command with bash in the workspace; its exit status is observed by the harness.

    Values of earlier steps come in through `env`, which no value can break out of.
    """

    command: Annotated[str, CommandText("command")]
    env: Annotated[Mapping[str, str], Payload()] = {}

    about: ClassVar[About] = About(
        effect=EffectClass.OPAQUE, kind="command", target=attrgetter("command"), did="ran a command"
    )


class CallTool(Value, frozen=True, tag_field="type", tag="tool"):
    """Call a registered tool with exactly these arguments."""

    tool: Annotated[str, Name("tool name", "tool")]
    operation: Annotated[str | None, Name("operation", "operation")] = None
    args: Annotated[Mapping[str, Any], Payload()] = {}

    about: ClassVar[About] = About(
        effect=EffectClass.OPAQUE, kind="call", target=attrgetter("tool"), did="called `{0.tool}`"
    )


class Task(Value, frozen=True, tag_field="type", tag="task"):
    """Have an agent do something; what it says about it is kept and never believed."""

    task: Annotated[str, Prose("task")]
    agent: Annotated[str | None, Name("agent name", "agent")] = None
    instructions: Annotated[str | None, Prose("task")] = None
    criteria: Annotated[tuple[str, ...], Prose("task")] = ()
    reads: Annotated[tuple[str, ...], Handed()] = ()
    tools: Annotated[tuple[str, ...] | None, ToolScope()] = None
    """The tools the agent may use; a tool and its operation are written `tool:operation`."""

    about: ClassVar[About] = About(effect=EffectClass.OPAQUE, kind="agent", did="gave an agent a task")


class Ask(Value, frozen=True, tag_field="type", tag="ask"):
    """Ask a person; the answer is the step's result."""

    question: Annotated[str, Prose("question")]
    choices: Annotated[tuple[str, ...], Picked()] = ()
    schema: Annotated[Mapping[str, Any], Schema()] = {}

    about: ClassVar[About] = About(
        effect=EffectClass.REPEATABLE,
        waits="person",
        recorded=True,
        ledger_only=True,
        asks=True,
        did="asked a person",
        changed=("question_changed", "asks a person something else; read it"),
    )


class ValidateApproval(Value, frozen=True, tag_field="type", tag="validate_approval"):
    scope: Annotated[ApprovalScope, Inner()]

    about: ClassVar[About] = About(
        effect=EffectClass.READS,
        asks=True,
        did="asked a person",
        changed=("approval_scope_changed", "wants an approval of something else; read it"),
    )


class WaitFor(Value, frozen=True, tag_field="type", tag="wait_for"):
    condition: Annotated[WaitCondition, Inner()]
    timeout_ms: Annotated[int, Duration("timeout of the wait")]
    pane_id: Annotated[int | None, PaneName()] = None

    about: ClassVar[About] = About(
        effect=EffectClass.REPEATABLE,
        waits="outside",
        recorded=True,
        ledger_only=True,
        did="waited for something",
        changed=("wait_changed", "waits for something else or for another time; read it"),
    )


class WaitForFile(Value, frozen=True, tag_field="type", tag="wait_for_file"):
    """Wait until a file is in the workspace; what is in it is not looked at."""

    path: Annotated[str, PathRead(expected=False)]
    timeout_ms: Annotated[int | None, Duration("timeout of the wait")] = None
    """How long to wait for it; absent, as long as the step may take."""

    about: ClassVar[About] = About(
        effect=EffectClass.READS,
        kind="read",
        target=attrgetter("path"),
        waits="outside",
        did="waited for `{0.path}`",
        changed=("wait_changed", "waits for another file or for another time; read it"),
    )


class AcquireLock(Value, frozen=True, tag_field="type", tag="acquire_lock"):
    """Have a named lock that no other run has, waiting for it where one does."""

    lock_name: Annotated[str, Name("lock name", "lock")]
    timeout_ms: Annotated[int | None, Duration("timeout of the lock")] = None
    """How long to wait for it; absent, as long as the step may take."""

    about: ClassVar[About] = About(
        effect=EffectClass.REPEATABLE,
        target=attrgetter("lock_name"),
        waits="outside",
        recorded=True,
        ledger_only=True,
        held=True,
        did="took the lock `{0.lock_name}`",
        changed=("lock_changed", "takes another lock, or waits for it for another time"),
    )


class ReleaseLock(Value, frozen=True, tag_field="type", tag="release_lock"):
    """Give a named lock back before the run ends, which does it too."""

    lock_name: Annotated[str, Name("lock name", "lock")]

    about: ClassVar[About] = replace(AcquireLock.about, did="released the lock `{0.lock_name}`", changed=None)


class StoreData(Value, frozen=True, tag_field="type", tag="store_data"):
    key: Annotated[str, DataKey("key")]
    value: Annotated[Any, Payload()]

    about: ClassVar[About] = About(
        effect=EffectClass.REPEATABLE, target=attrgetter("key"), ledger_only=True, did="stored `{0.key}`"
    )


class SendText(Value, frozen=True, tag_field="type", tag="send_text"):
    text: Annotated[str, Prose("text", machine=True)]
    pane_id: Annotated[int | None, PaneName()] = None
    pane: Annotated[str | None, PaneName()] = None
    keys: Annotated[tuple[str, ...], Picked()] = ()
    paste_mode: Annotated[bool | None, Picked()] = None

    about: ClassVar[About] = About(
        effect=EffectClass.OPAQUE,
        kind="pane",
        target=lambda action: action.pane or f"pane {action.pane_id}",
        did="sent text to a pane",
        unsupported=True,
    )


class RunWorkflow(Value, frozen=True, tag_field="type", tag="run_workflow"):
    workflow_id: Annotated[str, Name("workflow")]
    params: Annotated[Mapping[str, Any], Payload()] = {}

    about: ClassVar[About] = About(
        effect=EffectClass.OPAQUE,
        target=attrgetter("workflow_id"),
        did="ran the workflow `{0.workflow_id}`",
        unsupported=True,
    )


class MarkEventHandled(Value, frozen=True, tag_field="type", tag="mark_event_handled"):
    event_id: Annotated[int, Number()]

    about: ClassVar[About] = About(
        effect=EffectClass.REPEATABLE, did="marked the event {0.event_id} as handled", unsupported=True
    )


class Custom(Value, frozen=True, tag_field="type", tag="custom"):
    """An action carried out by a handler registered under this type."""

    action_type: Annotated[str, HandlerName("action type")]
    payload: Annotated[Any, Payload()] = None

    about: ClassVar[About] = About(effect=EffectClass.OPAQUE, did="did `{0.action_type}`")


def lock_taken(action: object) -> str | None:
    """The lock that an action takes, if it takes one."""
    return action.lock_name if isinstance(action, AcquireLock) else None


def lock_released(action: object) -> str | None:
    """The lock that an action gives back, if it gives one back."""
    return action.lock_name if isinstance(action, ReleaseLock) else None


def workflow_run(action: object) -> str | None:
    """The workflow that an action runs, if it runs one."""
    return action.workflow_id if isinstance(action, RunWorkflow) else None
