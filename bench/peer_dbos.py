"""DBOS on SQLite: durable steps that do nothing, within one workflow. Run by `.venv-bench`, not by us.

Called with a folder, a form, how many steps, how many rounds and perhaps the only way to measure. Prints one JSON line:
{way: [seconds per step, …]}, one number a round. `chain` has the steps one after the other, plain and async; `wide` has
them also all at once.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable

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


@DBOS.workflow()
async def all_at_once(count: int) -> float:
    start = time.perf_counter()
    await asyncio.gather(*(nothing_async() for _ in range(count)))
    return (time.perf_counter() - start) / count


async def rounds_of(work: Callable[[int], Awaitable[float]], count: int, rounds: int) -> list[float]:
    await work(WARM_STEPS)
    return [await work(count) for _ in range(rounds)]


def main(folder: str, form: str, count: int, rounds: int, only: str = "") -> None:
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
    found = {}
    if only in ("", "sync"):
        found["sync"] = [chain(count) for _ in range(rounds)]
    other, work = ("async", chain_async) if form == "chain" else ("all at once", all_at_once)
    if only in ("", other):
        found[other] = asyncio.run(rounds_of(work, count, rounds))
    DBOS.destroy()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])
