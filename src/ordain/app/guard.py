"""What becomes of a call that an agent makes outside of any run: judged, noted, and refused where the settings in force
say so. Neither the note nor the record of a refusal decides anything."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import msgspec

from ordain.app.refusals import Refusals
from ordain.core.approval.approval import Principal
from ordain.core.guard.call import Call, CallStanding, Cover, Guard, Met, Mode, Same, cover_of, same_step
from ordain.core.guard.plan_note import plan_note
from ordain.core.guard.report import SightingReport, WatchReport
from ordain.core.guard.sighting import sighted
from ordain.core.ledger.summary import PlanSummary
from ordain.core.lineage.lineage import Stage
from ordain.core.plan.model import Plan, all_steps
from ordain.core.plan.tool import SHELL, ToolSource, operation_name, tool_name
from ordain.core.plan.value import Instant, PlanId
from ordain.core.policy.fact import SHELL_READS, CheckedCommand, LineFacts, Risk, facts_of
from ordain.core.policy.settings import Settings
from ordain.core.run.step_event import StepState
from ordain.core.text.problem import Refused
from ordain.core.text.redaction import Redactor
from ordain.core.text.secret import Secret
from ordain.records.records import instant
from ordain.records.surroundings import Surroundings

PLANS_MAX = 50
"""How many of the newest plans are looked at for the call that is refused: of those that are open, and of all."""
PLANS_COUNTED = 500
"""How many of the newest plans are looked at for the tools that were seen."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Who makes a call, and where it was seen."""

    by: Principal
    agent: str
    through: str
    session: str = ""


class GuardInForce(msgspec.Struct, frozen=True, kw_only=True):
    """The settings as they are at a time, and what calls are judged by."""

    settings: Settings
    guard: Guard
    servers: Mapping[str, ToolSource]
    """The MCP servers that they name, by the names that plans call them by."""


class GuardedCalls:
    """The guard of one workspace."""

    def __init__(self, here: Surroundings) -> None:
        self._here = here
        self._known: tuple[object, GuardInForce] | None = None

    def in_force(self) -> GuardInForce:
        """What is in force now; where the record cannot be read any more, what was. Raises Refused where nothing was
        ever read: then nobody knows what is guarded. Made anew only where something changed: agents call often."""
        try:
            if not self._here.has_ledger():
                self._here.ports.ledger.refuse_moved()  # else moving a directory would open what is guarded in it
            snapshot = self._here.snapshot
            if self._known is None or self._known[0] is not snapshot:
                settings = snapshot.settings
                every = settings.sources.items()
                servers = {name: source for name, source in every if source.mcp or source.url is not None}
                self._known = snapshot, GuardInForce(settings=settings, guard=Guard(settings), servers=servers)
        except Refused:
            if self._known is None:
                raise  # else: what was trusted is in force, and nobody can say that it is not
        return self._known[1]

    def for_call(self) -> GuardInForce:
        """The same for a call that is to be made; raises Refused while work is stopped, whatever the mode."""
        self._here.refuse_stopped()
        return self.in_force()

    def secret(self) -> Secret:
        """The secrets that servers may be handed, by the names of their variables."""
        return self._here.secret(self.in_force().settings)

    async def meet(self, call: Call, seen: Seen) -> Met:
        """Judge a call. What is not open is noted, and where rules are enforced refused and recorded as well."""
        guard = self.for_call().guard
        judged = guard.judge(call)
        if judged.standing is CallStanding.OPEN:
            return Met(judged=judged)
        cover = self._cover(call)
        told = guard.mode is Mode.ENFORCE and judged.standing is CallStanding.GUARDED
        met, sighting = sighted(
            call,
            judged,
            cover,
            guard.mode,
            self._redactor().text,
            at=self._here.now(),
            agent=seen.agent,
            through=seen.through,
            session=seen.session,
            same=self._same(call, seen.by) if told and not (cover is not None and cover.exact) else None,
        )
        self._here.ports.sightings.note([sighting])
        if met.refused and met.problem is not None:
            subject = f"{sighting.tool} {sighting.about}"
            # Whoever takes the call back meanwhile was refused all the same.
            await asyncio.shield(Refusals(self._here).record("call", subject, seen.by, (met.problem,)))
        return met

    def check(self, text: str) -> CheckedCommand:
        """What is understood of a command, and what becomes of an agent's call of it. Nothing is run or noted."""
        in_force = self.in_force()
        understand = in_force.settings.understand
        line = understand(text) if understand is not None else LineFacts()
        judged = in_force.guard.judge(Call(tool=SHELL.name, args={"command": text}, definition=SHELL))
        rule = judged.why
        if judged.by_default and line.risk is Risk.READS:  # else there is more to open
            rule += f"; `reads` never means a command, and `{SHELL_READS}` would open those that only read"
        return CheckedCommand(
            command=text, risk=line.risk, facts=facts_of(line), rule=rule, verdict=judged.standing.value
        )

    def report(self, within_ms: int, *, agent: str | None = None, tool: str | None = None) -> WatchReport:
        """What was seen so far back, of all agents and tools or of one; a tool is also named by its server."""
        here, now = self._here, self._here.now()
        since = Instant(max(now - within_ms, 0))
        watch = SightingReport(since, now)
        for one in here.ports.sightings.since(since):
            if agent in (None, one.agent) and tool in (None, one.tool, one.tool.partition(":")[0]):
                watch.add(one)
        settings = self.in_force().settings
        return watch.report(
            self.in_force().guard,
            opened=settings.open_calls,
            understand=settings.understand,
            known=here.ports.toolbox.definitions(),
            effects={
                operation_name(name, operation): effect
                for name, source in settings.sources.items()
                for operation, effect in source.effects.items()
            },
            in_plans=self._called(),
            incomplete=here.ports.sightings.incomplete(since),
        )

    async def keep_note(self, text: str, by: Principal) -> None:
        """Keep a plan in prose for the inbox, without known secrets; what cannot be kept is left out."""
        if self._here.ports.notes is not None:
            note = plan_note(self._redactor().text(text), by.agent or by.name, self._here.now())
            with suppress(OSError):
                self._here.ports.notes.keep(note)

    def _called(self) -> Counter[str]:
        """How many of the newest plans call each tool."""
        found: Counter[str] = Counter()
        for one in self._here.ledger.plans(newest=PLANS_COUNTED) if self._here.has_ledger() else ():
            if (plan := self._here.records.readable_plan(one.stream)) is not None:
                found.update({tool_name(step.action) for step in all_steps(plan)})
        return found

    def _redactor(self) -> Redactor:
        """Where the record cannot be read any more, the one that was in use."""
        with suppress(Refused):
            return self._here.redactor()
        newest = self._here.snapshots.newest
        return newest.redactor if newest is not None else self._here.redactor(defaults=True)

    def _cover(self, call: Call) -> Cover | None:
        try:
            return cover_of(call, self._approved())
        except Refused:  # the answer is the same; only the way to a plan is not shown
            return None

    def _same(self, call: Call, by: Principal) -> Same | None:
        """The newest plan of this caller's with this very call that waits, or else was carried out."""
        with suppress(Refused):  # as above
            return next(self._waiting(call, by), None) or next(self._made(call, by), None)
        return None

    def _waiting(self, call: Call, by: Principal) -> Iterator[Same]:
        now = self._here.now()
        for one in reversed(self._plans(by, open_only=True)):
            if one.state.status(now) != Stage.PROPOSED:
                continue
            plan = self._here.records.readable_plan(one.stream)
            step = same_step(call, plan) if plan is not None else None
            if step is not None:
                yield Same(plan_id=one.state.plan_id, step=step)

    def _made(self, call: Call, by: Principal) -> Iterator[Same]:
        for one in reversed(self._plans(by)):
            ended = [run_id for run_id, how in one.state.runs.items() if how is not None]
            plan = self._here.records.readable_plan(one.stream) if ended else None
            if plan is None or same_step(call, plan) is None:
                continue
            for run_id in reversed(ended):
                run, plan_id, _ = self._here.records.run(run_id)
                step = same_step(call, run.plan)
                record = run.steps.get(step) if step is not None else None
                if step is not None and record is not None and record.started_at is not None:
                    yield Same(
                        plan_id=plan_id,
                        step=step,
                        run_id=run_id,
                        when=instant(record.ended_at or record.started_at),
                        passed=record.state is StepState.PASSED,
                    )

    def _plans(self, by: Principal, *, open_only: bool = False) -> Sequence[PlanSummary]:
        if not self._here.has_ledger():
            return ()
        newest = self._here.ledger.plans(open_only=open_only, newest=PLANS_MAX)
        return [one for one in newest if one.state.owned_by(by)]

    def _approved(self) -> Iterator[tuple[PlanId, bool, Plan]]:
        """The newest plans that a person has approved and that did not end, and whether each is being carried out."""
        if not self._here.has_ledger():
            return
        now = self._here.now()
        for one in self._here.ledger.plans(open_only=True, newest=PLANS_MAX):
            state, running = one.state, one.state.open_run is not None
            beneath = state.beneath.plan_id if state.beneath is not None and running else None
            if beneath is not None and (plan := self._here.records.readable_plan(one.stream, beneath)) is not None:
                yield beneath, True, plan  # what is proposed to go on with it is another plan
            running = running and beneath is None
            approved = running or state.status(now) == Stage.APPROVED
            if approved and (plan := self._here.records.readable_plan(one.stream)) is not None:
                yield state.plan_id, running, plan
