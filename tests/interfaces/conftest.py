"""Workspaces for the interface tests."""

from pathlib import Path

import pytest

from tests.interfaces.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    path = tmp_path / "workspace"
    path.mkdir()
    return Workspace(path)
