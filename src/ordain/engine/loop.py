"""The loop: replay → decide → perform → append. Recovery is this same loop started on a non-empty history.

The engine decides nothing. `core.schedule` says what to do; the engine writes the intent, performs it, writes what
it saw, and looks again. One turn is one durable append: the outcomes that have arrived and the intents that follow
from them share it. It knows ports, never adapters, and no observer can disturb it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, assert_never

from msgspec.structs import replace

from ordain.core.approval.approval import Approval
from ordain.core.ledger import chain
from ordain.core.lineage.ask import given_up, waiting_for
from ordain.core.lineage.decision import still_asked
from ordain.core.lineage.lineage import overtaken
from ordain.core.plan.actions.task import Task
from ordain.core.plan.actions.tool import CallTool
from ordain.core.plan.canonical import step_key
from ordain.core.plan.command import payload
from ordain.core.plan.condition import CustomCondition
from ordain.core.plan.expr import Expressions
from ordain.core.plan.model import Step, check_of, contract_of
from ordain.core.plan.refs import literal
from ordain.core.plan.role import about
from ordain.core.plan.tool import ToolDefinition
from ordain.core.plan.value import Instant, StepId
from ordain.core.run.budget import expected
from ordain.core.run.event import (
    AnswerSent,
    BudgetReached,
    ExecutorStarted,
    Recorded,
    RunCancelled,
    RunEnded,
    RunEvent,
    RunFinished,
    RunPaused,
    StopAsked,
)
from ordain.core.run.result import Missing
from ordain.core.run.run_state import RunState
from ordain.core.run.schedule import (
    Effect,
    End,
    Gather,
    GiveUp,
    Reach,
    Recheck,
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
    judged,
    looks_first,
    not_begun,
    rechecked,
    settled,
    wants_proof,
)
from ordain.core.run.spending import owner_of
from ordain.core.run.state import apply
from ordain.core.run.step_event import (
    AttemptEnded,
    AttemptStarted,
    ContractBroken,
    ContractInconclusive,
    ContractSeen,
    DecisionGiven,
    DoubtSettled,
    Evidence,
    GroupKind,
    Outcome,
    Settlement,
    StepState,
    Verdict,
)
from ordain.core.text.problem import Problem, Refused
from ordain.core.text.secret import Secret
from ordain.engine.begin import Beginnings
from ordain.engine.bound_file import BoundFiles
from ordain.engine.call import AgentCalls, Refuse
from ordain.engine.follow import attempt_mark
from ordain.engine.gather import gathered
from ordain.engine.perform.effects import Performing
from ordain.engine.perform.table import PERFORMERS, WATCHERS
from ordain.engine.reads import StepReads
from ordain.engine.result import Results
from ordain.engine.shield import Shield
from ordain.engine.task import TaskPerformer
from ordain.engine.verify import ask, verify
from ordain.engine.wait import Waits
from ordain.ports.agent import Agents, Doors, Panes
from ordain.ports.ledger import Append, Artifact, Ledger, Observer
from ordain.ports.machine import Clock
from ordain.ports.process import Shell
from ordain.ports.tool import Handlers, Lost, Sources, Toolbox
from ordain.ports.workspace import Protection, Workspace
from ordain.records.records import Records
from ordain.records.sink import Sink

Report = Callable[[Instant], RunEvent | None]
"""What a task has seen, to be made into an event against the state as it is when the report is read."""


class Engine:
    """Carries out one run. Hold the writer lock while using it."""

    def __init__(
        self,
        state: RunState,
        head: str,
        *,
        ledger: Ledger,
        shell: Shell,
        toolbox: Toolbox,
        clock: Clock,
        sink: Sink,
        workspace: Workspace,
        protection: Protection,
        expressions: Callable[[], Expressions],
        git_head: Callable[[], str | None],
        heard: int,
        counts: Callable[[DecisionGiven], bool],
        denied: Callable[[Step, bool], Problem | None],
        contract_denied: Callable[[Step], Problem | None] = lambda step: None,
        approval: Approval | None = None,
        bound: Callable[[Mapping[str, ToolDefinition]], BoundFiles | None] = lambda tools: None,
        panes: Panes | None = None,
        handlers: Handlers | None = None,
        sources: Sources | None = None,
        agents: Agents | None = None,
        doors: Doors | None = None,
        unpermitted: Callable[[Step], Problem | None] = lambda step: None,
        refuse: Refuse | None = None,
        secret: Secret = lambda name: None,
        secret_files: Sequence[str] = (),
        former: Mapping[StepId, Outcome | None] | None = None,
        observers: tuple[Observer, ...] = (),
    ) -> None:
        """`heard` is how many events of the lineage are known, so that what is asked of us after them is heeded;
        `counts` says whether an answer that somebody sent is the word of a person who may give it; `denied` what policy
        denies of a step that is about to begin, `contract_denied` of a contract, and `unpermitted` what it has against
        a call of an agent; `refuse` records what was refused to one; `approval` is what the run was started on, `bound`
        compares the files that its commands read; `secret_files` are handed to no agent; `former` is what was seen of
        the steps of the run that this one does again."""
        self._state = state
        self._head = head
        self._ledger, self._shell, self._toolbox, self._clock = ledger, shell, toolbox, clock
        self._records = Records(ledger)
        self._tools = {**toolbox.definitions(), **state.limits_in_force.handlers}
        self._sink = sink
        self._shield = Shield(state, protection, ledger)
        self._expressions, self._git_head = expressions, git_head
        self._heard, self._counts, self._former = heard, counts, former or {}
        self._contract_denied = contract_denied
        self._observers = observers
        self._stream = f"run/{state.run_id}"
        self._batch: list[RunEvent] = []
        self._keeps: list[bytes] = []
        """Exact results that are to be kept with the batch."""
        self._artifacts: list[Artifact] = []
        """The same of long ones."""
        self._fresh: dict[str, bytes | Artifact] = {}
        """Both, by the seals that the batch names them with: later steps may refer to them in this very turn."""
        self._after_flush: list[Callable[[], None]] = []
        self._under_way: dict[tuple[str, StepId], asyncio.Task[None]] = {}
        self._keys: dict[StepId, str] = {}
        self._mailbox: asyncio.Queue[Report] = asyncio.Queue()
        self._stopping = False
        self._asked: StopAsked | None = None
        """What somebody outside asked of us last."""
        self._ended = False
        self._results = Results(state, self._kept, self._artifact, self._tools)
        self._performing = Performing(
            state,
            results=self._results,
            shell=shell,
            toolbox=toolbox,
            handlers=handlers,
            sources=sources,
            secret=secret,
            tools=self._tools,
            clock=clock,
            sink=sink,
            ledger=ledger,
            key=self._keys.__getitem__,
            mark=self._mark,
            unwritten=self._artifacts,
            approval=approval,
            performers=PERFORMERS,
        )
        calling = AgentCalls(
            state,
            shell=shell,
            toolbox=toolbox,
            sources=sources,
            secret=secret,
            tools=self._tools,
            clock=clock,
            sink=sink,
            record=self._record_all,
            unpermitted=unpermitted,
            withheld=lambda path, deep: workspace.withheld(path, secret_files, deep=deep),
            refuse=refuse,
        )
        self._tasking = TaskPerformer(
            state,
            self._performing,
            results=self._results,
            reading=StepReads(workspace=workspace, records=self._records, sink=sink, secret_files=secret_files),
            agents=agents,
            doors=doors,
            calling=calling,
            shell=shell,
            clock=clock,
            sink=sink,
            tools=self._tools,
            key=self._keys.__getitem__,
            mark=self._mark,
            record=self._record_all,
        )
        self._waiting = Waits(
            state,
            ledger=ledger,
            workspace=workspace,
            watchers=WATCHERS,
            clock=clock,
            tick=self._tick,
            fold=self._fold,
            record=self._record_with,
        )
        self._beginnings = Beginnings(
            state,
            results=self._results,
            sink=sink,
            tools=self._tools,
            expressions=expressions,
            lock_holder=lambda name: self._records.lock(name).holder,
            approval=approval,
            bound=bound(self._tools),
            denied=denied,
            panes=panes,
            key=self._new_key,
        )
        self._now = clock.now()
        """The instant of this turn: everything folded and appended in it bears this time."""

    def stop(self) -> None:
        """Begin nothing more; let what is under way end and be recorded."""
        self._stopping = True
        self._mailbox.put_nowait(lambda now: None)

    def fail(self, error: Exception) -> None:
        """End what is under way without an outcome, and the loop with this error."""
        self._mailbox.put_nowait(_raising(error))

    def key_of(self, step_id: StepId) -> str:
        """The step key of the attempt under way; nothing where there is none."""
        return self._keys.get(step_id, "")

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
                effects = decide(self._state, self._now)
                if self._stopping:  # begin nothing more, but judge and end what has come to its end
                    effects = tuple(effect for effect in effects if isinstance(effect, End | Stop | Verify))
                begin = [effect for effect in effects if self._is_new(effect)]
                if any(type(effect) is Start for effect in begin) and self._heed():
                    continue  # nothing begins after somebody asked for that
                if any(type(effect) is End for effect in begin):
                    await self._let_go()
                self._intend(begin)
                await self._flush()
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
                    if self._mailbox.empty():
                        await self._pause()
                        return self._state
                await self._collect()
        finally:
            listening.cancel()
            if timer is not None:
                timer.cancel()
            await self._end_everything()

    # --- Being told by others --------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        """Heed what other processes record about this run in its plan's stream."""
        lineage = self._state.lineage
        try:
            while True:
                await self._ledger.grown(lineage, self._heard)
                self._heed()
        except Exception as error:  # a ledger that cannot be read ends the run's loop, not just this task
            self.fail(error)

    def _heed(self) -> bool:
        """Look what was recorded in the plan's stream since; whether something was asked of us."""
        lineage, before = self._state.lineage, self._asked
        if self._ledger.size(lineage) > self._heard:
            for recorded in self._ledger.read(lineage, self._heard):
                self._heard, event = recorded.seq, recorded.event
                if isinstance(event, AnswerSent) and event.run_id == self._state.run_id:
                    self._mailbox.put_nowait(self._answered(event.decision))
                if not isinstance(event, StopAsked) or event.run_id != self._state.run_id:
                    continue
                if not overtaken(event, self._asked):
                    self._asked = event
                    self.stop()
        return self._asked is not before

    def _answered(self, decision: DecisionGiven) -> Report:
        """A person's decision, if its question is still the one that is asked and their word counts; else it is nothing
        to us, and whoever sent it is told."""
        return lambda now: decision if still_asked(self._state, decision) and self._counts(decision) else None

    async def _pause(self) -> None:
        """With nothing under way: say that the run was paused, where somebody asked for it and it has not ended."""
        if self._asked is not None and not self._state.finished:
            self._now = self._clock.now()
            await self._record_now(RunPaused(by=self._asked.by, reason=self._asked.reason))

    async def _cancel(self, asked: StopAsked) -> None:
        """End what is under way and then the run, as it stands: of a step that was at work no outcome is claimed."""
        await self._end_everything()
        self._fold_reports()
        await self._shield.take_over(self._record_now)
        await self._record_now(RunCancelled(by=asked.by, reason=asked.reason, status=asked.to))

    # --- Recovery ------------------------------------------------------------------------------------------------

    async def _take_over(self, pid: int, boot_id: str) -> None:
        """Claim the run, kill what a dead executor left running, put protected files back, and face every step that was
        begun and not ended."""
        before = self._state.epoch > 0
        self._fold(ExecutorStarted(epoch=self._state.epoch + 1, pid=pid, boot_id=boot_id))
        if before:
            # Whoever was believed dead records nothing from here on, least of all that what is killed now has failed.
            await self._flush()
        self._shell.sweep(f"{self._state.workspace_identity.id}/{self._state.run_id}/", again=before)
        if any(self._state.protects(step_id) for step_id in self._state.active):
            await self._shield.take_over(self._record_now)
        for step_id in list(self._state.active):
            if self._state.steps[step_id].state is not StepState.RUNNING:
                continue  # a crash while verifying just verifies again
            found = doubt(self._state, step_id, self._tools)
            self._fold(found)
            if found.settle is Settlement.AGAIN:
                self._fold(DoubtSettled(step=step_id, attempt=found.attempt, to=StepState.PENDING, reason=found.reason))
        if before:  # answers that nobody lived to take up
            for decision in self._records.lineage(self._state.lineage).answers_sent.values():
                if (event := self._answered(decision)(self._now)) is not None:
                    self._fold(event)

    # --- One turn ------------------------------------------------------------------------------------------------

    def _is_new(self, effect: Effect) -> bool:
        match effect:
            case Start(step=step):
                return ("start", step) not in self._under_way
            case Recheck(step=step):
                return ("recheck", step) not in self._under_way
            case Verify(step=step):
                return ("verify", step) not in self._under_way
            case SettleByContract(step=step):
                return ("settle", step) not in self._under_way
            case WaitOn(step=step):
                return ("wait", step) not in self._under_way
            case Gather() | GiveUp() | Reach():
                return True
            case Stop(step=step):
                task = self._under_way.get(("start", step))
                return step in self._state.waiting or (task is not None and not task.cancelling())
            case End():
                return True
            case Wake():
                return False
            case _:
                assert_never(effect)

    def _intend(self, effects: list[Effect]) -> None:
        """Put the intents of these effects into the batch that is about to become durable."""
        for effect in effects:
            match effect:
                case Start(step=step_id) if self._state.aborting(step_id) is not None:
                    pass  # what was looked at before it in this very turn has ended the run, or what it is part of
                case Start(step=step_id):
                    begins = self._beginnings.look(step_id, self._now)
                    if begins is None:
                        continue  # others, which are at work, have reserved what it needs
                    event, keeps = begins
                    self._keeps += keeps
                    self._fold(self._judged_by_before(event) if type(event) is BudgetReached else event)
                    if type(event) is not AttemptStarted or self._state.budgeted:
                        self._look_again()  # also for when the time of a budget that has begun to run will be over
                case Reach(event=event):
                    self._fold(self._judged_by_before(event))
                    self._look_again()
                case Gather(step=step_id):
                    self._fold(self._gathered(step_id))
                    self._look_again()
                case End(status=status, reason=reason):
                    self._fold(RunFinished(status=status, reason=reason))
                case Stop(step=step_id) if step_id in self._state.waiting:
                    self._fold(ended(self._state, step_id, _stopped(0), self._now, stopped=True))  # it is not at work
                    self._look_again()
                case GiveUp(step=step_id):
                    self._fold(given_up(self._state, step_id, self._now))
                    self._look_again()
                case _:
                    pass

    def _judged_by_before(self, event: BudgetReached) -> BudgetReached:
        """A budget that is reached, with what is left to do needed in earlier runs."""
        owner = owner_of(event.step)
        assert owner is not None
        return replace(event, expected=expected(self._state, owner, self._records.outcomes()))

    def _look_again(self) -> None:
        """Have the loop take another turn, whether or not anything is under way."""
        self._mailbox.put_nowait(lambda now: None)

    def _fold(self, event: RunEvent) -> None:
        apply(self._state, event, self._now)
        self._batch.append(event)
        if isinstance(event, AttemptEnded | ContractBroken | ContractInconclusive):
            self._beginnings.ended(event.step)

    async def _flush(self) -> None:
        """Make the batch durable in one append, then tell observers and whoever waits for it."""
        if not self._batch:
            return
        events, self._batch = tuple(self._batch), []
        await self._write(events, self._state.size - len(events))

    async def _write(self, events: tuple[RunEvent, ...], expected: int, *also: Append) -> None:
        """Append these events of the run, and `also` with them or none of all; then tell of them."""
        results, self._keeps = tuple(self._keeps), []
        artifacts = tuple(self._artifacts)
        waiters, self._after_flush = self._after_flush, []
        first = isinstance(events[0], ExecutorStarted)
        epoch = self._state.epoch
        append = Append(
            stream=self._stream,
            expected=expected,
            events=events,
            epoch=None if first else epoch,
            new_epoch=epoch if first else None,
            keeps=results,
            artifacts=artifacts,
        )
        recorded = await self._append(append, *also)
        del self._artifacts[: len(artifacts)]  # not before: until now they may still need room
        self._fresh.clear()
        self._head = recorded[len(events) - 1].head
        for wake in waiters:
            wake()
        for one in recorded[: len(events)]:
            for observe in self._observers:
                with contextlib.suppress(Exception):
                    observe(one)

    async def _append(self, append: Append, *also: Append) -> tuple[Recorded, ...]:
        """Append a batch; the one that finishes the run carries the lineage's commitment to this chain's head, and what
        gives back the locks that the run still holds."""
        last = append.events[-1]
        lineage, ending = self._state.lineage, None
        if isinstance(last, RunFinished | RunCancelled):
            head = chain.head_after(self._head, append.stream, append.expected, append.events, self._now)
            ending = RunEnded(run_id=self._state.run_id, status=last.status, head=head)
            also = self._records.giving_back(self._state, last.status)
        while True:
            size = self._ledger.size(lineage) if ending is not None else 0
            said = (Append(stream=lineage, expected=size, events=(ending,)),) if ending is not None else ()
            try:
                return await self._ledger.append(self._now, append, *said, *also)
            except Refused as refused:
                code = refused.problems[0].code
                # Another process holds the file: the one error after which trying again is safe, and nothing is lost
                # by waiting.
                if code == "E_LEDGER_BUSY":
                    continue
                # Somebody prepared or approved this plan again just now: only the lineage moved on, so try again.
                if code != "E_LEDGER_CONFLICT" or not said or self._ledger.size(lineage) == size:
                    raise

    # --- Performing ----------------------------------------------------------------------------------------------

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Start(step=step):
                if self._state.steps[step].state is StepState.RUNNING:
                    self._begin(("start", step), self._attempt)
            case Recheck(step=step):
                self._begin(("recheck", step), self._recheck)
            case Verify(step=step):
                self._begin(("verify", step), self._verify)
            case SettleByContract(step=step):
                self._begin(("settle", step), self._settle)
            case WaitOn(step=step):
                self._begin(("wait", step), self._wait)
            case Stop(step=step):
                # It may have ended by itself while the intents became durable; then its report is on the way.
                for key in (("start", step), ("wait", step)):
                    if (task := self._under_way.get(key)) is not None:
                        task.cancel()
            case Gather() | GiveUp() | Reach() | Wake() | End():
                pass
            case _:
                assert_never(effect)

    def _begin(self, key: tuple[str, StepId], work: Callable[[StepId], Coroutine[Any, Any, Report]]) -> None:
        async def report() -> None:
            try:
                seen = await work(key[1])
            except Exception as error:  # a bug in an adapter: it ends the loop, not just this task
                seen = _raising(error)
            finally:
                # Before the report is read, so that the same step can begin again in that very turn.
                del self._under_way[key]
            self._mailbox.put_nowait(seen)

        def over(task: asyncio.Task[None]) -> None:
            if task.cancelled():  # perhaps before it had begun; and the loop may be waiting for nothing else
                if self._under_way.get(key) is task:
                    del self._under_way[key]
                self._mailbox.put_nowait(lambda now: None)

        self._under_way[key] = asyncio.create_task(report())
        self._under_way[key].add_done_callback(over)

    async def _attempt(self, step_id: StepId) -> Report:
        """One attempt: what must not change is kept, the contract is looked at where that is wanted first, and then the
        effect. Whatever became of it, protected files are put back before it counts as ended."""
        stopped = False
        try:
            await self._shield.look(step_id, self._record)  # what changed while nobody was at work is put back too
            try:
                await self._shield.before(step_id, self._record)
            except Refused as refused:
                outcome = Outcome(duration_ms=0, error="F_PROTECT_FAILED", detail=refused.problems[0].detail)
                return self._ended_with(step_id, outcome)
            unproved = await self._look_first(step_id)
            step, persons = self._state.step(step_id), self._state.is_persons(step_id)
            if unproved is None and persons and isinstance(step.action, Task):
                unproved = await self._tasking.hand_over(step_id)
            waits = unproved is None and (persons or about(step.action).waits == "outside")
            outcome = unproved or (Outcome(duration_ms=0) if waits else await self._effect(step_id))
            await self._shield.after(step_id, self._record)
            if waits and not self._state.steps[step_id].tampered:  # what comes now changes only the ledger
                if persons:
                    return lambda now: waiting_for(self._state, step_id)
                return self._comes_outside(step_id)
        except Lost:
            await self._shield.after(step_id, self._record)
            return lambda now: doubt(self._state, step_id, self._tools)
        except asyncio.CancelledError:
            if self._state.aborting(step_id) is None or self._ended:
                raise  # the executor itself is being ended: no outcome was seen, and none is claimed
            stopped = True
            duration = self._clock.now() - (self._state.steps[step_id].started_at or self._now)
            await self._shield.after(step_id, self._record)
            outcome = _stopped(duration)
        return self._ended_with(step_id, outcome, stopped=stopped)

    async def _effect(self, step_id: StepId) -> Outcome:
        task = isinstance(self._state.step(step_id).action, Task)
        return await (self._tasking if task else self._performing).effect(step_id)

    def _ended_with(self, step_id: StepId, outcome: Outcome, *, stopped: bool = False) -> Report:
        """The end of an attempt; its exact result is kept in the same append, however it went."""

        def report(now: Instant) -> RunEvent:
            event = ended(self._state, step_id, outcome, now, stopped=stopped)
            self._keep(step_id, event.outcome.output_seal)
            return event

        return report

    def _keep(self, step_id: StepId, seal: str) -> None:
        """Have the exact result of a step kept with the event that names its seal. Of one that was stopped nothing
        tells what it wrote."""
        exact = self._performing.exact.pop(step_id, None)
        if seal and exact is not None:
            self._fresh[seal] = exact
            if isinstance(exact, bytes):
                self._keeps.append(exact)
            else:
                self._artifacts.append(exact)

    def _gathered(self, step_id: StepId) -> RunEvent:
        """What the end of the steps that it waited for makes of a step."""
        state = self._state
        if state.groups[step_id].kind is GroupKind.FALLBACK:
            return fallback_ended(state, step_id, self._now)
        outcome = gathered(state, step_id, self._results, self._performing, self._now)
        event = ended(state, step_id, outcome, self._now, stopped=False)
        self._keep(step_id, event.outcome.output_seal)
        return event

    def _kept(self, seal: str) -> bytes | None:
        """The exact bytes of this seal, recorded or about to be."""
        fresh = self._fresh.get(seal)
        return fresh if isinstance(fresh, bytes) else self._ledger.kept(seal)

    def _artifact(self, seal: str) -> Iterator[bytes] | None:
        fresh = self._fresh.get(seal)
        return fresh.parts() if isinstance(fresh, Artifact) else self._ledger.artifact(seal)

    async def _look_first(self, step_id: StepId) -> Outcome | None:
        """Run the contract before the effect where that settles doubt later or proves that it can be broken; the
        outcome where the effect must not begin."""
        step, record = self._state.step(step_id), self._state.steps[step_id]
        proves = wants_proof(self._state, step_id)
        if not proves and not looks_first(step, self._tools):
            return None
        seen, operand = await self._contract(step_id), await self._operand(step_id)
        await self._shield.look(step_id, self._record)
        if record.tampered:  # what was seen of changed files proves nothing; `ended` says what is wrong with it
            return Outcome(duration_ms=seen.duration_ms)
        await self._record(ContractSeen(step=step_id, attempt=record.attempts, evidence=seen, operand=operand))
        return not_begun(seen, seen.duration_ms) if proves else None

    # --- What is outside of the run --------------------------------------------------------------------------------

    def _comes_outside(self, step_id: StepId) -> Report:
        """Have the loop look at what a step has come to: only what is durable may be decided from."""
        return lambda now: self._waiting.arrives(step_id)

    async def _look_outside(self) -> None:
        """Where steps have come to a lock or a signal: record what they find there, or that they wait."""
        if self._stopping:
            await self._end_waits()
        while (step_id := self._waiting.next(stopping=self._stopping)) is not None:
            await self._flush()
            await self._waiting.look(step_id)
            self._fold_reports()  # what has ended meanwhile must not be begun again

    async def _wait(self, step_id: StepId) -> Report:
        await self._waiting.stand_by(step_id, self._now)
        return self._comes_outside(step_id)

    def _tick(self) -> Instant:
        self._now = self._clock.now()
        return self._now

    async def _record_with(self, event: RunEvent, change: Append) -> None:
        """With an empty batch: record this event and a change of another stream, or neither."""
        await self._write((event,), self._state.size, change)
        apply(self._state, event, self._now)

    async def _end_waits(self) -> None:
        """Wait for nothing outside any more; whoever goes on with the run does."""
        tasks = [task for (kind, _), task in self._under_way.items() if kind == "wait"]
        if tasks:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._fold_reports()

    # --- Looking whether a step is done --------------------------------------------------------------------------

    async def _recheck(self, step_id: StepId) -> Report:
        """Look whether what a step did in the run before is still there."""
        checked = contract_of(self._state.step(step_id)) is not None
        evidence = await self._contract(step_id) if checked else None
        return lambda now: rechecked(step_id, self._former.get(step_id), evidence)

    async def _verify(self, step_id: StepId) -> Report:
        evidence = await self._checked(step_id)
        return lambda now: judged(self._state, step_id, evidence, now)

    async def _settle(self, step_id: StepId) -> Report:
        evidence, operand = await self._checked(step_id), await self._operand(step_id)
        return lambda now: settled(self._state, step_id, evidence, operand)

    async def _checked(self, step_id: StepId) -> Evidence:
        """Look whether a step is done, with protected files as they were before it and after that too: a contract may
        run what the step has made."""
        await self._shield.verifying(step_id)
        await self._shield.look(step_id, self._record)
        check = check_of(self._state.step(step_id))
        if self._state.steps[step_id].tampered:
            evidence = Evidence(verdict=Verdict.BROKEN, duration_ms=0)  # `core` says what is wrong with it
        elif isinstance(check, CustomCondition):
            variables = self._results.variables(step_id, check.expression, own_end=True)
            evidence = ask(check, variables, self._sink, self._expressions)
        else:
            evidence = await self._contract(step_id)
        await self._shield.after(step_id, self._record)
        return evidence

    async def _contract(self, step_id: StepId) -> Evidence:
        """Run a step's contract; only a step that has one gets here."""
        limits = self._state.limits_in_force
        try:
            step = self._results.step(step_id)
        except Missing as missing:
            detail = self._sink.text(f"what it refers to is not there: {missing}")
            return Evidence(verdict=Verdict.INCONCLUSIVE, duration_ms=0, detail=detail)
        denied = self._contract_denied(step)
        if denied is not None:
            return Evidence(verdict=Verdict.INCONCLUSIVE, duration_ms=0, detail=self._sink.text(denied.detail))
        return await verify(
            step,
            shell=self._shell,
            limits=limits,
            mark=self._mark(step_id),
            sink=self._sink,
            expressions=self._expressions,
            git_head=self._commit(),
        )

    def _commit(self) -> str:
        """The commit that is checked out, for the evidence; nothing where there is none or it cannot be told."""
        try:
            return self._git_head() or ""
        except Refused:
            return ""

    async def _operand(self, step_id: StepId) -> str | None:
        """What the step's tool changes, as it is now."""
        if not isinstance(self._state.step(step_id).action, CallTool):
            return None
        try:
            action = self._results.step(step_id).action
        except Missing:
            return None
        assert isinstance(action, CallTool)
        return await self._toolbox.operand(action.tool, literal(action.args))

    def _new_key(self, step_id: StepId) -> str:
        """The idempotency key of what an attempt is about to do: written with the intent, and handed to what performs
        it. Where the values come from other steps, another value is another thing to do."""
        state, seal = self._state, ""
        if self._results.refers(step_id):
            self._results.begun(step_id)
            with contextlib.suppress(Missing):  # the attempt says so
                values = payload(self._results.step(step_id).action)
                seal = self._sink.seal(json.dumps(values, sort_keys=True).encode())
        action = state.step(step_id).action
        self._keys[step_id] = step_key(state.workspace_identity.id, state.first_run, step_id, action, seal)
        return self._keys[step_id]

    def _mark(self, step_id: StepId) -> str:
        return attempt_mark(self._state, step_id)

    async def _record_now(self, event: RunEvent, keeps: tuple[bytes, ...] = ()) -> None:
        """While nothing is under way: record this event at once."""
        self._keeps += keeps
        self._fold(event)
        await self._flush()

    async def _record(self, event: RunEvent, keeps: tuple[bytes, ...] = ()) -> None:
        """From inside a task: have the loop record this event, and go on only when it is durable."""
        await self._record_all((event,), keeps)

    async def _record_all(self, events: tuple[RunEvent, ...], keeps: tuple[bytes, ...] = ()) -> None:
        """The same of several events, in one append."""
        if self._ended:
            raise asyncio.CancelledError  # nobody reads the mailbox any more
        durable = asyncio.get_running_loop().create_future()

        def report(now: Instant) -> RunEvent:
            self._after_flush.append(lambda: None if durable.done() else durable.set_result(None))
            self._keeps += keeps
            return events[-1]

        for event in events[:-1]:
            self._mailbox.put_nowait(_saying(event))
        self._mailbox.put_nowait(report)
        await durable

    async def _collect(self) -> None:
        """Wait for at least one report and fold everything that has arrived."""
        await asyncio.sleep(0)  # what ends at once does so now, and this goes on in the same turn of the event loop
        self._fold_reports(await self._mailbox.get())

    def _fold_reports(self, *reports: Report) -> None:
        """Fold these reports and all others that have arrived."""
        arrived = list(reports)
        while not self._mailbox.empty():
            arrived.append(self._mailbox.get_nowait())
        if not self._batch:  # what is in it was folded with its time, and is appended with the same
            self._now = self._clock.now()
        for report in arrived:
            event = report(self._now)
            if event is not None:
                self._fold(event)

    async def _ring(self, at: Instant) -> None:
        await self._clock.sleep_until(at)
        self._mailbox.put_nowait(lambda now: None)

    async def _let_go(self) -> None:
        """Before the run ends: whether steps could have been kept, which may still be looked at when a run aborts, is
        of no interest any more."""
        await self._end_everything()
        while not self._mailbox.empty():
            self._mailbox.get_nowait()

    async def _end_everything(self) -> None:
        self._ended = True
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._under_way.clear()  # one that was ended before it began could not see to that itself
        self._performing.close()


def _saying(event: RunEvent) -> Report:
    return lambda now: event


def _stopped(duration_ms: int) -> Outcome:
    return Outcome(duration_ms=duration_ms, error="F_STEP_STOPPED", detail="stopped, because the run aborts")


def _raising(error: Exception) -> Report:
    def report(now: Instant) -> RunEvent:
        raise error

    return report
