"""Commands in the real world: each runs under bash, or as a program without a shell, in a session of its own and is
ended with what it started, as far as that can be found (SECURITY.md).

Every process carries a mark in its environment, so that whatever an executor left running when it died can be found
and killed before anything else is done. The output pipe is read as it comes: its length covers all of it, its end is
kept exactly, up to a bound.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ordain.core.bound import OUTPUT_BYTES_MAX
from ordain.core.problem import refuse
from ordain.ports import Command, Finished

if TYPE_CHECKING:
    import asyncio

__all__ = ["BashShell"]

MARK = "ORDAIN_MARK"
GRACE_S = 2.0
"""How long a command may tidy up after SIGTERM before it is killed."""
BASH_OPTIONS = ("--noprofile", "--norc", "-eo", "pipefail", "-c")
PR_SET_CHILD_SUBREAPER = 36
BECOMING_LOOKS = 20
"""How often a process without an environment is looked at, a millisecond apart, before it is believed to have none."""


class BashShell:
    """ports.Shell over real processes, rooted in one directory that no command can choose.

    `inside` are the words of a program that runs the rest of its command line inside something, such as a sandbox;
    `handed_over` are the descriptors that it gets.
    """

    def __init__(self, workspace: Path, inside: tuple[str, ...] = (), handed_over: tuple[int, ...] = ()) -> None:
        self._workspace = workspace
        self._inside, self._handed_over = inside, handed_over
        self._bash = shutil.which("bash", path="/bin:/usr/bin:/usr/local/bin") or shutil.which("bash")
        self._own: dict[int, str] = {}
        """Our direct children and their marks."""
        self._reaping = False

    def environment(self, names: Sequence[str]) -> dict[str, str]:
        return {name: os.environ[name] for name in names if name in os.environ}

    async def run(self, command: Command) -> Finished:
        import asyncio  # most commands only look, and start faster without it

        started = time.monotonic()
        if command.argv:
            words = command.argv
        elif self._bash is not None:
            words = (self._bash, *BASH_OPTIONS, command.text)
        else:
            return Finished(duration_ms=0, fault="bash is not installed")
        self._become_reaper()
        try:
            child = self._spawn(words, command)
        except (OSError, ValueError) as error:
            return Finished(duration_ms=_since(started), fault=str(error))
        self._own[child.pid] = command.mark
        assert child.stdout is not None
        output = _Output(child.stdout.fileno())
        errors = _Output(child.stderr.fileno()) if child.stderr is not None else None
        timed_out = False
        try:
            with output.collecting(), errors.collecting() if errors is not None else contextlib.nullcontext():
                try:
                    async with asyncio.timeout(command.timeout_ms / 1000):
                        await _exit_of(child)
                except TimeoutError:
                    timed_out = True
                    await self._end(child)
                leftovers = self._kill_leftovers(child.pid, command.mark)
                output.drain()
                if errors is not None:
                    errors.drain()
        except BaseException:
            # Cancelled: whoever gave up on this command must not leave it running.
            _signal_group(child.pid, signal.SIGKILL)
            with contextlib.suppress(RuntimeError):
                _reap(child)
            self._kill_leftovers(child.pid, command.mark)
            raise
        finally:
            self._own.pop(child.pid, None)
            child.stdout.close()
            if child.stderr is not None:
                child.stderr.close()
        status = child.returncode
        return Finished(
            duration_ms=_since(started),
            exit_code=status if status >= 0 and not timed_out else None,
            signal=-status if status < 0 and not timed_out else None,
            timed_out=timed_out,
            output=output.end(),
            output_bytes=output.size,
            errors=errors.end() if errors is not None else b"",
            errors_bytes=errors.size if errors is not None else 0,
            leftovers=leftovers,
        )

    def _spawn(self, words: tuple[str, ...], command: Command) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*self._inside, *words],
            cwd=self._workspace,
            env={**command.env, MARK: command.mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if command.errors_apart else subprocess.STDOUT,
            start_new_session=True,
            pass_fds=self._handed_over,
        )

    async def _end(self, child: subprocess.Popen[bytes]) -> None:
        """SIGTERM to the whole group, a moment to tidy up, then SIGKILL."""
        import asyncio

        _signal_group(child.pid, signal.SIGTERM)
        try:
            async with asyncio.timeout(GRACE_S):
                await _exit_of(child)
        except TimeoutError:
            _signal_group(child.pid, signal.SIGKILL)
            _reap(child)

    def _become_reaper(self) -> None:
        """Have orphans of our commands handed to us (Linux), so that one that detached itself can still be found."""
        if not self._reaping:
            self._reaping = True
            with contextlib.suppress(OSError, AttributeError):
                ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def _kill_leftovers(self, group: int, mark: str) -> int:
        """Kill what the command left: its process group, and whatever detached itself and became our child."""
        killed = 1 if _signal_group(group, signal.SIGKILL) else 0
        # Killing an orphan hands its own children to us, so look until nothing new appears; bounded, for a command
        # that forks faster than it is killed is left to the sweep.
        for _ in range(100):
            # Only what bears the mark: this process may have children of its own that are none of our business.
            strays = [pid for pid in _children_of_us() if pid not in self._own and _mark_of(pid) == mark]
            if not strays:
                break
            for pid in strays:
                killed += _kill_and_reap(pid)
        return killed

    def sweep(self, mark_prefix: str) -> int:
        killed: set[int] = set()
        for _ in range(100):
            found = [pid for pid in _all_processes() if (_mark_of(pid) or "").startswith(mark_prefix)]
            alive = [pid for pid in found if pid not in _ancestors_of_us()]
            if not alive:
                break
            for pid in alive:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)
            time.sleep(0.005)  # the kernel takes a moment to let a killed process go
        return len(killed)


class _Output:
    """The output pipe of one command: the length of everything, the end of it in memory."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._end = bytearray()
        self.size = 0
        os.set_blocking(descriptor, False)

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        import asyncio

        loop = asyncio.get_running_loop()
        loop.add_reader(self._descriptor, self._read, loop)
        try:
            yield
        finally:
            loop.remove_reader(self._descriptor)

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._take() is False:
            loop.remove_reader(self._descriptor)

    def drain(self) -> None:
        """Take what is left in the pipe; never waits, whoever may still hold the other end."""
        while self._take():
            pass

    def _take(self) -> bool | None:
        """True when something came, False at the end, None when nothing is there yet."""
        try:
            data = os.read(self._descriptor, 65536)
        except BlockingIOError:
            return None
        if not data:
            return False
        self.size += len(data)
        self._end += data
        if len(self._end) >= 2 * OUTPUT_BYTES_MAX:  # not at each read: what is left is copied
            del self._end[:-OUTPUT_BYTES_MAX]
        return True

    def end(self) -> bytes:
        return bytes(self._end[-OUTPUT_BYTES_MAX:])


async def _exit_of(child: subprocess.Popen[bytes]) -> None:
    """Wait for a child to exit without blocking the loop, and reap it."""
    import asyncio

    loop = asyncio.get_running_loop()
    try:
        descriptor = os.pidfd_open(child.pid)
    except (AttributeError, OSError):  # not Linux, or an old kernel
        await loop.run_in_executor(None, _reap, child)
        return
    exited = asyncio.Event()
    loop.add_reader(descriptor, exited.set)
    try:
        await exited.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    _reap(child)


def _reap(child: subprocess.Popen[bytes]) -> None:
    """Wait for a child and note its status. Popen would call it 0 where somebody else in this process has reaped the
    child; a contract would hold that nobody saw hold. So nothing is claimed then."""
    if child.returncode is None:
        try:
            _, status = os.waitpid(child.pid, 0)
        except ChildProcessError:
            child.returncode = -signal.SIGKILL  # only so that Popen asks no more
            raise RuntimeError("the end of a command was taken by another part of this program") from None
        child.returncode = os.waitstatus_to_exitcode(status)


def _signal_group(group: int, number: int) -> bool:
    """Signal every process of a group; whether there was any."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _kill_and_reap(pid: int) -> int:
    """Kill a stray child; 1 when it was still alive, 0 when only its zombie was left."""
    alive = 0
    try:
        done, _ = os.waitpid(pid, os.WNOHANG)
        if not done:
            os.kill(pid, signal.SIGKILL)
            alive = 1
            os.waitpid(pid, 0)
    except (ChildProcessError, ProcessLookupError, PermissionError):
        return alive
    return alive


def _children_of_us() -> list[int]:
    tasks = _names("/proc/self/task")
    return [int(word) for task in tasks for word in (_content(f"/proc/self/task/{task}/children") or b"").split()]


def _all_processes() -> list[int]:
    return [int(name) for name in _names("/proc") if name.isdigit()]


def _mark_of(pid: int) -> str | None:
    for entry in _environment(pid).split(b"\0"):
        if entry.startswith(MARK.encode() + b"="):
            return entry.partition(b"=")[2].decode("utf-8", "replace")
    return None


def _environment(pid: int) -> bytes:
    """The environment of a process, as it was when its program began. One that is just becoming another program shows
    none for an instant; it is looked at again, or what it becomes would outlive its run."""
    for _ in range(BECOMING_LOOKS):
        found = _content(f"/proc/{pid}/environ")
        if found or found is None or not _has_program(pid):
            return found or b""
        time.sleep(0.001)
    return b""


def _names(directory: str) -> list[str]:
    """What is in a directory of `/proc`, nothing where there is none."""
    try:
        return os.listdir(directory)  # noqa: PTH208
    except OSError as error:
        _refuse_blindness(error)
        return []


def _content(file: str) -> bytes | None:
    """What a file of `/proc` says, None where the process is gone or not ours."""
    try:
        return Path(file).read_bytes()
    except OSError as error:
        _refuse_blindness(error)
        return None


def _refuse_blindness(error: OSError) -> None:
    """That we cannot look does not mean that nobody is there: then nothing may go on as if nobody were."""
    if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO):
        reason = os.strerror(error.errno).lower()
        raise refuse("E_PROCESSES", f"What commands left running cannot be looked for in /proc: {reason}.") from error


def _has_program(pid: int) -> bool:
    """Whether a process runs a program: neither a thread of the kernel nor one that has ended."""
    try:
        return bool(os.readlink(f"/proc/{pid}/exe"))  # noqa: PTH115
    except OSError:
        return False


def _ancestors_of_us() -> set[int]:
    """We and our parents: a run started from inside a step must not sweep itself away."""
    found, pid = {os.getpid()}, os.getppid()
    while pid > 1 and pid not in found:
        found.add(pid)
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            break
    return found


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
