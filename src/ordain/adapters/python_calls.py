"""Calling Python that others wrote: so that nothing goes on behind anybody's back, and what it gives back as JSON can
say it. Whatever goes wrong is a result."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from ordain.ports import ToolResult

__all__ = ["called", "result_of"]


async def called(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """What a function gives, or raises. It may be a coroutine function; any other one is called in a thread."""
    if inspect.iscoroutinefunction(function):
        return await function(*args, **named)
    return await _in_thread(lambda: function(*args, **named))


async def result_of(function: Callable[..., Any], *args: Any, **named: Any) -> ToolResult:
    """The same, as a result."""
    try:
        value = await called(function, *args, **named)
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
