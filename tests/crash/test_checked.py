"""SIGKILL inside opaque steps whose checks are asked in doubt: never twice without a person's word, and nobody is asked
where a check is truthful and final."""

from collections import Counter

import pytest

from tests.crash.checked import STEPS, CheckedLife, stand_in
from tests.crash.process import Warm
from tests.programs import set_programs

DEATHS = 10


def killed(tmp_path, monkeypatch, seed: int, deaths: int) -> Counter[str]:
    """Lives from these seeds on, until executors were killed so often inside a step."""
    set_programs(monkeypatch, bwrap=stand_in(tmp_path))
    warm, counted = Warm(), Counter[str]()
    try:
        for number in range(100):
            if counted["deaths inside"] >= deaths:
                return counted
            folder = tmp_path / str(number)
            folder.mkdir()
            life = CheckedLife(folder, warm)
            try:
                counted += life.live(seed + number, deaths=4)
            finally:
                life.close()
    finally:
        warm.close()
    raise AssertionError(f"executors hardly die: {counted}")


@pytest.mark.slow("a run whose executor is killed four times, with seven commands under way")
def test_killed_a_few_times(tmp_path, monkeypatch):
    counted = killed(tmp_path, monkeypatch, 0, 2)
    assert counted["steps killed"]


@pytest.mark.sweep
@pytest.mark.parametrize("chunk", range(20))
def test_sweep(tmp_path, monkeypatch, chunk):
    """Two hundred deaths in all."""
    counted = killed(tmp_path, monkeypatch, 1000 * (chunk + 1), DEATHS)
    print(dict(counted))
    assert {what.partition(":")[0] for what in counted if ":" in what} <= set(STEPS)
