"""DBOS on SQLite: a chain of durable steps that do nothing, within one workflow. Run by `.venv-bench`, not by us.

Prints one JSON line: {"sync": [seconds per step, …], "async": […]}, one number a round.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from dbos import DBOS

WARM_STEPS = 50


@DBOS.step()
def nothing() -> None:
    return None


@DBOS.step()
async def nothing_async() -> None:
    return None


@DBOS.workflow()
def chain(count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        nothing()
    return (time.perf_counter() - start) / count


@DBOS.workflow()
async def chain_async(count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        await nothing_async()
    return (time.perf_counter() - start) / count


async def rounds_async(count: int, rounds: int) -> list[float]:
    await chain_async(WARM_STEPS)
    return [await chain_async(count) for _ in range(rounds)]


def main(folder: str, count: int, rounds: int) -> None:
    DBOS(
        config={
            "name": "bench",
            "system_database_url": f"sqlite:///{folder}/system.db",
            "run_admin_server": False,
            "log_level": "ERROR",
        }
    )
    DBOS.launch()
    chain(WARM_STEPS)
    plain = [chain(count) for _ in range(rounds)]
    asynchronous = asyncio.run(rounds_async(count, rounds))
    DBOS.destroy()
    print(json.dumps({"sync": plain, "async": asynchronous}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
