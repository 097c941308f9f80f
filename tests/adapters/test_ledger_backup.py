"""Backup, export and restore: what comes back is what was there, or nothing does."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordain.core.ledger import chain
from tests.twins.ledger import MemoryLedger
from tests.words import (
    EXPORT_FORMAT,
    Append,
    Artifact,
    AttemptStarted,
    Event,
    Instant,
    Ledger,
    Refused,
    SqliteLedger,
    StepId,
    backup,
    export,
    restore,
    whole_seal,
)

AT = Instant(1_700_000_000_000)
GOLDEN = Path(__file__).parent.parent / "golden" / "ledgers"


def fact(number: int, word: str = "ü\u2028\U0001f600") -> Event:
    return AttemptStarted(step=StepId("build"), attempt=number, key=word)


def append(ledger: Ledger, *appends: Append) -> None:
    asyncio.run(ledger.append(AT, *appends))


def fill(ledger: Ledger) -> None:
    for size in range(5):
        for stream in ("run/A", "lineage/B"):
            append(ledger, Append(stream=stream, expected=size, events=(fact(size),), keeps=(b"secret %d" % size,)))


def code(call: Callable[[], object]) -> str:
    with pytest.raises(Refused) as refused:
        call()
    return refused.value.problems[0].code


@contextmanager
def opened(path: Path) -> Iterator[SqliteLedger]:
    ledger = SqliteLedger.open(path)
    yield ledger
    asyncio.run(ledger.close())


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqliteLedger]:
    (tmp_path / "state").mkdir()
    with opened(tmp_path / "state" / "ledger.db") as ledger:
        fill(ledger)
        yield ledger


def meddle(path: Path, statement: str) -> None:
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(statement)


def told(ledger: Ledger) -> object:
    events = {stream: tuple(ledger.read(stream)) for stream in ledger.streams("")}
    return events, tuple(ledger.everything()), ledger.checkpoint(), ledger.lookup(""), tuple(ledger.plans())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- Backup ------------------------------------------------------------------------------------------------------


def test_a_backup_is_one_private_file_with_everything(ledger: SqliteLedger, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        tip = backup(ledger.path, tmp_path / "copy.db")
    finally:
        os.umask(before)
    assert tip == ledger.checkpoint()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["copy.db", "state"]
    assert mode(tmp_path / "copy.db") == 0o600
    with opened(tmp_path / "copy.db") as copied:
        assert told(copied) == told(ledger)
        assert copied.seal(b"x") == ledger.seal(b"x")
        assert copied.kept(ledger.seal(b"secret 3")) == b"secret 3"


def test_a_backup_made_while_others_write_is_of_one_moment(ledger: SqliteLedger, tmp_path: Path) -> None:
    stop = threading.Event()

    def write() -> None:
        async def work() -> None:
            size = 5
            while not stop.is_set():
                both = (Append(stream=stream, expected=size, events=(fact(size),)) for stream in ("run/A", "lineage/B"))
                await ledger.append(AT, *both)
                size += 1

        asyncio.run(work())

    writer = threading.Thread(target=write)
    writer.start()
    try:
        tips = [backup(ledger.path, tmp_path / f"{number}.db") for number in range(10)]
    finally:
        stop.set()
        writer.join()
    everything = list(ledger.everything())
    for number, tip in enumerate(tips):
        assert tip == chain.checkpoint(entry.head for entry in everything[: tip.size])
        with opened(tmp_path / f"{number}.db") as copied:
            assert list(copied.everything()) == everything[: tip.size]
            assert copied.size("run/A") == copied.size("lineage/B")
    assert len({tip.size for tip in tips}) > 1


def test_nothing_is_written_over(ledger: SqliteLedger, tmp_path: Path) -> None:
    target = tmp_path / "there"
    for make in (lambda: target.write_text("mine"), lambda: target.symlink_to("nowhere"), target.mkdir):
        make()
        assert code(lambda: backup(ledger.path, target)) == "E_LEDGER_EXISTS"
        assert code(lambda: restore(ledger.path, target)) == "E_LEDGER_EXISTS"
        target.rmdir() if target.is_dir() else target.unlink()
    assert code(lambda: restore(ledger.path, ledger.path)) == "E_LEDGER_EXISTS"
    assert [file.name for file in tmp_path.iterdir()] == ["state"]


def test_who_comes_first_keeps_the_name(ledger: SqliteLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, link = tmp_path / "copy.db", Path.hardlink_to

    def late(path: Path, draft: Path) -> None:
        path.write_text("first")
        link(path, draft)

    monkeypatch.setattr(Path, "hardlink_to", late)
    assert code(lambda: backup(ledger.path, target)) == "E_LEDGER_EXISTS"
    assert target.read_text() == "first"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["copy.db", "state"]


DAMAGE = [
    "UPDATE events SET head = zeroblob(32) WHERE position = 4",
    "UPDATE events SET body = CAST(replace(body, 'build', 'boil') AS BLOB) WHERE position = 4",
    "UPDATE events SET body = x'7b' WHERE position = 4",
    "DELETE FROM events WHERE position = 4",
    "DELETE FROM events WHERE position = 10",
    "UPDATE events SET position = 99 WHERE position = 10",
    "UPDATE streams SET size = 4 WHERE stream = 'run/A'",
]


@pytest.mark.parametrize("statement", DAMAGE)
def test_a_broken_ledger_is_neither_backed_up_nor_restored(
    ledger: SqliteLedger, tmp_path: Path, statement: str
) -> None:
    backup(ledger.path, tmp_path / "good.db")
    for path in (ledger.path, tmp_path / "good.db"):
        meddle(path, statement)
    assert code(lambda: backup(ledger.path, tmp_path / "copy.db")) == "E_LEDGER_BROKEN"
    assert code(lambda: restore(tmp_path / "good.db", tmp_path / "copy.db")) == "E_LEDGER_BROKEN"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["good.db", "state"]


def test_what_is_not_a_ledger_is_not_backed_up(tmp_path: Path) -> None:
    assert code(lambda: backup(tmp_path / "missing.db", tmp_path / "copy.db")) == "E_LEDGER_IO"
    (tmp_path / "notes").write_text("# Notes\n" * 100)
    (tmp_path / "notes").chmod(0o600)
    assert code(lambda: backup(tmp_path / "notes", tmp_path / "copy.db")) == "E_LEDGER_FOREIGN"
    assert code(lambda: restore(tmp_path / "notes", tmp_path / "copy.db")) == "E_LEDGER_FOREIGN"
    meddle(tmp_path / "other.db", "CREATE TABLE events (a)")
    assert code(lambda: restore(tmp_path / "other.db", tmp_path / "copy.db")) == "E_LEDGER_FOREIGN"
    assert code(lambda: restore(tmp_path / "missing.db", tmp_path / "copy.db")) == "E_LEDGER_IO"
    assert not (tmp_path / "copy.db").exists()


# --- Restore -----------------------------------------------------------------------------------------------------


def test_a_restored_backup_goes_on_where_it_was(ledger: SqliteLedger, tmp_path: Path) -> None:
    seal = whole_seal(ledger.seal, hashlib.sha256(b"secret 4").digest(), 8)
    long = Artifact(seal=seal, size=8, parts=lambda: iter([b"secret ", b"4"]))
    append(ledger, Append(stream="run/L", expected=0, events=(fact(1),), artifacts=(long,)))
    backup(ledger.path, tmp_path / "copy.db")
    assert restore(tmp_path / "copy.db", tmp_path / "new.db") == ledger.checkpoint()
    assert mode(tmp_path / "new.db") == 0o600
    with opened(tmp_path / "new.db") as again:
        assert told(again) == told(ledger)
        assert again.kept(ledger.seal(b"secret 3")) == b"secret 3"
        assert list(again.artifact(long.seal) or ()) == [b"secret ", b"4"]
        append(again, Append(stream="run/A", expected=5, events=(fact(5),)))


def test_a_backup_of_an_earlier_format_is_restored_in_the_present_one(tmp_path: Path) -> None:
    shutil.copyfile(GOLDEN / "v1.db", tmp_path / "old.db")
    tip = restore(tmp_path / "old.db", tmp_path / "new.db")
    with opened(tmp_path / "new.db") as ledger:
        assert ledger.checkpoint() == tip
        assert ledger.size("workspace") == 2


def test_what_else_is_in_a_backup_does_not_come_along(ledger: SqliteLedger, tmp_path: Path) -> None:
    backup(ledger.path, tmp_path / "copy.db")
    trap = "CREATE TRIGGER trap AFTER INSERT ON events BEGIN DELETE FROM streams; END"
    meddle(
        tmp_path / "copy.db", f"{trap}; UPDATE plans SET open = 1; UPDATE names SET stream = 'x'; CREATE TABLE more (a)"
    )
    restore(tmp_path / "copy.db", tmp_path / "new.db")
    with opened(tmp_path / "new.db") as again:
        append(again, Append(stream="run/A", expected=5, events=(fact(5),)))
        assert again.streams("") == ("run/A", "lineage/B")
    with closing(apsw.Connection(str(tmp_path / "new.db"))) as connection:
        found = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
        assert not {"trap", "more"} & found


# --- Export ------------------------------------------------------------------------------------------------------


def exported(ledger: Ledger, path: Path) -> Path:
    path.write_bytes(b"".join(export(ledger)))
    return path


def test_an_export_is_lines_of_json_without_a_secret(ledger: SqliteLedger, tmp_path: Path) -> None:
    text = exported(ledger, tmp_path / "ledger.jsonl").read_text()
    header, *lines = [json.loads(line) for line in text.split("\n")[:-1]]
    size, head = ledger.checkpoint()
    assert header == {"format": EXPORT_FORMAT, "size": size, "head": head.hex()}
    assert [
        chain.Entry(**line | {"head": bytes.fromhex(line["head"]), "body": line["body"].encode()}) for line in lines
    ] == list(ledger.everything())
    assert list(lines[0]) == ["position", "stream", "seq", "head", "body"]
    assert "secret" not in text and ledger._key.hex() not in text


def test_an_export_restores_to_the_same_checkpoint(ledger: SqliteLedger, tmp_path: Path) -> None:
    assert restore(exported(ledger, tmp_path / "ledger.jsonl"), tmp_path / "new.db") == ledger.checkpoint()
    with opened(tmp_path / "new.db") as again:
        assert told(again) == told(ledger)
        assert again.kept(ledger.seal(b"secret 3")) is None
        assert again.seal(b"x") != ledger.seal(b"x")


def test_an_empty_ledger_can_be_exported_and_restored(tmp_path: Path) -> None:
    assert restore(exported(MemoryLedger(), tmp_path / "ledger.jsonl"), tmp_path / "new.db") == chain.ORIGIN


def test_what_arrives_during_an_export_is_not_in_it(tmp_path: Path) -> None:
    ledger = MemoryLedger()
    fill(ledger)
    tip, lines = ledger.checkpoint(), export(ledger)
    content = next(lines)
    append(ledger, Append(stream="run/A", expected=5, events=(fact(5),)))
    (tmp_path / "ledger.jsonl").write_bytes(content + b"".join(lines))
    assert restore(tmp_path / "ledger.jsonl", tmp_path / "new.db") == tip


@settings(max_examples=20)
@given(st.data())
def test_no_change_to_an_export_goes_unnoticed(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("export")
    ledger = MemoryLedger()
    fill(ledger)
    content = bytearray(b"".join(export(ledger)))
    place = data.draw(st.integers(0, len(content) - 1))
    kind = data.draw(st.sampled_from(["flip", "cut", "drop a line", "swap lines"]))
    lines = bytes(content).splitlines(keepends=True)
    line = data.draw(st.integers(1, len(lines) - 2))
    if kind == "flip":
        content[place] ^= 1 << data.draw(st.integers(0, 6))
    elif kind == "cut":
        del content[place:]
    elif kind == "drop a line":
        content = bytearray(b"".join(lines[:line] + lines[line + 1 :]))
    else:
        content = bytearray(b"".join([*lines[:line], lines[line + 1], lines[line], *lines[line + 2 :]]))
    (folder / "ledger.jsonl").write_bytes(content)
    try:
        tip = restore(folder / "ledger.jsonl", folder / "new.db")
    except Refused as refused:
        assert refused.problems[0].code in {"E_LEDGER_BROKEN", "E_LEDGER_FOREIGN", "E_LEDGER_VERSION"}
        assert not (folder / "new.db").exists()
    else:
        # Only what says nothing may differ: a space, a digit of hex in capitals, a place that the order tells too.
        assert tip == ledger.checkpoint()


@pytest.mark.parametrize("plan", ["x", '{"format": "ordain-ledger-export/9", "size": 0, "head": ""}'])
def test_another_kind_of_text_is_not_restored(tmp_path: Path, plan: str) -> None:
    (tmp_path / "x.jsonl").write_text(plan + "\n")
    wanted = "E_LEDGER_FOREIGN" if plan == "x" else "E_LEDGER_VERSION"
    assert code(lambda: restore(tmp_path / "x.jsonl", tmp_path / "new.db")) == wanted
