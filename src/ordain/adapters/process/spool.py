"""What comes out of a command or a request: its length and its end in memory, all of it in a file without a name.

Memory is bounded whatever comes, and a disk that is nearly full costs no more than the beginning.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from ordain.core.text.limit import ARTIFACT_BYTES_MAX, OUTPUT_BYTES_MAX
from ordain.ports.process import PART_BYTES, Whole

# --- Spool -----------------------------------------------------------------------------------------------------------

ROOM_BYTES = 32 << 20
"""What is left free on the disk, for the ledger above all."""


class Spool:
    """Takes an output bit by bit. Without a `directory` for more than its end, the rest is only digested."""

    def __init__(self, directory: Callable[[], Path] | None = None) -> None:
        self._directory = directory
        self._end = bytearray()
        self._sha256 = hashlib.sha256()
        self._file: _File | None = None
        self.size = 0

    def take(self, data: bytes) -> None:
        before, self.size = self.size, self.size + len(data)
        self._end += data
        if self.size > OUTPUT_BYTES_MAX:  # a short output is digested by nobody
            if before <= OUTPUT_BYTES_MAX:
                data = bytes(self._end)
                if self._directory is not None:
                    with contextlib.suppress(OSError):
                        self._file = _File(self._directory())
            self._sha256.update(data)
            self._write(data)
        if len(self._end) >= 2 * OUTPUT_BYTES_MAX:  # not at each read: what is left is copied
            del self._end[:-OUTPUT_BYTES_MAX]

    def end(self) -> bytes:
        return bytes(self._end[-OUTPUT_BYTES_MAX:])

    def last(self, most: int) -> bytes:
        """The last bytes that have come, no more than so many."""
        return bytes(self._end[max(0, len(self._end) - most) :])

    def whole(self) -> Whole | None:
        """All of it, where that is more than its end."""
        if self.size <= OUTPUT_BYTES_MAX:
            return None
        parts = self._file.parts if self._file is not None else None
        return Whole(size=self.size, sha256=self._sha256.digest(), parts=parts)

    def _write(self, data: bytes) -> None:
        if self._file is None:
            return
        try:
            if self.size > ARTIFACT_BYTES_MAX:
                raise OSError("too much")
            self._file.write(data)
        except OSError:
            self._file = None  # and with it what it holds


class _File:
    """A file without a name, there as long as somebody holds on to it."""

    def __init__(self, directory: Path) -> None:
        import tempfile

        with tempfile.TemporaryFile(dir=directory) as file:
            self._descriptor = os.dup(file.fileno())
        self._size = 0
        self._looked_at = -PART_BYTES

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):  # it could not be made
            os.close(self._descriptor)

    def write(self, data: bytes) -> None:
        """Add to it; raises OSError where there is no room."""
        if self._size - self._looked_at >= PART_BYTES:
            self._looked_at = self._size
            disk = os.fstatvfs(self._descriptor)
            if disk.f_bavail * disk.f_frsize < ROOM_BYTES:
                raise OSError("the disk is nearly full")
        if os.write(self._descriptor, data) != len(data):
            raise OSError("the disk is full")
        self._size += len(data)

    def parts(self) -> Iterator[bytes]:
        for at in range(0, self._size, PART_BYTES):
            yield os.pread(self._descriptor, PART_BYTES, at)


# --- Usage file ------------------------------------------------------------------------------------------------------
# The file in which a command may report what it uses: private, made for one attempt, gone after it. It is read through
# the descriptor that it was made with, so nobody can have us read another file, and no further than a bound.

USAGE = "ORDAIN_USAGE"
USAGE_BYTES_MAX = 65536


class UsageFile:
    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor, self.path = descriptor, path

    @classmethod
    @contextlib.contextmanager
    def for_one(cls) -> Iterator[UsageFile | None]:
        """The file for one command, as long as it runs; None where there is no room for one."""
        import tempfile

        try:
            descriptor, path = tempfile.mkstemp(prefix="ordain-usage-")
        except OSError:
            yield None
            return
        try:
            yield cls(descriptor, path)
        finally:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                Path(path).unlink()

    def read(self) -> bytes:
        """What was written to it, up to the bound. What cannot be read was not reported."""
        with contextlib.suppress(OSError):
            return os.pread(self._descriptor, USAGE_BYTES_MAX, 0)
        return b""
