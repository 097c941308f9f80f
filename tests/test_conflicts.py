"""Somebody else always writes first: a verb, and a run at work, decides again. After a thousand times it is refused
with a clear problem, and nothing goes on for ever."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.build import step
from tests.scenario import KIM, ROBOT, Scenario
from tests.words import (
    AcquireLock,
    Append,
    Credential,
    Event,
    Instant,
    LockReleased,
    LockTaken,
    PlanPrepared,
    Recorded,
    Refused,
    RunFinished,
    RunId,
    SignalGiven,
    SignatureRefused,
    WorkStopped,
)

KIMS = Credential(name="kim", passphrase="kim's own")
OTHER = RunId("RUN-OTHER")
MAX = 1_000
"""How many conflicts in a row are too many."""

Written = tuple[str, tuple[Event, ...]]


class Overtaken:
    """Writes to a stream before each append of one kind of event, so many times."""

    def __init__(self, life: Scenario, kind: type, other: Callable[[Any, int], Written]) -> None:
        self._real, self._ledger, self._kind, self._other = life.ledger.append, life.ledger, kind, other
        self.left = self.written = 0
        life.ledger.append = self.append  # type: ignore[method-assign]

    async def append(self, at: Instant, *appends: Append) -> tuple[Recorded, ...]:
        found = [event for append in appends for event in append.events if isinstance(event, self._kind)]
        if found and self.left:
            self.left -= 1
            stream, events = self._other(found[0], self.left)
            await self._real(at, Append(stream=stream, expected=self._ledger.size(stream), events=events))
        recorded = await self._real(at, *appends)
        self.written += len(found)
        return recorded


Case = tuple[Overtaken, Callable[[], Any]]


def prepared_again(life: Scenario) -> Callable[[Any, int], Written]:
    """Somebody prepares the same plan once more."""
    stream = life.ledger.streams("lineage/")[0]
    event = life.ledger.read(stream)[0].event
    assert isinstance(event, PlanPrepared)
    return lambda mine, left: (stream, (replace(event, preparation=f"PREP-OTHER-{left}"),))


def preparing(life: Scenario) -> Case:
    life.prepare()
    return Overtaken(life, PlanPrepared, prepared_again(life)), life.prepare


def signalling(life: Scenario) -> Case:
    met = Overtaken(life, SignalGiven, lambda mine, left: ("signal/go", (mine,)))
    return met, lambda: asyncio.run(life.app.signals.give("go", ROBOT))


def guessing(life: Scenario) -> Case:
    """A wrong passphrase, which is recorded whatever else is."""
    asyncio.run(life.app.approvals.enroll(KIMS, KIM))
    life.prepare()
    met = Overtaken(life, SignatureRefused, lambda mine, left: ("workspace", (WorkStopped(by=KIM),)))
    guess = replace(KIMS, passphrase="a guess")

    def guessed() -> None:
        try:
            asyncio.run(life.app.approvals.approve(str(life.plan_id), KIM, credential=guess))
        except Refused as refused:
            if refused.problems[0].code != "E_APPROVAL_SIGNATURE":
                raise

    return met, guessed


def locking(life: Scenario) -> Case:
    """A step of a run takes a lock, which another run takes and gives back each time."""
    life.approve()

    def other(mine: LockTaken, left: int) -> Written:
        lock = mine.lock
        return f"lock/{lock}", (
            LockTaken(lock=lock, run_id=OTHER, step=mine.step),
            LockReleased(lock=lock, run_id=OTHER, reason=""),
        )

    return Overtaken(life, LockTaken, other), life.run


def ending(life: Scenario) -> Case:
    """A run records its end, which its plan's record holds too."""
    life.approve()
    return Overtaken(life, RunFinished, prepared_again(life)), life.run


@pytest.mark.parametrize(
    "case",
    [
        signalling,
        *(pytest.param(case, marks=pytest.mark.slow) for case in (preparing, guessing, locking, ending)),
    ],
)
def test_who_is_always_overtaken_is_refused(case: Callable[[Scenario], Case]) -> None:
    met, work = case(Scenario(step("take", action=AcquireLock(lock_name="db"))))
    before, met.left = met.written, MAX
    with pytest.raises(Refused) as refused:
        work()
    assert refused.value.problems[0].code == "E_LEDGER_CROWDED"
    assert "1,000 times in a row" in refused.value.problems[0].detail
    assert (met.left, met.written) == (0, before)


@pytest.mark.parametrize("case", [preparing, signalling, guessing, locking, ending])
def test_who_is_overtaken_a_few_times_is_recorded_once(case: Callable[[Scenario], Case]) -> None:
    met, work = case(Scenario(step("take", action=AcquireLock(lock_name="db"))))
    before, met.left = met.written, 3
    work()
    assert (met.left, met.written) == (0, before + 1)
