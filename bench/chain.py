"""A chain of durable steps that do nothing: what the engine and the ledger cost per step, above one commit."""

from __future__ import annotations

import statistics

from bench import peers
from bench.measure import Floor, Line, Size, compare, race
from bench.plans import chain_plan
from bench.running import CHAIN_STEP_BYTES, open_bench

__all__ = ["measure"]

TARGET = 2.5
FLAT = 1.25
PEER = 1 / 3
_SMALL = 100


async def measure(size: Size) -> list[Line]:
    count, large, rounds = size.pick(1000, 300), size.pick(10_000, 1000), size.pick(7, 3)
    plan, large_plan, small_plan = chain_plan(count), chain_plan(large), chain_plan(_SMALL)
    floor = Floor(size.directory / "floor.db", CHAIN_STEP_BYTES)
    async with open_bench(size.directory) as bench:
        before = bench.ledger.commits
        pairs = await race(rounds, lambda: bench.run(plan), lambda: floor.commits(count))
        per_step = (bench.ledger.commits - before) / (rounds * count)

        async def per_large() -> float:
            return await bench.run(large_plan) / large

        async def per_small() -> float:
            """Over enough small plans to be measured well."""
            return statistics.median([await bench.run(small_plan) for _ in range(9)]) / _SMALL

        flat = await race(3, per_large, per_small)
    floor.close()
    note = f"{per_step:.2f} commits a step"
    line = compare("chain", "step of a chain", "bare durable commit", pairs, per=count, target=TARGET, note=note)
    many, few = f"step of a chain of {large:,}", f"of a chain of {_SMALL}"
    words = ("chain", size.pick(500, 150), size.pick(3, 2))
    return [
        line,
        compare("chain", many, few, flat, target=FLAT),
        *(
            peers.beside(size, line, peer, *words, target=PEER)[0]
            for peer in (peers.DBOS, peers.LANGGRAPH, peers.AGENTLEDGER)
        ),
    ]
