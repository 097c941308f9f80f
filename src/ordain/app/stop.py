"""The verbs about the stop: anybody may stop, only a person at a terminal lifts. The switch comes first and counts by
itself: where the ledger cannot be written, work is stopped all the same."""

from __future__ import annotations

from contextlib import suppress

from ordain.app.refusals import Refusals
from ordain.core.approval.approval import Principal
from ordain.core.policy.stop import LIFT, StopOrder, StopReport
from ordain.core.run.event import StopLifted, WorkspaceEvent, WorkStopped
from ordain.core.text.problem import Refused, refuse
from ordain.ports.ledger import Append
from ordain.ports.machine import StopSwitch
from ordain.records.conflict import is_conflict
from ordain.records.records import WORKSPACE_STREAM
from ordain.records.surroundings import Surroundings

_TRIES = 5


class Stops:
    def __init__(self, here: Surroundings) -> None:
        self._here, self._refusals = here, Refusals(here)

    @property
    def _switch(self) -> StopSwitch:
        switch = self._here.ports.stop_switch
        assert switch is not None, "only real workspaces are stopped"
        return switch

    def in_force(self) -> tuple[StopOrder, ...]:
        return self._here.stops()

    async def stop(self, by: Principal, reason: str = "", *, everywhere: bool = False) -> StopReport:
        """Stop all work here, or in every workspace of this user, until a person lifts it. Anybody may: it permits
        nothing. The switch is turned on before executors are killed: a run that starts at the same moment sees the
        switch or is killed too."""
        async with self._refusals.recording("stop", "", by):
            text = self._here.redactor(defaults=True).text(reason)
            stop = StopOrder(by=by.words, at=self._here.now(), reason=text, everywhere=everywhere)
            try:
                self._switch.turn_on(stop)
            finally:  # a disk that takes no file must not keep anything running
                ended, left = self._switch.end_runs(everywhere=everywhere)
            recorded = await self._record(WorkStopped(by=by, reason=text, everywhere=everywhere))
        return StopReport(stopped=self._switch.read(), ended=ended, not_ended=left, recorded=recorded)

    async def note(self, by: Principal, reason: str) -> None:
        """Record that work was stopped everywhere, in this workspace's ledger too."""
        async with self._refusals.recording("stop", "", by):
            text = self._here.redactor(defaults=True).text(reason)
            await self._record(WorkStopped(by=by, reason=text, everywhere=True))

    async def lift(self, by: Principal) -> StopReport:
        """Turn off everything that stops this workspace. Runs that were killed go on with `resume`."""
        async with self._refusals.recording("stop --lift", "", by):
            if not by.person:
                raise refuse("E_APPROVAL_CHANNEL", "Only a person at a terminal can lift a stop.", command=LIFT)
            found = self._switch.read()
            recorded = await self._record(StopLifted(by=by)) if found else False
            for stop in found:
                self._switch.turn_off(stop)
        return StopReport(stopped=self._switch.read(), recorded=recorded)

    async def _record(self, event: WorkspaceEvent) -> bool:
        """Record it where there is a ledger that can be written; whether it was."""
        here = self._here
        with suppress(Refused, OSError):
            for _ in range(_TRIES if here.has_ledger() else 0):
                size = here.ledger.size(WORKSPACE_STREAM)
                try:
                    await here.ledger.append(
                        here.now(), Append(stream=WORKSPACE_STREAM, expected=size, events=(event,))
                    )
                    return True
                except Refused as refused:
                    if not is_conflict(refused):
                        raise
        return False
