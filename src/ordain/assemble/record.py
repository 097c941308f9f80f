"""The records of all workspaces of this user: which there are, and what they govern."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ordain.adapters.ledger.sqlite import SqliteLedger
from ordain.adapters.state.directory import check_state_directory
from ordain.adapters.workspace.locate import LEDGER, state_paths
from ordain.core.approval.approval import WorkspaceIdentity
from ordain.core.run.event import WorkspaceOpened
from ordain.core.text.problem import Refused
from ordain.ports.ledger import Former
from ordain.records.records import WORKSPACE_STREAM, Records


def former_ledger(workspace: Path) -> Former | None:
    """The ledger of a directory that is gone and was, by its inode, this one."""
    here = workspace.stat()
    for path, opened in ledgers():
        same = (opened.device, opened.inode) == (here.st_dev, here.st_ino)
        if same and opened.path != str(workspace) and not Path(opened.path).exists():
            return Former(str(path), is_governing(path))
    return None


def is_governing(path: Path) -> bool:
    """Whether somebody trusted a configuration or enrolled a key in this ledger."""
    ledger = SqliteLedger.open_to_look(path)
    try:
        # Whether it was signed as it should be is looked at when it is used.
        state = Records(ledger).workspace(lambda *said: True)
        return state.trusted is not None or bool(state.approvers)
    finally:
        ledger.let_go()


def ledgers() -> Iterator[tuple[Path, WorkspaceIdentity]]:
    """Every ledger of this user that can be read, and the directory it is about."""
    for state in state_paths():
        for path in sorted((state / "workspaces").glob(f"*/{LEDGER}")):
            check_state_directory(state)
            with suppress(Refused):
                ledger = SqliteLedger.open_to_look(path)
                first = next(iter(ledger.read(WORKSPACE_STREAM)), None)
                ledger.let_go()
                if first is not None and isinstance(first.event, WorkspaceOpened):
                    yield path, first.event.workspace
