"""A minimal pass-through proxy made with the SDK, and nothing else: tools are listed and called as they come.

`python peer_proxy.py stdio|http COMMAND…`; over HTTP it says its port first.
"""

from __future__ import annotations

import socket
import sys
from typing import Any

import anyio
import mcp_types as types
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server


async def main(how: str, command: str, *args: str) -> None:
    async with Client(stdio_client(StdioServerParameters(command=command, args=list(args)))) as behind:

        async def listed(context: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
            return await behind.list_tools()

        async def called(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
            return await behind.call_tool(params.name, params.arguments)

        server: Server[Any] = Server("proxy", on_list_tools=listed, on_call_tool=called)
        if how == "stdio":
            async with stdio_server() as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())
            return
        import uvicorn

        listening = socket.create_server(("127.0.0.1", 0))
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as ours, and as uvicorn's own sockets
        print(listening.getsockname()[1], file=sys.stderr, flush=True)
        config = uvicorn.Config(server.streamable_http_app(), http="h11", log_level="critical")
        await uvicorn.Server(config).serve(sockets=[listening])


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
