"""What comes out of a command: its end, its length, and all of it where there is room."""

from __future__ import annotations

import hashlib
import os
import random
from pathlib import Path
from types import SimpleNamespace

import pytest

from ordain.adapters.process import spool as spool_module
from tests.words import ARTIFACT_BYTES_MAX, OUTPUT_BYTES_MAX, Spool


def spooled(data: bytes, directory: Path | None, seed: int = 0) -> Spool:
    """A spool that took this in chunks of all sizes."""
    chosen = random.Random(seed)
    spool = Spool((lambda: directory) if directory is not None else None)
    at = 0
    while at < len(data):
        size = chosen.choice([1, 7, 4096, 65536])
        spool.take(data[at : at + size])
        at += size
    return spool


@pytest.mark.parametrize("size", [0, 1, OUTPUT_BYTES_MAX, OUTPUT_BYTES_MAX + 1, 2 * OUTPUT_BYTES_MAX, 5_000_000])
@pytest.mark.parametrize("room", [True, False])
def test_length_end_and_digest_are_those_of_everything(tmp_path: Path, size: int, room: bool) -> None:
    data = random.Random(size).randbytes(size)
    spool = spooled(data, tmp_path if room else None)
    assert (spool.size, spool.end()) == (size, data[-OUTPUT_BYTES_MAX:])
    whole = spool.whole()
    if size <= OUTPUT_BYTES_MAX:
        assert whole is None
        return
    assert whole is not None and (whole.size, whole.sha256) == (size, hashlib.sha256(data).digest())
    assert (b"".join(whole.parts()) if whole.parts is not None else None) == (data if room else None)
    assert list(tmp_path.iterdir()) == [], "it has no name"


def test_it_is_there_as_long_as_somebody_holds_it_and_no_longer(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    whole = spooled(bytes(3_000_000), tmp_path).whole()
    assert whole is not None and whole.parts is not None
    assert [len(part) for part in whole.parts()] == [1 << 20, 1 << 20, 3_000_000 - (2 << 20)]
    assert sum(map(len, whole.parts())) == 3_000_000, "it can be read twice"
    assert len(os.listdir("/proc/self/fd")) == before + 1
    del whole
    assert len(os.listdir("/proc/self/fd")) == before


def test_too_much_is_let_go_and_still_counted(tmp_path: Path) -> None:
    spool = Spool(lambda: tmp_path)
    before, digest = len(os.listdir("/proc/self/fd")), hashlib.sha256()
    block = bytes(range(256)) * 4096
    for _ in range(ARTIFACT_BYTES_MAX // len(block)):
        spool.take(block)
        digest.update(block)
    whole = spool.whole()
    assert whole is not None and whole.parts is not None
    del whole
    spool.take(b"x")
    digest.update(b"x")
    whole = spool.whole()
    assert whole is not None and (whole.parts, whole.sha256) == (None, digest.digest())
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_disk_that_is_nearly_full_is_left_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimpleNamespace(f_bavail=spool_module.ROOM_BYTES // 2, f_frsize=1)
    monkeypatch.setattr(os, "fstatvfs", lambda descriptor: disk)
    whole = spooled(bytes(3_000_000), tmp_path).whole()
    assert whole is not None and whole.parts is None and whole.size == 3_000_000


@pytest.mark.parametrize("answer", [OSError(28, "No space left on device"), 1])
def test_a_write_that_fails_costs_the_beginning_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: OSError | int
) -> None:
    def write(descriptor: int, data: bytes) -> int:
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(spool_module.os, "write", write)
    spool = spooled(bytes(2_000_000) + b"end", tmp_path)
    whole = spool.whole()
    assert whole is not None and (whole.parts, whole.size) == (None, 2_000_003)
    assert spool.end().endswith(b"\0end")


def test_a_directory_that_is_gone_costs_the_beginning_only(tmp_path: Path) -> None:
    whole = spooled(bytes(2_000_000), tmp_path / "gone").whole()
    assert whole is not None and (whole.parts, whole.size) == (None, 2_000_000)
