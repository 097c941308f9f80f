"""Tasks of MCP's Tasks extension: how runs map to them, being told of changes, and their routing over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.message import SessionMessage
from starlette.testclient import TestClient

from tests.interfaces.json_rpc import TASKS
from tests.interfaces.workspace import KIM, Workspace
from tests.mcp.task_fixture import MemoryTasks, with_task_tools
from tests.patience import PATIENCE_S
from tests.words import (
    PLAN_SURFACE,
    Answer,
    Channel,
    ClientCall,
    Instant,
    OrdainServer,
    PlanId,
    Principal,
    RunId,
    RunReport,
    RunTasks,
    Tasks,
    TaskStatus,
    open_workspace,
    run_task,
)

_META = "io.modelcontextprotocol/"
CLIENT = Principal(name=KIM.name, channel=Channel.MCP)


def report(status: str) -> RunReport:
    return RunReport(
        run_id=RunId("RUN-A"),
        plan_id=PlanId("plan:" + "0" * 64),
        plan_hash="",
        title="A",
        status=status,
        steps=(),
        questions=(),
        reason="as asked",
        changed_at=Instant(5_000),
        took_ms=3_000,
    )


@pytest.mark.parametrize("status", ["executing", "pausing", "cancelling", "waiting", "paused", "stopped", "stalled"])
def test_a_run_that_has_not_ended_is_working_whatever_it_waits_for(status: str) -> None:
    task = run_task(report(status))
    assert (task.status, task.answer, task.inputs) == (TaskStatus.WORKING, None, {})
    assert (task.created_at, task.updated_at, task.ttl_ms) == (2_000, 5_000, None)
    assert task.poll_ms == (1_000 if status in ("executing", "pausing", "cancelling") else 10_000)


def test_what_must_happen_for_a_run_to_go_on_is_told() -> None:
    assert "Call plan_commit with plan=000000000000 to go on" in run_task(report("stopped")).message
    assert "goes on with: ordain resume RUN-A" in run_task(report("paused")).message
    assert "as asked" in run_task(report("cancelled")).message


def test_the_ends_of_a_run() -> None:
    completed, failed, cancelled = (run_task(report(one)) for one in ("completed", "failed", "cancelled"))
    assert [one.status for one in (completed, failed)] == [TaskStatus.COMPLETED] * 2
    assert completed.answer is not None
    assert completed.answer.failure is None
    assert failed.answer is not None
    assert failed.answer.failure is not None
    assert (cancelled.status, cancelled.answer) == (TaskStatus.CANCELLED, None)


async def nothing(done: float, total: float | None, words: str) -> None:
    """Progress that nobody is told."""


async def begun_run(workspace: Workspace, call: ClientCall) -> tuple[Tasks, str]:
    return RunTasks(), (await asyncio.to_thread(workspace.started, "asks.plan.md"))[0]


async def begun_in_memory(workspace: Workspace, call: ClientCall) -> tuple[Tasks, str]:
    tasks = MemoryTasks()

    async def work(asking: Any) -> Answer:
        return Answer(data=await asyncio.get_running_loop().create_future())

    return tasks, (await tasks.start(call, work)).task_id


@pytest.mark.parametrize("begun", [begun_run, begun_in_memory])
def test_what_all_tasks_have_in_common(workspace: Workspace, begun: Any) -> None:
    def call_of(by: Principal) -> ClientCall:
        return ClientCall(by, lambda: open_workspace(workspace.path), nothing)

    async def life() -> None:
        call, another = call_of(CLIENT), call_of(Principal(name="eve", channel=Channel.MCP))
        tasks, task_id = await begun(workspace, call)
        made = await tasks.get(call, task_id)
        assert made is not None
        assert made.status is TaskStatus.WORKING
        assert await tasks.get(another, task_id) is None
        assert await tasks.get(call, f"{task_id}A") is None
        async with aclosing(tasks.changes(call, task_id)) as changes:
            assert await anext(changes) == made
            await tasks.cancel(call, task_id)
            assert (await anext(changes)).status is TaskStatus.CANCELLED
            with pytest.raises(StopAsyncIteration):
                await anext(changes)
        await tasks.cancel(call, task_id)
        ended = await tasks.get(call, task_id)
        assert ended is not None
        assert (ended.status, ended.answer, ended.created_at) == (TaskStatus.CANCELLED, None, made.created_at)
        assert [one async for one in tasks.changes(call, task_id)] == [ended]

    asyncio.run(asyncio.wait_for(life(), PATIENCE_S))


class Stream:
    """A connection to a server in this process, of which one request is a change stream."""

    def __init__(self, send: Any, receive: Any) -> None:
        self._send, self._receive, self._asked = send, receive, 0

    async def ask(self, method: str, params: dict[str, Any], *, declares: bool = True) -> int:
        self._asked += 1
        extensions: dict[str, Any] = {TASKS: {}} if declares else {}
        meta = {
            f"{_META}protocolVersion": "2026-07-28",
            f"{_META}clientCapabilities": {"extensions": extensions},
        }
        request = types.JSONRPCRequest(jsonrpc="2.0", id=self._asked, method=method, params={**params, "_meta": meta})
        await self._send.send(SessionMessage(request))
        return self._asked

    async def next(self) -> dict[str, Any]:
        message: dict[str, Any] = (await self._receive.receive()).message.model_dump(by_alias=True, mode="json")
        return message

    async def result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        await self.ask(method, params)
        result = (await self.next())["result"]
        assert isinstance(result, dict)
        return result


@asynccontextmanager
async def streaming(workspace: Workspace, bus: InMemorySubscriptionBus) -> AsyncIterator[Stream]:
    server = OrdainServer(
        with_task_tools(PLAN_SURFACE), lambda: open_workspace(workspace.path, exact=True), lambda context: "ann"
    )
    assert server.tasks is not None
    server.lowlevel.add_request_handler(
        "subscriptions/listen",
        types.SubscriptionsListenRequestParams,
        server.tasks.listening(ListenHandler(bus, max_subscriptions=1)),
    )
    to_server, reading = anyio.create_memory_object_stream[SessionMessage | Exception](16)
    writing, from_server = anyio.create_memory_object_stream[SessionMessage](16)
    async with to_server, from_server, anyio.create_task_group() as group:
        options = server.lowlevel.create_initialization_options()
        group.start_soon(server.lowlevel.run, reading, writing, options)
        with anyio.fail_after(PATIENCE_S):
            yield Stream(to_server, from_server)
        group.cancel_scope.cancel()


def in_process(workspace: Workspace, talk: Callable[[Stream, InMemorySubscriptionBus], Any]) -> None:
    async def run() -> None:
        bus = InMemorySubscriptionBus()
        async with streaming(workspace, bus) as stream:
            await talk(stream, bus)

    anyio.run(run)


def test_a_change_stream_tells_of_the_tasks_it_names(workspace: Workspace) -> None:
    async def talk(stream: Stream, bus: InMemorySubscriptionBus) -> None:
        called = {"name": "confirm_delete", "arguments": {"filename": "x"}}
        task_id = (await stream.result("tools/call", called))["taskId"]
        wanted = {"toolsListChanged": True, "taskIds": [task_id, "no task"]}
        listening = await stream.ask("subscriptions/listen", {"notifications": wanted})

        first = await stream.next()
        assert first["method"] == "notifications/subscriptions/acknowledged"
        assert first["params"]["notifications"] == {"toolsListChanged": True, "taskIds": [task_id]}
        asks = await stream.next()
        assert asks["method"] == "notifications/tasks"
        assert asks["params"]["_meta"] == {f"{_META}subscriptionId": listening}
        assert (asks["params"]["taskId"], asks["params"]["status"]) == (task_id, "input_required")
        [key] = asks["params"]["inputRequests"]

        await bus.publish(ToolsListChanged())
        assert (await stream.next())["method"] == "notifications/tools/list_changed"

        given = {key: {"action": "accept", "content": {"confirm": True}}}
        updating = await stream.ask("tasks/update", {"taskId": task_id, "inputResponses": given})
        seen: list[dict[str, Any]] = []
        while not seen or seen[-1].get("status") != "completed":
            message = await stream.next()
            if message.get("id") != updating:
                seen.append(message["params"])
        got = await stream.result("tasks/get", {"taskId": task_id})
        told = seen[-1]
        assert {key: told[key] for key in told if key != "_meta"} == {
            key: got[key] for key in got if key not in ("_meta", "resultType")
        }

    in_process(workspace, talk)


def test_who_did_not_declare_the_extension_is_told_of_no_tasks(workspace: Workspace) -> None:
    async def talk(stream: Stream, bus: InMemorySubscriptionBus) -> None:
        await stream.ask("subscriptions/listen", {"notifications": {"taskIds": ["a"]}}, declares=False)
        error = (await stream.next())["error"]
        assert error["code"] == -32021
        assert error["data"] == {"requiredCapabilities": {"extensions": {TASKS: {}}}}

    in_process(workspace, talk)


def test_a_stream_that_is_refused_says_why(workspace: Workspace) -> None:
    async def talk(stream: Stream, bus: InMemorySubscriptionBus) -> None:
        task_id = (await stream.result("tools/call", {"name": "multi_input", "arguments": {}}))["taskId"]
        await stream.ask("subscriptions/listen", {"notifications": {"taskIds": [task_id]}})
        assert (await stream.next())["method"] == "notifications/subscriptions/acknowledged"
        refused = await stream.ask("subscriptions/listen", {"notifications": {"taskIds": [task_id]}})
        while (message := await stream.next()).get("id") != refused:
            assert message["method"] == "notifications/tasks"
        assert message["error"]["message"] == "Subscription limit reached"

    in_process(workspace, talk)


@pytest.mark.parametrize(
    ("header", "status", "code"), [("RUN-A", 400, -32602), ("RUN-B", 400, -32020), (None, 400, -32020)]
)
def test_over_http_the_header_must_name_the_task(
    workspace: Workspace, header: str | None, status: int, code: int
) -> None:
    server = OrdainServer(PLAN_SURFACE, lambda: open_workspace(workspace.path, exact=True), lambda context: "ann")
    meta = {f"{_META}protocolVersion": "2026-07-28", f"{_META}clientCapabilities": {"extensions": {TASKS: {}}}}
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tasks/get",
        **({"mcp-name": header} if header is not None else {}),
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"taskId": "RUN-A", "_meta": meta}}
    with TestClient(server.lowlevel.streamable_http_app(), base_url="http://127.0.0.1:8000") as client:
        answered = client.post("/mcp", json=body, headers=headers)
    assert (answered.status_code, answered.json()["error"]["code"]) == (status, code)
