"""Everything that `ordain mcp` offers, and serving it on standard input and output."""

from __future__ import annotations

import anyio
from mcp.server.stdio import stdio_server

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
