"""How long a test waits for what must happen, in one place.

Nothing here measures speed: a wait ends as soon as what is waited for is there, and its bound only keeps a test that is
broken from hanging. On a machine that is slower or busier, `ORDAIN_TEST_PATIENCE=3` makes every bound three times as
long.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import TypeVar

import pytest

__all__ = ["PATIENCE_S", "eventually", "eventually_in_loop", "hang_guard", "let_pass", "let_pass_in_loop", "patience"]

T = TypeVar("T")

SCALE = float(os.environ.get("ORDAIN_TEST_PATIENCE", "1"))  # read once: every test has a clean environment
PATIENCE_S = 60 * SCALE
_LOOK_EVERY_S = 0.01

# For tests of what must take bounded time: without the bound these would take hours. How fast it is, `bench/` says.
hang_guard = pytest.mark.timeout(60 * SCALE)


def patience(seconds: float) -> float:
    """A bound of one's own, longer where the machine is slower."""
    return seconds * SCALE


def eventually(condition: Callable[[], T], why: str = "it", within_s: float = PATIENCE_S) -> T:
    """Look again and again until the condition is true; what it says then."""
    end = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < end, f"{why} never came true"
        time.sleep(_LOOK_EVERY_S)
    return found


async def eventually_in_loop(
    condition: Callable[[], T], why: str = "it", within_s: float = PATIENCE_S, *, every_s: float = _LOOK_EVERY_S
) -> T:
    """The same where others must go on in the event loop meanwhile; with `every_s=0` after each turn of it."""
    end = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < end, f"{why} never came true"
        await asyncio.sleep(every_s)
    return found


def let_pass(seconds: float) -> None:
    """Give what must not happen the time to happen. The only fixed wait: nothing reports nothing."""
    time.sleep(patience(seconds))


async def let_pass_in_loop(seconds: float) -> None:
    """The same, where others go on in the event loop meanwhile."""
    await asyncio.sleep(patience(seconds))
