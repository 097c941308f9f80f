"""The ledger of a workspace in which nothing was recorded yet. It can only be looked at, and loads next to nothing."""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterator, Sequence

from ordain.core.ledger import chain
from ordain.core.ledger.summary import PlanSummary
from ordain.core.plan.value import Instant
from ordain.core.run.event import Recorded
from ordain.ports.ledger import Append


class EmptyLedger:
    """`ports.Ledger` without an event, and with a key of its own."""

    def __init__(self) -> None:
        self._key = os.urandom(32)

    async def append(self, at: Instant, *appends: Append) -> tuple[Recorded, ...]:
        raise RuntimeError("This ledger was opened to be looked at.")

    async def grown(self, stream: str, size: int) -> None:
        import asyncio  # most commands only look, and start faster without it

        await asyncio.Event().wait()  # it never will

    def read(self, stream: str, after: int = 0) -> Sequence[Recorded]:
        return ()

    def size(self, stream: str) -> int:
        return 0

    def streams(self, prefix: str) -> Sequence[str]:
        return ()

    def lookup(self, id_prefix: str) -> Sequence[tuple[str, str]]:
        return ()

    def plans(
        self, *, open_only: bool = False, document: str | None = None, newest: int | None = None
    ) -> Sequence[PlanSummary]:
        return ()

    def plan_count(self) -> int:
        return 0

    def checkpoint(self) -> chain.Tip:
        return chain.ORIGIN

    def everything(self) -> Iterator[chain.Entry]:
        return iter(())

    def rebuild(self) -> int:
        return 0

    def seal(self, body: bytes) -> str:
        return "hmac-sha256:" + hmac.digest(self._key, body, "sha256").hex()

    def kept(self, seal: str) -> bytes | None:
        return None

    def has_room(self, size: int) -> bool:
        return True

    def artifact(self, seal: str) -> Iterator[bytes] | None:
        return None

    def let_go(self) -> None:
        """Nothing to let go of."""

    async def close(self) -> None:
        """Nothing to let go of."""
