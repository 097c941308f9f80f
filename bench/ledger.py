"""Appends to the ledger by themselves: alone, and thirty-two at the same moment."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from bench.measure import Floor, Line, Size, compare, race
from bench.running import open_bench
from ordain.adapters.sqlite_ledger import SqliteLedger
from ordain.core import chain
from ordain.core.event import AttemptStarted
from ordain.core.value import Instant, StepId
from ordain.ports import Append

__all__ = ["measure"]

ALONE_TARGET = 2.0
TOGETHER_TARGET = 4.0
TOGETHER = 32
_EVENT = AttemptStarted(step=StepId("step-1"), attempt=1, key="step:" + "0" * 64)
_AT = Instant(1_800_000_000_000)


async def measure(size: Size) -> list[Line]:
    count, groups, rounds = size.pick(500, 200), size.pick(100, 40), size.pick(7, 3)
    floor = Floor(size.directory / "floor.db", len(chain.encode("run/RUN-ALONE", 1, _AT, _EVENT)))
    lines: list[Line] = []
    async with open_bench(size.directory) as bench:
        writers = _Writers(bench.ledger)
        pairs = await race(rounds, lambda: writers.alone(count), lambda: floor.commits(count))
        lines.append(
            compare("ledger", "append, one by one", "bare durable commit", pairs, per=count, target=ALONE_TARGET)
        )
        for where, work in (("one stream", writers.one_stream), ("a stream each", writers.a_stream_each)):
            await work(5)
            before = bench.ledger.commits
            pairs = await race(rounds, lambda work=work: work(groups), lambda: floor.commits(groups, TOGETHER))
            commits = (bench.ledger.commits - before) / (rounds * groups)
            lines.append(
                compare(
                    "ledger",
                    f"{TOGETHER} appends at once, {where}",
                    f"bare commit of {TOGETHER} rows",
                    pairs,
                    per=groups,
                    target=TOGETHER_TARGET,
                    note=f"{commits:.2f} commits for {TOGETHER}",
                )
            )
    floor.close()
    return lines


class _Writers:
    """Streams to append to, with the sizes they have got to."""

    def __init__(self, ledger: SqliteLedger) -> None:
        self._ledger = ledger
        self._sizes: Counter[str] = Counter()

    async def alone(self, count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            await self._append("run/RUN-ALONE")
        return time.perf_counter() - start

    async def one_stream(self, count: int) -> float:
        return await self._together(count, ["run/RUN-SHARED"] * TOGETHER)

    async def a_stream_each(self, count: int) -> float:
        return await self._together(count, [f"run/RUN-{number}" for number in range(TOGETHER)])

    async def _together(self, count: int, streams: list[str]) -> float:
        start = time.perf_counter()
        for _ in range(count):
            await asyncio.gather(*(self._append(stream) for stream in streams))
        return time.perf_counter() - start

    async def _append(self, stream: str) -> None:
        expected = self._sizes[stream]
        self._sizes[stream] += 1
        await self._ledger.append(_AT, Append(stream=stream, expected=expected, events=(_EVENT,)))
