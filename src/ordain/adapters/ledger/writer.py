"""Writing to a ledger file: all requests that wait at the same moment share one transaction and one fsync.

Requests gather for one turn of the event loop and are committed right there while the disk is quick: waking a thread
takes as long. As soon as it is slow, another process holds the file, or the thread is at work, they are left to a
thread.

Each request is all-or-nothing; an answer is given only after it is durable; a failed write is never tried again, for
after a failed fsync nobody knows what the disk has. Only one that found the disk full, and so was rolled back before
any fsync, is tried once more, where there was a reserve to give up.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import apsw
import msgspec

from ordain.adapters.ledger import database, reader
from ordain.core.ledger import chain
from ordain.core.ledger.summary import PlanSummary, summarise
from ordain.core.plan.value import Instant
from ordain.core.run.event import Recorded, ids_named
from ordain.core.text.problem import Refused
from ordain.ports.ledger import Append, Artifact

QUICK_S = 0.002
"""As long as commits take less than this on average, they are made on the event loop."""
REMEMBERED_STREAMS = 10_000

_STAND = """
SELECT opened, size, head, epoch, last, plans.body FROM streams LEFT JOIN plans USING (opened) WHERE stream = ?
"""
_LAST = "SELECT stream, seq, head FROM events WHERE position = ?"
_MOVE = "UPDATE streams SET size = ?, last = ?, head = ?, epoch = ? WHERE opened = ?"
_KEEP = "INSERT INTO kept (seal, body) VALUES (?, ?) ON CONFLICT DO NOTHING"
_DROP = "DELETE FROM kept WHERE seal = ?1 OR (seal >= ?1 || '/0' AND seal < ?1 || '/:')"
_BODIES = "SELECT body FROM events WHERE position > ?"
_HEADS = "SELECT head FROM events WHERE position > ? AND position <= ? ORDER BY position"
_END = "SELECT coalesce(max(position), 0) FROM events"

_Answer = tuple[Recorded, ...] | Refused


class Request:
    """One call of `append`, encoded in the caller's thread: its sequence numbers follow from the expected sizes."""

    __slots__ = ("appends", "artifacts", "at", "drops", "future", "kept", "loop", "size")

    def __init__(self, at: Instant, appends: tuple[Append, ...], seal: Callable[[bytes], str]) -> None:
        self.at = at
        self.appends: list[tuple[Append, list[bytes]]] = []
        self.kept: list[tuple[str, bytes]] = []
        for append in appends:
            numbered = enumerate(append.events, append.expected + 1)
            bodies = [chain.encode(append.stream, seq, at, event) for seq, event in numbered]
            self.appends.append((append, bodies))
            self.kept += [(seal(body), body) for body in append.keeps]
        self.artifacts = [artifact for append in appends for artifact in append.artifacts]
        self.drops = [(seal,) for append in appends for seal in append.drops]
        self.size = (
            sum(len(body) for _, bodies in self.appends for body in bodies)
            + sum(len(body) for _, body in self.kept)
            + sum(artifact.size for artifact in self.artifacts)
        )
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[tuple[Recorded, ...]] = self.loop.create_future()

    @property
    def is_large(self) -> bool:
        """Whether it may take so long that no loop should wait for it."""
        return bool(self.artifacts or self.drops)

    async def answered(self) -> tuple[Recorded, ...]:
        """Wait for the answer. Where the loop commits it comes in the next turn, and nobody has to be woken."""
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.future.cancel()  # also where it is answered already: nobody wants to hear of it any more
            raise
        return await self.future


class _Stream(msgspec.Struct, frozen=True):
    """Where a stream stands in the file, and what is kept about the plan it may be."""

    opened: int
    stand: chain.Stand
    last: int
    summary: PlanSummary | None


_UNOPENED = _Stream(0, chain.UNOPENED, 0, None)


class _Known(msgspec.Struct):
    """What we know of the file without reading: good as long as nobody else has written since (`version`)."""

    version: int
    position: int
    accounted: bool | None = None
    """Whether every event is counted in a stream; None before anybody asked."""
    streams: dict[str, _Stream] = {}


class Writer:
    """The one writer of this process for one file. It is closed with nothing left waiting."""

    def __init__(
        self, path: Path, busy_timeout_ms: int, reserve: database.Reserve | None = None, quick_s: float = QUICK_S
    ) -> None:
        self.commits = 0
        self._quick_s = quick_s
        self._path = path
        self._identity = database.identity(path)
        self._busy_timeout_ms = self._patience_ms = busy_timeout_ms
        self._reserve = reserve
        self._connection: apsw.Connection | None = None
        self._known: _Known | None = None
        self._fault: Exception | None = None
        self._usual_s = 0.0
        """How long a commit takes here, as a moving average."""
        self._turn = threading.Lock()
        """Held by whoever commits."""
        self._lock = threading.Lock()
        """Guards what follows."""
        self._changed = threading.Condition(self._lock)
        self._waiting: list[Request] = []
        self._gathering: asyncio.AbstractEventLoop | None = None
        """The loop that will look at what waits at its next turn."""
        self._left_to_thread = False
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, request: Request) -> None:
        """Take a request, to be committed with all that come in the same turn of its event loop."""
        with self._lock:
            if self._closed:
                raise RuntimeError("This ledger was closed.")
            self._waiting.append(request)
            # A loop that was closed before its next turn never looks; the next request then finds another loop.
            if self._gathering is request.loop:
                return
            self._gathering = request.loop
        request.loop.call_soon(self._gathered)

    async def close(self) -> None:
        """Write what still waits, then let go of the file."""
        with self._changed:
            self._closed = True
            if self._waiting:
                self._leave_to_thread()
            self._changed.notify()
        if self._thread is not None or self._connection is not None:
            await asyncio.to_thread(self._finish)

    def _finish(self) -> None:
        if self._thread is not None:
            self._thread.join()
        with self._turn:
            connection, self._connection = self._connection, None
        if connection is not None:
            # Housekeeping: what a checkpoint fails to move stays safe in the write-ahead log.
            with suppress(apsw.Error):
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            with suppress(apsw.Error):
                connection.close()

    def _gathered(self) -> None:
        """On the event loop, a turn after the first request: commit them all here, if that takes no time."""
        with self._changed:
            self._gathering = None
            if not self._waiting:
                return
            quick = self._usual_s < self._quick_s and not any(request.is_large for request in self._waiting)
            here = quick and self._turn.acquire(blocking=False)
            if not here:
                self._leave_to_thread()
                return
            group = self._take()
        try:
            answers = self._commit(group, busy_timeout_ms=0)
        except database.BUSY:
            with self._changed:
                self._waiting[:0] = group
                self._leave_to_thread()
            return
        finally:
            self._turn.release()
        _settle(zip(group, answers, strict=True), here=asyncio.get_running_loop())

    def _leave_to_thread(self) -> None:
        self._left_to_thread = True
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="ordain-ledger", daemon=True)
            self._thread.start()
        self._changed.notify()

    def _work(self) -> None:
        """The thread: whatever was left to it, until the end."""
        while True:
            with self._changed:
                while not self._left_to_thread and not self._closed:
                    self._changed.wait()
                if not self._left_to_thread:
                    return
            with self._turn:
                with self._changed:
                    group, self._left_to_thread = self._take(), False
                try:
                    answers = self._commit(group, self._busy_timeout_ms)
                except database.BUSY as error:
                    # Nothing was begun, and the next request may try.
                    answers = [database.refusal(self._path, error) for _ in group]
            _settle(zip(group, answers, strict=True))

    def _take(self) -> list[Request]:
        group, self._waiting = self._waiting, []
        return group

    def _commit(self, group: list[Request], busy_timeout_ms: int) -> list[_Answer]:
        """Write a group in one transaction. Raises one of `BUSY` when another process holds the file."""
        if self._fault is not None:
            return [database.refusal(self._path, self._fault) for _ in group]
        known, self._known = self._known, None
        try:
            connection = self._connect()
            if self._patience_ms != busy_timeout_ms:
                connection.set_busy_timeout(busy_timeout_ms)
                self._patience_ms = busy_timeout_ms
            if self._reserve is not None:
                self._reserve.give_up_if_low(sum(request.size for request in group))
            began = time.perf_counter()
            try:
                answers, known = _write(connection, group, known)
            except apsw.FullError:
                if self._reserve is None or connection.in_transaction or not self._reserve.give_up():
                    raise
                answers, known = _write(connection, group, None)
        except database.BUSY:
            raise
        except Exception as error:
            self._fault = error
            return [database.refusal(self._path, error) for _ in group]
        self._known = known
        if not any(request.is_large for request in group):  # those say nothing about the others
            self._usual_s += (time.perf_counter() - began - self._usual_s) / 8
        self.commits += 1
        return answers

    def _connect(self) -> apsw.Connection:
        if self._connection is None:
            self._connection = database.connect(self._path, self._busy_timeout_ms)
            self._patience_ms = self._busy_timeout_ms
            if self._reserve is not None:
                self._reserve.set_aside()
        # SQLite goes on writing to a file that was deleted or replaced; those events would be gone with it.
        if database.identity(self._path) != self._identity:
            raise OSError("the file was replaced while it was in use")
        return self._connection


def _write(connection: apsw.Connection, group: list[Request], known: _Known | None) -> tuple[list[_Answer], _Known]:
    with database.transaction(connection):
        if known is None or known.version != connection.data_version():
            known = _Known(version=0, position=database.first(connection, _END)[0])
        batch = _Batch(connection, known)
        answers = [batch.answer(request) for request in group]
        batch.write()
    known.version = connection.data_version()
    return answers, known


class _Batch:
    """What one transaction adds. Requests are answered one after the other, and only what was admitted is written."""

    def __init__(self, connection: apsw.Connection, known: _Known) -> None:
        self._connection = connection
        self._known = known
        self._began_at = known.position
        self._moved: set[str] = set()
        self._rows: list[tuple[int, int, int, int, bytes, bytes]] = []
        self._names: list[tuple[str, str]] = []
        self._kept: list[tuple[str, bytes]] = []
        self._artifacts: list[Artifact] = []
        self._drops: list[tuple[str]] = []

    def answer(self, request: Request) -> _Answer:
        """One request, all or nothing: a refusal is its answer and leaves the others alone."""
        streams, stored, names = self._known.streams, self._rows, self._names
        position, rows_before, names_before = self._known.position, len(stored), len(names)
        before: list[tuple[str, _Stream]] = []
        written: list[Recorded] = []
        try:
            for append, bodies in request.appends:
                name = append.stream
                if append.drops:
                    since = self._connection.execute(_BODIES, (append.seen,))
                    chain.refuse_named(append.drops, (body for (*_, body) in (*since, *stored[:rows_before])))
                stream = streams.get(name) or self._stream(name)
                stand, heads = chain.add(
                    name, stream.stand, bodies, expected=append.expected, epoch=append.epoch, new_epoch=append.new_epoch
                )
                seq, opened, last, summary = append.expected, stream.opened, stream.last, stream.summary
                for event, body, head in zip(append.events, bodies, heads, strict=True):
                    seq += 1
                    position += 1
                    opened = opened or position
                    stored.append((position, opened, seq, last, head, body))
                    last = position
                    recorded = Recorded(stream=name, seq=seq, at=request.at, event=event, head=head.hex())
                    summary = summarise(summary, recorded)
                    names += [(identifier, name) for identifier in ids_named(event)]
                    written.append(recorded)
                if opened:
                    before.append((name, stream))
                    streams[name] = _Stream(opened, stand, last, summary)
        except Refused as refused:
            del stored[rows_before:], names[names_before:]
            for name, stream in reversed(before):
                streams[name] = stream
            return refused
        self._known.position = position
        self._moved.update(name for name, _ in before)
        self._kept += request.kept
        self._artifacts += request.artifacts
        self._drops += request.drops
        return tuple(written)

    def write(self) -> None:
        """Put everything into its tables."""
        known = self._known
        new, moved, plans = [], [], []
        for name in self._moved:
            stream = known.streams[name]
            opened, stand = stream.opened, stream.stand
            if opened > self._began_at:
                new.append((opened, name, stand.size, stream.last, stand.head, stand.epoch))
            else:
                moved.append((stand.size, stream.last, stand.head, stand.epoch, opened))
            if stream.summary is not None:
                plans.append(reader.plan_row(opened, stream.summary))
        if self._drops:
            self._connection.execute("PRAGMA secure_delete = ON")  # what was removed must not stand in free pages
        for statement, listed in (
            (_DROP, self._drops),  # first: what is kept again by another request of the group stays
            (reader.RECORD, self._rows),
            (reader.OPEN, new),
            (_MOVE, moved),
            (reader.SUMMARISE, plans),
            (reader.NAME, self._names),
            (_KEEP, self._kept),
        ):
            if listed:
                self._connection.executemany(statement, listed)
        for artifact in self._artifacts:
            parts = ((reader.part_name(artifact.seal, number), part) for number, part in enumerate(artifact.parts()))
            self._connection.executemany(_KEEP, parts)
        if known.position // database.CHECKPOINT_EVERY > self._began_at // database.CHECKPOINT_EVERY:
            self._remember_checkpoints()
        if len(known.streams) > REMEMBERED_STREAMS:
            known.streams.clear()

    def _stream(self, name: str) -> _Stream:
        """Where a stream stands that we know nothing of yet. A chain that is visibly broken is not made longer."""
        if (row := database.first(self._connection, _STAND, (name,))) is None:
            if self._known.accounted is None:
                self._known.accounted = reader.accounted(self._connection)
            if not self._known.accounted and reader.lost(self._connection, name):
                raise chain.broken(name, 1)
            return _UNOPENED
        opened, size, head, epoch, last, summary = row
        if database.first(self._connection, _LAST, (last,)) != (opened, size, head):
            raise chain.broken(name, max(size, 1))
        kept = reader.summary_of(self._connection, opened, summary) if summary is not None else None
        return _Stream(opened, chain.Stand(size, head, epoch), last, kept)

    def _remember_checkpoints(self) -> None:
        """One for every so many events that have come to be since the last one that is remembered."""
        tip = reader.last_checkpoint(self._connection)
        while (end := tip.size + database.CHECKPOINT_EVERY) <= self._known.position:
            heads = self._connection.execute(_HEADS, (tip.size, end))
            tip = chain.checkpoint((head for (head,) in heads), tip)
            self._connection.execute(reader.REMEMBER, tip)


def _settle(answered: Iterable[tuple[Request, _Answer]], here: asyncio.AbstractEventLoop | None = None) -> None:
    """Hand the answers over, waking each other loop once. A loop that is closed has nobody waiting any more."""
    elsewhere: dict[asyncio.AbstractEventLoop, list[tuple[Request, _Answer]]] = {}
    for request, answer in answered:
        if request.loop is here:
            _deliver([(request, answer)])
        else:
            elsewhere.setdefault(request.loop, []).append((request, answer))
    for loop, answers in elsewhere.items():
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_deliver, answers)


def _deliver(answers: list[tuple[Request, _Answer]]) -> None:
    for request, answer in answers:
        if request.future.done():
            continue
        if isinstance(answer, Refused):
            request.future.set_exception(answer)
        else:
            request.future.set_result(answer)
