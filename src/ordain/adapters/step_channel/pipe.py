"""The pairs of pipes that a door is made of, and what is said through them.

Every message bears the attempt's token and a name that the client made for itself: what a dead client left in a pipe is
nobody's, and is passed over. Nothing that a client does or leaves undone holds anybody up but itself.
"""

from __future__ import annotations

import asyncio
import hmac
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec

from ordain.core.task.offer import CallAnswer, Offer
from ordain.core.text.problem import Problem
from ordain.ports.agent import Behind

_CHUNK = 64 << 10
PAIRS = 8
"""How many clients there can be at once: a host has one, and some start one for each model they ask."""
MESSAGE_MAX = 1 << 20
UNSENT_MAX = 16 << 20
"""How much is held for a client that does not take it."""
AT_ONCE = 4
WAITING_MAX = 16
"""How many of one client wait or are under way before nothing more is read from it."""
NONSENSE_MAX = 1000
"""How many lines that mean nothing come through a pair until it is shut for good."""


class ClientMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a client sends."""

    token: str
    session: str
    """The client's own name, which no other has."""
    id: int
    ask: Literal["list", "call", "may", "cancel"]
    """`may` asks about a call that the agent makes itself; `cancel` takes back what has that id."""
    tool: str = ""
    args: dict[str, Any] = {}


class Told(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What it is answered."""

    session: str
    id: int
    answer: CallAnswer | None = None
    offers: tuple[Offer, ...] = ()


def make_pairs(directory: Path, token: str, behind: Behind) -> list[PipePair]:
    """The pairs of a door, in a directory that is made for them."""
    directory.mkdir(mode=0o700)
    slots = asyncio.Semaphore(AT_ONCE)
    pairs: list[PipePair] = []
    try:
        for number in range(PAIRS):
            pairs.append(PipePair(directory, number, token, behind, slots))
    except OSError:  # there are no more descriptors, or no more room
        for pair in pairs:
            pair.shut()
        raise
    return pairs


class PipePair:
    """One pair of pipes, and the client that has it."""

    def __init__(self, directory: Path, number: int, token: str, behind: Behind, slots: asyncio.Semaphore) -> None:
        self._token, self._behind, self._slots = token.encode(), behind, slots
        self._session, self._nonsense = "", 0
        self._calls: dict[tuple[str, int], asyncio.Task[None]] = {}
        (directory / f"{number}.lock").touch(0o600)
        # Both ways at our side: then neither end is ever missing, whether or not a client is there.
        self._lines = PipeLines(
            _pipe(directory / f"{number}.in"),
            _pipe(directory / f"{number}.out"),
            self._line,
            lambda: None,
            line_max=MESSAGE_MAX,
            unsent_max=UNSENT_MAX,
        )

    def shut(self) -> None:
        self._lines.close()

    async def close(self) -> None:
        self.shut()
        tasks = list(self._calls.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _line(self, line: bytes) -> None:
        try:
            asked = msgspec.json.decode(line, type=ClientMessage)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._nonsense += 1
            if self._nonsense > NONSENSE_MAX:
                self._lines.close()
            return
        known = hmac.compare_digest(asked.token.encode(), self._token)
        if known and asked.session != self._session:
            # The client before is dead. What it asked for is nobody's.
            self._session = asked.session
            self._lines.forget_unsent()
            for task in self._calls.values():
                task.cancel()
        key = (asked.session, asked.id)
        if asked.ask == "cancel":
            if known and key in self._calls:
                self._calls[key].cancel()
        elif key not in self._calls:
            self._calls[key] = asyncio.create_task(self._answer(asked, known=known))
            self._calls[key].add_done_callback(lambda _: self._over(key))
            if len(self._calls) >= WAITING_MAX:
                self._lines.stop_listening()

    def _over(self, key: tuple[str, int]) -> None:
        del self._calls[key]
        self._lines.listen()

    async def _answer(self, asked: ClientMessage, *, known: bool) -> None:
        async with self._slots:
            told = Told(session=asked.session, id=asked.id)
            if not known:
                told = msgspec.structs.replace(told, answer=await self._behind.stranger())
            elif asked.ask == "list":
                told = msgspec.structs.replace(told, offers=tuple(self._behind.listed()))
            else:
                told = msgspec.structs.replace(told, answer=await self._served(asked))
        if not known or asked.session == self._session:
            self._lines.send(msgspec.json.encode(told))

    async def _served(self, asked: ClientMessage) -> CallAnswer:
        try:
            answer = self._behind.may if asked.ask == "may" else self._behind.serve
            return await answer(asked.tool, asked.args)
        except Exception as error:  # a bug of ours; whoever called must not wait for ever, nor read all that it says
            return CallAnswer(problem=Problem(code="B_BUG", detail=f"{type(error).__name__}."))


def _pipe(path: Path) -> int:
    os.mkfifo(path, 0o600)
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


# --- Lines -----------------------------------------------------------------------------------------------------------
# How the two sides of a door speak, without ever waiting. A line that is too long is left out whole, and so is what
# nobody takes: neither side can make the other wait, or hold more than a bound.


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
