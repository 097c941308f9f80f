"""Processes as the system tells of them (`/proc`), and ending many of them so that none gets away by forking.

Where there is no `/proc` nothing is found. The invariant: only what a caller's own search finds is signalled.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

__all__ = [
    "MARK",
    "all_processes",
    "ancestors_of_us",
    "children_of_us",
    "end_all",
    "mark_of",
    "session_of",
    "with_descendants",
]

MARK = "ORDAIN_MARK"
END_S = 3.0
"""How long to go after processes that fork faster than they are killed; what is left then is left to the next sweep."""


def end_all(find: Callable[[], set[int]], *, reap: bool = False) -> int:
    """Kill everything that `find` finds, until it finds nothing; how many were alive.

    All are stopped before any is killed: what is stopped does not fork. `reap` collects what was handed to us; whatever
    else is our child is for somebody else to collect.
    """
    ended: set[int] = set()
    beyond: set[int] = set()
    """What runs as another user is not ours to signal."""
    give_up = time.monotonic() + END_S
    while True:
        stopped: set[int] = set()
        while new := {pid for pid in find() - stopped - beyond if not (reap and _reaped(pid))}:
            beyond |= {pid for pid in new if not _send(pid, signal.SIGSTOP)}
            stopped |= new - beyond
            if time.monotonic() > give_up:
                break
        for pid in stopped:
            _send(pid, signal.SIGKILL)
        ended |= stopped
        if not stopped or time.monotonic() > give_up:
            return len(ended)
        time.sleep(0.001)  # the kernel takes a moment to let a killed process go


def _reaped(pid: int) -> bool:
    """Whether a process was our child, had ended and is collected now."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return False  # not our child


def _send(pid: int, number: int) -> bool:
    """Signal a process, if it is still there; whether that is ours to do."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


def children_of_us() -> list[int]:
    """Our own children, and orphans that were handed to us; also those that have ended and nobody has collected."""
    return _children("self")


def all_processes() -> list[int]:
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    return []


def with_descendants(roots: Iterable[int]) -> set[int]:
    """These processes and all that they started, as far as it still hangs together."""
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid in found:
            continue
        found.add(pid)
        waiting += _children(str(pid))
    return found


def _children(process: str) -> list[int]:
    """The children that each thread of a process started or was handed. For every command: so without pathlib."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):  # noqa: PTH208
            with contextlib.suppress(OSError), open(f"/proc/{process}/task/{thread}/children", "rb") as file:  # noqa: PTH123
                found += [int(word) for word in file.read().split()]
    return found


def mark_of(pid: int) -> str | None:
    """The mark in a process's environment."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    for entry in environment.split(b"\0"):
        if entry.startswith(MARK.encode() + b"="):
            return entry.partition(b"=")[2].decode("utf-8", "replace")
    return None


def session_of(pid: int) -> int | None:
    """The session that a process is in, named by the process that opened it."""
    return _stat(pid, 3)


def ancestors_of_us() -> set[int]:
    """We and our parents: a run started from inside a step must not sweep itself away."""
    found, pid = {os.getpid()}, os.getppid()
    while pid > 1 and pid not in found:
        found.add(pid)
        pid = _stat(pid, 1) or 0
    return found


def _stat(pid: int, field: int) -> int | None:
    """A number of `/proc/PID/stat`, counted from after the name, which may hold anything."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[field])
    except (OSError, IndexError, ValueError):
        return None
