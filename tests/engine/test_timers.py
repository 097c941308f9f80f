"""Timers and clocks: what a retry that is due in an hour waits for when the executor dies, and when the clock is set.

The real clock adapter over a machine whose time passes at once. What is promised: a retry is due at an instant of the
wall clock, which is recorded; within one process the clock is never behind the time that has really passed since it
started, so nobody waits longer than was said.
"""

from __future__ import annotations

import asyncio
from random import Random
from unittest.mock import patch

import pytest

from tests.build import step
from tests.scenario import KIM, Scenario
from tests.simulation.world import Executor, VirtualLoop, World
from tests.twins.workspace import MemoryWriterLock
from tests.words import AttemptEnded, Finished, Retry, WallClock

MINUTE = 60_000
HOUR, DAY = 60 * MINUTE, 24 * 60 * MINUTE
SLICE = 30_000
"""How long a clock that was set forward may go unnoticed."""


class Machine:
    """A plan whose step fails once and is due again in an hour, on a machine whose processes are killed and whose clock
    is set."""

    def __init__(self, policy: Retry | None = None) -> None:
        policy = policy or Retry(max_attempts=3, initial_delay_ms=HOUR)
        self.life = Scenario(step("a", on_failure=policy)).script(a=self.fails_once)
        self.time = World(self.life.plan, Random(0))
        self.tries: list[float] = []

    async def fails_once(self, command):
        self.tries.append(self.time.passed_ms)
        return Finished(duration_ms=1, exit_code=1 if len(self.tries) == 1 else 0)

    def process(self, verb, *, killed_at: int | None = None, clock: tuple[tuple[int, int], ...] = ()) -> None:
        """A process of ours from its start to its end, or killed after so long; the clock is set after so long by so
        much."""
        life, time = self.life, self.time
        life.clock, life.lock = WallClock("boot"), MemoryWriterLock()
        life.app = life.new_app()
        time.executor, time.loop = Executor(), VirtualLoop(time)
        loop = time.loop
        task = loop.create_task(verb(life.app))
        task.add_done_callback(lambda _: loop.stop())
        for after, by in clock:
            loop.call_later(after / 1000, time.set_clock, by)
        if killed_at is not None:
            loop.call_later(killed_at / 1000, loop.stop)
        loop.run_forever()
        assert (killed_at is None) == task.done(), "it did not die as intended"
        life.world.dead = not task.done()
        while rest := asyncio.all_tasks(loop):
            for one in rest:
                one.cancel()
            one.add_done_callback(lambda _: loop.stop())
            loop.run_forever()
        loop.close()
        life.world.new_executor()

    def commit(self, **fate) -> None:
        self.process(lambda app: app.approvals.approve(str(self.life.plan_id), KIM))
        self.process(lambda app: app.runs.commit(str(self.life.plan_id), KIM), **fate)

    def resume(self, **fate) -> None:
        self.process(lambda app: app.runs.resume(None), **fate)

    def waited(self) -> float:
        """How long it really was from the failure to the next attempt."""
        return self.tries[1] - self.tries[0]


@pytest.fixture
def machine():
    made = Machine()
    with (
        patch("ordain.adapters.workspace.clock._wall_ms", made.time.wall_ms),
        patch("ordain.adapters.workspace.clock.passed_ms", made.time.since_boot_ms),
    ):
        made.life.clock = WallClock("boot")
        made.life.app = made.life.new_app()
        made.life.prepare()
        yield made
    made.life.expect(a="passed").check_invariants()


@pytest.mark.parametrize(
    ("killed_at", "down", "waits"),
    [
        (30 * MINUTE, 0, HOUR),
        (30 * MINUTE, 10 * MINUTE, HOUR),
        (1, 59 * MINUTE, HOUR),
        (59 * MINUTE, 0, HOUR),
        (30 * MINUTE, 30 * MINUTE, HOUR),
        (30 * MINUTE, 2 * HOUR, 2 * HOUR + 30 * MINUTE),
        (1, 7 * DAY, 7 * DAY),
    ],
)
def test_a_retry_that_is_due_in_an_hour_survives_the_executor(machine, killed_at, down, waits):
    """It is due when it was, whoever carries it out; when that is over already, at once."""
    machine.commit(killed_at=killed_at)
    machine.time.pass_time(down)
    machine.resume()
    assert machine.waited() == pytest.approx(waits, abs=2)


def test_it_survives_being_killed_again_and_again(machine):
    machine.commit(killed_at=5 * MINUTE)
    for _ in range(10):
        machine.resume(killed_at=5 * MINUTE)
    machine.resume()
    assert machine.waited() == pytest.approx(HOUR, abs=2)


@pytest.mark.parametrize(
    ("clock", "waits", "late"),
    [
        (((10 * MINUTE, -DAY),), HOUR, 0),
        (((10 * MINUTE, -1),), HOUR, 0),
        (((0, -HOUR), (5 * MINUTE, -HOUR), (20 * MINUTE, -DAY)), HOUR, 0),
        (((10 * MINUTE, 30 * MINUTE),), 30 * MINUTE, SLICE),
        (((10 * MINUTE, DAY),), 10 * MINUTE, SLICE),
        (((10 * MINUTE, 30 * MINUTE), (12 * MINUTE, -30 * MINUTE)), HOUR, 0),
        (((10 * MINUTE, -DAY), (20 * MINUTE, DAY)), HOUR, 0),
    ],
)
def test_a_clock_that_is_set_while_it_waits(machine, clock, waits, late):
    """Set back, it waits as long as was said and no longer; set forward, it is due when the clock says so, which is
    noticed within half a minute; set forward and back again, as if nothing had been."""
    machine.commit(clock=clock)
    assert waits - 2 <= machine.waited() <= waits + late + 2


@pytest.mark.part(of=5)
@pytest.mark.parametrize(
    ("down", "by", "waits"),
    [
        (0, 20 * MINUTE, 40 * MINUTE),
        (0, DAY, 30 * MINUTE),
        (0, -10 * MINUTE, HOUR + 10 * MINUTE),
        (0, -DAY, HOUR + DAY),
        (2 * HOUR, -HOUR, 2 * HOUR + 30 * MINUTE),
    ],
)
def test_a_clock_that_is_set_while_nobody_carries_the_run_out(machine, down, by, waits):
    """Another process knows only the wall clock: set back in between, the retry waits that much longer, a day for a
    day. This is how it is, not how anybody would wish it."""
    machine.commit(killed_at=30 * MINUTE)
    machine.time.pass_time(down)
    machine.time.set_clock(by)
    machine.resume()
    assert machine.waited() == pytest.approx(waits, abs=2)


def test_a_retry_never_begins_before_its_instant_by_the_ledgers_own_clock(machine):
    machine.commit(killed_at=30 * MINUTE, clock=((MINUTE, 5 * MINUTE), (2 * MINUTE, -HOUR)))
    machine.time.set_clock(-20 * MINUTE)
    machine.resume()
    failed = next(event for _, event in machine.life.history() if isinstance(event, AttemptEnded))
    began = [at for at, event in machine.life.history() if type(event).__name__ == "AttemptStarted"][1]
    assert failed.not_before is not None and began >= failed.not_before
