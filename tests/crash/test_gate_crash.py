"""The gate disturbed at every call that changes something on disk: no half state, and the command can be repeated.

A seeded tenth of the points here, all of them in `make sweep`.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.gate import (
    AFTER,
    BEFORE,
    PLAN,
    PLAN_ID,
    VERBS,
    GateSite,
    Standing,
    disturb,
    ended_by_itself,
    points,
    repeat,
)
from tests.crash.process import KIM, Told, Warm
from tests.crash.site import NOT_REACHED, PRIVATE, Point, tenth
from tests.programs import need
from tests.words import Append, PlanId, Refused, RunId, RunStarted, SqliteLedger, open_at_terminal

pytestmark = pytest.mark.slow("commands are disturbed by strace at hundreds of points")

PARTS = 4
"""In how many tests the points of a verb are gone through, so that they can be shared out."""
POINTS_AT_LEAST = 500


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    need("strace")
    started = Warm()
    yield started
    started.close()


def go_through(site: GateSite, some: list[Point]) -> Counter[str]:
    """Disturb the verb at each of these points; how it ended, counted. All failures are told, not only the first."""
    ended: Counter[str] = Counter()
    failures = []
    for point in some:
        try:
            ended[disturb(site, point)] += 1
        except AssertionError as error:
            failures.append(f"{point}: {error}")
    assert not failures, f"{len(failures)} of {len(some)} points:\n" + "\n".join(failures)
    assert ended[NOT_REACHED] <= len(some) // 10, f"so little was disturbed that nothing is shown: {ended}"
    return ended


@pytest.mark.timeout(600)
@pytest.mark.parametrize("verb", VERBS)
def test_a_tenth_of_all_points(tmp_path, warm, verb):
    site = GateSite(tmp_path, warm, verb)
    ended = go_through(site, tenth(points(site, verb), seed=5))
    assert ended["killed"] and ended["E_LEDGER_IO"], "it was not both killed and refused"


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("verb", VERBS)
def test_all_points(tmp_path, warm, verb, part):
    site = GateSite(tmp_path, warm, verb)
    some = points(site, verb)[part::PARTS]
    print(f"\n{verb}, part {part + 1} of {PARTS}: {len(some)} points, {dict(go_through(site, some))}")


def test_there_are_as_many_points_as_is_said(tmp_path, warm):
    found: list[Point] = []
    for verb in VERBS:
        (tmp_path / verb).mkdir()
        found += points(GateSite(tmp_path / verb, warm, verb), verb)
    assert len(set(found)) == len(found) >= POINTS_AT_LEAST
    for fault in ("signal=SIGKILL", "error=ENOSPC", "error=EIO"):
        for verb in VERBS:
            assert any((point.verb, point.fault) == (verb, fault) for point in found), (verb, fault)
    assert {"pwrite64", "fdatasync", "fsync", "openat", "link", "renameat", "unlink"} <= {one.call for one in found}


# --- What it would find --------------------------------------------------------------------------------------------


@pytest.fixture
def done(tmp_path, warm) -> GateSite:
    """A plan whose run has been carried out."""
    site = GateSite(tmp_path, warm, "commit")
    assert site.run("commit").status == 0
    assert site.look().appends == AFTER["commit"]
    return site


HALVES = {
    "a run that no approval was spent on": "DELETE FROM events WHERE CAST(body AS TEXT) LIKE '%run_started%'",
    "an approval that was spent on no run": "DELETE FROM events WHERE position > 4",
    "an event in the middle": "DELETE FROM events WHERE position = 7",
    "a plan that is shown otherwise": "UPDATE plans SET body = CAST(replace(body, 'completed', 'failed') AS BLOB)",
}


@pytest.mark.parametrize("statement", HALVES.values(), ids=HALVES)
def test_a_half_state_is_noticed(done, statement):
    database = sqlite3.connect(done.ledger)
    with database:
        assert database.execute(statement).rowcount >= 1
    database.close()
    with pytest.raises((AssertionError, Refused)):
        done.look()


def test_an_approval_spent_without_its_run_is_noticed_where_every_chain_is_whole(tmp_path, warm):
    """What two transactions in place of one would leave."""
    site = GateSite(tmp_path, warm, "commit")
    ledger = SqliteLedger.open(site.ledger)
    (summary,) = ledger.plans()
    (approval_id,) = summary.state.permissions
    started = RunStarted(run_id=RunId("RUN-A"), plan_id=PlanId(PLAN_ID), approval_id=approval_id, by=KIM)
    asyncio.run(ledger.append(summary.state.changed_at, Append(stream=summary.stream, expected=2, events=(started,))))
    asyncio.run(ledger.close())
    with pytest.raises(AssertionError):
        site.look()


def test_an_effect_that_happened_twice_is_noticed(done):
    with (done.workspace / "effects.log").open("a") as file:
        file.write("once\n")
    with pytest.raises(AssertionError):
        repeat(done, "commit", done.look())


def test_a_wrong_word_is_noticed():
    point = Point("approve", "pwrite64", 1, "error=ENOSPC")
    approved = Standing(kinds=("workspace_opened", "plan_prepared", "approval_given"))
    proposed = Standing(kinds=approved.kinds[:2])
    assert (approved.appends, proposed.appends) == (AFTER["approve"], BEFORE["approve"])
    ended_by_itself(Told(status=0), approved, point)
    ended_by_itself(Told(status=2, codes=("E_LEDGER_IO",)), proposed, point)
    for told, seen in (
        (Told(status=0), proposed),
        (Told(status=2, codes=("E_LEDGER_IO",)), approved),
        (Told(status=2, codes=("E_APPROVAL_SPENT",)), proposed),
        (Told(status=70, bug="Traceback"), proposed),
    ):
        with pytest.raises(AssertionError):
            ended_by_itself(told, seen, point)


def test_points_that_are_never_reached_are_noticed(tmp_path, warm):
    site = GateSite(tmp_path, warm, "approve")
    with pytest.raises(AssertionError, match="so little was disturbed"):
        go_through(site, [Point("approve", "pwrite64", 60_000, "error=ENOSPC")])


# --- Where state is kept -------------------------------------------------------------------------------------------


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022, 0o027, 0o077])
def test_what_is_recorded_is_private_whatever_the_umask(tmp_path, monkeypatch, umask, mask):
    workspace, home = tmp_path / "ws", tmp_path / "deep" / "state"
    workspace.mkdir()
    monkeypatch.setenv("ORDAIN_HOME", str(home))
    os.umask(mask)

    async def lived() -> set[tuple[str, int]]:
        app = open_at_terminal(workspace, exact=True)
        plan = (await app.plans.prepare(PLAN, None, KIM)).review.plan_id
        await app.approvals.approve(plan, KIM)
        assert (await app.runs.commit(plan, KIM)).status == "completed"
        found = (home, *home.rglob("*"))  # while it is in use, with the write-ahead log beside the ledger
        modes = {("directory" if path.is_dir() else "file", path.lstat().st_mode & 0o777) for path in found}
        await app.close()
        return modes

    assert asyncio.run(lived()) == PRIVATE


def _link(home: Path) -> None:
    home.rename(home.with_name("elsewhere"))
    home.symlink_to(home.with_name("elsewhere"))


def _open_to_others(home: Path) -> None:
    home.chmod(0o755)


def _owned_by_another(home: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    os.chown(home, 12345, -1)


def _ledger_open_to_others(home: Path) -> None:
    for ledger in home.glob("workspaces/*/ledger.db"):
        ledger.chmod(0o644)


def _ledger_linked(home: Path) -> None:
    for ledger in home.glob("workspaces/*/ledger.db"):
        ledger.rename(home / "ledger.db")
        ledger.symlink_to(home / "ledger.db")


SPOILT = {
    "prepare": (_link, _open_to_others, _owned_by_another),
    "approve": (_link, _open_to_others, _owned_by_another, _ledger_open_to_others, _ledger_linked),
    "commit": (_link, _open_to_others, _owned_by_another, _ledger_open_to_others, _ledger_linked),
}


@pytest.mark.parametrize(("verb", "spoil"), [(verb, spoil) for verb, ways in SPOILT.items() for spoil in ways])
def test_a_state_directory_that_others_could_have_written_is_refused_before_anything(tmp_path, warm, verb, spoil):
    site = GateSite(tmp_path, warm, verb)
    if not site.home.exists():
        site.home.mkdir(0o700)
    spoil(site.home)
    before = _everything(tmp_path)
    told = site.run(verb)
    assert (told.status, told.codes) == (2, ("E_STATE_DIR",)), told
    assert site.effects() == 0
    assert _everything(tmp_path) == before


def _everything(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}
