"""The contract of ports.WriterLock, for flock and its in-memory twin; and that what is held dies with its holder."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.twins.workspace import MemoryWriterLock
from tests.words import FileWriterLock, Holder, Refused

BOOT = "boot"


@pytest.fixture(params=["flock", "memory"])
def lock(request, tmp_path):
    return FileWriterLock(lambda: tmp_path, BOOT) if request.param == "flock" else MemoryWriterLock()


def refused_with(context) -> str:
    with pytest.raises(Refused) as refused, context:
        pass
    return refused.value.problems[0].code


def test_a_run_is_claimed_once_and_free_again_afterwards(lock):
    with lock.claim("RUN-1"):
        assert lock.holder("RUN-1") is None, "we are not somebody else"
        assert refused_with(lock.claim("RUN-1")) == "E_RUN_BUSY"
        with lock.claim("RUN-2"):
            pass
    with lock.claim("RUN-1"):
        pass
    assert lock.holder("RUN-1") is None


@pytest.mark.parametrize("places", [1, 2, 3])
def test_there_are_as_many_places_as_are_asked_for(lock, places):
    with lock.place("RUN-A", places):
        if places == 1:
            assert refused_with(lock.place("RUN-B", places)) == "E_WORKSPACE_BUSY"
            return
        with lock.place("RUN-B", places):
            if places == 2:
                assert refused_with(lock.place("RUN-C", places)) == "E_WORKSPACE_BUSY"
                return
            with lock.place("RUN-C", places):
                assert refused_with(lock.place("RUN-D", places)) == "E_WORKSPACE_BUSY"
        with lock.place("RUN-D", places):
            pass


def test_everything_is_free_after_an_exception(lock):
    with pytest.raises(RuntimeError), lock.claim("RUN-1"), lock.place("RUN-1", 1):
        raise RuntimeError
    with lock.claim("RUN-1"), lock.place("RUN-2", 1):
        lock.beat()


OTHER = """
import sys
from pathlib import Path
from ordain.adapters.ledger.lock import FileWriterLock
lock = FileWriterLock(lambda: Path(sys.argv[1]), sys.argv[2])
with lock.place("RUN-OTHER", 1), lock.claim("RUN-OTHER"):
    print("held", flush=True)
    for line in sys.stdin:
        lock.beat()
        print("beaten", flush=True)
"""


class Other:
    """Another process that has a claim and a place."""

    def __init__(self, directory, boot=BOOT) -> None:
        words = [sys.executable, "-c", OTHER, str(directory), boot]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "held\n"

    def beat(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "beaten\n"

    def close(self) -> int:
        self.process.kill()
        status = self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        return status


def seen(other: Other) -> Holder:
    return Holder(name="RUN-OTHER", pid=other.process.pid)


@pytest.fixture
def other(tmp_path):
    started = Other(tmp_path)
    yield started
    started.close()


def test_another_process_is_named_and_its_death_frees_everything(tmp_path, other):
    lock = FileWriterLock(lambda: tmp_path, BOOT)
    holder = lock.holder("RUN-OTHER")
    assert holder is not None and (holder.name, holder.pid) == ("RUN-OTHER", other.process.pid)
    with pytest.raises(Refused) as refused, lock.place("RUN-1", 1):
        pass
    assert "RUN-OTHER" in refused.value.problems[0].detail
    assert refused_with(lock.claim("RUN-OTHER")) == "E_RUN_BUSY"
    assert other.close() == -9, "it did not die as intended"
    assert lock.holder("RUN-OTHER") is None
    with lock.place("RUN-1", 1), lock.claim("RUN-OTHER"):
        pass


def test_a_frozen_process_is_silent_and_one_that_beats_is_not(tmp_path, other, monkeypatch):
    lock, awake = FileWriterLock(lambda: tmp_path, BOOT), time.monotonic_ns
    monkeypatch.setattr(time, "monotonic_ns", lambda: awake() + 3_600_000 * 1_000_000)
    holder = lock.holder("RUN-OTHER")
    assert holder is not None and holder.silent_ms >= 3_600_000
    other.beat()
    monkeypatch.setattr(time, "monotonic_ns", awake)
    holder = lock.holder("RUN-OTHER")
    assert holder is not None and holder.silent_ms < 60_000


def test_a_frozen_process_can_be_ended(tmp_path, other):
    os.kill(other.process.pid, signal.SIGSTOP)
    lock = FileWriterLock(lambda: tmp_path, BOOT)
    assert lock.end("RUN-OTHER", seen(other))
    assert other.process.wait() == -9
    with lock.place("RUN-1", 1), lock.claim("RUN-OTHER"):
        pass


def test_a_process_of_another_boot_or_one_that_has_its_number_now_is_not_killed(tmp_path):
    other = Other(tmp_path, boot="another")
    lock = FileWriterLock(lambda: tmp_path, BOOT)
    assert not lock.end("RUN-OTHER", seen(other))
    path = tmp_path / "RUN-OTHER.lock"
    path.write_text(f"RUN-OTHER\n{other.process.pid} 1 {BOOT} 0\n")  # began at another time
    assert not lock.end("RUN-OTHER", seen(other))
    path.write_text("")  # a full disk kept it from saying who it is
    assert not lock.end("RUN-OTHER", seen(other))
    assert other.process.poll() is None
    other.close()


def test_only_who_was_seen_and_really_has_the_lock_is_killed(tmp_path, other):
    lock = FileWriterLock(lambda: tmp_path, BOOT)
    assert not lock.end("RUN-OTHER", Holder(name="RUN-OTHER", pid=other.process.pid + 1)), "another one has it by now"
    bystander = subprocess.Popen(["sleep", "60"])
    begun = int((Path(f"/proc/{bystander.pid}/stat").read_text().rpartition(")")[2]).split()[19])
    (tmp_path / "RUN-OTHER.lock").write_text(f"RUN-OTHER\n{bystander.pid} {begun} {BOOT} 0\n")
    assert not lock.end("RUN-OTHER", Holder(name="RUN-OTHER", pid=bystander.pid))
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_who_has_not_yet_said_who_it_is_is_not_silent(tmp_path, other):
    (tmp_path / "RUN-OTHER.lock").write_text(f"RUN-OTHER\n{other.process.pid} 1 {BOOT} 0\n")  # a dead one's words
    holder = FileWriterLock(lambda: tmp_path, BOOT).holder("RUN-OTHER")
    assert holder == Holder(name="RUN-OTHER")


def test_nobody_and_ourselves_are_not_ended(tmp_path):
    lock = FileWriterLock(lambda: tmp_path, BOOT)
    assert lock.end("RUN-1", Holder(name="RUN-1", pid=7))
    with lock.claim("RUN-1"):
        assert not FileWriterLock(lambda: tmp_path, BOOT).end("RUN-1", Holder(name="RUN-1", pid=os.getpid()))


def test_a_claim_leaves_no_file_behind(tmp_path):
    lock = FileWriterLock(lambda: tmp_path, BOOT)
    with lock.claim("RUN-1"):
        assert (tmp_path / "RUN-1.lock").exists()
    assert list(tmp_path.iterdir()) == []
