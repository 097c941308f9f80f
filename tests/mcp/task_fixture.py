"""What the conformance suite's `tasks-*` scenarios want of a server: tools that answer with tasks, and tasks in memory.

The tasks are a twin of those that are runs, behind the same port, with all that a run never does: asking the client for
input, and failing as a call. Only the tools that answer with an exact text, or ask before there is a task, speak the
protocol themselves.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

import mcp_types as types
import msgspec
from msgspec.structs import replace

from tests.words import (
    Answer,
    ClientCall,
    Context,
    Instant,
    OrdainServer,
    Problem,
    ProtocolTask,
    Surface,
    TaskStatus,
    Tool,
    created,
    declared,
    missing_extension,
    refuse,
)

__all__ = ["MemoryTasks", "add_raw_task_tools", "with_task_tools"]

Work = Callable[[Any], Awaitable[Answer]]


class MemoryTasks:
    """Tasks for as long as this process is there."""

    def __init__(self) -> None:
        self._tasks: dict[str, _Entry] = {}

    async def start(self, call: ClientCall, work: Work) -> ProtocolTask:
        """Begin work that nobody waits for; the task that it is."""
        now = _now()
        task_id = str(uuid.uuid4())
        task = ProtocolTask(
            task_id=task_id,
            status=TaskStatus.WORKING,
            message="At work",
            created_at=now,
            updated_at=now,
            poll_ms=100,
            ttl_ms=3_600_000,
        )
        entry = self._tasks[task_id] = _Entry(call.by.name, task)
        entry.work = asyncio.ensure_future(self._carry_out(entry, work))
        return task

    async def _carry_out(self, entry: _Entry, work: Work) -> None:
        try:
            answer = await work(Asking(entry))
            entry.change(status=TaskStatus.COMPLETED, message="Done", answer=answer)
        except RuntimeError as error:
            entry.change(status=TaskStatus.FAILED, message="Failed", fault=str(error))

    async def get(self, call: ClientCall, task_id: str) -> ProtocolTask | None:
        entry = self._tasks.get(task_id)
        return entry.task if entry is not None and entry.owner == call.by.name else None

    async def update(self, call: ClientCall, task_id: str, given: Mapping[str, Any]) -> None:
        entry = self._tasks[task_id]
        for key in given.keys() & entry.task.inputs.keys():
            entry.given[key] = given[key]
        left = {key: one for key, one in entry.task.inputs.items() if key not in entry.given}
        status = TaskStatus.INPUT_REQUIRED if left else TaskStatus.WORKING
        if not entry.task.status.ended:
            entry.change(inputs=left, status=status)

    async def cancel(self, call: ClientCall, task_id: str) -> None:
        entry = self._tasks[task_id]
        if entry.work is not None and not entry.task.status.ended:
            entry.work.cancel()
            await asyncio.wait([entry.work])
            entry.change(status=TaskStatus.CANCELLED, message="Cancelled")

    async def changes(self, call: ClientCall, task_id: str) -> AsyncGenerator[ProtocolTask, None]:
        entry, told = self._tasks[task_id], -1
        while True:
            task, changed = entry.task, entry.changed
            if entry.number != told:
                told = entry.number
                yield task
                if task.status.ended:
                    return
            await changed.wait()


class _Entry:
    """One task, whose it is, and who carries it out."""

    def __init__(self, owner: str, task: ProtocolTask) -> None:
        self.owner, self.task, self.number = owner, task, 0
        self.work: asyncio.Future[None] | None = None
        self.given: dict[str, Any] = {}
        self.changed = asyncio.Event()

    def change(self, **fields: Any) -> None:
        self.task = replace(self.task, updated_at=_now(), **fields)
        self.number += 1
        self.changed.set()
        self.changed = asyncio.Event()


class Asking:
    """How work asks the client of its task for input."""

    def __init__(self, entry: _Entry) -> None:
        self._entry = entry

    async def __call__(self, *messages: str) -> list[Any]:
        """What the client gives when it is asked all of these at once."""
        entry = self._entry
        asked = {str(uuid.uuid4()): _elicitation(message, "confirm", "boolean") for message in messages}
        entry.change(status=TaskStatus.INPUT_REQUIRED, message="Asks", inputs=asked)
        while not asked.keys() <= entry.given.keys():
            await entry.changed.wait()
        return [entry.given[key] for key in asked]


def _now() -> Instant:
    return Instant(int(time.time() * 1000))


def _elicitation(message: str, name: str, kind: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    return {"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}}


# --- Tools ---------------------------------------------------------------------------------------------------------


class _Nothing(msgspec.Struct, frozen=True, kw_only=True):
    """No arguments."""


class _Greet(msgspec.Struct, frozen=True, kw_only=True):
    name: str


class _Slow(msgspec.Struct, frozen=True, kw_only=True):
    seconds: float
    label: str = ""


class _Delete(msgspec.Struct, frozen=True, kw_only=True):
    filename: str


def with_task_tools(surface: Surface) -> Surface:
    """The surface with the fixture's tools, whose tasks take the place of its own."""
    tasks = MemoryTasks()

    def tool(name: str, arguments: type[msgspec.Struct], work: Callable[[Any], Work]) -> Tool:
        async def call(call: ClientCall, given: Any) -> Answer | ProtocolTask:
            if call.takes_tasks:
                return await tasks.start(call, work(given))
            return await work(given)(_nobody_asks)

        return Tool(name=name, title=name, description=name, arguments=arguments, results=(str,), call=call)

    added = (
        tool("greet", _Greet, _never),
        tool("slow_compute", _Slow, _slow),
        tool("failing_job", _Nothing, _failing),
        tool("protocol_error_job", _Nothing, _protocol_error),
        tool("confirm_delete", _Delete, _confirm),
        tool("multi_input", _Nothing, _several),
        tool("test_tool_with_task", _Nothing, _never),
    )
    return replace(surface, tools=(*surface.tools, *added), tasks=tasks)


def _slow(given: _Slow) -> Work:
    async def work(asking: Asking) -> Answer:
        await asyncio.sleep(given.seconds)
        return Answer(data=f"Computed {given.label}")

    return work


def _failing(given: _Nothing) -> Work:
    async def work(asking: Asking) -> Answer:
        await asyncio.sleep(1)
        return Answer(data="It went wrong", failure=Problem(code="F_STEP_FAILED", detail="It went wrong"))

    return work


def _protocol_error(given: _Nothing) -> Work:
    async def work(asking: Asking) -> Answer:
        raise RuntimeError("The call itself failed")

    return work


def _confirm(given: _Delete) -> Work:
    async def work(asking: Asking) -> Answer:
        [said] = await asking(f"Delete {given.filename}?")
        return Answer(data=f"{said}")

    return work


def _several(given: _Nothing) -> Work:
    async def work(asking: Asking) -> Answer:
        return Answer(data=f"{await asking('One?', 'Two?')}")

    return work


def _never(given: Any) -> Work:
    raise AssertionError("add_raw_task_tools answers this one")


async def _nobody_asks(*messages: str) -> list[Any]:
    raise refuse("E_CALL_ARGUMENTS", "This tool asks for input, which needs a task.")


# --- Tools that speak the protocol ---------------------------------------------------------------------------------


def add_raw_task_tools(server: OrdainServer) -> None:
    """Have a server whose surface has the fixture's tools answer those of them that know the protocol."""
    tasks = server.surface.tasks
    assert isinstance(tasks, MemoryTasks)
    entry = server.lowlevel.get_request_handler("tools/call")
    assert entry is not None
    others = entry.handler

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> Any:
        match params.name:
            case "greet":
                text = f"Hello, {(params.arguments or {})['name']}!"
                return types.CallToolResult(content=[types.TextContent(type="text", text=text)])
            case "failing_job" | "test_tool_with_task" if not declared(context):
                raise missing_extension()
            case "test_tool_with_task":
                return await _gather(tasks, server.call(context), params)
            case _:
                return await others(context, params)

    server.lowlevel.add_request_handler("tools/call", types.CallToolRequestParams, call_tool)


async def _gather(tasks: MemoryTasks, call: ClientCall, params: types.CallToolRequestParams) -> dict[str, Any]:
    """First ask for a name, then begin a task with it."""
    if not params.input_responses:
        asked = {"user_name": _elicitation("Your name?", "name", "string")}
        return {"resultType": "input_required", "inputRequests": asked}
    said = params.model_dump(by_alias=True, mode="json")["inputResponses"]["user_name"]

    async def work(asking: Asking) -> Answer:
        return Answer(data=f"Hello, {said['content']['name']}!")

    return created(await tasks.start(call, work))
