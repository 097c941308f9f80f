"""The verbs about the workspace itself: its settings, its tools and agents, what is hidden in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ordain.core.lineage.workspace import WorkspaceState
from ordain.core.plan.tool import COMMANDS, ToolDefinition
from ordain.core.plan.value import Instant
from ordain.core.policy.assignment import RosterLine, roster
from ordain.core.policy.settings import Settings, UserSettings
from ordain.core.text.problem import Problem, Refused
from ordain.core.text.redaction import Redactor
from ordain.documents.settings import read_settings
from ordain.records.surroundings import Surroundings


class WorkspaceView:
    """One workspace as it stands."""

    def __init__(self, here: Surroundings) -> None:
        self._here = here

    @property
    def workspace_path(self) -> str:
        """The real path of the workspace."""
        return self._here.ports.workspace.identity()[0]

    def redactor(self, *, trusted: bool = False) -> Redactor:
        """What keeps secrets out of everything shown; by the defaults where the record cannot be believed, or was not
        opened by what was asked. With `trusted` it is opened: what another one looked up is to be shown."""
        try:
            if trusted:
                _ = self._here.snapshot.settings
            return self._here.redactor()
        except Refused:
            return self._here.redactor(defaults=True)

    def settings(self) -> tuple[Settings, str, tuple[Problem, ...]]:
        """The settings in force, the digest they are bound by, and a notice when the file says something else."""
        snapshot = self._here.snapshot
        return snapshot.settings, snapshot.digest, snapshot.notices

    def user_settings(self) -> UserSettings:
        """The user's own settings, which no workspace can set; refused as well where a program they name is."""
        settings = self._here.ports.host.user_settings()
        self._here.ports.host.programs(settings.programs)
        return settings

    def tools(self) -> tuple[Mapping[str, ToolDefinition], tuple[Problem, ...]]:
        """Everything that steps can call, by its name; and a notice for each source that does not say what it has."""
        snapshot = self._here.snapshot
        tools, unreached = self._here.found_tools(snapshot.settings)
        notices = [replace(problem, code="W_TOOL_SOURCE") for problem in unreached.values()]
        written = read_settings(snapshot.text)[0] if snapshot.text is not None else snapshot.settings
        if any(source not in snapshot.settings.sources.items() for source in written.sources.items()):
            notices += (one for one in snapshot.notices if one.code == "W_CONFIG_UNTRUSTED")
        return {**COMMANDS, **tools}, tuple(notices)

    def agents(self) -> tuple[RosterLine, ...]:
        """Everybody who can be given tasks, and whether they could be started here. Nobody is."""
        here = self._here
        settings, text = here.snapshot.settings, here.ports.workspace.configuration()
        written = read_settings(text)[0].agents if text is not None else {}
        known = here.known_agents(settings)
        looked_at = {name: here.agent_fault(agent, settings.tier, settings) for name, agent in known.items()}
        faults = {name: fault for name, fault in looked_at.items() if fault is not None}
        return tuple(roster(settings, here.ports.agents.registered(), written, faults))

    def workspace_state(self) -> WorkspaceState:
        """The workspace's id, its trusted configuration and its approvers."""
        return self._here.snapshot.workspace

    def without_secrets(self, value: Any) -> Any:
        """A value as it may be kept: with nothing in it of the secrets that are known here."""
        return self._here.redactor().value(value)

    def now(self) -> Instant:
        """What the clock says."""
        return self._here.now()

    def refuse_stopped(self) -> None:
        self._here.refuse_stopped()
