"""Commands that can look and change nothing: bash in a sandbox where every file is read-only and there is no network.

Needs bubblewrap. Where that is not installed, or the system does not let us use it, nothing is run at all.
"""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

import msgspec

from ordain.adapters.bash import BashShell
from ordain.adapters.seccomp import no_sockets
from ordain.ports import Command, Finished

__all__ = ["ReadOnlyProbe"]

_MISSING = "bubblewrap is not installed, and without it a command could change something"


class ReadOnlyProbe:
    """ports.Probe by bubblewrap; directories in `hidden` are not even seen.

    Files that are read-only stop no one from asking a program outside, over a socket in the file system, to do
    something. So no such socket can be made (`no_sockets`), and where the machine is not known nothing is run.
    """

    def __init__(self, workspace: Path, *hidden: Path) -> None:
        self._workspace, self._hidden = workspace, hidden
        self._count = 0

    async def look(self, command: Command) -> Finished:
        program = shutil.which("bwrap")
        if program is None:
            return Finished(duration_ms=0, fault=_MISSING)
        filter_program = no_sockets(platform.machine())
        if filter_program is None:
            return Finished(duration_ms=0, fault=f"nothing is known about keeping sockets shut on {platform.machine()}")
        self._count += 1
        marked = msgspec.structs.replace(command, mark=f"probe/{os.getpid()}/{self._count}")
        descriptor = os.memfd_create("ordain-filter")
        try:
            os.write(descriptor, filter_program)
            os.lseek(descriptor, 0, os.SEEK_SET)
            inside = self._sandbox(program, descriptor)
            seen = await BashShell(self._workspace, inside=inside, handed_over=(descriptor,)).run(marked)
        finally:
            os.close(descriptor)
        said = seen.errors or seen.output
        if seen.exit_code == 1 and said.startswith(b"bwrap: "):
            return Finished(duration_ms=seen.duration_ms, fault=said.decode("utf-8", "replace").strip())
        return seen

    def _sandbox(self, program: str, filter_descriptor: int) -> tuple[str, ...]:
        workspace = str(self._workspace)
        hidden = [word for path in self._hidden if path.is_dir() for word in ("--tmpfs", str(path))]
        return (
            program,
            *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"),
            # Whoever listens on a socket in there could change something for the one who asks.
            *("--tmpfs", "/run"),
            *hidden,
            *("--ro-bind", workspace, workspace, "--chdir", workspace),
            # Root keeps its capabilities otherwise, and could mount everything anew.
            *("--cap-drop", "ALL", "--seccomp", str(filter_descriptor)),
            *("--unshare-all", "--die-with-parent", "--new-session", "--"),
        )
