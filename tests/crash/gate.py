"""The gate (`prepare`, `approve`, `commit`) disturbed: the life of a plan with one step, append by append.

A verb is disturbed at one system call; then what is left is looked at, the verb is repeated, and everything is looked
at again.
"""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import NamedTuple

from tests.crash.process import Told, Warm
from tests.crash.site import FAILURES, NOT_REACHED, PRIVATE, WRITES, Point, Site, calls, id_of, look_at
from tests.words import PlanState, to_wire

PLAN = b"# Once\n\n1. `echo once >> effects.log`\n"
"""Without a file, so that our own copy of it is written too."""
VERBS = ("prepare", "approve", "commit")
APPENDS = (
    ("workspace_opened",),
    ("plan_prepared",),
    ("approval_given",),
    ("run_started", "run_opened"),
    ("executor_started", "attempt_started"),
    ("attempt_ended", "run_finished", "run_ended"),
)
"""What the whole life of a plan records, append by append: there is nothing between two of them."""
BEFORE = {"prepare": 0, "approve": 2, "commit": 3}
AFTER = {"prepare": 2, "approve": 3, "commit": 6}
"""How many of these appends there are before a verb, and after it."""
PLAN_ID = id_of(PLAN)


# --- Places -----------------------------------------------------------------------------------------------------------


class GateSite(Site):
    """A site with a plan of one step, just before one of the verbs."""

    def __init__(self, folder: Path, warm: Warm, verb: str, approvals: int = 1) -> None:
        super().__init__(folder, warm, PLAN)
        before = {"prepare": (), "approve": ("prepare",), "commit": ("prepare", *["approve"] * approvals)}
        for one in before[verb]:
            assert self.run(one).status == 0
        self.keep()

    def effects(self) -> int:
        file = self.workspace / "effects.log"
        lines = file.read_text().split() if file.exists() else []
        assert set(lines) <= {"once"}, lines
        return len(lines)

    def look(self) -> Standing:
        """How things stand, seen in a copy."""
        return standing(self.copied())

    def strangers(self) -> list[str]:
        """Files that are neither the ledger's, a lock, the effect, the step log nor our copy of the plan."""
        found = (path for top in (self.home, self.workspace) for path in top.rglob("*") if not path.is_dir())
        known = {self.ledger.name + left for left in ("", "-wal", "-shm")} | {self.lock.name, "reserve", "effects.log"}
        ours = re.compile(r".*\.plan\.md|RUN-[A-Z2-7]+\.(lock|jsonl)|\.gitignore")
        return sorted(path.name for path in found if path.name not in known and not ours.fullmatch(path.name))


# --- Looking ----------------------------------------------------------------------------------------------------------


class Standing(NamedTuple):
    """What a ledger says, once everything in it has proved whole."""

    kinds: tuple[str, ...] = ()
    """The kinds of all events in order of arrival."""
    plan: PlanState = PlanState()

    @property
    def appends(self) -> int:
        """How many of the appends of a plan's life are there; raises AssertionError where it stands between two."""
        stands = [count for count in range(len(APPENDS) + 1) if sum(APPENDS[:count], ()) == self.kinds]
        assert stands, f"between two appends, or in no life of a plan: {self.kinds}"
        return stands[0]


def standing(path: Path) -> Standing:
    """Look at every event and at all that was made of them. Raises AssertionError for anything half done."""
    if not path.exists():
        return Standing()
    seen = look_at(path)
    assert len(seen.plans) <= 1, seen.plans
    kinds = tuple(str(to_wire(one)["type"]) for one in seen.events)
    return Standing(kinds=kinds, plan=seen.plans[0].state if seen.plans else PlanState())


# --- Points -----------------------------------------------------------------------------------------------------------


def points(site: GateSite, verb: str) -> list[Point]:
    """Every call by which this verb changes something on disk, with everything that may go wrong there."""
    return [*_points(site, verb, threaded=False), *_points(site, verb, threaded=True)]


def _points(site: GateSite, verb: str, *, threaded: bool) -> list[Point]:
    site.reset()
    told = site.run(verb, strace="", threaded=threaded)
    assert told.status == 0 and site.look().appends == AFTER[verb], told
    found: dict[Point, None] = {}
    swept = False
    for call in calls(told.trace):
        if call.name == "openat":
            swept = swept or call.rest.startswith('AT_FDCWD, "/proc"')
            # A file that is only read, and what commands are started with, is not changed. Once all processes were
            # looked at, the number of an opening depends on how many there are; `approve` opens the same files.
            opened_to_write = re.search("O_CREAT|O_RDWR|O_WRONLY", call.rest) and "/dev/null" not in call.rest
            if not opened_to_write or swept:
                continue
        if threaded and call.name not in WRITES:
            continue  # the same as in one thread
        faults = ["signal=SIGKILL", "error=ENOSPC", *(["error=EIO"] if call.name in WRITES else [])]
        found |= {Point(verb, call.name, call.number, fault, threaded): None for fault in faults}
    return list(found)


def opening_before_the_append(site: GateSite) -> int:
    """Which opening of a file by `commit` comes after its last check and before it spends the approval: the ledger's
    writer opens the file when there is something to write."""
    site.reset()
    opened = [line for line in site.run("commit", strace="").trace.splitlines() if line.startswith("openat(")]
    *_, last = (number for number, line in enumerate(opened, start=1) if f'{site.ledger}"' in line)
    return last


def disturb(site: GateSite, point: Point) -> str:
    """One point: disturb the verb there, look, repeat it, and look again. Tells how the disturbed one ended."""
    site.reset()
    told = site.run(point.verb, strace=point.injection, threaded=point.threaded)
    assert not told.bug, told.bug
    assert told.status != -signal.SIGALRM, "it hangs"
    killed = told.status == -signal.SIGKILL
    seen = site.look()
    if not killed and "INJECTED" not in told.trace:
        assert told.status == 0 and seen.appends == AFTER[point.verb], told
        return NOT_REACHED
    assert killed == (point.fault == "signal=SIGKILL"), told
    assert BEFORE[point.verb] <= seen.appends <= AFTER[point.verb], seen
    assert site.modes() <= PRIVATE, site.modes()
    # Nothing happens that is not recorded as begun, and whatever is recorded as ended has happened.
    assert site.effects() in {5: (0, 1), 6: (1,)}.get(seen.appends, (0,)), seen
    if not killed:
        ended_by_itself(told, seen, point)
        _nothing_left(site, point)
    repeat(site, point.verb, seen)
    return "killed" if killed else "done" if told.status == 0 else told.codes[0]


def ended_by_itself(told: Told, seen: Standing, point: Point) -> None:
    """A disk that refuses is told clearly, or did not matter: never a traceback, never a wrong word."""
    assert told.status in (0, 1, 2), told
    if told.status == 0:
        assert seen.appends == AFTER[point.verb], "it said that it was done"
        return
    assert set(told.codes) <= FAILURES, told
    assert (told.status == 1) == ("F_RUN_STOPPED" in told.codes)
    started = seen.appends > BEFORE["commit"]
    assert (told.status == 1) == started, "a refusal, and yet something was done"
    if told.status == 2:
        assert seen.appends in (BEFORE[point.verb], 1), "a refusal, and yet something was recorded"


def _nothing_left(site: GateSite, point: Point) -> None:
    """No file is left that is nobody's. After SIGKILL, or where the very removal failed, a draft may be (docs)."""
    if not point.call.startswith("unlink"):
        assert site.strangers() == []


def repeat(site: GateSite, verb: str, seen: Standing) -> None:
    """Give the command again, as the person would whose command was interrupted, until it is done."""
    before = site.effects()
    if verb != "commit":
        told = site.run(verb)
        assert told.status == 0, told
        after = site.look()
        missing = sum(APPENDS[seen.appends : AFTER[verb]], ())
        again = APPENDS[AFTER[verb] - 1]
        assert after.kinds == seen.kinds + (missing or again), after
        assert after.plan.stage == ("proposed" if verb == "prepare" else "approved")
    else:
        _finish_run(site, seen)
        after = site.look()
        assert after.plan.stage == "completed" and len(after.plan.runs) == 1, after
        assert site.effects() == 1
        told = site.run("commit")
        assert told.status == 0 and site.look().kinds == after.kinds, told
        assert site.effects() == 1
    assert all(name.startswith((".ledger.db.", ".ordain-")) for name in site.strangers()), site.strangers()
    assert site.effects() >= before


def _finish_run(site: GateSite, seen: Standing) -> None:
    """Start the run, or go on with it; a doubt is answered from what really happened."""
    if seen.appends == AFTER["commit"]:
        return
    run = seen.plan.open_run
    told = site.run("resume", run) if run is not None else site.run("commit")
    if told.status == 3:
        assert seen.appends == 5, "a doubt about what was not under way"
        (item,) = told.questions
        assert site.run("answer", item, "happened" if site.effects() else "did-not").status in (0, 3, 130)
        assert run is not None
        told = site.run("resume", run)
    else:
        assert seen.appends != 5, "no doubt about what was under way"
    assert told.status == 0, told
