"""Ordain's own server as one of those behind the gateway: in this process, over streams in memory.

The only module of the gateway that needs the SDK, which takes a while to load: it does so beside whatever else goes on.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from ordain.interfaces.gateway.front import Caller
from ordain.interfaces.mcp.surface import Workspaces
from ordain.ports.tool import Upstream

_RESOURCES = {"subscribe": True, "listChanged": True}
OWN_CAPABILITIES: Mapping[bool, Mapping[str, Any]] = {
    False: {
        "tools": {"listChanged": False},
        "resources": {"subscribe": True, "listChanged": False},
        "prompts": {"listChanged": False},
        "completions": {},
    },
    True: {
        "tools": {"listChanged": False},
        "resources": _RESOURCES,
        "prompts": {"listChanged": False},
        "completions": {},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    },
}
"""What our own server can do, by whether the client speaks the modern era: known before it is started."""


def own_server(workspaces: Workspaces) -> Callable[[Caller], Awaitable[Upstream]]:
    """How a session with our own server is begun."""

    async def open_own(caller: Caller) -> Upstream:
        for name in ("plan_surface", "server"):
            await asyncio.to_thread(importlib.import_module, f"ordain.interfaces.mcp.{name}")
        return _Own(workspaces, caller)

    return open_own


class _Own:
    """ports.Upstream with a server in this process."""

    noise = ""

    def __init__(self, workspaces: Workspaces, caller: Caller) -> None:
        import anyio

        from ordain.interfaces.mcp.plan_surface import PLAN_SURFACE
        from ordain.interfaces.mcp.server import OrdainServer

        server = OrdainServer(PLAN_SURFACE, workspaces, lambda context: caller.name).lowlevel
        self._in, reading = anyio.create_memory_object_stream[Any](float("inf"))
        writing, self._out = anyio.create_memory_object_stream[Any](0)
        options = server.create_initialization_options()
        self._task = asyncio.create_task(server.run(reading, writing, options))

    def send(self, message: Mapping[str, Any]) -> None:
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        with suppress(ValueError):  # what is no message to the SDK it would not take either
            self._in.send_nowait(SessionMessage(jsonrpc_message_adapter.validate_python(message)))

    async def messages(self) -> AsyncIterator[dict[str, Any]]:
        async for one in self._out:
            yield one.message.model_dump(by_alias=True, mode="json", exclude_unset=True)

    async def close(self) -> None:
        self._in.close()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._out.close()
