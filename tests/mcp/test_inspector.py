"""The protocol's own inspector with the real `ordain mcp`, on standard input and output and over HTTP, in both eras."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.served import fronting, gateway, token
from tests.interfaces.http_server import HttpServer
from tests.mcp.node import INSPECTOR, node

pytestmark = pytest.mark.mcp

DOCUMENT = "# Say hello\n\n1. `echo hello > greeting.txt`\n"
Inspect = Callable[..., Any]


def through(*where: str) -> Inspect:
    """Has the inspector do one thing there; what it was answered."""

    def ask(era: str, *args: str) -> Any:
        settings = ("--protocol-era", era, "--format", "json", "--quiet")
        done = node(INSPECTOR, "--cli", *where, *settings, *args)
        assert done.returncode == 0, done
        told = json.loads(done.stdout)
        return told.get("result", told)

    return ask


def through_http(port: int, shown: str) -> Inspect:
    where = f"http://127.0.0.1:{port}/mcp"
    return through("--server-url", where, "--transport", "http", "--header", f"Authorization: Bearer {shown}")


@pytest.fixture(params=["stdio", "http"])
def inspect(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Inspect]:
    """Has the inspector do one thing; what it was answered."""
    if request.param == "stdio":
        names = [name for name in ("ORDAIN_HOME", "HOME", "PYTHONPATH", "PATH") if name in os.environ]
        given = [word for name in names for word in ("-e", f"{name}={os.environ[name]}")]
        yield through(sys.executable, "-m", "ordain", "mcp", "--cwd", str(tmp_path), *given)
        return
    with HttpServer(tmp_path) as server:
        yield through_http(server.port, server.token("inspector"))


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_lists_tools_and_proposes_a_plan(inspect: Inspect, era: str):
    listed = inspect(era, "--method", "tools/list", "--strict")  # refused where a client could not use a schema
    assert {"plan_propose", "plan_commit", "plan_approve"} <= {tool["name"] for tool in listed["tools"]}
    arguments = json.dumps({"document": DOCUMENT})
    for tool in ("plan_lint", "plan_propose"):
        answer = inspect(era, "--method", "tools/call", "--tool-name", tool, "--tool-args-json", arguments)
        assert answer["structuredContent"]["ok"], answer
    lineage = answer["structuredContent"]["data"]["lineage"]
    listed = inspect(era, "--method", "resources/list")
    assert f"ordain://plan/{lineage}" in {one["uri"] for one in listed["resources"]}
    read = inspect(era, "--method", "resources/read", "--uri", f"ordain://plan/{lineage}/preview")
    assert "echo hello > greeting.txt" in read["contents"][0]["text"]


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_reaches_a_server_through_the_gateway_over_http(tmp_path: Path, era: str):
    workspace = fronting(tmp_path)
    with gateway(workspace.path) as port:
        inspect = through_http(port, token(workspace, "inspector"))
        listed = inspect(era, "--method", "tools/list", "--strict")
        assert {"say", "send", "plan_propose"} <= {tool["name"] for tool in listed["tools"]}
        arguments = ("--tool-args-json", json.dumps({"text": "a-1"}))
        said = inspect(era, "--method", "tools/call", "--tool-name", "say", *arguments)
        assert said["content"] == [{"type": "text", "text": "a-1"}]
