"""A function of the program that uses us performs a task, in its own process. Whatever goes wrong is a result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from ordain.adapters.agents.python_work import Cannot, Work
from ordain.adapters.tools.python import called, result_of
from ordain.core.run.prompt import AGENT_CANNOT, cannot_words
from ordain.core.run.spending import read_usage
from ordain.core.task.work_item import WorkItem
from ordain.ports.ports import ToolResult


async def performed(function: Callable[[Work], Any], item: WorkItem) -> ToolResult:
    """What a function gives for an item, and what it reports that it used."""
    reports: list[str] = []
    work = Work(msgspec.to_builtins(item), call=None, report=reports.append)
    cannot: Cannot | None = None

    async def attempt() -> Any:
        nonlocal cannot
        try:
            return await called(function, work)
        except Cannot as error:
            cannot = error

    result = await result_of(attempt)
    if cannot is not None:
        result = ToolResult(error=AGENT_CANNOT, detail=cannot_words(f"`{item.agent}`", str(cannot)))
    return replace(result, used=read_usage("".join(reports).encode())[0])
