"""Commands in the real world: each runs under bash, or as a program without a shell, in a session of its own and is
ended with what it started, as far as that can be found (SECURITY.md).

Every process carries a mark in its environment, by which what a dead executor left is found and killed. What a command
leaves is known by the mark, by its session, and in a process that is ours alone by being handed to us.
"""

from __future__ import annotations

import contextlib
import copy
import fcntl
import os
import resource
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar, NamedTuple

import msgspec

from ordain.adapters.process import process
from ordain.adapters.process.host import program_path
from ordain.adapters.process.outside import filled, found_outside, private_directory
from ordain.adapters.process.spool import USAGE, Spool, UsageFile
from ordain.core.policy.sealing import PLAIN_PATH, RunEnvironment, absolute_parts
from ordain.core.text.problem import Refused
from ordain.ports.process import Command, Finished

GRACE_S = 2.0
"""How long a command may tidy up after SIGTERM before it is killed."""
KILLED_S = 3.0
"""How long to wait for the end of a command that was killed; what runs as another user cannot be, and is left."""
LOOK_S = 0.02
"""How often it is looked whether a command has ended, where the system cannot tell by itself."""
BASH_OPTIONS = ("--noprofile", "--norc", "-eo", "pipefail", "-c")
PR_SET_CHILD_SUBREAPER = 36
AGAIN_S = 0.01
"""How much later to look again for what had not yet been started when its executor died."""


class Inside(NamedTuple):
    """How one command is started inside something, such as a sandbox."""

    words: tuple[str, ...]
    """A program that runs the rest of its command line."""
    env: Mapping[str, str]
    """The environment of that program, which hands the command its own."""
    descriptors: tuple[int, ...]
    began: Callable[[], bool]
    """Whether, now that it has ended, the command was ever begun."""


Around = Callable[[Command, Mapping[str, str]], AbstractContextManager[Inside]]
"""What a command and its environment are put into, as long as it runs; raises OSError or ValueError where it cannot."""


class BashShell:
    """ports.Shell over real processes. `around` puts each command into something; `room` is where there is some for
    long outputs; `alone` says that this process starts nothing else, so that what is handed to it was left by a
    command."""

    _own: ClassVar[dict[int, str]] = {}
    """The direct children of this process that are commands under way, and their marks."""
    _childless: ClassVar[bool] = False
    """Whether this process had no child at work when the first of them began."""

    _left: ClassVar[list[subprocess.Popen[bytes]]] = []
    """Commands that could not be ended, to be collected once they have."""

    def __init__(
        self,
        workspace: Path,
        around: Around | None = None,
        *,
        room: Callable[[], Path] | None = None,
        alone: bool = False,
    ) -> None:
        self._workspace = workspace
        self._around = around
        self._room, self._alone = room, alone
        self._groups = process.ProcessGroups(room)
        self._reaping = False
        self._given: RunEnvironment | None = None
        self._written: dict[str, Spool] = {}
        """What the commands under way have written so far, by their marks."""

    def environment(self, names: Sequence[str]) -> dict[str, str]:
        given = os.environ if self._given is None else self._given.variables
        found = {name: given[name] for name in names if name in given}
        return {**found, "PATH": absolute_parts(found["PATH"])} if "PATH" in found else found

    def sealed(self, given: RunEnvironment) -> BashShell:
        shell = copy.copy(self)
        shell._given = given
        return shell

    def program(self, name: str) -> str | None:
        return program_path(name, self._workspace) if self._given is None else self._given.programs.get(name)

    async def run(self, command: Command) -> Finished:
        started = time.monotonic()
        words = command.argv
        if not words:
            if (bash := self.program("bash")) is None:
                return Finished(duration_ms=0, fault="bash is not installed")
            words = (bash, *BASH_OPTIONS, command.text)
        if not self._reaping:
            # Have orphans of our commands handed to us (Linux), so that one that detached itself can still be found.
            import ctypes

            self._reaping = True
            with contextlib.suppress(OSError, AttributeError):
                ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._left[:] = [child for child in self._left if child.poll() is None]
        if self._alone and not self._own:
            BashShell._childless = all(process.is_over(pid) for pid in process.children_of_us())
        with contextlib.ExitStack() as held:
            usage = held.enter_context(UsageFile.for_one()) if command.reports else None
            env = {**command.env, **({USAGE: usage.path} if usage is not None else {}), process.MARK: command.mark}
            try:
                if command.found_outside:
                    command = self._outside(command, held)
                    words = command.argv
                inside = held.enter_context(self._around(command, env)) if self._around is not None else None
                child = self._spawn(words, command, env, inside)
            except (OSError, ValueError, Refused) as error:
                return Finished(duration_ms=_since(started), fault=str(error))
            finished = await self._finish(child, command, usage, started)
            if inside is not None and finished.exit_code is not None and not inside.began():
                said = (finished.errors or finished.output).decode("utf-8", "replace").strip()
                return Finished(duration_ms=finished.duration_ms, fault=said or "nothing says why")
            return finished

    def _outside(self, command: Command, held: contextlib.ExitStack) -> Command:
        """A command whose program is found outside the workspace, and which may run outside it, too."""
        argv = filled(command.argv, self._workspace) if command.apart else command.argv
        argv = found_outside(argv, command.env.get("PATH", PLAIN_PATH), self._workspace)
        room = str(held.enter_context(private_directory(self._workspace))) if command.apart else command.directory
        return msgspec.structs.replace(command, argv=argv, directory=room)

    async def _finish(
        self, child: subprocess.Popen[bytes], command: Command, usage: UsageFile | None, started: float
    ) -> Finished:
        import asyncio  # most commands only look, and start faster without it

        self._own[child.pid] = command.mark
        self._groups.note(child.pid, command.mark)
        assert child.stdout is not None
        output = _Output(child.stdout.fileno(), self._room if command.whole else None)
        errors = _Output(child.stderr.fileno()) if child.stderr is not None else None
        timed_out, still_there = False, None
        self._written[command.mark] = output.taken
        try:
            with output.collecting(), errors.collecting() if errors is not None else contextlib.nullcontext():
                try:
                    async with asyncio.timeout(command.timeout_ms / 1000):
                        await _exit_of(child)
                except TimeoutError:
                    timed_out = True
                    still_there = await self._end(child)
                leftovers = self._kill_leftovers(child.pid, command.mark)
                output.drain()
                if errors is not None:
                    errors.drain()
        except BaseException:
            # Cancelled: whoever gave up on this command must not leave it running.
            _signal_group(child.pid, signal.SIGKILL)
            _reap_killed(child)
            self._kill_leftovers(child.pid, command.mark)
            raise
        finally:
            self._own.pop(child.pid, None)
            self._groups.forget(child.pid)
            self._written.pop(command.mark, None)
            if child.returncode is None:
                self._left.append(child)
            child.stdout.close()
            if child.stderr is not None:
                child.stderr.close()
        status = child.returncode if still_there is None else 0
        return Finished(
            duration_ms=_since(started),
            exit_code=status if status >= 0 and not timed_out else None,
            signal=-status if status < 0 and not timed_out else None,
            timed_out=timed_out,
            still_there=still_there,
            output=output.taken.end(),
            output_bytes=output.taken.size,
            errors=errors.taken.end() if errors is not None else b"",
            errors_bytes=errors.taken.size if errors is not None else 0,
            whole=output.taken.whole() if command.whole else None,
            leftovers=leftovers,
            reported=usage.read() if usage is not None else b"",
        )

    def _spawn(
        self, words: tuple[str, ...], command: Command, env: Mapping[str, str], inside: Inside | None
    ) -> subprocess.Popen[bytes]:
        with _handed_in(command.stdin) as stdin:
            child = subprocess.Popen(
                [*inside.words, *words] if inside is not None else words,
                cwd=command.directory or self._workspace,
                env=inside.env if inside is not None else env,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if command.errors_apart else subprocess.STDOUT,
                start_new_session=True,
                pass_fds=inside.descriptors if inside is not None else (),
            )
        # From outside, because a function to be run in the child before its program would make every start slow. What
        # crashes leaves no image of its memory, with all that is secret in it, in the workspace; a command that wants
        # one can still raise the limit itself.
        with contextlib.suppress(OSError, AttributeError):
            _, highest = resource.prlimit(child.pid, resource.RLIMIT_CORE)
            resource.prlimit(child.pid, resource.RLIMIT_CORE, (0, highest))
        return child

    async def _end(self, child: subprocess.Popen[bytes]) -> str | None:
        """SIGTERM to the whole group, a moment to tidy up, then SIGKILL; why it is still there, if it is."""
        import asyncio

        ours: bool | None = None
        for number, patience_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, KILLED_S)):
            ours = _signal_group(child.pid, number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    await _exit_of(child)
                return None
        return "it is a process of another user" if ours is None else "the system does not let go of it"

    def _kill_leftovers(self, group: int, mark: str) -> int:
        try:
            ended = process.end_all(lambda: process.with_descendants(self._strays(group, mark)), reap=True)
        finally:  # also where nobody can be looked for
            more = _signal_group(group, signal.SIGKILL)
        return ended or int(more is True)

    def _strays(self, session: int, mark: str) -> list[int]:
        """What the command left and was handed to us. This process may have children of its own, so one counts only for
        what it bears or where it is, or where it can be nothing else: nothing else is started here, and this is the
        only command."""
        certain = self._alone and self._childless and len(self._own) == 1
        return [
            pid
            for pid in process.children_of_us()
            if pid not in self._own
            and pid not in process.SERVERS
            and (certain or process.mark_of(pid) == mark or process.session_of(pid) == session)
        ]

    def written(self, mark: str, most: int) -> tuple[bytes, int]:
        spool = self._written.get(mark)
        return (spool.last(most), spool.size) if spool is not None else (b"", 0)

    def sweep(self, mark_prefix: str, *, again: bool = False) -> int:
        def left() -> set[int]:
            marked = {pid for pid in process.all_processes() if (process.mark_of(pid) or "").startswith(mark_prefix)}
            return process.with_descendants(marked - spared) if marked else marked

        spared = process.ancestors_of_us()
        killed = process.end_all(left) + self._groups.end(mark_prefix)
        if again:
            time.sleep(AGAIN_S)
            killed += process.end_all(left)
        return killed


@contextlib.contextmanager
def _handed_in(data: bytes) -> Iterator[int]:
    """What a command is to read, as a file without a name: however long it is, nobody need stand by to write it."""
    if not data:
        yield subprocess.DEVNULL
        return
    import tempfile

    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        yield file.fileno()


class _Output:
    """The output pipe of one command, and what was taken out of it."""

    def __init__(self, descriptor: int, room: Callable[[], Path] | None = None) -> None:
        self._descriptor = descriptor
        self.taken = Spool(room)
        os.set_blocking(descriptor, False)

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        import asyncio

        loop = asyncio.get_running_loop()

        def read() -> None:
            if self._take() is False:
                loop.remove_reader(self._descriptor)

        loop.add_reader(self._descriptor, read)
        try:
            yield
        finally:
            loop.remove_reader(self._descriptor)

    def drain(self) -> None:
        """Take what is in the pipe now; never waits, and never longer, whoever may still write to the other end."""
        there = struct.unpack("i", fcntl.ioctl(self._descriptor, termios.FIONREAD, b"\0" * 4))[0]
        upto = self.taken.size + there
        while self.taken.size < upto and self._take():
            pass

    def _take(self) -> bool | None:
        """True when something came, False at the end, None when nothing is there yet."""
        try:
            data = os.read(self._descriptor, 65536)
        except BlockingIOError:
            return None
        if not data:
            return False
        self.taken.take(data)
        return True


async def _exit_of(child: subprocess.Popen[bytes]) -> None:
    """Wait for a child to exit without blocking the loop, and reap it. Who gives up waiting leaves nobody behind."""
    import asyncio

    loop = asyncio.get_running_loop()
    try:
        descriptor = os.pidfd_open(child.pid)
    except (AttributeError, OSError):  # not Linux, or an old kernel
        pass
    else:
        exited = asyncio.Event()
        loop.add_reader(descriptor, exited.set)
        try:
            await exited.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
    while not _reaped(child):  # noqa: ASYNC110 - nobody rings
        await asyncio.sleep(LOOK_S)


def _reap_killed(child: subprocess.Popen[bytes]) -> None:
    """Collect a child that was killed, where nothing can be awaited any more; what stays is left."""
    give_up = time.monotonic() + KILLED_S
    with contextlib.suppress(RuntimeError):
        while not _reaped(child) and time.monotonic() < give_up:
            time.sleep(0.001)


def _reaped(child: subprocess.Popen[bytes]) -> bool:
    """Whether a child has ended; its status is noted then. Where somebody else in this process has reaped it, Popen
    would call that 0, and a contract would seem to hold: so nothing is claimed then."""
    if child.returncode is None:
        try:
            pid, status = os.waitpid(child.pid, os.WNOHANG)
        except ChildProcessError:
            child.returncode = -signal.SIGKILL  # only so that Popen asks no more
            raise RuntimeError("the end of a command was taken by another part of this program") from None
        if pid == 0:
            return False
        child.returncode = os.waitstatus_to_exitcode(status)
    return True


def _signal_group(group: int, number: int) -> bool | None:
    """Signal every process of a group; whether there was any, None where it is another user's."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return None
    return True


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
