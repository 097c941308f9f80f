"""The ledger's in-memory twin, for tests and rehearsals: same refusals, same bytes, same heads, no disk.

Not for several threads. Closing keeps everything, as closing a file would, so a scenario can go on with it after a
restart.
"""

from __future__ import annotations

import hmac
import os
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from ordain.core.ledger import chain
from ordain.core.ledger.summary import PlanSummary, summarise
from ordain.core.plan.value import Instant
from ordain.core.run.event import Recorded, ids_named
from ordain.ports.ledger import Append

if TYPE_CHECKING:
    import asyncio

LOOKUP_MAX = 10


class MemoryLedger:
    """`ports.Ledger` in dictionaries."""

    def __init__(self) -> None:
        self._rows: dict[str, list[chain.Row]] = {}
        self._stands: dict[str, chain.Stand] = {}
        self._names: dict[str, str] = {}
        self._ids: list[str] = []
        self._arrived: list[chain.Entry] = []
        self._plans: dict[str, PlanSummary] = {}
        self._key = os.urandom(32)
        self._kept: dict[str, bytes] = {}
        self.room_bytes: int | None = None
        """How much more the disk takes, where it does not take all."""
        self._artifacts: dict[str, tuple[bytes, ...]] = {}
        self._bells: list[asyncio.Event] = []
        """Rung when anything is recorded."""

    async def append(self, at: Instant, *appends: Append) -> tuple[Recorded, ...]:
        # Staged first and put in place at the end, so that a refusal half-way leaves nothing.
        stands = dict(self._stands)
        staged: list[tuple[str, chain.Row]] = []
        for append in appends:
            chain.refuse_named(append.drops, (entry.body for entry in self._arrived[append.seen :] if append.drops))
            stream = append.stream
            numbers = range(append.expected + 1, append.expected + 1 + len(append.events))
            bodies = [chain.encode(stream, seq, at, event) for seq, event in zip(numbers, append.events, strict=True)]
            stand, heads = chain.add(
                stream,
                stands.get(stream, chain.UNOPENED),
                bodies,
                expected=append.expected,
                epoch=append.epoch,
                new_epoch=append.new_epoch,
            )
            if stand.size:  # a stream without events has no epoch to keep
                stands[stream] = stand
            staged += [(stream, chain.Row(*row)) for row in zip(numbers, bodies, heads, strict=True)]
        self._stands = stands
        for seal in (seal for append in appends for seal in append.drops):
            self._kept.pop(seal, None)
            self._artifacts.pop(seal, None)
        self._kept |= {self.seal(body): body for append in appends for body in append.keeps}
        self._artifacts |= {one.seal: tuple(one.parts()) for append in appends for one in append.artifacts}
        for bell in self._bells:
            bell.set()
        return tuple(self._put(stream, row) for stream, row in staged)

    def _put(self, stream: str, row: chain.Row) -> Recorded:
        self._rows.setdefault(stream, []).append(row)
        self._arrived.append(chain.Entry(len(self._arrived) + 1, stream, row.seq, row.body, row.head))
        recorded = chain.decode(row.body, row.head)
        self._project(recorded)
        return recorded

    def _project(self, recorded: Recorded) -> None:
        stream = recorded.stream
        if (summary := summarise(self._plans.get(stream), recorded)) is not None:
            self._plans[stream] = summary
        for name in ids_named(recorded.event):
            # The stream that first named an id keeps it: no later event can point it elsewhere.
            if name not in self._names:
                self._names[name] = stream
                insort(self._ids, name)

    def read(self, stream: str, after: int = 0) -> Sequence[Recorded]:
        stand = self._stands.get(stream, chain.UNOPENED)
        end = chain.Tip(stand.size, stand.head)
        rows = self._rows.get(stream, [])
        if after > end.size:
            return ()
        start = chain.Tip(after, rows[after - 1].head) if after > 0 else chain.ORIGIN
        return chain.recorded(stream, rows[start.size :], start=start, end=end)

    def size(self, stream: str) -> int:
        return self._stands.get(stream, chain.UNOPENED).size

    async def grown(self, stream: str, size: int) -> None:
        import asyncio  # most commands only look, and start faster without it

        bell = asyncio.Event()
        self._bells.append(bell)
        try:
            while self.size(stream) <= size:
                bell.clear()
                await bell.wait()
        finally:
            self._bells.remove(bell)

    def streams(self, prefix: str) -> Sequence[str]:
        return tuple(stream for stream in self._stands if stream.startswith(prefix))

    def lookup(self, id_prefix: str) -> Sequence[tuple[str, str]]:
        begins = islice(self._ids, bisect_left(self._ids, id_prefix), None)
        found = islice(takewhile(lambda name: name.startswith(id_prefix), begins), LOOKUP_MAX)
        return tuple((name, self._names[name]) for name in found)

    def plans(
        self, *, open_only: bool = False, document: str | None = None, newest: int | None = None
    ) -> Sequence[PlanSummary]:
        found = [
            summary
            for summary in self._plans.values()
            if (summary.open or not open_only) and document in (None, summary.document)
        ]
        return tuple(found if newest is None else found[max(len(found) - newest, 0) :])

    def plan_count(self) -> int:
        return len(self._plans)

    def checkpoint(self) -> chain.Tip:
        return chain.checkpoint(entry.head for entry in self._arrived)

    def everything(self) -> Iterator[chain.Entry]:
        return iter(tuple(self._arrived))

    def rebuild(self) -> int:
        verified = chain.verify_everything(self._arrived)
        for stream, seq in verified.broken.items():
            raise chain.broken(stream, seq)
        self._names, self._ids, self._plans = {}, [], {}
        for entry in self._arrived:
            self._project(chain.decode(entry.body, entry.head))
        return verified.checkpoint.size

    def seal(self, body: bytes) -> str:
        return "hmac-sha256:" + hmac.digest(self._key, body, "sha256").hex()

    def kept(self, seal: str) -> bytes | None:
        return self._kept.get(seal)

    def has_room(self, size: int) -> bool:
        return self.room_bytes is None or size <= self.room_bytes

    def artifact(self, seal: str) -> Iterator[bytes] | None:
        return iter(self._artifacts[seal]) if seal in self._artifacts else None

    def kept_sizes(self) -> Mapping[str, int]:
        whole = {seal: sum(map(len, parts)) for seal, parts in self._artifacts.items()}
        return {seal: len(body) for seal, body in self._kept.items()} | whole

    def let_go(self) -> None:
        """Nothing to let go of."""

    async def close(self) -> None:
        """Nothing to let go of."""
