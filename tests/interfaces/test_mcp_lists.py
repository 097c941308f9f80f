"""Lists of plans for clients: the newest of those that are theirs, and no other is looked at."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.interfaces.workspace import Workspace
from tests.words import (
    PLAN_PROMPTS,
    PLAN_TOOLS,
    Answer,
    Channel,
    ClientCall,
    Principal,
    Records,
    listed_plans,
    open_workspace,
)

AGENT = Principal(name="kim", channel=Channel.MCP)
OTHER = Principal(name="lee", channel=Channel.MCP)
LIST = next(tool for tool in PLAN_TOOLS if tool.name == "plan_list")


def test_a_list_looks_at_no_plan_that_it_does_not_show(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    plan = Records.plan

    def counted(self: Records, stream: str, *rest: Any) -> Any:
        looked.append(stream)
        return plan(self, stream, *rest)

    async def told() -> None:
        app = open_workspace(workspace.path, exact=True)
        for number in range(6):
            by = OTHER if number == 4 else AGENT
            await app.plans.prepare(f"# Plan {number}\n\n1. `echo {number}`\n".encode(), None, by)
        await app.plans.cancel(app.plans.owned(AGENT)[3].state.plan_id, AGENT)
        await app.close()
        monkeypatch.setattr(Records, "plan", counted)
        call = ClientCall(AGENT, lambda: open_workspace(workspace.path, exact=True), _nobody)
        assert await _listed(call, limit=2) == (["Plan 3", "Plan 5"], 5)
        assert len(looked) == 1  # of the one that is proposed
        looked.clear()
        assert await _listed(call, limit=2, status="proposed") == (["Plan 2", "Plan 5"], 4)
        assert len(looked) == 4  # those that are counted
        complete = next(prompt for prompt in PLAN_PROMPTS if prompt.name == "execute-plan").arguments[0].complete
        assert complete is not None and len(await complete(call, "PLAN-")) == 5
        assert len(looked) == 4
        assert len(await listed_plans(call)) == 6  # and the skill

    asyncio.run(told())


async def _listed(call: ClientCall, **arguments: Any) -> tuple[list[str], int]:
    answer = await LIST.call(call, LIST.arguments(**arguments))
    assert isinstance(answer, Answer)
    return [one.title for one in answer.data.plans], answer.data.count


async def _nobody(done: float, total: float | None, words: str) -> None:
    """Told how far it is."""
