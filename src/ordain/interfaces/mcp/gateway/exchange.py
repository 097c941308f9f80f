"""One HTTP request and all that it is answered: one JSON document where the response is all there is, else a stream of
events that ends with it. ASGI and JSON-RPC, and nothing of what is relayed.

The invariant: messages leave in the order in which they came, and none of them after the response.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import anyio

from ordain.interfaces.mcp.entrance import Receive, Send

__all__ = ["HELD_MAX", "Exchange", "Headers", "Json", "RequestId", "answer_json", "answer_nothing", "error_message"]

Json = dict[str, Any]
RequestId = str | int

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

    def __init__(self, before: Sequence[Json] = ()) -> None:
        """`before` are messages that came before it."""
        self._in, self._out = anyio.create_memory_object_stream[Json](HELD_MAX)
        for message in before:
            self._in.send_nowait(message)

    async def tell(self, message: Json) -> None:
        """Send a message; whoever is gone misses it."""
        try:
            await self._in.send(message)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return

    def end(self) -> None:
        """Nothing follows what was told."""
        self._in.close()

    async def answer(
        self, receive: Receive, send: Send, headers: Headers = (), status: Callable[[Json], int] = lambda message: 200
    ) -> bool:
        """Send all until the response; whether it came to that. `status` is of a response that is all there is."""
        async with self._listened_to(receive):
            try:
                first = await self._next()
            except anyio.EndOfStream:
                await answer_json(send, 500, error_message(-32603, "The session ended before the answer."), headers)
                return False
            if first is not None and "method" not in first:
                await answer_json(send, status(first), first, headers)
                return True
            return await self._events(send, headers, first)

    async def stream(self, receive: Receive, send: Send, headers: Headers = ()) -> None:
        """Send all that is told, as a stream from the start, for as long as the client listens."""
        async with self._listened_to(receive):
            await self._events(send, headers, None)

    async def _events(self, send: Send, headers: Headers, message: Json | None) -> bool:
        await send({"type": "http.response.start", "status": 200, "headers": [*_STREAM, *headers]})
        answered = False
        while not answered:
            answered = message is not None and "method" not in message
            event = _PING if message is None else b"event: message\r\ndata: " + _encoded(message) + b"\r\n\r\n"
            await send({"type": "http.response.body", "body": event, "more_body": True})
            try:
                message = await self._next() if not answered else None
            except anyio.EndOfStream:
                break
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return answered

    async def _next(self) -> Json | None:
        """The next message; none when it takes its time. Raises EndOfStream where nothing follows."""
        with anyio.move_on_after(PING_S):
            return await self._out.receive()
        return None

    @contextlib.asynccontextmanager
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


def error_message(code: int, words: str, to: RequestId | None = None, data: Any = None) -> Json:
    """An error, as an answer to a request or to what was none."""
    error: Json = {"code": code, "message": words}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": to, "error": error}


async def answer_json(send: Send, status: int, message: Mapping[str, Any], headers: Headers = ()) -> None:
    """One JSON document, and that is all."""
    body = _encoded(message)
    sent = [_JSON, (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def answer_nothing(send: Send, status: int, headers: Headers = ()) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0"), *headers]})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _encoded(message: Mapping[str, Any]) -> bytes:
    """ASCII, so that nothing in it is the end of a line to anybody, and half a character passes as it came."""
    return json.dumps(message, separators=(",", ":")).encode()
