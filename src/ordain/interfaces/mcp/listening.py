"""Where a server over HTTP is reached: the socket, and the names it goes by. Loads nothing that is slow to load.

The invariant: nothing but this machine itself can reach the socket unless somebody said by which name others do.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Sequence

from ordain.core.problem import refuse
from ordain.interfaces.mcp.entrance import PATH

__all__ = ["address", "listen", "own_hosts"]


def listen(host: str, port: int, allowed: Sequence[str]) -> socket.socket:
    """A socket that listens there; raises Refused where others could reach it and nobody said by which name."""
    here = "127.0.0.1" if host == "localhost" else host
    if not _loopback(here) and not allowed:
        raise refuse(
            "E_MCP_START",
            f"{host} is an address that others can reach.",
            "With --allow-host NAME:PORT you say by which name they do. Nothing that is sent is encrypted then.",
        )
    family = socket.AF_INET6 if ":" in here else socket.AF_INET
    try:
        return socket.create_server((here, port), family=family)
    except (OSError, OverflowError) as error:
        reason = os.strerror(error.errno).lower() if isinstance(error, OSError) and error.errno else str(error)
        detail = f"It is not possible to listen on {host}, port {port}: {reason}."
        raise refuse("E_MCP_START", detail, "Choose another --port; 0 picks one that is free.") from error


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def own_hosts(listening: socket.socket) -> tuple[str, ...]:
    """What a request may be addressed to that comes from this machine."""
    port = listening.getsockname()[1]
    return tuple(f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]"))


def address(listening: socket.socket) -> str:
    """Where the server is reached."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"
