"""docs/clients.md shows the settings and the versions that are tested, and what is installed for it is locked."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.agents.clients import Client, Site
from tests.agents.hosts import HOSTS, Host

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"
NPM = Path(__file__).with_name("npm")


def test_the_settings_in_the_docs_are_those_that_are_tested(client: Client, tmp_path: Path) -> None:
    client.configure(Site(tmp_path, tmp_path, "http://127.0.0.1:1", ("ordain", "mcp")))
    tested = _server(Path(client.settings).suffix, (tmp_path / client.settings).read_text())
    section = PAGE.read_text().partition(f"\n### {client.name}\n")[2]
    shown = re.search(r"```(json|toml)\n(.*?)```", section, re.DOTALL)
    assert shown is not None
    assert f"`~/{client.settings}`" in section[: shown.start()]
    assert _server(f".{shown[1]}", shown[2]) == tested


def test_the_lock_has_every_package_by_its_hash_and_names_no_registry() -> None:
    wanted = json.loads((NPM / "package.json").read_text())
    text = (NPM / "package-lock.json").read_text()
    assert "://" not in text
    packages = json.loads(text)["packages"]
    assert all("integrity" in package for path, package in packages.items() if path)
    for name, version in {**wanted["dependencies"], **wanted["optionalDependencies"]}.items():
        assert packages[f"node_modules/{name}"]["version"] == version


def test_the_versions_in_the_docs_are_those_that_are_installed(client: Client) -> None:
    wanted = json.loads((NPM / "package.json").read_text())
    version = {**wanted["dependencies"], **wanted["optionalDependencies"]}[client.package]
    assert f"\n| {client.name} {version} |" in PAGE.read_text()


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.preset)
def test_the_presets_in_the_docs_are_those_that_are_installed(host: Host) -> None:
    wanted = json.loads((NPM / "package.json").read_text())
    version = {**wanted["dependencies"], **wanted["optionalDependencies"]}[host.package]
    assert f"\n| {host.preset} {version} |" in PAGE.with_name("agents.md").read_text()


def _server(notation: str, text: str) -> dict[str, Any]:
    """The part about our server, without what only tests say: the variables, and the tap before the command."""
    value = tomllib.loads(text) if notation == ".toml" else json.loads(text)
    (servers,) = (value[name] for name in ("mcpServers", "mcp_servers", "mcp") if name in value)
    server = {name: said for name, said in servers["ordain"].items() if name not in ("env", "environment")}
    command = server.pop("command")
    words = [*([command] if isinstance(command, str) else command), *server.pop("args", ())]
    return {**server, "command": words[-2:]}
