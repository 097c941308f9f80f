"""The contract of ports.WriterLock, for flock and its in-memory twin; and that the lock dies with its holder."""

import subprocess
import sys

import pytest

from ordain.adapters.memory import MemoryWriterLock
from ordain.adapters.writer_lock import FileWriterLock
from ordain.core.problem import Refused


@pytest.fixture(params=["flock", "memory"])
def lock(request, tmp_path):
    return FileWriterLock(lambda: tmp_path / "writer.lock") if request.param == "flock" else MemoryWriterLock()


def test_it_is_held_once_and_free_again_afterwards(lock):
    with lock.hold("RUN-1"):
        assert lock.holder() is None, "we are not somebody else"
        with pytest.raises(Refused) as refused, lock.hold("RUN-2"):
            pass
        assert refused.value.problems[0].code == "E_WORKSPACE_BUSY"
    with lock.hold("RUN-2"):
        pass
    assert lock.holder() is None


def test_it_is_free_after_an_exception(lock):
    with pytest.raises(RuntimeError), lock.hold("RUN-1"):
        raise RuntimeError
    with lock.hold("RUN-2"):
        pass


def test_another_process_is_named_and_its_death_frees_the_lock(tmp_path):
    code = (
        "import sys; from pathlib import Path; from ordain.adapters.writer_lock import FileWriterLock\n"
        "with FileWriterLock(lambda: Path(sys.argv[1])).hold('RUN-OTHER'):\n"
        "    print('held', flush=True); sys.stdin.read()"
    )
    path = tmp_path / "writer.lock"
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None and other.stdout.readline() == "held\n"
    lock = FileWriterLock(lambda: path)
    assert lock.holder() == "RUN-OTHER"
    with pytest.raises(Refused) as refused, lock.hold("RUN-1"):
        pass
    assert "RUN-OTHER" in refused.value.problems[0].detail
    other.kill()
    assert other.wait() == -9, "it did not die as intended"
    other.stdout.close()
    assert other.stdin is not None
    other.stdin.close()
    assert lock.holder() is None
    with lock.hold("RUN-1"):
        pass
