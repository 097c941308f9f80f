"""A server of tools that is a process of ours: what it sees, the lines it writes, its end with all it started."""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from ordain.adapters.process.outside import environment, private_directory, started
from ordain.adapters.process.process import MARK, SERVERS, all_processes, end_all, mark_of, with_descendants
from ordain.core.plan.tool import ToolSource

SEEN = ("PATH", "HOME", "LANG")
LINE_MAX = 32 << 20
UNSENT_MAX = 64 << 20
GARBAGE_MAX = 100
"""How many lines may be no messages before a server is taken to speak something else."""
END_S = 1.0
"""How long a server that is told to end may take."""


class ServerProcess:
    """A server that runs in an empty directory of its own, outside the workspace. Who starts one ends it."""

    def __init__(self, process: asyncio.subprocess.Process, mark: str, held: ExitStack) -> None:
        self._process, self._mark, self._held = process, mark, held
        assert process.stdin is not None and process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout

    @classmethod
    async def start(
        cls, source: ToolSource, workspace: Path, given: Mapping[str, str] | None = None, *, heard: bool = False
    ) -> ServerProcess:
        """Start it, with the variables that are given, or our own; `heard`: what it says on standard error is ours to
        pass on. Raises ValueError where what would be run is not as trusted, or lies in the workspace."""
        mark = f"tools/{uuid.uuid4().hex}"
        with ExitStack() as held:
            room = held.enter_context(private_directory(workspace))
            (room / "empty").mkdir(mode=0o700)
            code = room / "code"
            words = started(source.mcp, source.files, workspace, code, given)
            seen = {**environment((*SEEN, *source.env), workspace, given), MARK: mark}
            if source.files:  # Python finds what was trusted beside a script, and where the workspace would begin
                scripts = (os.path.dirname(word) for word in words if word.startswith(f"{code}/"))  # noqa: PTH120
                places = filter(None, (*scripts, str(code), seen.get("PYTHONPATH")))
                seen["PYTHONPATH"] = ":".join(dict.fromkeys(places))
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=None if heard else asyncio.subprocess.DEVNULL,
                env=seen,
                cwd=room / "empty",
                start_new_session=True,
                limit=LINE_MAX,
            )
            SERVERS.add(process.pid)
            return cls(process, mark, held.pop_all())

    async def lines(self) -> AsyncIterator[bytes]:
        """What it writes, until it ends or writes a line without an end."""
        with suppress(ValueError):
            while line := await self._stdout.readline():
                yield line

    def write(self, line: bytes) -> bool:
        """Hand it a line without waiting; whether it may still come to read it."""
        if self._stdin.is_closing() or self._stdin.transport.get_write_buffer_size() > UNSENT_MAX:
            return False
        self._stdin.write(line)
        return True

    async def drained(self) -> None:
        """Wait until it has read most of what it was handed."""
        await self._stdin.drain()

    async def end(self) -> None:
        """End it, however often somebody cancels that: a server that is left would be left for good."""
        ending = asyncio.ensure_future(self._end())
        while not ending.done():
            with suppress(asyncio.CancelledError):
                await asyncio.shield(ending)

    async def _end(self) -> None:
        # Its end is only seen once everything was read that it wrote.
        async def pass_over() -> None:
            with suppress(RuntimeError):  # who reads its lines may just be reading
                while await self._stdout.read(1 << 16):
                    pass

        rest = asyncio.create_task(pass_over())
        with suppress(OSError):
            self._stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await self._process.wait()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        ours = self._mark
        await asyncio.to_thread(
            end_all, lambda: with_descendants(pid for pid in all_processes() if mark_of(pid) == ours)
        )
        await self._process.wait()
        rest.cancel()
        self._held.close()
        SERVERS.discard(self._process.pid)


@asynccontextmanager
async def served(
    source: ToolSource, workspace: Path, over: Callable[[], None], given: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of messages from and to a server, like the SDK's transports. `over` is called when nothing more
    comes. A line that is no message is passed over, a few times."""
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

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
