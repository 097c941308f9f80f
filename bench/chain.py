"""A chain of durable steps that do nothing: what the engine and the ledger cost per step, above one commit."""

from __future__ import annotations

import statistics

from bench import peers
from bench.measure import Floor, Line, Size, compare, race, unmeasured
from bench.plans import chain_plan
from bench.running import CHAIN_STEP_BYTES, open_bench

__all__ = ["measure"]

TARGET = 3.0
_OURS = "step of a chain"


async def measure(size: Size) -> list[Line]:
    count, rounds = size.pick(1000, 300), size.pick(7, 3)
    plan = chain_plan(count)
    floor = Floor(size.directory / "floor.db", CHAIN_STEP_BYTES)
    async with open_bench(size.directory) as bench:
        before = bench.ledger.commits
        pairs = await race(rounds, lambda: bench.run(plan), lambda: floor.commits(count))
        per_step = (bench.ledger.commits - before) / (rounds * count)
    floor.close()
    note = f"{per_step:.2f} commits a step"
    line = compare("chain", _OURS, "bare durable commit", pairs, per=count, target=TARGET, note=note)
    return [line, _beside_peer(size, line)]


def _beside_peer(size: Size, line: Line) -> Line:
    name, other = "chain", "DBOS step (SQLite)"
    if not size.peers:
        return unmeasured(name, _OURS, other, "peers were not asked for")
    try:
        found = peers.ask("dbos", size.directory, size.pick(500, 150), size.pick(3, 2))
    except peers.PeerMissing as missing:
        return unmeasured(name, _OURS, other, str(missing))
    way, seconds = min(((way, statistics.median(rounds)) for way, rounds in found.items()), key=lambda pair: pair[1])
    assert line.ours_s is not None
    return Line(
        name=name,
        ours=_OURS,
        ours_s=line.ours_s,
        other=f"{other}, {way}",
        other_s=seconds,
        ratio=line.ours_s / seconds,
        note="the fastest durable peer we know; it records no start",
    )
