"""The ledger's in-memory twin, for tests and rehearsals: same refusals, same bytes, same heads, no disk.

Not for several threads. Closing keeps everything, as closing a file would, so a scenario can go on with it after a
restart.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from itertools import islice, takewhile

from ordain.core import chain
from ordain.core.event import Recorded, ids_named
from ordain.core.value import Instant
from ordain.ports import Append

__all__ = ["MemoryLedger"]

LOOKUP_MAX = 10


class MemoryLedger:
    """`ports.Ledger` in dictionaries."""

    def __init__(self) -> None:
        self._rows: dict[str, list[chain.Row]] = {}
        self._stands: dict[str, chain.Stand] = {}
        self._names: dict[str, str] = {}
        self._ids: list[str] = []

    async def append(self, at: Instant, *appends: Append) -> tuple[Recorded, ...]:
        # Staged first and put in place at the end, so that a refusal half-way leaves nothing.
        stands = dict(self._stands)
        staged: list[tuple[str, chain.Row]] = []
        for append in appends:
            stream = append.stream
            numbered = enumerate(append.events, append.expected + 1)
            stands[stream], rows = chain.add(
                stream,
                stands.get(stream, chain.UNOPENED),
                [chain.encode(stream, seq, at, event) for seq, event in numbered],
                expected=append.expected,
                epoch=append.epoch,
                new_epoch=append.new_epoch,
            )
            staged += [(stream, row) for row in rows]
        self._stands = stands
        return tuple(self._put(stream, row) for stream, row in staged)

    def _put(self, stream: str, row: chain.Row) -> Recorded:
        self._rows.setdefault(stream, []).append(row)
        recorded = chain.decode(row.body, row.head)
        for name in ids_named(recorded.event):
            # The stream that first named an id keeps it: no later event can point it elsewhere.
            if name not in self._names:
                self._names[name] = stream
                insort(self._ids, name)
        return recorded

    def read(self, stream: str, after: int = 0) -> Sequence[Recorded]:
        end = self._stands.get(stream, chain.UNOPENED).tip
        rows = self._rows.get(stream, [])
        if after > end.size:
            return ()
        start = chain.Tip(after, rows[after - 1].head) if after > 0 else chain.ORIGIN
        return chain.recorded(stream, rows[start.size :], start=start, end=end)

    def streams(self, prefix: str) -> Sequence[str]:
        return tuple(stream for stream in self._stands if stream.startswith(prefix))

    def lookup(self, id_prefix: str) -> Sequence[tuple[str, str]]:
        begins = islice(self._ids, bisect_left(self._ids, id_prefix), None)
        found = islice(takewhile(lambda name: name.startswith(id_prefix), begins), LOOKUP_MAX)
        return tuple((name, self._names[name]) for name in found)

    async def close(self) -> None:
        """Nothing to let go of."""
