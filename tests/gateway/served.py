"""The real `ordain mcp --gateway --http` in a process of its own, and a client that holds one connection to it and
says exactly what a test says."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from tests.gateway.asgi import ACCEPT, LEGACY, MODERN, modern, notification, request
from tests.interfaces.workspace import Workspace
from tests.patience import PATIENCE_S
from tests.words import Instant, open_clients

Json = dict[str, Any]
GATEWAY = (sys.executable, "-m", "ordain", "mcp", "--gateway", "--http", "--port", "0")
FRESH_S = 2
"""How long a connection is used again: a server closes what nobody uses."""


def fronting(tmp_path: Path, *words: str) -> Workspace:
    """A workspace with `many_server.py` behind its gateway, which keeps what it was asked in `asked.PID`. `say` is
    open, `send` needs a plan."""
    (tmp_path / "workspace").mkdir()
    workspace = Workspace(tmp_path / "workspace")
    server = Path(__file__).with_name("many_server.py")
    command = json.dumps([sys.executable, "-I", "-S", str(server), str(tmp_path / "asked"), *words])
    guard = '[guard]\nmode = "enforce"\nopen = ["many:say"]\n'
    workspace.trust(f'{guard}[tools.many]\nmcp = {command}\neffects = {{ say = "reads" }}\n')
    return workspace


def token(workspace: Workspace, name: str) -> str:
    """The token of a new client."""
    return open_clients(str(workspace.path)).add(name, Instant(0))


@contextmanager
def gateway(workspace: Path, command: Sequence[str] = GATEWAY) -> Iterator[int]:
    """The port of a gateway over a workspace, until it is ended by a signal."""
    with subprocess.Popen(
        command, cwd=workspace, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as child:
        assert child.stderr is not None
        said = child.stderr.readline().decode()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/mcp", said)
        assert found is not None, said + child.stderr.read().decode()
        try:
            yield int(found.group(1))
        finally:
            child.terminate()
            said = child.stderr.read().decode()
        assert child.wait(PATIENCE_S) == 0, said
        assert "Traceback" not in said, said


class Client:
    """One client. A request holds a connection until it is answered, as HTTP has it."""

    def __init__(self, port: int, token: str, *, legacy: bool) -> None:
        self._port, self._token, self._legacy = port, token, legacy
        self._session: str | None = None
        self._number = 0
        self._idle: list[tuple[float, asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def begin(self) -> None:
        """Greet, and ask which tools there are."""
        if self._legacy:
            info = {"name": "tests", "version": "1"}
            params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": info}
            async with self._asked(request("initialize", 0, **params)) as (headers, messages):
                self._session = headers["mcp-session-id"]
                assert [one["id"] async for one in messages] == [0]
            await self.say(notification("notifications/initialized"))
        listed = (await self.ask("tools/list"))[-1]["result"]["tools"]
        assert {"say", "send"} <= {tool["name"] for tool in listed}

    async def ask(self, method: str, **params: Any) -> list[Json]:
        """All that a request is answered."""
        async with self.asking(method, **params) as (_, messages):
            return [message async for message in messages]

    @asynccontextmanager
    async def asking(self, method: str, **params: Any) -> AsyncIterator[tuple[int, AsyncIterator[Json]]]:
        """A request that is under way: its id, and what it is answered. To leave early is to drop the connection."""
        self._number += 1
        number = self._number
        message = (request if self._legacy else modern)(method, number, **params)
        async with self._asked(message) as (_, messages):
            yield number, messages

    async def say(self, message: Json) -> None:
        async with self._asked(message) as (_, messages):
            assert [one async for one in messages] == []

    @asynccontextmanager
    async def _asked(self, message: Json) -> AsyncIterator[tuple[Mapping[str, str], AsyncIterator[Json]]]:
        reader, writer = await self._connection()
        whole = False
        try:
            writer.write(self._request(message))
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            status = int(head.split(" ", 2)[1])
            headers = {key.lower(): value for key, value in re.findall(r"^([\w-]+): (.*)\r$", head, re.MULTILINE)}
            assert status in (200, 202), head + (await reader.read(1000)).decode()

            async def messages() -> AsyncIterator[Json]:
                nonlocal whole
                async for one in _messages(reader, headers):
                    yield one
                whole = True

            yield headers, messages()
        finally:
            if whole:
                self._idle.append((time.monotonic(), reader, writer))
            else:
                writer.close()

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while self._idle:
            since, reader, writer = self._idle.pop()
            if time.monotonic() - since < FRESH_S:
                return reader, writer
            writer.close()
        return await asyncio.open_connection("127.0.0.1", self._port)

    def _request(self, message: Json) -> bytes:
        body = json.dumps(message).encode()
        lines = ["POST /mcp HTTP/1.1", f"Host: 127.0.0.1:{self._port}", f"Authorization: Bearer {self._token}"]
        lines += ["Content-Type: application/json", f"Accept: {ACCEPT}", f"Content-Length: {len(body)}"]
        if self._session is not None:
            lines += [f"Mcp-Session-Id: {self._session}", f"MCP-Protocol-Version: {LEGACY}"]
        elif not self._legacy:
            lines += [f"MCP-Protocol-Version: {MODERN}", f"Mcp-Method: {message['method']}"]
            lines += [f"Mcp-Name: {message['params']['name']}"] if "name" in message.get("params", {}) else []
        return "\r\n".join([*lines, "", ""]).encode() + body

    def close(self) -> None:
        for _, _, writer in self._idle:
            writer.close()


async def _messages(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> AsyncIterator[Json]:
    if "content-length" in headers:
        body = await reader.readexactly(int(headers["content-length"]))
        if body:
            yield json.loads(body)
        return
    events = b""
    while size := int(await reader.readline(), 16):
        events += (await reader.readexactly(size + 2))[:-2]
        *whole, events = events.split(b"\r\n\r\n")
        for event in whole:
            found = re.search(rb"^data: (.*)$", event, re.MULTILINE)
            if found is not None:
                yield json.loads(found.group(1))
    await reader.readline()
