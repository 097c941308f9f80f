"""Places that are put back as often as it takes, points at which a verb is disturbed there, and what must hold after.

A verb runs in a process of its own (`process`); strace lets exactly one of its system calls go wrong. How things stand
is seen in a copy, so that what the next command finds is exactly what was left.
"""

from __future__ import annotations

import asyncio
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ordain.core.ledger import chain
from tests.crash.process import Told, Verb, Warm
from tests.words import (
    PlanSummary,
    Recorded,
    Records,
    RunOpened,
    RunState,
    SqliteLedger,
    audit,
    inspect,
    plan_id,
    read,
    shelf_path,
)

__all__ = [
    "CHANGES",
    "FAILURES",
    "NOT_REACHED",
    "PRIVATE",
    "WRITES",
    "Call",
    "Point",
    "Seen",
    "Site",
    "calls",
    "id_of",
    "look_at",
    "tenth",
    "whole",
]

CHANGES = (
    "write,pwrite64,fsync,fdatasync,ftruncate,fallocate,openat,"
    "rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat,fchmod"
)
"""Every call by which a verb can change something on disk."""
WRITES = ("pwrite64", "fsync", "fdatasync")
"""Those that the ledger makes for each append."""
PRIVATE = {("directory", 0o700), ("file", 0o600)}
"""What may be in a state directory, and with which mode."""
FAILURES = {"E_LEDGER_IO", "E_STATE_DIR", "F_RUN_STOPPED"}
"""What a disk that refuses may be told as."""
NOT_REACHED = "not reached"
"""The verb made fewer calls this time: the length of a number can decide whether one page more is written."""

_STRACE_LINE = re.compile(r"(?:(\d+) +)?(\w+)\((.*)")


class Point(NamedTuple):
    """One disturbance: what happens at the Nth call of its kind."""

    verb: str
    call: str
    number: int
    fault: str
    threaded: bool = False
    """Whether the ledger's own thread does the writing."""

    @property
    def injection(self) -> str:
        return f"-e inject={self.call}:{self.fault}:when={self.number}"


class Call(NamedTuple):
    """One system call that strace saw: its number counts calls of its kind by the same thread."""

    name: str
    number: int
    rest: str


def calls(trace: str) -> Iterator[Call]:
    """Every call of a trace in order."""
    counts: Counter[tuple[str, str]] = Counter()
    for line in trace.splitlines():
        match = _STRACE_LINE.match(line)
        if match is not None:
            thread, name, rest = match.groups()
            counts[thread, name] += 1
            yield Call(name, counts[thread, name], rest)


def tenth(all_points: Sequence[Point], seed: int) -> list[Point]:
    """A seeded tenth of the points."""
    return random.Random(seed).sample(all_points, -(-len(all_points) // 10))


def id_of(document: bytes) -> str:
    """The id of a document's plan."""
    plan = read(document, None).plan
    assert plan is not None
    return plan_id(plan)


class Site:
    """A workspace and its state directory, put back to where a verb begins as often as it takes."""

    def __init__(self, folder: Path, warm: Warm, document: bytes, traced: str = CHANGES) -> None:
        self.workspace, self.home, self.log = folder / "ws", folder / "state", folder / "strace.log"
        self.plan_id = id_of(document)
        self._document = document.decode()
        self._traced = traced
        self._warm = warm
        self._copies = folder / "look"
        self._begin = folder / "begin"
        self.workspace.mkdir(exist_ok=True)

    def keep(self) -> None:
        """Let `reset` put everything back to what is here now."""
        # An approval is bound to the very directory, so that one stays; only what is in it is put back.
        shutil.rmtree(self._begin, ignore_errors=True)
        self._begin.mkdir()
        _copy(self.workspace, self._begin / "ws")
        _copy(self.home, self._begin / "state")

    def reset(self) -> None:
        for inside in self.workspace.iterdir():
            shutil.rmtree(inside) if inside.is_dir() else inside.unlink()
        shutil.rmtree(self.home, ignore_errors=True)
        _copy(self._begin / "ws", self.workspace)
        _copy(self._begin / "state", self.home)

    @property
    def ledger(self) -> Path:
        return shelf_path(self.home, self.workspace) / "ledger.db"

    @property
    def lock(self) -> Path:
        return self.ledger.with_name("writer.lock")

    def lose_locks(self) -> None:
        """Take away what keeps a second executor out."""
        for file in self.ledger.parent.glob("*.lock"):
            file.unlink()

    def start(
        self, verb: str, *args: str, strace: str | None = None, threaded: bool = False, warm: Warm | None = None
    ) -> Verb:
        """Begin a verb in a process of its own; with `strace`, under these words to it. `warm` is for a second one at
        the same time."""
        args = args or ((self._document,) if verb == "prepare" else (self.plan_id,))
        where = {"home": str(self.home), "workspace": str(self.workspace)}
        request = {"verb": verb, "args": args, "threaded": threaded, **where}
        words = f"-e trace={self._traced} {strace}" if strace is not None else None
        return (warm or self._warm).start(request, words, self.log)

    def run(
        self, verb: str, *args: str, strace: str | None = None, threaded: bool = False, warm: Warm | None = None
    ) -> Told:
        return self.start(verb, *args, strace=strace, threaded=threaded, warm=warm).end()

    def copied(self) -> Path:
        """The ledger in a fresh copy of the state directory."""
        shutil.rmtree(self._copies, ignore_errors=True)
        _copy(self.home, self._copies, without="reserve")
        return self._copies / self.ledger.relative_to(self.home)

    def modes(self) -> set[tuple[str, int]]:
        """The kinds and modes of everything in the state directory."""
        everything = (self.home, *self.home.rglob("*")) if self.home.exists() else ()
        return {("directory" if path.is_dir() else "file", path.lstat().st_mode & 0o777) for path in everything}


def _copy(source: Path, target: Path, without: str = "") -> None:
    if source.exists():
        shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns(without))


class Seen(NamedTuple):
    """What a ledger holds, once everything in it has proved whole."""

    events: tuple[Recorded, ...]
    """All events in order of arrival."""
    plans: tuple[PlanSummary, ...]
    runs: tuple[RunState, ...]


def look_at(path: Path) -> Seen:
    """Look at every event and at all that was made of them. Raises AssertionError for anything that is broken,
    half done or cannot be."""
    inspect(path)
    ledger = SqliteLedger.open(path)
    try:
        return whole(ledger)
    finally:
        asyncio.run(ledger.close())


def whole(ledger: SqliteLedger) -> Seen:
    """The same for a ledger that is open."""
    entries = list(ledger.everything())
    verified = chain.verify_everything(entries)
    assert verified.whole, verified
    assert verified.checkpoint == ledger.checkpoint(), "the checkpoint is not that of the events"
    audited = audit(entries, verify=lambda *said: True)
    assert audited.good, audited.findings
    events = [chain.decode(entry.body, entry.head) for entry in entries]
    records, lineages = Records(ledger), ledger.streams("lineage/")
    states = [records.lineage(stream) for stream in lineages]  # every event fits the table
    folded = tuple(PlanSummary(stream=stream, state=state) for stream, state in zip(lineages, states, strict=True))
    assert ledger.plans() == folded, "what is kept for quick looking is not what the events say"
    opened = {one.event.run_id for one in events if isinstance(one.event, RunOpened)}
    assert opened == {run for state in states for run in state.runs}, "a run without its start, or the reverse"
    spent = {one.how for state in states for one in state.ended.values()} - {"revoked", "expired", "superseded"}
    assert spent == opened, "an approval is spent that no run has used, or the reverse"
    runs = tuple(records.run(run)[0] for run in sorted(opened))
    return Seen(tuple(events), folded, runs)


def go_through(some: Iterable[Point], disturbed: Callable[[Point], str]) -> Counter[str]:
    """Disturb a verb at each of these points; how it ended, counted. All failures are named, not only the first."""
    ended: Counter[str] = Counter()
    failures = []
    for point in some:
        try:
            ended[disturbed(point)] += 1
        except AssertionError as error:
            failures.append(f"{point}: {error}")
    assert not failures, f"{len(failures)} of {ended.total() + len(failures)} points:\n" + "\n".join(failures)
    return ended
