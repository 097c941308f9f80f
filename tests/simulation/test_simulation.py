"""Whole lives from seeds. `SIMULATION_SEED=123 pytest tests/simulation -k this_seed` lives one again, and
`python -m tests.simulation 123` tells it."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.simulation.life import Failed, Life, live

CHUNK = 25
QUICK, LONG = 500, 10_000
SEED = os.environ.get("SIMULATION_SEED")


def lives(first: int) -> Counter[str]:
    counted: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        counted += live(seed).counted
    return counted


@pytest.mark.part(of=20)
@pytest.mark.parametrize("first", range(0, QUICK, CHUNK))
def test_every_life_keeps_every_promise(first):
    lives(first)


@pytest.mark.sweep
@pytest.mark.parametrize("first", range(0, LONG, CHUNK))
def test_sweep(first):
    print(dict(lives(first)))


@pytest.mark.skipif(SEED is None, reason="SIMULATION_SEED says which")
def test_this_seed():
    assert SEED is not None
    print("\n".join(live(int(SEED)).world.trace))


def test_a_seed_tells_everything():
    """The same seed is the same life, to the last byte of its ledger."""
    for seed in range(5):
        one, other = live(seed), live(seed)
        assert one.world.trace == other.world.trace
        assert one.ledger.checkpoint() == other.ledger.checkpoint()


@pytest.mark.slow
def test_lives_are_not_idle():
    """What the promises are about must really happen, or nothing is shown."""
    counted = sum((live(seed).counted for seed in range(QUICK, QUICK + 150)), Counter())
    assert counted["deaths"] >= 30 and counted["completed"] >= 30 and counted["failed"] >= 10
    assert counted["answered happened"] and counted["answered did-not"] and counted["answered skip"]
    assert any(what.startswith("thawed") for what in counted)
    assert counted["waited for a lock"] >= 5
    assert counted["successor"] >= 30 and counted["replaced"] >= 15
    assert counted["unfolded: items"] >= 20 and counted["unfolded: nested"] >= 20 and counted["FallbackEnded"] >= 10
    assert counted["answered done"] >= 5 and counted["answered cannot"] and counted["F_AGENT_CANNOT"]
    assert counted["ConditionFalse"] and counted["PreconditionBroken"] and counted["StepApprovalAsked"]


@pytest.mark.slow("a hundred lives with checks")
def test_checks_are_asked_and_settle_what_they_may():
    counted = sum((live(seed).counted for seed in range(2, 702, 7)), Counter())
    answers = {what.removeprefix("check, "): count for what, count in counted.items() if what.startswith("check, ")}
    assert answers.keys() & {"final: passed", "final: verifying", "final: pending"}, answers
    assert answers.keys() & {"not final: passed", "not final: verifying"}, answers
    assert answers["not final: in_doubt"] >= 5, answers
    assert "not final: pending" not in answers, answers


def test_a_broken_promise_is_told_with_its_seed(monkeypatch):
    def broken(self):
        raise AssertionError("as if")

    monkeypatch.setattr(Life, "_check_files", broken)
    with pytest.raises(Failed, match=r"as if[\s\S]*RunOpened[\s\S]*seed 7; again: python -m tests.simulation 7"):
        live(7)


def test_what_is_taken_over_and_cancelled_at_once_is_recorded_at_the_instant_it_was_folded_at():
    live(302957)
