"""Reading a ledger file: the events of one stream, all of them, and what is kept about plans.

What cannot be verified is refused, never shown. Damage can leave anything in a column, so every value is given its type
on the way out; a wrong one then breaks its chain like any other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import apsw
import msgspec

from ordain.adapters.ledger import database
from ordain.core.ledger import chain
from ordain.core.ledger.summary import PlanSummary, summarise
from ordain.core.lineage.lineage import PlanState
from ordain.core.run.attempt import whole_seal
from ordain.core.run.event import ExecutorStarted, Recorded, ids_named
from ordain.core.text.problem import Refused, refuse

# --- Ledger reading --------------------------------------------------------------------------------------------------

EVENTS = f"SELECT position, ifnull(stream, 0), {database.EVENT} FROM events"

STAND = "SELECT opened, ifnull(size, 0), ifnull(head, x''), ifnull(last, 0) FROM streams WHERE stream = ?"
_SCAN = f"SELECT {database.EVENT} FROM events WHERE stream = ?1 AND position <= ?2 AND seq >= ?3 ORDER BY seq DESC"


class _Stored(msgspec.Struct):
    state: msgspec.Raw
    stream: str
    fold: int = 1


_decoder = msgspec.json.Decoder(_Stored)
_states = cache(lambda: msgspec.json.Decoder(PlanState))


def stand(connection: apsw.Connection, stream: str) -> tuple[int, chain.Tip, int] | None:
    """The number of a stream, where its chain ought to end, and the position of its last event; None if unknown."""
    found = database.first(connection, STAND, (stream,))
    return (found[0], chain.Tip(found[1], found[2]), found[3]) if found else None


def events_after(connection: apsw.Connection, stream: str, after: int) -> tuple[Recorded, ...]:
    """The events of a stream with a number above `after`, verified."""
    if (found := stand(connection, stream)) is None:
        if not accounted(connection) and lost(connection, stream):
            raise chain.broken(stream, 1)
        return ()
    opened, end, last = found
    if after > end.size:
        return ()
    # Where the way back is damaged, all events are looked through: they may be whole, or tell what is not.
    for query in (database.WALK, _SCAN):
        back = [chain.Row(*row) for row in connection.execute(query, (opened, last, after))]
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
    """Stored events (`EVENTS`) with their stream's name, as its first event tells it: the table is not believed."""
    names: dict[int, str] = {}
    for position, stream, seq, body, head in stored:
        if stream not in names:
            try:
                names[stream] = chain.place(body).stream
            except msgspec.DecodeError:
                names[stream] = f"(the stream of event {position})"
        yield chain.Entry(position, names[stream], seq, body, head)


def summary_of(connection: apsw.Connection, opened: int, stored: bytes) -> PlanSummary | None:
    """What is kept about a plan; folded again from its events where another version kept it."""
    with suppress(msgspec.DecodeError, TypeError):
        found = _decoder.decode(stored)
        if found.fold == database.FOLD:
            return PlanSummary(stream=found.stream, state=_states().decode(found.state))
    named = database.first(connection, "SELECT stream FROM streams WHERE opened = ?", (opened,))
    summary = None
    for recorded in events_after(connection, named[0], 0) if named else ():
        summary = summarise(summary, recorded)
    return summary


def part_name(seal: str, number: int) -> str:
    return f"{seal}/{number}"


def size_of(parts: Iterable[bytes], seal: str, sealed: Callable[[bytes], str]) -> int | None:
    """How long parts are together, where they add up to what a seal commits to."""
    digest, size = hashlib.sha256(), 0
    for part in parts:
        digest.update(part)
        size += len(part)
    return size if whole_seal(sealed, digest.digest(), size) == seal else None


def last_checkpoint(connection: apsw.Connection) -> chain.Tip:
    row = database.first(connection, "SELECT position, digest FROM checkpoints ORDER BY position DESC LIMIT 1")
    return chain.Tip(*row) if row else chain.ORIGIN


def accounted(connection: apsw.Connection) -> bool:
    """Whether the streams have as many events between them as there are: else one of them may have been lost."""
    query = "SELECT coalesce(sum(size), 0) = (SELECT coalesce(max(position), 0) FROM events) FROM streams"
    return bool(database.first(connection, query)[0])


def lost(connection: apsw.Connection, stream: str) -> bool:
    """Whether there are events of a stream that the table of streams does not know; looks through all of them."""
    query = "SELECT body, min(seq) FROM events WHERE stream NOT IN (SELECT opened FROM streams) GROUP BY stream"
    for body, _ in connection.execute(query):
        with suppress(msgspec.DecodeError, TypeError):
            if chain.place(body).stream == stream:
                return True
    return False


# --- Ledger projection -----------------------------------------------------------------------------------------------
# The tables beside the events, folded from a whole history: rebuilding, migrating, restoring. An append folds only its
# own events (`writer`) and comes to the same tables. Nothing is folded before its chain has proved whole.

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


class _StreamRow(NamedTuple):
    opened: int
    tip: chain.Tip
    last: int
    epoch: int
    summary: PlanSummary | None


_UNOPENED = _StreamRow(0, chain.ORIGIN, 0, 0, None)


class Projection:
    """What the tables say after the events taken so far."""

    def __init__(self) -> None:
        self.checkpoint = chain.ORIGIN
        self._streams: dict[str, _StreamRow] = {}
        self._names: list[tuple[str, str]] = []
        self._checkpoints: list[chain.Tip] = []

    def take(self, stream: str, row: chain.Row) -> Placed:
        """Fold the event that arrived next; refuses one that does not follow from those before it."""
        before = self._streams.get(stream, _UNOPENED)
        tip = chain.Tip(row.seq, row.head)
        (recorded,) = chain.recorded(stream, (row,), start=before.tip, end=tip)
        self.checkpoint = chain.checkpoint((row.head,), self.checkpoint)
        position = self.checkpoint.size
        if position % database.CHECKPOINT_EVERY == 0:
            self._checkpoints.append(self.checkpoint)
        event = recorded.event
        self._names += [(name, stream) for name in ids_named(event)]
        opened = before.opened or position
        epoch = event.epoch if isinstance(event, ExecutorStarted) else before.epoch
        self._streams[stream] = _StreamRow(opened, tip, position, epoch, summarise(before.summary, recorded))
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
    body = {"fold": database.FOLD, "stream": summary.stream, "state": summary.state}
    return opened, int(summary.open), summary.document, _encoder.encode(body)


def record(connection: apsw.Connection, projection: Projection, events: Iterable[tuple[str, chain.Row]]) -> None:
    """Store the events of another ledger, which come in order of arrival, and fold them."""
    placed = ((projection.take(stream, row), row) for stream, row in events)
    connection.executemany(
        RECORD,
        ((position, stream, row.seq, previous, row.head, row.body) for (position, stream, previous), row in placed),
    )


def rebuild(connection: apsw.Connection) -> int:
    """Throw the projections away and fold them again, in one transaction; returns how many events there are. Refuses,
    and changes nothing, when a chain is broken or an event is missing."""
    with database.transaction(connection):
        projection = Projection()
        moved: list[tuple[int, int, int]] = []
        query = f"SELECT position, stream, previous, {database.EVENT} FROM events ORDER BY position"
        for position, stream, previous, seq, body, head in connection.execute(query):
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
    return refuse(
        "E_LEDGER_BROKEN",
        f"The event that arrived as number {position} is missing or unreadable.",
        "Restore the ledger from a copy.",
    )


# --- An earlier format -----------------------------------------------------------------------------------------------
# Format 1 kept the events by stream and knew no order of arrival, no summaries and no kept results. It is brought to
# the present format whole or not at all; the same bodies and heads are stored in the new tables.

_SET_ASIDE = "ALTER TABLE events RENAME TO events_1; ALTER TABLE streams RENAME TO streams_1; DROP TABLE names"
_ROWS_1 = f"SELECT {database.EVENT} FROM events_1 WHERE stream = ? ORDER BY seq"
_STRAYS = "SELECT stream FROM events WHERE stream NOT IN (SELECT stream FROM streams)"


def migrate(path: Path, connection: apsw.Connection) -> None:
    """Bring the file to the present format in one transaction, and keep it as it was in `ledger.db.v1`. Refuses a
    ledger with a broken chain. Who comes second finds it done."""
    with database.transaction(connection):
        if database.format_of(path, connection) != 1:
            return
        copy_aside(path)
        _convert(connection)


def copy_aside(path: Path) -> None:
    """Keep the file as it is. Its writer holds it, so nobody writes; a second connection sees what was before."""
    with (
        database.place_new(path.with_name(f"{path.name}.v1"), over=True) as draft,
        closing(database.connect_to_look(path)) as source,
        closing(database.connect(draft)) as target,
    ):
        database.copy(source, target)
        target.pragma("journal_mode", "delete")


def open_to_look(path: Path, busy_timeout_ms: int = database.BUSY_TIMEOUT_MS) -> apsw.Connection:
    """A connection that writes nothing to the file. An earlier format is shown in the present one, from memory."""
    connection = database.connect_to_look(path, busy_timeout_ms)
    try:
        if database.format_of(path, connection) == database.FORMAT:
            return connection
        shown = apsw.Connection(":memory:")
        database.copy(connection, shown)
    except BaseException:
        connection.close()
        raise
    connection.close()
    with database.transaction(shown):
        _convert(shown)
    return shown


def _convert(connection: apsw.Connection) -> None:
    """The events in the order in which their streams were opened, which is as much as format 1 knew of it."""
    for (stray,) in connection.execute(_STRAYS):
        raise chain.broken(stray, 1)
    ends = tuple(connection.execute("SELECT stream, size, head FROM streams ORDER BY opened"))
    connection.execute(_SET_ASIDE)
    database.furnish(connection)
    projection = Projection()
    for stream, size, head in ends:
        found = [chain.Row(*row) for row in connection.execute(_ROWS_1, (stream,))]
        if (fault := chain.verify(found, end=chain.Tip(size, head))) is not None:
            raise chain.broken(stream, fault)
        record(connection, projection, ((stream, row) for row in found))
    projection.write(connection)
    connection.execute("DROP TABLE events_1; DROP TABLE streams_1")
