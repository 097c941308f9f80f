"""The real `ordain` command: driven at a pseudo-terminal as a person would, or run where there is no terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple

from tests.interfaces.forked import Forked, may_be_forked
from tests.patience import PATIENCE_S, eventually

PLAIN = [sys.executable, "-m", "ordain"]
ORDAIN = PLAIN
CTRL_C, CTRL_D = "\x03", "\x04"

# A terminal becomes a process's controlling one only from inside that process, and forking a test runner that has
# threads is asking for trouble: so a small program takes the terminal and becomes the command.
_TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)


class Ended(NamedTuple):
    """A command that has ended. At a terminal everything arrives in `out`."""

    status: int
    out: str
    err: str = ""


def without_terminal(
    *args: str, cwd: Path, stdin: bytes | None = None, env: Mapping[str, str | None] | None = None
) -> Ended:
    """Run ordain with its output in pipes and nothing (or these bytes) to read. None in `env` unsets a variable."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin or b"")
        given.seek(0)
        child = start(args, cwd=cwd, env=env, stdin=given.fileno(), stdout=out.fileno(), stderr=err.fileno())
        try:
            status = child.wait(PATIENCE_S)
        finally:
            child.kill()
        out.seek(0)
        err.seek(0)
        return Ended(status, out.read().decode(), err.read().decode())


def start(
    args: Sequence[str], *, env: Mapping[str, str | None] | None = None, takes_terminal: bool = False, **how: Any
) -> subprocess.Popen[bytes] | Forked:
    """Begin an ordain command. One that is handed `env`, be it empty, is loaded as Python loads it where that reads any
    of it; every other is forked from a process that has loaded it."""
    merged = _environment(env)
    if env != {} and ORDAIN == PLAIN and may_be_forked(merged):
        return Forked(args, env=merged, takes_terminal=takes_terminal, **how)
    words = [*ORDAIN, *args]
    if takes_terminal:
        words = [sys.executable, "-I", "-S", "-c", _TAKE_TERMINAL, *words]
    return subprocess.Popen(words, env=merged, **how)


def at_terminal(
    *args: str,
    cwd: Path,
    answers: Iterable[tuple[str, str]] = (),
    env: Mapping[str, str | None] | None = None,
    rows: int = 300,
    columns: int = 200,
) -> Ended:
    """Run ordain at a terminal; each time the first text of a pair has appeared, the second is typed."""
    with Terminal(*args, cwd=cwd, env=env, rows=rows, columns=columns) as terminal:
        for expected, answer in answers:
            terminal.expect(expected)
            terminal.type(answer)
        return terminal.end()


class Terminal:
    """One ordain command at a terminal of its own."""

    def __init__(
        self, *args: str, cwd: Path, env: Mapping[str, str | None] | None = None, rows: int = 300, columns: int = 200
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._child = start(
            args,
            cwd=cwd,
            env=env,
            takes_terminal=True,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self._shown = bytearray()
        self._looked_at = 0

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._child.poll() is None:
            self._child.kill()
            self._child.wait()
        os.close(self._master)

    def expect(self, text: str) -> None:
        """Wait until the text has appeared after what was expected before."""
        wanted = text.encode()
        end = time.monotonic() + PATIENCE_S
        while (found := self._shown.find(wanted, self._looked_at)) < 0:
            assert self._read(end), f"{text!r} never appeared in:\n{self._text()}"
        self._looked_at = found + len(wanted)

    def shown_until(self, text: str) -> str:
        """Wait for a text as `expect` does; what has appeared before it."""
        begin = self._looked_at
        self.expect(text)
        return bytes(self._shown[begin : self._looked_at - len(text.encode())]).decode()

    def type(self, line: str) -> None:
        """Type a line, or press one key that ends input or interrupts."""
        keys = line if line in (CTRL_C, CTRL_D) else line + "\r"
        if line == CTRL_C:
            # Python misses a signal that comes just before it waits for input; nobody is as quick as a test.
            eventually(lambda: is_asleep(self._child.pid), "the command waiting for input")
        os.write(self._master, keys.encode())

    def end(self) -> Ended:
        """Wait for the command to end."""
        end = time.monotonic() + PATIENCE_S
        while self._read(end):
            pass
        return Ended(self._child.wait(max(0.1, end - time.monotonic())), self._text())

    def hang_up(self) -> int:
        """Take the terminal away, as when a window is closed, and wait for the command to end; its exit status."""
        os.close(self._master)
        self._master = os.open(os.devnull, os.O_RDONLY)
        return self._child.wait(PATIENCE_S)

    def _read(self, end: float) -> bool:
        """Take what has been written; False when there will be no more, or not in time."""
        ready, _, _ = select.select([self._master], [], [], max(0, end - time.monotonic()))
        try:
            data = os.read(self._master, 65536) if ready else b""
        except OSError:  # the last process has closed the terminal
            return False
        self._shown += data
        return bool(data)

    def _text(self) -> str:
        return bytes(self._shown).decode().replace("\r\n", "\n")


class Background:
    """One ordain command without a terminal that is left to run, to be signalled."""

    def __init__(self, *args: str, cwd: Path, stdin: int = subprocess.DEVNULL) -> None:
        self._child = start(
            args,
            cwd=cwd,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._said, self._printed = bytearray(), bytearray()

    def __enter__(self) -> Background:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._child.poll() is None:
            self._child.kill()
        self._child.communicate()

    @property
    def pid(self) -> int:
        return self._child.pid

    def interrupt(self) -> None:
        self._child.send_signal(signal.SIGINT)

    def expect_said(self, text: str) -> None:
        """Wait until the text has appeared on stderr."""
        self._expect(self._child.stderr, self._said, text)

    def expect_printed(self, text: str) -> None:
        """The same on stdout."""
        self._expect(self._child.stdout, self._printed, text)

    def _expect(self, stream: IO[bytes] | None, taken: bytearray, text: str) -> None:
        assert stream is not None
        end = time.monotonic() + PATIENCE_S
        while text.encode() not in taken:
            ready, _, _ = select.select([stream], [], [], max(0, end - time.monotonic()))
            data = os.read(stream.fileno(), 65536) if ready else b""
            assert data, f"{text!r} never came:\n{taken.decode()}"
            taken += data

    def end(self) -> Ended:
        out, err = self._child.communicate(timeout=PATIENCE_S)
        printed, said = (bytes(taken).decode() for taken in (self._printed + out, self._said + err))
        return Ended(self._child.returncode, printed, said)


def is_asleep(pid: int) -> bool:
    """Whether a process waits for something."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def _environment(changes: Mapping[str, str | None] | None) -> dict[str, str]:
    merged = {**os.environ, **(changes or {})}
    return {name: value for name, value in merged.items() if value is not None}
