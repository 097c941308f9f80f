"""An MCP server that is a process of ours: what it may see, what is read from it, and its end.

It sees a few variables and those that the configuration names. A line that is no message is passed over, a few times;
one without an end ends it. When its session is over, everything that it started is ended with it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from ordain.adapters.processes import MARK, SERVERS, all_processes, end_all, mark_of, with_descendants

__all__ = ["served"]

SEEN = ("PATH", "HOME", "LANG")
"""The variables that every server sees."""
LINE_MAX = 32 << 20
GARBAGE_MAX = 100
"""How many lines may be no messages before a server is taken to speak something else."""
END_S = 1.0
"""How long a server that is told to end may take."""


@asynccontextmanager
async def served(
    command: Sequence[str], env: Sequence[str], workspace: Path, over: Callable[[], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of messages from and to a server, which runs in the workspace as long as this goes on; `over` is
    called when nothing more comes from it."""
    mark = f"tools/{uuid.uuid4().hex}"
    seen = {name: os.environ[name] for name in (*SEEN, *env) if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**seen, MARK: mark},
        cwd=workspace,
        start_new_session=True,
        limit=LINE_MAX,
    )
    SERVERS.add(process.pid)
    assert process.stdin is not None and process.stdout is not None
    stdin, stdout = process.stdin, process.stdout
    came, incoming = anyio.create_memory_object_stream[Any](0)
    outgoing, goes = anyio.create_memory_object_stream[Any](0)

    async def read() -> None:
        garbage = 0
        async with came:
            with suppress(ValueError, anyio.BrokenResourceError, anyio.ClosedResourceError):  # a line without an end
                while garbage < GARBAGE_MAX and (line := await stdout.readline()):
                    try:
                        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError:
                        garbage += bool(line.strip())
                        continue
                    await came.send(SessionMessage(message))
        over()

    async def write() -> None:
        async with goes:
            with suppress(OSError):
                async for one in goes:
                    stdin.write(one.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                    await stdin.drain()

    tasks = [asyncio.create_task(read()), asyncio.create_task(write())]
    try:
        yield incoming, outgoing
    finally:
        for task in tasks:
            task.cancel()
        for stream in (came, incoming, outgoing, goes):
            stream.close()
        ending = asyncio.gather(_end(process, mark), *tasks, return_exceptions=True)
        while not ending.done():  # however often somebody cancels it: a server that is left would be left for good
            with suppress(asyncio.CancelledError):
                await asyncio.shield(ending)


async def _end(process: asyncio.subprocess.Process, mark: str) -> None:
    assert process.stdin is not None and process.stdout is not None
    # Its end is only seen once everything was read that it wrote.
    rest = asyncio.create_task(_pass_over(process.stdout))
    with suppress(OSError):
        process.stdin.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(END_S):
            await process.wait()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await asyncio.to_thread(end_all, lambda: with_descendants(pid for pid in all_processes() if mark_of(pid) == mark))
    await process.wait()
    rest.cancel()
    SERVERS.discard(process.pid)


async def _pass_over(stream: asyncio.StreamReader) -> None:
    while await stream.read(1 << 16):
        pass
