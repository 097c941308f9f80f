"""The benchmarks still run: they use the engine as nothing else does, and are too slow to be run with the tests."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bench.plans import chain_plan
from bench.running import open_bench


def test_a_run_of_the_bench_comes_to_its_end(tmp_path: Path) -> None:
    async def life() -> float:
        async with open_bench(tmp_path, warm=False) as bench:
            return await bench.run(chain_plan(2))

    assert asyncio.run(life()) > 0
