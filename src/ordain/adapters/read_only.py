"""Commands that can look and change nothing: bash in a sandbox where every file is read-only and there is no network.

Needs bubblewrap. Where that is not installed, or the system does not let us use it, nothing is run at all.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec

from ordain.adapters.bash import BashShell
from ordain.ports import Command, Finished

__all__ = ["ReadOnlyProbe"]

_MISSING = "bubblewrap is not installed, and without it a command could change something"


class ReadOnlyProbe:
    """ports.Probe by bubblewrap; directories in `hidden` are not even seen."""

    def __init__(self, workspace: Path, *hidden: Path) -> None:
        self._workspace, self._hidden = workspace, hidden
        self._count = 0

    async def look(self, command: Command) -> Finished:
        program = shutil.which("bwrap")
        if program is None:
            return Finished(duration_ms=0, fault=_MISSING)
        self._count += 1
        marked = msgspec.structs.replace(command, mark=f"probe/{os.getpid()}/{self._count}")
        seen = await BashShell(self._workspace, inside=self._sandbox(program)).run(marked)
        if seen.exit_code == 1 and seen.output_tail.startswith("bwrap: "):
            return Finished(duration_ms=seen.duration_ms, fault=seen.output_tail.strip())
        return seen

    def _sandbox(self, program: str) -> tuple[str, ...]:
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
            *("--cap-drop", "ALL"),
            *("--unshare-all", "--die-with-parent", "--new-session", "--"),
        )
