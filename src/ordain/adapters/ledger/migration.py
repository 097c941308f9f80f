"""Bringing a ledger of an earlier format to the present one, whole or not at all.

Format 1 kept the events by stream and knew no order of arrival, no summaries and no kept results. What was hashed is
never touched: the same bodies and heads are stored in the new tables.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw

from ordain.adapters.ledger.file import (
    BUSY_TIMEOUT_MS,
    EVENT,
    FORMAT,
    connect,
    connect_to_look,
    copy,
    format_of,
    furnish,
    place_new,
    rows,
    transaction,
)
from ordain.adapters.ledger.reader import Projection, record
from ordain.core.ledger import chain

_SET_ASIDE = "ALTER TABLE events RENAME TO events_1; ALTER TABLE streams RENAME TO streams_1; DROP TABLE names"
_ROWS = f"SELECT {EVENT} FROM events_1 WHERE stream = ? ORDER BY seq"
_STRAYS = "SELECT stream FROM events WHERE stream NOT IN (SELECT stream FROM streams)"


def migrate(path: Path, connection: apsw.Connection) -> None:
    """Bring the file to the present format in one transaction, and keep it as it was in `ledger.db.v1` beside it.

    Refuses a ledger with a broken chain and leaves it alone. Who comes second finds it done.
    """
    with transaction(connection):
        if format_of(path, connection) != 1:
            return
        copy_aside(path)
        _convert(connection)


def copy_aside(path: Path) -> None:
    """Keep the file as it is. Its writer holds it, so nobody writes; a second connection sees what was before."""
    with (
        place_new(path.with_name(f"{path.name}.v1"), over=True) as draft,
        closing(connect_to_look(path)) as source,
        closing(connect(draft)) as target,
    ):
        copy(source, target)
        target.pragma("journal_mode", "delete")


def open_to_look(path: Path, busy_timeout_ms: int = BUSY_TIMEOUT_MS) -> apsw.Connection:
    """A connection that writes nothing to the file. An earlier format is shown in the present one, from memory."""
    connection = connect_to_look(path, busy_timeout_ms)
    try:
        if format_of(path, connection) == FORMAT:
            return connection
        shown = apsw.Connection(":memory:")
        copy(connection, shown)
    except BaseException:
        connection.close()
        raise
    connection.close()
    with transaction(shown):
        _convert(shown)
    return shown


def _convert(connection: apsw.Connection) -> None:
    """The events in the order in which their streams were opened, which is as much as format 1 knew of it."""
    for (stray,) in rows(connection, _STRAYS):
        raise chain.broken(stray, 1)
    ends = tuple(rows(connection, "SELECT stream, size, head FROM streams ORDER BY opened"))
    connection.execute(_SET_ASIDE)
    furnish(connection)
    projection = Projection()
    for stream, size, head in ends:
        found = [chain.Row(*row) for row in rows(connection, _ROWS, (stream,))]
        fault = chain.verify(found, end=chain.Tip(size, head))
        if fault is not None:
            raise chain.broken(stream, fault)
        record(connection, projection, ((stream, row) for row in found))
    projection.write(connection)
    connection.execute("DROP TABLE events_1; DROP TABLE streams_1")
