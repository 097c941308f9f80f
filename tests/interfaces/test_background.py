"""Processes that carry out runs for clients: one for each, however often and under whatever name it is asked for."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from ordain.app import App
from ordain.assemble import open_workspace
from ordain.core.approval import Channel, Principal
from ordain.core.report import RunReport
from ordain.interfaces.background import Background
from ordain.interfaces.mcp import following
from ordain.interfaces.mcp.surface import Call
from tests.interfaces.terminal import PATIENCE_S
from tests.interfaces.workspace import KIM, SMALL, WAITS, Workspace


def at_work_on(plan: str) -> int:
    """How many processes that we started have this plan among their words."""
    children = Path("/proc/thread-self/children").read_text().split()
    return sum(plan.encode() in Path(f"/proc/{child}/cmdline").read_bytes() for child in children)


def test_a_client_that_calls_itself_something_else_each_time_begins_no_second_process(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "BEGINNING_S", 0.2)

    def workspaces() -> App:
        return open_workspace(workspace.path, exact=True)

    async def progress(*told: Any) -> None: ...

    async def whole() -> None:
        app = workspaces()
        first, *others = (Principal(name="mcp/a", channel=Channel.MCP, agent=f"agent {n}") for n in range(4))
        slow = (await app.prepare(WAITS.encode(), None, first)).review.plan_id
        queued = (await app.prepare(SMALL.encode(), None, first)).review.plan_id
        for plan in (slow, queued):
            await app.approve(plan, KIM)
        async with asyncio.timeout(PATIENCE_S):
            while await following.begin(Call(first, workspaces, progress), app, slow) is None:
                pass
        for by in others:
            assert await following.begin(Call(by, workspaces, progress), app, queued) is None
        assert at_work_on(queued) == 1
        (workspace.path / "go").touch()
        async with asyncio.timeout(PATIENCE_S):
            while workspace.effects() != ["slow", "after", "one", "two"]:
                await asyncio.sleep(0.02)
        await app.close()

    asyncio.run(whole())


def test_calls_that_wait_beyond_what_one_client_may_are_answered_at_once(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "WAITING_MAX", 2)

    def workspaces() -> App:
        return open_workspace(workspace.path, exact=True)

    async def progress(*told: Any) -> None: ...

    async def whole() -> None:
        app = workspaces()
        greedy, other = (Principal(name=name, channel=Channel.MCP) for name in ("mcp/greedy", "mcp/other"))
        plan = (await app.prepare(WAITS.encode(), None, greedy)).review.plan_id
        await app.approve(plan, KIM)
        run_id = await following.begin(Call(greedy, workspaces, progress), app, plan)
        assert run_id is not None

        async def waits(by: Principal) -> RunReport:
            call = Call(by, workspaces, progress)
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
    background = Background(str(workspace.path), ["commit", "4711"], as_json=True)
    until = time.monotonic() + PATIENCE_S
    while (ended := background.ended()) is None:
        assert time.monotonic() < until
        time.sleep(0.02)
    background.close()
    assert background.ended() == ended
    assert b"E_PLAN_NOT_FOUND" in ended[1]
