"""Appends to the ledger by themselves: alone, and thirty-two at the same moment."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from functools import partial

from bench.measure import Floor, Line, Size, compare, race
from ordain.adapters.ledger.sqlite import SqliteLedger
from ordain.core.ledger import chain
from ordain.core.plan.value import Instant, StepId
from ordain.core.run.step_event import AttemptStarted
from ordain.ports.ledger import Append

__all__ = ["measure"]

ALONE_TARGET = 2.0
TOGETHER_TARGET = 4.0
TOGETHER = 32
_EVENT = AttemptStarted(step=StepId("step-1"), attempt=1, key="step:" + "0" * 64)
_AT = Instant(1_800_000_000_000)


async def measure(size: Size) -> list[Line]:
    count, groups, rounds = size.pick(500, 200), size.pick(100, 40), size.pick(7, 3)
    floor = Floor(size.directory / "floor.db", len(chain.encode("run/RUN-ALONE", 1, _AT, _EVENT)))
    ledger = SqliteLedger.open(size.directory / "ledger.db")
    writers = _Writers(ledger)
    await writers.alone(Floor.WARM_COMMITS)
    pairs = await race(rounds, lambda: writers.alone(count), lambda: floor.commits(count))
    lines = [compare("ledger", "append, one by one", "bare durable commit", pairs, per=count, target=ALONE_TARGET)]
    shared, each = ["run/RUN-SHARED"] * TOGETHER, [f"run/RUN-{number}" for number in range(TOGETHER)]
    for where, work in (
        ("one stream", partial(writers.together, shared)),
        ("a stream each", partial(writers.together, each)),
        ("one stream, lasting tasks", partial(writers.under_way, shared)),
        ("a stream each, lasting tasks", partial(writers.under_way, each)),
    ):
        await work(5)
        before = ledger.commits
        pairs = await race(rounds, lambda work=work: work(groups), lambda: floor.commits(groups, TOGETHER))
        commits = (ledger.commits - before) / (rounds * groups)
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
    await ledger.close()
    floor.close()
    return lines


class _Writers:
    """Streams to append to, with the sizes they have got to."""

    def __init__(self, ledger: SqliteLedger) -> None:
        self._ledger = ledger
        self._sizes: Counter[str] = Counter()

    async def alone(self, count: int) -> float:
        start = time.perf_counter()
        await self._work(count, "run/RUN-ALONE")
        return time.perf_counter() - start

    async def together(self, streams: list[str], count: int) -> float:
        """A new task for each append, so that making and ending the tasks is measured too."""
        start = time.perf_counter()
        for _ in range(count):
            await asyncio.gather(*(self._work(1, stream) for stream in streams))
        return time.perf_counter() - start

    async def under_way(self, streams: list[str], count: int) -> float:
        """Tasks that are there anyway, as those of runs are: each appends, and goes on when that is durable."""
        start = time.perf_counter()
        await asyncio.gather(*(self._work(count, stream) for stream in streams))
        return time.perf_counter() - start

    async def _work(self, count: int, stream: str) -> None:
        for _ in range(count):
            expected = self._sizes[stream]
            self._sizes[stream] += 1
            await self._ledger.append(_AT, Append(stream=stream, expected=expected, events=(_EVENT,)))
