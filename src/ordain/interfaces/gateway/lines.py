"""Whom the messages of HTTP requests are relayed by, and which request each message for a client belongs to: a session
of the protocol before 2026-07-28, or one line for each token. What belongs to one request is told to no other; messages
leave in the order in which they came, and none of them after the response."""

from __future__ import annotations

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Protocol

import anyio

from ordain.interfaces.gateway.relay import Send as Sending
from ordain.interfaces.gateway.wire import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    SUBSCRIPTION,
    Id,
    Message,
    error,
    notification,
    written,
)
from ordain.interfaces.http.entrance import Receive, Send

CANCELLED = -32800
"""What a cancelled request is answered, where a request ends with its answer only; as the SDK has it."""
PATIENCE_S = 60.0
"""How long a client may read nothing that has a server in common with others, who wait for it meanwhile."""
HELD_MAX = 16
"""How many messages wait for a client that is slow to read; whoever has more to send waits too."""
PING_S = 15.0
"""How long nothing is sent before a sign of life is, which keeps whatever is between us from giving up."""
_PING = b": ping\r\n\r\n"
_STREAM = ((b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform"))
_JSON = (b"content-type", b"application/json")

Headers = tuple[tuple[bytes, bytes], ...]


class Exchange:
    """What is sent to one HTTP request, from when it is asked until it is answered."""

    def __init__(self, before: Sequence[Message] = (), *, patience_s: float | None = None) -> None:
        """`before` came before it; a client that reads nothing for `patience_s` is told nothing any more."""
        self._patience_s = patience_s
        self._in, self._out = anyio.create_memory_object_stream[Message](HELD_MAX)
        for message in before:
            self._in.send_nowait(message)

    async def tell(self, message: Message) -> None:
        """Send a message; whoever is gone misses it."""
        with (
            suppress(anyio.ClosedResourceError, anyio.BrokenResourceError),
            anyio.move_on_after(self._patience_s) as waiting,
        ):
            await self._in.send(message)
        if waiting.cancelled_caught:
            self.end()

    def end(self) -> None:
        """Nothing follows what was told."""
        self._in.close()

    async def answer(
        self, receive: Receive, send: Send, headers: Headers = (), status: Callable[[Message], int] = lambda _: 200
    ) -> bool:
        """Send all until the response; whether it came to that. `status` is of a response that is all there is."""
        async with self._listened_to(receive):
            try:
                first = await self._next()
            except anyio.EndOfStream:
                ended = error(None, INTERNAL_ERROR, "The session ended before the answer.")
                await answer_json(send, 500, ended, headers)
                return False
            if first is not None and "method" not in first:
                await answer_json(send, status(first), first, headers)
                return True
            return await self._events(send, headers, first)

    async def stream(self, receive: Receive, send: Send, headers: Headers = ()) -> None:
        """Send all that is told, as a stream from the start, for as long as the client listens."""
        async with self._listened_to(receive):
            await self._events(send, headers, None)

    async def _events(self, send: Send, headers: Headers, message: Message | None) -> bool:
        await send({"type": "http.response.start", "status": 200, "headers": [*_STREAM, *headers]})
        answered = False
        while not answered:
            answered = message is not None and "method" not in message
            event = _PING if message is None else b"event: message\r\ndata: " + written(message).rstrip() + b"\r\n\r\n"
            await send({"type": "http.response.body", "body": event, "more_body": True})
            try:
                message = await self._next() if not answered else None
            except anyio.EndOfStream:
                break
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return answered

    async def _next(self) -> Message | None:
        """The next message; none when it takes its time. Raises EndOfStream where nothing follows."""
        with anyio.move_on_after(PING_S):
            return await self._out.receive()
        return None

    @asynccontextmanager
    async def _listened_to(self, receive: Receive) -> AsyncIterator[None]:
        """While the client is there: who is gone is told nothing any longer, and holds nobody up."""

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            self.end()

        watching = asyncio.create_task(watch())
        try:
            yield
        finally:
            watching.cancel()
            self._in.close()
            self._out.close()


async def answer_json(send: Send, status: int, message: Mapping[str, Any], headers: Headers = ()) -> None:
    """One JSON document, and that is all."""
    body = written(message).rstrip()
    sent = [_JSON, (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def answer_nothing(send: Send, status: int, headers: Headers = ()) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0"), *headers]})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


class RequestRelay(Protocol):
    """One client's way to the servers."""

    async def received(self, message: Message) -> None:
        """A message of the client's; returns before it is dealt with."""

    async def close(self) -> None: ...


Begin = Callable[[Sending, str], RequestRelay]


class Line(ABC):
    """A relay that is there for as long as somebody uses it, and a while longer."""

    def __init__(self, begin: Begin, client: str, idle_s: float, idle: Callable[[], None]) -> None:
        self.relay = begin(self._tell, client)
        self._idle_s, self._idle = idle_s, idle
        self._users, self._closed = 0, False
        self._timer: asyncio.TimerHandle | None = None
        self._exchanges: dict[Id, Exchange] = {}

    @property
    def idle_until(self) -> float | None:
        """When it will have been idle for too long; none while it is used."""
        return self._timer.when() if self._timer is not None else None

    @contextmanager
    def used(self) -> Iterator[None]:
        """While a request is under way on it."""
        self._users += 1
        self._stop_timer()
        try:
            yield
        finally:
            self._users -= 1
            if not self._users and not self._closed:
                self._timer = asyncio.get_running_loop().call_later(self._idle_s, self._idle)

    def end(self) -> None:
        """Let go of all that wait for an answer."""
        for exchange in list(self._exchanges.values()):
            exchange.end()

    async def close(self) -> None:
        self._closed = True
        self._stop_timer()
        self.end()
        await self.relay.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @abstractmethod
    async def _tell(self, message: Message, related: Id | None) -> None:
        """Send a message to the client, where the request that it belongs to is answered."""


class ClientSession(Line):
    """One session, of whoever began it."""

    def __init__(self, name: str, owner: str, begin: Begin, client: str, idle_s: float, idle: Callable[[], None]):
        self.name, self.owner = name, owner
        self.begun = False
        self.standing: Exchange | None = None
        self._waiting: deque[Message] = deque(maxlen=HELD_MAX)
        """What belongs to no request and came while no stream was open."""
        super().__init__(begin, client, idle_s, idle)

    @property
    def headers(self) -> Headers:
        return ((b"mcp-session-id", self.name.encode()),)

    def asked(self, number: Id) -> bool:
        return number in self._exchanges

    async def ask(self, message: Message, receive: Receive, send: Send) -> None:
        """A request and its answer. It goes on when its client leaves, who may ask for what came of it otherwise."""
        number, exchange = message["id"], Exchange()
        self._exchanges[number] = exchange
        try:
            await self.relay.received(message)
            await exchange.answer(receive, send, self.headers)
        finally:
            self._exchanges.pop(number, None)

    async def say(self, message: Message) -> None:
        """A message that has no answer."""
        await self.relay.received(message)
        if message.get("method") == "notifications/cancelled":
            number = (message.get("params") or {}).get("requestId")
            if isinstance(number, str | int) and (exchange := self._exchanges.get(number)) is not None:
                await exchange.tell(error(number, CANCELLED, "Request cancelled"))

    async def listen(self, receive: Receive, send: Send) -> None:
        """A stream of what belongs to no request."""
        self.standing = Exchange(tuple(self._waiting))
        self._waiting.clear()
        try:
            await self.standing.stream(receive, send, self.headers)
        finally:
            self.standing = None

    def end(self) -> None:
        super().end()
        if self.standing is not None:
            self.standing.end()

    async def _tell(self, message: Message, related: Id | None) -> None:
        if "method" not in message:
            self.begun = self.begun or "result" in message
            exchange = self._exchanges.get(message["id"])
        elif related is not None:
            exchange = self._exchanges.get(related)
        else:
            # Without a stream of its own, it goes where somebody listens.
            exchange = self.standing or next(reversed(self._exchanges.values()), None)
            if exchange is None:
                self._waiting.append(message)
        if exchange is not None:
            await exchange.tell(message)


class Direct(Line):
    """What one token asks, each request by itself. Several clients may have it, who do not know of each other's ids."""

    def __init__(self, begin: Begin, client: str, idle_s: float, idle: Callable[[], None]) -> None:
        self._numbers = itertools.count(1)
        self._originals: dict[Id, Id] = {}
        self._listing: set[Id] = set()
        self.schemas: dict[str, Any] = {}
        """The schema of each tool's arguments, as a client was told it."""
        super().__init__(begin, client, idle_s, idle)

    async def ask(self, message: Message, receive: Receive, send: Send, status: Callable[[Message], int]) -> None:
        """A request and its answer. Its client cancels it by leaving."""
        number, exchange = next(self._numbers), Exchange(patience_s=PATIENCE_S)
        self._exchanges[number], self._originals[number] = exchange, message["id"]
        if message["method"] == "tools/list":
            self._listing.add(number)
        answered = False
        try:
            await self.relay.received({**message, "id": number})
            answered = await exchange.answer(receive, send, (), status)
        finally:
            del self._exchanges[number], self._originals[number]
            self._listing.discard(number)
            if not answered:
                params = {"requestId": number, "reason": "The client has left."}
                await self.relay.received(notification("notifications/cancelled", params))

    async def _tell(self, message: Message, related: Id | None) -> None:
        number = related if "method" in message else message["id"]
        exchange = self._exchanges.get(number) if number is not None else None
        if number is None or exchange is None:
            if "method" in message and "id" in message:  # nobody can be asked in this era
                await self.relay.received(error(message["id"], METHOD_NOT_FOUND, "Method not found"))
            return
        if number in self._listing:
            result = message.get("result")
            tools = result.get("tools") if isinstance(result, dict) else None
            for tool in tools if isinstance(tools, list) else ():
                if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                    self.schemas[tool["name"]] = tool.get("inputSchema")
        original = self._originals[number]
        told = {**message, "id": original} if "method" not in message else message
        await exchange.tell(_of_subscription(told, number, original))


def _of_subscription(message: Message, number: Id, original: Id) -> Message:
    """A message that says by which request its subscription was made says so by the client's own id."""
    for part in ("params", "result"):
        inside = message.get(part)
        if not isinstance(inside, Mapping):
            continue
        meta = inside.get("_meta")
        if isinstance(meta, Mapping) and meta.get(SUBSCRIPTION) == number:
            return {**message, part: {**inside, "_meta": {**meta, SUBSCRIPTION: original}}}
    return message
