"""How things are measured: two contestants in turn, several rounds, medians; never a number on its own.

Knows nothing of Ordain. The floor of everything durable is one bare commit of SQLite, with the settings the ledger
uses, on the same disk.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import apsw
import msgspec

__all__ = ["Floor", "Line", "Size", "compare", "race", "timed", "unmeasured"]


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How much to measure."""

    quick: bool
    peers: bool
    directory: Path
    """An empty folder on a real disk."""

    def pick(self, full: int, quick: int) -> int:
        return quick if self.quick else full


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table: what we took, what the other took, how many times as long that is, and the target."""

    name: str
    ours: str
    ours_s: float | None = None
    other: str
    other_s: float | None = None
    ratio: float | None = None
    target: float | None = None
    note: str = ""

    @property
    def missed(self) -> bool:
        return self.target is not None and self.ratio is not None and self.ratio > self.target


def compare(
    name: str,
    ours: str,
    other: str,
    pairs: list[tuple[float, float]],
    *,
    per: int = 1,
    target: float | None = None,
    note: str = "",
) -> Line:
    """A line from the rounds of a race: the median of the rounds' ratios, so that a slow moment hits both or none."""
    return Line(
        name=name,
        ours=ours,
        ours_s=statistics.median(mine for mine, _ in pairs) / per,
        other=other,
        other_s=statistics.median(theirs for _, theirs in pairs) / per,
        ratio=statistics.median(mine / theirs for mine, theirs in pairs),
        target=target,
        note=note,
    )


def unmeasured(name: str, ours: str, other: str, why: str) -> Line:
    """A line for what could not be compared, with the reason."""
    return Line(name=name, ours=ours, other=other, note=why)


async def race(
    rounds: int, ours: Callable[[], Awaitable[float]], other: Callable[[], Awaitable[float]]
) -> list[tuple[float, float]]:
    """Seconds of both, round by round, in turn."""
    pairs = []
    for _ in range(rounds):
        gc.collect()
        mine = await ours()
        gc.collect()
        pairs.append((mine, await other()))
    return pairs


def installed(directory: Path) -> dict[str, str]:
    """The environment of a program in a directory of its own, with byte-code caches as an installed one has them."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**env, "ORDAIN_HOME": str(directory / "home")}


def timed(work: Callable[[], object]) -> float:
    """Seconds that something takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class Floor:
    """The least that durability costs here: bare apsw, one table, WAL, `synchronous=FULL`.

    The write-ahead log grows until its first checkpoint and is written over from then on, which is twice as fast, so
    it is brought there before anything is measured. Ledgers in a race must be warmed up likewise.
    """

    WARM_COMMITS = 1500

    def __init__(self, path: Path, body_bytes: int) -> None:
        self._body = bytes(body_bytes)
        self._connection = apsw.Connection(str(path))
        assert self._connection.pragma("journal_mode", "wal") == "wal"
        self._connection.pragma("synchronous", 2)
        self._connection.execute("CREATE TABLE bare (id INTEGER PRIMARY KEY, body BLOB NOT NULL)")
        self._commit(self.WARM_COMMITS, 1)

    async def commits(self, count: int, rows: int = 1) -> float:
        """Seconds for this many durable transactions of this many rows each."""
        return timed(lambda: self._commit(count, rows))

    def close(self) -> None:
        self._connection.close()

    def _commit(self, count: int, rows: int) -> None:
        execute = self._connection.execute
        bodies = [(self._body,)] * rows
        for _ in range(count):
            execute("BEGIN IMMEDIATE")
            if rows == 1:
                execute("INSERT INTO bare (body) VALUES (?)", bodies[0])
            else:
                self._connection.executemany("INSERT INTO bare (body) VALUES (?)", bodies)
            execute("COMMIT")
