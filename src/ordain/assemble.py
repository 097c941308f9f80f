"""From a directory and an environment to an App over real adapters; the only file that names them."""

from __future__ import annotations

import os
from pathlib import Path

from ordain.adapters.bash import BashShell
from ordain.adapters.clock import RandomIds, WallClock
from ordain.adapters.directory import DirectoryWorkspace, find_workspace, real_directory
from ordain.adapters.file_tools import FileTools
from ordain.adapters.state_directory import state_directory, workspace_directory
from ordain.adapters.writer_lock import FileWriterLock
from ordain.app import TIER, App
from ordain.ports import Ledger

__all__ = ["open_workspace"]


def open_workspace(start: str | os.PathLike[str] = ".", *, exact: bool = False) -> App:
    """Ordain over the workspace that `start` lies in, or over `start` itself when `exact`.

    Nothing is written until a verb has something to record.
    """
    workspace = real_directory(Path(start)) if exact else find_workspace(Path(start))

    def shelf() -> Path:
        return workspace_directory(state_directory(os.environ, workspace), workspace)

    def open_ledger() -> Ledger:
        from ordain.adapters.sqlite_ledger import SqliteLedger  # apsw is not needed for linting

        return SqliteLedger.open(shelf() / "ledger.db")

    return App(
        open_ledger=open_ledger,
        workspace=DirectoryWorkspace(workspace, TIER),
        shell=BashShell(workspace),
        toolbox=FileTools(workspace),
        clock=WallClock(),
        ids=RandomIds(),
        lock=FileWriterLock(lambda: shelf() / "writer.lock"),
        pid=os.getpid(),
        boot_id=_boot_id(),
    )


def _boot_id() -> str:
    """What tells one boot of this machine from the next, where the system says."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"
