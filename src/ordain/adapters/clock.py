"""Real time and real randomness."""

from __future__ import annotations

import asyncio
import base64
import secrets
import time

from ordain.core.value import Instant

__all__ = ["RandomIds", "WallClock"]


class WallClock:
    """ports.Clock on the machine's clock."""

    def now(self) -> Instant:
        return Instant(time.time_ns() // 1_000_000)

    async def sleep_until(self, instant: Instant) -> None:
        # In slices, because the wall clock may be set while we sleep.
        while (left := instant - self.now()) > 0:  # noqa: ASYNC110 - it is the clock that is waited for
            await asyncio.sleep(min(left / 1000, 30))


class RandomIds:
    """ports.Ids from the operating system's randomness."""

    def mint(self, prefix: str) -> str:
        return prefix + base64.b32encode(secrets.token_bytes(10)).decode().rstrip("=")
