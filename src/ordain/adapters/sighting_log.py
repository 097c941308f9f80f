"""ports.Sightings in files beside the ledger: one for each day, a line for each sighting, appended whole.

What cannot be written is left out, and so is what comes when a day's file is full; then a mark says that the day is
incomplete. Days that nobody asks about any more are taken away.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ordain.core.sighting import Sighting
from ordain.core.value import Instant

__all__ = ["SightingLog"]

DAY_BYTES_MAX = 32 << 20
DAYS_KEPT = 90
_FULL = ".full"


class SightingLog:
    """ports.Sightings in a directory of the state, which is made when there is something to note."""

    def __init__(self, shelf: Callable[[], Path]) -> None:
        self._shelf = shelf

    def note(self, sightings: Sequence[Sighting]) -> None:
        with suppress(OSError):
            for one in sightings:
                self._append(one)

    def _append(self, one: Sighting) -> None:
        directory = self._shelf() / "guard"
        directory.mkdir(mode=0o700, exist_ok=True)
        path = directory / f"{_day(one.at)}.jsonl"
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(handle).st_size
            if size >= DAY_BYTES_MAX:
                path.with_suffix(_FULL).touch(mode=0o600)
                return
            os.write(handle, msgspec.json.encode(one) + b"\n")
        finally:
            os.close(handle)
        if size == 0:
            _take_away(directory)

    def since(self, at: Instant) -> Iterator[Sighting]:
        for path in self._days(at, ".jsonl"):
            with suppress(OSError), path.open("rb") as lines:
                for line in lines:
                    with suppress(msgspec.DecodeError):  # cut short by a crash, or not ours
                        one = msgspec.json.decode(line, type=Sighting)
                        if one.at >= at:
                            yield one

    def incomplete(self, at: Instant) -> bool:
        return any(True for _ in self._days(at, _FULL))

    def _days(self, at: Instant, ending: str) -> list[Path]:
        first = _day(at)
        return sorted(path for path in (self._shelf() / "guard").glob(f"*{ending}") if path.stem >= first)


def _day(at: Instant) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).date().isoformat()


def _take_away(directory: Path) -> None:
    for path in sorted(directory.glob("*.jsonl"))[:-DAYS_KEPT]:
        path.unlink(missing_ok=True)
        path.with_suffix(_FULL).unlink(missing_ok=True)
