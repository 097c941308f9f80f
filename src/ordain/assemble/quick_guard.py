"""The guard of a workspace for whoever must answer at once: the judgement of `App.guard`, by settings read at a glance.

Where anything is out of the ordinary there is none, and an App has to be asked: no ledger yet, a directory that was
moved, enrolled keys, a record that is damaged or that this version does not know.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ordain.adapters.ledger.glance import approved_plans, glance
from ordain.adapters.process.line import understanding
from ordain.adapters.state.directory import check_state_directory, shelf_path, state_directory
from ordain.adapters.state.sighting_log import SightingLog
from ordain.adapters.state.stop_file import read_stops
from ordain.adapters.state.user_rules import user_file
from ordain.adapters.workspace.control_file import reach_fault
from ordain.adapters.workspace.locate import (
    LEDGER,
    configuration,
    find_workspace,
    ledger_of,
    real_directory,
    state_paths,
)
from ordain.adapters.workspace.secret import KnownSecrets
from ordain.core.guard.call import Call, Guard, Judged, Met, cover_of
from ordain.core.guard.sighting import Sighting, sighted
from ordain.core.plan.value import Instant
from ordain.core.policy.fact import LineFacts
from ordain.core.policy.settings import Settings, UserSettings, secret_variables, secrets_in_addresses
from ordain.core.policy.stop import stopped_problem
from ordain.core.task.offer import DOOR
from ordain.core.text.problem import Refused
from ordain.documents.settings_in_force import in_force


class QuickGuard:
    def __init__(self, workspace: Path, state: Path, settings: Settings) -> None:
        self.workspace, self.settings, self.guard = str(workspace), settings, Guard(settings)
        self._shelf = shelf_path(state, workspace)

    def refuse_stopped(self) -> None:
        if stops := read_stops(os.environ, Path(self.workspace)):
            raise Refused([stopped_problem(stops[0])])

    def meet(
        self, call: Call, judged: Judged, *, agent: str, through: str, session: str
    ) -> tuple[Met, Sighting] | None:
        """What becomes of a call that is not open, once it is noted; None where an App has to be asked."""
        now = Instant(time.time_ns() // 1_000_000)
        if (approved := approved_plans(self._shelf / LEDGER, now)) is None:
            return None
        from ordain.core.text.redaction import Redactor  # what is open needs none, and is answered sooner

        known, _ = KnownSecrets().known(secret_variables(self.settings), self.settings.secret_files)
        clean = Redactor({**known, **secrets_in_addresses(self.settings)}).text
        met, sighting = sighted(
            call,
            judged,
            cover_of(call, approved),
            self.guard.mode,
            clean,
            at=now,
            agent=agent,
            through=through,
            session=session,
        )
        SightingLog(lambda: self._shelf).note([sighting])
        return met, sighting


class QuickHost:
    """What settings ask of `ports.Host`, loaded where it is needed."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace

    def user_settings(self) -> UserSettings:
        if (own := user_file(os.environ)) is None or not os.path.lexists(own):
            return UserSettings()
        from ordain.adapters.process.host import user_settings  # most users have no rules of their own

        return user_settings(os.environ, self._workspace)

    def understanding(self, settings: Settings) -> Callable[[str], LineFacts]:
        return understanding(self._workspace, settings)


def quick_guard(start: str, *, exact: bool) -> QuickGuard | None:
    """The guard of the workspace that `start` lies in, or of `start` itself; None where an App has to be asked."""
    if sys.getfilesystemencoding() != "utf-8":
        return None
    try:
        workspace = real_directory(Path(start)) if exact else _governed(find_workspace(Path(start)))
        ledger = ledger_of(workspace) if workspace is not None else None
        if workspace is None or ledger is None:
            return None
        state = state_directory(os.environ, workspace)
        seen = glance(ledger)
        if seen is None:
            return None
        settings = in_force(seen.trusted, configuration(workspace), QuickHost(workspace)).settings
    except Refused:
        return None  # an App says why
    return QuickGuard(workspace, state, settings)


def state_places() -> tuple[str, ...]:
    """Where we keep what we know, with all links followed."""
    return tuple(os.path.realpath(path) for path in state_paths())


def reached(workspace: str, paths: Sequence[str], more: Sequence[str]) -> str | None:
    """Why one of these counts as a control file although its name says nothing."""
    return reach_fault(Path(workspace), paths, more)


def _governed(nearest: Path) -> Path | None:
    """The workspace that `nearest` belongs to, as `assemble` finds it; None where a glance does not tell."""
    for above in reversed(nearest.parents):
        if (ledger := ledger_of(above)) is None:
            continue
        for state in state_paths():
            check_state_directory(state)
        seen = glance(ledger)
        if seen is None:
            return None
        if seen.trusted is not None:
            return above
    return nearest


def at_a_door() -> bool:
    """Whether this process is started by the agent of a step that is being carried out, by its own account."""
    return bool(os.environ.get(DOOR))
