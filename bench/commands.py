"""Commands that do nothing, four at once: what a run adds to starting the very same processes."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from bench import peers
from bench.measure import Line, Size, compare, race
from bench.plans import commands_plan
from bench.running import open_bench

__all__ = ["measure"]

TARGET = 1.3
PEERS = (
    (peers.Peer("doit", "doit", "not durable: it saves at the end"), 1.0),
    (peers.Peer("make", "make", "remembers nothing"), None),
    (peers.Peer("ninja", "ninja", "a log that is not made durable"), None),
)
CONCURRENCY = 4
_BASH = ("--noprofile", "--norc", "-eo", "pipefail", "-c", "true")


async def measure(size: Size) -> list[Line]:
    count, rounds = size.pick(1000, 200), size.pick(3, 3)
    plan = commands_plan(count, CONCURRENCY)
    async with open_bench(size.directory) as bench:
        with _Watcher():
            pairs = await race(rounds, lambda: bench.run(plan), lambda: _bare(count, size.directory))
    line = compare(
        "commands", "command of a run", "bare asyncio, same bash", pairs, per=count, target=TARGET, note="4 at once"
    )
    words = (count, CONCURRENCY, size.pick(3, 1))
    return [line, *(peers.beside(size, line, peer, *words, target=target)[0] for peer, target in PEERS)]


async def _bare(count: int, directory: Path) -> float:
    """Seconds to start so many bashes from an asyncio loop, to read their output and wait for them, and no more."""
    env = {"PATH": os.environ.get("PATH", ""), "HOME": os.environ.get("HOME", "")}
    numbers = iter(range(count))

    async def worker() -> None:
        for _ in numbers:
            child = await asyncio.create_subprocess_exec(
                "/bin/bash",
                *_BASH,
                cwd=directory,
                env=env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
            await child.communicate()
            if child.returncode != 0:
                raise RuntimeError(f"`true` exited with {child.returncode}")

    start = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))
    return time.perf_counter() - start


class _Watcher:
    """Before 3.12 asyncio waits for each child with a thread of its own; a floor uses the better way of later ones."""

    def __enter__(self) -> None:
        if sys.version_info < (3, 12):
            watcher = asyncio.PidfdChildWatcher()
            watcher.attach_loop(asyncio.get_running_loop())
            asyncio.set_child_watcher(watcher)

    def __exit__(self, *_: object) -> None:
        if sys.version_info < (3, 12):
            asyncio.set_child_watcher(None)
