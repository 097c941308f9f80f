"""Where a server over HTTP is reached: the socket, and the names it goes by. Loads nothing that is slow to load.

The invariant: nothing but this machine itself can reach the socket unless somebody said by which name others do.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Iterator, Sequence

from ordain.core.text.problem import Problem, Refused, refuse
from ordain.interfaces.mcp.entrance import PATH

PORT_MAX = 65_535
_NAMED = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})")
_UNSAID = ("80", "443")
"""Ports that clients leave out of `Host`."""


def listen(host: str, port: int, allowed: Sequence[str]) -> socket.socket:
    """A socket that listens there; raises Refused where that is no place to listen on, or others could reach it and
    nobody said by which name."""
    here = "127.0.0.1" if host == "localhost" else host
    wrong = [Problem(code="E_MCP_START", detail=detail, hints=(hint,)) for detail, hint in _wrong(here, port, allowed)]
    if wrong:
        raise Refused(wrong)
    if not _loopback(here) and not allowed:
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
    """What is not written as it must be, and how it is written."""
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


def _loopback(host: str) -> bool:
    return ipaddress.ip_address(host).is_loopback


def own_hosts(listening: socket.socket) -> tuple[str, ...]:
    """What a request may be addressed to that comes from this machine."""
    port = listening.getsockname()[1]
    return tuple(f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]"))


def hosts(listening: socket.socket, allowed: Sequence[str]) -> tuple[str, ...]:
    """What a request may be addressed to: this machine, and the names that others use, which go without the port where
    that is the usual one."""
    named = [found for one in allowed if (found := _NAMED.fullmatch(one)) is not None]
    bare = [found["name"] for found in named if found["port"] in _UNSAID]
    return (*own_hosts(listening), *allowed, *bare)


def address(listening: socket.socket) -> str:
    """Where the server is reached."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"
