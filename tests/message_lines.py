"""Messages that a process writes, a line of JSON each, taken one after another."""

from __future__ import annotations

import json
import os
import select
import time
from typing import IO, Any


class MessageLines:
    """What comes from a stream, however it is cut into pieces."""

    def __init__(self, stream: IO[bytes] | None, patience_s: float) -> None:
        assert stream is not None
        self._stream, self._patience_s = stream, patience_s
        self._read = bytearray()

    def next(self) -> dict[str, Any]:
        until = time.monotonic() + self._patience_s
        while b"\n" not in self._read:
            readable, _, _ = select.select([self._stream], [], [], max(until - time.monotonic(), 0))
            assert readable, "nothing was said"
            data = os.read(self._stream.fileno(), 1 << 20)
            assert data, "it has ended"
            self._read += data
        line, _, rest = bytes(self._read).partition(b"\n")
        self._read = bytearray(rest)
        message = json.loads(line)
        assert isinstance(message, dict)
        return message
