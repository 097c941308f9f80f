"""Everything that `ordain mcp` offers, and serving it: on standard input and output, or over streams in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

import anyio
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from ordain import __version__
from ordain.interfaces.mcp.follow import RunTasks
from ordain.interfaces.mcp.prompts import PLAN_PROMPTS
from ordain.interfaces.mcp.resources import PLAN_RESOURCES, listed_plans, new_plans
from ordain.interfaces.mcp.server import OrdainServer
from ordain.interfaces.mcp.surface import Surface, Workspaces
from ordain.interfaces.mcp.texts import mcp_texts
from ordain.interfaces.mcp.tools import PLAN_TOOLS

PLAN_SURFACE = Surface(
    name="ordain",
    title="Ordain",
    version=__version__,
    instructions=mcp_texts()["instructions"],
    tools=PLAN_TOOLS,
    resources=listed_plans,
    news=new_plans,
    templates=PLAN_RESOURCES,
    prompts=PLAN_PROMPTS,
    tasks=RunTasks(),
)


def serve_stdio(workspaces: Workspaces, user: str) -> None:
    """Serve one client, which started this process and is the user it runs as, until it closes the stream."""
    server = OrdainServer(PLAN_SURFACE, workspaces, lambda context: user).lowlevel

    async def serve() -> None:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    anyio.run(serve)


class OwnServer:
    """ports.Upstream with a server in this process, which the gateway has behind it."""

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
