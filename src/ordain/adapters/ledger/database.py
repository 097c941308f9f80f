"""The file a ledger lives in: its format, making it, opening it, and what its errors mean.

A file gets its name only when it is whole and on disk. One that others could have written, or that is another program's
or of an unknown version, is refused before anything in it is believed or touched.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw

from ordain.adapters.workspace.openat import opened, sync
from ordain.core.text.problem import Refused, refuse

APPLICATION_ID = 0x4F726461
"""`Orda`: tells our files from every other SQLite database."""
FORMAT = 2
FOLD = 3
"""Which way of folding a lineage made a stored summary of a plan. Raise it when `core.lineage` finds something else in
the same events: every summary of another way is folded again where it is read. 0.1 noted none, which counts as 1."""
BUSY_TIMEOUT_MS = 10_000
CHECKPOINT_EVERY = 1024
"""At how many events a checkpoint is remembered, so that the next need not begin at the first event."""

# Only `events`, `kept` and `secret` are the truth. A stream is numbered by the position of its first event, and each
# event points at the one before it in its stream: an index would change a page for every stream that is written to,
# this changes none. The head stands before the body, so that reading heads never walks through the pages of a body.
_TABLES = """
CREATE TABLE events (
    position INTEGER PRIMARY KEY,
    stream INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    previous INTEGER NOT NULL,
    head BLOB NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE TABLE kept (
    seal TEXT NOT NULL PRIMARY KEY,
    body BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE secret (
    name TEXT NOT NULL PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE streams (
    opened INTEGER PRIMARY KEY,
    stream TEXT NOT NULL UNIQUE,
    size INTEGER NOT NULL,
    last INTEGER NOT NULL,
    head BLOB NOT NULL,
    epoch INTEGER NOT NULL
) STRICT;
CREATE TABLE names (
    id TEXT NOT NULL PRIMARY KEY,
    stream TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE plans (
    opened INTEGER PRIMARY KEY,
    open INTEGER NOT NULL,
    document TEXT,
    body BLOB NOT NULL
) STRICT;
CREATE INDEX plans_open ON plans (open);
CREATE INDEX plans_document ON plans (document);
CREATE TABLE checkpoints (
    position INTEGER PRIMARY KEY,
    digest BLOB NOT NULL
) STRICT;
"""

EVENT = "ifnull(CAST(seq AS INTEGER), 0), ifnull(CAST(body AS BLOB), x''), ifnull(CAST(head AS BLOB), x'')"
"""The columns of a `chain.Row`."""
# From the last event back to the first one wanted, each pointing at the one before it.
WALK = f"""
WITH RECURSIVE walk (previous, position, seq, body, head) AS (
    SELECT previous, position, seq, body, head FROM events WHERE position = ?2
    UNION ALL
    SELECT events.previous, events.position, events.seq, events.body, events.head
    FROM walk JOIN events ON events.position = walk.previous
    WHERE walk.previous < walk.position AND events.stream = ?1 AND events.seq >= ?3
)
SELECT {EVENT} FROM walk
"""

_BESIDE = ("-journal", "-wal", "-shm")
BUSY = (apsw.BusyError, apsw.LockedError, apsw.ProtocolError)
_DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.ConstraintError)


def real_place(path: Path) -> Path:
    """Where a file is or would be, with the links above it followed and its own name left alone."""
    return Path(os.path.realpath(path.parent)) / path.name


def create(path: Path) -> None:
    """Make an empty ledger. Whoever comes first wins; the others find theirs."""
    try:
        with place_new(path) as draft, closing(connect(draft)) as connection:
            with transaction(connection):
                furnish(connection)
            connection.pragma("journal_mode", "wal")
    except FileExistsError:
        if not path.exists():
            raise


def furnish(connection: apsw.Connection) -> None:
    """Give a database the tables of the present format, a key of its own, and our mark."""
    import secrets

    connection.execute(_TABLES)
    connection.execute("INSERT INTO secret (name, value) VALUES ('seal', ?)", (secrets.token_bytes(32),))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT}")


@contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """Everything in the block is written, durably, or nothing is; nobody else writes meanwhile."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # After a full disk or an I/O error SQLite may have rolled back by itself.
        with suppress(apsw.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        raise


@contextmanager
def place_new(path: Path, *, over: bool = False) -> Iterator[Path]:
    """A file of our own beside `path`, which gets that name when the block has ended well and all of it is on disk.

    Raises FileExistsError when something has the name by then, unless `over` it, or when the log of a ledger that is
    gone lies there, which SQLite would take for the new one's. Nothing is left of a failure.
    """
    import tempfile  # most open a ledger that is there, and start faster without it

    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    draft = Path(name)
    try:
        os.fchmod(handle, 0o600)
        os.close(handle)
        yield draft
        sync(draft)
        for left in (path.with_name(path.name + end) for end in _BESIDE):
            if left.exists():
                raise FileExistsError(f"{left.name} is left of another ledger; move it away")
        if over:
            draft.rename(path)
        else:
            path.hardlink_to(draft)
        sync(path.parent)
    finally:
        for end in ("", *_BESIDE):
            draft.with_name(draft.name + end).unlink(missing_ok=True)


def inspect(path: Path) -> None:
    """Refuse a file that others could have put there, or could read. It is never opened: closing a second handle would
    drop the locks that SQLite holds through the first."""
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise _unsafe(path, "is a link")
    if not stat.S_ISREG(found.st_mode):
        raise refuse("E_LEDGER_IO", f"The ledger {path} is not a file.", "Move it away.")
    if found.st_uid != os.geteuid():
        raise _unsafe(path, "belongs to another user")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise _unsafe(path, "can be read or written by others", command=f"chmod 600 {path}")


def connect(path: Path, busy_timeout_ms: int = BUSY_TIMEOUT_MS) -> apsw.Connection:
    """A connection that can write, if the file system lets it."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW
    connection = apsw.Connection(str(path), flags=flags)
    _set_up(connection, busy_timeout_ms)
    return connection


def connect_to_look(path: Path, busy_timeout_ms: int = BUSY_TIMEOUT_MS) -> apsw.Connection:
    """A connection that writes nothing. SQLite wants to make a file beside a write-ahead log even to read; where it
    cannot, and the log is empty, the file is read as one that does not change."""
    try:
        return _look(path, "mode=ro", busy_timeout_ms)
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError, apsw.FullError):
        log = path.with_name(path.name + "-wal")
        if log.exists() and log.stat().st_size:
            raise
        return _look(path, "immutable=1", busy_timeout_ms)


def connect_at_rest(path: Path, busy_timeout_ms: int = BUSY_TIMEOUT_MS) -> apsw.Connection:
    """The same for who must make no file at all: where nobody is at work, there is no log to read."""
    beside = [path.with_name(path.name + ending).exists() for ending in ("-wal", "-shm")]
    return _look(path, "mode=ro" if all(beside) else "immutable=1", busy_timeout_ms)


def _look(path: Path, how: str, busy_timeout_ms: int) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_NOFOLLOW
    connection = apsw.Connection(f"{path.as_uri()}?{how}", flags=flags)
    try:
        _set_up(connection, busy_timeout_ms)
        connection.pragma("user_version")  # only reading shows whether it can be read
    except BaseException:
        connection.close()
        raise
    return connection


def _set_up(connection: apsw.Connection, busy_timeout_ms: int) -> None:
    connection.set_busy_timeout(busy_timeout_ms)
    # Without fullfsync, macOS says "on disk" when the bytes are only in the drive's memory.
    connection.execute("PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA trusted_schema = OFF")


def first(connection: apsw.Connection, query: str, bindings: Sequence[Any] = ()) -> Any:
    return connection.execute(query, bindings).fetchone()


def copy(source: apsw.Connection, target: apsw.Connection) -> None:
    """Everything committed at one moment, whoever writes meanwhile."""
    with target.backup("main", source, "main") as pages:
        while not pages.done:
            pages.step()


def format_of(path: Path, connection: apsw.Connection) -> int:
    """The format of a ledger; refuses a file that is not one, or of a format we do not know."""
    if connection.pragma("application_id") != APPLICATION_ID:
        raise foreign(path)
    version = int(connection.pragma("user_version"))
    if not 1 <= version <= FORMAT:
        raise refuse(
            "E_LEDGER_VERSION",
            f"The ledger {path} has format {version}; this version of Ordain knows 1 to {FORMAT}.",
            "Use the version of Ordain that wrote it.",
        )
    return version


def foreign(path: Path) -> Refused:
    return refuse("E_LEDGER_FOREIGN", f"{path} is not a ledger of Ordain.", "Move it away, or name another file.")


def identity(path: Path) -> tuple[int, int]:
    """What tells this file from another one of the same name."""
    found = path.stat()
    return found.st_dev, found.st_ino


@contextmanager
def errors(path: Path) -> Iterator[None]:
    """Turns what the disk or SQLite says into a refusal."""
    try:
        yield
    except apsw.NotADBError as error:
        raise foreign(path) from error
    except (apsw.Error, OSError) as error:
        raise refusal(path, error) from error


def refusal(path: Path, error: Exception) -> Refused:
    """What a failed statement means to a reader; a new exception each time, because each waiter raises its own."""
    said = str(error) or type(error).__name__
    if isinstance(error, BUSY):
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


def _unsafe(path: Path, what: str, command: str | None = None) -> Refused:
    return refuse(
        "E_STATE_DIR",
        f"The ledger {path} {what}.",
        "Move it away, or set ORDAIN_HOME to a directory of your own.",
        command=command,
    )


# --- Reserve ---------------------------------------------------------------------------------------------------------
# Room on the disk that is set aside in a file, so that a run can be ended in order when a step has filled the disk. It
# is given up before a write that would find the disk full, or after one that did.

RESERVE_BYTES = 4 << 20
"""As much as the log of a ledger grows to before it is used again from its beginning: some two hundred appends."""
MARGIN_BYTES = 1 << 20
"""What must be free beyond what is about to be written: pages of tables that are written along with it."""


class Reserve:
    """One such file. Whatever goes wrong with it is passed over."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def set_aside(self) -> None:
        """Take the room, if there is plenty and it is not taken already."""
        with contextlib.suppress(OSError, AttributeError):  # not every system can set room aside
            taken = self._path.exists() and self._path.stat().st_size == RESERVE_BYTES
            if taken or self._free() < 16 * RESERVE_BYTES:
                return
            allocate = os.posix_fallocate
            with opened(self._path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC) as descriptor:
                allocate(descriptor, 0, RESERVE_BYTES)

    def give_up_if_low(self, size: int) -> None:
        """Let go of it where the disk has hardly room for as much as this."""
        with contextlib.suppress(OSError):
            if self._free() < size + MARGIN_BYTES:
                self.give_up()

    def give_up(self) -> bool:
        """Let go of it; whether there was any."""
        with suppress(OSError):
            self._path.unlink()
            return True
        return False

    def _free(self) -> int:
        disk = os.statvfs(self._path.parent)
        return disk.f_bavail * disk.f_frsize
