"""Processes under attack: a verb in a process of its own, which strace disturbs at one system call.

Both a module for the tests and the script of the processes. They are forked from one that has loaded everything, so
that a point takes a tenth of a second. strace counts calls by thread, so a verb does all its work in one thread, or,
where the ledger's own thread is to be disturbed, all its writing in that one: then the Nth call is the same one each
time. What a verb tells goes through a socket, with calls that are never disturbed.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import ctypes
import functools
import importlib
import json
import logging
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

import ordain
from tests.crash import world
from tests.patience import patience
from tests.words import (
    App,
    Channel,
    Engine,
    Principal,
    Records,
    Refused,
    RunReport,
    RunState,
    Severity,
    SqliteLedger,
    open_at_terminal,
)

__all__ = ["KIM", "ROOT", "Told", "Verb", "Warm", "framed", "load", "receive", "run_told", "told_of"]

KIM = Principal(name="kim", channel=Channel.TERMINAL)
HANGS_AFTER_S = round(patience(60))
ROUNDS_MAX = 10
"""How often a run may be resumed or answered until it is wedged."""
ROOT = Path(__file__).parent.parent.parent
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PTRACER = 0x59616D61

T = TypeVar("T")


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """How a verb ended: its exit status, negative for a signal, and what it told."""

    status: int
    codes: tuple[str, ...] = ()
    run: str | None = None
    questions: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    """What the problems with these codes say."""
    errors: tuple[str, ...] = ()
    """What is wrong with steps of the run."""
    asked: int = 0
    """How many doubts were answered on the way."""
    bug: str = ""
    trace: str = ""
    """What strace saw."""

    def __repr__(self) -> str:
        return str({name: value for name, value in msgspec.structs.asdict(self).items() if value and name != "trace"})


class Warm:
    """A process that has loaded everything, from which others are forked, one at a time."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        # A test before may have run commands in this process, which then inherits orphans and would never reap those of
        # processes that are killed: by the thousand they make every look at the processes of this machine slow.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        argv = [sys.executable, "-m", "tests.crash.process", str(theirs.fileno())]
        self._server = subprocess.Popen(argv, cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        self._begun: Verb | None = None

    def close(self) -> None:
        self._clear()
        self._ours.close()
        self._server.wait()

    def _clear(self) -> None:
        """End what a test that failed has left under way."""
        if self._begun is not None and not self._begun.ended:
            with contextlib.suppress(ProcessLookupError):  # it may have ended while nobody waited for it
                self._begun.kill()
            self._begun.end()

    def start(self, request: dict[str, Any], strace: str | None, log: Path) -> Verb:
        self._clear()
        ours, theirs = socket.socketpair()
        handed = array.array("i", [theirs.fileno()])
        self._ours.sendmsg([framed(request)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, handed)])
        theirs.close()
        begun = self._begun = Verb(receive(self._ours), ours, self._ours)
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
        argv = ["strace", "-p", str(self.pid), "-o", str(log), *words]
        self._strace = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
        self._log = log
        assert self._strace.stderr is not None
        said = self._strace.stderr.readline()  # only from here on can it not take a step unseen
        if not said.endswith(" attached\n"):
            self.kill()  # nobody would ever tell it to begin
            raise RuntimeError(f"strace {' '.join(words)}: {said}")

    def wait_until_stopped(self) -> bool:
        """Wait until it is frozen; whether that came before its end."""
        assert self._log is not None
        while "stopped by SIGSTOP" not in self._log.read_text():
            if not Path(f"/proc/{self.pid}").exists():
                return False
        return True

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def end(self) -> Told:
        """Wait for its end."""
        told = receive(self._told)
        self._told.close()
        status, self.ended = receive(self._server), True
        if self._strace is not None:
            assert self._strace.stderr is not None
            self._strace.wait()
            self._strace.stderr.close()
        trace = self._log.read_text() if self._log is not None else ""
        return msgspec.convert({"status": status, "trace": trace, **(told or {})}, Told)


def framed(value: Any) -> bytes:
    data = json.dumps(value).encode()
    return len(data).to_bytes(4) + data


def receive(connection: socket.socket) -> Any:
    """One message; None where the other side has died or gone."""
    size = connection.recv(4, socket.MSG_WAITALL)
    return json.loads(connection.recv(int.from_bytes(size), socket.MSG_WAITALL)) if size else None


def load() -> None:
    """Load everything, so that no verb has to, whose calls would then be others than the next one's; writes nothing."""
    for module in pkgutil.walk_packages(ordain.__path__, "ordain."):
        if module.name != "ordain.__main__":
            importlib.import_module(module.name)
    open_at_terminal(ROOT, exact=True).plans.lint(world.document())


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
        connection.sendall(framed(child))
        connection.sendall(framed(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))


def _become(request: dict[str, Any], told: socket.socket) -> None:
    """Be the verb, with the exit status that the command line would give it."""
    status = 70
    try:
        if sys.platform == "linux":  # a strace that is not our parent may take hold
            ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(-1))
        os.environ["ORDAIN_HOME"] = request["home"]
        os.umask(0o022)
        quick_s = 0.0 if request["threaded"] else float("inf")
        SqliteLedger.open = functools.partial(SqliteLedger.open, quick_s=quick_s)  # type: ignore[method-assign]
        if not request["threaded"]:
            asyncio.to_thread = _in_this_thread
        said = _Said()
        told.recv(1)
        signal.alarm(HANGS_AFTER_S)  # one that waits for ever must not make everybody else wait
        result = told_of(lambda: _verb(request))
        status = result["status"]
        if said.lines and "bug" not in result:
            result["bug"] = "\n".join(said.lines)
        told.sendall(framed(result))
    finally:
        os._exit(status)


class _Said(logging.Handler):
    """What the event loop complains about behind everybody's back: a traceback that nobody would see here."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []
        logging.getLogger("asyncio").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(logging.Formatter().format(record))


def told_of(work: Callable[[], Coroutine[Any, Any, dict[str, Any]]]) -> dict[str, Any]:
    """What came of it, in the fields of `Told`."""
    try:
        return asyncio.run(work())
    except Refused as refused:
        failed = any(problem.severity is Severity.FAILURE for problem in refused.problems)
        return {
            "status": 1 if failed else 2,
            "codes": [problem.code for problem in refused.problems],
            "details": [problem.detail for problem in refused.problems],
        }
    except Exception:
        return {"status": 70, "bug": traceback.format_exc()}


async def _verb(request: dict[str, Any]) -> dict[str, Any]:
    app = open_at_terminal(request["workspace"], exact=True)
    try:
        match request["verb"], request["args"]:
            case "prepare", [document]:
                await app.plans.prepare(document.encode(), None, KIM)
                return {"status": 0}
            case "approve", [plan]:
                await app.approvals.approve(plan, KIM, app.plans.review(plan))
                return {"status": 0}
            case "succeed", [run, document]:
                await app.plans.succeed(run, KIM, document.encode())
                return {"status": 0}
            case "commit", [plan]:
                return run_told(await _carried_out(app, app.runs.commit(plan, KIM)))
            case "resume", [run]:
                return run_told(await _carried_out(app, app.runs.resume(run)))
            case "take over", [run]:
                return run_told(await _carried_out(app, app.runs.resume(run, take_over=True)))
            case "answer", [item, word]:
                return run_told(await app.answers.answer(item, word, KIM))
            case "finish", [plan]:
                return await _finish(app, plan, Path(request["workspace"]))
            case other:
                raise ValueError(other)
    finally:
        await app.close()


async def _carried_out(app: App, work: Coroutine[Any, Any, RunReport]) -> RunReport:
    """Start or go on with a run; what its executor believed in the end must be what the ledger adds up to."""
    believed: list[RunState] = []
    carry_out = Engine.carry_out

    async def watched(engine: Engine, *args: Any) -> RunState:
        believed.append(await carry_out(engine, *args))
        return believed[-1]

    Engine.carry_out = watched  # type: ignore[method-assign]
    try:
        report = await work
    finally:
        Engine.carry_out = carry_out  # type: ignore[method-assign]
    replayed, _, _ = Records(app.ports.ledger.look()).run(report.run_id)
    told_of_another = work.__name__ == "commit" and app.runs.started != report.run_id
    assert believed == ([] if told_of_another else [replayed]), "what the executor believed is not what the ledger says"
    return report


async def _finish(app: App, plan: str, workspace: Path) -> dict[str, Any]:
    """Do what a careful person does until the run has ended: start it, go on with it, answer what it asks from what
    really happened. Raises AssertionError where that leads nowhere."""
    asked = 0
    for _ in range(ROUNDS_MAX):
        report = app.plans.review(plan).run
        if report is None:
            report = await _carried_out(app, app.runs.commit(plan, KIM))
        elif report.status == "stopped":
            report = await _carried_out(app, app.runs.resume(report.run_id))
        if report.status not in ("stopped", "waiting"):
            return run_told(report) | {"asked": asked}
        for question in report.questions:
            assert question.kind == "doubt", question
            asked += 1
            await app.answers.answer(
                question.item, "happened" if world.happened(workspace, question.step) else "did-not", KIM
            )
    raise AssertionError(f"wedged: {report}")


def run_told(report: RunReport) -> dict[str, Any]:
    status = {"completed": 0, "failed": 1, "waiting": 3}.get(report.status, 130)
    return {
        "status": status,
        "run": report.run_id,
        "questions": [question.item for question in report.questions],
        "errors": [step.error for step in report.steps if step.error is not None],
    }


async def _in_this_thread(function: Callable[..., T], *args: Any) -> T:
    return function(*args)


if __name__ == "__main__":
    load()
    _serve(socket.socket(fileno=int(sys.argv[1])))
