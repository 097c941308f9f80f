"""Real time and real randomness."""

from __future__ import annotations

import os
import time

from ordain.core.approval.approval import Moment
from ordain.core.plan.value import Instant


class WallClock:
    """ports.Clock on the machine's clock, never behind the time that has really passed since it was made: one that
    is set back must not make a retry of one second wait for a day."""

    def __init__(self, boot_id: str = "") -> None:
        self._boot_id = boot_id
        self._wall, self._passed = _wall_ms(), passed_ms()

    def now(self) -> Instant:
        return Instant(max(_wall_ms(), self._wall + passed_ms() - self._passed))

    def moment(self) -> Moment:
        return Moment(at=self.now(), boot_id=self._boot_id, elapsed_ms=passed_ms())

    async def sleep_until(self, instant: Instant) -> None:
        # In slices, because the wall clock may be set forward, and the machine may sleep, while we do.
        import asyncio  # most commands only look, and start faster without it

        while (left := instant - self.now()) > 0:  # noqa: ASYNC110 - it is the clock that is waited for
            await asyncio.sleep(min(left / 1000, 30))


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


_PASSED = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def passed_ms() -> int:
    """Time that has passed since some moment, including while the machine slept where the system can tell."""
    return time.clock_gettime_ns(_PASSED) // 1_000_000


class RandomIds:
    """ports.Ids from the operating system's randomness."""

    def mint(self, prefix: str) -> str:
        import base64

        return prefix + base64.b32encode(os.urandom(10)).decode().rstrip("=")
