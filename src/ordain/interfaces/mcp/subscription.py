"""Subscriptions as each era of the protocol has them, over one watcher.

Since 2026-07-28 a client asks for a stream with everything it wants to be told (`subscriptions/listen`); before, it
subscribed to one resource at a time and was told on its connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPError

from ordain.interfaces.mcp.surface import ClientCall
from ordain.interfaces.mcp.watch import STREAMS_MAX, Subscription, Watcher

Context = ServerRequestContext[Any, Any]
"""A request as the SDK hands it over."""


class Subscriptions:
    """The requests about subscriptions; `call` makes of a request whose call it is."""

    def __init__(self, watcher: Watcher, call: Callable[[Context], ClientCall]) -> None:
        self._watcher, self._call = watcher, call
        self._streams: set[ListenHandler] = set()
        self._connections: dict[object, Subscription] = {}

    async def listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """A stream of what was asked for, as far as it can change and is the caller's to see. What is acknowledged is
        what will be told."""
        if len(self._streams) >= STREAMS_MAX:
            raise MCPError(types.INTERNAL_ERROR, "There are as many streams as this server keeps open.")
        call, wanted = self._call(context), params.notifications
        uris = await self._watcher.permitted(call, wanted.resource_subscriptions or ())
        lists = bool(wanted.resources_list_changed)
        # A bus for each stream: what one client is told can never reach another.
        bus = InMemorySubscriptionBus()
        stream = ListenHandler(bus)
        subscription = Subscription(
            call.by,
            lambda uri: bus.publish(ResourcesListChanged() if uri is None else ResourceUpdated(uri=uri)),
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

            async def told(changed: str | None) -> None:
                await connection.send_resource_updated(str(changed))

            subscription = self._connections[connection] = Subscription(call.by, told)
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
