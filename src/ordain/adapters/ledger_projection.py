"""The tables beside the events, folded from them: where each stream stands, who is called what, plans, checkpoints.

Used wherever a whole history is gone through: rebuilding, migrating, restoring. An append folds only its own events
(`ledger_writer`) and comes to the same tables. The invariant: nothing is folded before its chain has proved whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

import apsw
import msgspec

from ordain.adapters.ledger_file import CHECKPOINT_EVERY, first, rows, transaction
from ordain.core import chain
from ordain.core.event import ExecutorStarted, ids_named
from ordain.core.problem import Refused, refuse
from ordain.core.summary import PlanSummary, summarise

__all__ = [
    "NAME",
    "OPEN",
    "RECORD",
    "REMEMBER",
    "SUMMARISE",
    "Placed",
    "Projection",
    "accounted",
    "entries",
    "gone",
    "last_checkpoint",
    "orphaned",
    "plan_of",
    "plan_row",
    "rebuild",
    "record",
]

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(PlanSummary)

RECORD = "INSERT INTO events (position, stream, seq, previous, head, body) VALUES (?, ?, ?, ?, ?, ?)"
OPEN = "INSERT INTO streams (opened, stream, size, last, head, epoch) VALUES (?, ?, ?, ?, ?, ?)"
# The stream that first named an id keeps it: no later event can point it elsewhere.
NAME = "INSERT INTO names (id, stream) VALUES (?, ?) ON CONFLICT DO NOTHING"
SUMMARISE = "INSERT OR REPLACE INTO plans (opened, open, document, body) VALUES (?, ?, ?, ?)"
REMEMBER = "INSERT INTO checkpoints (position, digest) VALUES (?, ?)"


class Placed(NamedTuple):
    """Where an event stands in the file: when it arrived, its stream's number, and the event before it there."""

    position: int
    stream: int
    previous: int


class _Stream(NamedTuple):
    opened: int
    tip: chain.Tip
    last: int
    epoch: int
    summary: PlanSummary | None


_UNOPENED = _Stream(0, chain.ORIGIN, 0, 0, None)


class Projection:
    """What the tables say after the events taken so far."""

    def __init__(self) -> None:
        self.checkpoint = chain.ORIGIN
        self._streams: dict[str, _Stream] = {}
        self._names: list[tuple[str, str]] = []
        self._checkpoints: list[chain.Tip] = []

    def take(self, stream: str, row: chain.Row) -> Placed:
        """Fold the event that arrived next; refuses one that does not follow from those before it."""
        before = self._streams.get(stream, _UNOPENED)
        tip = chain.Tip(row.seq, row.head)
        (recorded,) = chain.recorded(stream, (row,), start=before.tip, end=tip)
        self.checkpoint = chain.checkpoint((row.head,), self.checkpoint)
        position = self.checkpoint.size
        if position % CHECKPOINT_EVERY == 0:
            self._checkpoints.append(self.checkpoint)
        event = recorded.event
        self._names += [(name, stream) for name in ids_named(event)]
        opened = before.opened or position
        epoch = event.epoch if isinstance(event, ExecutorStarted) else before.epoch
        self._streams[stream] = _Stream(opened, tip, position, epoch, summarise(before.summary, recorded))
        return Placed(position, opened, before.last)

    def write(self, connection: apsw.Connection) -> None:
        """Put everything into its tables, which are empty."""
        for name, (opened, (size, head), last, epoch, summary) in self._streams.items():
            connection.execute(OPEN, (opened, name, size, last, head, epoch))
            if summary is not None:
                connection.execute(SUMMARISE, plan_row(opened, summary))
        connection.executemany(NAME, self._names)
        connection.executemany(REMEMBER, self._checkpoints)


def plan_row(opened: int, summary: PlanSummary) -> tuple[int, int, str | None, bytes]:
    """A summary as it is stored: what it is looked for by, and all of it."""
    return opened, int(summary.open), summary.document, _encoder.encode(summary)


def plan_of(body: bytes) -> PlanSummary:
    """A summary from what is stored of it."""
    return _decoder.decode(body)


def last_checkpoint(connection: apsw.Connection) -> chain.Tip:
    """The newest checkpoint that is remembered."""
    row = first(connection, "SELECT position, digest FROM checkpoints ORDER BY position DESC LIMIT 1")
    return chain.Tip(*row) if row else chain.ORIGIN


def accounted(connection: apsw.Connection) -> bool:
    """Whether the streams have as many events between them as there are: else one of them may have been lost."""
    query = "SELECT coalesce(sum(size), 0) = (SELECT coalesce(max(position), 0) FROM events) FROM streams"
    return bool(first(connection, query)[0])


def orphaned(connection: apsw.Connection, name: str) -> bool:
    """Whether there are events of a stream that the projection has lost; looks through all of them."""
    query = "SELECT body, min(seq) FROM events WHERE stream NOT IN (SELECT opened FROM streams) GROUP BY stream"
    for body, _ in rows(connection, query):
        with suppress(msgspec.DecodeError):
            if chain.place(body).stream == name:
                return True
    return False


def entries(stored: Iterable[tuple[int, int, int, bytes, bytes]]) -> Iterator[chain.Entry]:
    """Stored events (position, stream, seq, body, head) with their stream's name, as its first event tells it: the
    table of streams is only a projection, and not believed here."""
    names: dict[int, str] = {}
    for position, stream, seq, body, head in stored:
        if stream not in names:
            try:
                names[stream] = chain.place(body).stream
            except msgspec.DecodeError:
                names[stream] = f"(the stream of event {position})"
        yield chain.Entry(position, names[stream], seq, body, head)


def record(connection: apsw.Connection, projection: Projection, events: Iterable[tuple[str, chain.Row]]) -> None:
    """Store the events of another ledger, which come in order of arrival, and fold them."""
    placed = ((projection.take(stream, row), row) for stream, row in events)
    connection.executemany(
        RECORD,
        ((position, stream, row.seq, previous, row.head, row.body) for (position, stream, previous), row in placed),
    )


def rebuild(connection: apsw.Connection) -> int:
    """Throw the projections away and fold them again, in one transaction; returns how many events there are.

    Refuses, and leaves everything as it was, when a chain is broken or an event is missing.
    """
    with transaction(connection):
        projection = Projection()
        moved: list[tuple[int, int, int]] = []
        query = "SELECT position, stream, previous, seq, body, head FROM events ORDER BY position"
        for position, stream, previous, seq, body, head in rows(connection, query):
            if position != projection.checkpoint.size + 1:
                raise gone(projection.checkpoint.size + 1)
            placed = projection.take(_name(position, body), chain.Row(seq, body, head))
            if placed != (position, stream, previous):
                moved.append((placed.stream, placed.previous, position))
        connection.executemany("UPDATE events SET stream = ?, previous = ? WHERE position = ?", moved)
        for table in ("streams", "names", "plans", "checkpoints"):
            connection.execute(f"DELETE FROM {table}")
        projection.write(connection)
    return projection.checkpoint.size


def _name(position: int, body: bytes) -> str:
    try:
        return chain.place(body).stream
    except msgspec.DecodeError as error:
        raise gone(position) from error


def gone(position: int) -> Refused:
    """The refusal of a ledger in which something that arrived is not there any more."""
    return refuse(
        "E_LEDGER_BROKEN",
        f"The event that arrived as number {position} is missing or unreadable.",
        "Restore the ledger from a copy.",
    )
