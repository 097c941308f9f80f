"""The writer lock of a workspace: one flock, released by the operating system when its holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ordain.core.problem import refuse

__all__ = ["FileWriterLock"]


class FileWriterLock:
    """ports.WriterLock on a file in the state directory. The file names its holder; the lock itself is the truth."""

    def __init__(self, path: Callable[[], Path]) -> None:
        self._path = path  # asked only when the lock is, so that looking at a workspace needs no state directory
        self._held = False

    @contextlib.contextmanager
    def hold(self, holder: str) -> Iterator[None]:
        try:
            descriptor = os.open(self._path(), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            reason = os.strerror(error.errno or 0).lower()
            raise refuse("E_STATE_DIR", f"The lock {self._path()} cannot be opened: {reason}.") from error
        try:
            if not _lock_soon(descriptor):
                other = _read(descriptor) or "it did not say what"
                raise refuse(
                    "E_WORKSPACE_BUSY",
                    f"Another ordain process is at work in this workspace: {other}.",
                    "It goes on by itself; try again when it has stopped.",
                    command="ordain status",
                )
            _write(descriptor, holder)
            self._held = True
            try:
                yield
            finally:
                self._held = False
                _write(descriptor, "")
        finally:
            os.close(descriptor)

    def holder(self) -> str | None:
        if self._held:
            return None
        try:
            descriptor = os.open(self._path(), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return None
        try:
            return None if _lock(descriptor) else _read(descriptor)
        finally:
            os.close(descriptor)


def _lock_soon(descriptor: int) -> bool:
    """Lock, or give up after a moment: somebody who only asks who holds the lock has it for an instant too."""
    for _ in range(10):
        if _lock(descriptor):
            return True
        time.sleep(0.005)
    return False


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write(descriptor: int, holder: str) -> None:
    """Name the holder, for people; a disk that refuses that takes nothing away from the lock."""
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, holder.encode(), 0)


def _read(descriptor: int) -> str:
    return os.pread(descriptor, 200, 0).decode("utf-8", "replace")
