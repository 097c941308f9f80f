"""The SQLite ledger where it is more than a ledger: processes, disks, damage, and the shared fsync."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordain.adapters.ledger import writer as ledger_writer
from ordain.core.ledger import chain
from tests.twins.ledger import MemoryLedger
from tests.words import (
    RESERVE_BYTES,
    Abort,
    Append,
    Artifact,
    AttemptStarted,
    Channel,
    ConfigTrusted,
    Event,
    ExecutorStarted,
    Instant,
    Ledger,
    LedgerAccess,
    Limits,
    PlanId,
    PlanPrepared,
    Principal,
    Recorded,
    Refused,
    Reserve,
    RunId,
    RunOpened,
    RunStarted,
    SqliteLedger,
    StepId,
    WorkspaceIdentity,
    whole_seal,
)

AT = Instant(1_700_000_000_000)
ANA = Principal(name="ana", channel=Channel.TERMINAL)


def fact(number: int) -> Event:
    return AttemptStarted(step=StepId("build"), attempt=number, key=f"step:{number}")


def to(stream: str, expected: int, *events: Event) -> Append:
    return Append(stream=stream, expected=expected, events=events)


def append(ledger: Ledger, *appends: Append) -> tuple[Recorded, ...]:
    return asyncio.run(ledger.append(AT, *appends))


def code(call: Callable[[], object]) -> str:
    with pytest.raises(Refused) as refused:
        call()
    return refused.value.problems[0].code


@contextmanager
def opened(path: Path, busy_timeout_ms: int = 10_000, **how: Any) -> Iterator[SqliteLedger]:
    ledger = SqliteLedger.open(path, busy_timeout_ms=busy_timeout_ms, **how)
    yield ledger
    asyncio.run(ledger.close())


@pytest.fixture
def connections() -> Iterator[list[apsw.Connection]]:
    """Every connection to a database that is made; the last one after an append is the one that writes."""
    made: list[apsw.Connection] = []

    def note(connection: apsw.Connection) -> None:
        made.append(connection)

    apsw.connection_hooks.append(note)
    yield made
    apsw.connection_hooks.remove(note)


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


def test_what_was_appended_is_synced_with_every_commit(path: Path, connections: list[apsw.Connection]) -> None:
    with opened(path) as ledger:
        append(ledger, to("a", 0, fact(1)))
        for connection in connections[-2:]:  # what reads, what writes
            assert connection.pragma("synchronous") == 2
            assert connection.pragma("journal_mode") == "wal"


def test_a_newer_format_is_refused_and_left_alone(path: Path) -> None:
    with opened(path):
        pass
    meddle(path, "PRAGMA user_version = 3")
    before = path.read_bytes()
    assert code(lambda: SqliteLedger.open(path)) == "E_LEDGER_VERSION"
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"# My notes\n" * 500], ids=["empty", "notes"])
def test_a_file_that_is_not_ours_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)
    assert code(lambda: SqliteLedger.open(path)) == "E_LEDGER_FOREIGN"
    assert path.read_bytes() == content


def test_the_database_of_another_program_is_refused(path: Path) -> None:
    meddle(path, "CREATE TABLE events (stream, seq)")
    path.chmod(0o600)
    assert code(lambda: SqliteLedger.open(path)) == "E_LEDGER_FOREIGN"


def test_a_place_where_no_file_can_be_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"E_LEDGER_IO: .*missing/ledger\.db"):
        SqliteLedger.open(tmp_path / "missing" / "ledger.db")
    assert code(lambda: SqliteLedger.open(tmp_path)) == "E_LEDGER_IO"


def test_a_file_that_others_can_read_is_refused_and_left_alone(path: Path) -> None:
    with opened(path):
        pass
    for others in (0o640, 0o604, 0o620, 0o602):
        path.chmod(others)
        with pytest.raises(Refused, match=r"E_STATE_DIR: .*can be read or written by others") as refused:
            SqliteLedger.open(path)
        assert refused.value.problems[0].command == f"chmod 600 {path}"
        assert mode(path) == others


@pytest.mark.parametrize("there", [True, False], ids=["to a ledger", "to nothing"])
def test_a_link_is_refused_and_not_followed(tmp_path: Path, there: bool) -> None:
    real = tmp_path / "elsewhere.db"
    if there:
        with opened(real):
            pass
    link = tmp_path / "ledger.db"
    link.symlink_to(real)
    with pytest.raises(Refused, match=r"E_STATE_DIR: .*is a link"):
        SqliteLedger.open(link)
    assert real.exists() == there


def test_a_link_above_the_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with opened(tmp_path / "link" / "ledger.db") as ledger:
        append(ledger, to("a", 0, fact(1)))
        assert ledger.path == tmp_path / "real" / "ledger.db"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_the_file_of_another_user_is_refused(path: Path) -> None:
    with opened(path):
        pass
    os.chown(path, 65534, 65534)
    with pytest.raises(Refused, match=r"E_STATE_DIR: .*belongs to another user"):
        SqliteLedger.open(path)


def test_a_log_left_by_a_ledger_that_is_gone_is_not_taken_for_a_new_ones(path: Path) -> None:
    path.with_name("ledger.db-wal").write_bytes(b"frames of another ledger")
    with pytest.raises(Refused, match=r"E_LEDGER_IO: .*ledger\.db-wal is left of another ledger"):
        SqliteLedger.open(path)
    assert [file.name for file in path.parent.iterdir()] == ["ledger.db-wal"]


def test_a_closed_ledger_takes_nothing(path: Path) -> None:
    with opened(path) as ledger:
        pass
    with pytest.raises(RuntimeError, match="closed"):
        append(ledger, to("a", 0, fact(1)))
    asyncio.run(ledger.close())


# --- Group commit ------------------------------------------------------------------------------------------------


@pytest.fixture(params=["quick", "slow"])
def disk(request: pytest.FixtureRequest) -> float:
    """On a quick disk commits are made on the event loop, on a slow one by a thread; what counts as quick here."""
    return 10.0 if request.param == "quick" else 0.0


def test_a_quick_disk_needs_no_thread_and_a_slow_one_does_not_hold_up_the_loop(path: Path, disk: float) -> None:
    async def ticking(ledger: SqliteLedger) -> int:
        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticks = 0
        ticker = asyncio.create_task(tick())
        await ledger.append(AT, to("a", 0, fact(1)))
        ticker.cancel()
        return ticks

    with opened(path, quick_s=disk) as ledger:
        ticks = asyncio.run(ticking(ledger))
        threads = [thread.name for thread in threading.enumerate()]
        assert (ticks < 5, "ordain-ledger" in threads) == ((True, False) if disk > 0 else (False, True))


def test_how_long_commits_take_decides_who_makes_them(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, took = 0.0, 0.0001

    def clock() -> float:
        nonlocal now
        now += took
        return now

    monkeypatch.setattr(ledger_writer.time, "perf_counter", clock)
    with opened(path) as ledger:
        writer = ledger._writer
        assert isinstance(writer, ledger_writer.Writer)
        for number in range(60):
            took = 0.5 if number == 10 else 0.0001
            append(ledger, to("a", number, fact(1)))
            threads = [thread.name for thread in threading.enumerate()]
            assert ("ordain-ledger" in threads) == (number > 10)
        assert writer._usual_s < ledger_writer.QUICK_S


def test_requests_that_wait_together_share_a_transaction(path: Path, disk: float) -> None:
    async def everyone(ledger: SqliteLedger, release: Callable[[], None]) -> None:
        calls = (ledger.append(AT, to(f"run/{number}", 0, fact(1))) for number in range(200))
        tasks = [asyncio.create_task(call) for call in calls]
        await asyncio.sleep(0)
        release()
        await asyncio.gather(*tasks)

    with opened(path, quick_s=disk) as ledger:
        append(ledger, to("a", 0, fact(1)))
        assert ledger.commits == 1
        # The thread may stand at the lock with the first few; all that came since shares the next transaction.
        with held(path) as release:
            asyncio.run(everyone(ledger, release))
        assert ledger.commits in {2, 3}
        assert len(ledger.streams("run/")) == 200


def test_a_refused_request_does_not_hurt_its_neighbours(path: Path, disk: float) -> None:
    async def three(ledger: SqliteLedger) -> list[tuple[Recorded, ...] | BaseException]:
        calls = (ledger.append(AT, to("b", 0, fact(1)), to("a", size, fact(2))) for size in (0, 1, 1))
        return await asyncio.gather(*calls, ledger.append(AT, to("c", 0, fact(3))), return_exceptions=True)

    with opened(path, quick_s=disk) as ledger:
        append(ledger, to("a", 0, fact(1)))
        answers = asyncio.run(three(ledger))
        assert [isinstance(answer, Refused) for answer in answers] == [True, False, True, False]
        assert [len(ledger.read(stream)) for stream in "abc"] == [2, 1, 1]


def test_a_cancelled_caller_does_not_keep_its_neighbours_waiting(path: Path, disk: float) -> None:
    async def two(ledger: SqliteLedger, release: Callable[[], None]) -> tuple[Recorded, ...]:
        gone, stays = (asyncio.create_task(ledger.append(AT, to(stream, 0, fact(1)))) for stream in "ab")
        await asyncio.sleep(0)
        gone.cancel()
        release()
        return await asyncio.wait_for(stays, 30)

    with opened(path, quick_s=disk) as ledger, held(path) as release:
        # Brings the writer to the lock, so that the next two wait together.
        first = threading.Thread(target=append, args=(ledger, to("c", 0, fact(1))))
        first.start()
        assert asyncio.run(two(ledger, release)) == tuple(ledger.read("b"))
        first.join()
        assert [one.event for one in ledger.read("a")] == [fact(1)]


def test_a_refusal_that_nobody_waits_for_any_more_is_no_complaint(path: Path) -> None:
    complaints: list[dict[str, Any]] = []

    async def impatient(ledger: SqliteLedger) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, complaint: complaints.append(complaint))
        task = asyncio.create_task(ledger.append(AT, to("a", 7, fact(1))))
        await asyncio.sleep(0)
        task.cancel()
        (gone,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(gone, asyncio.CancelledError)
        del task, gone
        await asyncio.sleep(0)  # the loop itself lets go of it
        gc.collect()

    with opened(path) as ledger:
        asyncio.run(impatient(ledger))
    assert complaints == []


def test_a_loop_that_was_closed_disturbs_nobody(path: Path, disk: float) -> None:
    async def impatient(ledger: SqliteLedger) -> None:
        task = asyncio.create_task(ledger.append(AT, to("a", 0, fact(1))))
        await asyncio.sleep(0)
        task.cancel()

    with opened(path, quick_s=disk) as ledger:
        with held(path) as release:
            asyncio.run(impatient(ledger))
            release()
        append(ledger, to("b", 0, fact(1)))
        assert [one.event for one in ledger.read("a")] == [fact(1)]


def test_closing_writes_what_still_waits(path: Path, disk: float) -> None:
    async def hasty(ledger: SqliteLedger) -> None:
        tasks = [asyncio.create_task(ledger.append(AT, to(f"run/{number}", 0, fact(1)))) for number in range(50)]
        await asyncio.sleep(0)
        await ledger.close()
        await asyncio.gather(*tasks)

    asyncio.run(hasty(SqliteLedger.open(path, quick_s=disk)))
    with opened(path, quick_s=disk) as ledger:
        assert len(ledger.streams("run/")) == 50


def test_a_loop_that_ended_before_its_turn_disturbs_nobody(path: Path, disk: float) -> None:
    with opened(path, quick_s=disk) as ledger:
        loop = asyncio.new_event_loop()
        task = loop.create_task(ledger.append(AT, to("a", 0, fact(1))))
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.close()
        assert list(ledger.read("a")) == []
        append(ledger, to("b", 0, fact(1)))
        append(ledger, to("b", 1, fact(2)))
        assert [one.event for one in ledger.read("b")] == [fact(1), fact(2)]


def test_loops_of_several_threads_share_the_writer(path: Path, disk: float) -> None:
    async def work(ledger: SqliteLedger, who: int) -> None:
        for size in range(20):
            await ledger.append(AT, to(f"run/{who}", size, fact(size)))

    with opened(path, quick_s=disk) as ledger:
        threads = [threading.Thread(target=lambda who=who: asyncio.run(work(ledger, who))) for who in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert [ledger.size(f"run/{who}") for who in range(8)] == [20] * 8
        assert ledger.commits <= 160
        assert chain.verify_everything(ledger.everything()).whole


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
from ordain.adapters.ledger.sqlite import SqliteLedger
from ordain.core.run.step_event import AttemptStarted
from ordain.core.text.problem import Refused
from ordain.ports.ledger import Append

async def main(path, who, times):
    sys.stdin.readline()
    ledger = SqliteLedger.open(Path(path))
    for number in range(int(times)):
        event = AttemptStarted(step=who, attempt=number, key="k" * number)
        own = Append(stream="run/" + who, expected=number, events=(event,))
        while True:
            shared = Append(stream="shared", expected=ledger.size("shared"), events=(event,))
            try:
                await ledger.append(0, own, shared)
                break
            except Refused as refused:
                assert refused.problems[0].code == "E_LEDGER_CONFLICT", refused
    await ledger.close()

asyncio.run(main(*sys.argv[1:]))
"""

READER = """
import sys
from pathlib import Path
from ordain.adapters.ledger.sqlite import SqliteLedger
from ordain.core.ledger import chain

path, own, times = sys.argv[1:]
sys.stdin.readline()
ledger = SqliteLedger.open(Path(path))
seen, checkpoints = 0, {}
while seen < int(times):
    before = len(ledger.read(own))  # reading verifies the chain
    assert before >= seen and ledger.size(own) >= before, "history went backwards"
    seen = before
    shared = ledger.size("shared")
    assert len(ledger.read("shared", max(shared - 10, 0))) >= min(shared, 10)
    size, head = ledger.checkpoint()
    checkpoints[size] = head
assert chain.verify_everything(ledger.everything()).whole
tip = chain.ORIGIN
for entry in ledger.everything():
    tip = chain.checkpoint([entry.head], tip)
    assert checkpoints.get(tip.size, tip.head) == tip.head, "history was changed"
"""


def crowd(path: Path, writers: int, times: int, readers: int) -> None:
    """They also race to make the file."""
    wanted = [(APPENDER, str(who), times) for who in range(writers)]
    wanted += [(READER, f"run/{who % writers}", times) for who in range(readers)]
    children = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(path), who, str(count)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for program, who, count in wanted
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    assert [(child.communicate()[1], child.returncode) for child in children] == [("", 0)] * len(children)
    with opened(path) as ledger:
        events = ledger.read("shared")
        assert [one.seq for one in events] == list(range(1, writers * times + 1))
        for who in range(writers):
            own = [one.event for one in ledger.read(f"run/{who}")]
            assert [event.attempt for event in own if isinstance(event, AttemptStarted)] == list(range(times))
            assert [one.event for one in events if one.event in own] == own
        verified = chain.verify_everything(ledger.everything())
        assert verified.whole and verified.checkpoint == ledger.checkpoint()
        assert verified.checkpoint.size == 2 * writers * times
    written = tables(path, *PROJECTIONS, "events")
    with opened(path) as ledger:
        ledger.rebuild()
    assert tables(path, *PROJECTIONS, "events") == written
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.slow
def test_processes_that_write_and_read_at_once_lose_nothing(path: Path) -> None:
    crowd(path, writers=8, times=25, readers=3)


@pytest.mark.sweep
@pytest.mark.timeout(900)
def test_many_processes_that_write_and_read_at_once_lose_nothing(path: Path) -> None:
    crowd(path, writers=8, times=500, readers=32)


DYING = """
import asyncio, os, sys
from pathlib import Path
from ordain.adapters.ledger.sqlite import SqliteLedger
from ordain.core.run.step_event import AttemptStarted
from ordain.ports.ledger import Append

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
        ("UPDATE streams SET stream = 'b'", None),
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
        "UPDATE events SET previous = 1 WHERE seq = 7",
        "UPDATE events SET previous = 9 WHERE seq = 4",
        "UPDATE events SET previous = 0 WHERE seq = 4",
        "UPDATE events SET previous = position",
    ],
)
def test_a_lost_way_back_loses_no_event(path: Path, statement: str) -> None:
    with opened(path) as ledger:
        append(ledger, to("b", 0, fact(1)))
        written = append(ledger, to("a", 0, *TEN))
    meddle(path, statement)
    with opened(path) as ledger:
        assert tuple(ledger.read("a")) == written
        assert tuple(ledger.read("a", 5)) == written[5:]
        append(ledger, to("a", 10, fact(1)))
        assert len(ledger.read("a")) == 11


def test_an_event_that_is_kept_elsewhere_too_is_not_read_twice(path: Path) -> None:
    """Two streams may be made to share their way back; each still has only its own events."""
    with opened(path) as ledger:
        ones, others = append(ledger, to("a", 0, *TEN[:3])), append(ledger, to("b", 0, *TEN[:3]))
    meddle(path, "UPDATE events SET previous = 3 WHERE position = 4")
    with opened(path) as ledger:
        assert (tuple(ledger.read("a")), tuple(ledger.read("b"))) == (ones, others)


def test_what_is_kept_and_was_changed_is_not_handed_out(path: Path) -> None:
    with opened(path) as ledger:
        event = Append(stream="a", expected=0, events=(fact(1),), keeps=(b"12 euros",))
        append(ledger, event)
    meddle(path, "UPDATE kept SET body = CAST('99 euros' AS BLOB)")
    with opened(path) as ledger:
        assert code(lambda: ledger.kept(ledger.seal(b"12 euros"))) == "E_LEDGER_BROKEN"
        assert len(ledger.read("a")) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE kept SET body = CAST('99' AS BLOB) WHERE seal LIKE '%/1'",
        "DELETE FROM kept WHERE seal LIKE '%/1'",
        "DELETE FROM kept WHERE seal LIKE '%/2'",
        "INSERT INTO kept SELECT replace(seal, '/2', '/3'), body FROM kept WHERE seal LIKE '%/2'",
    ],
)
def test_an_artifact_that_was_changed_is_not_handed_out(path: Path, statement: str) -> None:
    parts = (b"12", b"34", b"56")
    with opened(path) as ledger:
        seal = whole_seal(ledger.seal, hashlib.sha256(b"".join(parts)).digest(), 6)
        artifact = Artifact(seal=seal, size=6, parts=lambda: iter(parts))
        append(ledger, Append(stream="a", expected=0, events=(fact(1),), artifacts=(artifact,)))
    meddle(path, statement)
    with opened(path) as ledger:
        assert code(lambda: ledger.artifact(seal)) == "E_LEDGER_BROKEN"


def kept_in_parts(ledger: SqliteLedger) -> str:
    parts = (b"12", b"34", b"56")
    seal = whole_seal(ledger.seal, hashlib.sha256(b"".join(parts)).digest(), 6)
    artifact = Artifact(seal=seal, size=6, parts=lambda: iter(parts))
    append(ledger, Append(stream="a", expected=0, events=(fact(1),), artifacts=(artifact,)))
    return seal


def test_an_artifact_that_is_removed_while_it_is_read_is_not_handed_out_in_part(path: Path) -> None:
    with opened(path) as ledger:
        seal = kept_in_parts(ledger)
        parts = ledger.artifact(seal)
        assert parts is not None and next(parts) == b"12"
        append(ledger, Append(stream="b", expected=0, events=(fact(1),), drops=(seal,), seen=1))
        assert code(lambda: list(parts)) == "E_OUTPUT_NOT_KEPT"


def test_each_ledger_seals_with_a_key_of_its_own(path: Path) -> None:
    with opened(path) as one, opened(path.with_name("other.db")) as other:
        assert one.seal(b"x") != other.seal(b"x")
        seal = one.seal(b"x")
    with opened(path) as one:
        assert one.seal(b"x") == seal


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


def test_a_full_disk_leaves_nothing_half_written_and_is_not_tried_again(
    path: Path, connections: list[apsw.Connection]
) -> None:
    big = ConfigTrusted(digest="x", text="x" * 1_000_000, by=ANA)
    with opened(path) as ledger:
        written = append(ledger, to("a", 0, *TEN))
        connection = connections[-1]
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


class Room(Reserve):
    """A reserve whose giving up makes room in a ledger that may not grow."""

    connection: apsw.Connection | None = None

    def give_up(self) -> bool:
        if self.connection is not None:
            self.connection.pragma("max_page_count", 1 << 30)
        return super().give_up()


def test_a_write_that_found_the_disk_full_is_made_once_more_in_the_room_set_aside(
    path: Path, connections: list[apsw.Connection]
) -> None:
    """Only there: where there was no reserve, or it is not enough, the first refusal stands."""
    big = ConfigTrusted(digest="x", text="x" * 1_000_000, by=ANA)
    reserve = Room(path.with_name("reserve"))
    ledger = SqliteLedger.open(path, reserve=reserve)
    append(ledger, to("a", 0, *TEN))
    assert path.with_name("reserve").stat().st_size == RESERVE_BYTES
    connection = reserve.connection = connections[-1]
    connection.pragma("max_page_count", connection.pragma("page_count") + 10)

    async def neighbours() -> list[tuple[Recorded, ...] | BaseException]:
        calls = (ledger.append(AT, to(stream, size, big)) for stream, size in (("b", 0), ("a", 9), ("a", 10)))
        return await asyncio.gather(*calls, return_exceptions=True)

    one, refused, other = asyncio.run(neighbours())
    assert isinstance(refused, Refused) and refused.problems[0].code == "E_LEDGER_CONFLICT"
    assert (tuple(ledger.read("b")), tuple(ledger.read("a", 10))) == (one, other)
    assert not path.with_name("reserve").exists()
    connection.pragma("max_page_count", connection.pragma("page_count") + 10)
    assert code(lambda: append(ledger, to("a", 11, big))) == "E_LEDGER_IO", "nothing is left to be given up"
    asyncio.run(ledger.close())
    with opened(path) as again:
        assert len(again.read("a")) == 11


@pytest.mark.parametrize("free", [0, 1])
def test_the_reserve_is_given_up_before_what_would_not_fit_beside_it(
    path: Path, free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = Reserve(path.with_name("reserve"))
    ledger = SqliteLedger.open(path, reserve=reserve)
    append(ledger, to("a", 0, fact(1)))
    data = b"x" * 3_000_000
    artifact = Artifact(seal=ledger.seal(data), size=len(data), parts=lambda: iter([data]))
    disk = SimpleNamespace(f_bavail=4_000_000 + free * 4_000_000, f_frsize=1)
    monkeypatch.setattr(os, "statvfs", lambda path: disk)
    append(ledger, Append(stream="a", expected=1, events=(fact(2),), artifacts=(artifact,)))
    assert path.with_name("reserve").exists() == bool(free)
    asyncio.run(ledger.close())


def test_where_no_room_can_be_set_aside_everything_is_written_all_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "posix_fallocate")
    ledger = SqliteLedger.open(path, reserve=Reserve(path.with_name("reserve")))
    append(ledger, to("a", 0, fact(1)))
    assert not path.with_name("reserve").exists()
    asyncio.run(ledger.close())


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


def test_a_file_that_was_replaced_takes_nothing_more(path: Path) -> None:
    other = path.with_name("other.db")
    with opened(other):
        pass
    with opened(path) as ledger:
        append(ledger, to("a", 0, fact(1)))
        other.rename(path)
        with pytest.raises(Refused, match=r"E_LEDGER_IO.*replaced"):
            append(ledger, to("a", 1, fact(2)))


def test_a_file_that_was_deleted_takes_nothing_more(path: Path) -> None:
    with opened(path) as ledger:
        append(ledger, to("a", 0, fact(1)))
        path.unlink()
        assert code(lambda: append(ledger, to("a", 1, fact(2)))) == "E_LEDGER_IO"


def test_a_file_system_that_was_made_read_only_takes_nothing_more(
    path: Path, connections: list[apsw.Connection]
) -> None:
    with opened(path) as ledger:
        append(ledger, to("a", 0, fact(1)))
        connection = connections[-1]
        # Stands in for a remount, which needs root to provoke.
        connection.pragma("query_only", True)
        assert code(lambda: append(ledger, to("a", 1, fact(2)))) == "E_LEDGER_IO"
        assert len(ledger.read("a")) == 1


LOOKING = """
import asyncio, os, resource, sys
from pathlib import Path
from ordain.adapters.ledger.sqlite import SqliteLedger
from ordain.core.run.step_event import AttemptStarted
from ordain.core.text.problem import Refused
from ordain.ports.ledger import Append

path, how = Path(sys.argv[1]), sys.argv[2]
if how == "full":
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # no file can grow, as on a full disk
else:
    path.chmod(0o400)
    path.parent.chmod(0o500)
    if os.geteuid() == 0:
        for owned in (path.parent, *path.parent.iterdir()):
            os.chown(owned, 65534, 65534)
        os.setgid(65534)
        os.setuid(65534)  # nothing is forbidden to root

ledger = SqliteLedger.open(path)
before = [len(ledger.read("a")), ledger.size("a"), *ledger.streams(""), ledger.checkpoint().size]
event = AttemptStarted(step="a", attempt=1, key="k")
try:
    asyncio.run(ledger.append(0, Append(stream="a", expected=ledger.size("a"), events=(event,))))
except Refused as refused:
    print(*before, refused.problems[0].code, sep=",")
asyncio.run(ledger.close())
print(*sorted(file.name for file in path.parent.iterdir() if file.stat().st_size), sep=",")
"""


def look(path: Path, how: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", LOOKING, str(path), how], capture_output=True, text=True, check=False)
    return [done.stderr, *done.stdout.splitlines()]


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A directory that another user can get to."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        (Path(name) / "state").mkdir()
        yield Path(name) / "state" / "ledger.db"


@pytest.mark.parametrize("how", ["read-only", "full"])
def test_where_nothing_can_be_written_everything_can_be_looked_at(reachable: Path, how: str) -> None:
    with opened(reachable) as ledger:
        append(ledger, to("a", 0, *TEN))
    assert look(reachable, how) == ["", "10,10,a,10,E_LEDGER_IO", "ledger.db"]


@pytest.mark.parametrize("how", ["read-only", "full"])
def test_what_is_only_in_the_log_is_seen_there_too_or_the_look_is_refused(reachable: Path, how: str) -> None:
    """A reader that leaves out the newest events would be worse than none."""
    with opened(reachable) as ledger:
        append(ledger, to("a", 0, *TEN))
        copied = reachable.parent.with_name("copy")
        copied.mkdir()
        names = [reachable, reachable.with_name("ledger.db-wal")]
        subprocess.run(["cp", "-p", *names, copied], check=True)
    seen = look(copied / "ledger.db", how)
    assert seen[1:] == ["10,10,a,10,E_LEDGER_IO", "ledger.db,ledger.db-wal"] or "E_LEDGER_IO" in seen[0]


def test_nothing_is_recorded_in_an_empty_ledger_and_who_tries_has_made_a_mistake() -> None:
    """A refusal could be taken for one of the disk, and be passed over."""
    ledger = SqliteLedger.empty()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="opened to be looked at"):
            append(ledger, to("a", 0, fact(1)))
    assert (ledger.size("a"), list(ledger.everything()), ledger.plan_count()) == (0, [], 0)


def test_looking_where_nothing_is_recorded_makes_one_database(connections: list[apsw.Connection], path: Path) -> None:
    access = LedgerAccess(lambda: SqliteLedger.open(path), exists=path.exists, empty=SqliteLedger.empty)
    empty = access.look()
    assert access.look() is empty
    assert len(connections) == 1
    with opened(path) as other:
        append(other, to("a", 0, fact(1)))
    assert access.look().size("a") == 1
    asyncio.run(access.open().close())


# --- Projections -------------------------------------------------------------------------------------------------

PROJECTIONS = ("streams", "names", "plans", "checkpoints")


def tables(path: Path, *names: str) -> dict[str, list[tuple[object, ...]]]:
    with closing(apsw.Connection(str(path))) as connection:
        return {name: connection.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall() for name in names}


def lives(ledger: Ledger) -> None:
    """A few plans and runs, and more events than one remembered checkpoint."""
    for number in range(4):
        lineage, run = f"lineage/PLAN-{number}", f"run/RUN-{number}"
        append(ledger, to(lineage, 0, prepared(f"plan:{number}", f"{number % 2}.md")))
        begun = to(lineage, 1, RunStarted(run_id=RunId(f"RUN-{number}"), plan_id=PlanId("p"), approval_id=None, by=ANA))
        append(ledger, begun, to(run, 0, run_opened(f"RUN-{number}")))
        for epoch in range(1, number + 1):
            took = ExecutorStarted(epoch=epoch, pid=1, boot_id="b")
            append(ledger, Append(stream=run, expected=ledger.size(run), events=(took,), new_epoch=epoch))
        append(ledger, to(run, ledger.size(run), *(fact(number) for number in range(300))))


def prepared(plan_id: str, document: str | None) -> Event:
    return PlanPrepared(
        plan_id=PlanId(plan_id),
        plan=msgspec.Raw(b"{}"),
        document=document,
        document_sha256=None,
        by=ANA,
        expires_at=Instant(AT + 1),
    )


def run_opened(run_id: str) -> Event:
    limits = Limits(concurrency=1, step_timeout_ms=1, contract_timeout_ms=1, on_failure=Abort(), env=())
    where = WorkspaceIdentity(id="WS-1", path="/w", device=1, inode=1)
    return RunOpened(run_id=RunId(run_id), plan_id=PlanId("p"), lineage="lineage/X", workspace=where, limits=limits)


def test_projections_are_what_the_events_add_up_to(path: Path) -> None:
    with opened(path) as ledger:
        lives(ledger)
        written = tables(path, *PROJECTIONS, "events")
        assert all(written.values())
        size = len(written["events"])
        assert ledger.rebuild() == size == ledger.checkpoint().size
        assert tables(path, *PROJECTIONS, "events") == written


@pytest.mark.part(of=5)
@pytest.mark.parametrize(
    "statement",
    [
        *(f"DELETE FROM {table}" for table in PROJECTIONS),
        "UPDATE streams SET size = size + 1, head = zeroblob(32), epoch = 7, last = 1",
        "UPDATE names SET stream = 'elsewhere'",
        "UPDATE plans SET open = 0, document = 'x', body = CAST('{}' AS BLOB)",
        "UPDATE checkpoints SET digest = zeroblob(32)",
        "UPDATE events SET previous = 0",
        "UPDATE events SET stream = 1",
    ],
)
def test_projections_are_rebuilt_from_the_chain(path: Path, statement: str) -> None:
    with opened(path) as ledger:
        lives(ledger)
    written = tables(path, *PROJECTIONS, "events")
    meddle(path, statement)
    assert tables(path, *PROJECTIONS, "events") != written
    with opened(path) as ledger:
        ledger.rebuild()
        assert tables(path, *PROJECTIONS, "events") == written
        append(ledger, to("run/RUN-3", ledger.size("run/RUN-3"), fact(1)))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET body = CAST(replace(body, 'build', 'boil') AS BLOB) WHERE position = 20",
        "UPDATE events SET body = x'00' WHERE position = 20",
        "UPDATE events SET head = zeroblob(32) WHERE position = 20",
        "UPDATE events SET seq = seq + 1 WHERE position = 20",
        "DELETE FROM events WHERE position = 20",
        "DELETE FROM events WHERE position = 1",
    ],
)
def test_nothing_is_rebuilt_from_a_broken_chain(path: Path, statement: str) -> None:
    with opened(path) as ledger:
        lives(ledger)
    meddle(path, statement)
    damaged = tables(path, *PROJECTIONS, "events")
    with opened(path) as ledger:
        assert code(ledger.rebuild) == "E_LEDGER_BROKEN"
        assert not chain.verify_everything(ledger.everything()).whole
    assert tables(path, *PROJECTIONS, "events") == damaged


def test_a_rebuild_is_seen_by_a_writer_that_knew_better(path: Path) -> None:
    with opened(path) as ledger:
        append(ledger, to("a", 0, fact(1)))
        meddle(path, "UPDATE streams SET epoch = 5")
        assert code(lambda: append(ledger, Append(stream="a", expected=1, events=(fact(2),), epoch=0))) == "E_FENCED"
        ledger.rebuild()
        append(ledger, Append(stream="a", expected=1, events=(fact(2),), epoch=0))


STEPS = st.tuples(
    st.sampled_from(["lineage/A", "run/1", "b"]),
    st.integers(-1, 1),
    st.integers(0, 3),
    st.sampled_from([None, None, 0, 1, 2]),
    st.sampled_from([None, None, 1, 2]),
)


@given(st.lists(st.lists(STEPS, min_size=1, max_size=3), max_size=12))
def test_the_file_and_its_twin_in_memory_agree(calls: list[list[tuple[str, int, int, int | None, int | None]]]) -> None:
    """Whatever is asked of both, also after the file was closed and opened again, and after a rebuild."""

    def answer(ledger: Ledger, appends: tuple[Append, ...]) -> object:
        try:
            return asyncio.run(ledger.append(AT, *appends))
        except Refused as refused:
            return refused.problems

    def told(ledger: Ledger) -> object:
        streams = {stream: (ledger.size(stream), tuple(ledger.read(stream))) for stream in ledger.streams("")}
        return streams, ledger.lookup(""), tuple(ledger.plans()), tuple(ledger.everything()), ledger.checkpoint()

    twin = MemoryLedger()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        for call in calls:
            sizes = {stream: twin.size(stream) for stream, *_ in call}
            appends = []
            for stream, wrong, count, epoch, new_epoch in call:
                events = tuple(
                    prepared(f"plan:{count}", "x.md") if stream == "lineage/A" else fact(n) for n in range(count)
                )
                appends.append(
                    Append(
                        stream=stream,
                        expected=max(sizes[stream] + wrong, 0),
                        events=events,
                        epoch=epoch,
                        new_epoch=new_epoch,
                    )
                )
                sizes[stream] += count
            with opened(path) as ledger:
                assert answer(ledger, tuple(appends)) == answer(twin, tuple(appends))
                assert told(ledger) == told(twin)
