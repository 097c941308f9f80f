"""From a directory and an environment to an App over real adapters; but for `quick`, the only file that names them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from ordain.adapters.agents.local import LocalAgents
from ordain.adapters.bash import BashShell
from ordain.adapters.client_tokens import FileClients
from ordain.adapters.clock import RandomIds, WallClock
from ordain.adapters.copies import WorkspaceCopies
from ordain.adapters.directory import DirectoryWorkspace
from ordain.adapters.doors import DOOR, PipeDoors
from ordain.adapters.handlers import Call, Handler, PythonHandlers
from ordain.adapters.keyring import FileKeyring
from ordain.adapters.known_secrets import KnownSecrets
from ordain.adapters.ledger_archive import FileArchive
from ordain.adapters.notifier import CommandNotifier
from ordain.adapters.protected_files import ProtectedFiles
from ordain.adapters.read_only import ReadOnlyProbe
from ordain.adapters.reserve import Reserve
from ordain.adapters.sandbox import Sandbox
from ordain.adapters.sighting_log import SightingLog
from ordain.adapters.sources import ToolSources
from ordain.adapters.state_directory import (
    check_state_directory,
    state_directory,
    state_path,
    workspace_directory,
)
from ordain.adapters.step_logs import WorkspaceStepLogs
from ordain.adapters.toolbox import built_in_tools
from ordain.adapters.whereabouts import LEDGER, find_workspace, ledger_of, real_directory, state_paths
from ordain.adapters.writer_lock import FileWriterLock
from ordain.app import App
from ordain.core.approval import WorkspaceIdentity
from ordain.core.event import WorkspaceOpened
from ordain.core.expr import Expressions
from ordain.core.problem import Refused, refuse
from ordain.ports import Clients, Ledger, StepDoor, Upstreams
from ordain.records import WORKSPACE_STREAM, Records
from ordain.surroundings import Former, Surroundings

__all__ = [
    "every_workspace",
    "has_door",
    "make_state",
    "open_clients",
    "open_door",
    "open_upstreams",
    "open_workspace",
]


def open_workspace(
    start: str | os.PathLike[str] = ".",
    *,
    exact: bool = False,
    alone: bool = False,
    handlers: Mapping[str, Handler | Call] | None = None,
    tools: Sequence[Callable[..., Any]] = (),
    agents: Mapping[str, Callable[..., Any]] | None = None,
) -> App:
    """Ordain over the workspace that `start` lies in, or over `start` itself when `exact`. `handlers` carry out custom
    actions, by their types; a plain callable is an opaque one. `tools` are functions that steps can call (`tool`),
    `agents` perform tasks, by their names.

    Nothing is written until a verb has something to record. `alone` says that this process starts no others of its own,
    so that everything that a command leaves behind can be told from them and ended.
    """
    if sys.getfilesystemencoding() != "utf-8":
        detail = (
            f"Python was started with {sys.getfilesystemencoding()}; commands would not be run as they were approved."
        )
        raise refuse("E_WORKSPACE", detail, "Start it in a UTF-8 locale, or with PYTHONUTF8=1.")
    workspace = real_directory(Path(start)) if exact else _governed(find_workspace(Path(start)))

    @cache  # made once: who looks again later, when a run has ended, must not be refused for want of room
    def shelf() -> Path:
        return workspace_directory(state_directory(os.environ, workspace), workspace)

    def open_ledger() -> Ledger:
        from ordain.adapters.sqlite_ledger import SqliteLedger  # apsw is not needed for linting

        return SqliteLedger.open(shelf() / LEDGER, reserve=Reserve(shelf() / "reserve"))

    def has_ledger() -> bool:
        return ledger_of(workspace) is not None

    boot_id, toolbox, sources = _boot_id(), built_in_tools(workspace, shelf), ToolSources(workspace, tools)
    if taken := sources.registered().keys() & toolbox.definitions().keys():
        raise ValueError(f"two tools are called {min(taken)}")
    here = Surroundings(
        open_ledger=open_ledger,
        ledger_exists=has_ledger,
        workspace=DirectoryWorkspace(workspace),
        protection=ProtectedFiles(workspace),
        expressions=_expressions,
        toolbox=toolbox,
        handlers=PythonHandlers(handlers),
        sources=sources,
        agents=LocalAgents(workspace, agents),
        doors=PipeDoors(),
        clock=WallClock(boot_id),
        ids=RandomIds(),
        lock=FileWriterLock(shelf, boot_id),
        keyring=FileKeyring(lambda: state_directory(os.environ, workspace)),
        notifier=CommandNotifier(workspace),
        copies=WorkspaceCopies(workspace),
        logs=WorkspaceStepLogs(workspace),
        secrets=KnownSecrets(),
        archive=FileArchive(lambda: shelf() / LEDGER),
        sightings=SightingLog(shelf),
        sandbox=Sandbox(workspace, *state_paths(), room=shelf, alone=alone),
        former_ledger=cache(lambda: _former_ledger(workspace)),
    )
    return App(
        here,
        shell=BashShell(workspace, room=shelf, alone=alone),
        probe=ReadOnlyProbe(workspace, *state_paths()),
        pid=os.getpid(),
        boot_id=boot_id,
    )


def make_state(workspace: str | None) -> None:
    """Make the directory where the record of a workspace is kept, or of any, if need be; raises Refused where it would
    not be safe. For whoever asks a person first: better no question than an answer that cannot be kept."""
    state_directory(os.environ, Path(workspace) if workspace is not None else None)


def open_clients(workspace: str) -> Clients:
    """The clients that may reach this workspace's MCP server over HTTP. A token is good for one workspace."""
    path = Path(workspace)
    return FileClients(lambda: workspace_directory(state_directory(os.environ, path), path))


def open_upstreams(workspace: str) -> Upstreams:
    """Sessions with the servers that a workspace's settings name, which are started in it."""
    from ordain.adapters.upstreams import ServerSessions  # only the gateway has any

    return ServerSessions(Path(workspace))


def has_door() -> bool:
    """Whether this process says that it belongs to an agent that carries out a step; `open_door` tells whether it
    does."""
    return bool(os.environ.get(DOOR))


def open_door() -> StepDoor:
    """The door of the step whose agent started this process, in a running event loop; raises Refused where there is
    none."""
    from ordain.adapters.door_client import DoorClient

    return DoorClient(os.environ)


def _expressions() -> Expressions:
    from ordain.adapters.cel import Cel  # few plans have expressions or patterns

    return Cel()


def every_workspace() -> list[App]:
    """Ordain over every directory that has a ledger here and is still there."""
    found = []
    for _, opened in _ledgers():
        with suppress(Refused):  # one that is gone does not hide the others
            found.append(open_workspace(opened.path, exact=True))
    return found


def _former_ledger(workspace: Path) -> Former | None:
    """The ledger of a directory that is gone and was, by its inode, this one."""
    here = workspace.stat()
    for path, opened in _ledgers():
        same = (opened.device, opened.inode) == (here.st_dev, here.st_ino)
        if same and opened.path != str(workspace) and not Path(opened.path).exists():
            return Former(str(path), _governing(path))
    return None


def _governing(path: Path) -> bool:
    """Whether somebody trusted a configuration or enrolled a key in this ledger."""
    from ordain.adapters.sqlite_ledger import SqliteLedger

    ledger = SqliteLedger.open_to_look(path)
    try:
        # Whether it was signed as it should be is looked at when it is used.
        state = Records(ledger).workspace(lambda *said: True)
        return state.trusted is not None or bool(state.approvers)
    finally:
        ledger.let_go()


def _ledgers() -> Iterator[tuple[Path, WorkspaceIdentity]]:
    """Every ledger of this user that can be read, and the directory it is about."""
    for state in state_paths():
        for path in sorted((state / "workspaces").glob(f"*/{LEDGER}")):
            check_state_directory(state)
            from ordain.adapters.sqlite_ledger import SqliteLedger

            with suppress(Refused):
                ledger = SqliteLedger.open_to_look(path)
                first = next(iter(ledger.read(WORKSPACE_STREAM)), None)
                ledger.let_go()
                if first is not None and isinstance(first.event, WorkspaceOpened):
                    yield path, first.event.workspace


def _governed(nearest: Path) -> Path:
    """The workspace that `nearest` belongs to: a directory above it where a person trusted a configuration keeps ruling
    it. Otherwise an agent could leave a policy behind by making a directory look like a workspace of its own."""
    for above in reversed(nearest.parents):
        path = ledger_of(above)
        if path is not None:
            check_state_directory(state_path(os.environ))
            if _governing(path):
                return above
    return nearest


def _boot_id() -> str:
    """What tells one boot of this machine from the next, where the system says."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"
