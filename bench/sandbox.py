"""Commands in the sandbox of trust tier 1, beside starting the same processes without one."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from bench.measure import Line, Size, compare, race, unmeasured
from bench.plans import program_plan
from bench.running import open_bench
from ordain.adapters.sandbox import Sandbox
from ordain.core.sandbox import SandboxLimits

__all__ = ["measure"]

TARGET = 2.5
PATH = "/usr/local/bin:/usr/bin:/bin"
AGENT = ("python3", "-c", "import argparse, asyncio, json, ssl, urllib.request")
"""About what a small command-line program in Python takes to start; real agents take longer."""
NOTHING = ("true",)


async def measure(size: Size) -> list[Line]:
    directory = size.directory / "workspace"
    directory.mkdir()
    sandbox = Sandbox(directory)
    fault = sandbox.fault()
    if fault is not None:
        return [unmeasured("sandbox", "command in the sandbox", "bare asyncio", fault)]
    return [
        await _beside(size, directory, sandbox, AGENT, "a program that takes a moment", TARGET),
        await _beside(size, directory, sandbox, NOTHING, "`true`", None),
    ]


async def _beside(
    size: Size, directory: Path, sandbox: Sandbox, argv: tuple[str, ...], what: str, target: float | None
) -> Line:
    count, rounds = size.pick(40, 15), size.pick(5, 3)
    plan = program_plan(argv, count)
    shell = sandbox.shell(SandboxLimits())
    async with open_bench(size.directory, warm=False, shell=shell) as bench:
        pairs = await race(rounds, lambda: bench.run(plan), lambda: _bare(argv, count, directory))
    return compare(
        "sandbox", f"{what}, as a step in the sandbox", "bare asyncio, no sandbox", pairs, per=count, target=target
    )


async def _bare(argv: tuple[str, ...], count: int, directory: Path) -> float:
    """Seconds to start so many processes one after the other, and to wait for them."""
    start = time.perf_counter()
    for _ in range(count):
        child = await asyncio.create_subprocess_exec(
            *argv,
            cwd=directory,
            env={"PATH": PATH},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        await child.communicate()
        if child.returncode != 0:
            raise RuntimeError(f"{argv[0]} exited with {child.returncode}")
    return time.perf_counter() - start
