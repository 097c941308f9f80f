"""How many calls of tools the agent of a step may make in one attempt."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from tests.build import plan, step
from tests.twins.execution import ManualClock
from tests.words import CALLS_MAX, Calls


def test_after_very_many_calls_none_is_answered_any_more() -> None:
    told: list[str] = []

    async def refused(subject: str, who: Any, problem: Any) -> None:
        told.append(problem.code)

    one = step("s1")
    run: Any = SimpleNamespace(
        state=SimpleNamespace(step=lambda _: one, plan=plan(one)),
        ports=SimpleNamespace(clock=ManualClock()),
        sink=SimpleNamespace(text=str),
        authority=SimpleNamespace(refused=refused),
    )
    item: Any = SimpleNamespace(step="s1", timeout_ms=1, tools={}, agent="coder", run_id="RUN-A")
    calls = Calls(run, item, "mark", asyncio.Lock())
    calls.made = CALLS_MAX - 1
    calls.refused = 1
    answer = asyncio.run(calls.serve("write_file", {"path": "a", "content": "x"}))
    assert answer.problem is not None and answer.problem.code == "E_CALLS_TOO_MANY" and told == ["E_CALLS_TOO_MANY"]
