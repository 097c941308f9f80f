"""The gate under attack: each verb in a process of its own, disturbed by strace at one system call; then it is looked
at, repeated, and looked at again.

Processes are forked from a warm one, so that a point takes a fraction of a second. In the forked process everything
happens in one thread, for strace counts calls by thread: so the Nth call is the same one each time. What a verb tells
goes through a socket, with calls that are never disturbed.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import ctypes
import errno
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ordain.adapters import ledger_writer
from ordain.adapters.ledger_file import inspect
from ordain.adapters.sqlite_ledger import SqliteLedger
from ordain.adapters.state_directory import shelf_path
from ordain.app import App
from ordain.assemble import open_workspace
from ordain.core import chain
from ordain.core.approval import Channel, Principal
from ordain.core.audit import audit
from ordain.core.canonical import plan_id
from ordain.core.event import RunOpened, to_wire
from ordain.core.lineage import PlanState
from ordain.core.problem import Refused, Severity
from ordain.core.summary import PlanSummary
from ordain.core.value import RunId
from ordain.documents.reading import read
from ordain.records import Records

KIM = Principal(name="kim", channel=Channel.TERMINAL)
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
CALLS = (
    "write,pwrite64,fsync,fdatasync,ftruncate,fallocate,openat,"
    "rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat,fchmod"
)
"""Every call by which a verb can change something on disk."""
SYNCS = ("fsync", "fdatasync")
FAILURES = {"E_LEDGER_IO", "E_STATE_DIR", "F_RUN_STOPPED"}
"""What a disk that refuses may be told as."""

_ROOT = Path(__file__).parent.parent.parent
_STRACE_LINE = re.compile(r"(?:\d+ +)?(\w+)\((.*)")
_PR_SET_PTRACER = 0x59616D61

T = TypeVar("T")


def _id_of(document: bytes) -> str:
    plan = read(document, None).plan
    assert plan is not None
    return plan_id(plan)


PLAN_ID = _id_of(PLAN)


class Point(NamedTuple):
    """One disturbance: what happens at the Nth call of its kind."""

    verb: str
    call: str
    number: int
    fault: str

    @property
    def injection(self) -> str:
        return f"inject={self.call}:{self.fault}:when={self.number}"


class Told(NamedTuple):
    """How a verb ended: its exit status, negative for a signal, and what it told."""

    status: int
    codes: tuple[str, ...] = ()
    run: str | None = None
    questions: tuple[str, ...] = ()
    bug: str = ""
    trace: str = ""
    """What strace saw."""


# --- Places ------------------------------------------------------------------------------------------------------------


class Site:
    """A workspace and its state directory, put back to where a verb begins as often as it takes."""

    def __init__(self, folder: Path, warm: Warm, verb: str) -> None:
        self.workspace, self.home, self.log = folder / "ws", folder / "state", folder / "strace.log"
        self.workspace.mkdir()
        self._warm, self._verb = warm, verb
        self._copies = folder / "look"
        self._begin = folder / "begin"
        self._begin.mkdir()
        for before in VERBS[: VERBS.index(verb)]:
            assert self.run(before).status == 0
        # An approval is bound to the very directory, so that one stays; only what is in it is put back.
        _copy(self.workspace, self._begin / "ws")
        _copy(self.home, self._begin / "state")

    @property
    def ledger(self) -> Path:
        return shelf_path(self.home, self.workspace) / "ledger.db"

    def reset(self) -> None:
        for inside in self.workspace.iterdir():
            shutil.rmtree(inside) if inside.is_dir() else inside.unlink()
        shutil.rmtree(self.home, ignore_errors=True)
        _copy(self._begin / "ws", self.workspace)
        _copy(self._begin / "state", self.home)

    def run(self, verb: str, *args: str, strace: str | None = None) -> Told:
        args = args or (() if verb == "prepare" else (PLAN_ID,))
        return self._warm.run(self, verb, *args, strace=strace, log=self.log)

    def effects(self) -> int:
        file = self.workspace / "effects.log"
        lines = file.read_text().split() if file.exists() else []
        assert set(lines) <= {"once"}, lines
        return len(lines)

    def look(self) -> Standing:
        """How things stand, seen in a copy: what the next command finds is exactly what was left."""
        shutil.rmtree(self._copies, ignore_errors=True)
        _copy(self.home, self._copies)
        return standing(self._copies / self.ledger.relative_to(self.home))

    def strangers(self) -> list[str]:
        """Files that are neither the ledger's, the lock, the effect nor our copy of the plan."""
        found = (path for top in (self.home, self.workspace) for path in top.rglob("*") if not path.is_dir())
        known = {self.ledger.name + left for left in ("", "-wal", "-shm")} | {"writer.lock", "effects.log"}
        return sorted(path.name for path in found if path.name not in known and not path.name.endswith(".plan.md"))

    def modes(self) -> set[tuple[str, int]]:
        """The kinds and modes of everything in the state directory."""
        everything = (self.home, *self.home.rglob("*")) if self.home.exists() else ()
        return {("directory" if path.is_dir() else "file", path.lstat().st_mode & 0o777) for path in everything}


PRIVATE = {("directory", 0o700), ("file", 0o600)}


def _copy(source: Path, target: Path) -> None:
    if source.exists():
        shutil.copytree(source, target, dirs_exist_ok=True)


# --- Looking -----------------------------------------------------------------------------------------------------------


class Standing(NamedTuple):
    """What a ledger says, once everything in it has proved whole."""

    kinds: tuple[str, ...] = ()
    """The kinds of all events in order of arrival."""
    plan: PlanState = PlanState()

    @property
    def appends(self) -> int:
        """How many of the appends of a plan's life are there; raises AssertionError where it stands between two."""
        return _stands()[self.kinds]


def _stands() -> dict[tuple[str, ...], int]:
    return {sum(APPENDS[:count], ()): count for count in range(len(APPENDS) + 1)}


def standing(path: Path) -> Standing:
    """Look at every event and at all that was made of them. Raises AssertionError for anything half done."""
    if not path.exists():
        return Standing()
    inspect(path)
    ledger = SqliteLedger.open(path)
    try:
        entries = list(ledger.everything())
        verified = chain.verify_everything(entries)
        assert verified.whole, verified
        assert verified.checkpoint == ledger.checkpoint(), "the checkpoint is not that of the events"
        found = audit(entries, verify=lambda *said: True)
        assert found.good, found.findings
        records, events = Records(ledger), [chain.decode(entry.body, entry.head) for entry in entries]
        lineages = ledger.streams("lineage/")
        states = [records.lineage(stream) for stream in lineages]
        folded = tuple(PlanSummary(stream=one, state=state) for one, state in zip(lineages, states, strict=True))
        assert ledger.plans() == folded, "what is kept for quick looking is not what the events say"
        opened = {one.event.run_id for one in events if isinstance(one.event, RunOpened)}
        assert opened == {RunId(one.removeprefix("run/")) for one in ledger.streams("run/")}
        assert opened == {run for state in states for run in state.runs}, "a run without its start, or the reverse"
        spent = {one.how for state in states for one in state.ended.values()}
        assert spent == opened, "an approval is spent that no run has used, or the reverse"
        for run in opened:
            records.run(run)  # every event fits the table
        assert len(states) <= 1, lineages
        return Standing(
            kinds=tuple(str(to_wire(one)["type"]) for one in events), plan=states[0] if states else PlanState()
        )
    finally:
        asyncio.run(ledger.close())


# --- Points ------------------------------------------------------------------------------------------------------------


def points(site: Site, verb: str) -> list[Point]:
    """Every call by which this verb changes something on disk, with everything that may go wrong there."""
    site.reset()
    told = site.run(verb, strace="")
    assert told.status == 0 and site.look().appends == AFTER[verb], told
    found: list[Point] = []
    counts: dict[str, int] = {}
    for line in told.trace.splitlines():
        match = _STRACE_LINE.match(line)
        if match is None:
            continue
        call, rest = match.groups()
        counts[call] = counts.get(call, 0) + 1
        if call == "openat" and not re.search("O_CREAT|O_RDWR|O_WRONLY", rest):
            continue
        if call == "openat" and "/dev/null" in rest:
            continue  # what a command is started with, no file of ours
        faults = ["signal=SIGKILL", "error=ENOSPC"]
        if call in (*SYNCS, "pwrite64"):
            faults.append("error=EIO")
        found += [Point(verb, call, counts[call], fault) for fault in faults]
    return found


def tenth(all_points: list[Point], seed: int) -> list[Point]:
    """A seeded tenth of the points."""
    return random.Random(seed).sample(all_points, -(-len(all_points) // 10))


def disturb(site: Site, point: Point) -> str:
    """One point: disturb the verb there, look, repeat it, and look again. Tells how the disturbed one ended."""
    site.reset()
    told = site.run(point.verb, strace=f"-e {point.injection}")
    assert not told.bug, told.bug
    killed = told.status == -signal.SIGKILL
    assert killed or "INJECTED" in told.trace, f"nothing was disturbed: {told}"
    assert killed == (point.fault == "signal=SIGKILL"), told
    seen = site.look()
    assert BEFORE[point.verb] <= seen.appends <= AFTER[point.verb], seen
    assert site.modes() <= PRIVATE, site.modes()
    # Nothing happens that is not recorded as begun, and whatever is recorded as ended has happened.
    assert site.effects() in {5: (0, 1), 6: (1,)}.get(seen.appends, (0,)), seen
    if not killed:
        _ended_by_itself(told, seen, point)
        _nothing_left(site, point)
    repeat(site, point.verb, seen)
    return "killed" if killed else "done" if told.status == 0 else told.codes[0]


def _ended_by_itself(told: Told, seen: Standing, point: Point) -> None:
    """A disk that refuses is told clearly, or did not matter: never a traceback, never a wrong word."""
    assert told.status in (0, 1, 2), told
    if told.status == 0:
        assert seen.appends == AFTER[point.verb], "it said that it was done"
        return
    assert set(told.codes) <= FAILURES, told
    started = seen.appends > BEFORE["commit"]
    assert (told.status == 1) == ("F_RUN_STOPPED" in told.codes)
    # After a failed sync nobody knows what the disk has: then even what was refused may be there.
    if point.call not in SYNCS:
        assert (told.status == 1) == started, "a refusal, and yet something was done"


def _nothing_left(site: Site, point: Point) -> None:
    """No file is left that is nobody's. After SIGKILL, or where the very removal failed, a draft may be (docs)."""
    if not point.call.startswith("unlink"):
        assert site.strangers() == []


def repeat(site: Site, verb: str, seen: Standing) -> None:
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
        assert (told.status, told.codes) == (2, ("E_APPROVAL_SPENT",)), told
        assert site.effects() == 1
    assert all(name.startswith((".ledger.db.", ".ordain-")) for name in site.strangers()), site.strangers()
    assert site.effects() >= before


def _finish_run(site: Site, seen: Standing) -> None:
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


# --- Processes ---------------------------------------------------------------------------------------------------------


class Warm:
    """A process that has loaded everything, from which others are forked, one at a time."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        argv = [sys.executable, "-m", "tests.crash.gate", str(theirs.fileno())]
        self._server = subprocess.Popen(argv, cwd=_ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()

    def close(self) -> None:
        self._ours.close()
        self._server.wait()

    def start(self, site: Site, verb: str, *args: str, strace: str | None = None, log: Path | None = None) -> Verb:
        """Begin a verb in a process of its own; with `strace`, under these of its words."""
        ours, theirs = socket.socketpair()
        request = json.dumps({"verb": verb, "args": args, "home": str(site.home), "workspace": str(site.workspace)})
        handed = array.array("i", [theirs.fileno()])
        self._ours.sendmsg([_framed(request)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, handed)])
        theirs.close()
        pid = int(_receive(self._ours))
        begun = Verb(pid, ours, self._ours)
        if strace is not None:
            assert log is not None
            begun.trace(strace, log)
        ours.sendall(b"!")
        return begun

    def run(self, site: Site, verb: str, *args: str, strace: str | None = None, log: Path | None = None) -> Told:
        return self.start(site, verb, *args, strace=strace, log=log).end()


class Verb:
    """A verb under way."""

    def __init__(self, pid: int, told: socket.socket, server: socket.socket) -> None:
        self.pid = pid
        self._told, self._server = told, server
        self._strace: subprocess.Popen[str] | None = None
        self._log: Path | None = None

    def trace(self, words: str, log: Path) -> None:
        """Have strace take hold of the process, which waits for its first word from us meanwhile."""
        argv = ["strace", "-p", str(self.pid), "-o", str(log), "-e", f"trace={CALLS}", *words.split()]
        self._strace = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
        self._log = log
        assert self._strace.stderr is not None
        said = self._strace.stderr.readline()  # only from here on can it not take a step unseen
        assert said.endswith(" attached\n"), said

    def end(self) -> Told:
        """Wait for its end."""
        told = _receive(self._told)
        self._told.close()
        status = int(_receive(self._server))
        if self._strace is not None:
            assert self._strace.stderr is not None
            self._strace.wait()
            self._strace.stderr.close()
        trace = self._log.read_text() if self._log is not None else ""
        return Told(status, **{**(json.loads(told) if told else {}), "trace": trace})


def _framed(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(4) + data


def _receive(connection: socket.socket) -> str:
    """One message; empty where the other side died before it had sent one."""
    size = connection.recv(4, socket.MSG_WAITALL)
    return connection.recv(int.from_bytes(size), socket.MSG_WAITALL).decode() if size else ""


def _serve(connection: socket.socket) -> None:
    import ordain.engine
    from ordain.documents import markdown_writer  # noqa: F401

    ledger_writer.QUICK_S = float("inf")  # commit in this thread, however slow strace makes it
    while True:
        head, ancillary, _, _ = connection.recvmsg(4, socket.CMSG_SPACE(4))
        if not head:
            return
        request = json.loads(connection.recv(int.from_bytes(head), socket.MSG_WAITALL))
        (handed,) = array.array("i", ancillary[0][2])
        child = os.fork()
        if child == 0:
            connection.close()
            _become(request, socket.socket(fileno=handed))
        os.close(handed)
        connection.sendall(_framed(str(child)))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        connection.sendall(_framed(str(status)))


def _become(request: dict[str, Any], told: socket.socket) -> None:
    """Be the verb, with the exit status that the command line would give it."""
    status = 70
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(-1))  # a strace that is not our parent may take hold
        os.environ["ORDAIN_HOME"] = request["home"]
        os.umask(0o022)
        told.recv(1)
        result: dict[str, Any] = {}
        try:
            status = asyncio.run(_verb(request, result))
        except Refused as refused:
            failed = any(problem.severity is Severity.FAILURE for problem in refused.problems)
            status = 1 if failed else 2
            result["codes"] = [problem.code for problem in refused.problems]
        except Exception:
            result["bug"] = traceback.format_exc()
        told.sendall(_framed(json.dumps(result)))
    finally:
        os._exit(status)


async def _verb(request: dict[str, Any], result: dict[str, Any]) -> int:
    asyncio.to_thread = _in_this_thread
    app = open_workspace(request["workspace"], exact=True)
    try:
        match request["verb"], request["args"]:
            case "prepare", []:
                await app.prepare(PLAN, None, KIM)
                return 0
            case "approve", [plan]:
                await app.approve(plan, KIM, app.review(plan))
                return 0
            case "commit", [plan]:
                report = await app.commit(plan, KIM)
            case "resume", [run]:
                report = await app.resume(run)
            case "answer", [item, word]:
                report = await app.answer(item, word, KIM)
            case other:
                raise ValueError(other)
        result |= {"run": report.run_id, "questions": [question.item for question in report.questions]}
        return {"completed": 0, "failed": 1, "waiting": 3}.get(report.status, 130)
    finally:
        await app.close()


async def _in_this_thread(function: Callable[..., T], *args: Any) -> T:
    return function(*args)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
