"""Where nothing can be answered, a client is told why and what helps, by every method and not only by tools."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.json_rpc import RpcClient, RpcError
from tests.interfaces.workspace import FAILS, Workspace

COMPLETE = {"ref": {"type": "ref/prompt", "name": "revise-plan"}, "argument": {"name": "plan", "value": ""}}


@pytest.mark.part(of=3)
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("resources/list", {}),
        ("resources/read", {"uri": "ordain://plan/PLAN-A"}),
        ("prompts/get", {"name": "revise-plan", "arguments": {"plan": "PLAN-A"}}),
        ("completion/complete", COMPLETE),
        ("tasks/get", {"taskId": "RUN-A"}),
        ("subscriptions/listen", {"notifications": {"resourcesListChanged": True}}),
    ],
)
def test_a_record_that_cannot_be_opened_is_told_with_the_command_that_helps(
    workspace: Workspace, method: str, params: dict[str, Any]
) -> None:
    workspace.prepared("small.plan.md")
    state = Path(os.environ["ORDAIN_HOME"])
    with RpcClient(workspace.path) as client:
        client.call("plan_list")
        state.chmod(0o755)
        with pytest.raises(RpcError) as caught:
            client.request(method, params)
        assert "E_STATE_DIR" in caught.value.message and f"chmod 700 {state}" in caught.value.message
        state.chmod(0o700)
        assert client.call("plan_list")["structuredContent"]["ok"]


@pytest.mark.slow
def test_a_run_that_failed_is_not_called_fine_in_the_answer_to_whoever_started_it(workspace: Workspace) -> None:
    with RpcClient(workspace.path, extensions=()) as client:
        plan = client.call("plan_propose", document=FAILS)["structuredContent"]["data"]["plan"]
        workspace.approve(plan)
        result = client.call("plan_commit", plan=plan, wait_s=30)
        looked = client.call("plan_status", what=plan)
    told = result["structuredContent"]
    assert (result["isError"], told["ok"], told["error"]["code"]) == (True, False, "F_STEP_FAILED")
    assert told["data"]["status"] == "failed" and told["problems"][0]["code"] == "F_STEP_FAILED"
    assert looked["structuredContent"]["ok"]  # looking at it went well
