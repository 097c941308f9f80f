"""A stream of changes that a client asked for (`subscriptions/listen`), as several servers serve it: it is told what
they will tell together once all have said it or took too long, then everything that comes, until all have ended."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ordain.interfaces.gateway.answer import merged_capabilities
from ordain.interfaces.gateway.link import ServerLink
from ordain.interfaces.gateway.wire import SUBSCRIPTION, Id, Message, params_of

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_URIS = "resourceSubscriptions"


class ChangeStream:
    """One stream of one client."""

    def __init__(
        self, request: Id, send: Callable[[Message, Id | None], Awaitable[None]], over: Callable[[], object]
    ) -> None:
        self._request, self._send, self._over = request, send, over
        self._asked: dict[ServerLink, int] = {}
        self._silent: set[ServerLink] = set()
        """Those that have not said what they will tell."""
        self._acknowledged: list[Message] = []
        self._held: deque[Message] = deque()
        self._told = False
        self._ends: list[Message] = []
        self._timer: asyncio.TimerHandle | None = None
        self._late: asyncio.Task[None] | None = None

    def begin(self, message: Message, links: Sequence[ServerLink], wait_s: float) -> None:
        """Ask these servers; the client is told after `wait_s` also where some have not said what they will tell."""
        self._silent = set(links)
        for link in links:
            self._asked[link] = link.request(message, self._ended(link), self._request, stream=True)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(wait_s, self._wait_no_longer)

    def _wait_no_longer(self) -> None:
        self._silent.clear()
        self._late = asyncio.ensure_future(self._acknowledge())

    def end(self) -> None:
        """The client wants no more."""
        self._told = True
        if self._timer is not None:
            self._timer.cancel()
        for link, own in self._asked.items():
            link.take_back(own)

    async def heard(self, link: ServerLink, message: Message) -> None:
        """Something that a server tells on this stream."""
        if message["method"] == ACKNOWLEDGED:
            if link in self._silent:
                self._silent.discard(link)
                self._acknowledged.append(message)
                await self._acknowledge()
        elif self._told:
            await self._send(message, self._request)
        else:
            self._held.append(message)

    def _ended(self, link: ServerLink) -> Callable[[Message | None], Awaitable[None]]:
        async def ended(said: Message | None) -> None:
            self._asked.pop(link, None)
            if said is not None:
                self._ends.append({**said, "id": self._request})
            if link in self._silent:
                self._silent.discard(link)
                await self._acknowledge()
            if not self._asked:
                if self._timer is not None:
                    self._timer.cancel()
                await self._close()

        return ended

    async def _acknowledge(self) -> None:
        if self._told or self._silent:
            return
        if self._acknowledged:
            first = self._acknowledged[0]
            will_tell = _will_tell(self._acknowledged)
            self._held.appendleft({**first, "params": {**params_of(first), "notifications": will_tell}})
        elif not self._asked:
            return  # all said no, which is told as the end
        if self._timer is not None:
            self._timer.cancel()
        while self._held:  # what comes meanwhile waits for its turn
            await self._send(self._held.popleft(), self._request)
        self._told = True

    async def _close(self) -> None:
        """All have ended: the client is told one end, a good one where there is any."""
        self._over()
        good = [one for one in self._ends if "result" in one]
        ends = good or self._ends
        if ends:
            end = ends[0]
            result = end.get("result")
            if isinstance(result, dict) and isinstance(result.get("_meta"), dict):
                meta = {**result["_meta"], SUBSCRIPTION: self._request}
                end = {**end, "result": {**result, "_meta": meta}}
            await self._send(end, self._request)


def _will_tell(acknowledged: Sequence[Message]) -> dict[str, Any]:
    together: dict[str, Any] = {}
    for one in acknowledged:
        said = params_of(one).get("notifications")
        if isinstance(said, dict):
            uris = [*(together.get(_URIS) or ()), *(said.get(_URIS) or ())]
            together = merged_capabilities(together, said)
            together |= {_URIS: uris} if uris else {}
    return together
