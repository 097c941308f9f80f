"""A run as a task of MCP's Tasks extension: what a client relies on, through a real `ordain mcp`."""

from __future__ import annotations

import asyncio
from datetime import datetime
from itertools import product
from typing import Any

import pytest

from tests.interfaces.json_rpc import TASKS, RpcClient, RpcError
from tests.interfaces.workspace import ASKS, FAILS, KIM, SMALL, WAITS, Workspace
from tests.patience import PATIENCE_S, eventually
from tests.words import RequestRefused, open_at_terminal

ENDS = ("completed", "failed", "cancelled")
UNKNOWN = "RUN-AAAAAAAAAAAAAAAA"


def approved(workspace: Workspace, client: RpcClient, document: str) -> str:
    """Have the client propose a plan and a person approve it; the plan's short id."""
    plan = client.call("plan_propose", document=document)["structuredContent"]["data"]["plan"]
    app = open_at_terminal(workspace.path)
    asyncio.run(app.approvals.approve(plan, KIM))
    asyncio.run(app.close())
    assert isinstance(plan, str)
    return plan


def begun(workspace: Workspace, client: RpcClient, document: str) -> dict[str, Any]:
    """The task that starting an approved plan is answered with."""
    return client.call("plan_commit", plan=approved(workspace, client, document))


def until(client: RpcClient, task_id: str, *, words: str = "") -> dict[str, Any]:
    """Poll a task until it has ended, or says these words."""

    def told() -> dict[str, Any] | None:
        task = client.request("tasks/get", {"taskId": task_id})
        return task if task["status"] in ENDS or (words and words in task["statusMessage"]) else None

    found = eventually(told, f"{words or 'the end'} of {task_id}")
    assert found is not None
    return found


def test_a_run_is_a_task_from_its_start_to_its_end(workspace: Workspace) -> None:
    with RpcClient(workspace.path) as client:
        made = begun(workspace, client, WAITS)
        assert made["resultType"] == "task"
        assert made["taskId"].startswith("RUN-")
        assert (made["status"], made["ttlMs"], made["pollIntervalMs"]) == ("working", None, 1000)
        assert datetime.fromisoformat(made["createdAt"]) <= datetime.fromisoformat(made["lastUpdatedAt"])
        assert not {"result", "error", "inputRequests", "requestState", "content", "task"} & made.keys()

        at_work = until(client, made["taskId"], words="at work: slow")
        assert (at_work["resultType"], at_work["status"]) == ("complete", "working")
        assert at_work["statusMessage"] == "0 of 2 steps settled; at work: slow"
        assert "result" not in at_work

        (workspace.path / "go").touch()
        ended = until(client, made["taskId"])
        assert (ended["status"], ended["createdAt"]) == ("completed", made["createdAt"])
        result = ended["result"]
        assert result["isError"] is False
        assert result["structuredContent"]["data"]["status"] == "success"
        assert workspace.effects() == ["slow", "after"]

        status = client.call("plan_status", what=made["taskId"])["structuredContent"]
        assert result["structuredContent"]["data"] == status["data"]["run"]


@pytest.mark.slow
def test_a_run_that_failed_is_a_completed_task_with_an_error_in_it(workspace: Workspace) -> None:
    with RpcClient(workspace.path) as client:
        ended = until(client, begun(workspace, client, FAILS)["taskId"])
    assert (ended["status"], ended["result"]["isError"]) == ("completed", True)
    told = ended["result"]["structuredContent"]
    assert (told["ok"], told["error"]["code"]) == (False, "F_STEP_FAILED")
    data = told["data"]
    assert (data["status"], data["counts"]) == ("failed", {"passed": 1, "failed": 1, "cancelled": 1})
    assert "broken pipe in the cellar" in ended["result"]["content"][0]["text"]


def test_cancelling_a_task_ends_its_run_and_can_be_said_twice(workspace: Workspace) -> None:
    with RpcClient(workspace.path) as client:
        task_id = begun(workspace, client, WAITS)["taskId"]
        until(client, task_id, words="at work")
        for _ in range(2):
            answered = client.request("tasks/cancel", {"taskId": task_id})
            assert answered["resultType"] == "complete"
            assert answered.keys() == {"resultType", "_meta"}
        ended = until(client, task_id)
    assert ended["status"] == "cancelled"
    assert not {"result", "error"} & ended.keys()
    assert workspace.effects() == []


@pytest.mark.slow
def test_a_task_outlives_the_server_that_made_it(workspace: Workspace) -> None:
    with RpcClient(workspace.path) as client:
        made = begun(workspace, client, WAITS)
        until(client, made["taskId"], words="at work")
        client.kill()
    with RpcClient(workspace.path) as another:
        again = another.request("tasks/get", {"taskId": made["taskId"]})
        assert (again["status"], again["createdAt"]) == ("working", made["createdAt"])
        (workspace.path / "go").touch()
        assert until(another, made["taskId"])["result"]["isError"] is False


def test_a_run_that_waits_for_a_person_names_the_command_and_takes_no_answer(workspace: Workspace) -> None:
    with RpcClient(workspace.path) as client:
        task_id = begun(workspace, client, ASKS)["taskId"]
        waiting = until(client, task_id, words="When they have, call plan_commit")
        assert (waiting["status"], waiting["pollIntervalMs"]) == ("working", 10_000)
        assert "inputRequests" not in waiting

        given = {"fetch": {"action": "accept", "content": {"answer": "skip"}}}
        with pytest.raises(RpcError) as refused:
            client.request("tasks/update", {"taskId": task_id, "inputResponses": given})
        assert refused.value.code == -32602
        assert "E_APPROVAL_CHANNEL" in refused.value.message
        assert "ordain answer" in refused.value.message
        assert client.request("tasks/update", {"taskId": task_id, "inputResponses": {}})["resultType"] == "complete"
        assert client.request("tasks/get", {"taskId": task_id})["statusMessage"] == waiting["statusMessage"]

    app = open_at_terminal(workspace.path)
    recorded = [one.event for one in app.refusals.newest() if isinstance(one.event, RequestRefused)]
    asyncio.run(app.close())
    assert [(one.verb, one.code, one.subject) for one in recorded] == [("tasks/update", "E_APPROVAL_CHANNEL", task_id)]
    assert workspace.effects() == ["tried"]


@pytest.mark.slow
def test_a_run_goes_on_as_the_same_task_once_a_person_has_answered(workspace: Workspace) -> None:
    with RpcClient(workspace.path) as client:
        plan = approved(workspace, client, ASKS)
        task_id = client.call("plan_commit", plan=plan)["taskId"]
        until(client, task_id, words="A person decides")
        app = open_at_terminal(workspace.path)
        asyncio.run(app.answers.answer(app.runs.run(task_id).questions[0].item, "skip", KIM))
        asyncio.run(app.close())
        stopped = until(client, task_id, words=f"Nobody carries it out. Call plan_commit with plan={plan} to go on.")
        assert stopped["status"] == "working"
        assert client.call("plan_commit", plan=plan)["taskId"] == task_id
        assert until(client, task_id)["result"]["structuredContent"]["data"]["status"] == "success"
    assert workspace.effects() == ["tried", "rest"]


def test_what_is_not_the_callers_is_as_unknown_as_what_never_was(workspace: Workspace) -> None:
    theirs, _ = workspace.started("asks.plan.md")
    named = (theirs, theirs[:8], theirs.lower(), UNKNOWN, "", "no task", "../../etc/passwd")
    with RpcClient(workspace.path) as client:
        for method, task_id in product(("tasks/get", "tasks/update", "tasks/cancel"), named):
            with pytest.raises(RpcError) as refused:
                client.request(method, {"taskId": task_id, "inputResponses": {"a": {"action": "accept"}}})
            assert (refused.value.code, refused.value.message) == (-32602, f"Task not found: {task_id}")
    app = open_at_terminal(workspace.path)
    assert app.runs.run(theirs).status == "waiting"
    asyncio.run(app.close())


def test_where_nothing_was_ever_prepared_no_task_is_known(workspace: Workspace) -> None:
    with RpcClient(workspace.path) as client, pytest.raises(RpcError) as refused:
        client.request("tasks/get", {"taskId": UNKNOWN})
    assert (refused.value.code, refused.value.message) == (-32602, f"Task not found: {UNKNOWN}")


def test_a_client_that_did_not_declare_the_extension_is_answered_as_before(workspace: Workspace) -> None:
    with RpcClient(workspace.path, extensions=()) as client:
        assert TASKS in client.request("server/discover")["capabilities"]["extensions"]
        answered = begun(workspace, client, SMALL)
        assert answered["resultType"] == "complete"
        run_id = answered["structuredContent"]["data"]["run_id"]
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            with pytest.raises(RpcError) as refused:
                client.request(method, {"taskId": run_id, "inputResponses": {}})
            assert refused.value.code == -32021
            assert refused.value.data == {"requiredCapabilities": {"extensions": {TASKS: {}}}}


@pytest.mark.slow
def test_a_client_of_2025_sees_nothing_of_tasks(workspace: Workspace) -> None:
    with RpcClient(workspace.path, legacy=True) as client:
        assert "tasks" not in str(client.initialized["capabilities"])
        answered = begun(workspace, client, SMALL)
        assert "taskId" not in answered
        run_id = answered["structuredContent"]["data"]["run_id"]
        for method in ("tasks/get", "tasks/update", "tasks/cancel", "tasks/result", "tasks/list"):
            with pytest.raises(RpcError) as refused:
                client.request(method, {"taskId": run_id, "inputResponses": {}})
            assert refused.value.code == -32601


def test_who_waits_for_the_run_is_given_its_result_and_no_task(workspace: Workspace) -> None:
    with RpcClient(workspace.path) as client:
        answered = client.call("plan_commit", plan=approved(workspace, client, SMALL), wait_s=PATIENCE_S)
    assert answered["resultType"] == "complete"
    assert answered["structuredContent"]["data"]["status"] == "success"


def test_a_start_that_is_refused_is_a_result_and_no_task(workspace: Workspace) -> None:
    with RpcClient(workspace.path) as client:
        plan = client.call("plan_propose", document=SMALL)["structuredContent"]["data"]["plan"]
        answered = client.call("plan_commit", plan=plan)
    assert (answered["resultType"], answered["isError"]) == ("complete", True)
    assert answered["structuredContent"]["error"]["code"] == "E_PLAN_APPROVAL_MISSING"


@pytest.mark.slow
def test_changes_of_a_run_are_told_on_a_stream_that_names_it(workspace: Workspace) -> None:
    with RpcClient(workspace.path) as client:
        task_id = begun(workspace, client, WAITS)["taskId"]
        client.ask("subscriptions/listen", {"notifications": {"taskIds": [task_id, UNKNOWN]}})
        acknowledged = client.told("notifications/subscriptions/acknowledged")
        assert acknowledged["notifications"] == {"taskIds": [task_id]}
        (workspace.path / "go").touch()
        statuses = []
        while "completed" not in statuses:
            told = client.told("notifications/tasks")
            statuses.append(told["status"])
        assert told["result"]["structuredContent"]["data"]["status"] == "success"
        assert statuses[0] == "working"
