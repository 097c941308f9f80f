"""Who a session's calls come from, what they are, and what the guard says of them.

A call is what its server listed last and what the settings in force say of that. Where anything about it cannot be told
it is refused: nobody knows then what is open.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from ordain.app.guard import GuardInForce, Seen
from ordain.core.guard.call import Call, CallStanding, Judged, Met
from ordain.core.guard.host_tool import callable_name, listed_definition
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import ToolDefinition, ToolSource, operation_name
from ordain.core.text.problem import Refused
from ordain.interfaces.gateway.front import Caller, Front
from ordain.interfaces.gateway.link import ServerLink
from ordain.interfaces.gateway.wire import Message, client_info
from ordain.interfaces.mcp.surface import claimed_name
from ordain.interfaces.robot import envelope as robot

THROUGH = "gateway"
_READING = frozenset(
    ["resources/read", "resources/subscribe", "resources/unsubscribe", "prompts/get", "completion/complete"]
)
"""What is asked of servers that changes nothing, by the protocol."""


class CallJudge:
    """The guard, as one session meets it."""

    def __init__(self, front: Front, caller: Caller) -> None:
        self._front, self._caller = front, caller
        self._session = caller.session or secrets.token_hex(4)
        self._agent = caller.agent
        self._definitions: dict[tuple[str, str], tuple[Mapping[str, Any], ToolSource, ToolDefinition]] = {}

    def note_agent(self, params: Message) -> None:
        """Remember what the client calls itself, where a request says."""
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
        seen = Seen(by=self._caller.principal(self._agent), agent=agent, through=THROUGH, session=self._session)
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
        known = operation_name(link.name, name)
        if tool:
            args = params.get("arguments")
            definition = self._definition(in_force, link, name)
            return Call(tool=known, args=args if isinstance(args, dict) else {}, definition=definition)
        args = {key: value for key, value in params.items() if key != "_meta"}
        if name not in _READING or link.name not in in_force.servers:
            return Call(tool=known, args=args)
        reads = ToolDefinition(name=known, description=name, effect=EffectClass.READS, schema={})
        return Call(tool=known, args=args, definition=reads)

    def _definition(self, in_force: GuardInForce, link: ServerLink, name: str) -> ToolDefinition | None:
        """What is known of a tool: from what its server listed last, and the settings in force now."""
        said, source = link.tools.get(name), in_force.servers.get(link.name)
        if said is None or source is None or not callable_name(name):
            return None
        known = self._definitions.get((link.name, name))
        if known is None or known[0] is not said or known[1] != source:
            known = self._definitions[link.name, name] = said, source, listed_definition(link.name, source, said)
        return known[2]
