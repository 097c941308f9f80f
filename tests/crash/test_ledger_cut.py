"""Cut the ledger's files anywhere, as a crash of the machine may: what is left is a whole beginning, and goes on."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ordain.core.ledger import chain
from tests.words import Append, AttemptStarted, Event, Instant, Recorded, Refused, SqliteLedger, StepId, backup, restore

AT = Instant(1_700_000_000_000)
STREAMS = ("run/RUN-1", "lineage/PLAN-1")
ROUNDS = 12


def fact(number: int) -> Event:
    return AttemptStarted(step=StepId("build"), attempt=number, key="k" * 300)


async def fill(ledger: SqliteLedger) -> None:
    """Each round is one append to both streams, so a cut may never part them."""
    for size in range(ROUNDS):
        await ledger.append(AT, *(Append(stream=stream, expected=size, events=(fact(size),)) for stream in STREAMS))


class Original:
    """A ledger as it was at a moment of full life: not closed, so most of it is in the write-ahead log."""

    def __init__(self, folder: Path) -> None:
        ledger = SqliteLedger.open(folder / "ledger.db")
        asyncio.run(fill(ledger))
        self.events = {stream: tuple(ledger.read(stream)) for stream in STREAMS}
        # Copied by another process: to open and close the file in this one would drop SQLite's locks on it.
        self.folder = folder / "copy"
        self.folder.mkdir()
        subprocess.run(["cp", folder / "ledger.db", folder / "ledger.db-wal", self.folder], check=True)
        asyncio.run(ledger.close())
        self.database = (self.folder / "ledger.db").read_bytes()
        self.log = (self.folder / "ledger.db-wal").read_bytes()

    def write(self, folder: Path, database: bytes, log: bytes) -> Path:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "ledger.db-wal").write_bytes(log)
        (folder / "ledger.db").write_bytes(database)
        (folder / "ledger.db").chmod(0o600)
        return folder / "ledger.db"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    return Original(tmp_path_factory.mktemp("original"))


def check(path: Path, original: Original) -> int:
    """The events are a beginning of the original ones, equally long in both streams, and a further append works."""
    ledger = SqliteLedger.open(path)
    try:
        read: dict[str, tuple[Recorded, ...]] = {stream: tuple(ledger.read(stream)) for stream in STREAMS}
        (size,) = {len(events) for events in read.values()}
        assert read == {stream: events[:size] for stream, events in original.events.items()}
        verified = chain.verify_everything(ledger.everything())
        assert verified.whole and verified.checkpoint == ledger.checkpoint()
        assert verified.checkpoint.size == len(STREAMS) * size
        more = tuple(Append(stream=stream, expected=size, events=(fact(99),)) for stream in STREAMS)
        asyncio.run(ledger.append(AT, *more))
        assert [len(ledger.read(stream)) for stream in STREAMS] == [size + 1] * 2
    finally:
        asyncio.run(ledger.close())
    again = SqliteLedger.open(path)
    assert [len(again.read(stream)) for stream in STREAMS] == [size + 1] * 2
    asyncio.run(again.close())
    return size


def cuts(log: bytes, count: int) -> Iterator[int]:
    """Sizes from nothing to all, in steps that do not keep to page boundaries, and some right at the edges."""
    step = max(512, len(log) // count)
    yield from range(0, len(log), step)
    yield from (1, 31, 32, 33, len(log) - 1, len(log))


@pytest.mark.slow
def test_a_log_cut_anywhere_leaves_a_whole_beginning(original: Original, tmp_path: Path) -> None:
    sizes = {
        cut: check(original.write(tmp_path / "cut", original.database, original.log[:cut]), original)
        for cut in sorted(set(cuts(original.log, 200)))
    }
    assert list(sizes.values()) == sorted(sizes.values())
    assert set(sizes.values()) == set(range(ROUNDS + 1))


@pytest.mark.slow
def test_a_log_with_a_torn_sector_leaves_a_whole_beginning(original: Original, tmp_path: Path) -> None:
    torn = 0
    for start in range(0, len(original.log), max(512, len(original.log) // 60)):
        log = original.log[:start] + bytes(512) + original.log[start + 512 :]
        torn += check(original.write(tmp_path / "torn", original.database, log), original) < ROUNDS
    assert torn


def test_a_cut_database_is_refused_or_read_as_a_beginning(original: Original, tmp_path: Path) -> None:
    """Not what a crash does, but what a bad copy does: no cut may pass for a history that was never written."""
    path = original.write(tmp_path / "whole", original.database, original.log)
    asyncio.run(SqliteLedger.open(path).close())
    database = path.read_bytes()
    for cut in range(0, len(database), 512):
        path = original.write(tmp_path / "cut", database[:cut], b"")
        try:
            ledger = SqliteLedger.open(path)
        except Refused as refused:
            assert refused.problems[0].code in {"E_LEDGER_FOREIGN", "E_LEDGER_BROKEN", "E_LEDGER_IO"}
            continue
        for stream, events in original.events.items():
            try:
                assert tuple(ledger.read(stream)) == events
            except Refused as refused:
                assert refused.problems[0].code in {"E_LEDGER_BROKEN", "E_LEDGER_IO"}
        asyncio.run(ledger.close())


def test_a_cut_backup_is_restored_whole_or_not_at_all(original: Original, tmp_path: Path) -> None:
    path = original.write(tmp_path / "whole", original.database, original.log)
    whole = backup(path, tmp_path / "backup.db")
    content = (tmp_path / "backup.db").read_bytes()
    restored = 0
    for cut in (*range(0, len(content), 512), len(content)):
        (tmp_path / "cut.db").write_bytes(content[:cut])
        target = tmp_path / f"{cut}.db"
        try:
            assert restore(tmp_path / "cut.db", target) == whole
            restored += 1
        except Refused as refused:
            assert refused.problems[0].code in {"E_LEDGER_FOREIGN", "E_LEDGER_BROKEN", "E_LEDGER_IO"}
            assert not target.exists()
    assert restored
