"""The tables beside the events, folded from them: where each stream stands, who is called what, plans, checkpoints.

Used wherever a whole history is gone through: rebuilding, migrating, restoring. An append folds only its own events
(`ledger_writer`) and comes to the same tables. The invariant: nothing is folded before its chain has proved whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import apsw
import msgspec

from ordain.adapters.ledger_file import CHECKPOINT_EVERY, EVENT, rows, transaction
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
    "gone",
    "plan_row",
    "rebuild",
    "record",
]

_encoder = msgspec.json.Encoder()

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
        query = f"SELECT position, stream, previous, {EVENT} FROM events ORDER BY position"
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
