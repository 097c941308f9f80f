"""Independent steps that do nothing: whether a step costs the same in a large plan as in a small one."""

from __future__ import annotations

import statistics

from bench.measure import Floor, Line, Size, compare, race
from bench.plans import wide_plan
from bench.running import CHAIN_STEP_BYTES, open_bench
from ordain.core.model import Plan

__all__ = ["measure"]

_SMALL = 100


async def measure(size: Size) -> list[Line]:
    rounds = 3
    counts = (1000,) if size.quick else (1000, 10_000)
    floor = Floor(size.directory / "floor.db", CHAIN_STEP_BYTES)
    lines: list[Line] = []
    async with open_bench(size.directory) as bench:

        async def small() -> float:
            """Per step, over enough small plans to be measured well."""
            return statistics.median([await bench.run(wide_plan(_SMALL)) for _ in range(9)]) / _SMALL

        for count in counts:
            plan = wide_plan(count)

            async def large(plan: Plan = plan) -> float:
                return await bench.run(plan) / len(plan.steps)

            pairs = await race(rounds, large, small)
            lines.append(compare("wide", f"step of {count:,} abreast", f"step of {_SMALL} abreast", pairs))

        count = counts[0]
        plan = wide_plan(count)
        before = bench.ledger.commits
        pairs = await race(rounds, lambda: bench.run(plan), lambda: floor.commits(count))
        per_step = (bench.ledger.commits - before) / (rounds * count)
        note = f"{per_step:.2f} commits a step, 4 at once"
        lines.append(compare("wide", f"step of {count:,} abreast", "bare durable commit", pairs, per=count, note=note))
    floor.close()
    return lines
