"""Processes that carry out runs for clients: one for each, however often and under whatever name it is asked for."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ordain.interfaces.mcp import follow as following
from tests.interfaces.workspace import KIM, SMALL, WAITS, Workspace
from tests.patience import PATIENCE_S, eventually, eventually_in_loop
from tests.words import (
    PLAN_SURFACE,
    App,
    BackgroundProcess,
    Channel,
    ClientCall,
    McpTools,
    Principal,
    Refused,
    RunReport,
    open_at_terminal,
    refuse,
)


def children_with(plan: str) -> list[int]:
    """The processes that we started with this plan among their words."""
    children = Path("/proc/thread-self/children").read_text().split()
    return [int(child) for child in children if plan.encode() in Path(f"/proc/{child}/cmdline").read_bytes()]


def at_work_on(plan: str) -> int:
    return len(children_with(plan))


@pytest.mark.slow
def test_a_client_that_calls_itself_something_else_each_time_begins_no_second_process(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "BEGINNING_S", 0.2)

    def workspaces() -> App:
        return open_at_terminal(workspace.path, exact=True)

    async def progress(*told: Any) -> None: ...

    async def whole() -> None:
        app = workspaces()
        first, *others = (Principal(name="mcp/a", channel=Channel.MCP, agent=f"agent {n}") for n in range(4))
        slow = (await app.plans.prepare(WAITS.encode(), None, first)).review.plan_id
        queued = (await app.plans.prepare(SMALL.encode(), None, first)).review.plan_id
        for plan in (slow, queued):
            await app.approvals.approve(plan, KIM)
        async with asyncio.timeout(PATIENCE_S):
            while await following.begin(ClientCall(first, workspaces, progress), app, slow) is None:
                pass
        for by in others:
            assert await following.begin(ClientCall(by, workspaces, progress), app, queued) is None
        assert at_work_on(queued) == 1
        (workspace.path / "go").touch()
        await eventually_in_loop(lambda: workspace.effects() == ["slow", "after", "one", "two"], "both runs")
        await app.close()

    asyncio.run(whole())


@pytest.mark.slow
def test_calls_that_wait_beyond_what_one_client_may_are_answered_at_once(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "WAITING_MAX", 2)

    def workspaces() -> App:
        return open_at_terminal(workspace.path, exact=True)

    async def progress(*told: Any) -> None: ...

    async def whole() -> None:
        app = workspaces()
        greedy, other = (Principal(name=name, channel=Channel.MCP) for name in ("mcp/greedy", "mcp/other"))
        plan = (await app.plans.prepare(WAITS.encode(), None, greedy)).review.plan_id
        await app.approvals.approve(plan, KIM)
        run_id = await following.begin(ClientCall(greedy, workspaces, progress), app, plan)
        assert run_id is not None

        async def waits(by: Principal) -> RunReport:
            call = ClientCall(by, workspaces, progress)
            with following.time_to_wait(call, PATIENCE_S) as wait_s:
                return await following.follow(call, app, run_id, wait_s)

        calls = [asyncio.create_task(waits(by)) for by in (greedy, greedy, greedy, other)]
        done, waiting = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        assert done == {calls[2]} and calls[2].result().status == "executing"
        (workspace.path / "go").touch()
        assert {(await one).status for one in waiting} == {"completed"}
        assert (await waits(greedy)).status == "completed"
        await app.close()

    asyncio.run(whole())


def test_what_a_process_said_is_known_to_whoever_looks_after_another_let_go_of_it(workspace: Workspace) -> None:
    background = BackgroundProcess(str(workspace.path), ["commit", "4711"], as_json=True)
    ended = eventually(background.ended, "its end")
    background.close()
    assert background.ended() == ended
    assert b"E_PLAN_NOT_FOUND" in ended[1]


def test_who_asks_a_slow_tool_server_does_not_keep_the_place_from_others(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = [sys.executable, str(Path(__file__).parents[1] / "tool_server.py"), "good"]
    workspace.trust(f"[tools.box]\nmcp = {json.dumps(server)}\n")
    step = {"id": "s", "action": {"type": "tool", "tool": "box", "operation": "echo", "args": {"text": "a"}}}
    free: list[bool] = []

    def never_answers(*given: Any) -> Any:
        try:
            with app.ports.lock.place("somebody else", 1):
                free.append(True)
        except Refused:
            free.append(False)
        raise refuse("E_TOOL_SOURCE", "The tool `box` cannot be had.")

    async def approved(app: App) -> str:
        plan = (await app.plans.prepare(msgspec.json.encode({"title": "T", "steps": [step]}), None, KIM)).review.plan_id
        await app.approvals.approve(plan, KIM)
        await app.close()
        return plan

    plan = asyncio.run(approved(open_at_terminal(workspace.path, exact=True)))
    app = open_at_terminal(workspace.path, exact=True)
    with monkeypatch.context() as patch, pytest.raises(Refused) as caught:
        patch.setattr(McpTools, "definitions", never_answers)
        asyncio.run(app.runs.commit(plan, KIM))
    assert caught.value.problems[0].code == "E_TOOL_SOURCE"
    assert free == [True], "it is asked once, before the place is taken"
    # Who tries again asks again.
    assert asyncio.run(app.runs.commit(plan, KIM)).status == "completed"
    asyncio.run(app.close())


def test_a_start_that_takes_long_is_not_called_another_run(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "BEGINNING_S", 0.0)

    class Slow:
        def ended(self) -> None:
            return None

    monkeypatch.setattr(following, "_in_background", lambda app, words: Slow())

    async def progress(*told: Any) -> None: ...

    async def whole() -> tuple[Any, Any]:
        app = open_at_terminal(workspace.path, exact=True)
        by = Principal(name="mcp/a", channel=Channel.MCP)
        plan = (await app.plans.prepare(SMALL.encode(), None, by)).review.plan_id
        await app.approvals.approve(plan, KIM)
        call = ClientCall(by, lambda: open_at_terminal(workspace.path, exact=True), progress)
        (commit,) = (tool for tool in PLAN_SURFACE.tools if tool.name == "plan_commit")
        starting: Any = await commit.call(call, commit.arguments(plan=plan))
        other = (await app.plans.prepare(WAITS.encode(), None, by)).review.plan_id
        await app.approvals.approve(other, KIM)
        running = asyncio.create_task(app.runs.commit(other, KIM))
        await eventually_in_loop(lambda: app.runs.executing(other) is not None, "the other run")
        elsewhere = open_at_terminal(workspace.path, exact=True)
        elsewhere.ports.lock.holder = lambda what: object() if what == app.runs.executing(other) else None  # type: ignore
        call = ClientCall(by, lambda: elsewhere, progress)
        queued: Any = await commit.call(call, commit.arguments(plan=plan))
        (workspace.path / "go").touch()
        await running
        await app.close()
        return starting, queued

    starting, queued = asyncio.run(whole())
    assert starting.data.status == "starting" and "tool server" in starting.next[0]
    assert queued.data.status == "waiting_for_place" and "Another run is at work" in queued.next[0]


def test_a_process_that_is_killed_before_it_has_said_anything_is_told_of(workspace: Workspace) -> None:
    def workspaces() -> App:
        return open_at_terminal(workspace.path, exact=True)

    async def progress(*told: Any) -> None: ...

    async def whole() -> None:
        app = workspaces()
        by = Principal(name="mcp/a", channel=Channel.MCP)
        plan = (await app.plans.prepare(WAITS.encode(), None, by)).review.plan_id
        await app.approvals.approve(plan, KIM)
        beginning = asyncio.create_task(following.begin(ClientCall(by, workspaces, progress), app, plan))
        await eventually_in_loop(lambda: bool(children_with(plan)), "the process")
        for child in children_with(plan):
            os.kill(child, signal.SIGKILL)
        with pytest.raises(Refused) as caught:
            await beginning
        assert [one.code for one in caught.value.problems] == ["E_BACKGROUND"]
        await app.close()

    asyncio.run(whole())
