"""Processes as the system tells of them (`/proc`), and ending many of them so that none gets away by forking.

Where there is no `/proc` nothing is found; where it cannot be looked at, nothing goes on (`E_PROCESSES`). Only what a
caller's own search finds is signalled.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from ordain.core.text.problem import Problem, refuse

# --- Processes -------------------------------------------------------------------------------------------------------

MARK = "ORDAIN_MARK"
SERVERS: set[int] = set()
"""Children of this process that are no commands and outlive them: servers of tools. Who starts one ends it."""
BECOMING_LOOKS = 20
"""How often a process without an environment is looked at, a millisecond apart, before it is believed to have none."""
END_S = 3.0
"""How long to go after processes that fork faster than they are killed; what is left then is left to the next sweep."""


def end_all(find: Callable[[], set[int]], *, reap: bool = False) -> int:
    """Kill everything that `find` finds, until it finds nothing; how many were alive.

    All are stopped before any is killed: what is stopped does not fork. `reap` collects what was handed to us.
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
        ended |= {pid for pid in stopped if not is_over(pid)}
        for pid in stopped:
            _send(pid, signal.SIGKILL)
        if not stopped or time.monotonic() > give_up:
            return len(ended)
        time.sleep(0.001)  # the kernel takes a moment to let a killed process go


def _reaped(pid: int) -> bool:
    """Whether a process was our child, had ended and is collected now."""
    with contextlib.suppress(ChildProcessError):  # not our child
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    return False


def is_over(pid: int) -> bool:
    """Whether a process has ended and only waits to be collected; or its first thread has, so it is killed anyway."""
    return (_content(f"/proc/{pid}/stat") or b"").rpartition(b")")[2].split()[:1] == [b"Z"]


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
    return [int(name) for name in _names("/proc") if name.isdigit()]


def with_descendants(roots: Iterable[int]) -> set[int]:
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        if (pid := waiting.pop()) not in found:
            found.add(pid)
            waiting += _children(str(pid))
    return found


def _children(process: str) -> list[int]:
    files = (f"/proc/{process}/task/{thread}/children" for thread in _names(f"/proc/{process}/task"))
    return [int(word) for file in files for word in (_content(file) or b"").split()]


def mark_of(pid: int) -> str | None:
    marks = (one.partition(b"=")[2] for one in _environment(pid).split(b"\0") if one.startswith(MARK.encode() + b"="))
    return next((mark.decode("utf-8", "replace") for mark in marks), None)


def _environment(pid: int) -> bytes:
    """The environment of a process. One that is just becoming another program is looked at again."""
    for _ in range(BECOMING_LOOKS):
        found = _content(f"/proc/{pid}/environ")
        if found or found is None or not _has_program(pid):
            return found or b""
        time.sleep(0.001)
    return b""


def _has_program(pid: int) -> bool:
    """Whether a process runs a program: neither a thread of the kernel nor one that has ended."""
    with contextlib.suppress(OSError):
        return bool(os.readlink(f"/proc/{pid}/exe"))  # noqa: PTH115
    return False


def _names(directory: str) -> list[str]:
    """What is in a directory of `/proc`, nothing where there is none."""
    try:
        return os.listdir(directory)  # noqa: PTH208
    except OSError as error:
        _refuse_blindness(error)
        return []


def _content(file: str) -> bytes | None:
    """What a file of `/proc` says, None where its process is gone or not ours. For each command, so without pathlib."""
    try:
        with open(file, "rb") as opened:  # noqa: PTH123
            return opened.read()
    except OSError as error:
        _refuse_blindness(error)
        return None


def _refuse_blindness(error: OSError) -> None:
    """That we cannot look does not mean that nobody is there: then nothing may go on as if nobody were."""
    if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO):
        reason = os.strerror(error.errno).lower()
        raise refuse("E_PROCESSES", f"What commands left running cannot be looked for in /proc: {reason}.") from error


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
    with contextlib.suppress(IndexError, ValueError):
        return int((_content(f"/proc/{pid}/stat") or b"").rpartition(b")")[2].split()[field])
    return None


# --- Process groups --------------------------------------------------------------------------------------------------
# Where there is no `/proc`, the groups of commands under way are noted in the state directory: nothing else can be
# found again. One is killed only where its leader is the process that was noted, by the time it was started, or has
# ended: no process gets the number of a group that is still there.

_PS = ("/bin/ps", "/usr/bin/ps")
_NOTED_S = 3
"""How long after its start a group is noted at the latest; `ps` tells whole seconds."""


def is_searchable() -> bool:
    """Whether the system tells of all processes (`/proc`)."""
    return Path("/proc/self/environ").exists()


def weaknesses() -> tuple[Problem, ...]:
    """What an approver should know of this platform."""
    if is_searchable():
        return ()
    detail = "There is no /proc here: of a run that was killed, only process groups can be ended before it goes on."
    hint = "A command that made a session of its own goes on beside the run that takes over."
    return (Problem(code="W_PROCESSES", detail=detail, hints=(hint,)),)


class _Note(msgspec.Struct, frozen=True):
    mark: str
    started: str


class ProcessGroups:
    """Groups by the processes that lead them, each in a file of its own."""

    def __init__(self, room: Callable[[], Path] | None) -> None:
        self._room = room

    def note(self, group: int, mark: str) -> None:
        """Note a group that was started just now, for whoever takes over."""
        if self._room is not None and not is_searchable():
            directory = self._room() / "groups"
            directory.mkdir(mode=0o700, exist_ok=True)
            note = directory / str(group)
            note.write_bytes(msgspec.json.encode(_Note(mark, "")))  # at once: asking `ps` takes its time
            whole = note.with_name(f".{group}")
            whole.write_bytes(msgspec.json.encode(_Note(mark, _started(group))))
            whole.replace(note)

    def forget(self, group: int) -> None:
        if self._room is not None and not is_searchable():
            (self._room() / "groups" / str(group)).unlink(missing_ok=True)

    def end(self, mark_prefix: str) -> int:
        """Kill the groups that were noted with such a mark and are still there; how many."""
        if self._room is None or is_searchable():
            return 0
        ended = 0
        for file in (self._room() / "groups").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError):
                note = msgspec.json.decode(file.read_bytes(), type=_Note)
                if not note.mark.startswith(mark_prefix):
                    continue
                started = _started(int(file.name))
                if started in ("", note.started) or (
                    not note.started and abs(time.mktime(time.strptime(started)) - file.stat().st_mtime) <= _NOTED_S
                ):
                    os.killpg(int(file.name), signal.SIGKILL)
                    ended += 1
            file.unlink(missing_ok=True)
        return ended


def _started(pid: int) -> str:
    """When a process was started, as the system's `ps` says; empty where it is gone, or nothing says so."""
    program = next((path for path in _PS if os.access(path, os.X_OK)), None)
    if program is None:
        return ""
    words = [program, "-o", "lstart=", "-p", str(pid)]
    import subprocess

    done = subprocess.run(words, env={"LC_ALL": "C"}, capture_output=True, check=False)
    return done.stdout.decode("ascii", "replace").strip()
