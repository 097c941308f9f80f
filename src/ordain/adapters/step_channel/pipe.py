"""The pairs of pipes that a door is made of, and what is said through them.

Every message bears the attempt's token and a name that the client made for itself: what a dead client left in a pipe is
nobody's, and is passed over. Nothing that a client does or leaves undone holds anybody up but itself.
"""

from __future__ import annotations

import asyncio
import hmac
import os
from pathlib import Path
from typing import Any, Literal

import msgspec

from ordain.adapters.step_channel.lines import PipeLines
from ordain.core.task.offer import CallAnswer, Offer
from ordain.core.text.problem import Problem
from ordain.ports.agent import Behind

# --- Door pairs ------------------------------------------------------------------------------------------------------

PAIRS = 8
"""How many clients there can be at once: a host has one, and some start one for each model they ask."""
MESSAGE_MAX = 1 << 20
UNSENT_MAX = 16 << 20
"""How much is held for a client that does not take it."""
AT_ONCE = 4
"""How many calls of one attempt are under way."""
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
        """Let nothing more through."""
        self._lines.close()

    async def close(self) -> None:
        self.shut()
        await self._end_calls()

    async def _end_calls(self) -> None:
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
