"""What the gateway needs beside an App: sessions with the servers that it stands before. `ordain mcp` loads it."""

from __future__ import annotations

from pathlib import Path

from ordain.adapters.tools.upstream import ServerSessions
from ordain.ports.tool import Upstreams


def open_upstreams(workspace: str) -> Upstreams:
    """Sessions with the servers that a workspace's settings name, which are started in it."""
    return ServerSessions(Path(workspace))
