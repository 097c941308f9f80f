"""The gateway over streamable HTTP, for both eras of the protocol: any number of clients, each by a token of its own.
Nobody is told whether another token's session is there. Of what is relayed only the protocol's own envelope is looked
at."""

from __future__ import annotations

import asyncio
import functools
import secrets
import socket
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from mcp.server.streamable_http import check_accept_headers
from mcp.server.transport_security import RequestBodyLimitMiddleware
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    MCP_PROTOCOL_VERSION_HEADER,
    InboundLadderRejection,
    classify_inbound_request,
    find_duplicated_routing_header,
    unsupported_protocol_version_rejection,
    validate_mcp_param_headers,
)
from mcp_types import HEADER_MISMATCH, INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.requests import Request

from ordain.interfaces.gateway.front import Caller, Front
from ordain.interfaces.gateway.lines import Begin, ClientSession, Direct, Line, answer_json, answer_nothing
from ordain.interfaces.gateway.relay import Relay
from ordain.interfaces.gateway.wire import Id, Message, error, read_line
from ordain.interfaces.http.entrance import Entrance, Receive, Scope, Send, mark
from ordain.interfaces.http.server import BODY_MAX, serve_http

IDLE_S = 30 * 60.0
"""How long a session is kept that nobody uses, with the servers that were started for it."""
_CLIENT, _OWNER = "ordain.client", "ordain.owner"


class _Turned(Exception):
    """What is answered with an error of the protocol, before anything is relayed."""

    def __init__(self, status: int, code: int, words: str, to: Id | None = None, data: Any = None) -> None:
        super().__init__(words)
        self.status, self.message = status, error(to, code, words, data)


def serve_gateway_http(
    front: Front,
    close: Callable[[], Awaitable[None]],
    listening: socket.socket,
    hosts: Sequence[str],
    holder: Callable[[str], str | None],
) -> None:
    """Serve the gateway on a socket that is reached by these names, to whoever holds a token; `close` ends it all."""
    gateway = GatewayHttp(lambda send, client: Relay(front, send, Caller(name=client, proved=True)), close)
    serve_http(gateway_application(gateway, hosts, holder), listening, gateway.end)


def gateway_application(gateway: GatewayHttp, hosts: Sequence[str], holder: Callable[[str], str | None]) -> Entrance:
    """The gateway as an ASGI application, with the entrance before it."""
    return Entrance(gateway, hosts, holder, _passed)


def _passed(scope: Scope, client: str, token: str) -> None:
    """A client's next token does not take over what its last one began."""
    scope[_CLIENT], scope[_OWNER] = f"mcp/{client}", mark(token)


class GatewayHttp:
    """Sessions and lines of all clients that were let in; `close` closes what all of them stand on."""

    def __init__(
        self, begin: Begin, close: Callable[[], Awaitable[None]], *, idle_s: float = IDLE_S, sessions_max: int = 50
    ) -> None:
        """One more session of a token than `sessions_max` ends the one that nobody used for longest."""
        self._begin, self._close, self._idle_s, self._sessions_max = begin, close, idle_s, sessions_max
        self._sessions: dict[str, ClientSession] = {}
        self._direct: dict[str, Direct] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._limited = RequestBodyLimitMiddleware(self._http, BODY_MAX)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await self._limited(scope, receive, send)

    def end(self) -> None:
        """Let go of everybody who waits; what is asked from now on is not affected."""
        for line in (*self._sessions.values(), *self._direct.values()):
            line.end()

    async def _live(self, receive: Receive, send: Send) -> None:
        while (await receive())["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        lines: list[Line] = [*self._sessions.values(), *self._direct.values()]
        self._sessions.clear()
        self._direct.clear()
        await asyncio.gather(*(line.close() for line in lines), *self._closing, return_exceptions=True)
        await self._close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
        try:
            if version is None or version in HANDSHAKE_PROTOCOL_VERSIONS:
                await self._in_session(request, receive, send)
            else:
                await self._by_itself(request, receive, send)
        except _Turned as turned:
            await answer_json(send, turned.status, turned.message)

    async def _in_session(self, request: Request, receive: Receive, send: Send) -> None:
        takes_json, takes_stream = check_accept_headers(request)
        name = request.headers.get("mcp-session-id")
        session = self._session(name, request) if name is not None else None
        if request.method not in ("POST", "GET", "DELETE"):
            await answer_nothing(send, 405, ((b"allow", b"GET, POST, DELETE"),))
        elif request.method == "POST":
            if not (takes_json and takes_stream):
                raise _Turned(406, INVALID_REQUEST, "Both application/json and text/event-stream are to be taken.")
            message = _message(await request.body())
            if session is None and message.get("method") == "initialize" and "id" in message:
                await self._open(request, message, receive, send)
            else:
                await self._post(_there(session), message, receive, send)
        elif request.method == "GET":
            session = _there(session)
            if not takes_stream:
                raise _Turned(406, INVALID_REQUEST, "text/event-stream is to be taken.")
            if session.standing is not None:
                raise _Turned(409, INVALID_REQUEST, "The session has its stream already.")
            with session.used():
                await session.listen(receive, send)
        else:
            await self._forget_session(_there(session))
            await answer_nothing(send, 200)

    def _session(self, name: str, request: Request) -> ClientSession:
        session = self._sessions.get(name)
        if session is None or session.owner != request.scope[_OWNER]:
            raise _Turned(404, INVALID_REQUEST, "There is no such session.")
        return session

    async def _open(self, request: Request, message: Message, receive: Receive, send: Send) -> None:
        owner, name = request.scope[_OWNER], secrets.token_hex(16)
        self._make_room(owner)

        def idle() -> None:
            self._soon(self._forget_session(session))

        session = ClientSession(name, owner, self._begin, request.scope[_CLIENT], self._idle_s, idle)
        self._sessions[name] = session
        try:
            await self._post(session, message, receive, send)
        finally:
            if not session.begun:
                await self._forget_session(session)

    def _make_room(self, owner: str) -> None:
        of_owner = [one for one in self._sessions.values() if one.owner == owner]
        if len(of_owner) < self._sessions_max:
            return
        unused = [(one.idle_until, one) for one in of_owner if one.idle_until is not None]
        if not unused:
            raise _Turned(503, INTERNAL_ERROR, f"The client has {len(of_owner)} sessions, all of them at work.")
        left = min(unused, key=lambda found: found[0])[1]
        del self._sessions[left.name]
        self._soon(left.close())

    async def _post(self, session: ClientSession, message: Message, receive: Receive, send: Send) -> None:
        with session.used():
            if "method" not in message or "id" not in message:
                await session.say(message)
                await answer_nothing(send, 202, session.headers)
            elif session.asked(message["id"]):
                raise _Turned(400, INVALID_REQUEST, "A request with this id waits for its answer.", message["id"])
            else:
                await session.ask(message, receive, send)

    async def _forget_session(self, session: ClientSession) -> None:
        if self._sessions.pop(session.name, None) is not None:
            await session.close()

    async def _by_itself(self, request: Request, receive: Receive, send: Send) -> None:
        if request.method != "POST":
            await answer_nothing(send, 405, ((b"allow", b"POST"),))
            return
        if not all(check_accept_headers(request)):
            await answer_nothing(send, 406)
            return
        message = _message(await request.body())
        if "method" not in message:
            raise _Turned(400, INVALID_REQUEST, "Only requests and notifications are taken.")
        if "id" not in message:
            # A client cancels by leaving. There is nothing that another notification could be about.
            _want(unsupported_protocol_version_rejection(request.headers[MCP_PROTOCOL_VERSION_HEADER]))
            await answer_nothing(send, 202)
            return
        number = message["id"]
        twice = find_duplicated_routing_header(request.headers.items())
        if twice is not None:
            raise _Turned(400, HEADER_MISMATCH, f"{twice} header appears more than once", number)
        verdict = classify_inbound_request(message, headers=dict(request.headers))
        _want(verdict if isinstance(verdict, InboundLadderRejection) else None, number)
        line = self._line(request)
        _want(_params_rejection(line, message, request.headers), number)
        with line.used():
            await line.ask(message, receive, send, _status)

    def _line(self, request: Request) -> Direct:
        owner = request.scope[_OWNER]
        line = self._direct.get(owner)
        if line is None:
            idle = functools.partial(self._forget_line, owner)
            line = Direct(self._begin, request.scope[_CLIENT], self._idle_s, idle)
            self._direct[owner] = line
        return line

    def _forget_line(self, owner: str) -> None:
        line = self._direct.pop(owner, None)
        if line is not None:
            self._soon(line.close())

    def _soon(self, closing: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(closing)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _message(body: bytes) -> Message:
    try:
        message = read_line(body)
    except ValueError:  # also integers that nobody would read
        raise _Turned(400, PARSE_ERROR, "Parse error") from None
    well_formed = isinstance(message, dict) and message.get("jsonrpc") == "2.0"
    if well_formed and "id" in message:
        number = message["id"]
        well_formed = isinstance(number, str | int) and not isinstance(number, bool)
    if well_formed and "method" in message:
        params = message.get("params", {})
        well_formed = isinstance(message["method"], str) and isinstance(params, dict)
    elif well_formed:
        well_formed = "id" in message and ("result" in message) is not ("error" in message)
    if not well_formed:
        raise _Turned(400, INVALID_REQUEST, "The body is to be one JSON-RPC message, and no batch.")
    assert isinstance(message, dict)
    return message


def _there(session: ClientSession | None) -> ClientSession:
    if session is None:
        raise _Turned(400, INVALID_REQUEST, "The header Mcp-Session-Id is missing.")
    return session


def _want(rejection: InboundLadderRejection | None, to: Id | None = None) -> None:
    if rejection is not None:
        status = ERROR_CODE_HTTP_STATUS.get(rejection.code, 400)
        raise _Turned(status, rejection.code, rejection.message, to, rejection.data)


def _params_rejection(line: Direct, message: Message, headers: Headers) -> InboundLadderRejection | None:
    """What is wrong with the arguments that a call says in its headers too, where a client was told to."""
    params = message["params"]
    name, arguments = params.get("name"), params.get("arguments") or {}
    if message["method"] != "tools/call" or not isinstance(name, str) or not isinstance(arguments, dict):
        return None
    schema = line.schemas.get(name)
    return validate_mcp_param_headers(schema, arguments, headers) if schema is not None else None


def _status(message: Message) -> int:
    error = message.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return ERROR_CODE_HTTP_STATUS.get(code, 200) if isinstance(code, int) else 200
