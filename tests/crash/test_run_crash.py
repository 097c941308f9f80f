"""A run disturbed at every call that matters, while it is carried out and while it is resumed: nothing twice, nothing
lost, nothing passed that did not happen, nothing wedged, nobody left behind.

A seeded tenth of the points here, all of them in `make sweep`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import pytest

from tests.crash.process import Told, Warm
from tests.crash.run import (
    BEGINNINGS,
    RunSite,
    check_end,
    disturb,
    disturb_twice,
    ended_by_itself,
    error_points,
    kill_points,
)
from tests.crash.site import NOT_REACHED, Point, tenth
from tests.programs import need

pytestmark = pytest.mark.slow("runs are disturbed by strace at hundreds of points, and resumed")

SEED = 6
PARTS = 4
"""In how many tests the points are gone through, so that they can be shared out."""
PAIRS = 400
"""How often, in `make sweep`, both a run and its resuming are killed."""
WITH_ERRORS = ("commit", "resume asking", "resume settling")
POINTS_AT_LEAST = 1500
"""Of either kind, all beginnings together."""

T = TypeVar("T")


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    need("strace")
    started = Warm()
    yield started
    started.close()


def go_through(site: RunSite, some: Iterable[T], disturbed: Callable[[T], str]) -> Counter[str]:
    """Disturb the run at each of these points; how it ended, counted. All failures are told, not only the first."""
    ended: Counter[str] = Counter()
    failures = []
    for point in some:
        try:
            ended[disturbed(point)] += 1
        except AssertionError as error:
            failures.append(f"{point}: {error}")
            site.sweep()
    count = ended.total() + len(failures)
    assert not failures, f"{len(failures)} of {count} points:\n" + "\n".join(failures)
    assert ended[NOT_REACHED] <= count // 5 + 1, f"so little was disturbed that nothing is shown: {ended}"
    return ended


def test_the_ledgers_thread_writes_where_that_is_wanted(tmp_path, warm):
    """Points are counted by thread, and who is frozen in one thread must not hold the ledger in another."""
    trace = RunSite(tmp_path, warm).begin("", threaded=True).trace.splitlines()
    thread_of = {name: {line.split()[0] for line in trace if f" {name}(" in line} for name in ("fdatasync", "vfork")}
    assert thread_of["fdatasync"].isdisjoint(thread_of["vfork"])


@pytest.mark.timeout(600)
@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_killed_at_a_tenth_of_all_points(tmp_path, warm, beginning):
    site = RunSite(tmp_path, warm, beginning)
    ended = go_through(site, tenth(kill_points(site), SEED), lambda point: disturb(site, point))
    assert ended["killed"]


@pytest.mark.timeout(600)
def test_killed_and_killed_again_while_it_is_resumed(tmp_path, warm):
    site = RunSite(tmp_path, warm)
    options = kill_points(site)
    ended = go_through(
        site, range(SEED * 1000, SEED * 1000 + PAIRS // 20), lambda seed: disturb_twice(site, options, seed)
    )
    assert ended["killed 2 times"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("beginning", WITH_ERRORS)
def test_a_call_fails_at_a_tenth_of_all_points(tmp_path, warm, beginning):
    site = RunSite(tmp_path, warm, beginning)
    ended = go_through(site, tenth(error_points(site), SEED), lambda point: disturb(site, point))
    assert ended["E_LEDGER_IO"]


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_killed_at_all_points(tmp_path, warm, beginning, part):
    site = RunSite(tmp_path, warm, beginning)
    some = kill_points(site)[part::PARTS]
    told(beginning, part, go_through(site, some, lambda point: disturb(site, point)))


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
def test_killed_and_killed_again(tmp_path, warm, part):
    site = RunSite(tmp_path, warm)
    options = kill_points(site)
    told("twice", part, go_through(site, range(part, PAIRS, PARTS), lambda seed: disturb_twice(site, options, seed)))


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("beginning", WITH_ERRORS)
def test_a_call_fails_at_all_points(tmp_path, warm, beginning, part):
    site = RunSite(tmp_path, warm, beginning)
    some = error_points(site)[part::PARTS]
    told(beginning, part, go_through(site, some, lambda point: disturb(site, point)))


def told(what: str, part: int, ended: Counter[str]) -> None:
    print(f"\n{what}, part {part + 1} of {PARTS}: {ended.total()} points, {dict(ended)}")


def test_there_are_as_many_points_as_is_said(tmp_path, warm):
    kills, errors = PAIRS, 0
    found: list[Point] = []
    for beginning in BEGINNINGS:
        (tmp_path / beginning).mkdir()
        site = RunSite(tmp_path / beginning, warm, beginning)
        found += kill_points(site)
        if beginning in WITH_ERRORS:
            errors += len(error_points(site))
    assert kills + len(found) >= POINTS_AT_LEAST
    assert errors >= POINTS_AT_LEAST
    changed = {"pwrite64", "fdatasync", "fsync", "openat", "renameat", "renameat2", "unlinkat", "mkdirat"}
    assert changed | {"vfork", "pidfd_open", "epoll_wait", "wait4", "kill"} <= {point.call for point in found}


# --- What it would find --------------------------------------------------------------------------------------------


@pytest.fixture
def done(tmp_path, warm) -> tuple[RunSite, Told]:
    """A run that was carried out."""
    site = RunSite(tmp_path, warm)
    end = site.run("finish")
    check_end(site, end)
    return site, end


WRONG = {
    "an opaque effect twice": lambda here: (here / "effects.log").write_text("first\nmessy\nsend\nlast\nsend\n"),
    "an effect that a killed command should not have had": lambda here: (here / "effects.log").write_text("late\n"),
    "an edit twice": lambda here: (here / "settings.txt").write_text("mode = xxone"),
    "a step that passed and did not happen": lambda here: (here / "settings.txt").write_text("mode = one"),
    "a file that was lost on its way": lambda here: (here / "made" / "to.txt").unlink(),
}


@pytest.mark.parametrize("spoil", WRONG.values(), ids=WRONG)
def test_a_world_that_is_not_what_the_ledger_says_is_noticed(done, spoil):
    site, end = done
    spoil(site.workspace)
    with pytest.raises(AssertionError):
        check_end(site, end)


def test_an_effect_that_was_never_begun_is_noticed(tmp_path, warm):
    site = RunSite(tmp_path, warm, "resume asking")
    seen = site.look()
    site.compared(seen)
    with (site.workspace / "effects.log").open("a") as file:
        file.write("last\n")
    with pytest.raises(AssertionError, match="last"):
        site.compared(seen)


def test_a_wrong_word_is_noticed(done):
    site, _ = done
    run = site.compared(site.look())
    ended_by_itself(site, Told(status=0), run)
    ended_by_itself(site, Told(status=2, codes=("E_LEDGER_IO",), details=(f"{site.home} is full",)), None)
    for wrong in (
        Told(status=1, errors=("F_STEP_FAILED",)),
        Told(status=2, codes=("E_LEDGER_IO",), details=("something is full",)),
        Told(status=2, codes=("E_APPROVAL_SPENT",), details=(str(site.home),)),
        Told(status=70, bug="Traceback"),
    ):
        with pytest.raises(AssertionError):
            ended_by_itself(site, wrong, run if wrong.status == 1 else None)


def test_points_that_are_never_reached_are_noticed(tmp_path, warm):
    site = RunSite(tmp_path, warm)
    never = [Point("commit", "pwrite64", 60_000, "error=ENOSPC")] * 3
    with pytest.raises(AssertionError, match="so little was disturbed"):
        go_through(site, never, lambda point: disturb(site, point))
