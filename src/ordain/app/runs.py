"""The verbs about runs: starting one, going on with it, ending it. The engine carries out; here is looked who may, what
was permitted, and that nobody else is at it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from ordain.app.authority import refuse_broken, refuse_unprotectable, taken_over
from ordain.app.gate import Gate, given, meanwhile
from ordain.app.plans import PlanVerbs
from ordain.app.refusals import Refusals
from ordain.app.retention import refuse_removed
from ordain.app.run_end import RunEnds, refuse_if_ended
from ordain.app.run_view import RunView, sealed_of
from ordain.app.succession import GoingOn, going_on, opened_after, refuse_unready, replacing, unasked_or_why
from ordain.core.approval.approval import Approval, Principal
from ordain.core.lineage.lineage import Permission, PlanState
from ordain.core.plan.action import lock_taken
from ordain.core.plan.canonical import plan_id, short_id
from ordain.core.plan.model import Plan
from ordain.core.plan.value import Instant, PlanId, RunId, StepId
from ordain.core.policy.sealing import SealedEnvironment
from ordain.core.policy.settings import Settings, limits
from ordain.core.policy.tier import tier_of
from ordain.core.report.report import Review, RunReport
from ordain.core.run.event import ApprovalGiven, RunEnded, RunOpened, RunStarted, Unasked
from ordain.core.run.run_state import RunState
from ordain.core.run.schedule import keepable
from ordain.core.run.wait import signals_of, stream_of_signal
from ordain.core.text.problem import Problem, Refused, closest, refuse
from ordain.ports.ledger import Append, Observer
from ordain.ports.machine import Credential
from ordain.records.conflict import is_conflict
from ordain.records.records import names_run
from ordain.records.surroundings import Surroundings

Waiting = Callable[[str], None]
"""Is told in words who is waited for."""
GoOn = Callable[[RunReport, Sequence[Observer], Waiting | None, Callable[[str], None]], Awaitable[RunReport]]
"""Asks a planner about a run that waits for one; the run as it stands then, or the one that went on in its place."""
WAITING_MS = 200
STARTS_MAX = 3
"""How often a start is tried while others keep writing to the ledger."""


class Again(NamedTuple):
    """What a rerun takes over from the run before."""

    run_id: RunId
    first_run: RunId
    may_keep: tuple[StepId, ...]


class RunVerbs(RunView):
    """The runs of one workspace."""

    def __init__(
        self,
        here: Surroundings,
        gate: Gate,
        plans: PlanVerbs,
        refusals: Refusals,
        go_on: Callable[[], GoOn | None] = lambda: None,
    ) -> None:
        super().__init__(here, gate, plans)
        self._refusals, self._go_on = refusals, go_on
        self._ends = RunEnds(here, self.report, self._tell)
        self._stop: Callable[[], None] | None = None
        self.carries_out: RunId | None = None
        """The run that is under way in this process."""
        self.started: RunId | None = None
        """The run that was started here last."""
        self.tell: Callable[[str], None] = lambda words: None
        """Told what is done about a run beside carrying it out, for somebody who watches."""

    # --- Starting --------------------------------------------------------------------------------------------------

    async def commit(
        self,
        ref: str,
        by: Principal,
        *observers: Observer,
        waiting: Waiting | None = None,
        preparation: str | None = None,
    ) -> RunReport:
        """Start the approved run and carry it out until it ends or waits for a person. A preparation, by default the
        newest, starts one run: where it has, that one is watched to its end instead and reported. Everything is checked
        first; the approval is spent in the transaction that opens the run, so a refusal consumes nothing and one
        approval starts one run. Where the workspace has no place for another run it is waited for one and `waiting` is
        told; without it the run is refused."""
        async with self._refusals.asked_for("commit", ref, by):
            self._plans.refuse_edited(ref, "commit")
            if (earlier := self.begun(ref, preparation)) is not None:
                report = await self.watch(earlier, *observers)
            else:
                report = await self._commit(ref, by, observers, waiting, preparation=preparation)
        return await self._gone_on(report, observers, waiting)

    async def approve_and_commit(
        self,
        shown: Review,
        by: Principal,
        *observers: Observer,
        credential: Credential | None = None,
        waiting: Waiting | None = None,
    ) -> RunReport:
        """A person's yes to what was shown, given and spent in one transaction: a refusal leaves none behind."""
        async with self._refusals.recording("approve", shown.plan_id, by):
            report = await self._commit(shown.plan_id, by, observers, waiting, shown=shown, credential=credential)
        return await self._gone_on(report, observers, waiting)

    async def rerun(
        self,
        ref: str,
        by: Principal,
        *observers: Observer,
        again_from: str | None = None,
        waiting: Waiting | None = None,
        shown: Review | None = None,
        credential: Credential | None = None,
    ) -> RunReport:
        """Run the same plan again, on an approval of its own. Steps that passed are kept if their contract holds now;
        with `again_from`, that step and all that depends on it are run again, and others that passed are kept where a
        person says so. `shown` is what a person has just said yes to: that is recorded and spent in one transaction."""
        async with self._refusals.asked_for("rerun", ref, by):
            self._here.refuse_stopped()
            run_id = self._records.find_run(ref) if names_run(ref) else self._newest_run(ref)
            former, identity, _ = self._records.run(run_id)
            if not former.finished:
                detail = f"{run_id} has not ended; go on with it instead."
                raise refuse("E_RUN_OPEN", detail, command=f"ordain resume {run_id}")
            newest = self._newest_run(identity)
            if run_id != newest:
                detail = f"{run_id} is not the newest run of its plan; what passed then may have failed since."
                raise refuse("E_RUN_OLD", detail, command=f"ordain rerun {newest}")
            names = [one.id for one in former.plan.steps]
            if again_from is not None and again_from not in names:
                detail = f"The plan of {run_id} has no step `{again_from}`."
                raise refuse("E_RUN_STEP", detail, *closest(again_from, names), command=f"ordain show {run_id}")
            # What is kept of it counts as done, so what it was begun on and decided by must count too.
            await self._gate.refuse_unsigned_run(former, *self._records.start_of(run_id, former.lineage))
            step = StepId(again_from) if again_from is not None else None
            kept, words = partial(keepable, former, person=by.person), f"ordain rerun {run_id}"
            refuse_removed(self._here.ledger, former, former.plan, step, kept, words)
            again = Again(run_id=run_id, first_run=former.first_run, may_keep=kept(step))
            try:
                report = await self._commit(
                    identity, by, observers, waiting, again=again, shown=shown, credential=credential
                )
            except Refused as refused:
                words += f" --from {step}" if step is not None else ""
                raise Refused([_then(problem, identity, words) for problem in refused.problems]) from refused
        return await self._gone_on(report, observers, waiting)

    async def _commit(
        self,
        ref: str,
        by: Principal,
        observers: Sequence[Observer],
        waiting: Waiting | None = None,
        *,
        shown: Review | None = None,
        credential: Credential | None = None,
        again: Again | None = None,
        preparation: str | None = None,
    ) -> RunReport:
        run_id = RunId(self._here.ports.ids.mint("RUN-"))
        stream, state = self._records.current(ref)
        sealed = _sealed_for(_prepared_as(state, preparation)) if shown is None else None
        async with self._at_work(run_id, self._records.plan(stream), sealed, waiting):
            for tries_left in reversed(range(STARTS_MAX)):
                try:
                    begun = await self._start(stream, run_id, by, shown, credential, again, preparation)
                    break
                except Refused as refused:
                    if not is_conflict(refused):
                        raise
                    if shown is not None:
                        raise meanwhile(shown.plan_id) from refused  # a person's yes is for what was shown
                    if not tries_left:
                        raise
            if isinstance(begun, int):
                return await self._begin(stream, state.size, run_id, observers, begun)
        return await self.watch(begun, *observers)  # the place is somebody else's

    async def _begin(
        self, stream: str, heard: int, run_id: RunId, observers: Sequence[Observer], judged_at: int
    ) -> RunReport:
        self._plans.copies.write(stream, self._records.lineage(stream))
        # Nobody can have asked anything of a run that was not there.
        opened, _, head = self._records.run(run_id)
        if opened.epoch or opened.finished:
            raise taken_over(run_id)
        given = self._records.start_of(run_id, opened.lineage)[1]
        return await self._carry_out(opened, head, heard, given, observers, judged_at)

    @asynccontextmanager
    async def _at_work(
        self, run_id: RunId, plan: Plan, sealed: SealedEnvironment | None, waiting: Waiting | None
    ) -> AsyncIterator[None]:
        """Carry out this run, in one of the workspace's places. Others wait, so slow tool servers are asked before."""
        lock, clock, told = self._here.ports.lock, self._here.ports.clock, ""
        with self._here.asked_tools(plan, sealed):
            while True:
                with ExitStack() as held:
                    try:
                        held.enter_context(lock.place(run_id, self._here.snapshot.settings.writers))
                    except Refused as refused:
                        problem = refused.problems[0]
                        if problem.code != "E_WORKSPACE_BUSY" or waiting is None:
                            raise
                        if problem.detail != told:
                            told = problem.detail
                            waiting(told)
                            for words in self._in_its_way(run_id):
                                waiting(words)
                    else:
                        held.enter_context(lock.claim(run_id))
                        self._here.refuse_stopped()  # not before: stopping kills those who have claimed a run
                        yield
                        return
                await clock.sleep_until(Instant(clock.now() + WAITING_MS))

    def _in_its_way(self, run_id: RunId) -> Iterator[str]:
        """Runs at work that wait for what this one holds: neither would ever go on, and what helps, in words."""
        for plan in self._here.ledger.plans(open_only=True):
            other = plan.state.open_run
            if other is None or other == run_id or self._here.ports.lock.holder(other) is None:
                continue
            state, _, _ = self._records.run(other)
            for step_id in state.waiting:
                lock = lock_taken(state.step(step_id).action)
                if lock is not None and self._records.lock(lock).holder == run_id:
                    yield (
                        f"{other} waits for the lock `{lock}`, which {run_id} itself holds, so neither can "
                        f"go on. In another terminal: ordain pause {other}"
                    )

    async def _start(
        self,
        stream: str,
        run_id: RunId,
        by: Principal,
        shown: Review | None,
        credential: Credential | None,
        again: Again | None,
        preparation: str | None,
    ) -> int | RunId:
        """Check everything, then open the run and spend its approval in one transaction, which compares what was
        looked at: the lineage, and with the workspace's own stream the settings and the approvers. How long that was;
        or the run that this was started for before, and nothing is done."""
        here = self._here
        state, snapshot = _prepared_as(self._records.lineage(stream), preparation), here.snapshot
        prepared = preparation or state.preparation
        used = state.preparations[prepared].run_id if prepared in state.preparations else None
        if used is not None and shown is None and again is None:
            return used
        plan, now = self._records.plan(stream), here.now()
        settings, going, unasked = snapshot.settings, going_on(here, state, plan), None
        requires_approval = self._asks_approval(state, plan, settings)
        if going is not None:
            unasked = await self._unasked(state, plan, going, shown)
            requires_approval = unasked is None
        events: tuple[ApprovalGiven | RunEnded | RunStarted, ...] = ()
        if shown is not None:
            permission = await self._gate.permit(stream, state, by, shown, credential)
            approval: Approval | None = permission.approval
            events = (given(permission),)
        else:
            approval = await self._gate.usable(state, stream, plan, required=requires_approval)
        await refuse_unprotectable(here, plan)
        refuse_broken(here, plan, approval)
        started = RunStarted(
            run_id=run_id,
            plan_id=state.plan_id,
            approval_id=approval.approval_id if approval is not None else None,
            by=by,
            tools=here.judged_by(plan, settings) if approval is None and unasked is None else None,
            continues=state.continues,
            unasked=unasked,
            preparation=prepared if used is None and again is None else _started_for(state, approval, shown),
        )
        opened = RunOpened(
            run_id=run_id,
            plan_id=state.plan_id,
            lineage=stream,
            workspace=await here.identity(),
            limits=limits(
                settings,
                here.kept_tools(plan, settings),
                here.covered_agents(plan, settings),
                among=here.among(plan, settings),
                tier=tier_of(plan, settings.tier),
            ),
            rerun_of=again.run_id if again is not None else None,
            first_run=again.first_run if again is not None else None,
            may_keep=again.may_keep if again is not None else (),
            operands=here.command_files(plan) if approval is None else None,
            signals={key: size for key in signals_of(plan) if (size := here.ledger.size(stream_of_signal(key)))},
            environment=state.environment if approval is None else None,
        )
        also: tuple[Append, ...] = ()
        with ExitStack() as held:
            if going is not None:
                if not going.former.finished:
                    held.enter_context(here.ports.lock.claim(going.former.run_id))  # nobody goes on with it meanwhile
                ended, also = replacing(here, going, run_id, by, now)
                events, opened = (*events, *ended), opened_after(opened, going)
            await here.ledger.append(
                now,
                here.unchanged(snapshot),
                *also,
                Append(stream=stream, expected=state.size, events=(*events, started)),
                Append(stream=f"run/{run_id}", expected=0, events=(opened,)),
            )
        self.started = run_id
        return snapshot.workspace.size

    async def _unasked(self, state: PlanState, plan: Plan, going: GoingOn, shown: Review | None) -> Unasked | None:
        """Why nobody need be asked about a successor, if so; raises Refused where it could not go on at all."""
        former = going.former
        refuse_unready(self._here, former)
        unasked = unasked_or_why(self._here, state, plan, going)[0] if shown is None else None
        if unasked is not None or going.inheritance.kept:
            # What is kept counts as done, so what it was begun on and decided by must count too.
            await self._gate.refuse_unsigned_run(former, *self._records.start_of(former.run_id, former.lineage))
        return unasked

    async def check_startable(self, ref: str, by: Principal, preparation: str | None = None) -> None:
        """Raise Refused where this caller could not start this plan as things stand. Nothing is spent."""
        async with self._refusals.asked_for("commit", ref, by):
            self._plans.refuse_edited(ref, "commit")
            stream, state = self._records.current(ref)
            state = _prepared_as(state, preparation)
            plan = self._records.plan(stream)
            with self._here.asked_tools(plan, _sealed_for(state)):
                required = self._asks_approval(state, plan, self._here.snapshot.settings)
                if (going := going_on(self._here, state, plan)) is not None:
                    refuse_unready(self._here, going.former)
                    required = unasked_or_why(self._here, state, plan, going)[0] is None
                refuse_broken(self._here, plan, await self._gate.usable(state, stream, plan, required=required))

    def startable(self, ref: str) -> None:
        """Raise Refused where work is stopped, a run of this plan is open, or an agent of it cannot be started."""
        self._here.refuse_stopped()
        stream, state = self._records.current(ref)
        self.refuse_open(state)
        self._here.refuse_agents(self._records.plan(stream), self._here.snapshot.settings)

    def _asks_approval(self, state: PlanState, plan: Plan, settings: Settings) -> bool:
        """Whether a run of a plan needs an approval; raises Refused where none may start whoever approved it."""
        self._here.refuse_stopped()
        self.refuse_open(state)
        self._here.refuse_tier(tier_of(plan, settings.tier))
        self._here.refuse_agents(plan, settings)
        ruling = self._here.rule(plan, settings)
        if ruling.denied:
            raise Refused(ruling.denied)
        return ruling.requires_approval

    def refuse_open(self, state: PlanState) -> None:
        if state.open_run is not None and state.open_run != state.continues:
            asked = self.report(state.open_run).questions
            command = asked[0].asking if asked else f"ordain resume {state.open_run}"
            raise refuse("E_RUN_OPEN", f"{state.open_run} of this plan has not ended.", command=command)

    # --- Going on --------------------------------------------------------------------------------------------------

    async def resume(
        self,
        ref: str | None,
        *observers: Observer,
        waiting: Waiting | None = None,
        take_over: bool = False,
        verify_only: bool = False,
    ) -> RunReport:
        """Go on with a run that stopped: the one named, or the only one that has not ended. An executor that gave no
        sign of life for too long is ended first; with `take_over`, whichever there is. With `verify_only` no step
        begins: contracts that are due are run, and that is all."""
        report = await self._resume(ref, observers, waiting, take_over=take_over, verify_only=verify_only)
        return report if verify_only else await self._gone_on(report, observers, waiting)

    async def _resume(
        self,
        ref: str | None,
        observers: Sequence[Observer],
        waiting: Waiting | None,
        *,
        take_over: bool,
        verify_only: bool,
    ) -> RunReport:
        run_id = self.find_run(ref)
        state, _, head = self._records.run(run_id)
        refuse_if_ended(state)
        started = self._records.start_of(run_id, state.lineage)  # once: of a long plan, that is megabytes
        heard, before = self._here.ledger.size(state.lineage), state.size
        # What is recorded from here on is asked of us, although it is not ours yet.
        holder = self._here.ports.lock.holder(run_id)
        if holder is not None and (take_over or holder.silent_ms > self._stalled_after_ms()):
            await self._refuse_to_go_on(state, *started)  # before anybody is killed for it
            self._ends.end_executor(run_id, holder)
        elif holder is not None:
            with self._here.ports.lock.claim(run_id):  # refused at once, for it would be waited for its own place
                pass
        async with self._at_work(run_id, state.plan, sealed_of(state, started[1]), waiting):
            head = self._records.catch_up(state, head)
            refuse_if_ended(state)
            if state.paused_by is not None and state.size > before:
                return self.report(run_id)  # somebody paused it while it was waited for a place
            asked = self._records.lineage(state.lineage).stop_asked
            if asked is not None and asked.to != "paused":
                # Whoever carried it out died before it could do what it was asked.
                await self._ends.end_run(run_id, asked.by, asked.reason, asked.to)
                return self.report(run_id)
            await self._refuse_to_go_on(state, *started)
            return await self._carry_out(state, head, heard, started[1], observers, verify_only=verify_only)

    async def _refuse_to_go_on(self, state: RunState, approval_id: str | None, given: Permission | None) -> None:
        run_id = state.run_id
        if state.workspace_identity != await self._here.identity():
            detail = f"{run_id} was begun in another directory than the one that is here now."
            hint = f"It was begun in {state.workspace_identity.path}; that directory was moved or replaced."
            raise refuse("E_PLAN_WORKSPACE", detail, hint, command=f"ordain cancel {run_id}")
        self._here.refuse_tier(state.limits_in_force.tier)
        here = {**self._here.ports.handlers.registered(), **self._here.ports.sources.registered()}
        for name, handler in state.limits_in_force.handlers.items():
            if handler.registered and here.get(name) != handler:
                detail = f"{run_id} does `{name}`, which this program does not have as it was when the run was started."
                hint = f"Go on with it in the program that registers {handler.python}."
                raise refuse("E_TOOL_UNKNOWN" if handler.schema is not None else "E_ACTION_UNKNOWN", detail, hint)
        agents = self._here.ports.agents.registered()
        for name, agent in state.limits_in_force.agents.items():
            if agent.registered and agents.get(name) != agent:
                raise refuse(
                    "E_AGENT_UNKNOWN",
                    f"{run_id} has tasks for `{name}`, which this program does not have as it was when the run began.",
                    f"Go on with it in the program that registers {agent.python}.",
                )
        await self._gate.refuse_unsigned_run(state, approval_id, given)
        sealed = sealed_of(state, given)
        if sealed is not None and (changed := self._here.misfits(sealed)):
            raise refuse(
                "E_RUN_ENVIRONMENT",
                f"{run_id} was begun with another environment: {changed[0]}.",
                *(f"Also: {one}." for one in changed[1:]),
                "Set it as it was when the run was approved, or end the run and approve a new one.",
                command=f"ordain cancel {run_id}",
            )

    async def _gone_on(self, report: RunReport, observers: Sequence[Observer], waiting: Waiting | None) -> RunReport:
        """A run as it stands once a planner was asked about it, where its failure policy wants that."""
        go_on = self._go_on()
        if go_on is None or report.status != "waiting" or not any(one.wants for one in report.questions):
            return report
        return await go_on(report, observers, waiting, self.tell)

    def stop(self) -> bool:
        """Ask the run under way, if any, to begin nothing more and return when what runs has ended; whether one was."""
        if self._stop is None:
            return False
        self._stop()
        return True

    async def _carry_out(
        self,
        state: RunState,
        head: str,
        heard: int,
        given: Permission | None,
        observers: Sequence[Observer],
        judged_at: int | None = None,
        *,
        verify_only: bool = False,
    ) -> RunReport:
        from ordain.app.executor import Executor, open_run  # only a run needs the loop and all it imports

        run_id = state.run_id
        run = open_run(
            self._here, self._gate, state, head, heard, given, sealed=sealed_of(state, given), judged_at=judged_at
        )
        executor = Executor(self._here, run, observers)
        self._end_leftovers(state)
        self._stop, self.carries_out = executor.stop, run_id
        if verify_only:
            executor.stop()
        try:
            await executor.carry_out()
        finally:
            self._stop = self.carries_out = None
        report = self._report(state, plan_id(state.plan))
        self._tell(report, state.lineage)
        return report

    def _end_leftovers(self, state: RunState) -> None:
        """End what dead executors of other runs left running, which could disturb this one. A run is claimed meanwhile,
        so that nobody begins with it whose commands would be ended too."""
        for plan in self._here.ledger.plans(open_only=True):
            other = plan.state.open_run
            if other is not None and other != state.run_id:
                with suppress(Refused), self._here.ports.lock.claim(other):
                    self._here.ports.shell.sweep(f"{state.workspace_identity.id}/{other}/")

    def _tell(self, report: RunReport, stream: str) -> None:
        """Tell whoever the settings name how a run ended; what it asks was told when it arose."""
        self._plans.copies.write(stream, self._records.lineage(stream))
        if report.status in ("completed", "failed", "cancelled"):
            self._here.notify("finished", run_id=report.run_id, title=report.title, status=report.status)

    # --- Ending ----------------------------------------------------------------------------------------------------

    async def cancel_run(
        self, ref: str, by: Principal, reason: str = "", *, status: str = "cancelled", take_over: bool = False
    ) -> RunReport:
        """End a run as it stands. Its own caller may, and every person: it permits nothing."""
        async with self._refusals.asked_for("cancel", ref, by):
            return await self._ends.cancel(ref, by, reason, status=status, take_over=take_over)

    async def pause(self, ref: str | None, by: Principal, reason: str = "") -> RunReport:
        """Have a run stop when what is under way has ended."""
        async with self._refusals.asked_for("pause", ref, by):
            return await self._ends.pause(ref, by, reason)


def _then(problem: Problem, identity: PlanId, command: str) -> Problem:
    """A problem that an approval helps, with the command that gives it and the one that comes after that."""
    if problem.code not in ("E_PLAN_APPROVAL_MISSING", "E_APPROVAL_SPENT"):
        return problem
    hints = (f"Approve it as below, then: {command}",)
    return replace(problem, hints=hints, command=f"ordain approve {short_id(identity)}")


def _prepared_as(state: PlanState, preparation: str | None) -> PlanState:
    """A plan as one preparation of it, by default the newest, left it."""
    found = state.preparations.get(preparation or "")
    return replace(state, environment=found.environment) if found is not None else state


def _sealed_for(state: PlanState) -> SealedEnvironment | None:
    """The environment that a run of a plan would be started with, by its newest approval or its preparation."""
    newest = next(reversed(state.permissions.values()), None)
    return newest.approval.base.environment if newest is not None else state.environment


def _started_for(state: PlanState, approval: Approval | None, shown: Review | None) -> str:
    """What one run more is started for: the approval that permits it, where that counts as a preparation."""
    name = approval.approval_id if approval is not None else ""
    newest = state.preparations.get(state.preparation)
    counts = shown is not None and newest is not None and newest.run_id is not None  # as it will once it is recorded
    return name if counts or name in state.preparations else ""
