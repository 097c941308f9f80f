"""Many processes at the gate at once: one approval starts one run, nothing recorded is lost, nothing is unreadable."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.crowd import SHARED_EVERY, Crowd
from tests.crash.gate import (
    AFTER,
    PLAN_ID,
    GateSite,
    opening_before_the_append,
)
from tests.crash.process import KIM, Told, Warm
from tests.crash.site import look_at
from tests.programs import need
from tests.words import ApprovalGiven, open_at_terminal, shelf_path

pytestmark = pytest.mark.slow("crowds of processes, some of them frozen by strace")

CROWD = 100
WRITERS, READERS = 8, 32


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    started = Warm()
    yield started
    started.close()


@pytest.fixture(scope="module")
def crowd() -> Iterator[Crowd]:
    started = Crowd(CROWD)
    yield started
    started.close()


# --- One approval --------------------------------------------------------------------------------------------------


def race(site: GateSite, crowd: Crowd, *, one_lock: bool = True, prepares: bool = False) -> Counter[str]:
    """All commit the same plan at the same moment. Exactly one run may come of it; what the others were told, and
    how often one came between another's look and its append (`conflicts`)."""
    site.reset()
    where = {"home": str(site.home), "workspace": str(site.workspace)}
    locks = [None if one_lock else str(site.home / f"lock-{number}") for number in range(CROWD)]
    for directory in filter(None, locks):
        Path(directory).mkdir(exist_ok=True)
    crowd.start([{"task": "commit", "plan": PLAN_ID, "lock": lock, "prepares": prepares, **where} for lock in locks])
    told = crowd.end(range(CROWD))
    bugs = [one["bug"] for one in told if "bug" in one]
    assert not bugs, bugs[0]
    statuses = Counter(one["status"] for one in told)
    assert statuses[0] >= 1 and set(statuses) <= {0, 2, 130}, Counter(map(str, told))
    assert site.effects() == 1, "a second run"
    assert len({one["run"] for one in told if one["status"] != 2}) == 1, "told of two runs"
    assert prepares or site.look().appends == AFTER["commit"]
    found = Counter(one["codes"][0] for one in told if one["status"] == 2)
    found["conflicts"] = sum(one["conflicts"] for one in told)
    return found


REFUSALS = {"E_WORKSPACE_BUSY"}
"""Somebody holds the workspace; all others are told of the one run."""
REFUSALS_WITHOUT_A_LOCK: set[str] = set()


def test_a_hundred_commit_one_preparation(tmp_path, warm, crowd):
    site = GateSite(tmp_path, warm, "commit")
    for _ in range(3):
        told = race(site, crowd)
        assert told.pop("conflicts") == 0, "two were let in at the same time"
        assert set(told) <= REFUSALS


def test_without_a_lock_in_common_the_ledger_alone_lets_one_through(tmp_path, warm, crowd):
    """As on a file system whose locks do not reach all who use it: what is spent is spent in the ledger."""
    site = GateSite(tmp_path, warm, "commit")
    told: Counter[str] = Counter()
    for _ in range(3):
        told += race(site, crowd, one_lock=False)
    assert told.pop("conflicts", 0), "nobody came between another's look and its append: the race was none"
    assert set(told) <= REFUSALS_WITHOUT_A_LOCK


def test_the_race_notices_a_second_run(tmp_path, warm, crowd):
    """The negative control: with two approvals and two preparations two runs are right, and the race must say that it
    saw them."""
    site = GateSite(tmp_path, warm, "commit", approvals=2)
    with pytest.raises(AssertionError, match="a second run"):
        for _ in range(20):
            race(site, crowd, one_lock=False, prepares=True)


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("one_lock", [True, False])
def test_a_hundred_commit_one_approval_two_hundred_times(tmp_path, warm, crowd, one_lock):
    site = GateSite(tmp_path, warm, "commit")
    told: Counter[str] = Counter()
    for _ in range(200):
        told += race(site, crowd, one_lock=one_lock)
    print(f"\n200 rounds of {CROWD}, {'one lock' if one_lock else 'no lock in common'}: {dict(told)}")
    assert (told.pop("conflicts", 0) == 0) == one_lock
    assert set(told) <= (REFUSALS if one_lock else REFUSALS_WITHOUT_A_LOCK)
    assert told.total() <= 200 * (CROWD - 1)


# --- Many updates --------------------------------------------------------------------------------------------------


def updates(folder: Path, monkeypatch: pytest.MonkeyPatch, times: int, readers: int) -> dict[str, int]:
    """Processes that approve and revoke in one ledger, others that read meanwhile; every event is accounted for."""
    workspace, home, done = folder / "ws", folder / "state", folder / "done"
    workspace.mkdir()
    monkeypatch.setenv("ORDAIN_HOME", str(home))

    async def prepared() -> list[str]:
        app = open_at_terminal(workspace, exact=True)
        found = [
            await app.plans.prepare(f"# {n}\n\n1. `true {n}`\n".encode(), f"{n}.md", KIM) for n in range(WRITERS + 1)
        ]
        await app.close()
        return [one.review.plan_id for one in found]

    *own, shared = asyncio.run(prepared())
    crowd = Crowd(WRITERS + readers)
    where = {"home": str(home), "workspace": str(workspace)}
    tasks: list[dict[str, Any]] = [
        {"task": "update", "own": one, "shared": shared, "times": times, **where} for one in own
    ]
    tasks += [{"task": "read", "until": str(done), **where}] * readers
    began = time.monotonic()
    crowd.start(tasks)
    written = crowd.end(range(WRITERS))
    took = time.monotonic() - began
    done.touch()
    read = crowd.end(range(WRITERS, WRITERS + readers))
    crowd.close()
    for one in (*written, *read):
        assert one["status"] == 0, one.get("bug", one)
    events = look_at(shelf_path(home, workspace) / "ledger.db").events
    assert len(events) == 1 + (WRITERS + 1) + WRITERS * times, "an update was lost, or is there twice"
    given = [one.event.approval.approval_id for one in events if isinstance(one.event, ApprovalGiven)]
    assert sorted(given) == sorted(approval for one in written for approval in one["given"])
    by_stream = Counter(one.stream for one in events if one.stream.startswith("lineage/"))
    shared_times = times // SHARED_EVERY
    assert sorted(by_stream.values()) == sorted([1 + times - shared_times] * WRITERS + [1 + WRITERS * shared_times])
    return {
        "updates": WRITERS * times,
        "retries": sum(one["retries"] for one in written),
        "looks": sum(one["looks"] for one in read),
        "ms": round(took * 1000),
    }


def test_eight_processes_update_one_ledger_while_others_read(tmp_path, monkeypatch):
    figures = updates(tmp_path, monkeypatch, times=20, readers=4)
    assert figures["looks"]


@pytest.mark.sweep
@pytest.mark.timeout(1800)
def test_eight_processes_update_five_hundred_times_while_thirty_two_read(tmp_path, monkeypatch):
    figures = updates(tmp_path, monkeypatch, times=500, readers=READERS)
    print(f"\n{WRITERS} × 500 updates, {READERS} readers: {figures}")
    assert figures["looks"] >= READERS


# --- A committer that is frozen ------------------------------------------------------------------------------------


class Frozen:
    """A commit that was stopped after all its checks, right before it would spend the approval."""

    def __init__(self, folder: Path, warm: Warm) -> None:
        need("strace")
        self.site = GateSite(folder, warm, "commit")
        number = opening_before_the_append(self.site)
        self.site.reset()
        self.verb = self.site.start("commit", strace=f"-e inject=openat:signal=SIGSTOP:when={number}")
        assert self.verb.wait_until_stopped(), "it has ended"
        assert self.site.look().appends == AFTER["approve"], "it has spent the approval already"

    def thaw(self) -> Told:
        self.verb.go_on()
        return self.verb.end()


@pytest.fixture
def other() -> Iterator[Warm]:
    started = Warm()
    yield started
    started.close()


def test_who_comes_while_a_committer_is_frozen_is_told_so_and_the_frozen_one_goes_on(tmp_path, warm, other):
    frozen = Frozen(tmp_path, warm)
    told = frozen.site.run("commit", warm=other)
    assert (told.status, told.codes) == (2, ("E_WORKSPACE_BUSY",))
    assert frozen.site.effects() == 0
    assert frozen.thaw().status == 0
    assert frozen.site.effects() == 1
    assert frozen.site.look().appends == AFTER["commit"]


def test_a_committer_that_lost_its_lock_while_it_was_frozen_starts_nothing(tmp_path, warm, other):
    frozen = Frozen(tmp_path, warm)
    frozen.site.lock.unlink()
    assert frozen.site.run("commit", warm=other).status == 0
    assert frozen.site.effects() == 1
    assert frozen.thaw().status == 0  # it tells of the other's run
    assert frozen.site.effects() == 1
    assert frozen.site.look().appends == AFTER["commit"]


def test_a_committer_that_is_killed_while_it_is_frozen_has_spent_nothing(tmp_path, warm, other):
    frozen = Frozen(tmp_path, warm)
    frozen.verb.kill()
    assert frozen.verb.end().status == -9
    assert frozen.site.look().appends == AFTER["approve"]
    assert frozen.site.run("commit", warm=other).status == 0
    assert frozen.site.effects() == 1
