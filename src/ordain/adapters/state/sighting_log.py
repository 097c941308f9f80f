"""ports.Sightings in files beside the ledger: one for each day, a line for each sighting, appended by one write.

Nothing is locked or synced, and what cannot be written is left out: then a mark beside the day's file says so. A line
begins with its newline, so that one that was cut short spoils no other. Old days are taken away.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ordain.adapters.workspace.openat import opened
from ordain.core.guard.sighting import DAYS_KEPT, Sighting
from ordain.core.plan.value import Instant

DAY_BYTES_MAX = 8 << 20
LINE_MAX = 16 << 10
"""Far more than any sighting that is noted has."""
_LINES, _FULL = ".jsonl", ".full"
_OPEN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # not blocking: a pipe in its place would hold us up


class SightingLog:
    """ports.Sightings in a directory of the state, which is made when there is something to note."""

    def __init__(
        self, shelf: Callable[[], Path], *, day_bytes_max: int = DAY_BYTES_MAX, days_kept: int = DAYS_KEPT
    ) -> None:
        self._shelf, self._day_bytes_max, self._days_kept = shelf, day_bytes_max, days_kept

    def note(self, sightings: Sequence[Sighting]) -> None:
        for one in sightings:
            with suppress(OSError, OverflowError, ValueError):  # no room, or a clock that tells no date
                self._note(one)

    def _note(self, one: Sighting) -> None:
        line = b"\n" + msgspec.json.encode(one)
        directory, day = self._directory(), _day(one.at)
        directory.mkdir(mode=0o700, exist_ok=True)
        try:
            with _opened(directory / f"{day}{_LINES}", os.O_WRONLY | os.O_APPEND | os.O_CREAT) as (handle, size):
                whole = size + len(line) <= self._day_bytes_max and os.write(handle, line) == len(line)
        except OSError:
            whole, size = False, -1
        if not whole:
            with _opened(directory / f"{day}{_FULL}", os.O_WRONLY | os.O_CREAT):
                pass
        if size == 0:
            _take_away(directory, self._days_kept)

    def since(self, at: Instant) -> Iterator[Sighting]:
        for path in self._days(at, _LINES):
            with (
                suppress(OSError),
                _opened(path, os.O_RDONLY) as (handle, _),
                open(handle, "rb", closefd=False) as file,
            ):
                while line := file.readline(LINE_MAX):
                    with suppress(msgspec.DecodeError, UnicodeDecodeError):  # cut short by a crash, or not ours
                        one = msgspec.json.decode(line, type=Sighting)
                        if one.at >= at:
                            yield one

    def incomplete(self, at: Instant) -> bool:
        directory = self._directory()
        if directory.exists() and not os.access(directory, os.R_OK | os.X_OK):
            return True
        return bool(self._days(at, _FULL))

    def _directory(self) -> Path:
        return self._shelf() / "guard"

    def _days(self, at: Instant, ending: str) -> list[Path]:
        try:
            first = _day(at)
        except (OverflowError, ValueError):
            first = ""
        return sorted(path for path in self._directory().glob(f"*{ending}") if path.stem >= first)


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[tuple[int, int]]:
    """A file of ours, and its size; raises OSError where something else is in its place."""
    with opened(path, flags | _OPEN) as handle:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise OSError(f"{path} is no file of ours")
        yield handle, found.st_size


def _day(at: Instant) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).date().isoformat()


def _take_away(directory: Path, kept: int) -> None:
    """Keep the newest days; with the first sighting of each, so that it is done seldom."""
    days = sorted({path.stem for ending in (_LINES, _FULL) for path in directory.glob(f"*{ending}")})
    for day in days[:-kept]:
        for ending in (_LINES, _FULL):
            (directory / f"{day}{ending}").unlink(missing_ok=True)
