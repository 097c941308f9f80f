"""An MCP server that is a process of ours, as the SDK's transports are: streams of messages from and to it.

A line that is no message is passed over, a few times.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from ordain.adapters.process.server import GARBAGE_MAX, ServerProcess
from ordain.core.plan.tool import ToolSource


@asynccontextmanager
async def served(
    source: ToolSource, workspace: Path, over: Callable[[], None], given: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of messages from and to a server, which runs as long as this goes on; `over` is called when nothing
    more comes from it."""
    process = await ServerProcess.start(source, workspace, given)
    came, incoming = anyio.create_memory_object_stream[Any](0)
    outgoing, goes = anyio.create_memory_object_stream[Any](0)

    async def read() -> None:
        garbage = 0
        async with came:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                async for line in process.lines():
                    try:
                        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError:
                        garbage += bool(line.strip())
                        if garbage >= GARBAGE_MAX:
                            break
                        continue
                    await came.send(SessionMessage(message))
        over()

    async def write() -> None:
        async with goes:
            with suppress(OSError):
                async for one in goes:
                    process.write(one.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                    await process.drained()

    tasks = [asyncio.create_task(read()), asyncio.create_task(write())]
    try:
        yield incoming, outgoing
    finally:
        for task in tasks:
            task.cancel()
        for stream in (came, incoming, outgoing, goes):
            stream.close()
        await process.end()
        await asyncio.gather(*tasks, return_exceptions=True)
