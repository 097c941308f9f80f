"""One HTTP request and all that it is answered: one JSON document where the response is all there is, else a stream of
events that ends with it. ASGI and JSON-RPC, and nothing of what is relayed.

The invariant: messages leave in the order in which they came, and none of them after the response.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio

from ordain.interfaces.gateway.wire import INTERNAL_ERROR, Message, error, written
from ordain.interfaces.http.entrance import Receive, Send

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
        """`before` are messages that came before it; a client that reads nothing for longer than `patience_s` is told
        nothing any more."""
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
        self,
        receive: Receive,
        send: Send,
        headers: Headers = (),
        status: Callable[[Message], int] = lambda message: 200,
    ) -> bool:
        """Send all until the response; whether it came to that. `status` is of a response that is all there is."""
        async with self._listened_to(receive):
            try:
                first = await self._next()
            except anyio.EndOfStream:
                await answer_json(
                    send, 500, error(None, INTERNAL_ERROR, "The session ended before the answer."), headers
                )
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
        watching = asyncio.create_task(self._watch(receive))
        try:
            yield
        finally:
            watching.cancel()
            self._in.close()
            self._out.close()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.end()


async def answer_json(send: Send, status: int, message: Mapping[str, Any], headers: Headers = ()) -> None:
    """One JSON document, and that is all."""
    body = written(message).rstrip()
    sent = [_JSON, (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def answer_nothing(send: Send, status: int, headers: Headers = ()) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0"), *headers]})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
