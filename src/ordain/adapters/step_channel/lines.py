"""Lines over a pair of named pipes, without ever waiting: how the two sides of a door speak.

A line that is too long is left out whole, and so is what cannot be sent because nobody takes it: neither side can make
the other hold more than a bound, or wait.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

_CHUNK = 64 << 10


class PipeLines:
    """One side: `line` is told every line that comes, `ended` that no more will. Both descriptors are ours to close."""

    def __init__(
        self,
        reading: int,
        writing: int,
        line: Callable[[bytes], None],
        ended: Callable[[], None],
        *,
        line_max: int,
        unsent_max: int,
    ) -> None:
        self._reading, self._writing = reading, writing
        self._line, self._ended = line, ended
        self._line_max, self._unsent_max = line_max, unsent_max
        self._read, self._skipping = bytearray(), False
        self._unsent = bytearray()
        self._loop = asyncio.get_running_loop()
        self._open, self._listening = True, False
        self.listen()

    def listen(self) -> None:
        """Take what comes, from here on."""
        if self._open and not self._listening:
            self._listening = True
            self._loop.add_reader(self._reading, self._readable)

    def stop_listening(self) -> None:
        """Take nothing for now: whoever sends has to wait."""
        if self._listening:
            self._listening = False
            self._loop.remove_reader(self._reading)

    def send(self, line: bytes) -> bool:
        """Send a line as soon as it is taken; whether there was room for it."""
        if not self._open or len(self._unsent) + len(line) > self._unsent_max:
            return False
        if not self._unsent:
            self._loop.add_writer(self._writing, self._writable)
        self._unsent += line + b"\n"
        return True

    def forget_unsent(self) -> None:
        """Send nothing of what nobody has taken yet; what was begun ends as a line that means nothing."""
        if self._unsent:
            self._unsent = bytearray(b"\n")

    def close(self) -> None:
        if self._open:
            self.stop_listening()
            self._open = False
            if self._unsent:
                self._loop.remove_writer(self._writing)
            os.close(self._reading)
            os.close(self._writing)

    def _readable(self) -> None:
        try:
            data = os.read(self._reading, _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self.stop_listening()
            self._ended()
            return
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._take(line)
            whole, self._read = bytes(self._read), bytearray()
            if not self._skipping and self._open:
                self._line(whole)
            self._skipping = False
        self._take(rest)

    def _take(self, part: bytes) -> None:
        """More of the line that is coming. Of one that is too long nothing is kept, and it counts as empty ones."""
        self._read += part
        if len(self._read) > self._line_max:
            self._read.clear()
            self._skipping = True
            self._line(b"")

    def _writable(self) -> None:
        try:
            sent = os.write(self._writing, self._unsent[:_CHUNK])
        except BlockingIOError:
            return
        except OSError:  # whoever listened is gone
            self._loop.remove_writer(self._writing)
            self._unsent.clear()
            self._ended()
            return
        del self._unsent[:sent]
        if not self._unsent:
            self._loop.remove_writer(self._writing)
