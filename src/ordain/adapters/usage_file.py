"""The file in which a command may report what it uses: private, made for one attempt, gone after it.

It is read through the descriptor that it was made with, so nobody can have us read another file, and no further than a
bound. Where none can be made, the command is told of none and reports nothing.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["USAGE", "USAGE_BYTES_MAX", "UsageFile"]

USAGE = "ORDAIN_USAGE"
"""The variable that names it."""
USAGE_BYTES_MAX = 65536


class UsageFile:
    """One such file."""

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor, self.path = descriptor, path

    @classmethod
    @contextlib.contextmanager
    def for_one(cls) -> Iterator[UsageFile | None]:
        """The file for one command, as long as it runs; None where there is no room for one."""
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
        """What was written to it, up to the bound; the line that is cut there is none. What cannot be read was not
        reported: the command itself has come to its end, and that is what counts."""
        try:
            return os.pread(self._descriptor, USAGE_BYTES_MAX, 0)
        except OSError:
            return b""
