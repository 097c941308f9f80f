"""What all sessions of a gateway share: the servers it fronts, the guard, and Ordain's own server."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

import msgspec

from ordain.app.app import App
from ordain.app.guard import GuardInForce, Seen
from ordain.core.approval.approval import Channel, Principal
from ordain.core.guard.call import Call, Met
from ordain.core.text.problem import closest, refuse
from ordain.interfaces.mcp.next_calls import from_anywhere_in
from ordain.interfaces.mcp.surface import Workspaces
from ordain.ports.tool import Unreached, Upstream, Upstreams


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who is at the other end of a session."""

    name: str
    """The user whose process this is, or `mcp/NAME` of a client with a token."""
    agent: str = ""
    """What it calls itself, where that is known before it says so."""
    session: str = ""
    """What tells this session from others."""
    proved: bool = False
    """Whether a token proves the name: then what it calls itself says nothing in reports."""

    def principal(self, agent: str) -> Principal:
        return Principal(name=self.name, channel=Channel.MCP, agent=agent)


class Front(msgspec.Struct, frozen=True, kw_only=True):
    """What a gateway stands on. None of it belongs to one session."""

    servers: tuple[str, ...]
    """The servers it fronts, in the order of the configuration."""
    open: Callable[[str], Awaitable[Upstream]]
    """Begins a session with one of them; raises Unreached, or Refused where the settings cannot be had."""
    own: Callable[[Caller], Awaitable[Upstream]]
    """Begins a session with Ordain's own server."""
    in_force: Callable[[], GuardInForce]
    """The settings and rules as they are now; raises Refused where they cannot be had."""
    meet: Callable[[Call, Seen], Awaitable[Met]]
    """Judges a call, and notes what is not open."""
    known: Callable[[str], Mapping[str, Any]] = lambda name: {}
    """What a server said when it was there last: its `greeting` and its `tools`. Nothing where that is not known."""
    keep: Callable[[str, Mapping[str, Any]], None] = lambda name, said: None
    """Keeps that for the next time."""
    told: Callable[[Any], Any] = lambda value: value
    """An answer of ours as it may be shown: commands in it work wherever they are typed."""
    say: Callable[[str], None] = lambda words: None
    """Tells whoever runs the gateway."""


def own_server(workspaces: Workspaces) -> Callable[[Caller], Awaitable[Upstream]]:
    """How a session with our own server is begun, which loads the SDK."""

    async def open_own(caller: Caller) -> Upstream:
        module = await asyncio.to_thread(importlib.import_module, "ordain.interfaces.gateway.own")
        opened: Upstream = module.OwnServer(workspaces, caller.name)
        return opened

    return open_own


def front_of(
    app: App,
    upstreams: Upstreams,
    own: Callable[[Caller], Awaitable[Upstream]],
    only: Collection[str] = (),
    say: Callable[[str], None] = lambda words: None,
) -> Front:
    """The front of a workspace's gateway: all servers of its settings, or `only` some; raises Refused where there is
    one not."""
    guarding = app.guarding
    there = guarding.in_force().servers
    for name in only:
        if name not in there:
            raise refuse(
                "E_MCP_START",
                f"There is no server `{name}`: the trusted settings have no `[tools.{name}]` with `mcp` or `url`.",
                *closest(name, there),
                command="ordain config",
            )

    async def open_server(name: str) -> Upstream:
        source = guarding.in_force().servers.get(name)
        if source is None:
            raise Unreached("is not in the settings any more")
        return await upstreams.open(source, guarding.secret())

    return Front(
        servers=tuple(name for name in there if not only or name in only),
        open=open_server,
        own=own,
        in_force=guarding.for_call,
        meet=guarding.meet,
        known=lambda name: upstreams.known(there[name]),
        keep=lambda name, said: upstreams.keep(there[name], app.without_secrets(said)),
        told=lambda value: from_anywhere_in(value, app.workspace_path),
        say=say,
    )
