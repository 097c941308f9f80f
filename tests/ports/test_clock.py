"""The contracts of ports.Clock and ports.Ids."""

import asyncio

import pytest

from tests.twins.execution import CountingIds, ManualClock
from tests.words import Instant, RandomIds, WallClock


@pytest.mark.parametrize("clock", [WallClock(), ManualClock()], ids=["wall", "manual"])
def test_sleeping_ends_when_the_instant_has_come(clock):
    until = Instant(clock.now() + 20)
    asyncio.run(clock.sleep_until(until))
    assert clock.now() >= until
    asyncio.run(clock.sleep_until(Instant(until - 1000)))


def test_the_manual_clock_wakes_sleepers_in_order_without_waiting():
    clock, woken = ManualClock(), []

    async def sleeper(hours):
        await clock.sleep_until(Instant(start + hours * 3_600_000))
        woken.append(hours)

    async def all_of_them():
        await asyncio.gather(*(sleeper(hours) for hours in (3, 1, 2)))

    start = clock.now()
    asyncio.run(all_of_them())
    assert woken == [1, 2, 3]
    assert clock.now() == start + 3 * 3_600_000


@pytest.mark.parametrize("ids", [RandomIds(), CountingIds()], ids=["random", "counting"])
def test_no_id_comes_twice(ids):
    minted = [ids.mint("RUN-") for _ in range(1000)]
    assert len(set(minted)) == 1000
    assert all(name.startswith("RUN-") and name.isascii() for name in minted)
