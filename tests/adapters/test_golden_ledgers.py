"""Ledgers of every format are readable for ever: each is migrated whole, once, and never half."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from ordain.core.ledger import chain
from tests.golden.ledgers.make import folded
from tests.words import FORMAT, Append, AttemptStarted, Instant, Refused, SqliteLedger, StepId

GOLDEN = Path(__file__).parent.parent / "golden" / "ledgers"
VERSIONS = range(1, FORMAT + 1)
EARLIER = VERSIONS[:-1]
EVENT = AttemptStarted(step=StepId("a"), attempt=1, key="k")


def copied(version: int, folder: Path) -> Path:
    path = folder / "ledger.db"
    shutil.copyfile(GOLDEN / f"v{version}.db", path)
    path.chmod(0o600)
    return path


def expected(version: int) -> Any:
    return msgspec.json.decode((GOLDEN / f"v{version}.json").read_bytes())


@contextmanager
def opened(path: Path) -> Iterator[SqliteLedger]:
    ledger = SqliteLedger.open(path)
    yield ledger
    asyncio.run(ledger.close())


def code(call: Callable[[], object]) -> str:
    with pytest.raises(Refused) as refused:
        call()
    return refused.value.problems[0].code


def sql(path: Path, *statements: str) -> list[Any]:
    """What the last of these statements finds, asked behind the ledger's back."""
    with closing(apsw.Connection(str(path))) as connection:
        return [connection.execute(statement).fetchall() for statement in statements][-1]


def stored(path: Path) -> list[tuple[bytes, bytes]]:
    """The bytes that were hashed, and the heads, in no particular order."""
    return sorted(sql(path, "SELECT body, head FROM events"))


def test_there_is_a_golden_ledger_of_every_format() -> None:
    assert {path.name for path in GOLDEN.glob("v*")} == {f"v{n}.{end}" for n in VERSIONS for end in ("db", "json")}
    for version in VERSIONS:
        with closing(apsw.Connection(f"{(GOLDEN / f'v{version}.db').as_uri()}?immutable=1", flags=65)) as connection:
            assert connection.pragma("user_version") == version


@pytest.mark.parametrize("version", VERSIONS)
def test_a_ledger_of_every_format_says_what_it_always_said(version: int, tmp_path: Path) -> None:
    path = copied(version, tmp_path)
    before = stored(path)
    with opened(path) as ledger:
        assert folded(ledger) == expected(version)
        verified = chain.verify_everything(ledger.everything())
        assert verified.whole and verified.checkpoint == ledger.checkpoint()
        assert [plan.stream for plan in ledger.plans()] == list(ledger.streams("lineage/"))
        assert ledger.rebuild() == len(before)
        assert folded(ledger) == expected(version)
        (stream, *_) = ledger.streams("run/")
        asyncio.run(ledger.append(Instant(0), Append(stream=stream, expected=ledger.size(stream), events=(EVENT,))))
    assert sql(path, "PRAGMA user_version") == [(FORMAT,)]
    assert set(before) < set(stored(path))


@pytest.mark.parametrize("version", EARLIER)
def test_a_migrated_ledger_keeps_a_copy_of_what_it_was(version: int, tmp_path: Path) -> None:
    path = copied(version, tmp_path)
    before = stored(path)
    kept = path.with_name(f"ledger.db.v{version}")
    kept.write_text("of an attempt that was killed")
    with opened(path):
        pass
    assert sorted(file.name for file in tmp_path.iterdir()) == ["ledger.db", kept.name]
    assert kept.stat().st_mode & 0o777 == 0o600
    assert sql(kept, "PRAGMA user_version") == [(version,)]
    assert stored(kept) == before
    shutil.move(kept, path)
    with opened(path) as ledger:
        assert folded(ledger) == expected(version)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET body = CAST(replace(body, '\"at\":1', '\"at\":2') AS BLOB) WHERE seq = 9",
        "UPDATE events SET head = zeroblob(32) WHERE seq = 2",
        "DELETE FROM events WHERE seq = 3",
        "DELETE FROM events WHERE (stream, seq) IN (SELECT stream, size FROM streams WHERE opened = 3)",
        "UPDATE streams SET size = size - 1 WHERE opened = 2",
        "DELETE FROM streams WHERE opened = 2",
        "UPDATE events SET stream = 'x' || stream; UPDATE streams SET stream = 'x' || stream",
    ],
)
def test_a_broken_ledger_is_not_migrated_and_left_alone(statement: str, tmp_path: Path) -> None:
    path = copied(1, tmp_path)
    sql(path, statement)
    before = stored(path)
    assert code(lambda: SqliteLedger.open(path)) == "E_LEDGER_BROKEN"
    assert (sql(path, "PRAGMA user_version"), stored(path)) == ([(1,)], before)


# --- Several processes, and death --------------------------------------------------------------------------------

OPENING = """
import asyncio, os, signal, sys
from pathlib import Path
from ordain.adapters.ledger import reader as ledger_projection
from ordain.adapters.ledger.sqlite import SqliteLedger

if sys.argv[2] == "dies":
    written = ledger_projection.Projection.write

    def die(self, connection):
        written(self, connection)
        os.kill(os.getpid(), signal.SIGKILL)

    ledger_projection.Projection.write = die
sys.stdin.readline()
ledger = SqliteLedger.open(Path(sys.argv[1]))
print(ledger.checkpoint().head.hex(), ledger.seal(b"x"))
asyncio.run(ledger.close())
"""


def opening(path: Path, how: str = "lives") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", OPENING, str(path), how]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_of_processes_that_migrate_at_once_one_does_it(tmp_path: Path) -> None:
    path = copied(1, tmp_path)
    children = [opening(path) for _ in range(4)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    said = [child.communicate(timeout=60) for child in children]
    assert [(child.returncode, errors) for child, (_, errors) in zip(children, said, strict=True)] == [(0, "")] * 4
    assert len({words for words, _ in said}) == 1
    with opened(path) as ledger:
        assert folded(ledger) == expected(1)


def test_a_migration_that_is_killed_leaves_everything_as_it_was(tmp_path: Path) -> None:
    path = copied(1, tmp_path)
    before = stored(path)
    child = opening(path, "dies")
    child.communicate("go\n", timeout=60)
    assert child.returncode == -signal.SIGKILL
    assert (sql(path, "PRAGMA user_version"), stored(path)) == ([(1,)], before)
    with opened(path) as ledger:
        assert folded(ledger) == expected(1)


def test_a_writer_of_the_first_format_that_is_still_at_work_writes_nothing_more(tmp_path: Path) -> None:
    """These are its own statements, prepared before the file changed beneath it."""
    path = copied(1, tmp_path)
    insert = "INSERT INTO events (stream, seq, head, body) VALUES ('workspace', 3, zeroblob(32), zeroblob(9))"
    with closing(apsw.Connection(str(path))) as old:
        old.execute("BEGIN; " + insert + "; ROLLBACK")
        with opened(path) as ledger:
            before = ledger.checkpoint()
            with pytest.raises(apsw.Error):
                old.execute(insert)
            assert ledger.checkpoint() == before


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_an_earlier_format_can_be_looked_at_where_it_cannot_be_written(tmp_path: Path) -> None:
    path = copied(1, tmp_path)
    before = path.read_bytes()
    path.chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        with opened(path) as ledger:
            assert folded(ledger) == expected(1)
            assert code(
                lambda: asyncio.run(ledger.append(Instant(0), Append(stream="a", expected=0, events=(EVENT,))))
            ) == ("E_LEDGER_IO")
    finally:
        tmp_path.chmod(0o700)
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (before, [path])


def test_an_earlier_format_can_be_looked_at_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = copied(1, tmp_path)
    before = stored(path)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ordain.adapters.ledger.reader.copy_aside", full)
    with opened(path) as ledger:
        assert folded(ledger) == expected(1)
        with pytest.raises(Refused, match=r"E_LEDGER_IO.*No space left"):
            asyncio.run(ledger.append(Instant(0), Append(stream="a", expected=0, events=(EVENT,))))
        assert code(ledger.rebuild) == "E_LEDGER_IO"
    assert (sql(path, "PRAGMA user_version"), stored(path)) == ([(1,)], before)
