"""Independent steps that do nothing: whether a step costs the same in a large plan as in a small one, and memory."""

from __future__ import annotations

import asyncio
import resource
import statistics
import subprocess
import sys
from pathlib import Path

from bench import peers
from bench.measure import Floor, Line, Size, compare, race
from bench.plans import wide_plan
from bench.running import CHAIN_STEP_BYTES, open_bench
from ordain.core.plan.model import Plan

__all__ = ["measure"]

FLAT = 1.25
PEER = 1 / 15
MEMORY = 3.0
MEMORY_MIB = 60
MANY_AT_ONCE = 32
_SMALL = 100


async def measure(size: Size) -> list[Line]:
    rounds = 3
    counts = (1000,) if size.quick else (1000, 10_000)
    floor = Floor(size.directory / "floor.db", CHAIN_STEP_BYTES)
    lines: list[Line] = []
    ways: dict[str, str] = {}
    async with open_bench(size.directory) as bench:

        async def small() -> float:
            """Per step, over enough small plans to be measured well."""
            return statistics.median([await bench.run(wide_plan(_SMALL)) for _ in range(9)]) / _SMALL

        for count in counts:
            plan = wide_plan(count)

            async def large(plan: Plan = plan) -> float:
                return await bench.run(plan) / len(plan.steps)

            pairs = await race(rounds, large, small)
            label = f"step of {count:,} abreast"
            lines.append(compare("wide", label, f"step of {_SMALL} abreast", pairs, target=FLAT, note="4 at once"))

        count = counts[0]
        plan = wide_plan(count)
        before = bench.ledger.commits
        pairs = await race(rounds, lambda: bench.run(plan), lambda: floor.commits(count))
        per_step = (bench.ledger.commits - before) / (rounds * count)
        note = f"{per_step:.2f} commits a step, 4 at once"
        lines.append(compare("wide", f"step of {count:,} abreast", "bare durable commit", pairs, per=count, note=note))

        for count in counts:
            seconds = [await bench.run(wide_plan(count, MANY_AT_ONCE)) / count for _ in range(rounds)]
            label = f"step of {count:,} abreast, {MANY_AT_ONCE} at once"
            ours = Line(name="wide", ours=label, ours_s=statistics.median(seconds), other="")
            # At ten times as many AgentLedger would take ten times as long.
            for peer in peers.DURABLE if count == counts[0] else (peers.DBOS, peers.LANGGRAPH):
                # At the larger size only what was the faster way at the smaller one, since it takes so long.
                only = ways.get(peer.script, "")
                line, ways[peer.script] = peers.beside(size, ours, peer, "wide", count, 1, target=PEER, only=only)
                lines.append(line)
    floor.close()
    return [*lines, *_memory(size.directory, counts[-1])]


def _memory(directory: Path, count: int) -> list[Line]:
    """The most memory that the process of a run ever had, with everything it imports."""
    fewer = count // 10
    most, less = (_peak_kib(directory / f"memory-{steps}", steps) for steps in (count, fewer))
    grows = Line(
        name="wide",
        ours=f"memory of a process that runs {count:,}",
        other=f"that runs {fewer:,}",
        ratio=most / less,
        target=MEMORY,
        note=f"{most / 1024:.0f} MiB beside {less / 1024:.0f} MiB at their peak",
    )
    is_small = Line(
        name="wide",
        ours=f"memory of a process that runs {fewer:,}",
        other=f"{MEMORY_MIB} MiB",
        ratio=less / 1024 / MEMORY_MIB,
        target=1.0,
        note=f"{less / 1024:.0f} MiB, with Python and everything it imports",
    )
    return [grows, is_small]


def _peak_kib(directory: Path, count: int) -> int:
    directory.mkdir()
    command = [sys.executable, "-m", "bench.wide", str(directory), str(count)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _own_peak_kib() -> int:
    """Of this process since its program was loaded. `ru_maxrss` also counts the process that started it, as large as
    that was then."""
    status = Path("/proc/self/status")
    if not status.exists():  # not Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM:"))


async def _run_once(directory: Path, count: int) -> None:
    async with open_bench(directory, warm=False) as bench:
        await bench.run(wide_plan(count))


if __name__ == "__main__":
    asyncio.run(_run_once(Path(sys.argv[1]), int(sys.argv[2])))
    print(_own_peak_kib())
