"""The adapters that only commands ask that record, carry out or watch something: looking at a document loads none."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ordain.adapters.ledger.backup import FileArchive
from ordain.adapters.ledger.database import Reserve
from ordain.adapters.ledger.lock import FileWriterLock
from ordain.adapters.ledger.sqlite import SqliteLedger
from ordain.adapters.model.client import HttpModels
from ordain.adapters.process.bash import BashShell
from ordain.adapters.process.executors import end_executors
from ordain.adapters.process.host import LocalHost
from ordain.adapters.process.outside import CommandNotifier
from ordain.adapters.sandbox.sandbox import BubblewrapSandbox
from ordain.adapters.state.client_token import FileClients
from ordain.adapters.state.directory import check_state_directory, state_directory
from ordain.adapters.state.keys import FileKeyring
from ordain.adapters.state.note_shelf import FileNotes
from ordain.adapters.state.sighting_log import SightingLog
from ordain.adapters.state.stop_file import StopFiles
from ordain.adapters.state.templates import shelved_templates
from ordain.adapters.step_channel.channel import PipeDoors
from ordain.adapters.step_channel.client import DoorClient
from ordain.adapters.tools.python import Call, Handler, PythonHandlers
from ordain.adapters.tools.toolbox import ToolSources, built_in_tools
from ordain.adapters.tools.upstream import ServerSessions
from ordain.adapters.workspace.copies import WorkspaceCopies, WorkspaceStepLogs
from ordain.adapters.workspace.directory import DirectoryWorkspace
from ordain.adapters.workspace.file_list import DirectoryOutlines
from ordain.adapters.workspace.locate import LEDGER, state_paths
from ordain.adapters.workspace.protected_file import ProtectedFiles
from ordain.core.approval.approval import WorkspaceIdentity
from ordain.core.run.event import WorkspaceOpened
from ordain.core.text.problem import Refused
from ordain.ports.agent import Doors, StepDoor
from ordain.ports.ledger import Archive, Former, Ledger, NoteShelf, Sightings
from ordain.ports.machine import Clients, Host, Keyring, Notifier, StopSwitch, WriterLock
from ordain.ports.model import Models
from ordain.ports.process import Sandbox, Shell
from ordain.ports.tool import Handlers, Sources, Toolbox, Upstreams
from ordain.ports.workspace import Copies, Outlines, Protection, StepLogs, TemplateFile
from ordain.records.records import WORKSPACE_STREAM, Records


class Adapters:
    """How each of them is made for one workspace."""

    clients: Callable[[Callable[[], Path]], Clients] = staticmethod(FileClients)
    open_to_look = staticmethod(SqliteLedger.open_to_look)
    upstreams: Callable[[Path], Upstreams] = staticmethod(ServerSessions)

    def __init__(self, workspace: Path, room: Callable[[], Path], boot_id: str, *, alone: bool) -> None:
        """`room` is the directory where the record of the workspace is kept, made when asked for."""
        self._workspace, self._room, self._alone = workspace, room, alone
        self.archive: Callable[[], Archive] = lambda: FileArchive(lambda: room() / LEDGER, SqliteLedger.open)
        self.copies: Callable[[], Copies] = lambda: WorkspaceCopies(workspace)
        self.doors: Callable[[], Doors] = PipeDoors
        self.host: Callable[[], Host] = lambda: LocalHost(workspace)
        self.keyring: Callable[[], Keyring] = lambda: FileKeyring(lambda: state_directory(os.environ, workspace))
        self.lock: Callable[[], WriterLock] = lambda: FileWriterLock(room, boot_id)
        self.logs: Callable[[], StepLogs] = lambda: WorkspaceStepLogs(workspace)
        self.models: Callable[[], Models] = HttpModels
        self.notes: Callable[[], NoteShelf] = lambda: FileNotes(room)
        self.notifier: Callable[[], Notifier] = lambda: CommandNotifier(workspace)
        self.outlines: Callable[[], Outlines] = lambda: DirectoryOutlines(workspace, DirectoryWorkspace(workspace))
        self.protection: Callable[[], Protection] = lambda: ProtectedFiles(workspace)
        self.shell: Callable[[], Shell] = lambda: BashShell(workspace, room=room, alone=alone)
        self.sightings: Callable[[], Sightings] = lambda: SightingLog(room)
        self.stop_switch: Callable[[], StopSwitch] = lambda: StopFiles(workspace, boot_id, end_executors)
        self.toolbox: Callable[[], Toolbox] = lambda: built_in_tools(workspace, room)

    @staticmethod
    def former_ledger(workspace: Path) -> Former | None:
        """The ledger of a directory that is gone and was, by its inode, this one."""
        here = workspace.stat()
        for path, opened in Adapters.ledgers():
            same = (opened.device, opened.inode) == (here.st_dev, here.st_ino)
            if same and opened.path != str(workspace) and not Path(opened.path).exists():
                return Former(str(path), Adapters.is_governing(path))
        return None

    @staticmethod
    def is_governing(path: Path) -> bool:
        """Whether somebody trusted a configuration or enrolled a key in this ledger."""
        ledger = SqliteLedger.open_to_look(path)
        try:
            # Whether it was signed as it should be is looked at when it is used.
            state = Records(ledger).workspace(lambda *said: True)
            return state.trusted is not None or bool(state.approvers)
        finally:
            ledger.let_go()

    @staticmethod
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

    @staticmethod
    def door() -> StepDoor:
        return DoorClient(os.environ)

    @staticmethod
    def templates() -> Sequence[TemplateFile]:
        return shelved_templates(os.environ)

    def ledger(self) -> Ledger:
        return SqliteLedger.open(self._room() / LEDGER, reserve=Reserve(self._room() / "reserve"))

    def empty_ledger(self) -> Ledger:
        state_directory(os.environ, self._workspace)  # refused where a real one would be
        return SqliteLedger.empty()

    def sources(self, functions: Sequence[Callable[..., Any]]) -> Sources:
        return ToolSources(self._workspace, functions, alone=self._alone)

    def handlers(self, functions: Mapping[str, Handler | Call] | None) -> Handlers:
        return PythonHandlers(functions, self._workspace, alone=self._alone)

    def sandbox(self) -> Sandbox:
        return BubblewrapSandbox(self._workspace, *state_paths(), room=self._room, alone=self._alone)
