"""Commands in the sandbox of trust tier 1, beside starting the same processes without one."""

from __future__ import annotations

from pathlib import Path

from bench.measure import Line, Size, compare, race, unmeasured
from bench.plans import program_plan
from bench.running import bare_processes, open_bench
from ordain.adapters.sandbox.sandbox import BubblewrapSandbox
from ordain.core.policy.tier import SandboxLimits

__all__ = ["measure"]

TARGET = 2.5
AGENT = ("python3", "-c", "import argparse, asyncio, json, ssl, urllib.request")
"""About what a small command-line program in Python takes to start; real agents take longer."""
NOTHING = ("true",)


async def measure(size: Size) -> list[Line]:
    directory = size.directory / "workspace"
    directory.mkdir()
    sandbox = BubblewrapSandbox(directory)
    fault = sandbox.fault()
    if fault is not None:
        return [unmeasured("sandbox", "command in the sandbox", "bare asyncio", fault)]
    return [
        await _beside(size, directory, sandbox, AGENT, "a program that takes a moment", TARGET),
        await _beside(size, directory, sandbox, NOTHING, "`true`", None),
    ]


async def _beside(
    size: Size, directory: Path, sandbox: BubblewrapSandbox, argv: tuple[str, ...], what: str, target: float | None
) -> Line:
    count, rounds = size.pick(40, 15), size.pick(5, 3)
    plan = program_plan(argv, count)
    shell = sandbox.shell(SandboxLimits())
    async with open_bench(size.directory, warm=False, shell=shell) as bench:
        pairs = await race(rounds, lambda: bench.run(plan), lambda: bare_processes(argv, count, directory))
    return compare(
        "sandbox", f"{what}, as a step in the sandbox", "bare asyncio, no sandbox", pairs, per=count, target=target
    )
