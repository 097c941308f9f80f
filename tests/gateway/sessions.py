"""A session of a gateway in memory: servers are functions, and the client is the test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.twins.execution import MemoryUpstream, MemoryUpstreams, Say
from tests.words import (
    Call,
    Caller,
    CallStanding,
    EffectClass,
    Front,
    GatewayPatience,
    Guard,
    GuardInForce,
    Met,
    Mode,
    Relay,
    Seen,
    Settings,
    ToolSource,
    refusal_of,
)

Message = dict[str, Any]
Server = Callable[[Message, Say], None]
GREETING = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tester", "version": "1"}}
TURNS = 50
"""How often everybody is let do something, so that all is done that can be."""


def serving(*tools: str, hold: list[Message] | None = None, more: Server | None = None, **said: Any) -> Server:
    """A server with these tools, each of which answers with its own name and what it was called with; calls wait in
    `hold` where that is given."""

    def server(message: Message, say: Say) -> None:
        if more is not None:
            more(message, say)
        if "id" not in message or "method" not in message:
            return
        match message["method"]:
            case "initialize":
                capabilities = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}}
                result: Message = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": said}
            case "tools/list":
                result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in tools]}
            case "tools/call" if hold is not None:
                hold.append(message)
                return
            case "tools/call":
                result = called(message)
            case _:
                say({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}})
                return
        say({"jsonrpc": "2.0", "id": message["id"], "result": result})

    return server


def called(message: Message) -> Message:
    params = message["params"]
    return {"content": [], "structuredContent": {"tool": params["name"], "args": params.get("arguments")}}


class Gateway:
    """A relay over servers in memory, and all that it sent to its client."""

    def __init__(
        self, settings: Settings | None = None, patience: GatewayPatience | None = None, **servers: Server
    ) -> None:
        every = EffectClass.READS
        self.sources = {
            name: ToolSource(mcp=(name,), effects=_All(every) if settings is None else {}) for name in servers
        }
        self.settings = settings or Settings(guard_mode=Mode.ENFORCE)
        self.upstreams = MemoryUpstreams(**servers)
        self.own: list[MemoryUpstream] = []
        self.got: list[Message] = []
        self.related: list[Any] = []
        self.met: list[tuple[Call, Seen]] = []
        self.said: list[str] = []
        front = Front(
            servers=tuple(servers),
            open=lambda name: self.upstreams.open(self.sources[name], lambda _: None),
            own=self._own,
            in_force=lambda: GuardInForce(settings=self.settings, guard=Guard(self.settings), servers=self.sources),
            meet=self._meet,
            known=lambda name: self.upstreams.known(self.sources[name]),
            keep=lambda name, said: self.upstreams.keep(self.sources[name], said),
            say=self.said.append,
            patience=patience or GatewayPatience(),
        )
        self.relay = Relay(front, self._send, Caller(name="kim"))

    async def _own(self, caller: Caller) -> MemoryUpstream:
        self.own.append(MemoryUpstream(serving("plan_propose", name="ordain")))
        return self.own[-1]

    async def _meet(self, call: Call, seen: Seen) -> Met:
        self.met.append((call, seen))
        judged = Guard(self.settings).judge(call)
        if judged.standing is CallStanding.OPEN:
            return Met(judged=judged)
        refused = self.settings.guard_mode == Mode.ENFORCE
        return Met(judged=judged, problem=refusal_of(call, judged), refused=refused)

    async def _send(self, message: Message, related: Any) -> None:
        self.got.append(message)
        self.related.append(related)

    def server(self, name: str) -> MemoryUpstream:
        """The newest session with a server."""
        return [one for known, one in self.upstreams.opened if known == name][-1]

    async def tell(self, message: Any) -> None:
        await self.relay.received(message)

    async def ask(self, request: Any, method: str, **params: Any) -> Message:
        """The answer to a request."""
        await self.tell({"jsonrpc": "2.0", "id": request, "method": method, "params": params})
        return await self.answer(request)

    async def answer(self, request: Any) -> Message:
        for _ in range(1_000):
            found = [one for one in self.got if one.get("id") == request and type(one.get("id")) is type(request)]
            found = [one for one in found if "method" not in one]
            if found:
                self.got = [one for one in self.got if one is not found[0]]
                return found[0]
            await asyncio.sleep(0)
        raise AssertionError(f"{request!r} was not answered: {self.got}")

    async def call(self, request: Any, tool: str, **arguments: Any) -> Message:
        return await self.ask(request, "tools/call", name=tool, arguments=arguments)

    async def greet(self) -> Message:
        said = await self.ask("greet", "initialize", **GREETING)
        await self.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return said

    async def names(self) -> list[str]:
        listed = await self.ask("names", "tools/list")
        return [one["name"] for one in listed["result"]["tools"]]

    @staticmethod
    async def settle() -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)


class _All(dict[str, EffectClass]):
    """Every operation counts as the same."""

    def __init__(self, effect: EffectClass) -> None:
        super().__init__()
        self._effect = effect

    def __contains__(self, name: object) -> bool:
        return True

    def __getitem__(self, name: str) -> EffectClass:
        return self._effect

    def get(self, name: str, default: object = None) -> EffectClass:  # type: ignore[override]
        return self._effect
