"""Tasks that agents perform, beside starting the same processes with the same prompts: without a sandbox and in one."""

from __future__ import annotations

import shutil
import sys

from bench.measure import Line, Size, compare, race, unmeasured
from bench.plans import tasks_plan
from bench.running import PATH, bare_processes, open_bench
from ordain.adapters.agents.local import LocalAgents
from ordain.adapters.process.bash import BashShell
from ordain.adapters.sandbox.sandbox import BubblewrapSandbox
from ordain.core.policy.agent import Agent
from ordain.core.policy.tier import SandboxLimits
from ordain.ports.process import Shell

__all__ = ["measure"]

TARGET, TARGET_IN_SANDBOX = 1.5, 2.5
PYTHON = shutil.which("python3", path=PATH) or sys.executable
"""One that is in the sandbox too."""
AGENT = (PYTHON, "-c", "import argparse, asyncio, json, ssl, sys, urllib.request; print(len(sys.stdin.read()))")
"""Starts as a small command-line agent in Python does, reads its prompt, and ends; real ones take longer."""
PROMPT = b"Do nothing, and say so.\n" * 50
FUNCTION = "bench.agent_function:nothing"


async def measure(size: Size) -> list[Line]:
    directory = size.directory / "workspace"
    directory.mkdir()
    sandbox = BubblewrapSandbox(directory)
    fault = sandbox.fault()
    command = Agent(command=AGENT)
    lines = [await _beside(size, BashShell(directory), command, AGENT, "task of an agent", TARGET)]
    if fault is None:
        shell = sandbox.shell(SandboxLimits())
        words = "task of an agent in the sandbox"
        lines.append(await _beside(size, shell, command, AGENT, words, TARGET_IN_SANDBOX))
    else:
        lines.append(unmeasured("agents", "task of an agent in the sandbox", "bare asyncio", fault))
    bare = (sys.executable, "-c", "import json, sys; sys.stdin.read()")
    function = Agent(python=FUNCTION)
    return [*lines, await _beside(size, BashShell(directory), function, bare, "task of a Python function", None)]


async def _beside(
    size: Size, shell: Shell, agent: Agent, argv: tuple[str, ...], what: str, target: float | None
) -> Line:
    count, rounds = size.pick(40, 15), size.pick(5, 3)
    directory = size.directory / "workspace"
    plan = tasks_plan(count)
    async with open_bench(
        size.directory, warm=False, shell=shell, agents=LocalAgents(directory), known={"coder": agent}
    ) as bench:
        pairs = await race(rounds, lambda: bench.run(plan), lambda: bare_processes(argv, count, directory, PROMPT))
    return compare("agents", what, "bare asyncio, same process", pairs, per=count, target=target)
