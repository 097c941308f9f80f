"""The agent's side of a door: takes one of its pairs of pipes and asks through it. It holds no authority."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from ordain.adapters.step_channel.pipe import MESSAGE_MAX, PAIRS, ClientMessage, PipeLines, Told
from ordain.core.task.offer import DOOR, TOKEN, CallAnswer, Offer
from ordain.core.text.problem import Problem, Refused, refuse

TOLD_MAX = 256 << 20
"""How long an answer may be: no longer than whoever carries out the run makes it, which is believed here."""

_UNANSWERED = Problem(code="E_DOOR", detail="The executor of the run did not say whether it may be.")
_Ask = Literal["list", "call", "may"]


class DoorClient:
    """One client of a door, in a running event loop. Raises Refused with E_DOOR where there is none, or no more."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._token, self._session = environment.get(TOKEN, ""), secrets.token_hex(8)
        self._asked, self._waiting = 0, dict[int, asyncio.Future[Told]]()
        self._lines = self._enter(environment.get(DOOR, ""))
        self._lines.send(b"")  # ends what a client before us may have begun to say

    async def offers(self) -> Sequence[Offer]:
        told = await self._ask("list")
        if told.answer is not None and told.answer.problem is not None:
            raise Refused([told.answer.problem])
        return told.offers

    async def call(self, tool: str, args: Mapping[str, Any]) -> CallAnswer:
        return (await self._ask("call", tool, args)).answer or CallAnswer()

    async def may(self, tool: str, args: Mapping[str, Any]) -> CallAnswer:
        return (await self._ask("may", tool, args)).answer or CallAnswer(problem=_UNANSWERED)

    def close(self) -> None:
        self._lines.close()

    async def _ask(self, ask: _Ask, tool: str = "", args: Mapping[str, Any] | None = None) -> Told:
        self._asked += 1
        asked = ClientMessage(
            token=self._token, session=self._session, id=self._asked, ask=ask, tool=tool, args=dict(args or {})
        )
        line = msgspec.json.encode(asked)
        if len(line) > MESSAGE_MAX:
            size = f"{len(line):,} bytes, and no call may be longer than {MESSAGE_MAX:,}"
            fault = Problem(code="E_CALL_ARGUMENTS", detail=f"The call takes {size}.", hints=("Do it in parts.",))
            return Told(session="", id=0, answer=CallAnswer(problem=fault))
        told: asyncio.Future[Told] = asyncio.get_running_loop().create_future()
        self._waiting[asked.id] = told
        try:
            if not self._lines.send(line):
                raise _gone()
            return await told
        except asyncio.CancelledError:
            self._lines.send(msgspec.json.encode(msgspec.structs.replace(asked, ask="cancel", tool="", args={})))
            raise
        finally:
            del self._waiting[asked.id]

    def _line(self, line: bytes) -> None:
        try:
            told = msgspec.json.decode(line, type=Told)
        except msgspec.MsgspecError:
            return  # the rest of what a client before us was told
        waiting = self._waiting.get(told.id) if told.session == self._session else None
        if waiting is not None and not waiting.done():
            waiting.set_result(told)

    def _ended(self) -> None:
        self._lines.close()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(_gone())

    def _enter(self, door: str) -> PipeLines:
        """Take the first pair that nobody has. The lock is held until this process ends."""
        taken = 0
        for number in range(PAIRS) if door else ():
            with contextlib.suppress(OSError):  # a pair that was shut, as all are when the attempt is over
                lock = os.open(Path(door, f"{number}.lock"), os.O_RDONLY | os.O_CLOEXEC)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    os.close(lock)
                    taken += 1
                    continue
                # Without waiting: where nobody listens at the other end, this fails.
                flags, most = os.O_NONBLOCK | os.O_CLOEXEC, PAIRS * MESSAGE_MAX
                writing = os.open(Path(door, f"{number}.in"), os.O_WRONLY | flags)
                reading = os.open(Path(door, f"{number}.out"), os.O_RDONLY | flags)
                return PipeLines(reading, writing, self._line, self._ended, line_max=TOLD_MAX, unsent_max=most)
        if not taken:
            raise _gone()
        raise refuse("E_DOOR", f"All {PAIRS} ways to the tools of this step are taken.", "End one of its clients.")


def _gone() -> Refused:
    return refuse(
        "E_DOOR",
        "There is no step here that is being carried out, or its attempt is over.",
        "`ordain mcp --step` is started by the agent of a step, which is told where the step's tools are.",
    )
