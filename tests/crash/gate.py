"""The gate under attack, two ways; both a module for the tests and the script of the processes that are attacked.

One by one: a verb in a process of its own is disturbed by strace at one system call; then what is left is looked at,
the verb is repeated, and everything is looked at again. All together: a crowd of processes does the same thing at the
same moment.

Processes are forked from one that has loaded everything, so that a point takes a tenth of a second. strace counts calls
by thread, so a verb does all its work in one thread, or, where the ledger's own thread is to be disturbed, all its
writing in that one: then the Nth call is the same one each time. What a verb tells goes through a socket, with calls
that are never disturbed.
"""

from __future__ import annotations

import array
import asyncio
import ctypes
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from ordain.adapters import ledger_writer
from ordain.adapters.ledger_file import inspect
from ordain.adapters.sqlite_ledger import SqliteLedger
from ordain.adapters.state_directory import shelf_path
from ordain.adapters.writer_lock import FileWriterLock
from ordain.app import App
from ordain.assemble import open_workspace
from ordain.core import chain
from ordain.core.approval import Channel, Principal
from ordain.core.audit import audit
from ordain.core.canonical import plan_id
from ordain.core.event import Recorded, RunOpened, to_wire
from ordain.core.lineage import PlanState
from ordain.core.problem import Refused, Severity
from ordain.core.report import RunReport
from ordain.core.summary import PlanSummary
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
WRITES = ("pwrite64", "fsync", "fdatasync")
"""Those that the ledger makes for each append."""
SHARED_EVERY = 20
"""Every so many of its updates, a process of the crowd approves the plan that all share."""
PRIVATE = {("directory", 0o700), ("file", 0o600)}
"""What may be in a state directory, and with which mode."""
HANGS_AFTER_S = 30
FAILURES = {"E_LEDGER_IO", "E_STATE_DIR", "F_RUN_STOPPED"}
"""What a disk that refuses may be told as."""

NOT_REACHED = "not reached"
"""The verb made fewer calls this time: the length of a number can decide whether one page more is written."""

_ROOT = Path(__file__).parent.parent.parent
_STRACE_LINE = re.compile(r"(?:(\d+) +)?(\w+)\((.*)")
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
    threaded: bool = False
    """Whether the ledger's own thread does the writing."""

    @property
    def injection(self) -> str:
        return f"inject={self.call}:{self.fault}:when={self.number}"


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """How a verb ended: its exit status, negative for a signal, and what it told."""

    status: int
    codes: tuple[str, ...] = ()
    run: str | None = None
    questions: tuple[str, ...] = ()
    bug: str = ""
    trace: str = ""
    """What strace saw."""


# --- Places -----------------------------------------------------------------------------------------------------------


class Site:
    """A workspace and its state directory, put back to where a verb begins as often as it takes."""

    def __init__(self, folder: Path, warm: Warm, verb: str, approvals: int = 1) -> None:
        self.workspace, self.home, self.log = folder / "ws", folder / "state", folder / "strace.log"
        self.workspace.mkdir()
        self._warm = warm
        self._copies = folder / "look"
        self._begin = folder / "begin"
        self._begin.mkdir()
        before = {"prepare": (), "approve": ("prepare",), "commit": ("prepare", *["approve"] * approvals)}
        for one in before[verb]:
            assert self.run(one).status == 0
        # An approval is bound to the very directory, so that one stays; only what is in it is put back.
        _copy(self.workspace, self._begin / "ws")
        _copy(self.home, self._begin / "state")

    @property
    def ledger(self) -> Path:
        return shelf_path(self.home, self.workspace) / "ledger.db"

    @property
    def lock(self) -> Path:
        return self.ledger.with_name("writer.lock")

    def reset(self) -> None:
        for inside in self.workspace.iterdir():
            shutil.rmtree(inside) if inside.is_dir() else inside.unlink()
        shutil.rmtree(self.home, ignore_errors=True)
        _copy(self._begin / "ws", self.workspace)
        _copy(self._begin / "state", self.home)

    def start(
        self, verb: str, *args: str, strace: str | None = None, threaded: bool = False, warm: Warm | None = None
    ) -> Verb:
        """Begin a verb in a process of its own; with `strace`, under these words to it. `warm` is for a second one at
        the same time."""
        args = args or (() if verb == "prepare" else (PLAN_ID,))
        where = {"home": str(self.home), "workspace": str(self.workspace)}
        request = {"verb": verb, "args": args, "threaded": threaded, **where}
        return (warm or self._warm).start(request, strace, self.log)

    def run(
        self, verb: str, *args: str, strace: str | None = None, threaded: bool = False, warm: Warm | None = None
    ) -> Told:
        return self.start(verb, *args, strace=strace, threaded=threaded, warm=warm).end()

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
        """Files that are neither the ledger's, a lock, the effect nor our copy of the plan."""
        found = (path for top in (self.home, self.workspace) for path in top.rglob("*") if not path.is_dir())
        known = {self.ledger.name + left for left in ("", "-wal", "-shm")} | {self.lock.name, "effects.log"}
        ours = re.compile(r".*\.plan\.md|RUN-[A-Z2-7]+\.lock")
        return sorted(path.name for path in found if path.name not in known and not ours.fullmatch(path.name))

    def modes(self) -> set[tuple[str, int]]:
        """The kinds and modes of everything in the state directory."""
        everything = (self.home, *self.home.rglob("*")) if self.home.exists() else ()
        return {("directory" if path.is_dir() else "file", path.lstat().st_mode & 0o777) for path in everything}


def _copy(source: Path, target: Path) -> None:
    if source.exists():
        shutil.copytree(source, target, dirs_exist_ok=True)


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
    inspect(path)
    ledger = SqliteLedger.open(path)
    try:
        kinds = tuple(str(to_wire(one)["type"]) for one in whole(ledger))
        plans = [summary.state for summary in ledger.plans()]
        assert len(plans) <= 1, plans
        return Standing(kinds=kinds, plan=plans[0] if plans else PlanState())
    finally:
        asyncio.run(ledger.close())


def whole(ledger: SqliteLedger) -> list[Recorded]:
    """All events in order of arrival. Raises AssertionError where anything is broken, half done or cannot be."""
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
    for run in opened:
        records.run(run)
    return events


def events_of(home: Path, workspace: Path) -> list[Recorded]:
    """Every event of a workspace in order of arrival, once everything about them has proved whole."""
    ledger = SqliteLedger.open(shelf_path(home, workspace) / "ledger.db")
    try:
        return whole(ledger)
    finally:
        asyncio.run(ledger.close())


# --- Points -----------------------------------------------------------------------------------------------------------


def points(site: Site, verb: str) -> list[Point]:
    """Every call by which this verb changes something on disk, with everything that may go wrong there."""
    return [*_points(site, verb, threaded=False), *_points(site, verb, threaded=True)]


def _points(site: Site, verb: str, *, threaded: bool) -> list[Point]:
    site.reset()
    told = site.run(verb, strace="", threaded=threaded)
    assert told.status == 0 and site.look().appends == AFTER[verb], told
    found: dict[Point, None] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for line in told.trace.splitlines():
        match = _STRACE_LINE.match(line)
        if match is None:
            continue
        thread, call, rest = match.groups()
        if call == "openat" and rest.startswith('AT_FDCWD, "/proc"'):
            counts["", "swept"] += 1
        counts[thread, call] += 1
        if call == "openat":
            # A file that is only read, and what commands are started with, is not changed. Once all processes were
            # looked at, the number of an opening depends on how many there are; `approve` opens the same files.
            opened_to_write = re.search("O_CREAT|O_RDWR|O_WRONLY", rest) and "/dev/null" not in rest
            if not opened_to_write or counts["", "swept"]:
                continue
        if threaded and call not in WRITES:
            continue  # the same as in one thread
        faults = ["signal=SIGKILL", "error=ENOSPC", *(["error=EIO"] if call in WRITES else [])]
        found |= {Point(verb, call, counts[thread, call], fault, threaded): None for fault in faults}
    return list(found)


def opening_before_the_append(site: Site) -> int:
    """Which opening of a file by `commit` comes after its last check and before it spends the approval: the ledger's
    writer opens the file when there is something to write."""
    site.reset()
    opened = [line for line in site.run("commit", strace="").trace.splitlines() if line.startswith("openat(")]
    *_, last = (number for number, line in enumerate(opened, start=1) if f'{site.ledger}"' in line)
    return last


def tenth(all_points: list[Point], seed: int) -> list[Point]:
    """A seeded tenth of the points."""
    return random.Random(seed).sample(all_points, -(-len(all_points) // 10))


def disturb(site: Site, point: Point) -> str:
    """One point: disturb the verb there, look, repeat it, and look again. Tells how the disturbed one ended."""
    site.reset()
    told = site.run(point.verb, strace=f"-e {point.injection}", threaded=point.threaded)
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


# --- Processes --------------------------------------------------------------------------------------------------------


class Warm:
    """A process that has loaded everything, from which others are forked, one at a time."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        argv = [sys.executable, "-m", "tests.crash.gate", str(theirs.fileno())]
        self._server = subprocess.Popen(argv, cwd=_ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        self._begun: Verb | None = None

    def close(self) -> None:
        self._clear()
        self._ours.close()
        self._server.wait()

    def _clear(self) -> None:
        """End what a test that failed has left under way."""
        if self._begun is not None and not self._begun.ended:
            self._begun.kill()
            self._begun.end()

    def start(self, request: dict[str, Any], strace: str | None, log: Path) -> Verb:
        self._clear()
        ours, theirs = socket.socketpair()
        handed = array.array("i", [theirs.fileno()])
        self._ours.sendmsg([_framed(request)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, handed)])
        theirs.close()
        begun = self._begun = Verb(_receive(self._ours), ours, self._ours)
        if strace is not None:
            # Commands are let go when they begin: it is the verb that is disturbed, not what it runs.
            begun.trace(["-f", "-b", "execve", *strace.split()] if request["threaded"] else strace.split(), log)
        ours.sendall(b"!")
        return begun


class Verb:
    """A verb under way."""

    def __init__(self, pid: int, told: socket.socket, server: socket.socket) -> None:
        self.pid, self.ended = pid, False
        self._told, self._server = told, server
        self._strace: subprocess.Popen[str] | None = None
        self._log: Path | None = None

    def trace(self, words: Sequence[str], log: Path) -> None:
        """Have strace take hold of the process, which waits for its first word from us meanwhile."""
        argv = ["strace", "-p", str(self.pid), "-o", str(log), "-e", f"trace={CALLS}", *words]
        self._strace = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
        self._log = log
        assert self._strace.stderr is not None
        said = self._strace.stderr.readline()  # only from here on can it not take a step unseen
        if not said.endswith(" attached\n"):
            self.kill()  # nobody would ever tell it to begin
            raise RuntimeError(f"strace {' '.join(words)}: {said}")

    def wait_until_stopped(self) -> None:
        assert self._log is not None
        while "stopped by SIGSTOP" not in self._log.read_text():
            assert Path(f"/proc/{self.pid}").exists(), "it has ended"

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def end(self) -> Told:
        """Wait for its end."""
        told = _receive(self._told)
        self._told.close()
        status, self.ended = _receive(self._server), True
        if self._strace is not None:
            assert self._strace.stderr is not None
            self._strace.wait()
            self._strace.stderr.close()
        trace = self._log.read_text() if self._log is not None else ""
        return msgspec.convert({"status": status, "trace": trace, **(told or {})}, Told)


def _framed(value: Any) -> bytes:
    data = json.dumps(value).encode()
    return len(data).to_bytes(4) + data


def _receive(connection: socket.socket) -> Any:
    """One message; None where the other side has died or gone."""
    size = connection.recv(4, socket.MSG_WAITALL)
    return json.loads(connection.recv(int.from_bytes(size), socket.MSG_WAITALL)) if size else None


def _serve(connection: socket.socket) -> None:
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
        connection.sendall(_framed(child))
        connection.sendall(_framed(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))


def _become(request: dict[str, Any], told: socket.socket) -> None:
    """Be the verb, with the exit status that the command line would give it."""
    status = 70
    try:
        if sys.platform == "linux":  # a strace that is not our parent may take hold
            ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(-1))
        os.environ["ORDAIN_HOME"] = request["home"]
        os.umask(0o022)
        if request["threaded"]:
            ledger_writer.QUICK_S = 0.0
        else:
            ledger_writer.QUICK_S = float("inf")
            asyncio.to_thread = _in_this_thread
        told.recv(1)
        signal.alarm(HANGS_AFTER_S)  # one that waits for ever must not make everybody else wait
        result = _told(lambda: _verb(request))
        status = result["status"]
        told.sendall(_framed(result))
    finally:
        os._exit(status)


def _told(work: Callable[[], Coroutine[Any, Any, dict[str, Any]]]) -> dict[str, Any]:
    """What came of it, in the fields of `Told`."""
    try:
        return asyncio.run(work())
    except Refused as refused:
        failed = any(problem.severity is Severity.FAILURE for problem in refused.problems)
        return {"status": 1 if failed else 2, "codes": [problem.code for problem in refused.problems]}
    except Exception:
        return {"status": 70, "bug": traceback.format_exc()}


async def _verb(request: dict[str, Any]) -> dict[str, Any]:
    app = open_workspace(request["workspace"], exact=True)
    try:
        match request["verb"], request["args"]:
            case "prepare", []:
                await app.prepare(PLAN, None, KIM)
                return {"status": 0}
            case "approve", [plan]:
                await app.approve(plan, KIM, app.review(plan))
                return {"status": 0}
            case "commit", [plan]:
                return _run_told(await app.commit(plan, KIM))
            case "resume", [run]:
                return _run_told(await app.resume(run))
            case "answer", [item, word]:
                return _run_told(await app.answer(item, word, KIM))
            case other:
                raise ValueError(other)
    finally:
        await app.close()


def _run_told(report: RunReport) -> dict[str, Any]:
    status = {"completed": 0, "failed": 1, "waiting": 3}.get(report.status, 130)
    return {"status": status, "run": report.run_id, "questions": [question.item for question in report.questions]}


async def _in_this_thread(function: Callable[..., T], *args: Any) -> T:
    return function(*args)


# --- A crowd ----------------------------------------------------------------------------------------------------------


class Crowd:
    """Processes that were started once and do their tasks round by round, all beginning at the same moment."""

    def __init__(self, size: int) -> None:
        pairs = [socket.socketpair() for _ in range(size)]
        self._ours = [ours for ours, _ in pairs]
        theirs = [str(one.fileno()) for _, one in pairs]
        argv = [sys.executable, "-m", "tests.crash.gate", *theirs]
        self._parent = subprocess.Popen(argv, cwd=_ROOT, pass_fds=map(int, theirs), stdin=subprocess.DEVNULL)
        for _, one in pairs:
            one.close()

    def start(self, tasks: Sequence[dict[str, Any]]) -> None:
        """Give each process its task, wait until all are ready, and let them go."""
        for one, task in zip(self._ours, tasks, strict=True):
            one.sendall(_framed(task))
        for one in self._ours:
            assert _receive(one) == "ready"
        for one in self._ours:
            one.sendall(b"!")

    def end(self, who: Sequence[int]) -> list[dict[str, Any]]:
        """What these processes tell when they are done."""
        return [_receive(self._ours[number]) for number in who]

    def close(self) -> None:
        for one in self._ours:
            one.close()
        assert self._parent.wait() == 0


def _gather(descriptors: Sequence[int]) -> None:
    """The parent of a crowd: makes it, and ends when all of it has."""
    for mine in descriptors:
        if os.fork() == 0:
            for other in descriptors:
                if other != mine:
                    os.close(other)
            _stand_by(socket.socket(fileno=mine))
            os._exit(0)
    for descriptor in descriptors:
        os.close(descriptor)
    for _ in descriptors:
        os.wait()


def _stand_by(connection: socket.socket) -> None:
    while (task := _receive(connection)) is not None:
        os.environ["ORDAIN_HOME"] = task["home"]
        task["conflicts"] = 0
        result = _told(lambda task=task: _task(task, connection))
        connection.sendall(_framed({"conflicts": task["conflicts"], **result}))


async def _task(task: dict[str, Any], connection: socket.socket) -> dict[str, Any]:
    app = open_workspace(task["workspace"], exact=True)
    try:
        app.plans()  # opens the ledger, so that nothing but the task is left to do
        connection.sendall(_framed("ready"))
        connection.recv(1)
        match task["task"]:
            case "commit":
                if task["lock"] is not None:
                    app._here.lock = FileWriterLock(lambda: Path(task["lock"]), "")
                _count_conflicts(app, task)
                return _run_told(await app.commit(task["plan"], KIM))
            case "update":
                return await _update(app, task["own"], task["shared"], task["times"])
            case "read":
                return _read_on(app, Path(task["until"]))
            case other:
                raise ValueError(other)
    finally:
        await app.close()


def _count_conflicts(app: App, task: dict[str, Any]) -> None:
    """How often something was recorded between a look and the append that was decided from it."""
    ledger = app._here.ledger
    append = ledger.append

    async def counted(*args: Any) -> Any:
        try:
            return await append(*args)
        except Refused as refused:
            task["conflicts"] += refused.problems[0].code == "E_LEDGER_CONFLICT"
            raise

    ledger.append = counted  # type: ignore[method-assign]


async def _update(app: App, own: str, shared: str, times: int) -> dict[str, Any]:
    """Approve and revoke in turn; what others were faster with is tried again."""
    given: list[str] = []
    retries = 0
    for number in range(times):
        if number % SHARED_EVERY == SHARED_EVERY - 1:
            while True:
                try:
                    given.append((await app.approve(shared, KIM)).approval_id)
                    break
                except Refused as refused:
                    assert refused.problems[0].code == "E_PLAN_STALE_BASE", refused
                    retries += 1
        elif (number - number // SHARED_EVERY) % 2 == 0:
            given.append((await app.approve(own, KIM)).approval_id)
        else:
            await app.revoke(own, KIM)
    return {"status": 0, "given": given, "retries": retries}


def _read_on(app: App, until: Path) -> dict[str, Any]:
    """Look again and again: all that was seen once must be seen again, with more after it."""
    ledger, looks = app._here.ledger, 0
    heads: dict[str, list[str]] = {}
    while not until.exists():
        looks += 1
        for stream in ledger.streams(""):
            found = heads.setdefault(stream, [])
            if found:
                assert ledger.read(stream, len(found) - 1)[0].head == found[-1], f"{stream} has changed"
            found += [one.head for one in ledger.read(stream, len(found))]  # reading verifies the chain
        size, _ = ledger.checkpoint()
        assert size >= sum(map(len, heads.values()))
        app.plans()
        time.sleep(0.05)  # readers that never rest would only show how little is left for the writers
    return {"status": 0, "looks": looks, "seen": sum(map(len, heads.values()))}


if __name__ == "__main__":
    import ordain.documents.markdown_writer
    import ordain.engine  # noqa: F401

    open_workspace(_ROOT, exact=True).lint(PLAN)  # loads what is loaded only when it is needed, and writes nothing
    numbers = [int(word) for word in sys.argv[1:]]
    if len(numbers) == 1:
        _serve(socket.socket(fileno=numbers[0]))
    else:
        _gather(numbers)
