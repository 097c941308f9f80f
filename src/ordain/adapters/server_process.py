"""A server of tools that is a process of ours: what it may see, the lines it writes, and its end.

It sees a few variables and those that the configuration names. A line without an end ends it. When its session is over,
everything that it started is ended with it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path

from ordain.adapters.processes import MARK, SERVERS, all_processes, end_all, mark_of, with_descendants

__all__ = ["GARBAGE_MAX", "LINE_MAX", "ServerProcess"]

SEEN = ("PATH", "HOME", "LANG")
"""The variables that every server sees."""
LINE_MAX = 32 << 20
UNSENT_MAX = 64 << 20
"""How much may wait for a server that does not read."""
GARBAGE_MAX = 100
"""How many lines may be no messages before a server is taken to speak something else."""
END_S = 1.0
"""How long a server that is told to end may take."""


class ServerProcess:
    """A server that runs in the workspace. Who starts one ends it."""

    def __init__(self, process: asyncio.subprocess.Process, mark: str) -> None:
        self._process, self._mark = process, mark
        assert process.stdin is not None and process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout

    @classmethod
    async def start(
        cls, command: Sequence[str], env: Sequence[str], workspace: Path, *, heard: bool = False
    ) -> ServerProcess:
        """Start it; `heard` is whether what it says on standard error is ours to pass on."""
        mark = f"tools/{uuid.uuid4().hex}"
        seen = {name: os.environ[name] for name in (*SEEN, *env) if name in os.environ}
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=None if heard else asyncio.subprocess.DEVNULL,
            env={**seen, MARK: mark},
            cwd=workspace,
            start_new_session=True,
            limit=LINE_MAX,
        )
        SERVERS.add(process.pid)
        return cls(process, mark)

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
        rest = asyncio.create_task(self._pass_over())
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
        SERVERS.discard(self._process.pid)

    async def _pass_over(self) -> None:
        with suppress(RuntimeError):  # whoever read its lines may just be reading
            while await self._stdout.read(1 << 16):
                pass
