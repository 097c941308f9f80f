"""Ordain's own server as one of those behind the gateway: in this process, over streams in memory. The only module of
the gateway that needs the SDK, which takes a while to load."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from ordain.interfaces.mcp.plan_surface import PLAN_SURFACE
from ordain.interfaces.mcp.server import OrdainServer
from ordain.interfaces.mcp.surface import Workspaces


class OwnServer:
    """ports.Upstream with a server in this process."""

    noise = ""

    def __init__(self, workspaces: Workspaces, caller: str) -> None:
        server = OrdainServer(PLAN_SURFACE, workspaces, lambda context: caller).lowlevel
        self._in, reading = anyio.create_memory_object_stream[Any](float("inf"))
        writing, self._out = anyio.create_memory_object_stream[Any](0)
        options = server.create_initialization_options()
        self._task = asyncio.create_task(server.run(reading, writing, options))

    def send(self, message: Mapping[str, Any]) -> None:
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
