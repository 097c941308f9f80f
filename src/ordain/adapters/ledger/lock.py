"""Who is at work in a workspace: flocks on small files. A file names its holder and its last sign of life, for people
and for whoever must end it; the lock itself is the truth, which the operating system releases when the holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from ordain.adapters.workspace.openat import is_at, reason
from ordain.core.text.problem import refuse
from ordain.ports.machine import Holder

ENDING_S = 5.0
"""How long a killed process may take to let go."""


class FileWriterLock:
    """ports.WriterLock on files in one directory, for a process that knows which boot of the machine this is."""

    def __init__(self, directory: Callable[[], Path], boot_id: str) -> None:
        self._directory = directory  # asked only when a lock is, so that looking needs no state directory
        self._boot_id = boot_id
        self._held: dict[Path, int] = {}
        """The files that this process has locked, and the descriptors by which it has."""

    @contextlib.contextmanager
    def claim(self, what: str) -> Iterator[None]:
        path = self._claimed(what)
        descriptor = self._open(path)
        try:
            # A file that its holder deleted meanwhile locks nothing any more.
            while (locked := _lock_soon(descriptor)) and not is_at(descriptor, path):
                os.close(descriptor)
                descriptor = self._open(path)
            if not locked:
                raise _busy(what, _read(descriptor))
            with self._holding(path, descriptor, what):
                try:
                    yield
                finally:
                    with contextlib.suppress(OSError):
                        path.unlink()
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def place(self, holder: str, places: int) -> Iterator[None]:
        taken = []
        for number in range(1, places + 1):
            path = self._directory() / ("writer.lock" if number == 1 else f"writer-{number}.lock")
            descriptor = self._open(path)
            try:
                if _lock_soon(descriptor):
                    with self._holding(path, descriptor, holder):
                        yield
                    return
                taken.append(_read(descriptor).name or "it did not say what")
            finally:
                os.close(descriptor)
        raise refuse(
            "E_WORKSPACE_BUSY",
            f"Another ordain process is at work in this workspace: {', '.join(taken)}.",
            "It goes on by itself; try again when it has stopped.",
            command="ordain status",
        )

    def beat(self) -> None:
        for path, descriptor in self._held.items():
            _write(descriptor, self._words(_read(descriptor).name or path.stem))

    def holder(self, what: str) -> Holder | None:
        if (said := self._said(what)) is None:
            return None
        if said.boot_id != self._boot_id or not said.begun or _begun(said.pid) != said.begun:
            # What stands there is a dead one's; who has the lock has not yet said who it is.
            return Holder(name=what)
        return Holder(name=said.name, pid=said.pid, silent_ms=max(_awake_ms() - said.beat, 0))

    def end(self, what: str, holder: Holder) -> bool:
        if (said := self._said(what)) is None:
            return True
        if said.pid != holder.pid or not _has_locked(said.pid, self._claimed(what)):
            return False
        try:
            process = os.pidfd_open(said.pid)  # first: from here on the number means this process and no other
        except (OSError, AttributeError):
            return self._said(what) is None
        try:
            same = said.boot_id == self._boot_id and said.begun and said.begun == _begun(said.pid)
            if not same or said.pid == os.getpid():
                return False
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(process, signal.SIGKILL)
        finally:
            os.close(process)
        until = time.monotonic() + ENDING_S
        while self._said(what) is not None:
            if time.monotonic() > until:
                return False
            time.sleep(0.01)
        return True

    def _said(self, what: str) -> _Said | None:
        """What somebody else said who has claimed this; None where nobody else has."""
        path = self._claimed(what)
        if path in self._held:
            return None
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return None
        try:
            return None if _lock(descriptor) else _read(descriptor)
        finally:
            os.close(descriptor)

    def _claimed(self, what: str) -> Path:
        return self._directory() / f"{what}.lock"

    def _open(self, path: Path) -> int:
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise refuse("E_STATE_DIR", f"The lock {path} cannot be opened: {reason(error)}.") from error

    @contextlib.contextmanager
    def _holding(self, path: Path, descriptor: int, name: str) -> Iterator[None]:
        self._held[path] = descriptor
        _write(descriptor, self._words(name))
        try:
            yield
        finally:
            del self._held[path]
            _write(descriptor, "")

    def _words(self, name: str) -> str:
        return f"{name}\n{os.getpid()} {_begun(os.getpid())} {self._boot_id} {_awake_ms()}\n"


class _Said(NamedTuple):
    """What a lock file says of its holder; nothing where it could not be written."""

    name: str = ""
    pid: int = 0
    begun: int = 0
    """When the process began, in the kernel's own count: a number is used again, this with it is not."""
    boot_id: str = ""
    beat: int = 0


def _busy(what: str, said: _Said) -> Exception:
    who = f"process {said.pid}" if said.pid else "another process"
    return refuse(
        "E_RUN_BUSY",
        f"{who.capitalize()} is at work on {what} just now.",
        "Watch it, pause it or cancel it from here; if it is frozen, --take-over ends that process first.",
        command=f"ordain watch {what}",
    )


def _lock_soon(descriptor: int) -> bool:
    """Lock, or give up after a moment: somebody who only asks who holds the lock has it for an instant too."""
    for _ in range(10):
        if _lock(descriptor):
            return True
        time.sleep(0.005)
    return False


def _lock(descriptor: int) -> bool:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _write(descriptor: int, words: str) -> None:
    """Name the holder; a disk that refuses that takes nothing away from the lock."""
    with contextlib.suppress(OSError):
        data = words.encode()
        os.pwrite(descriptor, data, 0)
        os.ftruncate(descriptor, len(data))


def _read(descriptor: int) -> _Said:
    name, _, rest = os.pread(descriptor, 400, 0).decode("utf-8", "replace").partition("\n")
    with contextlib.suppress(ValueError):
        pid, begun, boot_id, beat = rest.split()[:4]
        return _Said(name, int(pid), int(begun), boot_id, int(beat))
    return _Said(name)


def _has_locked(pid: int, path: Path) -> bool:
    try:
        inode = str(path.stat(follow_symlinks=False).st_ino)
        words = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    except OSError:
        return False
    return any(
        "FLOCK" in line and "->" not in line and str(pid) in line and line[-3].rpartition(":")[2] == inode
        for line in words
    )


def _awake_ms() -> int:
    """Time that has passed in this boot while the machine was awake: who slept with it was not silent."""
    return time.monotonic_ns() // 1_000_000


def _begun(pid: int) -> int:
    """When a process began, as the kernel counts it; 0 where it does not say."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return 0
