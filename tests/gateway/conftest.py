"""Workspaces with servers that a person trusted."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.gateway.pipes import GATEWAY, LEGACY, ODD, Pipe
from tests.words import Channel, Instant, Principal, Sighting, open_at_terminal

KIM = Principal(name="kim", channel=Channel.TERMINAL)


class Site:
    """A workspace, and gateways over its servers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()

    def odd(self, name: str = "odd", prefix: str = "", era: str = "both") -> str:
        """The table of settings of a server that is started as `argv` says."""
        return f"[tools.{name}]\nmcp = {json.dumps(self.argv(name, prefix, era))}\ntrust_annotations = true\n"

    def argv(self, name: str = "odd", prefix: str = "", era: str = "both") -> list[str]:
        return [sys.executable, str(ODD), str(self.path / f"{name}.log"), prefix or "-", era]

    def received(self, name: str = "odd") -> list[str]:
        """The methods that a server was asked or told."""
        lines = (self.path / f"{name}.log").read_text().splitlines()
        return [str(json.loads(line).get("method")) for line in lines]

    def trust(self, text: str) -> None:
        (self.path / "ordain.toml").write_text(text)
        app = open_at_terminal(self.path, exact=True)
        asyncio.run(app.approvals.trust(app.approvals.configuration()[1], KIM))
        asyncio.run(app.close())

    def gateway(self, *args: str, era: str = LEGACY) -> Pipe:
        return Pipe([*GATEWAY, *args], self.path, era)

    def direct(self, era: str = LEGACY) -> Pipe:
        return Pipe(self.argv(), self.path, era)

    def sightings(self) -> list[Sighting]:
        app = open_at_terminal(self.path, exact=True)
        return list(app.ports.sightings.since(Instant(0)))

    def refused(self) -> list[tuple[str, str, str]]:
        """The refusals that a person can look up: whose, by which code, about what."""
        app = open_at_terminal(self.path, exact=True)
        found = [(one.event.by.name, one.event.code, one.event.subject) for one in app.refusals.newest()]  # type: ignore[union-attr]
        asyncio.run(app.close())
        return found


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "workspace")
