"""What one verb knows of its workspace, taken once: the record, the settings in force, the secrets.

Nothing in a snapshot changes. Files, locks and disk space are not in it: they are looked at when they matter.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cached_property

import msgspec

from ordain.core.approval.approval import NARROWED
from ordain.core.lineage.lineage import PlanState
from ordain.core.lineage.workspace import WorkspaceState
from ordain.core.policy.settings import Settings, secret_variables, secrets_in_addresses
from ordain.core.policy.stop import StopOrder, stop_notice
from ordain.core.text.problem import Problem, refuse
from ordain.core.text.redaction import Redactor
from ordain.documents.settings_in_force import SettingsInForce, in_force, says_enforce
from ordain.ports.ports import Ports
from ordain.records.records import WORKSPACE_STREAM, Records


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One workspace at one moment. What few verbs ask for is made when it is first asked for."""

    ports: Ports
    recorded: bool
    """Whether there is a ledger."""
    workspace: WorkspaceState
    """The fold of the workspace's own stream: its id, the trusted configuration, the approvers."""
    text: bytes | None
    """The content of `ordain.toml`."""
    stops: tuple[StopOrder, ...]

    @property
    def settings(self) -> Settings:
        """The settings in force; raises Refused where the record cannot be believed.

        What a person trusted last is in force, from the ledger: an agent can edit the file, which may loosen nothing.
        While it says something else, nothing beyond the defaults is allowed unasked: a person may have tightened it.
        """
        return self._in_force.settings

    @property
    def digest(self) -> str:
        """What approvals are bound to of the settings."""
        trusted = self.workspace.trusted
        digest = trusted.digest if trusted is not None else "defaults"
        return f"{digest}{NARROWED}" if self._in_force.differs else digest

    @cached_property
    def _in_force(self) -> SettingsInForce:
        self.refuse_unsigned()
        trusted = self.workspace.trusted
        return in_force(trusted.text if trusted is not None else None, self.text, self.ports.host)

    @cached_property
    def notices(self) -> tuple[Problem, ...]:
        """What everybody should know who goes by these settings: first that the file says something else."""
        files = self.settings.secret_files
        unread = self.ports.secrets.known((), files)[1] if files else ()
        notices = [*([self._untrusted()] if self._in_force.differs else ()), *map(stop_notice, self.stops)]
        detail = "{} cannot be read, so what is in it is not hidden."
        notices += (Problem(code="W_SECRET_FILE", detail=detail.format(file)) for file in unread)
        if not self.recorded and (former := self.ports.ledger.former()) is not None:
            moved = Problem(
                code="W_WORKSPACE_MOVED",
                detail="This directory looks like one that was moved here: nothing of its record counts any more.",
                hints=("Its plans, approvals and trusted configuration can be taken along:",),
                command=f"ordain audit restore {shlex.quote(former.path)}",
            )
            notices.append(moved)
        return tuple(notices)

    def _untrusted(self) -> Problem:
        trusted = "the one trusted last applies, and allows nothing beyond the defaults"
        applies = trusted if self.workspace.trusted is not None else "the defaults apply"
        hints = ["An agent can edit that file; it counts once a person has read it."]
        if self.settings.guard_mode != "enforce" and says_enforce(self.text):
            hints += [
                'It says `[guard] mode = "enforce"`, and until then nothing is: calls of agents are only watched.'
            ]
        return Problem(
            code="W_CONFIG_UNTRUSTED",
            detail=f"ordain.toml is {'gone' if self.text is None else 'not trusted as it is now'}, so {applies}.",
            hints=tuple(hints),
            command="ordain trust" if self.text is not None else "ordain init",
        )

    @cached_property
    def redactor(self) -> Redactor:
        """What keeps secrets out of everything written or shown."""
        return Redactor(self.secrets)

    @cached_property
    def secrets(self) -> Mapping[str, str]:
        """The values of the secrets that the settings name."""
        return self._known()

    def _known(self) -> Mapping[str, str]:
        settings = self.settings
        known, _ = self.ports.secrets.known(secret_variables(settings), settings.secret_files)
        return {**known, **secrets_in_addresses(settings)}

    def refuse_unsigned(self) -> None:
        """Raise Refused where the workspace's record cannot be believed."""
        if self.workspace.unsigned:
            raise refuse(
                "E_APPROVAL_SIGNATURE",
                f"The workspace's record cannot be believed: {self.workspace.unsigned[0]}.",
                "Somebody wrote it without an enrolled key; look at the whole record before anything else.",
                command="ordain audit verify",
            )

    def is_current(self) -> bool:
        """Whether another look would give the same; it costs one look at the stream and at each file, and no fold."""
        if _looked(self.ports) != (self.recorded, self.text, self.stops):
            return False
        if self.recorded and self.ports.ledger.open().size(WORKSPACE_STREAM) != self.workspace.size:
            return False
        # Files of secrets are read again where they were read; the settings that name them are the same.
        files = self.settings.secret_files if "secrets" in self.__dict__ else ()
        return not files or self._known() == self.secrets


def _looked(ports: Ports) -> tuple[bool, bytes | None, tuple[StopOrder, ...]]:
    stops = ports.stop_switch.read() if ports.stop_switch is not None else ()
    return ports.ledger.exists(), ports.workspace.configuration(), stops


def take(ports: Ports) -> Snapshot:
    """The workspace as it is now. Nothing is made by looking."""
    recorded, text, stops = _looked(ports)
    state = Records(ports.ledger.open()).workspace(ports.keyring.verify) if recorded else WorkspaceState()
    return Snapshot(ports=ports, recorded=recorded, workspace=state, text=text, stops=stops)


class Snapshots:
    """The newest snapshot of one workspace. A new one is taken only where something changed."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self.newest: Snapshot | None = None
        self.lineages: dict[str, PlanState] = {}
        """Folded before, for `Records`."""

    def current(self) -> Snapshot:
        if self.newest is None or not self.newest.is_current():
            self.newest = take(self._ports)
        return self.newest
