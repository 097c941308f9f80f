"""What becomes of a call that an agent makes outside of any run: judged, noted, and refused where the settings say so.

Whoever stands between an agent and its tools (the gateway, a hook of its host) asks here and does what it is told. The
rules are those in force at the time of each call, from what a person trusted last. What is not open is noted before it
is answered, and neither the note nor the record of a refusal decides anything: where they cannot be written the answer
is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec

from ordain.core.approval import Principal
from ordain.core.guard import Call, Cover, Guard, Met, Standing, cover_of
from ordain.core.lineage import Stage
from ordain.core.model import Plan
from ordain.core.problem import Refused
from ordain.core.redaction import Redactor
from ordain.core.sighting import sighted
from ordain.core.value import PlanId
from ordain.refusals import Refusals
from ordain.surroundings import Surroundings

__all__ = ["Guarding", "Met", "Seen"]

PLANS_MAX = 50
"""How many of the newest open plans are looked at for the call that is refused."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Who makes a call, and where it was seen."""

    by: Principal
    agent: str
    through: str
    session: str = ""


class Guarding:
    """The guard of one workspace."""

    def __init__(self, here: Surroundings) -> None:
        self._here = here
        self._guard: tuple[str, Guard] | None = None

    def guard(self) -> Guard:
        """The rules in force now; where the record cannot be read any more, those that were. Raises Refused where none
        were ever read: then nobody knows what is guarded."""
        try:
            if not self._here.has_ledger():
                self._here.refuse_moved()  # else moving a directory would open what is guarded in it
            settings, digest, _ = self._here.settings()
        except Refused:
            if self._guard is None:
                raise
            return self._guard[1]  # what was trusted is in force, and nobody can say that it is not
        if self._guard is None or self._guard[0] != digest:
            self._guard = digest, Guard(settings)
        return self._guard[1]

    async def meet(self, call: Call, seen: Seen) -> Met:
        """Judge a call. What is not open is noted, and where rules are enforced refused and recorded as well."""
        guard = self.guard()
        judged = guard.judge(call)
        if judged.standing is Standing.OPEN:
            return Met(judged=judged)
        met, sighting = sighted(
            call,
            judged,
            self._cover(call),
            guard.mode,
            self._redactor().text,
            at=self._here.now(),
            agent=seen.agent,
            through=seen.through,
            session=seen.session,
        )
        self._here.sightings.note([sighting])
        if met.refused and met.problem is not None:
            await Refusals(self._here).record("call", f"{sighting.tool} {sighting.about}", seen.by, (met.problem,))
        return met

    def _redactor(self) -> Redactor:
        """Where the record cannot be read any more, the one that was in use."""
        with suppress(Refused):
            return self._here.redactor()
        return self._here.redacting[1] if self._here.redacting is not None else self._here.redactor(defaults=True)

    def _cover(self, call: Call) -> Cover | None:
        try:
            return cover_of(call, self._approved())
        except Refused:  # the answer is the same; only the way to a plan is not shown
            return None

    def _approved(self) -> Iterator[tuple[PlanId, bool, Plan]]:
        """The newest plans that a person has approved and that did not end, and whether each is being carried out."""
        if not self._here.has_ledger():
            return
        now = self._here.now()
        for one in self._here.ledger.plans(open_only=True, newest=PLANS_MAX):
            running = one.state.open_run is not None
            if running or one.state.status(now) == Stage.APPROVED:
                yield one.state.plan_id, running, self._here.records.plan(one.stream)
