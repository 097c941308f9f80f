"""Commands that can look and change nothing: bash in a sandbox where every file is read-only and there is no network.

Needs bubblewrap. Where that is not installed, or the system does not let us use it, nothing is run at all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from ordain.adapters.bash import BashShell, Inside
from ordain.adapters.bubblewrap import APART, MISSING, proc_words, started_in, which_bubblewrap
from ordain.ports import Command, Finished

__all__ = ["ReadOnlyProbe"]


class ReadOnlyProbe:
    """ports.Probe by bubblewrap; directories in `hidden` are not even seen.

    Files that are read-only stop no one from asking a program outside, over a socket in the file system, to do
    something. So no such socket can be made (`seccomp`), and where the machine is not known nothing is run.
    """

    def __init__(self, workspace: Path, *hidden: Path) -> None:
        self._workspace, self._hidden = workspace, hidden
        self._shell = BashShell(workspace, self._around)
        self._count = 0

    async def look(self, command: Command) -> Finished:
        self._count += 1
        return await self._shell.run(msgspec.structs.replace(command, mark=f"probe/{os.getpid()}/{self._count}"))

    def _around(self, command: Command, env: Mapping[str, str]) -> AbstractContextManager[Inside]:
        program = which_bubblewrap(self._workspace)
        if program is None:
            raise ValueError(f"{MISSING}, and without it a command could change something")
        return started_in(program, tuple(self._words()), env)

    def _words(self) -> Iterator[str]:
        workspace = str(self._workspace)
        yield from (*APART, "--unshare-net", "--ro-bind", "/", "/", "--dev", "/dev", *proc_words(), "--tmpfs", "/tmp")
        # Root could write there what is about the whole machine.
        yield from ("--tmpfs", "/sys") if Path("/sys").is_dir() else ()
        # Whoever listens on a socket in there could change something for the one who asks.
        yield from ("--tmpfs", "/run")
        for path in self._hidden:
            yield from ("--tmpfs", str(path)) if path.is_dir() else ()
        yield from ("--ro-bind", workspace, workspace, "--chdir", workspace)
