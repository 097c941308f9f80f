"""A client and a private home for the tests with real command-line agents; workspaces as in the interface tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.agents.clients import CLIENTS, Client
from tests.interfaces.conftest import workspace

__all__ = ["workspace"]


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    found: Client = request.param
    return found


@pytest.fixture
def home() -> Path:
    """The home that every test has to itself, as the person and the agents of a machine share one."""
    return Path(os.environ["HOME"])
