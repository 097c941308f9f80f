"""A workspace, a private home and a client for the tests with real command-line agents."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.agents.clients import CLIENTS, Client
from tests.interfaces.workspace import Workspace


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    found: Client = request.param
    return found


@pytest.fixture
def home() -> Path:
    """The home that every test has to itself, as the person and the agents of a machine share one."""
    return Path(os.environ["HOME"])


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    path = tmp_path / "workspace"
    path.mkdir()
    return Workspace(path)
