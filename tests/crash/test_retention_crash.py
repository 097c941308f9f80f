"""A removal of kept outputs killed at every call that changes something on disk: either the ledger says that they were
removed and they are not there, or it says nothing and they are. A seeded tenth of the points here, all in `make sweep`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from tests.crash.process import KIM, Warm
from tests.crash.site import NOT_REACHED, WRITES, Point, Site, calls, go_through, look_at, tenth
from tests.programs import need
from tests.twins.execution import ManualClock
from tests.words import App, Instant, OutputsRemoved, SqliteLedger, open_at_terminal

pytestmark = pytest.mark.slow("commands are disturbed by strace at dozens of points")

DAY = 86_400_000
OLD = b"# Old\n\n1. `echo walrus; seq 3000`\n2. `echo heron; seq 4000`\n"
TODAY = b"# Today\n\n1. `true`\n"
POINTS_AT_LEAST = 10


class RetentionSite(Site):
    """A site where a run of long ago kept something, just before the first plan of the day."""

    def __init__(self, folder: Path, warm: Warm) -> None:
        super().__init__(folder, warm, TODAY)
        os.environ["ORDAIN_HOME"] = str(self.home)
        (self.workspace / "ordain.toml").write_text("[retention]\noutputs_days = 30\n")
        today = open_at_terminal(self.workspace, exact=True)
        past = ManualClock(Instant(time.time_ns() // 1_000_000 - 31 * DAY))
        app = App(msgspec.structs.replace(today.ports, clock=past))

        async def live() -> None:
            made = await app.plans.prepare(OLD, None, KIM)
            await app.runs.approve_and_commit(made.review, KIM)
            await today.approvals.trust(today.approvals.configuration()[1], KIM)
            await app.close()

        asyncio.run(live())
        self.keep()


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    need("strace")
    started = Warm()
    yield started
    started.close()


def removed(site: RetentionSite) -> bool:
    """Whether the outputs were removed; what is said of it and what is there must be one."""
    copy = site.copied()
    said = [seal for one in look_at(copy).events if isinstance(one.event, OutputsRemoved) for seal in one.event.seals]
    ledger = SqliteLedger.open_to_look(copy)
    kept = ledger.kept_sizes()
    asyncio.run(ledger.close())
    assert (len(said), len(kept)) in ((2, 0), (0, 2)), "half of it was done"
    return bool(said)


def kill_points(site: RetentionSite) -> list[Point]:
    found: dict[Point, None] = {}
    for threaded in (False, True):
        site.reset()
        told = site.run("prepare", strace="", threaded=threaded)
        assert told.status == 0 and removed(site), told
        named = (call for call in calls(told.trace) if call.name in WRITES)
        found |= {Point("prepare", one.name, one.number, "signal=SIGKILL", threaded): None for one in named}
    assert len(found) >= POINTS_AT_LEAST
    return list(found)


def disturb(site: RetentionSite, point: Point) -> str:
    site.reset()
    told = site.run("prepare", strace=point.injection, threaded=point.threaded)
    if told.status != -signal.SIGKILL:
        assert told.status == 0 and "INJECTED" not in told.trace, told
        return NOT_REACHED
    ended = "removed" if removed(site) else "not removed"
    assert site.run("prepare").status == 0
    removed(site)
    return ended


@pytest.mark.timeout(600)
def test_killed_at_a_tenth_of_all_points(tmp_path: Path, warm: Warm) -> None:
    site = RetentionSite(tmp_path, warm)
    assert go_through(tenth(kill_points(site), 26), partial(disturb, site)).total() > 0


@pytest.mark.sweep
@pytest.mark.timeout(1800)
def test_killed_at_all_points(tmp_path: Path, warm: Warm) -> None:
    site = RetentionSite(tmp_path, warm)
    ended = go_through(kill_points(site), partial(disturb, site))
    assert ended["removed"] and ended["not removed"], ended
    print(f"\n{ended.total()} points, {dict(ended)}")
