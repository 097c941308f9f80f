"""What a client is told holds no secret that the settings in force name, wherever it was before they did."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.interfaces.json_rpc import RpcClient
from tests.interfaces.workspace import KIM, Workspace
from tests.words import open_at_terminal, sha256

SECRET = "tr0ub4dor-and-three"


def hide(workspace: Workspace, home: Path) -> None:
    """Name the secret in settings that a person trusts."""
    file = home / "secret"
    file.write_text(SECRET + "\n")
    file.chmod(0o600)
    settings = workspace.write("ordain.toml", '[secrets]\nfiles = ["~/secret"]\n')
    app = open_at_terminal(workspace.path, exact=True)
    asyncio.run(app.approvals.trust(sha256(settings.read_bytes()), KIM))
    asyncio.run(app.close())


def test_what_the_trusted_settings_call_a_secret_is_told_to_no_client(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with RpcClient(workspace.path) as client:
        steps = [{"description": "Say it", "run": f"echo {SECRET}; exit 3"}]
        proposed = client.call("plan_propose", title="Say a secret", steps=steps)["structuredContent"]
        plan = proposed["data"]["plan"]
        workspace.approve(plan)
        run = client.call("plan_commit", plan=plan, wait_s=30)["structuredContent"]["data"]["run_id"]
        hide(workspace, tmp_path)
        told = [
            client.call("plan_get", plan=plan),
            client.call("plan_status", what=plan, full=True),
            client.request("tasks/get", {"taskId": run}),
            client.request("prompts/get", {"name": "write-plan", "arguments": {"task": f"Say {SECRET}"}}),
            client.request("prompts/get", {"name": "revise-plan", "arguments": {"plan": plan}}),
            client.request("prompts/get", {"name": "explain-failure", "arguments": {"run": run}}),
        ]
        for uri in (f"plan/{plan}", f"plan/{plan}/preview", f"run/{run}", f"run/{run}/log", f"run/{run}/output/say-it"):
            told.append(client.request("resources/read", {"uri": f"ordain://{uri}"}))
    assert [SECRET in json.dumps(one) for one in told] == [False] * len(told)
