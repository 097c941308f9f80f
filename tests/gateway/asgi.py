"""A gateway over HTTP in this process, with a relay that says what a test says, and requests to it whose client may
leave at any time."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from ordain.interfaces.gateway.relay import Send as Sending
from ordain.interfaces.http.entrance import Message
from tests.patience import PATIENCE_S
from tests.words import Entrance, GatewayHttp, gateway_application
from tests.words import Id as RequestId
from tests.words import Message as Json

HOST = "localhost:1"
TOKENS = {"anna's": "anna", "anna's next": "anna", "bert's": "bert"}
LEGACY, MODERN = "2025-11-25", "2026-07-28"
ACCEPT = "application/json, text/event-stream"
META = "io.modelcontextprotocol/"

Does = Callable[["Relay", Json], Awaitable[None]]


class Relay:
    """Keeps what it received and does as it is told: nothing, unless the test says what."""

    def __init__(self, send: Sending, client: str, does: Does | None, *, greets: bool = True) -> None:
        self.send, self.client, self.closed = send, client, False
        self.got: list[Json] = []
        self._does, self._greets, self._arrived = does, greets, asyncio.Event()

    async def received(self, message: Json) -> None:
        self.got.append(message)
        self._arrived.set()
        if self._greets and message.get("method") == "initialize":
            await self.answer(message["id"], {"protocolVersion": LEGACY})
        elif self._does is not None:
            await self._does(self, message)

    async def close(self) -> None:
        self.closed = True

    async def answer(self, number: RequestId, result: Any) -> None:
        await self.send({"jsonrpc": "2.0", "id": number, "result": result}, None)

    async def tell(self, method: str, related: RequestId | None = None, **params: Any) -> None:
        await self.send({"jsonrpc": "2.0", "method": method, "params": params}, related)

    async def last(self, method: str) -> Json:
        """The newest message of this method, as soon as there is one."""
        while not (found := [one for one in self.got if one.get("method") == method]):
            self._arrived.clear()
            await self._arrived.wait()
        return found[-1]


class Reply(NamedTuple):
    """What a request was answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def messages(self) -> list[Json]:
        if self.headers.get("content-type") == "application/json":
            return [json.loads(self.body)]
        return [json.loads(found) for found in re.findall(r"^data: (.*)\r$", self.body.decode(), re.MULTILINE)]


class Asked:
    """A request that is under way."""

    def __init__(self, application: Entrance, scope: Json, body: bytes) -> None:
        self._sent: list[Message] = []
        self._gone, self._news, self._body = asyncio.Event(), asyncio.Event(), body
        self.reads = asyncio.Event()
        """Cleared, the client takes nothing of what is sent to it."""
        self.reads.set()
        self._task = asyncio.create_task(application(scope, self._receive, self._send))

    async def _receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        await self.reads.wait()
        self._sent.append(message)
        self._news.set()

    def leave(self) -> None:
        self._gone.set()

    async def until(self, said: bytes) -> None:
        """Wait until this was sent."""
        async with asyncio.timeout(PATIENCE_S):
            while said not in self.so_far.body:
                self._news.clear()
                await self._news.wait()

    @property
    def so_far(self) -> Reply:
        if not self._sent:
            return Reply(0, {}, b"")
        start, *parts = self._sent
        headers = {key.decode(): value.decode() for key, value in start["headers"]}
        return Reply(start["status"], headers, b"".join(part["body"] for part in parts))

    async def done(self) -> Reply:
        async with asyncio.timeout(PATIENCE_S):
            await self._task
        assert self._sent and not self._sent[-1].get("more_body"), "it was not answered to the end"
        return self.so_far


class Gateway:
    """One gateway and its clients."""

    def __init__(self, does: Does | None = None, *, greets: bool = True, **limits: Any) -> None:
        self.relays: list[Relay] = []

        def begin(send: Sending, client: str) -> Relay:
            self.relays.append(Relay(send, client, does, greets=greets))
            return self.relays[-1]

        async def close() -> None:
            self.closed = True

        self.closed = False
        self.inside = GatewayHttp(begin, close, **limits)
        self._application = gateway_application(self.inside, [HOST], TOKENS.get)

    def ask(self, body: Any = None, *, method: str = "POST", token: str = "anna's", **headers: str | None) -> Asked:
        """A request with exactly these headers besides those that every request needs; None leaves one out."""
        sent: dict[str, str | None] = {
            "host": HOST,
            "authorization": f"Bearer {token}",
            "content-type": "application/json",
            "accept": ACCEPT,
        }
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [(name.encode(), value.encode()) for name, value in sent.items() if value is not None]
        scope = {"type": "http", "method": method, "path": "/mcp", "query_string": b"", "headers": lines}
        return Asked(self._application, scope, body if isinstance(body, bytes) else json.dumps(body).encode())

    async def session(self, token: str = "anna's") -> str:
        """Begin a session; its id."""
        reply = await self.ask(request("initialize", 0), token=token).done()
        assert reply.status == 200, reply
        return reply.headers["mcp-session-id"]

    def modern(self, method: str, number: RequestId = 1, *, token: str = "anna's", **params: Any) -> Asked:
        """A request that stands by itself."""
        name = params.get("name") or params.get("uri")
        headers = {"mcp_protocol_version": MODERN, "mcp_method": method, "mcp_name": name}
        return self.ask(modern(method, number, **params), token=token, **headers)

    async def shut_down(self) -> None:
        """As a server does it at its end."""
        said = iter(["lifespan.startup", "lifespan.shutdown"])

        async def receive() -> Message:
            return {"type": next(said)}

        async def send(message: Message) -> None:
            assert message["type"].endswith(".complete")

        await self._application({"type": "lifespan"}, receive, send)


def request(method: str, number: RequestId = 1, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def notification(method: str, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def modern(method: str, number: RequestId = 1, **params: Any) -> Json:
    meta = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": {}, **params.pop("_meta", {})}
    return request(method, number, **params, _meta=meta)
