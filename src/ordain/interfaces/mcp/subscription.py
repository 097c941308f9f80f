"""Telling clients that something was recorded about what they subscribed to (who may read may subscribe), or that they
have a plan more. One watcher for a server looks how much there is once in a while, while somebody is subscribed. Since
2026-07-28 a client asks for a stream; before, it subscribed to one resource at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from itertools import islice
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPError

from ordain.app.app import App
from ordain.core.approval.approval import Principal
from ordain.core.text.problem import Refused
from ordain.interfaces.mcp.surface import ClientCall, Surface, Workspaces, opened

Context = ServerRequestContext[Any, Any]
LOOKING_S = 0.5
SUBSCRIBED_MAX = 200
"""How many resources one client can be subscribed to at a time, and ask for at once: no client takes another's room."""
STREAMS_MAX = 100

Tell = Callable[[str | None], Awaitable[None]]
"""Told the address of what has changed; None for the list."""
_log = logging.getLogger(__name__)


class Subscription:
    """What one connection or stream wants to be told, and how much of it there was when it was told last."""

    def __init__(self, by: Principal, tell: Tell) -> None:
        self.by, self.tell = by, tell
        self.sizes: dict[str, int] = {}
        self.plans: int | None = None


class Watcher:
    """Watches for everybody who is subscribed, in a task that lasts as long as somebody is."""

    def __init__(
        self,
        surface: Surface,
        workspaces: Workspaces,
        *,
        looking_s: float = LOOKING_S,
        subscribed_max: int = SUBSCRIBED_MAX,
    ) -> None:
        self._surface, self._workspaces = surface, workspaces
        self._looking_s, self._subscribed_max = looking_s, subscribed_max
        self._subscriptions: list[Subscription] = []
        self._task: asyncio.Task[None] | None = None

    async def permitted(self, call: ClientCall, uris: Collection[str]) -> list[str]:
        """Those of these addresses that the caller may read and that can be subscribed to, as far as there is room."""
        room = self._subscribed_max - sum(len(one.sizes) for one in self._subscriptions if one.by.name == call.by.name)
        found: list[str] = []
        for uri in islice(dict.fromkeys(uris), self._subscribed_max):
            template, names = self._surface.resource(uri) or (None, {})
            if template is not None and template.size is not None and len(found) < room:
                with suppress(Refused):
                    await template.read(call, names)
                    found.append(uri)
        return found

    async def add(self, subscription: Subscription, uris: Collection[str], *, lists: bool = False) -> None:
        """Tell this subscription about these too. They must have been permitted."""
        async with opened(self._workspaces) as app:
            subscription.sizes |= {uri: size for uri in uris if (size := self._size(app, uri)) is not None}
            if lists and self._surface.news is not None:
                subscription.plans = self._surface.news(app, subscription.by, None)[0]
        if subscription not in self._subscriptions:
            self._subscriptions.append(subscription)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._watch())

    def end(self, subscription: Subscription) -> None:
        """Tell this subscription nothing more."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    async def _watch(self) -> None:
        while self._subscriptions:
            await asyncio.sleep(self._looking_s)
            try:
                await self._look()
            except Exception:  # it may well be possible the next time
                _log.exception("what clients are subscribed to could not be looked at")
        self._task = None

    async def _look(self) -> None:
        async with opened(self._workspaces) as app:
            news = [(one, self._news(app, one)) for one in self._subscriptions]
        for subscription, changed in news:
            for uri in changed:
                try:
                    await subscription.tell(uri)
                except Exception:  # whoever is told may be gone; that is nobody else's trouble
                    _log.debug("a subscriber could not be told", exc_info=True)
                    self.end(subscription)
                    break

    def _news(self, app: App, subscription: Subscription) -> list[str | None]:
        changed: list[str | None] = []
        for uri, before in subscription.sizes.items():
            size = self._size(app, uri)
            if size is not None and size != before:
                subscription.sizes[uri] = size
                changed.append(uri)
        if subscription.plans is not None and self._surface.news is not None:
            subscription.plans, more = self._surface.news(app, subscription.by, subscription.plans)
            changed += [None] if more else []
        return changed

    def _size(self, app: App, uri: str) -> int | None:
        template, names = self._surface.resource(uri) or (None, {})
        if template is None or template.size is None:
            return None
        try:
            return template.size(app, names)
        except Refused:  # the beginning of an id can come to fit several
            return None


class Subscriptions:
    """The requests about subscriptions; `call` makes of a request whose call it is."""

    def __init__(self, watcher: Watcher, call: Callable[[Context], ClientCall]) -> None:
        self._watcher, self._call = watcher, call
        self._streams: set[ListenHandler] = set()
        self._connections: dict[object, Subscription] = {}

    async def listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """A stream of what was asked for, as far as it can change and is the caller's to see, which is acknowledged."""
        if len(self._streams) >= STREAMS_MAX:
            raise MCPError(types.INTERNAL_ERROR, "There are as many streams as this server keeps open.")
        call, wanted = self._call(context), params.notifications
        uris = await self._watcher.permitted(call, wanted.resource_subscriptions or ())
        lists = bool(wanted.resources_list_changed)
        # A bus for each stream: what one client is told can never reach another.
        bus = InMemorySubscriptionBus()
        stream = ListenHandler(bus)
        subscription = Subscription(
            call.by, lambda uri: bus.publish(ResourcesListChanged() if uri is None else ResourceUpdated(uri=uri))
        )
        honoured = types.SubscriptionFilter(resources_list_changed=lists or None, resource_subscriptions=uris or None)
        self._streams.add(stream)
        await self._watcher.add(subscription, uris, lists=lists)
        try:
            return await stream(context, params.model_copy(update={"notifications": honoured}))
        finally:
            self._watcher.end(subscription)
            self._streams.discard(stream)

    async def subscribe(self, context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        call, uri = self._call(context), str(params.uri)
        if not await self._watcher.permitted(call, [uri]):
            raise MCPError(types.INVALID_PARAMS, f"Resource not found, or nothing to subscribe to: {uri}", {"uri": uri})
        # What a connection needs cleaned up belongs on its exit stack, says the SDK, and has no other way to it.
        connection = context.session._connection
        subscription = self._connections.get(connection)
        if subscription is None:
            subscription = Subscription(call.by, lambda uri: connection.send_resource_updated(str(uri)))
            self._connections[connection] = subscription
            connection.exit_stack.callback(self._forget, connection)
        await self._watcher.add(subscription, [uri])
        return types.EmptyResult()

    async def unsubscribe(self, context: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        subscription = self._connections.get(context.session._connection)
        if subscription is not None:
            subscription.sizes.pop(str(params.uri), None)
            if not subscription.sizes:
                self._watcher.end(subscription)
        return types.EmptyResult()

    def _forget(self, connection: object) -> None:
        subscription = self._connections.pop(connection, None)
        if subscription is not None:
            self._watcher.end(subscription)

    def close(self) -> None:
        """Let every stream come to its end in order."""
        for stream in list(self._streams):
            stream.close()
