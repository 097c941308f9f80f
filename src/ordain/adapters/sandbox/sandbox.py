"""Trust tier 1: commands in a sandbox that holds them to the workspace, to their `writes`, and to no network.

What is there is named, and nothing else is: the system's programs and settings and what the configuration adds,
read-only; the workspace; a `/tmp`, with the home directory in it, gone with the command. Homes, the state directory,
sockets, other processes and devices are absent. Nothing ever runs outside instead.
"""

from __future__ import annotations

import contextlib
import os
import resource
import stat
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import msgspec

from ordain.adapters.process.bash import BashShell, Inside
from ordain.adapters.process.host import program_path
from ordain.adapters.process.outside import our_python, unseen_file
from ordain.adapters.process.process import MARK
from ordain.adapters.process.spool import USAGE
from ordain.adapters.sandbox.bubblewrap import APART, MISSING, proc_words, started_in
from ordain.adapters.sandbox.off_limits import KEPT, home_files, off_limits
from ordain.adapters.state.user_rules import account_home
from ordain.adapters.workspace import openat
from ordain.adapters.workspace.control_file import ControlWatch, reach_fault
from ordain.core.policy.sealing import PLAIN_PATH, RunEnvironment
from ordain.core.policy.tier import SandboxLimits, Writable, writable
from ordain.core.text.control import is_control
from ordain.ports.process import Command, Finished

HOME = "/tmp/home"
"""Private, empty, and gone with the command."""
TRIAL_S = 20.0
_SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt", "nix", "gnu")
"""What programs are and are set up by, where it is there."""
_CACHES = {
    "RUFF_CACHE_DIR": "/tmp/ruff",
    "MYPY_CACHE_DIR": "/tmp/mypy",
    "PYTEST_ADDOPTS": "-p no:cacheprovider",
    "CARGO_TARGET_DIR": "/tmp/target",
}
"""How programs that write beside what they look at, and fail or complain where they cannot, are told not to."""
_SHARED_MEMORY = 64 << 20
_MIB = 1 << 20
_WITHIN = """
ulimit -c 0 && LIMITS || exit 126
while [ "$1" != -- ]; do
  [ "/proc/self/fd/$1" -ef "$2" ] || { echo "$2 was replaced while the sandbox was made" >&2; exit 126; }
  fd=$1 && exec {fd}<&- && shift 2 || exit 126
done
shift && unset fd && exec "$@"
"""
"""The first to run inside: the limits, which count for the sandbox only if set in it, and a look whether what was
mounted is what was opened: another step could have put a link in its place."""


class BubblewrapSandbox:
    """ports.Sandbox by bubblewrap; nothing in `hidden` is seen, whatever it lies in."""

    def __init__(self, workspace: Path, *hidden: Path, room: Callable[[], Path] | None = None, alone: bool = False):
        self._workspace, self._hidden = workspace, hidden
        self._room, self._alone = room, alone
        self._works = False

    def fault(self) -> str | None:
        """Tried, not guessed: many systems have the program and do not let it do anything."""
        if not self._works:
            if program_path("bwrap", self._workspace) is None:
                return MISSING
            if (fault := self.shell(SandboxLimits()).fault()) is not None:
                return f"bubblewrap does not work here: {fault}"
            self._works = True
        return None

    def unseen(self, limits: SandboxLimits, argv: Sequence[str], names: Sequence[str]) -> str | None:
        return self.shell(limits).unseen(argv, names)

    def shell(self, limits: SandboxLimits) -> SandboxedShell:
        return SandboxedShell(self._workspace, self._hidden, limits, room=self._room, alone=self._alone)


class SandboxedShell:
    """ports.Shell for one run at tier 1."""

    def __init__(
        self,
        workspace: Path,
        hidden: Sequence[Path],
        limits: SandboxLimits,
        *,
        room: Callable[[], Path] | None = None,
        alone: bool = False,
    ) -> None:
        self._workspace, self._hidden, self._limits = workspace, hidden, limits
        self._room, self._alone, self._home = room, alone, Path("~").expanduser()
        self._shell = BashShell(workspace, self._around, room=room, alone=alone)
        self._touched: dict[str, tuple[str, ...]] = {}
        """What is said of the control files that a command touched, by its mark."""

    def sealed(self, given: RunEnvironment) -> SandboxedShell:
        home = given.variables.get("HOME") or account_home() or "/"
        read = tuple(f"{home}{one[1:]}" if one.split("/")[0] == "~" else one for one in self._limits.read)
        limits = msgspec.structs.replace(self._limits, read=read)
        made = SandboxedShell(self._workspace, self._hidden, limits, room=self._room, alone=self._alone)
        made._home, made._shell = Path(home), made._shell.sealed(given)
        return made

    def environment(self, names: Sequence[str]) -> dict[str, str]:
        # Where these would point there is nothing, or not what was there.
        own = {"HOME": HOME, "TMPDIR": "/tmp"}
        return {name: own.get(name, value) for name, value in self._shell.environment(names).items()}

    async def run(self, command: Command) -> Finished:
        finished = await self._shell.run(command)
        control = self._touched.pop(command.mark, ())
        # The first process of the sandbox, which ends with it, was none of the command's.
        return msgspec.structs.replace(finished, leftovers=max(0, finished.leftovers - 1), control=control)

    def written(self, mark: str, most: int) -> tuple[bytes, int]:
        return self._shell.written(mark, most)

    def sweep(self, mark_prefix: str, *, again: bool = False) -> int:
        killed = self._shell.sweep(mark_prefix, again=again)
        if self._room is not None:
            with openat.root(self._workspace) as root:
                ControlWatch.finish_noted(root, self._room())
        return killed

    def fault(self) -> str | None:
        """Why nothing can be run in here; None where something was."""
        command = Command(text="true", env={}, timeout_ms=0, mark="trial", writes=())
        try:
            with self._around(command, {MARK: command.mark, "PATH": "/usr/bin:/bin"}) as inside:
                tried = subprocess.run(
                    [*inside.words, "true"],
                    env=inside.env,
                    pass_fds=inside.descriptors,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=TRIAL_S,
                    check=False,
                )
                if tried.returncode == 0 and inside.began():
                    return None
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            return str(error)
        return tried.stderr.decode("utf-8", "replace").strip() or f"exit status {tried.returncode}"

    @contextlib.contextmanager
    def _around(self, command: Command, env: Mapping[str, str]) -> Iterator[Inside]:
        program, bash = self._shell.program("bwrap"), self._shell.program("bash")
        if program is None or bash is None:
            raise ValueError(MISSING if program is None else "bash is not installed")
        with contextlib.ExitStack() as held:
            root = held.enter_context(openat.root(self._workspace))
            words = [*self._base, *(() if command.network else ("--unshare-net",))]
            words += _name_service() if command.network else ()
            shown = [*self._seen_by_all, *(path for one in command.sees for path in _places(one))]
            if command.argv and (fault := self._unseen(command.argv, env, shown)) is not None:
                raise ValueError(fault)
            words += _bound(self._besides(command.sees))
            copies = home_files(command.home, self._home, self._hidden, held) if command.home else ()
            for copy in copies:
                words += ("--perms", f"{copy.mode:04o}", "--file", str(copy.descriptor), f"{HOME}/{copy.path}")
            opened: dict[int, str] = {}
            words += self._workspace_words(command, root, held, opened)
            for path in command.changes:
                words += ("--bind", path, path)
            if USAGE in env:
                words += ("--bind", env[USAGE], env[USAGE])
            for path in command.covered:
                words += ("--ro-bind", "/dev/null", f"{self._workspace}/{path}")
            for hidden in (Path(os.path.realpath(path)) for path in self._hidden):
                if hidden.is_dir() and _lies_in(hidden, shown):
                    words += ("--perms", "0700", "--tmpfs", str(hidden))
            directory = HOME if command.apart else command.directory or str(self._workspace)
            words += ("--remount-ro", "/", "--chdir", directory)
            looked_at = [word for descriptor, path in opened.items() for word in (str(descriptor), path)]
            first = (bash, "--noprofile", "--norc", "-c", self._within, "ordain", *looked_at, "--")
            given = env if command.writes is None else {**_CACHES, **env}
            handed = (*opened, *(copy.descriptor for copy in copies))
            yield held.enter_context(started_in(program, words, given, before=first, held=handed))

    # --- What is there -------------------------------------------------------------------------------------------

    @cached_property
    def _base(self) -> tuple[str, ...]:
        """Everything but the workspace."""
        return (
            *(*APART, "--disable-userns"),
            *self._system_words(),
            *("--dev", "/dev", "--size", str(_SHARED_MEMORY), "--perms", "1777", "--tmpfs", "/dev/shm"),
            *("--remount-ro", "/dev", *proc_words()),
            *("--size", str(self._limits.tmp_mib * _MIB), "--perms", "1777", "--tmpfs", "/tmp", "--dir", HOME),
            *("--dir", "/run", "--dir", "/var", "--symlink", "/tmp", "/var/tmp", "--symlink", "/run", "/var/run"),
            *_bound(self._limits.read),
        )

    def _system_words(self) -> Iterator[str]:
        for path in (Path("/", name) for name in _SYSTEM):
            if path.is_symlink():
                yield from ("--symlink", str(path.readlink()), str(path))
            elif path.is_dir():
                yield from ("--ro-bind", str(path), str(path))
        for path in _private("/etc"):
            is_directory = path.is_dir() and not path.is_symlink()
            yield from ("--perms", "0700", "--tmpfs") if is_directory else ("--ro-bind", "/dev/null")
            yield str(path)

    @cached_property
    def _seen_by_all(self) -> tuple[Path, ...]:
        read = (path for given in self._limits.read for path in _places(given))
        return (*(Path("/", name) for name in _SYSTEM), self._workspace, *read)

    def _besides(self, sees: Sequence[str]) -> list[str]:
        shown, besides = [*self._seen_by_all], []
        for one in sees:
            places = _places(one)
            if not all(_lies_in(path, shown) for path in places):
                besides.append(one)
                shown += places
        return besides

    def unseen(self, argv: Sequence[str], names: Sequence[str]) -> str | None:
        """Why an agent's program, which is there, could not be started in here. Agents see our own Python too, which
        serves the tools of their step."""
        ours = (place for one in our_python() for place in _places(one))
        return self._unseen(argv, self.environment(names), [*self._seen_by_all, *ours])

    def _unseen(self, argv: Sequence[str], env: Mapping[str, str], shown: Sequence[Path]) -> str | None:
        search = env.get("PATH", PLAIN_PATH)
        path = unseen_file(argv, search, self._workspace, lambda file: _lies_in(file, shown))
        return f"{path} is not seen in the sandbox; name what it lies in in `[sandbox] read`" if path else None

    def _workspace_words(
        self, command: Command, root: int, held: contextlib.ExitStack, opened: dict[int, str]
    ) -> Iterator[str]:
        workspace, writes, more = str(self._workspace), command.writes, self._limits.control
        if workspace == "/":
            raise ValueError("the workspace is the root directory, and there is no sandbox that holds that")
        everything = [Writable(path="", directory=True)]
        places = [_place(pattern, more) for pattern in writes] if writes is not None else everything
        if fault := reach_fault(self._workspace, [f"{place.path}/*".lstrip("/") for place in places], more):
            raise ValueError(f"what this may write is off limits to every command in a sandbox: {fault}")
        if any(not place.path for place in places):
            yield from ("--bind", workspace, workspace)
            yield from held.enter_context(off_limits(root, workspace))
            yield from self._ours_kept([self._workspace])
            yield from self._control_words(command.mark, [""], root, held, opened)
            return
        yield from ("--ro-bind", workspace, workspace)
        for place in places:
            path = f"{workspace}/{place.path}"
            opened[held.enter_context(_opened(root, place))] = path
            yield from ("--bind", path, path)
        yield from self._ours_kept([self._workspace / place.path for place in places])
        directories = [place.path for place in places if place.directory or (self._workspace / place.path).is_dir()]
        yield from self._control_words(command.mark, directories, root, held, opened)

    def _control_words(
        self, mark: str, places: Sequence[str], root: int, held: contextlib.ExitStack, opened: dict[int, str]
    ) -> Iterator[str]:
        """The words that keep the control files there are; what a command makes or changes is set aside after it."""
        if not places:
            return
        watch = ControlWatch(root, places, self._limits.control, KEPT if "" in places else ())
        if self._room is not None:
            held.enter_context(watch.noted(self._room()))

        def finish() -> None:
            try:
                self._touched[mark] = watch.finish()
            except (OSError, ValueError) as error:
                self._touched[mark] = (f"nobody can tell what it did to control files: {error}",)

        held.callback(finish)
        for name in watch.mountable:
            path = f"{self._workspace}/{name}"
            opened[held.enter_context(_opened(root, Writable(path=name, directory=False)))] = path
            yield from ("--ro-bind", path, path)

    def _ours_kept(self, written: Sequence[Path]) -> Iterator[str]:
        """The words that keep what we ourselves are, where it may be written: we go on outside, and load more of it."""
        for ours in self._ours:
            for place in written:
                inner = ours.relative_to(place).parts if ours.is_relative_to(place) else ()
                # Each directory above is mounted for itself, so that it cannot be renamed with what is kept in it.
                for depth in range(1, len(inner)):
                    above = str(place.joinpath(*inner[:depth]))
                    yield from ("--bind", above, above)
                if inner or place.is_relative_to(ours):
                    yield from ("--ro-bind", str(ours), str(ours))

    @cached_property
    def _ours(self) -> tuple[Path, ...]:
        """What of the workspace is our own code and what runs it, each without what lies in another."""
        spelt = {Path(one) for path in our_python() for one in (path, os.path.realpath(path))}
        found = {path for path in spelt if path.is_relative_to(self._workspace) and path != self._workspace}
        outermost = sorted(path for path in found if found.isdisjoint(path.parents))
        for path in outermost:
            parts = path.relative_to(self._workspace).parts
            if any(self._workspace.joinpath(*parts[:depth]).is_symlink() for depth in range(1, len(parts) + 1)):
                raise ValueError(f"{path} is what runs Ordain and a link, which a sandbox cannot keep from replacement")
        return tuple(path for path in outermost if path.exists())

    @cached_property
    def _within(self) -> str:
        """The limits, none above what we ourselves are held to."""
        limits = self._limits
        wanted = (
            ("-u", limits.processes, resource.RLIMIT_NPROC, 1),
            ("-n", limits.open_files, resource.RLIMIT_NOFILE, 1),
            ("-f", limits.file_mib * 1024, resource.RLIMIT_FSIZE, 1024),
            ("-v", limits.memory_mib * 1024, resource.RLIMIT_AS, 1024),
        )
        words = []
        for option, most, which, unit in wanted:
            highest = resource.getrlimit(which)[1]
            if most:
                words.append(f"ulimit {option} {min(most, highest // unit) if highest >= 0 else most}")
        return _WITHIN.replace("LIMITS", " && ".join(words))


def _places(given: str) -> tuple[Path, ...]:
    """Where something is seen: where it really is, and where it was named; nowhere, where it is not there."""
    path = Path(given).expanduser()
    real = Path(os.path.realpath(path))
    return tuple(dict.fromkeys((real, path))) if real.exists() else ()


def _bound(paths: Iterable[str]) -> Iterator[str]:
    for given in paths:
        places = _places(given)
        for place in places:
            yield from ("--ro-bind", str(places[0]), str(place))


def _lies_in(path: Path, places: Iterable[Path]) -> bool:
    return any(path.is_relative_to(place) for place in places)


def _place(pattern: str, control: Sequence[str]) -> Writable:
    if (place := writable(pattern)) is None:
        raise ValueError(f"a sandbox cannot hold a command to `{pattern}`")
    if place.path and is_control(place.path, control):
        raise ValueError(f"`{place.path}` is off limits to every command in a sandbox")
    return place


@contextlib.contextmanager
def _opened(root: int, place: Writable) -> Iterator[int]:
    """A descriptor of what may be written, which is no link and reached through none; a directory is made."""
    try:
        if place.directory:
            with openat.directory(root, place.path, create=True) as descriptor:
                yield descriptor
            return
        with openat.parent(root, place.path) as (parent, name):
            descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except FileNotFoundError as error:
        why = "and no file can be made where the rest is read-only; let it write the directory that it is in"
        raise ValueError(f"`{place.path}` is not there, {why}") from error
    try:
        if stat.S_ISLNK(os.fstat(descriptor).st_mode):
            raise ValueError(f"`{place.path}` is a link")
        yield descriptor
    finally:
        os.close(descriptor)


def _private(top: str) -> Iterator[Path]:
    """What is not for everybody to read: whoever runs us, such as root, may have more rights than a command should."""
    for directory, directories, files in os.walk(top):
        for name in [*directories, *files]:
            path = Path(directory, name)
            mode = path.lstat().st_mode
            wanted = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(mode) else 0)
            if not stat.S_ISLNK(mode) and mode & wanted != wanted:
                yield path
                if name in directories:
                    directories.remove(name)


def _name_service() -> tuple[str, ...]:
    """What names servers are found by, where that lies in a directory that is not there."""
    path = Path("/etc/resolv.conf")
    real = Path(os.path.realpath(path))
    return ("--ro-bind", str(real), str(real)) if path.is_symlink() and real.is_file() else ()
