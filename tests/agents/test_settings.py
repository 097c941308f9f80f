"""The settings in docs/clients.md are those that the tests use, but for the command."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from tests.agents.clients import Client, Site

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"


def test_the_settings_in_the_docs_are_those_that_are_tested(client: Client, tmp_path: Path) -> None:
    client.configure(Site(tmp_path, tmp_path, "http://127.0.0.1:1", ("ordain", "mcp")))
    tested = _server(Path(client.settings).suffix, (tmp_path / client.settings).read_text())
    section = PAGE.read_text().partition(f"\n### {client.name}\n")[2]
    shown = re.search(r"```(json|toml)\n(.*?)```", section, re.DOTALL)
    assert shown is not None
    assert f"`~/{client.settings}`" in section[: shown.start()]
    assert _server(f".{shown[1]}", shown[2]) == tested


def _server(notation: str, text: str) -> dict[str, Any]:
    """The part about our server, without what only tests say: the variables, and the tap before the command."""
    value = tomllib.loads(text) if notation == ".toml" else json.loads(text)
    (servers,) = (value[name] for name in ("mcpServers", "mcp_servers", "mcp") if name in value)
    server = {name: said for name, said in servers["ordain"].items() if name not in ("env", "environment")}
    command = server.pop("command")
    words = [*([command] if isinstance(command, str) else command), *server.pop("args", ())]
    return {**server, "command": words[-2:]}
