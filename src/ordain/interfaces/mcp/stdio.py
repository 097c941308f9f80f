"""The server over standard input and output: one client, which started this process and is the user it runs as."""

from __future__ import annotations

import anyio
from mcp.server.stdio import stdio_server

from ordain.interfaces.mcp.plan_surface import PLAN_SURFACE
from ordain.interfaces.mcp.server import OrdainServer
from ordain.interfaces.mcp.surface import Workspaces


def serve_stdio(workspaces: Workspaces, user: str) -> None:
    """Serve until the client closes the stream."""
    server = OrdainServer(PLAN_SURFACE, workspaces, lambda context: user).lowlevel

    async def serve() -> None:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    anyio.run(serve)
