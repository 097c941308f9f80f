"""A run disturbed: carrying out and resuming a plan of every effect class (`world`), with one system call gone wrong.

Afterwards a careful person finishes the run, answering doubts from what really happened; then ledger, report, world and
process table must tell the same story. What is resumed was itself killed before, so that recovery is disturbed too.
"""

from __future__ import annotations

import random
import re
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.crash import world
from tests.crash.process import Told, Warm
from tests.crash.site import CHANGES, FAILURES, NOT_REACHED, PRIVATE, WRITES, Call, Point, Seen, Site, calls, look_at
from tests.words import BashShell, RunState, StepId, StepState

__all__ = [
    "BEGINNINGS",
    "RunSite",
    "check_end",
    "disturb",
    "disturb_twice",
    "ended_by_itself",
    "error_points",
    "kill_points",
]

AT_WORK = "vfork,pidfd_open,epoll_wait,wait4,kill,pipe2"
"""What an executor does about its commands: the last moment before one is there, the first after it, while it works,
when it has ended and nobody has seen that, and when what it left is ended."""
TRACED = f"{CHANGES},{AT_WORK},read,pread64,getdents64"
SYNCS_MAX = 100
BEGUN_MAX = 5
PROCESSES_EVERY = 10
"""Looking for what commands left opens a file for every process of the machine; so many are much the same."""
KILLED_AT = frozenset(f"{CHANGES},{AT_WORK}".split(","))
ERRORS = {
    "pwrite64": ("EIO", "ENOSPC"),
    "write": ("EIO", "ENOSPC"),
    "fdatasync": ("EIO", "ENOSPC", "EINTR"),
    "fsync": ("EIO", "ENOSPC", "EINTR"),
    "ftruncate": ("EIO",),
    "fallocate": ("ENOSPC",),
    "openat": ("EMFILE", "EIO"),
    "read": ("EIO",),
    "pread64": ("EIO",),
    "getdents64": ("EIO",),
    "renameat": ("EIO", "ENOSPC"),
    "renameat2": ("EIO", "ENOSPC"),
    "unlink": ("EIO",),
    "unlinkat": ("EIO",),
    "mkdir": ("ENOSPC",),
    "mkdirat": ("ENOSPC",),
    "fchmod": ("EIO",),
    "vfork": ("EAGAIN", "ENOMEM"),
    "pipe2": ("EMFILE", "ENFILE"),
    "pidfd_open": ("EMFILE",),
}
"""What may go wrong with a call besides being killed at it."""
UNREADABLE = {"E_CONFIG", "E_BASE_UNREADABLE", "E_WORKSPACE"}
"""What is told of a file or directory of the workspace that cannot be looked at, before anything begins."""
UNREADABLE_LATER = {"E_CONFIG", "E_BASE_UNREADABLE"}
"""The same of what is looked at again before each step: the settings, and the files that its command reads."""
STEP_FAILURES = {"F_STEP_FAILED", "F_CONTRACT_INCONCLUSIVE"}
"""What may be wrong with a step whose command could not be started, whose file could not be written, or whose contract
could not be run. Never that a contract is broken: nobody has seen that."""


def _asks(state: RunState) -> bool:
    """Somebody will be asked about an opaque step."""
    return state.steps[StepId("first")].state is StepState.RUNNING


def _settles(state: RunState) -> bool:
    """A contract that was broken before will tell whether a step has happened."""
    return any(one.state is StepState.RUNNING and one.seen_before is not None for one in state.steps.values())


BEGINNINGS: dict[str, Callable[[RunState], bool] | None] = {
    "commit": None,
    "resume asking": _asks,
    "resume settling": _settles,
    "resume answered": _asks,
}
"""What is disturbed: the first carrying out, or the resuming of a run that was killed when it stood so; of the last
one, doubts were answered already."""


class RunSite(Site):
    """A site with the mixed plan, just before one of the beginnings."""

    def __init__(self, folder: Path, warm: Warm, beginning: str = "commit") -> None:
        super().__init__(folder, warm, world.document(), TRACED)
        world.furnish(self.workspace)
        for one in ("prepare", "approve"):
            assert self.run(one).status == 0
        self.keep()
        self._again: tuple[str, ...] = ("commit",)
        if (stands := BEGINNINGS[beginning]) is not None:
            self._again = ("resume", self._die_when(stands))
            if beginning == "resume answered":
                self._answer()
            self.keep()

    @property
    def verb(self) -> str:
        return self._again[0]

    def _die_when(self, stands: Callable[[RunState], bool]) -> str:
        """Be left as by an executor that was killed at a sync at which the run stands so; the run. Steps run at the
        same time and share syncs, so a run may end without having stood so at any of them; then it is begun again."""
        for _ in range(BEGUN_MAX):
            for number in range(2, SYNCS_MAX):
                self.reset()
                told = self.run("commit", strace=f"-e inject=fdatasync:signal=SIGKILL:when={number}")
                if told.status != -signal.SIGKILL:
                    assert told.status == 0, f"it did not die at sync {number}: {told}"
                    break
                self.sweep()
                if any(stands(state) for state in self.look().runs):
                    return self.look().runs[0].run_id
        raise AssertionError("the run never stands so")

    def _answer(self) -> None:
        told = self.run(*self._again)
        assert told.status == 3 and told.questions, told
        for item in told.questions:
            word = "happened" if world.happened(self.workspace, item.partition("/")[2]) else "did-not"
            assert self.run("answer", item, word).status in (3, 130)

    def begin(self, strace: str, *, threaded: bool = False) -> Told:
        """Do what is disturbed here, from its beginning."""
        self.reset()
        return self.run(*self._again, strace=strace, threaded=threaded)

    def look(self) -> Seen:
        """What the ledger says, seen in a copy."""
        return look_at(self.copied())

    def compared(self, seen: Seen) -> RunState | None:
        """The run, if there is one. Raises AssertionError where the world is not as it says."""
        assert len(seen.runs) <= 1, "a second run"
        if not seen.runs:
            assert not any(world.times(self.workspace).values()), "an effect without a run"
            return None
        (run,) = seen.runs
        steps = {step: (record.state, record.attempts) for step, record in run.steps.items()}
        world.compare(self.workspace, steps, completed=run.status == "completed")
        return run

    def sweep(self) -> None:
        """End whatever an executor left running here."""
        for state in self.look().runs:
            BashShell(self.workspace).sweep(f"{state.workspace_identity.id}/")


# --- Points -----------------------------------------------------------------------------------------------------------


def undisturbed(site: RunSite, *, threaded: bool = False) -> list[Call]:
    """The calls of a run that nobody disturbs. Steps that run at the same time do not make the same calls each time; of
    three runs it is the one with the fewest, so that most points are reached."""
    traces = [list(calls(site.begin("", threaded=threaded).trace)) for _ in range(3)]
    return min(traces, key=len)


def kill_points(site: RunSite) -> list[Point]:
    """Every call by which the run changes something or deals with a command: killed right before it."""
    found = {
        Point(site.verb, call.name, call.number, "signal=SIGKILL", threaded): None
        for threaded in (False, True)
        for call in undisturbed(site, threaded=threaded)
        if call.name in KILLED_AT and (call.name in WRITES or not threaded) and _changes(call.name, call.rest)
    }
    return list(found)


def _changes(name: str, rest: str) -> bool:
    return name != "openat" or re.search("O_CREAT|O_RDWR|O_WRONLY", rest) is not None


def error_points(site: RunSite) -> list[Point]:
    """Every call that can fail, with what it can fail with."""
    found = []
    swept = False
    for call in undisturbed(site):
        swept = swept or (call.name == "openat" and '"/proc"' in call.rest)
        errors = ERRORS.get(call.name, ())
        if call.name in ("read", "getdents64") and swept:
            errors = ()  # what is read from here on are the table of processes and pipes, which are no disk
        elif call.name == "openat" and '"/proc/' in call.rest:
            errors = ("EMFILE",) if call.number % PROCESSES_EVERY == 0 else ()
        found += [Point(site.verb, call.name, call.number, f"error={error}") for error in errors]
    return found


def disturb(site: RunSite, point: Point) -> str:
    """One point: disturb the run there, look, finish it, and look again. Tells how the disturbed one ended."""
    told = site.begin(point.injection, threaded=point.threaded)
    killed = _disturbed(site, told, point)
    if not killed and "INJECTED" not in told.trace:
        check_end(site, site.run("finish"))
        return NOT_REACHED
    end = site.run("finish")
    check_end(site, end)
    if killed:
        assert end.status == 0, f"nothing has failed, and yet: {end}"
        return "killed"
    return "done" if told.status in (0, 3) else told.codes[0] if told.codes else "a step failed"


def disturb_twice(site: RunSite, options: Sequence[Point], seed: int) -> str:
    """Kill the run at a seeded point, kill its resuming at another, and finish it then."""
    chance = random.Random(seed)
    first, second = chance.choice(options), chance.choice(options)
    deaths = 0
    deaths += _disturbed(site, site.begin(first.injection, threaded=first.threaded), first)
    for state in site.look().runs:
        if not state.finished:
            told = site.run("resume", state.run_id, strace=second.injection, threaded=second.threaded)
            deaths += _disturbed(site, told, second)
    end = site.run("finish")
    check_end(site, end)
    assert end.status == 0, f"nothing has failed, and yet: {end}"
    return f"killed {deaths} times"


def _disturbed(site: RunSite, told: Told, point: Point) -> bool:
    """Look at what a disturbed process has left; whether it was killed."""
    assert not told.bug, told.bug
    assert told.status != -signal.SIGALRM, "it hangs"
    killed = told.status == -signal.SIGKILL
    assert not killed or point.fault == "signal=SIGKILL", "somebody else has killed it"
    assert site.modes() <= PRIVATE, site.modes()
    run = site.compared(site.look())
    if not killed:
        ended_by_itself(site, told, run)
    return killed


def ended_by_itself(site: RunSite, told: Told, run: RunState | None) -> None:
    """A disk that refuses is told clearly, or did not matter: never a traceback, never a wrong word, nobody left."""
    assert told.status in (0, 1, 2, 3), told
    if run is not None:
        assert world.leftovers(run.run_id) == [], "orphans"
    if told.codes:
        began = told.status == 1
        unreadable = {"E_PROCESSES", *UNREADABLE_LATER} if began else UNREADABLE
        assert set(told.codes) <= FAILURES | unreadable | _broken(told), told
        assert began == ("F_RUN_STOPPED" in told.codes), told
        assert not began or (run is not None and not run.finished), told
        places = (str(site.home), str(site.workspace), "ordain.toml", ".txt", "/proc")
        assert any(place in detail for place in places for detail in told.details), f"it does not say where: {told}"
    else:
        assert run is not None and run.status == {0: "completed", 1: "failed", 3: None}[told.status], told
        if told.status == 1:
            assert told.errors and set(told.errors) <= STEP_FAILURES, told


def _broken(told: Told) -> set[str]:
    """SQLite itself takes a page that cannot be read for a damaged one."""
    return {"E_LEDGER_BROKEN"} if re.search(r"pread64\(.*INJECTED", told.trace) else set()


def check_end(site: RunSite, end: Told) -> None:
    """A run that was finished by a careful person: ended, told as it is, nothing twice, nobody left behind."""
    assert not end.bug, end.bug
    assert end.status in (0, 1) and not end.codes, end
    run = site.compared(site.look())
    assert run is not None and run.status == ("completed" if end.status == 0 else "failed"), end
    assert end.status == 0 or set(end.errors) <= STEP_FAILURES, end
    assert end.run == run.run_id
    assert world.leftovers(run.run_id) == [], "orphans"
