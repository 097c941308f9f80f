"""`ordain` in a real process of its own that need not load the program first: forked from one that has.

The server is a program with one thread and nothing of pytest in it; whoever asks hands over the three descriptors, the
directory and the environment, and gets the exit status.
"""

from __future__ import annotations

import array
import atexit
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["run_forked"]

_ROOT = Path(__file__).parent.parent.parent
_COMMANDS = (
    *("around", "carrying", "formatting", "looking", "planning", "robots", "running", "schemas", "simulating"),
    "writing",
)
_servers: dict[int, socket.socket] = {}


def run_forked(args: list[str], cwd: Path, env: dict[str, str], stdin: int, stdout: int, stderr: int) -> int:
    """Run the command with these descriptors; its exit status, negative for the signal that ended it."""
    ours = _servers.get(os.getpid()) or _start()
    request = json.dumps({"args": args, "cwd": str(cwd), "env": env}).encode()
    ours.sendmsg(
        [len(request).to_bytes(4), request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, _packed(stdin, stdout, stderr))]
    )
    return int.from_bytes(_exactly(ours, 4), signed=True)


def _packed(*descriptors: int) -> bytes:
    return array.array("i", descriptors).tobytes()


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


def _serve(connection: socket.socket) -> None:
    import importlib

    import ordain.adapters.sqlite_ledger
    import ordain.engine
    import ordain.interfaces.cli.main  # noqa: F401

    for name in _COMMANDS:
        importlib.import_module(f"ordain.interfaces.cli.{name}")
    while True:
        head, ancillary, _, _ = connection.recvmsg(4, socket.CMSG_SPACE(12))
        if not head:
            return
        request = json.loads(_exactly(connection, int.from_bytes(head + _exactly(connection, 4 - len(head)))))
        descriptors = array.array("i", ancillary[0][2])
        child = os.fork()
        if child == 0:
            connection.close()
            _become(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        connection.sendall(status.to_bytes(4, signed=True))


def _become(request: dict[str, Any], descriptors: array.array[int]) -> None:
    """Be the command, as far as anybody outside can tell."""
    status = 70
    try:
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        sys.argv = ["ordain", *request["args"]]
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
        from ordain.interfaces.cli.main import main

        try:
            main(prog_name="ordain")
        except SystemExit as left:
            status = left.code if isinstance(left.code, int) else int(left.code is not None)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
