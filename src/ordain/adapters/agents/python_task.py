"""How a Python function performs a task: in a fresh process with our own interpreter and modules, where the
configuration names it; in this program, where it was registered here."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from ordain.adapters.agents import python_agent
from ordain.adapters.agents.python_work import Cannot, Work
from ordain.adapters.process.outside import our_python
from ordain.adapters.tools.python import called, result_of
from ordain.core.policy.agent import Agent
from ordain.core.run.prompt import AGENT_CANNOT, CANNOT, cannot_words
from ordain.core.run.spending import read_usage
from ordain.core.task.work_item import WorkItem
from ordain.ports.agent import Invocation, Said, StepServer
from ordain.ports.tool import ToolResult


def python_invocation(agent: Agent, item: WorkItem, server: StepServer | None) -> Invocation:
    assert agent.python is not None
    given = {
        "call": agent.python,
        "path": [path for path in sys.path if os.path.isabs(path)],  # noqa: PTH117
        "item": item,
        "server": {"argv": server.argv, "env": server.env} if server is not None else None,
        "cannot": CANNOT,
    }
    return Invocation(
        # `-P`: what stands beside the program or in the directory it is started in is none of ours.
        argv=(sys.executable, "-P", str(Path(python_agent.__file__).resolve())),
        stdin=msgspec.json.encode(given),
        read=lambda finished: Said(text=finished.output, as_value=True),
        sees=(*our_python(), *_package(agent.python)),
        home=agent.files,
    )


def _package(name: str) -> tuple[str, ...]:
    """Where the outermost package or module of a function is; nothing where it cannot be found."""
    try:
        spec = importlib.util.find_spec(name.partition(":")[0].partition(".")[0])
    except (ImportError, ValueError, AttributeError):
        return ()
    if spec is None:
        return ()
    return tuple(spec.submodule_search_locations or ()) or ((spec.origin,) if spec.origin is not None else ())


def unregistered(agent: str) -> ToolResult:
    """What becomes of an item whose function this program does not have."""
    return ToolResult(error="F_STEP_FAILED", detail=f"the agent `{agent}` is not registered in this program")


async def performed(function: Callable[[Work], Any], item: WorkItem) -> ToolResult:
    """What a function of this program gives for an item, and what it reports that it used."""
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
