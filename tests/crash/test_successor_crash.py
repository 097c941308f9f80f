"""The start of a successor killed at every call that changes something on disk: the old run stands as it did, or the
new one has begun and the old one is replaced. Nothing twice, nothing lost, no successor without an end of the old run.

A seeded tenth of the points here, all of them in `make sweep`.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.crash.process import Warm
from tests.crash.site import NOT_REACHED, WRITES, Point, Site, calls, go_through, id_of, look_at, tenth
from tests.programs import need
from tests.words import RunState

pytestmark = pytest.mark.slow("commands are disturbed by strace at dozens of points")

PLAN = """\
plan_version: 1
title: Three
steps:
  - id: one
    action: {type: run, command: "echo one >> effects.log"}
  - id: two
    action: {type: run, command: "echo two >> effects.log"}
    verification: {strategy: {type: contract, command: "grep -qx WANTED effects.log"}}
    on_failure: {strategy: escalate}
  - id: last
    action: {type: run, command: "echo three > last.txt"}
    idempotent: true
"""
WRONG, RIGHT = PLAN.replace("WANTED", "too").encode(), PLAN.replace("WANTED", "two").encode()
HEIR = id_of(RIGHT)
POINTS_AT_LEAST = 20


class SuccessorSite(Site):
    """A site with a run that waits and an approved successor, just before that is started."""

    def __init__(self, folder: Path, warm: Warm) -> None:
        super().__init__(folder, warm, WRONG)
        assert [self.run(verb).status for verb in ("prepare", "approve", "commit")] == [0, 0, 3]
        (former,) = self.look()
        self.former = former.run_id
        assert self.run("succeed", self.former, RIGHT.decode()).status == 0
        assert self.run("approve", HEIR).status == 0
        self.keep()

    def look(self) -> tuple[RunState, ...]:
        return look_at(self.copied()).runs  # which audits everything

    def effects(self) -> list[str]:
        return (self.workspace / "effects.log").read_text().split()


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    need("strace")
    started = Warm()
    yield started
    started.close()


def kill_points(site: SuccessorSite) -> list[Point]:
    found: dict[Point, None] = {}
    for threaded in (False, True):
        site.reset()
        told = site.run("commit", HEIR, strace="", threaded=threaded)
        assert told.status == 0, told
        named = (call for call in calls(told.trace) if call.name in WRITES)
        found |= {Point("commit", one.name, one.number, "signal=SIGKILL", threaded): None for one in named}
    assert len(found) >= POINTS_AT_LEAST
    return list(found)


def disturb(site: SuccessorSite, point: Point) -> str:
    site.reset()
    told = site.run("commit", HEIR, strace=point.injection, threaded=point.threaded)
    if told.status != -signal.SIGKILL:
        assert told.status == 0 and "INJECTED" not in told.trace, told
        return NOT_REACHED
    runs = {run.run_id: run for run in site.look()}
    former, heirs = runs[site.former], [run for run in runs.values() if run.run_id != site.former]
    begun = bool(heirs)
    assert former.status == ("replaced" if begun else None), "a successor without an end of its predecessor"
    assert all(heir.continues == site.former for heir in heirs) and len(heirs) <= 1
    told = site.run("resume", heirs[0].run_id) if begun and not heirs[0].finished else site.run("commit", HEIR)
    assert told.status == 0, told
    assert site.effects() == ["one", "two"], "nothing twice, nothing lost"
    assert (site.workspace / "last.txt").read_text() == "three\n"
    assert sorted(str(run.status) for run in site.look()) == ["completed", "replaced"]
    return "started" if begun else "not started"


@pytest.mark.timeout(600)
def test_killed_at_a_tenth_of_all_points(tmp_path: Path, warm: Warm) -> None:
    site = SuccessorSite(tmp_path, warm)
    assert go_through(tenth(kill_points(site), 25), partial(disturb, site)).total() > 0


@pytest.mark.sweep
@pytest.mark.timeout(1800)
def test_killed_at_all_points(tmp_path: Path, warm: Warm) -> None:
    site = SuccessorSite(tmp_path, warm)
    ended = go_through(kill_points(site), partial(disturb, site))
    assert ended["started"] and ended["not started"], ended
    print(f"\n{ended.total()} points, {dict(ended)}")
