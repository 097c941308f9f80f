"""What all sessions of a gateway share: the servers it fronts, the guard, and Ordain's own server; and the guard as one
session meets it. A call about which anything cannot be told is refused: nobody knows then what is open.
"""

from __future__ import annotations

import asyncio
import importlib
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

import msgspec

from ordain.app.app import App
from ordain.app.guard import GuardInForce, Seen
from ordain.core.approval.approval import Channel, Principal
from ordain.core.guard.call import Call, CallStanding, Judged, Met
from ordain.core.guard.host_tool import callable_name, listed_definition
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import ToolDefinition, ToolSource, operation_name
from ordain.core.text.problem import Refused, closest, refuse
from ordain.interfaces.gateway.link import ServerLink
from ordain.interfaces.gateway.wire import Message, client_info
from ordain.interfaces.mcp.surface import Workspaces, claimed_name
from ordain.interfaces.mcp.texts import from_anywhere_in
from ordain.interfaces.robot import envelope as robot
from ordain.ports.tool import Unreached, Upstream, Upstreams

_READING = ("resources/read", "resources/subscribe", "resources/unsubscribe", "prompts/get", "completion/complete")
"""What is asked of servers that changes nothing, by the protocol."""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who is at the other end of a session."""

    name: str
    """The user whose process this is, or `mcp/NAME` of a client with a token."""
    agent: str = ""
    """What it calls itself, where that is known before it says so."""
    session: str = ""
    proved: bool = False
    """Whether a token proves the name: then what it calls itself says nothing in reports."""

    def principal(self, agent: str) -> Principal:
        return Principal(name=self.name, channel=Channel.MCP, agent=agent)


class GatewayPatience(msgspec.Struct, frozen=True, kw_only=True):
    """How long servers are waited for."""

    late_s: float = 5.0
    known_s: float = 1.0
    """How long the servers that are there wait for the others when a session begins; and where it is known what all of
    them had last time, which is listed until they are there."""
    discover_s: float = 10.0
    acknowledge_s: float = 5.0
    """How long it is waited for the slowest to say what it will tell."""


class Front(msgspec.Struct, frozen=True, kw_only=True):
    """What a gateway stands on. None of it belongs to one session."""

    servers: tuple[str, ...]
    open: Callable[[str], Awaitable[Upstream]]
    """Begins a session with one of them; raises Unreached, or Refused where the settings cannot be had."""
    own: Callable[[Caller], Awaitable[Upstream]]
    in_force: Callable[[], GuardInForce]
    """The settings and rules as they are now; raises Refused where they cannot be had."""
    meet: Callable[[Call, Seen], Awaitable[Met]]
    """Judges a call, and notes what is not open."""
    known: Callable[[str], Mapping[str, Any]] = lambda name: {}
    """What a server said when it was there last: its `greeting` and its `tools`. Nothing where that is not known."""
    keep: Callable[[str, Mapping[str, Any]], None] = lambda name, said: None
    told: Callable[[Any], Any] = lambda value: value
    """An answer of ours as it may be shown: commands in it work wherever they are typed."""
    say: Callable[[str], None] = lambda words: None
    patience: GatewayPatience = GatewayPatience()


def own_server(workspaces: Workspaces) -> Callable[[Caller], Awaitable[Upstream]]:
    """How a session with our own server is begun, which loads the SDK."""

    async def open_own(caller: Caller) -> Upstream:
        module = await asyncio.to_thread(importlib.import_module, "ordain.interfaces.mcp.plan_surface")
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
    """The front of a workspace's gateway: all servers of its settings, or `only` some, which must be among them."""
    guarding, there = app.guard, app.guard.in_force().servers
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
        keep=lambda name, said: upstreams.keep(there[name], app.workspace.without_secrets(said)),
        told=lambda value: from_anywhere_in(value, app.workspace.workspace_path),
        say=say,
    )


class CallJudge:
    """The guard, as one session meets it."""

    def __init__(self, front: Front, caller: Caller) -> None:
        self._front, self._caller = front, caller
        self._session = caller.session or secrets.token_hex(4)
        self._agent = caller.agent
        self._definitions: dict[tuple[str, str], tuple[Mapping[str, Any], ToolSource, ToolDefinition]] = {}

    def note_agent(self, params: Message) -> None:
        info = client_info(params)
        if isinstance(info, dict):
            self._agent = claimed_name(str(info.get("name", "")), str(info.get("version", ""))) or self._caller.agent

    def is_open(self, link: ServerLink, name: str, params: Message) -> bool:
        """Whether a tool may be called without further ado. Where it may not, `meet` tells why."""
        try:
            in_force = self._front.in_force()
            call = self._call_of(in_force, link, name, params, tool=True)
            return in_force.guard.judge(call).standing is CallStanding.OPEN
        except Exception:  # whoever looks closer tells what is wrong
            return False

    async def meet(self, link: ServerLink, name: str, params: Message, *, tool: bool) -> tuple[Call, Met]:
        """The call that a request is, and what becomes of it."""
        agent = self._caller.name if self._caller.proved else self._agent or self._caller.name
        seen = Seen(by=self._caller.principal(self._agent), agent=agent, through="gateway", session=self._session)
        call = Call(tool=operation_name(link.name, name))
        try:
            call = self._call_of(self._front.in_force(), link, name, params, tool=tool)
            return call, await self._front.meet(call, seen)
        except Refused as refused:
            problem = robot.cause(refused.problems)
        except Exception as failure:
            problem = robot.bug(failure)
        return call, Met(judged=Judged(standing=CallStanding.DENIED, why=problem.detail), problem=problem, refused=True)

    def _call_of(self, in_force: GuardInForce, link: ServerLink, name: str, params: Message, *, tool: bool) -> Call:
        known, definition = operation_name(link.name, name), None
        if tool:
            args = params.get("arguments")
            definition = self._definition(in_force, link, name)
            return Call(tool=known, args=args if isinstance(args, dict) else {}, definition=definition)
        if name in _READING and link.name in in_force.servers:
            definition = ToolDefinition(name=known, description=name, effect=EffectClass.READS, schema={})
        args = {key: value for key, value in params.items() if key != "_meta"}
        return Call(tool=known, args=args, definition=definition)

    def _definition(self, in_force: GuardInForce, link: ServerLink, name: str) -> ToolDefinition | None:
        """What is known of a tool: from what its server listed last, and the settings in force now."""
        said, source = link.tools.get(name), in_force.servers.get(link.name)
        if said is None or source is None or not callable_name(name):
            return None
        known = self._definitions.get((link.name, name))
        if known is None or known[0] is not said or known[1] != source:
            known = self._definitions[link.name, name] = said, source, listed_definition(link.name, source, said)
        return known[2]
