"""Reading a ledger file: the events of one stream, all of them, and what is kept about plans.

The invariant: what cannot be verified is refused, never shown. Damage can leave anything in a column, whatever the
table says, so every value is given its type on the way out; a wrong one then breaks its chain like any other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

import apsw
import msgspec

from ordain.adapters.ledger_file import EVENT, WALK, first, rows
from ordain.core import chain
from ordain.core.artifact import whole_seal
from ordain.core.event import Recorded
from ordain.core.problem import Refused
from ordain.core.summary import PlanSummary, summarise

__all__ = [
    "EVENTS",
    "accounted",
    "adds_up",
    "entries",
    "events_after",
    "last_checkpoint",
    "lost",
    "part_name",
    "stand",
    "summary_of",
]

EVENTS = f"SELECT position, ifnull(stream, 0), {EVENT} FROM events"
"""The columns that `entries` takes."""

_STAND = "SELECT opened, ifnull(size, 0), ifnull(head, x''), ifnull(last, 0) FROM streams WHERE stream = ?"
_SCAN = f"SELECT {EVENT} FROM events WHERE stream = ?1 AND position <= ?2 AND seq >= ?3 ORDER BY seq DESC"

_decoder = msgspec.json.Decoder(PlanSummary)


def stand(connection: apsw.Connection, stream: str) -> tuple[int, chain.Tip, int] | None:
    """The number of a stream, where its chain ought to end, and the position of its last event; None if unknown."""
    found = first(connection, _STAND, (stream,))
    return (found[0], chain.Tip(found[1], found[2]), found[3]) if found else None


def events_after(connection: apsw.Connection, stream: str, after: int) -> tuple[Recorded, ...]:
    """The events of a stream with a number above `after`, verified."""
    found = stand(connection, stream)
    if found is None:
        if not accounted(connection) and lost(connection, stream):
            raise chain.broken(stream, 1)
        return ()
    opened, end, last = found
    if after > end.size:
        return ()
    # Where the way back is damaged, all events are looked through: they may be whole, or tell what is not.
    for query in (WALK, _SCAN):
        back = [chain.Row(*row) for row in rows(connection, query, (opened, last, after))]
        try:
            return _verified(stream, back[::-1], after, end)
        except Refused:
            if query is _SCAN:
                raise
    return ()


def _verified(stream: str, found: list[chain.Row], after: int, end: chain.Tip) -> tuple[Recorded, ...]:
    """The chain goes on from the last event the caller has, so that one must be there."""
    if not after:
        return chain.recorded(stream, found, start=chain.ORIGIN, end=end)
    if not found or found[0].seq != after:
        raise chain.broken(stream, after)
    return chain.recorded(stream, found[1:], start=chain.Tip(after, found[0].head), end=end)


def entries(stored: Iterable[tuple[int, int, int, bytes, bytes]]) -> Iterator[chain.Entry]:
    """Stored events (`EVENTS`) with their stream's name, as its first event tells it: the table of streams is only a
    projection, and not believed here."""
    names: dict[int, str] = {}
    for position, stream, seq, body, head in stored:
        if stream not in names:
            try:
                names[stream] = chain.place(body).stream
            except msgspec.DecodeError:
                names[stream] = f"(the stream of event {position})"
        yield chain.Entry(position, names[stream], seq, body, head)


def summary_of(connection: apsw.Connection, opened: int, stored: bytes) -> PlanSummary | None:
    """What is kept about a plan; folded again from its events when another version kept something we cannot read."""
    with suppress(msgspec.DecodeError, TypeError):
        return _decoder.decode(stored)
    named = first(connection, "SELECT stream FROM streams WHERE opened = ?", (opened,))
    summary = None
    for recorded in events_after(connection, named[0], 0) if named else ():
        summary = summarise(summary, recorded)
    return summary


def part_name(seal: str, number: int) -> str:
    """Under which name a part of an artifact is kept."""
    return f"{seal}/{number}"


def adds_up(parts: Iterable[bytes], seal: str, sealed: Callable[[bytes], str]) -> bool:
    """Whether parts add up to what a seal commits to."""
    digest, size = hashlib.sha256(), 0
    for part in parts:
        digest.update(part)
        size += len(part)
    return whole_seal(sealed, digest.digest(), size) == seal


def last_checkpoint(connection: apsw.Connection) -> chain.Tip:
    """The newest checkpoint that is remembered."""
    row = first(connection, "SELECT position, digest FROM checkpoints ORDER BY position DESC LIMIT 1")
    return chain.Tip(*row) if row else chain.ORIGIN


def accounted(connection: apsw.Connection) -> bool:
    """Whether the streams have as many events between them as there are: else one of them may have been lost."""
    query = "SELECT coalesce(sum(size), 0) = (SELECT coalesce(max(position), 0) FROM events) FROM streams"
    return bool(first(connection, query)[0])


def lost(connection: apsw.Connection, stream: str) -> bool:
    """Whether there are events of a stream that the table of streams does not know; looks through all of them."""
    query = "SELECT body, min(seq) FROM events WHERE stream NOT IN (SELECT opened FROM streams) GROUP BY stream"
    for body, _ in rows(connection, query):
        with suppress(msgspec.DecodeError, TypeError):
            if chain.place(body).stream == stream:
                return True
    return False
