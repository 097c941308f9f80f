"""The adapters that only commands ask that record, carry out or watch something: looking at a document loads none."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ordain.adapters.ledger.backup import FileArchive
from ordain.adapters.ledger.database import Reserve
from ordain.adapters.ledger.empty import EmptyLedger
from ordain.adapters.ledger.lock import FileWriterLock
from ordain.adapters.ledger.sqlite import SqliteLedger
from ordain.adapters.model.client import HttpModels
from ordain.adapters.process.bash import BashShell
from ordain.adapters.process.outside import CommandNotifier
from ordain.adapters.process.process import end_executors
from ordain.adapters.sandbox.sandbox import BubblewrapSandbox
from ordain.adapters.state.client_token import FileClients
from ordain.adapters.state.directory import state_directory
from ordain.adapters.state.keys import FileKeyring
from ordain.adapters.state.note_shelf import FileNotes
from ordain.adapters.state.sighting_log import SightingLog
from ordain.adapters.state.stop_file import StopFiles
from ordain.adapters.state.templates import shelved_templates
from ordain.adapters.step_channel.channel import PipeDoors
from ordain.adapters.step_channel.client import DoorClient
from ordain.adapters.tools.python import Call, Handler, PythonHandlers
from ordain.adapters.tools.toolbox import ToolSources, built_in_tools
from ordain.adapters.workspace.copies import WorkspaceCopies, WorkspaceStepLogs
from ordain.adapters.workspace.directory import DirectoryWorkspace
from ordain.adapters.workspace.locate import LEDGER, state_paths
from ordain.adapters.workspace.outline import DirectoryOutlines
from ordain.adapters.workspace.protected_file import ProtectedFiles
from ordain.ports.agent import Doors, StepDoor
from ordain.ports.ledger import Archive, Ledger, NoteShelf, Sightings
from ordain.ports.machine import Clients, Keyring, Notifier, StopSwitch, WriterLock
from ordain.ports.model import Models
from ordain.ports.outline import Outlines
from ordain.ports.process import Sandbox, Shell
from ordain.ports.tool import Handlers, Sources, Toolbox
from ordain.ports.workspace import Copies, Protection, StepLogs, TemplateFile


class Adapters:
    """Makes each of them for one workspace."""

    def __init__(self, workspace: Path, room: Callable[[], Path], boot_id: str, *, alone: bool) -> None:
        """`room` is the directory where the record of the workspace is kept, made when asked for."""
        self._workspace, self._room, self._boot_id, self._alone = workspace, room, boot_id, alone

    @staticmethod
    def open_to_look(path: Path) -> SqliteLedger:
        return SqliteLedger.open_to_look(path)

    @staticmethod
    def clients(directory: Callable[[], Path]) -> Clients:
        return FileClients(directory)

    @staticmethod
    def door() -> StepDoor:
        return DoorClient(os.environ)

    def ledger(self) -> Ledger:
        return SqliteLedger.open(self._room() / LEDGER, reserve=Reserve(self._room() / "reserve"))

    def empty_ledger(self) -> Ledger:
        state_directory(os.environ, self._workspace)  # refused where a real one would be
        return EmptyLedger()

    def archive(self) -> Archive:
        return FileArchive(lambda: self._room() / LEDGER, SqliteLedger.open)

    def lock(self) -> WriterLock:
        return FileWriterLock(self._room, self._boot_id)

    def shell(self) -> Shell:
        return BashShell(self._workspace, room=self._room, alone=self._alone)

    def toolbox(self) -> Toolbox:
        return built_in_tools(self._workspace, self._room)

    def sources(self, functions: Sequence[Callable[..., Any]]) -> Sources:
        return ToolSources(self._workspace, functions, alone=self._alone)

    def handlers(self, functions: Mapping[str, Handler | Call] | None) -> Handlers:
        return PythonHandlers(functions, self._workspace, alone=self._alone)

    def templates(self) -> Sequence[TemplateFile]:
        return shelved_templates(os.environ)

    def sandbox(self) -> Sandbox:
        return BubblewrapSandbox(self._workspace, *state_paths(), room=self._room, alone=self._alone)

    def models(self) -> Models:
        return HttpModels()

    def outlines(self) -> Outlines:
        return DirectoryOutlines(self._workspace, DirectoryWorkspace(self._workspace))

    def protection(self) -> Protection:
        return ProtectedFiles(self._workspace)

    def doors(self) -> Doors:
        return PipeDoors()

    def keyring(self) -> Keyring:
        return FileKeyring(lambda: state_directory(os.environ, self._workspace))

    def notifier(self) -> Notifier:
        return CommandNotifier(self._workspace)

    def copies(self) -> Copies:
        return WorkspaceCopies(self._workspace)

    def logs(self) -> StepLogs:
        return WorkspaceStepLogs(self._workspace)

    def sightings(self) -> Sightings:
        return SightingLog(self._room)

    def notes(self) -> NoteShelf:
        return FileNotes(self._room)

    def stop_switch(self) -> StopSwitch:
        return StopFiles(self._workspace, self._boot_id, end_executors)
