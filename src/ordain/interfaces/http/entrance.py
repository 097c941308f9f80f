"""Where a server over HTTP is reached, and what every request passes first: whom it is addressed to, whose page sent
it, and whose token it bears. Nothing but this machine reaches the socket unless somebody said by which name others do,
nothing is reached without a token that counts now, and nothing more is sent once it is revoked. ASGI, and nothing slow
to load."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import logging
import os
import re
import socket
from collections.abc import Awaitable, Callable, Collection, Iterator, MutableMapping, Sequence
from typing import Any

from ordain.core.text.problem import Problem, Refused, refuse

PATH = "/mcp"

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Passed = Callable[[Scope, str, str], None]
"""Told whose request was let in, and with which token, so that what comes after knows it."""

PORT_MAX = 65_535
_NAMED = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})")
_UNSAID = ("80", "443")
_log = logging.getLogger(__name__)


class Entrance:
    """Lets requests to one of these hosts in whose token `holder` knows. A browser sends `Host` and `Origin` by itself,
    and no page can change them: a page that is not of these hosts gets nowhere, under whatever name it found us."""

    def __init__(
        self, inside: Application, hosts: Collection[str], holder: Callable[[str], str | None], passed: Passed
    ) -> None:
        self._inside, self._hosts, self._holder, self._passed = inside, frozenset(hosts), holder, passed
        self._origins = frozenset(f"{scheme}://{host}" for host in hosts for scheme in ("http", "https"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._inside(scope, receive, send)
            return
        assert scope["type"] == "http", "nothing else is served"
        try:
            token = self._let_in(scope)
        except _TurnedAway as turned_away:
            await turned_away.answer(send)
            return
        await self._inside(scope, receive, self._while_good(token, send))

    def _let_in(self, scope: Scope) -> str:
        if _header(scope, b"host") not in self._hosts:
            raise _TurnedAway(421, "The Host header names another server.")
        if b"origin" in dict(scope["headers"]) and _header(scope, b"origin") not in self._origins:
            raise _TurnedAway(403, "The request comes from a page of another origin.")
        if scope["path"] != PATH:
            raise _TurnedAway(404, f"There is nothing here but {PATH}.")
        kind, _, token = (_header(scope, b"authorization") or "").partition(" ")
        if kind.lower() != "bearer" or not token:
            raise _TurnedAway(401, "A token is needed: Authorization: Bearer TOKEN.", b'Bearer realm="ordain"')
        client = self._client(token)
        media_type = (_header(scope, b"content-type") or "").partition(";")[0].strip().lower()
        if scope["method"] == "POST" and media_type != "application/json":
            raise _TurnedAway(415, "Only application/json is read.")
        self._passed(scope, client, token)
        return token

    def _client(self, token: str) -> str:
        try:
            client = self._holder(token)
        except (Refused, OSError) as error:
            _log.error("no token can be looked at: %s", error)
            raise _TurnedAway(503, "Tokens cannot be looked at; the server's own output says why.") from error
        if client is None:
            challenge = b'Bearer realm="ordain", error="invalid_token"'
            raise _TurnedAway(401, "The token is not one that counts here, or was revoked.", challenge)
        return client

    def _while_good(self, token: str, send: Send) -> Send:
        """Sending that ends the answer where the token counts no longer: a stream can last for hours."""
        ended = False

        async def sending(message: Message) -> None:
            nonlocal ended
            if ended:
                return
            begins = message["type"] == "http.response.start"
            if begins or (message["type"] == "http.response.body" and message.get("more_body")):
                try:
                    self._client(token)
                except _TurnedAway as turned_away:
                    ended = True
                    if begins:
                        await turned_away.answer(send)
                        return
                    message = {"type": "http.response.body", "body": b"", "more_body": False}
            await send(message)

        return sending


class _TurnedAway(Exception):
    """A request that is not let in, and what it is answered."""

    def __init__(self, status: int, words: str, challenge: bytes | None = None) -> None:
        super().__init__(words)
        self._status, self._words, self._challenge = status, words, challenge

    async def answer(self, send: Send) -> None:
        error = {"code": -32600, "message": self._words}
        body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if self._challenge is not None:
            headers.append((b"www-authenticate", self._challenge))
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})


def _header(scope: Scope, name: bytes) -> str | None:
    """A header that is there exactly once. Of two, nobody knows which one somebody else would believe."""
    found = [value for key, value in scope["headers"] if key == name]
    return found[0].decode("latin-1") if len(found) == 1 else None


def mark(token: str) -> str:
    """What a token is known by to what it begins, which keeps no token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def listen(host: str, port: int, allowed: Sequence[str]) -> socket.socket:
    """A socket that listens there; raises Refused where that cannot be, or others reach it by no name that was said."""
    here = "127.0.0.1" if host == "localhost" else host
    wrong = [Problem(code="E_MCP_START", detail=detail, hints=(hint,)) for detail, hint in _wrong(here, port, allowed)]
    if wrong:
        raise Refused(wrong)
    if not ipaddress.ip_address(here).is_loopback and not allowed:
        raise refuse(
            "E_MCP_START",
            f"{host} is an address that others can reach.",
            "With --allow-host NAME:PORT you say by which name they do. Nothing that is sent is encrypted then.",
        )
    family = socket.AF_INET6 if ":" in here else socket.AF_INET
    try:
        listening = socket.create_server((here, port), family=family)
        # What is accepted has it from here. Else the second part of an answer waits 40 ms until the first is confirmed.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
        detail = f"It is not possible to listen on {host}, port {port}: {reason}."
        raise refuse("E_MCP_START", detail, "Choose another --port; 0 picks one that is free.") from error


def _wrong(host: str, port: int, allowed: Sequence[str]) -> Iterator[tuple[str, str]]:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        yield f"--host wants an address of this machine, and `{host}` is none.", "Such as 127.0.0.1, ::1 or localhost."
    if not 0 <= port <= PORT_MAX:
        yield f"There is no port {port}.", f"Ports go up to {PORT_MAX}; 0 picks one that is free."
    for one in allowed:
        named = _NAMED.fullmatch(one)
        if named is None or not 0 < int(named["port"]) <= PORT_MAX:
            yield f"--allow-host wants NAME:PORT, and `{one}` is not that.", "Such as build.example:8443."


def own_hosts(listening: socket.socket) -> tuple[str, ...]:
    """What a request may be addressed to that comes from this machine."""
    port = listening.getsockname()[1]
    return tuple(f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]"))


def hosts(listening: socket.socket, allowed: Sequence[str]) -> tuple[str, ...]:
    """What a request may be addressed to: this machine, and the names that others use."""
    named = [found for one in allowed if (found := _NAMED.fullmatch(one)) is not None]
    bare = [found["name"] for found in named if found["port"] in _UNSAID]
    return (*own_hosts(listening), *allowed, *bare)


def address(listening: socket.socket) -> str:
    """Where the server is reached."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"
