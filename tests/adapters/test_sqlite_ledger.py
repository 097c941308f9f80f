"""The SQLite ledger where it is more than a ledger: processes, disks, damage, and the shared fsync."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest

from ordain.adapters.sqlite_ledger import SqliteLedger
from ordain.core.approval import Channel, Principal
from ordain.core.event import AttemptStarted, ConfigTrusted, Event, Recorded
from ordain.core.problem import Refused
from ordain.core.value import Instant, StepId
from ordain.ports import Append

AT = Instant(1_700_000_000_000)


def fact(number: int) -> Event:
    return AttemptStarted(step=StepId("build"), attempt=number, key=f"step:{number}")


def to(stream: str, expected: int, *events: Event) -> Append:
    return Append(stream=stream, expected=expected, events=events)


def append(ledger: SqliteLedger, *appends: Append) -> tuple[Recorded, ...]:
    return asyncio.run(ledger.append(AT, *appends))


def code(call: Callable[[], object]) -> str:
    with pytest.raises(Refused) as refused:
        call()
    return refused.value.problems[0].code


@contextmanager
def opened(path: Path, busy_timeout_ms: int = 10_000) -> Iterator[SqliteLedger]:
    ledger = SqliteLedger.open(path, busy_timeout_ms=busy_timeout_ms)
    yield ledger
    asyncio.run(ledger.close())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def meddle(path: Path, *statements: str) -> None:
    """Change the file behind the ledger's back."""
    with closing(apsw.Connection(str(path))) as connection:
        for statement in statements:
            connection.execute(statement)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- The file ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o777])
def test_only_the_owner_can_read_the_files(path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        with opened(path) as ledger:
            append(ledger, to("a", 0, fact(1)))
            files = sorted(path.parent.iterdir())
            assert [file.name for file in files] == ["ledger.db", "ledger.db-shm", "ledger.db-wal"]
            assert [mode(file) for file in files] == [0o600] * 3
    finally:
        os.umask(before)


def test_closing_leaves_one_file_and_reopening_finds_everything(path: Path) -> None:
    with opened(path) as ledger:
        written = append(ledger, to("a", 0, fact(1), fact(2)), to("b", 0, fact(1)))
    assert list(path.parent.iterdir()) == [path]
    with opened(path) as ledger:
        assert tuple(ledger.read("a")) == written[:2]
        append(ledger, to("a", 2, fact(3)))
        assert len(ledger.read("a")) == 3


def test_what_was_appended_is_synced_with_every_commit(path: Path) -> None:
    with opened(path) as ledger:
        append(ledger, to("a", 0, fact(1)))
        for connection in (ledger._connection, ledger._writer._connection):
            assert connection is not None
            assert connection.pragma("synchronous") == 2
            assert connection.pragma("journal_mode") == "wal"


def test_a_newer_format_is_refused_and_left_alone(path: Path) -> None:
    with opened(path):
        pass
    meddle(path, "PRAGMA user_version = 2")
    before = path.read_bytes()
    assert code(lambda: SqliteLedger.open(path)) == "E_LEDGER_VERSION"
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"# My notes\n" * 500], ids=["empty", "notes"])
def test_a_file_that_is_not_ours_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert code(lambda: SqliteLedger.open(path)) == "E_LEDGER_FOREIGN"
    assert path.read_bytes() == content


def test_the_database_of_another_program_is_refused(path: Path) -> None:
    meddle(path, "CREATE TABLE events (stream, seq)")
    assert code(lambda: SqliteLedger.open(path)) == "E_LEDGER_FOREIGN"


def test_a_place_where_no_file_can_be_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"E_LEDGER_IO: .*missing/ledger\.db"):
        SqliteLedger.open(tmp_path / "missing" / "ledger.db")
    assert code(lambda: SqliteLedger.open(tmp_path)) == "E_LEDGER_IO"


def test_a_closed_ledger_takes_nothing(path: Path) -> None:
    with opened(path) as ledger:
        pass
    with pytest.raises(RuntimeError, match="closed"):
        append(ledger, to("a", 0, fact(1)))
    asyncio.run(ledger.close())


# --- Group commit ------------------------------------------------------------------------------------------------


def test_requests_that_wait_together_share_a_transaction(path: Path) -> None:
    async def everyone(ledger: SqliteLedger, release: Callable[[], None]) -> None:
        calls = (ledger.append(AT, to(f"run/{number}", 0, fact(1))) for number in range(200))
        tasks = [asyncio.create_task(call) for call in calls]
        await asyncio.sleep(0)
        release()
        await asyncio.gather(*tasks)

    with opened(path) as ledger:
        append(ledger, to("a", 0, fact(1)))
        assert ledger.commits == 1
        # The writer may stand at the lock with the first few; all that came since shares the next transaction.
        with held(path) as release:
            asyncio.run(everyone(ledger, release))
        assert ledger.commits in {2, 3}
        assert len(ledger.streams("run/")) == 200


def test_a_refused_request_does_not_hurt_its_neighbours(path: Path) -> None:
    async def three(ledger: SqliteLedger) -> list[tuple[Recorded, ...] | BaseException]:
        calls = (ledger.append(AT, to("b", 0, fact(1)), to("a", size, fact(2))) for size in (0, 1, 1))
        return await asyncio.gather(*calls, ledger.append(AT, to("c", 0, fact(3))), return_exceptions=True)

    with opened(path) as ledger:
        append(ledger, to("a", 0, fact(1)))
        answers = asyncio.run(three(ledger))
        assert [isinstance(answer, Refused) for answer in answers] == [True, False, True, False]
        assert [len(ledger.read(stream)) for stream in "abc"] == [2, 1, 1]


def test_a_cancelled_caller_does_not_keep_its_neighbours_waiting(path: Path) -> None:
    async def two(ledger: SqliteLedger, release: Callable[[], None]) -> tuple[Recorded, ...]:
        gone, stays = (asyncio.create_task(ledger.append(AT, to(stream, 0, fact(1)))) for stream in "ab")
        await asyncio.sleep(0)
        gone.cancel()
        release()
        return await asyncio.wait_for(stays, 30)

    with opened(path) as ledger, held(path) as release:
        # Brings the writer to the lock, so that the next two wait together.
        first = threading.Thread(target=append, args=(ledger, to("c", 0, fact(1))))
        first.start()
        assert asyncio.run(two(ledger, release)) == tuple(ledger.read("b"))
        first.join()
        assert [one.event for one in ledger.read("a")] == [fact(1)]


def test_a_loop_that_was_closed_disturbs_nobody(path: Path) -> None:
    async def impatient(ledger: SqliteLedger) -> None:
        task = asyncio.create_task(ledger.append(AT, to("a", 0, fact(1))))
        await asyncio.sleep(0)
        task.cancel()

    with opened(path) as ledger:
        with held(path) as release:
            asyncio.run(impatient(ledger))
            release()
        append(ledger, to("b", 0, fact(1)))
        assert [one.event for one in ledger.read("a")] == [fact(1)]


def test_closing_writes_what_still_waits(path: Path) -> None:
    async def hasty(ledger: SqliteLedger) -> None:
        tasks = [asyncio.create_task(ledger.append(AT, to(f"run/{number}", 0, fact(1)))) for number in range(50)]
        await asyncio.sleep(0)
        await ledger.close()
        await asyncio.gather(*tasks)

    asyncio.run(hasty(SqliteLedger.open(path)))
    with opened(path) as ledger:
        assert len(ledger.streams("run/")) == 50


# --- Several processes -------------------------------------------------------------------------------------------


@contextmanager
def held(path: Path) -> Iterator[Callable[[], None]]:
    """Another writer holds the file until it is released."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("BEGIN IMMEDIATE")

        def release() -> None:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

        try:
            yield release
        finally:
            release()


def test_a_file_locked_for_too_long_is_busy_and_can_be_used_afterwards(path: Path) -> None:
    with opened(path, busy_timeout_ms=1) as ledger:
        with held(path):
            assert code(lambda: append(ledger, to("a", 0, fact(1)))) == "E_LEDGER_BUSY"
            assert list(ledger.read("a")) == []
        append(ledger, to("a", 0, fact(1)))


APPENDER = """
import asyncio, sys
from pathlib import Path
from ordain.adapters.sqlite_ledger import SqliteLedger
from ordain.core.event import AttemptStarted
from ordain.core.problem import Refused
from ordain.ports import Append

async def main(path, who, times):
    sys.stdin.readline()
    ledger = SqliteLedger.open(Path(path))
    size = 0
    for number in range(int(times)):
        event = AttemptStarted(step=who, attempt=number, key="k")
        while True:
            size += len(ledger.read("shared", size))
            try:
                await ledger.append(0, Append(stream="shared", expected=size, events=(event,)))
                break
            except Refused as refused:
                assert refused.problems[0].code == "E_LEDGER_CONFLICT", refused
    await ledger.close()

asyncio.run(main(*sys.argv[1:]))
"""


def test_eight_processes_lose_nothing(path: Path) -> None:
    """They also race to make the file."""
    command = [sys.executable, "-c", APPENDER, str(path)]
    children = [
        subprocess.Popen([*command, str(who), "50"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for who in range(8)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    assert [(child.communicate()[1], child.returncode) for child in children] == [("", 0)] * 8
    with opened(path) as ledger:
        events = ledger.read("shared")
    assert [one.seq for one in events] == list(range(1, 401))
    seen = [(one.event.step, one.event.attempt) for one in events if isinstance(one.event, AttemptStarted)]
    for who in range(8):
        assert [attempt for step, attempt in seen if step == str(who)] == list(range(50))
    assert list(path.parent.iterdir()) == [path]


DYING = """
import asyncio, os, sys
from pathlib import Path
from ordain.adapters.sqlite_ledger import SqliteLedger
from ordain.core.event import AttemptStarted
from ordain.ports import Append

async def main(path, how):
    ledger = SqliteLedger.open(Path(path))
    for number in range(5):
        event = AttemptStarted(step="a", attempt=number, key="k")
        (recorded,) = await ledger.append(0, Append(stream="a", expected=number, events=(event,)))
    os.write(1, f"{recorded.seq} {recorded.head}\\n".encode())
    if how == "exit":
        os._exit(7)
    sys.stdin.read()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize(("how", "died"), [("exit", 7), ("kill", -signal.SIGKILL)])
def test_what_append_returned_survives_the_process(path: Path, how: str, died: int) -> None:
    command = [sys.executable, "-c", DYING, str(path), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        seq, head = child.stdout.readline().split()
        if how == "kill":
            child.kill()
        assert child.wait() == died
    with opened(path) as ledger:
        last = ledger.read("a")[-1]
        assert (last.seq, last.head) == (int(seq), head)
        append(ledger, to("a", last.seq, fact(1)))


# --- Damage ------------------------------------------------------------------------------------------------------

TEN = tuple(fact(number) for number in range(10))


@pytest.mark.parametrize(
    ("statement", "seq"),
    [
        ("UPDATE events SET body = CAST(replace(body, 'step:3', 'step:8') AS BLOB) WHERE seq = 4", 4),
        ("UPDATE events SET head = zeroblob(32) WHERE seq = 4", 4),
        ("DELETE FROM events WHERE seq = 4", 4),
        ("DELETE FROM events WHERE seq = 10", 10),
        ("UPDATE events SET seq = 11 WHERE seq = 10", 10),
        ("UPDATE streams SET size = 9 WHERE stream = 'a'", 10),
        ("UPDATE streams SET head = zeroblob(32) WHERE stream = 'a'", 10),
        ("DELETE FROM streams WHERE stream = 'a'", 1),
        ("UPDATE events SET stream = 'b'; UPDATE streams SET stream = 'b'", None),
    ],
)
def test_a_changed_history_is_found(path: Path, statement: str, seq: int | None) -> None:
    with opened(path) as ledger:
        append(ledger, to("a", 0, *TEN))
    meddle(path, statement)
    stream, found = ("a", f"event {seq}:") if seq else ("b", "event 1:")
    with opened(path) as ledger, pytest.raises(Refused, match=rf"E_LEDGER_BROKEN.*{found}"):
        ledger.read(stream)


def test_a_flipped_byte_in_the_file_is_found(path: Path) -> None:
    with opened(path) as ledger:
        append(ledger, to("a", 0, *TEN))
    content = bytearray(path.read_bytes())
    content[content.index(b"step:3")] ^= 1
    path.write_bytes(content)
    with opened(path) as ledger:
        assert code(lambda: ledger.read("a")) == "E_LEDGER_BROKEN"
        # What came after it still follows from the head before it.
        assert [one.event for one in ledger.read("a", 4)] == list(TEN[4:])


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM events WHERE seq = 10",
        "UPDATE streams SET size = 9 WHERE stream = 'a'",
        "UPDATE streams SET head = zeroblob(32) WHERE stream = 'a'",
        "DELETE FROM streams WHERE stream = 'a'",
    ],
)
def test_a_chain_that_is_visibly_broken_is_not_made_longer(path: Path, statement: str) -> None:
    with opened(path) as ledger:
        append(ledger, to("a", 0, *TEN))
    meddle(path, statement)
    with opened(path) as ledger:
        for size in (0, 9, 10):
            with pytest.raises(Refused, match="E_LEDGER_BROKEN"):
                append(ledger, to("a", size, fact(1)))
        append(ledger, to("other", 0, fact(1)))


def test_a_damaged_page_is_refused_as_broken(path: Path) -> None:
    with opened(path) as ledger:
        append(ledger, to("a", 0, *(fact(number) for number in range(500))))
    content = bytearray(path.read_bytes())
    content[2 * 4096 :] = bytes(len(content) - 2 * 4096)
    path.write_bytes(content)
    with opened(path) as ledger:
        assert code(lambda: ledger.read("a")) == "E_LEDGER_BROKEN"
        assert code(lambda: append(ledger, to("a", 500, fact(1)))) == "E_LEDGER_BROKEN"


# --- The disk says no --------------------------------------------------------------------------------------------


def test_a_full_disk_leaves_nothing_half_written_and_is_not_tried_again(path: Path) -> None:
    big = ConfigTrusted(digest="x", text="x" * 1_000_000, by=Principal(name="ana", channel=Channel.TERMINAL))
    with opened(path) as ledger:
        written = append(ledger, to("a", 0, *TEN))
        connection = ledger._writer._connection
        assert connection is not None
        connection.pragma("max_page_count", connection.pragma("page_count") + 10)

        async def neighbours() -> list[tuple[Recorded, ...] | BaseException]:
            calls = (ledger.append(AT, to(stream, size, fact(1), big)) for stream, size in (("b", 0), ("a", 10)))
            return await asyncio.gather(*calls, return_exceptions=True)

        for answer in asyncio.run(neighbours()):
            assert isinstance(answer, Refused)
            assert answer.problems[0].code == "E_LEDGER_IO"
            assert str(path) in answer.problems[0].detail
        assert tuple(ledger.read("a")) == written
        assert list(ledger.streams("")) == ["a"]
        assert code(lambda: append(ledger, to("a", 10, fact(1)))) == "E_LEDGER_IO"
    with opened(path) as ledger:
        assert tuple(ledger.read("a")) == written
        append(ledger, to("a", 10, fact(1)))


def test_a_failed_write_is_not_tried_again(path: Path) -> None:
    with opened(path) as ledger:
        written = append(ledger, to("a", 0, *TEN))
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.with_name("ledger.db-wal").stat().st_size, limits[1]))
        try:
            assert code(lambda: append(ledger, to("a", 10, fact(1)))) == "E_LEDGER_IO"
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert code(lambda: append(ledger, to("a", 10, fact(1)))) == "E_LEDGER_IO"
        assert tuple(ledger.read("a")) == written
    with opened(path) as ledger:
        append(ledger, to("a", 10, fact(1)))
        assert tuple(ledger.read("a"))[:10] == written


def test_a_file_that_was_deleted_or_replaced_takes_nothing_more(path: Path) -> None:
    with opened(path) as ledger:
        append(ledger, to("a", 0, fact(1)))
        path.rename(path.with_name("moved.db"))
        with opened(path):
            pass
        with pytest.raises(Refused, match=r"E_LEDGER_IO.*replaced"):
            append(ledger, to("a", 1, fact(2)))


def test_a_read_only_file_is_refused(path: Path) -> None:
    with opened(path) as ledger:
        append(ledger, to("a", 0, fact(1)))
        connection = ledger._writer._connection
        assert connection is not None
        # Stands in for a file system that was remounted, which needs root to provoke.
        connection.pragma("query_only", True)
        assert code(lambda: append(ledger, to("a", 1, fact(2)))) == "E_LEDGER_IO"
        assert len(ledger.read("a")) == 1
