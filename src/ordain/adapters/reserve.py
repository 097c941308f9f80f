"""Room on the disk that is set aside for the ledger, so that a run can be ended in order when a step has filled it.

A file beside the ledger that holds nothing. It is given up before a write that would find the disk full, never after
one that did: a failed write is not tried again. Whoever finds room again later sets it aside again. Nothing depends on
it.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

__all__ = ["Reserve"]

RESERVE_BYTES = 4 << 20
"""As much as the log of a ledger grows to before it is used again from its beginning: some two hundred appends."""
LOW_BYTES = 1 << 20


class Reserve:
    """One such file. Whatever goes wrong with it is passed over."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def set_aside(self) -> None:
        """Take the room, if there is plenty and it is not taken already."""
        with contextlib.suppress(OSError):
            if self._path.exists() and self._path.stat().st_size == RESERVE_BYTES:
                return
            if self._free() < 16 * RESERVE_BYTES:
                return
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
            finally:
                os.close(descriptor)

    def give_up_if_low(self) -> None:
        """Let go of it where the disk is nearly full."""
        with contextlib.suppress(OSError):
            if self._free() < LOW_BYTES:
                self._path.unlink(missing_ok=True)

    def _free(self) -> int:
        disk = os.statvfs(self._path.parent)
        return disk.f_bavail * disk.f_frsize
