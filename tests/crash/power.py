"""A machine that loses power, simulated: what a disk may hold afterwards is made, and opened for real.

A life is lived through the real adapters, over SQLite's own file system layer with a recorder on top (an APSW VFS) and
with the few calls of `os` that the ledger makes by itself recorded too. The record says what was written, cut, named,
deleted and synced, in which order, and what was answered to whom. For any moment of it `Disk` knows what is safe and
what is only on its way; of the latter each piece may survive, be lost, be torn or be garbled, in any order. Such a
remainder is put on the real file system and opened by the real adapter.

The model, and what is outside of it, is told in docs/reliability.md. Also the script of the process that strace
watches, to compare the record with what the kernel saw.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import re
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import apsw

from ordain.adapters.ledger import database as ledger_file
from ordain.core.ledger import chain
from tests.crash.process import KIM
from tests.crash.site import whole
from tests.words import (
    App,
    Append,
    AttemptStarted,
    BashShell,
    Event,
    Instant,
    Recorded,
    Refused,
    SqliteLedger,
    Stage,
    StepId,
    open_at_terminal,
    shelf_path,
)

AT = Instant(1_700_000_000_000)
SECTOR = 512
LOG_PAGES_MAX = 6
"""After so many pages the write-ahead log is moved into the database; so few that it happens again and again."""
REMEMBER_EVERY = 16
SESSIONS = 3
STREAMS = ("run/RUN-1", "lineage/PLAN-1", "workspace")
STEPS = ("first", "second")
PLAN = b"# Twice\n\n" + b"".join(b"%d. `echo %s >> effects.log`\n" % (n, s.encode()) for n, s in enumerate(STEPS, 1))

_DIRSYNC = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_WAL
_DRAFT = re.compile(r"\.ledger\.db\.\w{8}")


# --- The record -------------------------------------------------------------------------------------------------------


class Wrote(NamedTuple):
    """Bytes of a file. Files and directories are numbered as they come to be, the root of all being 0."""

    node: int
    offset: int
    data: bytes


class Cut(NamedTuple):
    """A file got this size."""

    node: int
    size: int


class Named(NamedTuple):
    """Entries of one directory changed together: a name now means this file, or nothing."""

    node: int
    entries: tuple[tuple[str, int | None], ...]


class Synced(NamedTuple):
    """All that happened to a file or a directory before is on disk, or so it was said."""

    node: int


class Acknowledged(NamedTuple):
    """Somebody was told that these events, known by their heads, and these bytes are recorded."""

    heads: tuple[str, ...]
    kept: tuple[tuple[str, bytes], ...]


class World(NamedTuple):
    """What a step may have done outside by now, at least and at most. What is done there is done."""

    least: str
    most: str


Op = Wrote | Cut | Named | Synced | Acknowledged | World


class Recorder(apsw.VFS):
    """SQLite's default file system layer while it lives; passes everything on, and writes down what changes a disk."""

    def __init__(self, root: Path) -> None:
        self.ops: list[Op] = []
        self.labels: dict[int, str] = {0: "/"}
        """The first name of each file and, ending with a slash, of each directory, beneath the root."""
        self.lock = threading.RLock()
        """An operation and its record are one, or a write could be taken for synced that came too late."""
        self._root = str(root)
        self._nodes = {str(root): 0}
        self._descriptors: dict[int, int] = {}
        for path in sorted(root.rglob("*")):  # what was there before is on disk
            assert path.is_file() and path.parent == root, "not modelled"
            node = self.made(str(path))
            assert node is not None
            self.ops += [Wrote(node, 0, path.read_bytes()), Synced(node), Synced(0)]
        self.begin = len(self.ops)
        super().__init__("power", "unix", makedefault=True)

    # What SQLite asks for.

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is None:
            return apsw.VFSFile("unix", name, flags)
        with self.lock:
            # SQLite syncs the directory of a log or journal together with its first sync, by itself.
            directory = self.node(os.path.dirname(path)) if flags[0] & _DIRSYNC else None
            file = _File(self, name, flags, directory)
            file.node = self.made(path)
            return file

    def xDelete(self, path: str, sync: bool) -> None:  # noqa: N802
        with self.lock:
            super().xDelete(path, sync)
            self.gone(path)
            directory = self.node(os.path.dirname(path))
            if sync and directory is not None:
                self.ops.append(Synced(directory))

    # What names mean.

    def node(self, path: Any) -> int | None:
        return self._nodes.get(os.fspath(path))

    def made(self, path: str, node: int | None = None, end: str = "") -> int | None:
        """A name that was not there before, for a new file or for one that has another name."""
        directory = self.node(os.path.dirname(path))
        if directory is None:
            return None
        if path not in self._nodes:
            if node is None:
                node = len(self.labels)
                self.labels[node] = path.removeprefix(self._root) + end
            self._nodes[path] = node
            self.ops.append(Named(directory, ((os.path.basename(path), node),)))
        return self._nodes[path]

    def gone(self, path: str) -> None:
        if self._nodes.pop(path, None) is not None:
            directory = self._nodes[os.path.dirname(path)]
            self.ops.append(Named(directory, ((os.path.basename(path), None),)))

    # What the ledger asks the operating system for by itself.

    def os_calls(self) -> dict[str, Callable[..., Any]]:
        real = {name: getattr(os, name) for name in ("open", "close", "fsync", "mkdir", "link", "unlink", "rename")}

        def opened(path: Any, flags: int, *args: Any, **options: Any) -> int:
            descriptor: int = real["open"](path, flags, *args, **options)
            with self.lock:
                text = os.fspath(path)
                node = self.made(text) if flags & os.O_CREAT and isinstance(text, str) else self.node(text)
                self._descriptors.pop(descriptor, None)
                if node is not None:
                    self._descriptors[descriptor] = node
            return descriptor

        def closed(descriptor: int) -> None:
            self._descriptors.pop(descriptor, None)
            real["close"](descriptor)

        def fsynced(descriptor: int) -> None:
            with self.lock:
                real["fsync"](descriptor)
                if descriptor in self._descriptors:
                    self.ops.append(Synced(self._descriptors[descriptor]))

        def directory_made(path: Any, *args: Any, **options: Any) -> None:
            with self.lock:
                real["mkdir"](path, *args, **options)
                self.made(os.fspath(path), end="/")

        def linked(source: Any, target: Any, **options: Any) -> None:
            with self.lock:
                real["link"](source, target, **options)
                self.made(os.fspath(target), self.node(source))

        def unlinked(path: Any, **options: Any) -> None:
            with self.lock:
                real["unlink"](path, **options)
                self.gone(os.fspath(path))

        def renamed(source: Any, target: Any, **options: Any) -> None:
            with self.lock:
                real["rename"](source, target, **options)
                node = self._nodes.pop(os.fspath(source), None)
                if node is not None:
                    directory, name = os.path.split(os.fspath(target))
                    assert directory == os.path.dirname(source), "not modelled"
                    self._nodes[os.fspath(target)] = node
                    self.ops.append(Named(self._nodes[directory], ((os.path.basename(source), None), (name, node))))

        mine = (opened, closed, fsynced, directory_made, linked, unlinked, renamed)
        return dict(zip(real, mine, strict=True))


class _File(apsw.VFSFile):
    """A file of SQLite's that says what is done to it."""

    node: int | None

    def __init__(self, recorder: Recorder, name: Any, flags: list[int], directory: int | None) -> None:
        super().__init__("unix", name, flags)
        self._recorder = recorder
        self._directory = directory

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        with self._recorder.lock:
            super().xWrite(data, offset)
            if self.node is not None:
                self._recorder.ops.append(Wrote(self.node, offset, bytes(data)))

    def xTruncate(self, size: int) -> None:  # noqa: N802
        with self._recorder.lock:
            super().xTruncate(size)
            if self.node is not None:
                self._recorder.ops.append(Cut(self.node, size))

    def xSync(self, flags: int) -> None:  # noqa: N802
        with self._recorder.lock:
            super().xSync(flags)
            if self.node is not None:
                self._recorder.ops.append(Synced(self.node))
            if self._directory is not None:
                self._recorder.ops.append(Synced(self._directory))
                self._directory = None


@contextmanager
def recording(root: Path) -> Iterator[Recorder]:
    """Record all that happens to ledgers beneath `root`, and every append that is answered."""
    recorder = Recorder(root)
    append = SqliteLedger.append

    async def answered(ledger: SqliteLedger, at: Instant, *appends: Append) -> tuple[Recorded, ...]:
        recorded = await append(ledger, at, *appends)
        kept = tuple((ledger.seal(body), body) for one in appends for body in one.keeps)
        recorder.ops.append(Acknowledged(tuple(one.head for one in recorded), kept))
        return recorded

    def hook(connection: apsw.Connection) -> None:
        connection.wal_autocheckpoint(LOG_PAGES_MAX)

    apsw.connection_hooks.append(hook)
    try:
        with (
            mock.patch.multiple(os, **recorder.os_calls()),
            mock.patch.object(SqliteLedger, "append", answered),
            mock.patch.object(ledger_file, "CHECKPOINT_EVERY", REMEMBER_EVERY),
        ):
            yield recorder
    finally:
        apsw.connection_hooks.remove(hook)
        recorder.unregister()
        assert apsw.vfs_names()[0] == "unix"


# --- The disk ---------------------------------------------------------------------------------------------------------

Tree = dict[str, bytes | None]
"""What is there, by its path beneath the root; None for a directory."""


class Disk:
    """What is safe and what is on its way, as operations come in one after the other.

    `believed` says of which files and directories a sync can be believed, by their first name; a disk that lies is the
    control. `neighbours` lets garbled bytes spread to the whole sector, which SQLite takes no disk to do.
    """

    def __init__(self, labels: dict[int, str], believed: Callable[[str], bool], neighbours: bool = False) -> None:
        self._labels, self._believed, self._neighbours = labels, believed, neighbours
        self._content: dict[int, bytes] = {}
        self._entries: dict[int, dict[str, int]] = {0: {}}
        self._pending: dict[int, list[Wrote | Cut | Named]] = {}
        self.world = World("", "")
        self.due = 0
        """How many answers were given."""

    def take(self, op: Op) -> None:
        match op:
            case Wrote() | Cut() | Named():
                self._pending.setdefault(op.node, []).append(op)
            case Synced(node):
                if self._believed(self._labels[node]):
                    for pending in self._pending.pop(node, ()):
                        self._settle(pending)
            case Acknowledged():
                self.due += 1
            case World():
                self.world = op

    def _settle(self, op: Wrote | Cut | Named) -> None:
        if isinstance(op, Named):
            _rename(self._entries.setdefault(op.node, {}), op)
        else:
            self._content[op.node] = _changed(self._content.get(op.node, b""), op)

    def survivors(self, chance: random.Random) -> Tree:
        """One of the things that may be there when the power goes now."""
        overall = chance.choice((None, "lost", "there", "cut", "mixed"))
        left: dict[int, Any] = {**self._content, **{node: dict(names) for node, names in self._entries.items()}}
        for node, pending in self._pending.items():
            how = overall or chance.choice(("lost", "there", "cut", "mixed"))
            for op in self._fates(pending, how, chance):
                if isinstance(op, Named):
                    _rename(left.setdefault(node, {}), op)
                else:
                    left[node] = _changed(left.get(node, b""), op)
        return dict(self._walk(0, "", left))

    def _walk(self, node: int, path: str, left: dict[int, Any]) -> Iterator[tuple[str, bytes | None]]:
        for name, inside in left.get(node, {}).items():
            below = os.path.join(path, name)
            if self._labels[inside].endswith("/"):
                yield below, None
                yield from self._walk(inside, below, left)
            else:
                yield below, left.get(inside, b"")

    def _fates(
        self, pending: list[Wrote | Cut | Named], how: str, chance: random.Random
    ) -> Iterator[Wrote | Cut | Named]:
        """What reaches the disk of all that is on its way, in the order in which it does."""
        if how == "lost":
            return
        if how == "there":
            yield from pending
            return
        if how == "cut":
            end = chance.randrange(len(pending))
            yield from pending[:end]
            yield from self._spoilt(pending[end], chance)
            return
        likely = chance.choice((0.1, 0.5, 0.9))
        # Entries of a directory keep their order: file systems log them.
        if not isinstance(pending[0], Named) and chance.random() < 0.5:
            pending = chance.sample(pending, len(pending))
        for op in pending:
            if chance.random() < likely:
                yield op
            elif chance.random() < 0.5:
                yield from self._spoilt(op, chance)

    def _spoilt(self, op: Wrote | Cut | Named, chance: random.Random) -> Iterator[Wrote]:
        """Some sectors of a write: each there, missing, or holding zeros or anything. Nothing of what is no write."""
        if not isinstance(op, Wrote):
            return
        start, end = op.offset, op.offset + len(op.data)
        fates = chance.choice((("there", "missing"), ("there", "zeros"), ("there", "noise"), ("missing", "noise")))
        for sector in range(start - start % SECTOR, end, SECTOR):
            fate = chance.choice(fates)
            left, right = max(sector, start), min(sector + SECTOR, end)
            if self._neighbours and fate in ("zeros", "noise"):
                left, right = sector, sector + SECTOR
            match fate:
                case "there":
                    yield Wrote(op.node, left, op.data[left - start : right - start])
                case "zeros":
                    yield Wrote(op.node, left, bytes(right - left))
                case "noise":
                    yield Wrote(op.node, left, chance.randbytes(right - left))


def _changed(content: bytes, op: Wrote | Cut) -> bytes:
    if isinstance(op, Cut):
        return content[: op.size].ljust(op.size, b"\0")
    return content[: op.offset].ljust(op.offset, b"\0") + op.data + content[op.offset + len(op.data) :]


def _rename(entries: dict[str, int], op: Named) -> None:
    for name, node in op.entries:
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


# --- Lives ------------------------------------------------------------------------------------------------------------


class Life(NamedTuple):
    """All that happened, and how it ended."""

    root: Path
    ledger: Path
    workspace: Path | None
    ops: list[Op]
    labels: dict[int, str]
    begin: int
    """How many of these only say what was there before."""
    heads: list[str]
    """The heads of all events in order of arrival."""

    @property
    def answers(self) -> list[Acknowledged]:
        return [op for op in self.ops if isinstance(op, Acknowledged)]


def ledger_life(root: Path, seed: int) -> Life:
    """A ledger alone: made, written to in every way, checkpointed, closed and opened again, and used by two at once."""
    root.mkdir()
    root = root.resolve()
    path = root / "ledger.db"
    chance = random.Random(seed)
    sizes: Counter[str] = Counter()
    with recording(root) as recorder:
        for session in range(SESSIONS):
            # Written on the event loop, then by the ledger's own thread.
            quick_s = 0.0 if session == 1 else float("inf")
            asyncio.run(_session(path, chance, sizes, quick_s=quick_s))
    return _ended(root, path, None, recorder)


def later_life(root: Path, seed: int) -> Life:
    """A ledger that is there already, of whatever format and in whatever state the power left it: opened, used, closed.

    What it says when it is opened is told to somebody at once, so it must never be unsaid."""
    root = root.resolve()
    path = root / "ledger.db"
    aside = root.with_name(root.name + "-aside")
    shutil.copytree(root, aside)
    with _opened(aside / path.name) as ledger:
        before = tuple(entry.head.hex() for entry in ledger.everything())
        sizes = Counter({stream: ledger.size(stream) for stream in ledger.streams("")})
    shutil.rmtree(aside)
    with recording(root) as recorder:
        recorder.ops.insert(recorder.begin, Acknowledged(before, ()))
        recorder.begin += 1
        asyncio.run(_session(path, random.Random(seed), sizes))
    return _ended(root, path, None, recorder)


async def _session(path: Path, chance: random.Random, sizes: Counter[str], **how: Any) -> None:
    ledger, other = SqliteLedger.open(path, **how), SqliteLedger.open(path, **how)

    def to(stream: str, *, events: int = 1, bytes_each: int = 200, keeps: int = 0) -> Append:
        before, sizes[stream] = sizes[stream], sizes[stream] + events
        facts = tuple(_fact(before + number, bytes_each) for number in range(events))
        return Append(stream=stream, expected=before, events=facts, keeps=tuple(map(chance.randbytes, [900] * keeps)))

    async def one() -> None:
        await ledger.append(AT, to(chance.choice(STREAMS), events=chance.randint(1, 4)))

    async def several_streams() -> None:
        await ledger.append(AT, *(to(stream, events=chance.randint(1, 3), keeps=1) for stream in STREAMS))

    async def a_group() -> None:
        appends = [(to(stream), to(f"run/RUN-{chance.randrange(10**9)}")) for stream in STREAMS]
        await asyncio.gather(*(ledger.append(AT, *each) for each in appends))

    async def large() -> None:
        await ledger.append(AT, to(chance.choice(STREAMS), bytes_each=chance.randint(5_000, 15_000), keeps=2))

    async def by_another() -> None:
        await other.append(AT, to(chance.choice(STREAMS)))

    async def refused() -> None:
        with suppress(Refused):
            await ledger.append(AT, Append(stream=STREAMS[0], expected=10_000, events=(_fact(0, 10),)))

    async def while_somebody_reads() -> None:
        """The log can be moved into the database only up to where the reader is, and not be begun anew."""
        with closing(ledger_file.connect_to_look(path)) as reader:
            reader.execute("BEGIN")
            ledger_file.first(reader, "SELECT count(*) FROM events")
            for _ in range(3):
                await one()

    ways = [one, several_streams, a_group, large, by_another, refused, while_somebody_reads]
    for way in chance.sample(ways, len(ways)):
        await way()
    await other.close()
    await several_streams()
    await ledger.close()


def _fact(number: int, size: int) -> Event:
    return AttemptStarted(step=StepId("build"), attempt=number, key="k" * size)


def run_life(folder: Path) -> Life:
    """A plan prepared, approved and committed over a state directory that is not there yet."""
    folder = folder.resolve()
    root, workspace = folder / "disk", folder / "ws"
    root.mkdir()
    workspace.mkdir()
    effects = workspace / "effects.log"
    with recording(root) as recorder:
        run = BashShell.run

        async def watched(shell: BashShell, command: Any) -> Any:
            before = _text(effects)
            # It may do all that its text says at any moment from now on.
            recorder.ops.append(World(before, before + command.text.split()[1] + "\n"))
            finished = await run(shell, command)
            recorder.ops.append(World(_text(effects), _text(effects)))
            return finished

        with mock.patch.object(BashShell, "run", watched):
            asyncio.run(_go_on(root, workspace))
    assert sorted(_text(effects).split()) == sorted(STEPS)
    return _ended(root, shelf_path(_home(root), workspace) / "ledger.db", workspace, recorder)


def _home(root: Path) -> Path:
    return root / "home" / "state"


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _ended(root: Path, ledger: Path, workspace: Path | None, recorder: Recorder) -> Life:
    with _opened(ledger) as found:
        heads = [entry.head.hex() for entry in found.everything()]
    life = Life(root, ledger, workspace, recorder.ops, recorder.labels, recorder.begin, heads)
    assert sorted(heads) == sorted(head for answer in life.answers for head in answer.heads)
    return life


@contextmanager
def _opened(path: Path) -> Iterator[SqliteLedger]:
    ledger = SqliteLedger.open(path)
    try:
        yield ledger
    finally:
        asyncio.run(ledger.close())


async def _go_on(root: Path, workspace: Path) -> None:
    """Whatever is next for the plan, until its run has ended; doubts are answered from what really happened."""
    with mock.patch.dict(os.environ, ORDAIN_HOME=str(_home(root))):
        for _ in range(10):
            app = open_at_terminal(workspace, exact=True)
            try:
                if await _next(app, _text(workspace / "effects.log")):
                    return
            finally:
                await app.close()
    raise AssertionError("it does not end")


async def _next(app: App, effects: str) -> bool:
    """One verb; says whether there is none left."""
    plans = app.ports.ledger.open().plans()
    if not plans:
        await app.plans.prepare(PLAN, None, KIM)
        return False
    state = plans[0].state
    match state.stage:
        case Stage.PROPOSED:
            await app.approvals.approve(state.plan_id, KIM)
        case Stage.APPROVED:
            await app.runs.commit(state.plan_id, KIM)
        case Stage.EXECUTING:
            report = await app.runs.resume(state.open_run)
            for question in report.questions:
                happened = _word(question.step) in effects.split()
                await app.answers.answer(question.item, "happened" if happened else "did-not", KIM)
        case Stage.COMPLETED:
            return True
        case other:
            raise AssertionError(other)
    return False


def _word(step: str) -> str:
    """What a step writes."""
    (word,) = (word for word in STEPS if word in step)
    return word


# --- After the power came back ----------------------------------------------------------------------------------------


class Fault(AssertionError):
    """What a remainder lacks: `lost`, `half`, `strange`, `corrupt`, `unbidden` or `stuck`."""

    def __init__(self, kind: str, detail: object) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind


def put(root: Path, tree: Tree) -> None:
    """The remainder, on the real file system."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(0o700)
    for path, content in tree.items():
        place = root / path
        if content is None:
            place.mkdir(0o700)
        else:
            place.write_bytes(content)
            place.chmod(0o600)


def check(life: Life, tree: Tree, due: int) -> None:
    """Open what is left with the real adapter: all that was answered is there, nothing is half, and it goes on."""
    answers = life.answers
    put(life.root, tree)
    try:
        with _opened(life.ledger) as ledger:
            present = _compare(life, ledger, answers, due)
            more = [
                Append(stream=stream, expected=ledger.size(stream), events=(_fact(99, 10),))
                for stream in STREAMS
                if life.workspace is None
            ]
            asyncio.run(ledger.append(AT, *more))
        with _opened(life.ledger) as ledger:
            _demand("lost", ledger.checkpoint().size == present + len(more), "what was added afterwards")
    except (Refused, apsw.Error) as error:
        raise Fault("corrupt", error) from error


def _compare(life: Life, ledger: SqliteLedger, answers: list[Acknowledged], due: int) -> int:
    with closing(ledger_file.connect_to_look(life.ledger)) as connection:
        found = connection.pragma("integrity_check")
        _demand("corrupt", found == "ok", found)
    entries = list(ledger.everything())
    verified = chain.verify_everything(entries)
    _demand("corrupt", verified.whole, verified)
    _demand("corrupt", verified.checkpoint == ledger.checkpoint(), "the checkpoint is not that of the events")
    sizes = Counter(entry.stream for entry in entries)
    _demand("corrupt", set(ledger.streams("")) == set(sizes), "streams that are not those of the events")
    _demand("corrupt", all(ledger.size(name) == size for name, size in sizes.items()), "sizes")
    heads = [entry.head.hex() for entry in entries]
    _demand("strange", heads == life.heads[: len(heads)], "events that were never recorded, or in another order")
    here = set(heads)
    for number, answer in enumerate(answers):
        there = here.issuperset(answer.heads)
        _demand("lost", there or number >= due, f"answer {number} of {due}")
        _demand("half", there or here.isdisjoint(answer.heads), f"answer {number}")
        for seal, body in answer.kept:
            _demand("half", ledger.kept(seal) == (body if there else None), f"what answer {number} keeps")
    return len(heads)


def _demand(kind: str, holds: bool, detail: object) -> None:
    if not holds:
        raise Fault(kind, detail)


def check_run(life: Life, tree: Tree, due: int, effects: str) -> None:
    """Besides: nothing has happened that was not recorded as begun, and the run comes to its end, all of it once."""
    assert life.workspace is not None
    for inside in life.workspace.iterdir():
        shutil.rmtree(inside) if inside.is_dir() else inside.unlink()
    if effects:
        (life.workspace / "effects.log").write_text(effects)
    if life.ledger.parent.relative_to(life.root).as_posix() in tree:
        check(life, tree, due)
        with _opened(life.ledger) as ledger:
            begun = [_word(one.event.step) for one in whole(ledger).events if isinstance(one.event, AttemptStarted)]
        _demand("unbidden", set(effects.split()) <= set(begun), effects)
    else:
        _demand("lost", due == 0, "everything")
    put(life.root, tree)
    try:
        asyncio.run(_go_on(life.root, life.workspace))
    except Refused as refused:
        raise Fault("stuck", refused) from refused
    done = _text(life.workspace / "effects.log").split()
    _demand("unbidden", sorted(done) == sorted(STEPS), done)


class Found(NamedTuple):
    """How many remainders were opened, at how many moments, and what was wrong with some."""

    states: int
    moments: int
    faults: Counter[str]
    first: str


def _honest(label: str) -> bool:
    return True


def go_through(
    life: Life,
    seed: int,
    states: int,
    *,
    believed: Callable[[str], bool] = _honest,
    neighbours: bool = False,
    enough: int = 1,
) -> Found:
    """Lose power at moments all over this life, until so many different remainders were opened, or `enough` faults
    were found."""
    chance = random.Random(seed)
    seen: dict[bytes, int] = {}
    moments: set[int] = set()
    faults: Counter[str] = Counter()
    first = ""
    rounds = 0
    while len(seen) < states:
        rounds += 1
        assert rounds < 100, "there are not so many different ones"
        for moment, due, world, tree in _losses(life, chance, believed, neighbours, states - len(seen)):
            effects = chance.choice(world)
            identity = _identity(tree, effects)
            # The same one later counts once, and is looked at again where more has been promised.
            if seen.get(identity, -1) >= due:
                continue
            seen[identity] = due
            moments.add(moment)
            try:
                if life.workspace is None:
                    check(life, tree, due)
                else:
                    check_run(life, tree, due, effects)
            except Fault as fault:
                faults[fault.kind] += 1
                first = first or f"seed {seed}, after operation {moment}: {fault}"
                if faults.total() >= enough:
                    return Found(len(seen), len(moments), faults, first)
    return Found(len(seen), len(moments), faults, first)


def _losses(
    life: Life, chance: random.Random, believed: Callable[[str], bool], neighbours: bool, count: int
) -> Iterator[tuple[int, int, World, Tree]]:
    """At most `count` moments of the life, and what may be left at each."""
    moments = range(life.begin, len(life.ops) + 1)
    chosen = set(chance.sample(moments, min(count, len(moments))))
    disk = Disk(life.labels, believed, neighbours)
    for moment, op in enumerate((*life.ops, None)):
        # From here to the end, before each operation and after the last.
        if moment in chosen:
            yield moment, disk.due, disk.world, disk.survivors(chance)
        if op is not None:
            disk.take(op)


def one_loss(life: Life, seed: int) -> Tree:
    """What is left of a life at some moment."""
    ((_, _, _, tree),) = _losses(life, random.Random(seed), _honest, False, 1)
    return tree


def _identity(tree: Tree, effects: str) -> bytes:
    digest = hashlib.sha256(effects.encode())
    for path, content in sorted(tree.items()):
        digest.update(repr((path, None if content is None else hashlib.sha256(content).digest())).encode())
    return digest.digest()


# --- The record beside what the kernel saw ----------------------------------------------------------------------------


def told(life: Life) -> list[str]:
    """The record in the words of system calls, each file by its first name."""
    lines = []
    known: set[int | None] = {None}
    for op in life.ops:
        match op:
            case Wrote(node, offset, data):
                lines.append(f"write {life.labels[node]} {offset} {len(data)}")
            case Cut(node, size):
                lines.append(f"cut {life.labels[node]} {size}")
            case Synced(node):
                lines.append(f"sync {life.labels[node]}")
            case Named(node, entries):
                for name, inside in entries:
                    word = "gone" if inside is None else "linked" if inside in known else "named"
                    lines.append(f"{word} {life.labels[node]}{name}")
                    known.add(inside)
    return [_DRAFT.sub("ledger.db", line) for line in lines]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    print(json.dumps(told(ledger_life(folder / "disk", seed=1))))
