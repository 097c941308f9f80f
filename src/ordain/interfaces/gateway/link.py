"""One server in one session of a client: its ids, what waits for its answers, and its death. Each request has an id of
the link's own, which is also the token of its progress. A server that dies is started again by the next request."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from ordain.core.text.problem import Refused
from ordain.interfaces.gateway.wire import Id, Message, meta_of, notification, params_of
from ordain.ports.tool import Unreached, Upstream

GREET_S = 30.0
"""How long a server may take to start and to answer what it is asked at first."""
LATE_MAX = 1_000
"""How many requests that a client took back are remembered, should they be answered all the same."""

Answered = Callable[[Message | None], Awaitable[None]]
"""Told the answer of a server as it came; None where it is gone."""


class PendingRequest(msgspec.Struct):
    """A request that a server has not answered."""

    answered: Answered
    related: Id | None = None
    token: Any = None
    """The client's request that it belongs to, and the client's token for its progress."""
    stream: bool = False
    """Whether it is a stream of changes, which says by itself what belongs to it."""


class ServerLink:
    """The way to one server."""

    def __init__(
        self,
        name: str,
        begin: Callable[[], Awaitable[Upstream]],
        heard: Callable[[ServerLink, Message], Awaitable[None]],
        over: Callable[[ServerLink], Awaitable[None]],
        say: Callable[[str], None],
        discover_s: float,
    ) -> None:
        """`heard` is told requests and notifications of the server, `over` that it is gone."""
        self.name, self._say, self._discover_s = name, say, discover_s
        self._begin, self._heard, self._over = begin, heard, over
        self._upstream: Upstream | None = None
        self._newest: Upstream | None = None
        self._reader: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._endings: set[asyncio.Task[None]] = set()
        self._asked: dict[int, PendingRequest] = {}
        self._late: OrderedDict[int, PendingRequest] = OrderedDict()
        self._count = 0
        self.greeting: Message | None = None
        self.level: Message | None = None
        self.capabilities: Mapping[str, Any] | None = None
        """What it says that it can do; None before it was asked."""
        self.modern = False
        self.probed = False
        """Whether it was asked in the modern era, and answered, or has not answered yet."""
        self.discovered: Message = {}
        self.greeted: Message = {}
        """What it answered in the modern era, and to `initialize`."""
        self.missing = False
        self.why_missing = ""
        """Whether it could not be had when the session began, or not yet; and why, as the end of a sentence."""
        self.arriving: asyncio.Task[None] | None = None
        self.changes = 0
        self.known_at = -1
        """How often its tools may have become others, and how often that was when it listed those that are known."""
        self.tools: dict[str, Mapping[str, Any]] = {}

    @property
    def listed(self) -> bool:
        """Whether what is known of its tools is what it has, as far as it says."""
        return self.known_at == self.changes

    @property
    def is_open(self) -> bool:
        return self._upstream is not None and self._starting is None

    async def ready(self) -> None:
        """Have it started and greeted; raises Unreached."""
        if self.is_open:
            return
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._starting)

    async def _start(self) -> None:
        try:
            async with asyncio.timeout(GREET_S):
                await self._open()
                if self.greeting is not None:
                    self._greeted(await self._ask("initialize", self.greeting))
                    self.send(notification("notifications/initialized"))
                    if self.level is not None:
                        await self._ask("logging/setLevel", self.level)
        except TimeoutError:
            await self.close()
            raise Unreached(f"did not answer within {GREET_S:g} s{self._noise}") from None
        except BaseException:
            await self.close()
            raise
        finally:
            self._starting = None

    async def _open(self) -> None:
        """Begin it, once however many want it at the same time."""
        async with self._opening:
            if self._upstream is not None:
                return
            try:
                upstream = self._upstream = self._newest = await self._begin()
            except Refused as refused:
                raise Unreached(f"cannot be had: {refused.problems[0].detail.removesuffix('.')}") from refused
            self.changes += 1
            self._reader = asyncio.create_task(self._read(upstream))

    @property
    def _noise(self) -> str:
        """What it wrote that is no message, as the end of a sentence."""
        noise = self._newest.noise if self._newest is not None else ""
        return f"; it wrote `{noise}`, which is no message" if noise else ""

    async def greet(self, params: Message) -> Message:
        """Start it and ask it to take up the session, in the client's own words; what it answers. Raises Unreached."""
        try:
            async with asyncio.timeout(GREET_S):
                await self._open()
                said = await self._ask("initialize", params)
        except TimeoutError:
            await self.close()
            raise Unreached(f"did not answer within {GREET_S:g} s{self._noise}") from None
        self._greeted(said)
        return said

    def _greeted(self, said: Message) -> None:
        result = said.get("result")
        if not isinstance(result, dict):
            why = params_of({"params": said.get("error")}).get("message", "it says no")
            raise Unreached(f"does not take up the session: {str(why)[:200]}")
        self._note(result)
        self.greeted = result

    async def discover(self, params: Message) -> Message | None:
        """What it says of itself in the modern era; None where it does not speak that. Raises Unreached."""
        await self._open()
        upstream, self.probed = self._upstream, not self.modern
        try:
            async with asyncio.timeout(self._discover_s):
                result = (await self._ask("server/discover", params)).get("result")
        except (TimeoutError, Unreached):  # some never answer, or die of, what they do not know
            if self.modern:  # it is only busy, with what others asked of it
                return self.discovered
            if self._upstream is upstream and self.greeting is None:  # and no session of the other era
                await self.close()
            return None
        self.probed = False
        if not isinstance(result, dict):
            return None
        self._note(result)
        self.modern, self.discovered = True, result
        return result

    def _note(self, result: Message) -> None:
        said = result.get("capabilities")
        self.capabilities = said if isinstance(said, dict) else {}

    async def close(self, *, wait: bool = True) -> None:
        """End the session; what waits is told. Without `wait`, its server may take its time to end."""
        starting = self._starting
        if starting is not None and starting is not asyncio.current_task():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
        upstream, reader = self._upstream, self._reader
        self._upstream = self._reader = None
        self.modern = self.probed = False
        if reader is not None and reader is not asyncio.current_task():
            reader.cancel()
            with suppress(asyncio.CancelledError):
                await reader
        if upstream is not None:
            await self._lose()
            self._end(upstream)
        if wait:
            await asyncio.gather(*self._endings, return_exceptions=True)

    def _end(self, upstream: Upstream) -> None:
        """End a session beside everything else: it may take its time, and another may begin."""
        ending = asyncio.create_task(upstream.close())
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)

    async def _read(self, upstream: Upstream) -> None:
        async for message in upstream.messages():
            try:
                await self._came(message)
            except Exception as failure:  # whatever a server says, it is not the end of the session
                self._say(f"What the server `{self.name}` said could not be passed on: {type(failure).__name__}")
        if self._upstream is upstream:
            self._upstream = self._reader = None
            self.modern = False
            self._end(upstream)
            await self._lose()

    async def _lose(self) -> None:
        self.changes += 1
        waiting = list(self._asked.values())
        self._asked.clear()
        self._late.clear()
        await self._over(self)
        for one in waiting:
            await one.answered(None)

    def send(self, message: Mapping[str, Any]) -> None:
        """Hand it something that needs no answer, if it is there. What cannot be written is told, and harms nobody."""
        if self._upstream is not None:
            try:
                self._upstream.send(message)
            except Exception as failure:
                self._say(f"What was said to the server `{self.name}` could not be passed on: {type(failure).__name__}")

    def request(self, message: Message, answered: Answered, related: Id | None = None, *, stream: bool = False) -> int:
        """Hand it a request under an id of its own; what it says to that comes to `answered`. Raises Unreached."""
        if self._upstream is None:
            raise Unreached("has ended")
        self._count += 1
        own = self._count
        params = message.get("params")
        asked = PendingRequest(answered, related, stream=stream)
        if isinstance(params, dict) and (meta := meta_of(params)) and "progressToken" in meta:
            asked.token = meta["progressToken"]
            message = {**message, "params": {**params, "_meta": {**meta, "progressToken": own}}}
        self._upstream.send({**message, "id": own})
        self._asked[own] = asked
        return own

    async def ask(self, method: str, params: Message) -> Message:
        """The answer to a request of ours; raises Unreached where the server is gone before it came."""
        await self.ready()
        return await self._ask(method, params)

    async def _ask(self, method: str, params: Message) -> Message:
        came: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()

        async def answered(message: Message | None) -> None:
            if not came.done():
                came.set_result(message)

        own = self.request({"jsonrpc": "2.0", "method": method, "params": params}, answered)
        try:
            message = await came
        except asyncio.CancelledError:
            self.take_back(own)
            raise
        if message is None:
            raise Unreached(f"did not answer: it has ended, or is not there{self._noise}")
        return message

    def take_back(self, own: int, params: Mapping[str, Any] | None = None) -> None:
        """Tell it that nobody waits for an answer any more. What it answers all the same is still passed on."""
        asked = self._asked.pop(own, None)
        if asked is None:
            return
        self._late[own] = asked
        if len(self._late) > LATE_MAX:
            self._late.popitem(last=False)
        self.send(notification("notifications/cancelled", {**(params or {}), "requestId": own}))

    def asked(self, own: object) -> PendingRequest | None:
        """The request that goes by an id or token of ours."""
        if not isinstance(own, int):
            return None
        return self._asked.get(own) or self._late.get(own)

    def only_request(self) -> Id | None:
        """The client's request that whatever the server says now must belong to: where there is only one."""
        related = [one.related for one in self._asked.values() if one.related is not None and not one.stream]
        return related[0] if len(related) == 1 else None

    async def _came(self, message: Message) -> None:
        if "method" in message:
            if message["method"] == "notifications/tools/list_changed":
                self.changes += 1
            await self._heard(self, message)
            return
        own = message.get("id")
        if not isinstance(own, int):
            return
        asked = self._asked.pop(own, None) or self._late.pop(own, None)
        if asked is not None:
            await asked.answered(message)
