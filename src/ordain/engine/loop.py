"""The loop: replay → decide → perform → append. Recovery is this same loop started on a non-empty history.

The engine decides nothing. `core.schedule` says what to do; the engine writes the intent, performs it, writes what
it saw, and looks again. One turn is one durable append: the outcomes that have arrived and the intents that follow
from them share it. It knows ports, never adapters, and no observer can disturb it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import assert_never

from msgspec.structs import replace

from ordain.core.lineage.ask import given_up
from ordain.core.lineage.decision import still_asked
from ordain.core.lineage.lineage import overtaken
from ordain.core.plan.value import Instant, StepId
from ordain.core.run.budget import expected
from ordain.core.run.event import (
    AnswerSent,
    BudgetReached,
    ExecutorStarted,
    RunCancelled,
    RunEvent,
    RunFinished,
    RunPaused,
    StopAsked,
)
from ordain.core.run.run_state import RunState
from ordain.core.run.schedule import (
    Effect,
    End,
    Gather,
    GiveUp,
    Reach,
    Recheck,
    SettleByCheck,
    SettleByContract,
    Start,
    Stop,
    Verify,
    WaitOn,
    Wake,
    decide,
    doubt,
    ended,
    fallback_ended,
)
from ordain.core.run.spending import owner_of
from ordain.core.run.step_event import AttemptStarted, DecisionGiven, DoubtSettled, GroupKind, Settlement, StepState
from ordain.engine.attempt import Attempts, stopped_outcome
from ordain.engine.begin import Beginnings
from ordain.engine.context import RunContext
from ordain.engine.journal import Report
from ordain.engine.perform.effects import gathered
from ordain.engine.perform.table import Waits
from ordain.engine.shield import Shield
from ordain.ports.ledger import Observer


class Engine:
    """Carries out one run. Hold the writer lock while using it."""

    def __init__(self, run: RunContext, observers: tuple[Observer, ...] = ()) -> None:
        self._run, self._state, self._journal = run, run.state, run.journal
        self._ledger, self._heard = run.journal.ledger, run.opened.heard
        self._shield = Shield(run.journal, run.ports.protection)
        self._attempts = Attempts(run, self._shield)
        self._waits = Waits(run)
        self._beginnings = Beginnings(run)
        self._journal.observers, self._journal.folded = observers, self._beginnings.folded
        self._under_way: dict[Effect, asyncio.Task[None]] = {}
        self._stopping = False
        self._asked: StopAsked | None = None

    def stop(self) -> None:
        """Begin nothing more; let what is under way end and be recorded."""
        self._stopping = True
        self._journal.look_again()

    async def carry_out(self, pid: int, boot_id: str) -> RunState:
        """Work until the run has finished, waits for a person, or was told to stop. Raises Refused when the ledger
        cannot be written or another executor has taken over; everything under way is ended first."""
        timer: asyncio.Task[None] | None = None
        listening = asyncio.create_task(self._listen())
        try:
            await self._take_over(pid, boot_id)
            while True:
                await self._look_outside()
                if self._asked is not None and self._asked.to != "paused" and not self._state.finished:
                    await self._cancel(self._asked)
                    return self._state
                effects = decide(self._state, self._journal.now)
                if self._stopping:  # begin nothing more, but judge and end what has come to its end
                    effects = tuple(effect for effect in effects if self._is_last(effect))
                begin = [effect for effect in effects if self._is_new(effect)]
                if any(type(effect) is Start for effect in begin) and self._heed():
                    continue  # nothing begins after somebody asked for that
                if any(type(effect) is End for effect in begin):
                    # Whether steps could have been kept, which may still be looked at, is of no interest any more.
                    await self._end_everything()
                    self._journal.drain()
                for effect in begin:
                    self._intend(effect)
                await self._journal.flush()
                for effect in begin:
                    self._perform(effect)
                if timer is not None:
                    timer.cancel()
                    timer = None
                wake = min((effect.at for effect in effects if isinstance(effect, Wake)), default=None)
                if wake is not None:
                    timer = asyncio.create_task(self._ring(wake))
                elif not self._under_way:
                    if not self._state.finished:  # an answer that was just sent need not wait for the next executor
                        self._heed()
                    if not self._journal.has_reports:
                        if self._asked is not None and not self._state.finished:
                            self._journal.tick()
                            await self._journal.write(RunPaused(by=self._asked.by, reason=self._asked.reason))
                        return self._state
                await self._journal.collect()
        finally:
            listening.cancel()
            if timer is not None:
                timer.cancel()
            await self._end_everything()

    # --- Being told by others --------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        try:
            while True:
                await self._ledger.grown(self._state.lineage, self._heard)
                self._heed()
        except Exception as error:  # a ledger that cannot be read ends the run's loop, not just this task
            self._journal.fail(error)

    def _heed(self) -> bool:
        """Look what was recorded in the plan's stream since; whether something was asked of us."""
        lineage, before = self._state.lineage, self._asked
        if self._ledger.size(lineage) > self._heard:
            for recorded in self._ledger.read(lineage, self._heard):
                self._heard, event = recorded.seq, recorded.event
                if isinstance(event, AnswerSent) and event.run_id == self._state.run_id:
                    self._journal.post(self._answered(event.decision))
                if not isinstance(event, StopAsked) or event.run_id != self._state.run_id:
                    continue
                if not overtaken(event, self._asked):
                    self._asked = event
                    self.stop()
        return self._asked is not before

    def _answered(self, decision: DecisionGiven) -> Report:
        """A person's decision, if its question is still the one that is asked and their word counts."""
        asked, counts = self._state, self._run.authority.counts
        return lambda now: decision if still_asked(asked, decision) and counts(decision) else None

    async def _cancel(self, asked: StopAsked) -> None:
        """End what is under way and then the run, as it stands: of a step that was at work no outcome is claimed."""
        await self._end_everything()
        self._journal.fold_reports()
        await self._shield.take_over()
        over = next((one for one in decide(self._state, self._journal.now) if isinstance(one, End)), None)
        if over is not None and over.status == "completed":  # its last step passed before it could be ended
            await self._journal.write(RunFinished(status=over.status))
            return
        await self._journal.write(RunCancelled(by=asked.by, reason=asked.reason, status=asked.to))

    # --- Recovery ------------------------------------------------------------------------------------------------

    async def _take_over(self, pid: int, boot_id: str) -> None:
        """Claim the run, end what a dead executor left running, and face every step that was begun and not ended."""
        state, journal = self._state, self._journal
        before = state.epoch > 0
        journal.fold(ExecutorStarted(epoch=state.epoch + 1, pid=pid, boot_id=boot_id))
        if before:
            # Whoever was believed dead records nothing from here on, least of all that what is killed now has failed.
            await journal.flush()
        self._run.ports.shell.sweep(f"{state.workspace_identity.id}/{state.run_id}/", again=before)
        if any(state.protects(step_id) for step_id in state.active):
            await self._shield.take_over()
        for step_id in list(state.active):
            if state.steps[step_id].state is not StepState.RUNNING:
                continue  # a crash while verifying just verifies again
            found = doubt(state, step_id, self._run.tools)
            journal.fold(found)
            if found.settle is Settlement.AGAIN:
                to = StepState.PENDING
                journal.fold(DoubtSettled(step=step_id, attempt=found.attempt, to=to, reason=found.reason))
        if before:  # answers that nobody lived to take up
            for decision in self._run.records.lineage(state.lineage).answers_sent.values():
                if (event := self._answered(decision)(journal.now)) is not None:
                    journal.fold(event)

    # --- One turn ------------------------------------------------------------------------------------------------

    def _is_last(self, effect: Effect) -> bool:
        """Whether this is done although nothing more is begun."""
        if isinstance(effect, SettleByContract):
            return self._state.steps[effect.step].checking
        return isinstance(effect, End | Stop | Verify)

    def _is_new(self, effect: Effect) -> bool:
        match effect:
            case Start() | Recheck() | Verify() | SettleByContract() | SettleByCheck() | WaitOn():
                return effect not in self._under_way
            case Gather() | GiveUp() | Reach() | End():
                return True
            case Stop(step=step):
                task = self._under_way.get(Start(step))
                return step in self._state.waiting or (task is not None and not task.cancelling())
            case Wake():
                return False
            case _:
                assert_never(effect)

    def _intend(self, effect: Effect) -> None:
        """Put the intent of an effect into the batch that is about to become durable."""
        state, now, fold = self._state, self._journal.now, self._journal.fold
        match effect:
            case Start(step=step_id):
                if state.aborting(step_id) is not None:
                    return  # what was looked at before it in this very turn has ended the run, or what it is part of
                begins = self._beginnings.look(step_id, now)
                if begins is None:
                    return  # others, which are at work, have reserved what it needs
                event, keeps = begins
                fold(self._judged_by_before(event) if type(event) is BudgetReached else event, keeps)
                if type(event) is AttemptStarted and not state.budgeted:
                    return  # else there is more to decide: also when the time of a budget will be over
            case Reach(event=event):
                fold(self._judged_by_before(event))
            case Gather(step=step_id):
                fold(self._gathered(step_id))
            case Stop(step=step_id) if step_id in state.waiting:
                fold(ended(state, step_id, stopped_outcome(0), now, stopped=True))  # it is not at work
            case GiveUp(step=step_id):
                fold(given_up(state, step_id, now))
            case End(status=status, reason=reason):
                fold(RunFinished(status=status, reason=reason))
                return
            case _:
                return
        self._journal.look_again()

    def _judged_by_before(self, event: BudgetReached) -> BudgetReached:
        """A budget that is reached, with what is left to do needed in earlier runs."""
        owner = owner_of(event.step)
        assert owner is not None
        return replace(event, expected=expected(self._state, owner, self._run.records.outcomes()))

    def _gathered(self, step_id: StepId) -> RunEvent:
        state, now = self._state, self._journal.now
        if state.groups[step_id].kind is GroupKind.FALLBACK:
            return fallback_ended(state, step_id, now)
        event = ended(state, step_id, gathered(self._run, step_id), now, stopped=False)
        self._journal.keep(step_id, event.outcome.output_seal)
        return event

    # --- Performing ----------------------------------------------------------------------------------------------

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Start(step=step):
                if self._state.steps[step].state is StepState.RUNNING:
                    self._begin(effect, self._attempts.attempt, step)
            case Recheck(step=step):
                self._begin(effect, self._attempts.recheck, step)
            case Verify(step=step):
                self._begin(effect, self._attempts.verify, step)
            case SettleByContract(step=step):
                self._begin(effect, self._attempts.settle, step)
            case SettleByCheck(step=step):
                self._begin(effect, self._attempts.ask_check, step)
            case WaitOn(step=step):
                self._begin(effect, self._waits.stand_by, step)
            case Stop(step=step):
                # It may have ended by itself while the intents became durable; then its report is on the way.
                for one in (Start(step), WaitOn(step)):
                    if (task := self._under_way.get(one)) is not None:
                        task.cancel()
            case Gather() | GiveUp() | Reach() | Wake() | End():
                pass
            case _:
                assert_never(effect)

    def _begin(self, effect: Effect, work: Callable[[StepId], Awaitable[Report | None]], step_id: StepId) -> None:
        """Perform an effect in a task and report what it returns; nothing means that the loop is to look outside."""

        async def report() -> None:
            try:
                seen = await work(step_id) or (lambda now: self._waits.arrives(step_id))
            except Exception as error:  # a bug in an adapter: it ends the loop, not just this task
                self._journal.fail(error)
            else:
                self._journal.post(seen)
            finally:
                # Before the report is read, so that the same step can begin again in that very turn.
                del self._under_way[effect]

        def over(task: asyncio.Task[None]) -> None:
            if task.cancelled():  # perhaps before it had begun; and the loop may be waiting for nothing else
                if self._under_way.get(effect) is task:
                    del self._under_way[effect]
                self._journal.look_again()

        self._under_way[effect] = asyncio.create_task(report())
        self._under_way[effect].add_done_callback(over)

    async def _look_outside(self) -> None:
        """Where steps have come to a lock or a signal: record what they find there, or that they wait."""
        if self._stopping:  # whoever resumes the run waits for it
            waits = [task for effect, task in self._under_way.items() if type(effect) is WaitOn]
            if await self._end(waits):
                self._journal.fold_reports()
        while (step_id := self._waits.next(stopping=self._stopping)) is not None:
            await self._journal.flush()
            await self._waits.look(step_id)
            self._journal.fold_reports()  # what has ended meanwhile must not be begun again

    async def _ring(self, at: Instant) -> None:
        await self._run.ports.clock.sleep_until(at)
        self._journal.look_again()

    async def _end_everything(self) -> None:
        self._journal.closed = True
        await self._end(list(self._under_way.values()))
        self._under_way.clear()  # one that was ended before it began could not see to that itself
        self._run.deadlines.close()

    async def _end(self, tasks: list[asyncio.Task[None]]) -> bool:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)
        return bool(tasks)
