"""Room on the disk that is set aside for the ledger, so that a run can be ended in order when a step has filled it.

A file beside the ledger that holds nothing. It is given up before a write that would find the disk full, or after one
that did. Whoever finds room again later sets it aside again. Nothing depends on it.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

__all__ = ["Reserve"]

RESERVE_BYTES = 4 << 20
"""As much as the log of a ledger grows to before it is used again from its beginning: some two hundred appends."""
MARGIN_BYTES = 1 << 20
"""What must be free beyond what is about to be written: pages of tables that are written along with it."""


class Reserve:
    """One such file. Whatever goes wrong with it is passed over."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def set_aside(self) -> None:
        """Take the room, if there is plenty and it is not taken already."""
        with contextlib.suppress(OSError, AttributeError):  # not every system can set room aside
            if self._path.exists() and self._path.stat().st_size == RESERVE_BYTES:
                return
            if self._free() < 16 * RESERVE_BYTES:
                return
            allocate = os.posix_fallocate
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                allocate(descriptor, 0, RESERVE_BYTES)
            finally:
                os.close(descriptor)

    def give_up_if_low(self, size: int) -> None:
        """Let go of it where the disk has hardly room for as much as this."""
        with contextlib.suppress(OSError):
            if self._free() < size + MARGIN_BYTES:
                self.give_up()

    def give_up(self) -> bool:
        """Let go of it; whether there was any."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True

    def _free(self) -> int:
        disk = os.statvfs(self._path.parent)
        return disk.f_bavail * disk.f_frsize
