"""Executors that are killed or frozen at seeded moments of a run, while another one takes it over.

One that is frozen and keeps its locks is ended by whoever takes over. One that has lost them (their files were deleted)
is not known to anybody; then only fencing stands between the two. Such a one may hold an effect in its hands: recorded
as begun, not yet there, and in no process of its own that could be found and killed. Nobody can take that from it; it
happens when the executor is thawed. Everything else must not.
"""

from __future__ import annotations

import random
import statistics
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.crash import world
from tests.crash.process import Told, Verb, Warm
from tests.crash.run import RunSite, check_end, kill_points
from tests.crash.site import NOT_REACHED, Point, Seen
from tests.programs import need
from tests.words import ExecutorStarted, StepState, all_processes, mark_of

pytestmark = pytest.mark.slow("executors are frozen by strace, and others wait until they may take over")

SEEDS = 333
"""How many executors are struck in `make sweep`, each way."""
PARTS = 3
WAYS = ("killed", "frozen", "frozen without locks")
WRITING = {"pwrite64", "fdatasync", "ftruncate", "write", "unlink"}
"""Who is frozen in the middle of writing to the ledger, or of closing it, keeps everybody else from writing until it is
thawed or ended."""
FENCED = {"E_FENCED", "F_RUN_STOPPED"}
NOT_STARTED = {"E_RUN_OPEN"}


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    need("strace")
    started = Warm()
    yield started
    started.close()


@pytest.fixture(scope="module")
def other(warm) -> Iterator[Warm]:
    started = Warm()
    yield started
    started.close()


def moments(site: RunSite, way: str) -> list[Point]:
    """Calls at which an executor can be struck so that another one can take over."""
    found = [point for point in kill_points(site) if not point.threaded]
    return [point for point in found if point.call not in WRITING] if way == "frozen without locks" else found


def strike(site: RunSite, other: Warm, point: Point, way: str) -> tuple[str, int | None]:
    """Freeze or kill an executor, have another one take over and finish, thaw the first; how the first one ended, and
    after how many milliseconds the other one had taken over."""
    site.reset()
    signal = "SIGKILL" if way == "killed" else "SIGSTOP"
    first = site.start("commit", strace=f"-e inject={point.call}:signal={signal}:when={point.number}")
    struck = first.end().status == -9 if way == "killed" else first.wait_until_stopped()
    if not struck:
        if not first.ended:
            first.end()
        check_end(site, site.run("finish"))
        return NOT_REACHED, None
    begun = site.look()
    in_hand = in_its_hands(begun, site)
    asked_at = time.time_ns() // 1_000_000
    if way == "frozen without locks":
        site.lose_locks()
    elif way == "frozen":
        _end_it(site, other, first, begun)
    end = site.run("finish", warm=other)
    check_end(site, end)
    assert end.status == 0, end
    seen = site.look()
    took = taken_over_at(seen, len(begun.events), asked_at)
    if way != "frozen without locks":
        return way, took
    first.go_on()
    told = first.end()
    check_thawed(told, begun)
    assert site.look().events == seen.events, "it has written something"
    assert world.leftovers(str(end.run)) == [], "orphans"
    found = world.times(site.workspace)
    twice = {step for step, count in found.items() if count != 1}
    assert twice <= in_hand, f"{twice} happened twice or is undone, and it had {in_hand} in its hands"
    return ("did what it had in its hands" if twice else told.codes[0] if told.codes else "done"), took


def _end_it(site: RunSite, other: Warm, first: Verb, begun: Seen) -> None:
    """End an executor that is frozen and keeps its locks, by taking its run over where there is one."""
    runs = [state for state in begun.runs if not state.finished]
    if runs:
        told = site.run("take over", runs[0].run_id, warm=other)
        if told.codes == ("E_RUN_NOT_FOUND",):
            first.kill()  # what starts the run is in the file and not committed: nobody else sees it yet
        else:
            assert not told.bug and told.status in (0, 3), told
    else:
        first.kill()  # a committer that has not started anything, or an executor with nothing left to do
    assert first.end().status == -9


def in_its_hands(begun: Seen, site: RunSite) -> set[str]:
    """Steps that were begun and whose effect is neither there nor in a process of its own."""
    found, hands = world.times(site.workspace), set()
    marks = [mark for pid in all_processes() if (mark := mark_of(pid)) is not None]
    for state in begun.runs:
        for step in state.active:
            at_work = any(f"/{state.run_id}/{step}/" in mark for mark in marks)
            if state.steps[step].state is StepState.RUNNING and not at_work and not found.get(step):
                hands.add(str(step))
    # A whole file that is written anew undoes what was edited in it since.
    return hands | ({"edit"} if "write" in hands else set())


def check_thawed(told: Told, begun: Seen) -> None:
    """Who was frozen is refused when it is thawed, unless all was recorded before."""
    assert not told.bug, told.bug
    if told.status == 0:
        assert not begun.runs or begun.runs[0].finished, "it says that it has done what another one did"
        return
    assert told.codes and set(told.codes) <= (FENCED if begun.runs else NOT_STARTED), told


def taken_over_at(seen: Seen, known: int, asked_at: int) -> int | None:
    """How long after it was asked to the next executor had the run; None where the run had ended already."""
    started = [one.at for one in seen.events[known:] if isinstance(one.event, ExecutorStarted)]
    return started[0] - asked_at if started else None


def go_through(site: RunSite, other: Warm, way: str, seeds: range) -> tuple[Counter[str], list[int]]:
    options = moments(site, way)
    ended: Counter[str] = Counter()
    took: list[int] = []
    for seed in seeds:
        point = random.Random(seed).choice(options)
        try:
            how, after = strike(site, other, point, way)
        except AssertionError as error:
            site.sweep()
            raise AssertionError(f"seed {seed}, {point}: {error}") from error
        ended[how] += 1
        took += [after] if after is not None else []
    assert ended[NOT_REACHED] <= len(seeds) // 2, ended
    return ended, took


@pytest.mark.parametrize("way", WAYS)
def test_another_executor_takes_over(tmp_path, warm, other, way):
    ended, took = go_through(RunSite(tmp_path, warm), other, way, range(10))
    assert took, ended


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("way", WAYS)
def test_another_executor_takes_over_often(tmp_path, warm, other, way, part):
    ended, took = go_through(RunSite(tmp_path, warm), other, way, range(100 + part, 100 + SEEDS, PARTS))
    print(f"\n{way}, part {part + 1} of {PARTS}: {dict(ended)}; taken over after {statistics.median(took)} ms,", end="")
    print(f" at most {max(took)} ms")


def test_who_was_frozen_between_opening_a_run_and_beginning_with_it_is_refused(tmp_path, warm, other):
    writing_our_copy = Point("commit", "fchmod", 1, "")
    how, _ = strike(RunSite(tmp_path, warm), other, writing_our_copy, "frozen without locks")
    assert how == "E_FENCED"


def test_who_is_frozen_while_it_holds_the_lock_is_not_taken_over(tmp_path, warm, other):
    site = RunSite(tmp_path, warm)
    first = site.start("commit", strace="-e inject=vfork:signal=SIGSTOP:when=1")
    assert first.wait_until_stopped()
    told = site.run("resume", site.look().runs[0].run_id, warm=other)
    assert (told.status, told.codes) == (2, ("E_RUN_BUSY",))
    first.go_on()
    assert first.end().status == 0
    check_end(site, site.run("finish"))
