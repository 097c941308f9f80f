"""Calling Python that others wrote: found by name, called so that nothing goes on behind anybody's back, and what it
gives back as JSON can say it. Whatever goes wrong is a result."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from ordain.ports import ToolResult

__all__ = ["imported", "result_of"]


def imported(name: str) -> Any:
    """What `module:name` names. A module can raise anything while it is imported."""
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


async def result_of(function: Callable[..., Any], *args: Any, **named: Any) -> ToolResult:
    """What a function gives. It may be a coroutine function; any other one is called in a thread."""
    try:
        value = await (
            function(*args, **named)
            if inspect.iscoroutinefunction(function)
            else _in_thread(lambda: function(*args, **named))
        )
    except Exception as error:
        return ToolResult(error="F_STEP_FAILED", detail=f"it raised {error!r}")
    try:
        return ToolResult(value=msgspec.json.decode(msgspec.json.encode(value)))
    except (TypeError, ValueError, RecursionError) as error:
        return ToolResult(error="F_STEP_FAILED", detail=f"it gave back what JSON cannot say: {error}")


async def _in_thread(call: Callable[[], Any]) -> Any:
    """A thread cannot be ended from outside, so a call that is cancelled is finished."""
    import asyncio

    work = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        return await work
