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
from ordain.core.event import RunOpened, to_wire
from ordain.core.lineage import PlanState
from ordain.core.problem import Refused, Severity
from ordain.core.summary import PlanSummary
from ordain.core.value import RunId
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
TRUTHFUL_FAILURES = {"E_LEDGER_IO", "E_STATE_DIR", "F_RUN_STOPPED"}

_ROOT = Path(__file__).parent.parent.parent
_STRACE_LINE = re.compile(r"(?:\d+ +)?(\w+)\((.*)")
_PR_SET_PTRACER = 0x59616D61

T = TypeVar("T")


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
