"""`ordain` in real processes of their own that need not load the program first: forked from one that has.

The server that forks is a program with one thread, all of Ordain and nothing of pytest in it. Whoever asks hands over
the three descriptors, the directory and the environment, and gets the process id, and later the exit status.
"""

from __future__ import annotations

import array
import atexit
import fcntl
import gc
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

__all__ = ["Forked", "may_be_forked"]

_ROOT = Path(__file__).parent.parent.parent
_READ_AT_START = re.compile(r"PYTHON|LC_|LANG|LD_|TZ")
_servers: dict[int, socket.socket] = {}
_one_at_a_time = threading.Lock()


# --- Whoever asks --------------------------------------------------------------------------------------------------


def may_be_forked(env: Mapping[str, str] | None) -> bool:
    """Whether a forked process is what one with this environment would be: Python reads some of it when it starts."""
    given = os.environ if env is None else env
    names = {name for name in {*given, *os.environ} if _READ_AT_START.match(name)}
    return all(given.get(name) == os.environ.get(name) for name in names)


class Forked:
    """One `ordain` command, to be used like a `subprocess.Popen`."""

    def __init__(
        self,
        args: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        start_new_session: bool = False,
        takes_terminal: bool = False,
    ) -> None:
        self.returncode: int | None = None
        theirs: list[int] = []
        self.stdin, self.stdout, self.stderr = (
            _stream(number, kind, theirs) for number, kind in enumerate((stdin, stdout, stderr))
        )
        self._status, their_status = socket.socketpair()
        request = {
            "args": list(args),
            "cwd": str(cwd),
            "env": dict(os.environ if env is None else env),
            "new_session": start_new_session,
            "takes_terminal": takes_terminal,
        }
        try:
            self.pid = _ask(request, [*theirs, their_status.fileno()])
        finally:
            their_status.close()
            for descriptor in theirs:
                os.close(descriptor)

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *error: object) -> None:
        for stream in (self.stdout, self.stderr, self.stdin):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        self.wait()

    def poll(self) -> int | None:
        """How it ended, if it has; negative for the signal that ended it."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._status.settimeout(timeout)
            try:
                said = self._status.recv(4)
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired("ordain", timeout or 0) from None
            self._status.close()
            assert len(said) == 4, "the server that forks has ended"
            self.returncode = int.from_bytes(said, signed=True)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, given: bytes | None = None, timeout: float | None = None) -> tuple[bytes, bytes]:
        """Say this, and read to the end; what it wrote to its standard output and to its standard error."""
        end = None if timeout is None else time.monotonic() + timeout
        if self.stdin is not None:
            with suppress(BrokenPipeError):
                self.stdin.write(given or b"")
                self.stdin.close()
        read: dict[IO[bytes] | None, bytearray] = {self.stdout: bytearray(), self.stderr: bytearray()}
        left = [stream for stream in read if stream is not None and not stream.closed]
        while left:
            ready, _, _ = select.select(left, [], [], None if end is None else max(0, end - time.monotonic()))
            if not ready:
                raise subprocess.TimeoutExpired("ordain", timeout or 0)
            for stream in ready:
                data = os.read(stream.fileno(), 1 << 16)
                read[stream] += data
                if not data:
                    left.remove(stream)
                    stream.close()
        self.wait(None if end is None else max(0.1, end - time.monotonic()))
        return bytes(read[self.stdout]), bytes(read[self.stderr])


def _stream(number: int, kind: int | None, theirs: list[int]) -> IO[bytes] | None:
    """Our end of a standard stream, where it is a pipe; theirs is added to a list."""
    if kind == subprocess.PIPE:
        reading, writing = os.pipe()
        theirs.append(reading if number == 0 else writing)
        return open(writing, "wb") if number == 0 else open(reading, "rb")
    if kind == subprocess.DEVNULL:
        theirs.append(os.open(os.devnull, os.O_RDWR))
    elif kind == subprocess.STDOUT:
        theirs.append(os.dup(theirs[1]))
    else:
        theirs.append(os.dup(number if kind is None else kind))
    return None


def _ask(request: dict[str, Any], descriptors: list[int]) -> int:
    """Have this forked; the id of its process."""
    data = json.dumps(request).encode()
    with _one_at_a_time:
        ours = _servers.get(os.getpid()) or _start()
        packed = array.array("i", descriptors).tobytes()
        ours.sendmsg([len(data).to_bytes(4), data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, packed)])
        return int.from_bytes(_exactly(ours, 4))


def _start() -> socket.socket:
    ours, theirs = socket.socketpair()
    argv = [sys.executable, "-m", "tests.interfaces.forked", str(theirs.fileno())]
    server = subprocess.Popen(argv, cwd=_ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
    theirs.close()
    _servers[os.getpid()] = ours

    def stop() -> None:
        ours.close()
        server.wait()

    atexit.register(stop)
    return ours


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


# --- The server ----------------------------------------------------------------------------------------------------


def _serve(connection: socket.socket) -> None:
    _load_everything()
    gc.freeze()  # no child looks through all that for garbage, and copies it
    woken, wakes = socket.socketpair()
    for one in (woken, wakes):
        one.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    statuses: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([connection, woken], [], [])
        if woken in ready:
            woken.recv(4096)
            _tell_ends(statuses)
        if connection not in ready:
            continue
        head, ancillary, _, _ = connection.recvmsg(4, socket.CMSG_SPACE(16))
        if not head:
            return
        request = json.loads(_exactly(connection, int.from_bytes(head + _exactly(connection, 4 - len(head)))))
        *descriptors, status = array.array("i", ancillary[0][2])
        child = os.fork()
        if child == 0:
            _become(request, descriptors)
        statuses[child] = status
        for descriptor in descriptors:
            os.close(descriptor)
        connection.sendall(child.to_bytes(4))


def _load_everything() -> None:
    import importlib
    import pkgutil

    import ordain

    for module in pkgutil.walk_packages(ordain.__path__, "ordain."):
        with suppress(ImportError):  # of an extra that is not installed
            importlib.import_module(module.name)


def _tell_ends(statuses: dict[int, int]) -> None:
    """Tell of all that have ended how they did."""
    while statuses:
        child, how = os.waitpid(-1, os.WNOHANG)
        if child == 0:
            return
        status = statuses.pop(child)
        with suppress(OSError):  # nobody wants to know any more
            os.write(status, os.waitstatus_to_exitcode(how).to_bytes(4, signed=True))
        os.close(status)


def _become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Be the command, as far as anybody outside can tell."""
    status = 70
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        os.closerange(3, 1 << 16)
        if request["new_session"]:
            os.setsid()
        if request["takes_terminal"]:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        sys.path[:] = [place for place in sys.path if place not in ("", str(_ROOT))]
        sys.argv = ["ordain", *request["args"]]
        sys.stdin, sys.stdout = open(0), open(1, "w")  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, errors="backslashreplace")  # noqa: SIM115
        status = _lived()
    finally:
        os._exit(status)


def _lived() -> int:
    """How the command ended; threads of it and what it registered for its end included."""
    from ordain.__main__ import main

    status = 0
    try:
        main()
    except SystemExit as left:
        if isinstance(left.code, str):
            print(left.code, file=sys.stderr)
        status = left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return status


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
