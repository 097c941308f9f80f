"""Copies of a ledger: a backup (the same file), an export (its events as lines of JSON), and the way back from both.

A copy gets its name only once every chain in it was verified and all of it is on disk; nothing that exists is written
over; a restored ledger is made of the verified events alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import msgspec

from ordain.adapters.ledger import database, reader
from ordain.adapters.workspace.openat import sync
from ordain.core.ledger import chain
from ordain.core.ledger.link import Tip
from ordain.core.text.problem import Refused, refuse
from ordain.ports.ledger import Ledger

EXPORT_FORMAT = "ordain-ledger-export/1"
_SQLITE_MAGIC = b"SQLite format 3\0"


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of an export: what the rest must add up to."""

    format: str
    size: int
    head: str


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    """One event of an export; `body` is the text whose bytes were hashed."""

    position: int
    stream: str
    seq: int
    head: str
    body: str


_encoder = msgspec.json.Encoder()
_header_decoder = msgspec.json.Decoder(_Header, strict=True)
_line_decoder = msgspec.json.Decoder(_Line, strict=True)

_KEY = "SELECT value FROM secret WHERE name = 'seal'"
_IN_ORDER = f"{reader.EVENTS} ORDER BY position"


def backup(path: Path, target: Path, *, outputs: bool = True) -> chain.Tip:
    """Copy the ledger in `path` as it is at one moment; returns the copy's checkpoint. Without `outputs` it has the
    events alone and a key of its own. Raises Refused with E_LEDGER_BROKEN or E_LEDGER_EXISTS."""
    path, target = database.real_place(path), database.real_place(target)
    with database.errors(path):
        database.inspect(path)
    with _new(target) as draft, closing(database.connect(draft)) as made:
        with database.errors(path), closing(reader.open_to_look(path)) as source:
            database.copy(source, made)
        if not outputs:
            made.execute("DELETE FROM kept")
            made.execute("UPDATE secret SET value = randomblob(32) WHERE name = 'seal'")
            made.execute("VACUUM")  # what was deleted must not stand in free pages
        made.pragma("journal_mode", "delete")
        return _verified(made)


def export(ledger: Ledger) -> Iterator[bytes]:
    """The events as lines of JSON in order, after a header that says what they add up to; they can be shown to
    others."""
    size, head = ledger.checkpoint()
    yield _encoder.encode(_Header(format=EXPORT_FORMAT, size=size, head=head.hex())) + b"\n"
    for position, stream, seq, body, after in ledger.everything():
        if position > size:
            return
        line = _Line(position=position, stream=stream, seq=seq, head=after.hex(), body=body.decode())
        yield _encoder.encode(line) + b"\n"


def restore(source: Path, target: Path) -> chain.Tip:
    """Make a ledger where none is, from a backup or an export; returns its checkpoint. Raises Refused with
    E_LEDGER_EXISTS, with E_LEDGER_BROKEN when the source is not whole, E_LEDGER_FOREIGN when it is neither."""
    source, target = database.real_place(source), database.real_place(target)
    with database.errors(source), source.open("rb") as opened:
        is_backup = opened.read(len(_SQLITE_MAGIC)) == _SQLITE_MAGIC
    with _new(target) as draft, closing(database.connect(draft)) as made:
        with database.errors(source), database.transaction(made):
            database.furnish(made)
            projection = reader.Projection()
            if is_backup:
                with closing(reader.open_to_look(source)) as connection:
                    _take_backup(connection, made, projection)
            else:
                _take_export(source, made, projection)
            projection.write(made)
        made.pragma("journal_mode", "wal")
        return _verified(made)


def _take_backup(source: apsw.Connection, made: apsw.Connection, projection: reader.Projection) -> None:
    _verified(source)
    events = reader.entries(source.execute(_IN_ORDER))
    reader.record(made, projection, ((stream, chain.Row(seq, body, head)) for _, stream, seq, body, head in events))
    made.execute("UPDATE secret SET value = ? WHERE name = 'seal'", database.first(source, _KEY))
    kept = source.execute("SELECT seal, body FROM kept")
    made.executemany("INSERT INTO kept (seal, body) VALUES (?, ?)", kept)


def _take_export(source: Path, made: apsw.Connection, projection: reader.Projection) -> None:
    with source.open("rb") as lines:
        try:
            header = _header_decoder.decode(lines.readline())
        except msgspec.DecodeError as error:
            raise database.foreign(source) from error
        if header.format != EXPORT_FORMAT:
            raise refuse("E_LEDGER_VERSION", f"{source} is an export of the format `{header.format}`.")
        try:
            reader.record(made, projection, map(_row, lines))
        except (msgspec.DecodeError, ValueError) as error:
            raise _damaged(source, f"event {projection.checkpoint.size + 1} cannot be read: {error}") from error
    if (projection.checkpoint.size, projection.checkpoint.head.hex()) != (header.size, header.head):
        raise _damaged(source, f"it has {projection.checkpoint.size} of {header.size} events, or others than it says")


def _row(line: bytes) -> tuple[str, chain.Row]:
    read = _line_decoder.decode(line)
    return read.stream, chain.Row(read.seq, read.body.encode(), bytes.fromhex(read.head))


def _verified(connection: apsw.Connection) -> chain.Tip:
    """The checkpoint of a ledger, once every chain has proved whole and as long as it was recorded to be."""
    verified = chain.verify_everything(reader.entries(connection.execute(_IN_ORDER)))
    for stream, seq in verified.broken.items():
        raise chain.broken(stream, seq)
    if verified.missing is not None:
        raise reader.gone(verified.missing)
    for stream, size, head in connection.execute("SELECT stream, size, head FROM streams"):
        if verified.tips.get(stream) != (size, head):
            raise chain.broken(stream, verified.tips.get(stream, chain.ORIGIN).size + 1)
    return verified.checkpoint


@contextmanager
def _new(target: Path) -> Iterator[Path]:
    """A file that becomes `target` when the block has ended well; refuses where something is already."""
    taken = refuse("E_LEDGER_EXISTS", f"Something is at {target} already.", "Name another place, or move it away.")
    if os.path.lexists(target):
        raise taken
    try:
        with database.errors(target), database.place_new(target) as draft:
            yield draft
    except Refused as refused:
        if isinstance(refused.__cause__, FileExistsError):
            raise taken from refused
        raise


def _damaged(source: Path, what: str) -> Refused:
    return refuse("E_LEDGER_BROKEN", f"{source} cannot be restored: {what}.", "Restore from another copy.")


class FileArchive:
    """ports.Archive over the ledger's file, whose place is asked for only when it is needed."""

    def __init__(self, path: Callable[[], Path], open_ledger: Callable[[Path], Ledger]) -> None:
        self._path, self._open = path, open_ledger

    export = staticmethod(export)

    def backup(self, target: Path, *, outputs: bool = True) -> Tip:
        return backup(self._path(), target, outputs=outputs)

    def draft(self, source: Path) -> tuple[Tip, Ledger]:
        if self._path().exists():
            raise self._taken()
        # What a restore that was killed left behind was never anybody's ledger.
        for left in (self._draft, *(self._draft.with_name(self._draft.name + end) for end in ("-wal", "-shm"))):
            left.unlink(missing_ok=True)
        tip = restore(source, self._draft)
        return tip, self._open(self._draft)

    def place(self) -> None:
        try:
            self._path().hardlink_to(self._draft)
        except FileExistsError as error:
            raise self._taken() from error
        self._draft.unlink()
        sync(self._path().parent)

    @property
    def _draft(self) -> Path:
        return self._path().with_name("restoring.db")

    def _taken(self) -> Refused:
        return refuse("E_LEDGER_EXISTS", f"There is a ledger at {self._path()} already.", "It was left as it is.")
