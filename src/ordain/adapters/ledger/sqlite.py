"""The ledger in one SQLite file that several processes may use at once.

Everything is read in the caller's thread and written by `writer`. What `append` returned is on disk; the events are the
truth, and other tables are projections of them, written in the same transaction.
"""

from __future__ import annotations

import hmac
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import count, islice, takewhile
from pathlib import Path
from typing import Any

import apsw

from ordain.adapters.ledger import database, reader
from ordain.adapters.ledger.writer import QUICK_S, Request, Writer
from ordain.adapters.process.spool import ROOM_BYTES
from ordain.core.ledger import chain
from ordain.core.ledger.summary import PlanSummary
from ordain.core.plan.value import Instant
from ordain.core.run.event import Recorded
from ordain.core.text.problem import refuse
from ordain.ports.ledger import Append

LOOKUP_MAX = 10
LISTENING_S = 0.1
"""How often it is looked whether another process has recorded something."""
CHUNK = 1000

_NOT_WRITABLE = (apsw.ReadOnlyError, apsw.CantOpenError, apsw.IOError, apsw.FullError, OSError)


class SqliteLedger:
    """`ports.Ledger` in a SQLite file. Not to be carried over a fork."""

    def __init__(self, path: Path, connection: apsw.Connection, writer: Writer | Exception) -> None:
        self._path = path
        self._connection = connection
        self._reader = threading.Lock()
        self._writer = writer
        """Or why nothing can be written."""

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        busy_timeout_ms: int = database.BUSY_TIMEOUT_MS,
        reserve: database.Reserve | None = None,
        quick_s: float = QUICK_S,
    ) -> SqliteLedger:
        """Open the ledger in this file, which is made when it is missing, and brought to the present format.

        One that cannot be written is opened to look at: every append is refused then. `reserve` is room on the disk to
        be used when there is no other. Commits that take less than `quick_s` on average are made on the event loop.
        """
        path = database.real_place(path)
        with database.errors(path):
            if not path.is_symlink() and not path.exists():
                database.create(path)
            database.inspect(path)
            try:
                writer: Writer | Exception = Writer(path, busy_timeout_ms, reserve, quick_s)
                connection = _connect(path, busy_timeout_ms)
            except _NOT_WRITABLE as error:
                connection, writer = reader.open_to_look(path, busy_timeout_ms), error
            return cls(path, connection, writer)

    @classmethod
    def open_to_look(cls, path: Path) -> SqliteLedger:
        """Open the ledger in this file as it is, of whatever format: nothing is made, changed or brought up to date."""
        path = database.real_place(path)
        with database.errors(path):
            database.inspect(path)
            connection = reader.open_to_look(path)
            return cls(path, connection, OSError("it was opened to be looked at"))

    @classmethod
    def empty(cls) -> SqliteLedger:
        """The ledger of a workspace in which nothing was recorded yet, to be looked at: in memory, and in no file. Who
        appends to it has made a mistake, which is no refusal."""
        connection = apsw.Connection(":memory:")
        database.furnish(connection)
        return cls(Path(), connection, RuntimeError("This ledger was opened to be looked at."))

    @property
    def path(self) -> Path:
        """The file, with the links above it followed."""
        return self._path

    @property
    def commits(self) -> int:
        """How many transactions were made durable; compared with the appends, it tells how well they shared."""
        return 0 if isinstance(self._writer, Exception) else self._writer.commits

    async def append(self, at: Instant, *appends: Append) -> tuple[Recorded, ...]:
        if not appends:
            return ()
        if isinstance(self._writer, RuntimeError):
            raise self._writer
        if isinstance(self._writer, Exception):
            raise database.refusal(self._path, self._writer)
        request = Request(at, appends, self.seal)
        self._writer.submit(request)
        return await request.answered()

    def read(self, stream: str, after: int = 0) -> Sequence[Recorded]:
        with self._reading() as connection:
            return reader.events_after(connection, stream, max(after, 0))
        return ()

    def size(self, stream: str) -> int:
        found = self._first(reader.STAND, stream)
        return found[1] if found else 0

    async def grown(self, stream: str, size: int) -> None:
        import asyncio  # most commands only look, and start faster without it

        while self.size(stream) <= size:  # noqa: ASYNC110 - other processes record, and nobody rings
            await asyncio.sleep(LISTENING_S)

    def streams(self, prefix: str) -> Sequence[str]:
        with self._reading() as connection:
            query = "SELECT stream, opened FROM streams WHERE stream >= ? ORDER BY stream"
            beyond = connection.execute(query, (prefix,))
            found = takewhile(lambda row: row[0].startswith(prefix), beyond)
            return tuple(stream for stream, _ in sorted(found, key=lambda row: row[1]))
        return ()

    def lookup(self, id_prefix: str) -> Sequence[tuple[str, str]]:
        with self._reading() as connection:
            beyond = connection.execute("SELECT id, stream FROM names WHERE id >= ? ORDER BY id", (id_prefix,))
            return tuple(islice(takewhile(lambda row: row[0].startswith(id_prefix), beyond), LOOKUP_MAX))
        return ()

    def plans(
        self, *, open_only: bool = False, document: str | None = None, newest: int | None = None
    ) -> Sequence[PlanSummary]:
        wanted = [word for word, asked in (("open = 1", open_only), ("document = ?1", document is not None)) if asked]
        where = f"WHERE {' AND '.join(wanted)}" if wanted else ""
        query = f"SELECT opened, body FROM plans {where} ORDER BY opened DESC LIMIT ?2"
        with self._reading() as connection:
            found = tuple(connection.execute(query, (document, -1 if newest is None else newest)))[::-1]
            summaries = (reader.summary_of(connection, opened, body) for opened, body in found)
            return tuple(summary for summary in summaries if summary is not None)
        return ()

    def plan_count(self) -> int:
        return int(self._first("SELECT count(*) FROM plans")[0])

    def checkpoint(self) -> chain.Tip:
        with self._reading() as connection:
            start = reader.last_checkpoint(connection)
            query = "SELECT head FROM events WHERE position > ? ORDER BY position"
            heads = connection.execute(query, (start.size,))
            return chain.checkpoint((head for (head,) in heads), start)
        return chain.ORIGIN

    def everything(self) -> Iterator[chain.Entry]:
        return reader.entries(self._stored())

    def _stored(self) -> Iterator[tuple[int, int, int, bytes, bytes]]:
        """Bit by bit: what has arrived never changes, so that nothing need be held still meanwhile."""
        query = f"{reader.EVENTS} WHERE position > ? AND position <= ? LIMIT ?"
        (end,), position = self._first("SELECT coalesce(max(position), 0) FROM events"), 0
        while True:
            with self._reading() as connection:
                found = tuple(connection.execute(query, (position, end, CHUNK)))
            if not found:
                return
            yield from found
            position = found[-1][0]

    def seal(self, body: bytes) -> str:
        return "hmac-sha256:" + hmac.digest(self._key, body, "sha256").hex()

    def kept(self, seal: str) -> bytes | None:
        if (row := self._first("SELECT body FROM kept WHERE seal = ?", seal)) is None:
            return None
        if self.seal(row[0]) != seal:
            raise refuse("E_LEDGER_BROKEN", f"What is kept under {seal} is not what was sealed.", "Restore a copy.")
        return bytes(row[0])

    def has_room(self, size: int) -> bool:
        disk = os.statvfs(self._path.parent)
        # It is written twice: to the log, and from there to its place.
        return disk.f_bavail * disk.f_frsize >= 2 * size + ROOM_BYTES

    def artifact(self, seal: str) -> Iterator[bytes] | None:
        if not self._has_artifact(seal):
            return None
        size = reader.size_of(self._parts(seal), seal, self.seal)
        if size is not None:
            return self._parts(seal, size)
        if not self._has_artifact(seal):
            return None  # it was removed meanwhile
        raise refuse("E_LEDGER_BROKEN", f"What is kept under {seal} is not what was sealed.", "Restore a copy.")

    def _has_artifact(self, seal: str) -> bool:
        # A part that is gone while a later one is there was taken away.
        names = (reader.part_name(seal, 0), f"{seal}/:")
        return self._first("SELECT 1 FROM kept WHERE seal >= ? AND seal < ?", *names) is not None

    def _parts(self, seal: str, size: int = 0) -> Iterator[bytes]:
        """One at a time: what is kept never changes, and nobody is held up while somebody reads. Raises Refused where
        they end before `size`: what nobody needs can be removed meanwhile."""
        for number in count():
            row = self._first("SELECT body FROM kept WHERE seal = ?", reader.part_name(seal, number))
            if row is None and size > 0:
                raise refuse("E_OUTPUT_NOT_KEPT", f"What is kept under {seal} was removed while it was read.")
            if row is None:
                return
            size -= len(row[0])
            yield bytes(row[0])

    def kept_sizes(self) -> Mapping[str, int]:
        sizes: dict[str, int] = {}
        with self._reading() as connection:
            for name, size in connection.execute("SELECT seal, length(body) FROM kept"):
                seal = name.partition("/")[0]
                sizes[seal] = sizes.get(seal, 0) + size
        return sizes

    @cached_property
    def _key(self) -> bytes:
        if (row := self._first("SELECT value FROM secret WHERE name = 'seal'")) is None:
            what = "The key of the seals is gone: no output can be checked."
            raise refuse("E_LEDGER_BROKEN", what, "Restore a copy.")
        return bytes(row[0])

    def rebuild(self) -> int:
        if isinstance(self._writer, Exception):
            raise database.refusal(self._path, self._writer)
        with self._reader, database.errors(self._path):
            return reader.rebuild(self._connection)

    def let_go(self) -> None:
        """Close one that was only looked at, where nobody can wait."""
        with self._reader:
            self._connection.close()

    async def close(self) -> None:
        if not isinstance(self._writer, Exception):
            await self._writer.close()
        with self._reader:
            self._connection.close()

    def _first(self, query: str, *bindings: Any) -> Any:
        """The first row that one statement finds, which sees one moment by itself; steps ask, so without `_reading`."""
        try:
            with self._reader:
                return database.first(self._connection, query, bindings)
        except UnicodeEncodeError:
            return None
        except apsw.Error as error:
            raise database.refusal(self._path, error) from error

    @contextmanager
    def _reading(self) -> Iterator[apsw.Connection]:
        """One moment of the ledger. Words that are not Unicode name nothing, so the block just ends with them."""
        with self._reader:
            try:
                self._connection.execute("BEGIN")
                try:
                    yield self._connection
                finally:
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
            except UnicodeEncodeError:
                return
            except apsw.Error as error:
                raise database.refusal(self._path, error) from error


def _connect(path: Path, busy_timeout_ms: int) -> apsw.Connection:
    connection = database.connect(path, busy_timeout_ms)
    try:
        if database.format_of(path, connection) != database.FORMAT:
            reader.migrate(path, connection)
        if connection.pragma("journal_mode", "wal") != "wal":
            raise refuse("E_LEDGER_IO", f"The ledger {path} cannot be used on this file system: no write-ahead log.")
        if connection.readonly("main"):
            raise PermissionError("the file is read-only")
    except BaseException:
        connection.close()
        raise
    return connection
