"""What becomes of a call that an agent makes outside of any run: judged, noted, and refused where the settings say so.

Whoever stands between an agent and its tools (the gateway, a hook of its host) asks here and does what it is told. The
rules are those in force at the time of each call, from what a person trusted last.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import msgspec

from ordain.core.approval import Principal
from ordain.core.guard import Call, Cover, Guard, Judged, Mode, Standing, cover_of, refusal_of
from ordain.core.lineage import Stage
from ordain.core.model import Plan
from ordain.core.problem import Problem
from ordain.core.secret_reference import Secret
from ordain.core.settings import Settings
from ordain.core.sighting import ABOUT_MAX, Sighting
from ordain.core.tool import ToolSource
from ordain.core.value import PlanId
from ordain.records import WORKSPACE_STREAM
from ordain.refusals import Refusals
from ordain.surroundings import Surroundings

__all__ = ["Guarding", "InForce", "Met", "Seen"]

PLANS_MAX = 50
"""How many of the newest open plans are looked at for the call that is refused."""


_READ_MAX = 16 << 10
"""How much of a call's arguments is looked at for what is shown of them."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Who makes a call, and where it was seen."""

    by: Principal
    agent: str
    through: str
    session: str = ""


class Met(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a call."""

    judged: Judged
    problem: Problem | None = None
    """Why it is not made, or would not be were the rules enforced; None where it is open."""
    refused: bool = False
    cover: Cover | None = None
    """The step of an approved plan that calls the same tool, if there is one."""


class InForce(msgspec.Struct, frozen=True, kw_only=True):
    """The settings as they are at a time, and what calls are judged by."""

    settings: Settings
    guard: Guard
    servers: Mapping[str, ToolSource]
    """The MCP servers that they name, by the names that plans call them by."""


class Guarding:
    """The guard of one workspace."""

    def __init__(self, here: Surroundings) -> None:
        self._here = here
        self._known: tuple[object, InForce] | None = None

    def in_force(self) -> InForce:
        """What is in force now; made anew only where anything changed that it is made of, for agents call often."""
        recorded = self._here.ledger.size(WORKSPACE_STREAM) if self._here.has_ledger() else 0
        made_of = recorded, self._here.workspace.configuration()
        if self._known is None or self._known[0] != made_of:
            settings = self._here.settings()[0]
            every = settings.sources.items()
            servers = {name: source for name, source in every if source.mcp or source.url is not None}
            self._known = made_of, InForce(settings=settings, guard=Guard(settings), servers=servers)
        return self._known[1]

    def secret(self) -> Secret:
        """The secrets that servers may be handed, by the names of their variables."""
        return self._here.secret(self.in_force().settings)

    async def meet(self, call: Call, seen: Seen) -> Met:
        """Judge a call. What is not open is noted, and where rules are enforced refused and recorded as well."""
        guard = self.in_force().guard
        judged = guard.judge(call)
        if judged.standing is Standing.OPEN:
            return Met(judged=judged)
        refused = guard.mode is Mode.ENFORCE
        cover = cover_of(call, self._approved())
        problem = refusal_of(call, judged, cover)
        about = self._about(call)
        sighting = Sighting(
            at=self._here.now(),
            agent=seen.agent,
            through=seen.through,
            tool=call.tool,
            standing=judged.standing,
            refused=refused,
            code=problem.code,
            session=seen.session,
            about=about,
        )
        self._here.sightings.note([sighting])
        if refused:
            await Refusals(self._here).record("call", f"{call.tool} {about}", seen.by, (problem,))
        return Met(judged=judged, problem=problem, refused=refused, cover=cover)

    def _about(self, call: Call) -> str:
        written = json.dumps(call.args, ensure_ascii=False, default=str)[:_READ_MAX]
        return self._here.redactor().text(written.encode("utf-8", "replace").decode())[:ABOUT_MAX]

    def _approved(self) -> Iterator[tuple[PlanId, bool, Plan]]:
        """The newest plans that a person has approved and that did not end, and whether each is being carried out."""
        if not self._here.has_ledger():
            return
        now = self._here.now()
        for one in self._here.ledger.plans(open_only=True, newest=PLANS_MAX):
            running = one.state.open_run is not None
            if running or one.state.status(now) == Stage.APPROVED:
                yield one.state.plan_id, running, self._here.records.plan(one.stream)
