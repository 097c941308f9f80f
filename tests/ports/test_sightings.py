"""The contract of ports.Sightings, for files beside the ledger and the in-memory twin; and what files promise."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.twins.workspace import MemorySightings
from tests.words import DAY_MS, CallStanding, Instant, Sighting, SightingLog, Sightings

NOON = Instant(1_794_830_400_000)  # 2026-11-16 12:00 UTC


def sighting(number: int = 0, at: int = NOON, **fields: str) -> Sighting:
    return Sighting(
        at=Instant(at),
        agent="coder",
        through="gateway",
        tool="mail:send",
        standing=CallStanding.GUARDED,
        refused=False,
        code="E_TOOL_GUARDED",
        about=fields.pop("about", str(number)),
        **fields,
    )


@pytest.fixture(params=["files", "memory"])
def sightings(request: pytest.FixtureRequest, tmp_path: Path) -> Sightings:
    return SightingLog(lambda: tmp_path) if request.param == "files" else MemorySightings()


def test_what_was_noted_is_there_day_by_day(sightings: Sightings) -> None:
    assert list(sightings.since(Instant(0))) == []
    days = [sighting(number, NOON + number * DAY_MS) for number in range(3)]
    sightings.note(days[:2])
    sightings.note(days[2:])
    assert list(sightings.since(Instant(0))) == days
    assert list(sightings.since(days[1].at)) == days[1:]
    assert list(sightings.since(Instant(days[1].at + 1))) == days[2:]
    assert not sightings.incomplete(Instant(0))


def test_a_clock_that_is_set_back_loses_nothing(sightings: Sightings) -> None:
    late, early = sighting(1, NOON + 5), sighting(2, NOON - 5)
    sightings.note([late])
    sightings.note([early])
    assert list(sightings.since(Instant(NOON - 5))) == [late, early]
    assert list(sightings.since(NOON)) == [late]


def test_any_text_comes_back_as_it_was(sightings: Sightings) -> None:
    one = sighting(about='{"text": "a\\nb\u2028\x00\x1b[31m"}', session="s\n{}")
    sightings.note([one])
    assert list(sightings.since(NOON)) == [one]


# --- Files -----------------------------------------------------------------------------------------------------------


def day_file(path: Path, day: str = "2026-11-16", ending: str = ".jsonl") -> Path:
    return path / "guard" / f"{day}{ending}"


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    SightingLog(lambda: tmp_path).note([sighting()])
    assert stat.S_IMODE(day_file(tmp_path).stat().st_mode) == 0o600
    assert stat.S_IMODE(day_file(tmp_path).parent.stat().st_mode) == 0o700


def test_looking_makes_nothing(tmp_path: Path) -> None:
    log = SightingLog(lambda: tmp_path)
    assert (list(log.since(NOON)), log.incomplete(NOON)) == ([], False)
    assert list(tmp_path.iterdir()) == []


WRITER = """
import sys
from pathlib import Path
from ordain.adapters.state.sighting_log import SightingLog
from tests.ports.test_sightings import sighting
log = SightingLog(lambda: Path(sys.argv[1]))
sys.stdin.readline()
for number in range(300):
    log.note([sighting(about=f"{sys.argv[2]}/{number} " + "x" * 150)])
"""


@pytest.mark.slow
def test_many_processes_write_at_once_and_nothing_is_lost_or_torn(tmp_path: Path) -> None:
    def start(number: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", WRITER, str(tmp_path), str(number)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, cwd=Path(__file__).parents[2])

    writers = [start(number) for number in range(4)]
    with ThreadPoolExecutor(4) as at_once:
        list(at_once.map(lambda writer: writer.communicate(b"\n", timeout=60), writers))
    found = [one.about.split()[0] for one in SightingLog(lambda: tmp_path).since(NOON)]
    assert len(found) == 1200
    assert set(found) == {f"{writer}/{number}" for writer in range(4) for number in range(300)}


def test_a_line_that_was_cut_short_spoils_no_other(tmp_path: Path) -> None:
    log = SightingLog(lambda: tmp_path)
    log.note([sighting(1)])
    with day_file(tmp_path).open("ab") as file:
        file.write(b'\n{"at":1794830400000,"agent":"co')
    log.note([sighting(2)])
    assert [one.about for one in log.since(NOON)] == ["1", "2"]


def test_lines_that_are_not_ours_are_passed_over(tmp_path: Path) -> None:
    log = SightingLog(lambda: tmp_path)
    log.note([sighting(1)])
    with day_file(tmp_path).open("ab") as file:
        for line in (b"[1]", b"\xff\xfe", b"{}", b"[" * 100_000, b'{"at": 1e99}', b"x" * 1_000_000, b"\x00"):
            file.write(b"\n" + line)
    log.note([sighting(2)])
    assert [one.about for one in log.since(NOON)] == ["1", "2"]


def test_a_full_day_takes_no_more_and_says_so(tmp_path: Path) -> None:
    log = SightingLog(lambda: tmp_path, day_bytes_max=1000)
    log.note([sighting(number) for number in range(50)])
    assert day_file(tmp_path).stat().st_size <= 1000
    assert 0 < len(list(log.since(NOON))) < 50
    assert log.incomplete(NOON)
    assert not log.incomplete(Instant(NOON + DAY_MS))
    log.note([sighting(51, NOON + DAY_MS)])
    assert [one.about for one in log.since(Instant(NOON + DAY_MS))] == ["51"]


def test_a_disk_without_room_holds_up_nobody_and_is_told(tmp_path: Path) -> None:
    log = SightingLog(lambda: tmp_path)
    log.note([sighting(1)])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (day_file(tmp_path).stat().st_size + 10, before[1]))
        log.note([sighting(2)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    log.note([sighting(3)])
    assert [one.about for one in log.since(NOON)] == ["1", "3"]
    assert log.incomplete(NOON)


@pytest.mark.parametrize("planted", ["link", "pipe", "directory"])
def test_what_is_planted_in_its_place_is_neither_written_nor_read(tmp_path: Path, planted: str) -> None:
    (tmp_path / "guard").mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"")
    match planted:
        case "link":
            day_file(tmp_path).symlink_to(elsewhere)
        case "pipe":
            os.mkfifo(day_file(tmp_path))
        case _:
            day_file(tmp_path).mkdir()
    log = SightingLog(lambda: tmp_path)
    log.note([sighting()])
    assert elsewhere.read_bytes() == b""
    assert list(log.since(NOON)) == []
    assert log.incomplete(NOON)


def test_a_directory_that_cannot_be_used_holds_up_nobody(tmp_path: Path) -> None:
    (tmp_path / "guard").write_text("")
    log = SightingLog(lambda: tmp_path)
    log.note([sighting()])
    assert list(log.since(NOON)) == []
    assert log.incomplete(NOON)


@pytest.mark.parametrize("at", [-(1 << 62), 1 << 62])
def test_a_clock_that_tells_no_date_holds_up_nobody(tmp_path: Path, at: int) -> None:
    log = SightingLog(lambda: tmp_path)
    log.note([sighting(1, at), sighting(2)])
    assert [one.about for one in log.since(NOON)] == ["2"]
    assert isinstance(log.incomplete(Instant(at)), bool)


def test_old_days_are_taken_away_with_their_marks(tmp_path: Path) -> None:
    log = SightingLog(lambda: tmp_path, days_kept=3)
    (tmp_path / "guard").mkdir()
    day_file(tmp_path, "2026-11-15", ".full").touch()
    day_file(tmp_path, "2026-11-18", ".full").touch()
    for day in range(5):
        log.note([sighting(day, NOON + day * DAY_MS)])
    kept = sorted(path.name for path in (tmp_path / "guard").iterdir())
    assert kept == ["2026-11-18.full", "2026-11-18.jsonl", "2026-11-19.jsonl", "2026-11-20.jsonl"]
