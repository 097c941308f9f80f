"""The ledger in one SQLite file that several processes may use at once.

Everything is read in the caller's thread and written by one thread, which puts all requests that wait at the same
moment into one transaction: one fsync for all of them, while each stays all-or-nothing by itself.

The invariants: what `append` returned is on disk; the events are the truth, and `streams` and `names` are projections
of them written in the same transaction; a failed write is never tried again, because after a failed fsync nobody
knows what the disk has.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice, takewhile
from pathlib import Path

import apsw

from ordain.core import chain
from ordain.core.event import Event, Recorded, ids_named
from ordain.core.problem import Refused, refuse
from ordain.core.value import Instant
from ordain.ports import Append

__all__ = ["SqliteLedger"]

APPLICATION_ID = 0x4F726461
"""`Orda`: tells our files from every other SQLite database."""
SCHEMA_VERSION = 1
BUSY_TIMEOUT_MS = 10_000
LOOKUP_MAX = 10

# The head stands before the body, so that reading a head never walks through the pages of a large body.
_SCHEMA = f"""
BEGIN;
CREATE TABLE events (
    stream TEXT NOT NULL,
    seq INTEGER NOT NULL,
    head BLOB NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (stream, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE streams (
    opened INTEGER PRIMARY KEY,
    stream TEXT NOT NULL UNIQUE,
    size INTEGER NOT NULL,
    head BLOB NOT NULL,
    epoch INTEGER NOT NULL
) STRICT;
CREATE TABLE names (
    id TEXT NOT NULL PRIMARY KEY,
    stream TEXT NOT NULL
) STRICT, WITHOUT ROWID;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
PRAGMA journal_mode = WAL;
"""

_STAND = "SELECT size, head, epoch FROM streams WHERE stream = ?"
_LAST = "SELECT seq, head FROM events WHERE stream = ? AND seq >= ?"
_RECORD = "INSERT INTO events (stream, seq, head, body) VALUES (?, ?, ?, ?)"
_MOVE = """
INSERT INTO streams (stream, size, head, epoch) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (stream) DO UPDATE SET size = ?2, head = ?3, epoch = ?4
"""
# The stream that first named an id keeps it: no later event can point it elsewhere.
_NAME = "INSERT INTO names (id, stream) VALUES (?, ?) ON CONFLICT DO NOTHING"

_BUSY = (apsw.BusyError, apsw.LockedError, apsw.ProtocolError)
_DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.ConstraintError)


class _Request:
    """One call of `append`, encoded in the caller's thread: its sequence numbers follow from the expected sizes."""

    def __init__(self, at: Instant, appends: tuple[Append, ...]) -> None:
        self.at = at
        self.appends = [
            (append, [chain.encode(append.stream, seq, at, event) for seq, event in _numbered(append)])
            for append in appends
        ]
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[tuple[Recorded, ...]] = self.loop.create_future()


_Answer = tuple[Recorded, ...] | Refused


class SqliteLedger:
    """`ports.Ledger` in a SQLite file. Not to be carried over a fork."""

    def __init__(self, path: Path, connection: apsw.Connection, writer: _Writer) -> None:
        self._path = path
        self._connection = connection
        self._reader = threading.Lock()
        self._writer = writer

    @classmethod
    def open(cls, path: Path, *, busy_timeout_ms: int = BUSY_TIMEOUT_MS) -> SqliteLedger:
        """Open the ledger in this file, which is made, readable by its owner only, when it is missing."""
        path = path.absolute()
        try:
            if not path.exists():
                _create(path)
            connection = _connect(path, busy_timeout_ms)
            try:
                _check(path, connection)
                return cls(path, connection, _Writer(path, busy_timeout_ms))
            except BaseException:
                connection.close()
                raise
        except apsw.NotADBError as error:
            raise _foreign(path) from error
        except (apsw.Error, OSError) as error:
            raise _refusal(path, error) from error

    @property
    def commits(self) -> int:
        """How many transactions were made durable; compared with the appends, it tells how well they shared."""
        return self._writer.commits

    async def append(self, at: Instant, *appends: Append) -> tuple[Recorded, ...]:
        """As the port says. A caller that is cancelled while it waits may find its events recorded all the same."""
        if not appends:
            return ()
        request = _Request(at, appends)
        self._writer.submit(request)
        return await request.future

    def read(self, stream: str, after: int = 0) -> Sequence[Recorded]:
        after = max(after, 0)
        with self._reading() as connection:
            stand = connection.execute("SELECT size, head FROM streams WHERE stream = ?", (stream,)).fetchone()
            query = "SELECT seq, body, head FROM events WHERE stream = ? AND seq >= ? ORDER BY seq"
            rows = [chain.Row(*row) for row in connection.execute(query, (stream, after))]
            end = chain.Tip(*stand) if stand else chain.ORIGIN
            if after > end.size and not rows:
                return ()
            start = chain.ORIGIN
            if after:
                # The chain goes on from the last event the caller has, so that one must be there.
                if not rows or rows[0].seq != after:
                    raise chain.broken(stream, after)
                start = chain.Tip(after, rows.pop(0).head)
            return chain.recorded(stream, rows, start=start, end=end)
        return ()

    def streams(self, prefix: str) -> Sequence[str]:
        with self._reading() as connection:
            rows = connection.execute("SELECT stream, opened FROM streams WHERE stream >= ? ORDER BY stream", (prefix,))
            found = takewhile(lambda row: row[0].startswith(prefix), rows)
            return tuple(stream for stream, _ in sorted(found, key=lambda row: row[1]))
        return ()

    def lookup(self, id_prefix: str) -> Sequence[tuple[str, str]]:
        with self._reading() as connection:
            rows = connection.execute("SELECT id, stream FROM names WHERE id >= ? ORDER BY id", (id_prefix,))
            return tuple(islice(takewhile(lambda row: row[0].startswith(id_prefix), rows), LOOKUP_MAX))
        return ()

    async def close(self) -> None:
        """Write what still waits, then let go of the file."""
        await self._writer.close()
        with self._reader:
            self._connection.close()

    @contextmanager
    def _reading(self) -> Iterator[apsw.Connection]:
        """One moment of the ledger, however many statements look at it.

        Words that are not Unicode (an argument with stray bytes) name nothing, so the block just ends with them.
        """
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
                raise _refusal(self._path, error) from error


class _Writer:
    """The one thread that writes. It begins with the first request and ends when closed, with nothing left waiting."""

    def __init__(self, path: Path, busy_timeout_ms: int) -> None:
        self.commits = 0
        self._path = path
        self._identity = _identity(path)
        self._busy_timeout_ms = busy_timeout_ms
        self._connection: apsw.Connection | None = None
        self._fault: Exception | None = None
        self._thread: threading.Thread | None = None
        self._waiting: list[_Request] = []
        self._closed = False
        self._changed = threading.Condition()

    def submit(self, request: _Request) -> None:
        with self._changed:
            if self._closed:
                raise RuntimeError("This ledger was closed.")
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="ordain-ledger", daemon=True)
                thread.start()
                self._thread = thread
            self._waiting.append(request)
            self._changed.notify()

    async def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        while group := self._next():
            _settle(zip(group, self._commit(group), strict=True))
        if self._connection is not None:
            # Housekeeping: what a checkpoint fails to move stays safe in the write-ahead log.
            with suppress(apsw.Error):
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            with suppress(apsw.Error):
                self._connection.close()

    def _next(self) -> list[_Request]:
        """All requests that wait now, at least one; none only after the end."""
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            group, self._waiting = self._waiting, []
            return group

    def _commit(self, group: list[_Request]) -> list[_Answer]:
        """Write a group in one transaction. The answers are given only after it is durable."""
        if self._fault is not None:
            return [_refusal(self._path, self._fault) for _ in group]
        try:
            connection = self._connect()
            connection.execute("BEGIN IMMEDIATE")
            try:
                batch = _Batch(connection)
                answers = [batch.answer(request) for request in group]
                batch.write()
                connection.execute("COMMIT")
            except BaseException:
                # After a full disk or an I/O error SQLite may have rolled back by itself.
                with suppress(apsw.Error):
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                raise
        except Exception as error:
            # When another process held the file for too long, nothing was begun and the next request may try.
            if not isinstance(error, _BUSY):
                self._fault = error
            return [_refusal(self._path, error) for _ in group]
        self.commits += 1
        return answers

    def _connect(self) -> apsw.Connection:
        if self._connection is None:
            self._connection = _connect(self._path, self._busy_timeout_ms)
        # SQLite goes on writing to a file that was deleted or replaced; those events would be gone with it.
        if _identity(self._path) != self._identity:
            raise OSError("the file was replaced while it was in use")
        return self._connection


class _Batch:
    """What one transaction adds. Requests are answered one after the other, and only what was admitted is written."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._stands: dict[str, chain.Stand] = {}
        self._rows: list[tuple[str, int, bytes, bytes]] = []
        self._names: list[tuple[str, str]] = []

    def answer(self, request: _Request) -> _Answer:
        """One request, all or nothing: a refusal is its answer and leaves the others alone."""
        stands: dict[str, chain.Stand] = {}
        rows: list[tuple[str, int, bytes, bytes]] = []
        written: list[Recorded] = []
        try:
            for append, bodies in request.appends:
                stream = append.stream
                stands[stream], added = chain.add(
                    stream,
                    stands.get(stream) or self._stand(stream),
                    bodies,
                    expected=append.expected,
                    epoch=append.epoch,
                    new_epoch=append.new_epoch,
                )
                for event, (seq, body, head) in zip(append.events, added, strict=True):
                    rows.append((stream, seq, head, body))
                    written.append(Recorded(stream=stream, seq=seq, at=request.at, event=event, head=head.hex()))
        except Refused as refused:
            return refused
        self._stands |= stands
        self._rows += rows
        self._names += [(name, recorded.stream) for recorded in written for name in ids_named(recorded.event)]
        return tuple(written)

    def write(self) -> None:
        self._connection.executemany(_RECORD, self._rows)
        self._connection.executemany(_MOVE, [(stream, *tip, epoch) for stream, (tip, epoch) in self._stands.items()])
        if self._names:
            self._connection.executemany(_NAME, self._names)

    def _stand(self, stream: str) -> chain.Stand:
        """Where a stream stands inside this transaction. A chain that is visibly broken is not made longer."""
        if stream in self._stands:
            return self._stands[stream]
        size, head, epoch = self._connection.execute(_STAND, (stream,)).fetchone() or (*chain.ORIGIN, 0)
        last = self._connection.execute(_LAST, (stream, size)).fetchall()
        if last != ([(size, head)] if size else []):
            raise chain.broken(stream, max(size, 1))
        return chain.Stand(chain.Tip(size, head), epoch)


def _numbered(append: Append) -> Iterator[tuple[int, Event]]:
    return enumerate(append.events, append.expected + 1)


def _settle(answered: Iterator[tuple[_Request, _Answer]]) -> None:
    """Hand the answers over, waking each event loop once. A loop that is closed has nobody waiting any more."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[_Request, _Answer]]] = {}
    for request, answer in answered:
        loops.setdefault(request.loop, []).append((request, answer))
    for loop, answers in loops.items():
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_deliver, answers)


def _deliver(answers: list[tuple[_Request, _Answer]]) -> None:
    for request, answer in answers:
        if request.future.done():
            continue
        if isinstance(answer, Refused):
            request.future.set_exception(answer)
        else:
            request.future.set_result(answer)


def _create(path: Path) -> None:
    """Make an empty ledger beside its place and link it there: others see a whole one or none, and the first wins."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        os.fchmod(handle, 0o600)
        os.close(handle)
        connection = _connect(Path(name), BUSY_TIMEOUT_MS)
        try:
            connection.execute(_SCHEMA)
        finally:
            connection.close()
        with suppress(FileExistsError):
            Path(path).hardlink_to(name)
    finally:
        Path(name).unlink()
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _connect(path: Path, busy_timeout_ms: int) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(busy_timeout_ms)
    # Without fullfsync, macOS says "on disk" when the bytes are only in the drive's memory.
    connection.execute("PRAGMA synchronous = FULL; PRAGMA fullfsync = ON")
    return connection


def _check(path: Path, connection: apsw.Connection) -> None:
    """Refuse a file that is not ours, or is of a version we do not know, before anything touches it."""
    if connection.pragma("application_id") != APPLICATION_ID:
        raise _foreign(path)
    version = connection.pragma("user_version")
    if version != SCHEMA_VERSION:
        raise refuse(
            "E_LEDGER_VERSION",
            f"The ledger {path} has format {version}; this version of Ordain knows {SCHEMA_VERSION}.",
            "Use the version of Ordain that wrote it.",
        )
    if connection.pragma("journal_mode", "wal") != "wal":
        raise refuse("E_LEDGER_IO", f"The ledger {path} cannot be used on this file system: no write-ahead log.")


def _foreign(path: Path) -> Refused:
    return refuse("E_LEDGER_FOREIGN", f"{path} is not a ledger of Ordain.", "Move it away, or name another file.")


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _refusal(path: Path, error: Exception) -> Refused:
    """What a failed statement means to a reader; a new exception each time, because each waiter raises its own."""
    said = str(error) or type(error).__name__
    if isinstance(error, _BUSY):
        refused = refuse(
            "E_LEDGER_BUSY",
            f"Another process kept the ledger {path} locked for too long ({said}).",
            "Nothing was done; try again when it has finished.",
        )
    elif isinstance(error, _DAMAGE):
        refused = refuse("E_LEDGER_BROKEN", f"The ledger {path} is damaged ({said}).", "Restore it from a copy.")
    else:
        refused = refuse(
            "E_LEDGER_IO",
            f"The ledger {path} could not be read or written ({said}).",
            "Nothing more is recorded until it is opened again; see to the disk first.",
        )
    refused.__cause__ = error
    return refused
