"""Pages of a long text at a terminal: forward and back, jumps, search; and which lines were on the screen, which no
other pager tells us. It reads keys and writes text through what it is given."""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import click

_CLEAR = "\x1b[2J\x1b[H"
_ERASE = "\r\x1b[K"
_SEQUENCES = {
    b"[A": "k", b"[B": "j", b"[5~": "b", b"[6~": " ", b"[H": "g", b"[1~": "g", b"[F": "G", b"[4~": "G", b"OA": "k",
    b"OB": "j", b"OH": "g", b"OF": "G",
}  # fmt: skip
"""What arrow keys and their neighbours send after Escape, and which key means the same."""
_LEAVE, _ANSWER = frozenset(["q", "Q", "\x03", "\x04"]), "a"
HELP = (
    "Enter or Space: next screen    b: back a screen    j, k or arrows: one line",
    "g: beginning    G: end    50%: half-way    17s: step 17    17g: line 17",
    "/text: search    n, N: next and previous hit    a: answer now    q: leave",
)
_STEP = re.compile(r"\s*(\d+)\. ")

Layout = Callable[[], tuple[list[tuple[int, str]], int, int]]
"""The rows, each with the number of its line, how many a screen has room for, and its columns; asked again before each
move."""


class Pager:
    """One reading of a text."""

    def __init__(self, layout: Layout, lines: int, read: Callable[[], str], write: Callable[[str], None]) -> None:
        self._layout, self._read, self._write = layout, read, write
        self._rows, self._room, self._columns = layout()
        self._end = 0
        """The row after the last one on the screen."""
        self._seen = bytearray(lines)
        self._sought = ""
        self._told = ""

    def show(self) -> int | None:
        """Let somebody read; how many lines they have not seen when they want to answer, None where they left."""
        self._forward(self._room)
        digits = ""
        while True:
            self._write(self._status(digits))
            key = self._read()
            self._write(_ERASE)
            self._told = ""
            if key in _LEAVE or not key:
                return None
            if key.isdigit():
                digits += key
                continue
            if key == _ANSWER or (key in "\r\n " and self._end >= len(self._rows)):
                return self._seen.count(0)
            self._fit()
            self._move(key, int(digits[:9]) if digits else None)
            digits = ""

    def _move(self, key: str, number: int | None) -> None:
        match key:
            case "\r" | "\n" | " " | "f" if number is None:
                self._forward(self._room)
            case "j":
                self._forward(number or 1)
            case "k" | "b":
                self._jump(self._end - self._room - (number or 1) * (self._room if key == "b" else 1))
            case "g" | "\r" | "\n":
                self._jump((number or 1) - 1)
            case "G":
                self._jump(len(self._rows) if number is None else number - 1)
            case "%":
                self._jump(len(self._rows) * min(number or 0, 100) // 100)
            case "s":
                self._to_step(number or 1)
            case "/":
                self._sought = self._typed() or self._sought
                self._search(1)
            case "n" | "N":
                self._search(1 if key == "n" else -1)
            case "?" | "h":
                self._write("".join(f"{line}\n" for line in HELP))
            case _:
                self._told = "? shows the keys"

    def _forward(self, count: int) -> None:
        """The next rows below those that are there, which scroll away and stay in the terminal's history."""
        self._print(self._end, self._end + count)

    def _jump(self, start: int) -> None:
        start = max(0, min(start, len(self._rows) - self._room))
        self._write(_CLEAR)
        self._print(start, start + self._room)

    def _print(self, start: int, stop: int) -> None:
        self._end = min(stop, len(self._rows))
        for line, row in self._rows[start : self._end]:
            self._seen[line] = 1
            self._write(f"{row}\n")

    def _to_step(self, number: int) -> None:
        numbers = (_STEP.match(click.unstyle(row)) for _, row in self._rows)
        at = next((at for at, found in enumerate(numbers) if found and int(found[1][:9]) == number), None)
        self._jump_to(at, f"no step {number}")

    def _search(self, way: int) -> None:
        """To the next row that has the text, or the one before."""
        top = max(self._end - self._room, 0)
        wanted = self._sought.lower()
        places = range(top + 1, len(self._rows)) if way > 0 else range(top - 1, -1, -1)
        at = next((at for at in places if wanted in click.unstyle(self._rows[at][1]).lower()), None) if wanted else None
        self._jump_to(at, f"no more of: {self._sought}" if wanted else "nothing to search for")

    def _jump_to(self, at: int | None, otherwise: str) -> None:
        if at is None:
            self._told = otherwise
        else:
            self._jump(at)

    def _typed(self) -> str:
        text = ""
        while True:
            self._write(f"{_ERASE}/{text}")
            key = self._read()
            if key in ("", "\r", "\n", "\x03", "\x04", "\x1b"):
                self._write(_ERASE)
                return text if key in ("\r", "\n") else ""
            text = text[:-1] if key in ("\x7f", "\b") else text + key if key.isprintable() else text

    def _fit(self) -> None:
        """Follow a terminal that has another size by now."""
        line = self._rows[max(self._end - self._room, 0)][0]
        rows, room, self._columns = self._layout()
        if room != self._room or len(rows) != len(self._rows):
            self._rows, self._room = rows, room
            start = next(at for at, (number, _) in enumerate(rows) if number >= line)
            self._jump(start)

    def _status(self, digits: str) -> str:
        where = f"-- {self._end:,} of {len(self._rows):,}"
        if digits:
            return f"-- {digits}: s for that step, g line, % percent --"[: self._columns - 1]
        if self._told:
            return f"{where}; {click.unstyle(self._told)[:40]} --"[: self._columns - 1]
        begin = "the end; Enter to answer" if self._end >= len(self._rows) else "Enter for more"
        texts = (
            f"{where}; {begin}, b back, /search, a answer, ? keys, q to leave --",
            f"{where}; {begin}, ? keys, q to leave --",
            f"{where}; Enter, ?, q",
        )
        return next((text for text in texts if len(text) < self._columns), "?")


@contextmanager
def keys() -> Iterator[Callable[[], str]]:
    """What reads one key at a time from the terminal; empty at its end, and `\\x03` for an interrupt."""
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    tty.setcbreak(fd)
    # What was typed before the text was seen is no key.
    termios.tcflush(fd, termios.TCIFLUSH)
    try:
        yield lambda: _key(fd)
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _key(fd: int) -> str:
    sys.stdout.flush()
    try:
        data = os.read(fd, 1)
        if data == b"\x1b" and select.select([fd], [], [], 0.05)[0]:
            return _SEQUENCES.get(os.read(fd, 8), "?")
        while data and data[0] >= 0xC0 and len(data) < 4:  # the rest of a character of several bytes
            try:
                return data.decode()
            except UnicodeDecodeError:
                data += os.read(fd, 1)
    except KeyboardInterrupt:
        return "\x03"
    except OSError:
        return ""
    return data.decode("utf-8", "replace")


def paged(layout: Layout, lines: Sequence[str]) -> int | None:
    """Show a text at the terminal, a screen at a time (`Pager.show`)."""
    with keys() as read:
        return Pager(layout, len(lines), read, lambda text: click.echo(text, nl=False)).show()
