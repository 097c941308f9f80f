"""The Tasks extension of the protocol (2026-07-28): its wire forms, and its methods over a server's tasks. A client
that did not declare it with a request is told of no task; one that is not the caller's is as unknown as one that never
was."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ordain.core.plan.value import Instant
from ordain.core.text.problem import Problem, Refused
from ordain.interfaces.mcp.subscription import Context
from ordain.interfaces.mcp.surface import Answer, ClientCall, ProtocolTask, Tasks, TaskStatus

EXTENSION = "io.modelcontextprotocol/tasks"
TOLD_MAX = 32

Listen = Callable[[Context, types.SubscriptionsListenRequestParams], Any]
_log = logging.getLogger(__name__)


def created(task: ProtocolTask) -> dict[str, Any]:
    """The result of a call that is answered with a task: flat, and never with what comes of it."""
    return {"resultType": "task", **_task(task)}


def detailed(task: ProtocolTask, result: Callable[[Answer], dict[str, Any]]) -> dict[str, Any]:
    """A task with what its status brings along."""
    form = _task(task)
    match task.status:
        case TaskStatus.INPUT_REQUIRED:
            form["inputRequests"] = dict(task.inputs)
        case TaskStatus.COMPLETED:
            assert task.answer is not None
            form["result"] = result(task.answer)
        case TaskStatus.FAILED:
            form["error"] = {"code": types.INTERNAL_ERROR, "message": task.fault or task.message}
        case TaskStatus.WORKING | TaskStatus.CANCELLED:
            pass
    return form


def _task(task: ProtocolTask) -> dict[str, Any]:
    return {
        "taskId": task.task_id,
        "status": task.status.value,
        "statusMessage": task.message,
        "createdAt": _iso(task.created_at),
        "lastUpdatedAt": _iso(task.updated_at),
        "ttlMs": task.ttl_ms,
        "pollIntervalMs": task.poll_ms,
    }


def _iso(at: Instant) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def declared(context: Context) -> bool:
    """Whether the client declared the extension with this very request."""
    wanted = types.ClientCapabilities(extensions={EXTENSION: {}})
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS and context.session.check_client_capability(wanted)


def missing_extension() -> MCPError:
    return MCPError(
        types.MISSING_REQUIRED_CLIENT_CAPABILITY,
        f"Missing required client capability: the extension {EXTENSION}",
        {"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
    )


class TaskParams(types.RequestParams):
    """Which task."""

    task_id: str


class UpdateParams(TaskParams):
    """Which task, and what it asked for."""

    input_responses: dict[str, Any]


class TaskMethods:
    """`tasks/get`, `tasks/update`, `tasks/cancel`, and `notifications/tasks` on streams that ask for them. `calls`
    makes the call that a request is, `result` the result that an answer is, `shown` takes secrets out."""

    def __init__(
        self,
        tasks: Tasks,
        calls: Callable[[Context], ClientCall],
        result: Callable[[Answer], dict[str, Any]],
        shown: Callable[[Any], Any],
    ) -> None:
        self._tasks, self._calls, self._result, self._shown = tasks, calls, result, shown

    def add_to(self, server: Server[Any]) -> None:
        """Serve the extension; where the server has change streams, they tell of tasks too."""
        server.extensions[EXTENSION] = {}
        server.add_request_handler("tasks/get", TaskParams, self._get)
        server.add_request_handler("tasks/update", UpdateParams, self._update)
        server.add_request_handler("tasks/cancel", TaskParams, self._cancel)
        listen = server.get_request_handler("subscriptions/listen")
        if listen is not None:
            handler = self.listening(cast(Listen, listen.handler))
            server.add_request_handler("subscriptions/listen", types.SubscriptionsListenRequestParams, handler)

    async def _get(self, context: Context, params: TaskParams) -> dict[str, Any]:
        return self._told(await self._found(context, self._calls(context), params.task_id))

    async def _update(self, context: Context, params: UpdateParams) -> dict[str, Any]:
        call = self._calls(context)
        await self._found(context, call, params.task_id)
        with self._told_refusals(types.INVALID_PARAMS):
            await self._tasks.update(call, params.task_id, params.input_responses)
        return {}

    async def _cancel(self, context: Context, params: TaskParams) -> dict[str, Any]:
        call = self._calls(context)
        await self._found(context, call, params.task_id)
        with self._told_refusals():
            await self._tasks.cancel(call, params.task_id)
        return {}

    async def _found(self, context: Context, call: ClientCall, task_id: str) -> ProtocolTask:
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", context.method)
        # Over HTTP the header by which requests are routed must name the task; the SDK looks at its own methods only.
        headers: Mapping[str, str] | None = getattr(context.request, "headers", None)
        if headers is not None and decode_header_value(headers.get(MCP_NAME_HEADER)) != task_id:
            message = f"{MCP_NAME_HEADER} header does not match the request body's 'taskId' parameter"
            raise MCPError(types.HEADER_MISMATCH, message)
        if not declared(context):
            raise missing_extension()
        with self._told_refusals():
            task = await self._tasks.get(call, task_id)
        if task is None:
            raise MCPError(types.INVALID_PARAMS, f"Task not found: {task_id}")
        return task

    @contextmanager
    def _told_refusals(self, code: int = types.INTERNAL_ERROR) -> Iterator[None]:
        """Around what may be refused: that is told as an error with this code."""
        try:
            yield
        except Refused as refused:
            words = self._shown(refusal_words(refused.problems))
            raise MCPError(code, words, {"code": refused.problems[0].code}) from refused

    def _told(self, task: ProtocolTask) -> dict[str, Any]:
        told: dict[str, Any] = self._shown(detailed(task, self._result))
        return told

    def listening(self, listen: Listen) -> Listen:
        """A handler of change streams that tells of the tasks a client names besides all that `listen` tells."""

        async def handler(context: Context, params: types.SubscriptionsListenRequestParams) -> Any:
            named = (params.notifications.model_extra or {}).get("taskIds")
            if not named:
                return await listen(context, params)
            if not declared(context):
                raise missing_extension()
            if not isinstance(named, list) or not all(isinstance(one, str) for one in named):
                raise MCPError(types.INVALID_PARAMS, "taskIds must be a list of strings")
            call = self._calls(context)
            asked = list(dict.fromkeys(named))[:TOLD_MAX]
            with self._told_refusals():
                known = [one for one in asked if await self._tasks.get(call, one) is not None]
            stream = _TaskStream(context.session, known)
            result: Any = None
            async with anyio.create_task_group() as group:
                for one in known:
                    group.start_soon(self._tell, context, stream, call, one)
                try:
                    result = await listen(replace(context, session=cast(ServerSession, stream)), params)
                except MCPError as error:
                    result = error.error  # raised, it would reach the client as a group that nobody can read
                group.cancel_scope.cancel()
            return result

        return handler

    async def _tell(self, context: Context, stream: _TaskStream, call: ClientCall, task_id: str) -> None:
        await stream.acknowledged.wait()
        meta = {SUBSCRIPTION_ID_META_KEY: context.request_id}
        try:
            async with aclosing(self._tasks.changes(call, task_id)) as changes:
                async for task in changes:
                    notification = TaskNotification(params={"_meta": meta, **self._told(task)})
                    await stream.send_notification(cast(Any, notification), related_request_id=context.request_id)
        except Refused:
            _log.exception("%s is no longer told of", task_id)


class TaskNotification(types.Notification[dict[str, Any], str]):
    """How a task stands now."""

    method: str = "notifications/tasks"
    params: dict[str, Any]


class _TaskStream:
    """A session whose acknowledgement names the tasks that are told of, and which says when it was sent."""

    def __init__(self, session: ServerSession, task_ids: list[str]) -> None:
        self._session, self._task_ids = session, task_ids
        self.acknowledged = anyio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def send_notification(
        self, notification: types.ServerNotification, related_request_id: types.RequestId | None = None
    ) -> None:
        acknowledges = isinstance(notification, types.SubscriptionsAcknowledgedNotification)
        if isinstance(notification, types.SubscriptionsAcknowledgedNotification) and self._task_ids:
            honored = notification.params.notifications.model_copy(update={"taskIds": self._task_ids})
            params = notification.params.model_copy(update={"notifications": honored})
            notification = notification.model_copy(update={"params": params})
        await self._session.send_notification(notification, related_request_id=related_request_id)
        if acknowledges:
            self.acknowledged.set()


def refusal_words(problems: Sequence[Problem]) -> str:
    """What is wrong and the command that helps, where the protocol has room for a sentence only."""
    return " ".join(
        f"{problem.code}: {problem.detail}" + (f" {problem.command}" if problem.command is not None else "")
        for problem in problems
    )
