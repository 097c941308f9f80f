"""Our server against the protocol's own conformance suite: every scenario of both eras, required or not, and those
of the Tasks extension, each by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcp.node import CONFORMANCE, ROOT, node
from tests.patience import eventually

pytestmark = pytest.mark.mcp

EXCEPTIONS = {("extension", "tasks-status-notifications"): "the suite skips it: it checks nothing"}
"""Scenarios that our server does not pass, by version and name, each with the reason. One that passes does not stay."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the fixture build, which all scenarios use."""
    home = tmp_path_factory.mktemp("conformance")
    (home / "workspace").mkdir()
    port = home / "port"
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.mcp.fixture", home / "workspace", port],
        cwd=ROOT,
        env={**os.environ, "HOME": str(home), "ORDAIN_HOME": str(home / "state")},
    )
    try:
        eventually(lambda: port.exists() and port.read_text().endswith("\n"), "the server")
        yield f"http://127.0.0.1:{port.read_text().strip()}/mcp"
    finally:
        child.terminate()
        assert child.wait(20) == 0


def test_a_required_scenario_passes(server: str, version: str, scenario: str, tmp_path: Path):
    of_version = () if version == "extension" else ("--spec-version", version)
    args = ("--url", server, "--scenario", scenario, *of_version, "--output-dir", str(tmp_path))
    done = node(CONFORMANCE, "server", *args, cwd=tmp_path)
    checks = [check for file in tmp_path.rglob("checks.json") for check in json.loads(file.read_text())]
    bad = [check for check in checks if check["status"] in ("FAILURE", "WARNING")]
    passed = done.returncode == 0 and not bad and any(check["status"] == "SUCCESS" for check in checks)
    reason = EXCEPTIONS.get((version, scenario))
    assert passed is (reason is None), (reason, bad, done.stdout, done.stderr)
