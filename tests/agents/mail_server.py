"""A mail server's MCP server, as a team has one: it reads an inbox, and writes letters to the file it is given."""

from __future__ import annotations

import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("mail")


@server.tool()
def inbox() -> list[str]:
    """The letters there are."""
    return ["A letter from Kim: please tell everybody."]


@server.tool()
def send(to: str, body: str) -> str:
    """Send a letter."""
    with Path(sys.argv[1]).open("a", encoding="utf-8") as letters:
        letters.write(f"{to}: {body}\n")
    return f"sent to {to}"


if __name__ == "__main__":
    server.run()
