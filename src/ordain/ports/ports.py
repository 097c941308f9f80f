"""The record of every port of one workspace. `assemble` makes it once; a test makes it of twins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:  # nothing is read into it, and what opens one needs few of them
    from ordain.core.plan.expr import Expressions
    from ordain.core.text.problem import Problem
    from ordain.ports.agent import Agents, Doors, Panes
    from ordain.ports.ledger import Archive, LedgerAccess, NoteShelf, Sightings
    from ordain.ports.machine import Clock, Host, Ids, Keyring, Notifier, Secrets, StopSwitch, WriterLock
    from ordain.ports.model import Models
    from ordain.ports.process import Sandbox, Shell
    from ordain.ports.tool import Handlers, Sources, Toolbox
    from ordain.ports.workspace import Copies, Outlines, Protection, StepLogs, TemplateFile, Workspace


class Ports(msgspec.Struct, frozen=True, kw_only=True):
    """Everything outside of one workspace. A run that is given a sealed environment gets a copy with other ports."""

    ledger: LedgerAccess
    workspace: Workspace
    protection: Protection
    expressions: Callable[[], Expressions]
    """The expression language, made when something is asked in it."""
    shell: Shell
    toolbox: Toolbox
    handlers: Handlers
    sources: Sources
    agents: Agents
    clock: Clock
    ids: Ids
    lock: WriterLock
    keyring: Keyring
    notifier: Notifier
    copies: Copies
    logs: StepLogs
    secrets: Secrets
    archive: Archive
    sightings: Sightings
    host: Host
    pid: int
    boot_id: str
    stop_switch: StopSwitch | None = None
    doors: Doors | None = None
    panes: Panes | None = None
    """The panes there are, where something can look at them."""
    sandbox: Sandbox | None = None
    weaknesses: tuple[Problem, ...] = ()
    """What every approver should know of this platform."""
    notes: NoteShelf | None = None
    """Where plans in prose are kept for the inbox, where there is such a place."""
    models: Models | None = None
    outlines: Outlines | None = None
    templates: Callable[[], Sequence[TemplateFile]] = tuple
    """The templates that are not the workspace's: the user's, then those that come with Ordain."""
    terminal: bool = False
    """Whether a person's terminal is behind this: only then can a principal be one."""
