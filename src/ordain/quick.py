"""The guard of a workspace for whoever must answer at once: the same rules and the same judgement as `App.guarding`, of
settings that were read at a glance.

Where anything is out of the ordinary there is none, and an App has to be asked: no ledger yet, a directory that was
moved, enrolled keys, a record that is damaged or that this version does not know.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from ordain.adapters.known_secrets import KnownSecrets
from ordain.adapters.ledger_glance import approved_plans, glance
from ordain.adapters.sighting_log import SightingLog
from ordain.adapters.state_directory import check_state_directory, shelf_path, state_directory
from ordain.adapters.whereabouts import LEDGER, configuration, find_workspace, ledger_of, real_directory, state_paths
from ordain.core.door import DOOR
from ordain.core.guard import Call, Guard, Judged, Met, cover_of
from ordain.core.problem import Refused
from ordain.core.settings import Settings, secret_variables
from ordain.core.sighting import Sighting, sighted
from ordain.core.value import Instant
from ordain.documents.in_force import in_force

__all__ = ["QuickGuard", "at_a_door", "quick_guard", "state_places"]


class QuickGuard:
    """The guard of one workspace."""

    def __init__(self, workspace: Path, state: Path, settings: Settings) -> None:
        self.workspace, self.settings, self.guard = str(workspace), settings, Guard(settings)
        self._shelf = shelf_path(state, workspace)

    def meet(
        self, call: Call, judged: Judged, *, agent: str, through: str, session: str
    ) -> tuple[Met, Sighting] | None:
        """What becomes of a call that is not open, once it is noted; None where an App has to be asked. That it was
        refused is for an App to record."""
        now = Instant(time.time_ns() // 1_000_000)
        approved = approved_plans(self._shelf / LEDGER, now)
        if approved is None:
            return None
        from ordain.core.redaction import Redactor  # what is open needs none, and is answered sooner

        known, _ = KnownSecrets().known(secret_variables(self.settings), self.settings.secret_files)
        clean = Redactor(known).text
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
        settings, _ = in_force(seen.trusted, configuration(workspace))
    except Refused:
        return None  # an App says why
    return QuickGuard(workspace, state, settings)


def state_places() -> tuple[str, ...]:
    """Where we keep what we know, with all links followed."""
    return tuple(os.path.realpath(path) for path in state_paths())


def _governed(nearest: Path) -> Path | None:
    """The workspace that `nearest` belongs to, as `assemble` finds it; None where a glance does not tell."""
    for above in reversed(nearest.parents):
        ledger = ledger_of(above)
        if ledger is None:
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
