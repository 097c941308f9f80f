"""Recording what was refused to those who are no persons. The refusal never depends on the record."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from ordain.app.renamed import warn_renamed
from ordain.core.approval.approval import Channel, Principal
from ordain.core.lineage.refusal import COUNTED_MS, REFUSALS_STREAM, telling
from ordain.core.plan.value import Instant
from ordain.core.run.event import Recorded, RequestRefused
from ordain.core.text.limit import DAY_MS
from ordain.core.text.problem import Problem, Refused
from ordain.ports.ledger import Append
from ordain.records.conflict import is_conflict
from ordain.records.records import refuse_foreign
from ordain.records.surroundings import Surroundings

SUBJECT_MAX = 200
NEWEST = 1_000
"""How many of the newest ones are looked at, at first."""
_TRIES = 3


class Refusals:
    """The refusals of one workspace."""

    def __init__(self, here: Surroundings, *, newest: int = NEWEST) -> None:
        self._here, self._newest = here, newest

    @asynccontextmanager
    async def recording(self, verb: str, subject: str, by: Principal) -> AsyncIterator[None]:
        """Around a verb: what it refuses to somebody who is no person is recorded before it is told."""
        try:
            self._here.refuse_pretended(by)
            yield
        except Refused as refused:
            if not refused.recorded:  # what one verb refuses to another was asked once
                refused.recorded = True
                await self.record(verb, subject, by, refused.problems)
            raise

    @asynccontextmanager
    async def asked_for(self, verb: str, ref: str | None, by: Principal) -> AsyncIterator[None]:
        """Around what is asked about a plan or a run: what is refused, also as somebody else's, is recorded."""
        async with self.recording(verb, ref or "", by):
            self.check_owned(ref, by)
            yield

    def check_owned(self, ref: str | None, by: Principal) -> None:
        """Raise Refused where this plan or run is not the caller's to see or handle; a person's is everything."""
        self._here.refuse_pretended(by)
        if by.person or ref is None:
            return
        records = self._here.records
        refuse_foreign(records.lineage(records.find_lineage(ref)), by)

    def refused_lately(self) -> int:
        """How many of them are not older than a day."""
        since = self._here.now() - DAY_MS
        return sum(recorded.at >= since for recorded in self.newest())

    async def record(self, verb: str, subject: str, by: Principal, problems: Sequence[Problem]) -> None:
        """Record a refusal, if it is one of those and there is a ledger."""
        if self._here.is_pretended(by):
            by = Principal(name=str(by.name), channel=Channel.LIBRARY)
        if by.person or not self._here.has_ledger():
            return
        with suppress(Refused):
            for _ in range(_TRIES):
                size = self._here.ledger.size(REFUSALS_STREAM)
                now = self._here.now()
                told = telling(by, problems, self._since(Instant(now - COUNTED_MS), size), now)
                if told is None:
                    return
                writable = subject.encode("utf-8", "replace").decode()  # whatever it was called, it is recorded
                named = self._here.redactor().text(writable)[:SUBJECT_MAX]
                event = RequestRefused(by=by, verb=verb, code=told.problem.code, subject=named, last=told.last)
                try:
                    append = Append(stream=REFUSALS_STREAM, expected=size, events=(event,))
                    await self._here.ledger.append(self._here.now(), append)
                    return
                except Refused as refused:
                    if not is_conflict(refused):  # another one was recorded just now
                        raise

    def __call__(self) -> Sequence[Recorded]:
        warn_renamed("refusals", "refusals.newest")
        return self.newest()

    def newest(self) -> Sequence[Recorded]:
        """The last ones that were recorded."""
        if not self._here.has_ledger():
            return ()
        ledger = self._here.ledger
        return ledger.read(REFUSALS_STREAM, max(ledger.size(REFUSALS_STREAM) - self._newest, 0))

    def _since(self, since: Instant, size: int) -> Sequence[Recorded]:
        """All that were recorded since then, and perhaps older ones: each caller's count, however many there are."""
        looked_back = self._newest
        while True:
            found = self._here.ledger.read(REFUSALS_STREAM, max(size - looked_back, 0))
            if looked_back >= size or found[0].at <= since:
                return found
            looked_back *= 4
