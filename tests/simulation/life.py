"""One simulated life: a plan is drawn, approved and carried out by the real app and engine, in trouble, to its end.

`live(seed)` does all of it and raises `Failed`, which names the seed and tells the whole life, where a promise was
broken.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from tests.history import replay
from tests.reference import check_history, standing
from tests.scenario import KIM, OpenSandbox, check_evidence, twin_ports
from tests.simulation.fate import (
    AGENTS,
    ANSWERS,
    DAY,
    HEIRS,
    JUMPS_MS,
    LOCK,
    PAUSES_MS,
    PEOPLE,
    RERUNS,
    STRANGER,
    TROUBLES,
    Person,
    Trouble,
    draw_plan,
    files_for,
    with_checks,
)
from tests.simulation.world import (
    Crash,
    Executor,
    SimulatedLedger,
    SimulatedProtection,
    SimulatedShell,
    SimulatedToolbox,
    Stuck,
    VirtualLoop,
    World,
)
from tests.twins.execution import CountingIds, ScriptedAgents
from tests.twins.ledger import MemoryLedger
from tests.twins.workspace import MemoryWriterLock
from tests.words import (
    AGENT_CANNOT,
    Agent,
    App,
    Append,
    AttemptEnded,
    AttemptWaiting,
    ConditionFalse,
    Engine,
    FallbackEnded,
    Given,
    Holder,
    Instant,
    LockReleased,
    LockTaken,
    Plan,
    PlanId,
    PreconditionBroken,
    ProposalCopies,
    Records,
    Refused,
    RunCommand,
    RunEvent,
    RunFinished,
    RunReport,
    RunState,
    Step,
    StepApprovalAsked,
    StepId,
    StepUnfolded,
    ToolResult,
    WallClock,
    all_steps,
    canonical_bytes,
    plan_id,
    stream_of,
)

ENDED = ("completed", "failed", "cancelled")
FLOW = (ConditionFalse, FallbackEnded, PreconditionBroken, StepApprovalAsked)
"""What can only happen in plans that say more than steps and needs."""
EXECUTORS_MAX = 60
"""More than this no life needs; whoever needs more never ends."""

Work = Callable[[App], Coroutine[Any, Any, Any]]


class OutsideLock(MemoryWriterLock):
    """The locks as another process sees them while an executor of ours is at work."""

    def __init__(self, at_work: Callable[[], bool]) -> None:
        super().__init__()
        self._at_work = at_work

    def holder(self, what: str) -> Holder | None:
        return Holder(name=what, pid=1) if self._at_work() else None


class SimulatedAgents(ScriptedAgents):
    """Those of every life: a command that the world carries out, and a person."""

    def registered(self) -> Mapping[str, Agent]:
        return AGENTS


class Failed(AssertionError):
    """A life in which a promise was broken."""


@dataclass
class Frozen:
    """An executor that stands still."""

    executor: Executor
    loop: VirtualLoop
    task: asyncio.Task[Any]


@dataclass
class Life:
    """One life and what was counted in it."""

    seed: int
    counted: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        plan = draw_plan(self.random, tasks=self.seed % 4 == 3)
        checked = self.seed % 7 == 2
        """Whether steps have checks that are asked in doubt; most of these lives are at a tier that holds them."""
        if checked:
            plan = with_checks(self.random, plan, tier=self.random.choice([1, 1, 1, None]))
        self.world = World(plan, self.random)
        self.ledger = SimulatedLedger(self.world)
        self.toolbox = SimulatedToolbox(self.world, checked=checked)
        for step in all_steps(self.plan):
            self.toolbox.files |= files_for(step.id)
            self.toolbox.answers[f"POST http://example.org/{step.id}"] = ToolResult(value="sent")
        self.ids = CountingIds()
        self.troubles = self.random.choice([0, 1, 1, 2, 2, 3, 4])
        """How many executors get into trouble; without a bound a life could go on for ever."""
        self.troubles += 2 * checked
        self.patience = 6
        """How often people have a step tried again."""
        self.again = False
        """Whether it was done again already."""
        self.gone_on = False
        """Whether another plan was proposed to go on with it."""
        self.outsiders: list[asyncio.Task[Any]] = []
        self.frozen: Frozen | None = None
        self.live_state: RunState | None = None
        self.plan_id: PlanId | None = None

    @property
    def plan(self) -> Plan:
        """The plan of the newest run."""
        return self.world.plan

    # --- A whole life ----------------------------------------------------------------------------------------------

    def live(self) -> Counter[str]:
        world = self.world
        with (
            patch("ordain.adapters.workspace.clock._wall_ms", world.wall_ms),
            patch("ordain.adapters.workspace.clock.passed_ms", world.since_boot_ms),
            patch.object(Engine, "carry_out", self._watching()),
            patch.object(ProposalCopies, "write"),  # for people to read; a third of the time of a life
        ):
            self._prepare()
            for _ in range(EXECUTORS_MAX):
                report = self._report()
                if report is None:
                    self._carry_out(lambda app: app.runs.commit(str(self.plan_id), KIM))
                elif self._go_on_by_another_plan(report) or (report.status in ENDED and self._rerun(report)):
                    pass
                elif report.status in ENDED:
                    break
                else:
                    self._someone_goes_on(report)
                self._check()
            else:
                raise AssertionError("it never ended")
            self._check_end(report)
        self.counted["events"] += len(self.history())
        return self.counted

    def _prepare(self) -> None:
        prepared = self._run(lambda app: app.plans.prepare_plan(self.plan, KIM))
        self.plan_id = prepared.review.plan_id
        self._run(lambda app: app.approvals.approve(str(self.plan_id), KIM))

    def _rerun(self, report: RunReport) -> bool:
        """Do an ended run again, once and seldom; whether it was begun."""
        again_from = self._draw(RERUNS)
        if self.world.heir is not None:
            return False
        if self.again or again_from is None or again_from not in ("", *(step.id for step in self.plan.steps)):
            return False
        self.again = True
        self._check_end(report)
        try:
            self._run(lambda app: app.approvals.approve(str(self.plan_id), KIM))
        except Refused as refused:  # too many days have passed
            self.counted[f"rerun: {refused.problems[0].code}"] += 1
            return False
        self.counted["rerun"] += 1
        self._carry_out(lambda app: app.runs.rerun(report.run_id, KIM, again_from=again_from or None))
        return True

    def _go_on_by_another_plan(self, report: RunReport) -> bool:
        """Propose, approve and start a successor, once and seldom; whether that was tried. It may be killed anywhere:
        then the run stands as it did, or the successor has begun."""
        if not self.gone_on:
            change = self._draw(HEIRS)
            if change is None or report.status not in (*ENDED, "waiting", "stopped", "paused"):
                return False
            if self.frozen is not None:
                self._thaw()
                return True  # it may have gone on to its end, so what was seen of the run may be so no more
            self.gone_on = True
            heir = _heir(self.plan, change, self.random)
            try:
                prepared = self._run(lambda app: app.plans.succeed(report.run_id, KIM, canonical_bytes(heir)))
            except Refused as refused:
                self.counted[f"successor: {refused.problems[0].code}"] += 1
                return False
            self.world.heir = prepared.review.plan
        if self.world.heir is None or self.random.random() < 0.3:
            return False
        identity, shadow = str(plan_id(self.world.heir)), self.world.shadow
        assert shadow is not None
        self.world.tell("--- somebody has another plan go on with it")
        try:
            self._run(lambda app: app.approvals.approve(identity, KIM))
            self._run(lambda app: app.runs.check_startable(identity, KIM))
        except Refused as refused:
            code = refused.problems[0].code
            self.counted[f"successor: {code}"] += 1
            assert code in ("E_SUCCESSOR_DOUBT", "E_PLAN_EXPIRED", "E_PLAN_STALE_BASE"), code
            if code == "E_PLAN_EXPIRED":  # then the plan that it would have replaced is the newest again
                self.world.heir = None
            return False
        self.counted["successor"] += 1
        self._carry_out(lambda app: app.runs.commit(identity, KIM))
        if self.world.heir is None:  # it has begun, so what it goes on with has ended, and only that way
            former = Records(self.ledger).run(shadow.run_id)[0]
            assert former.finished and self.world.shadow is not None
            assert self.world.shadow.continues == shadow.run_id
            self.counted["replaced"] += former.status == "replaced"
        return True

    def _someone_goes_on(self, report: RunReport) -> None:
        """What happens to a run that nobody is carrying out."""
        does = self._draw(PEOPLE)
        pause = self.random.choice(PAUSES_MS)
        self.world.tell(f"{report.status}; {pause / 1000:.0f} s pass")
        self.world.executor = Executor(dead=True)
        self.world.pass_time(pause)
        if self.random.random() < 0.2:
            self.world.set_clock(self.random.choice(JUMPS_MS))
        asked = bool(report.questions)
        if does in (Person.CANCELS, Person.GIVES_UP):
            status = "cancelled" if does is Person.CANCELS else "failed"
            self._verb(lambda app: app.runs.cancel_run(report.run_id, KIM, status=status))
            return
        if does is Person.PAUSES:
            self._verb(lambda app: app.runs.pause(report.run_id, KIM))
        if asked and (does is Person.ANSWERS or self.troubles == 0):
            self._answer(report)
        if report.status != "waiting" or not asked or does is Person.WAITS or self.random.random() < 0.7:
            self._carry_out(lambda app: app.runs.resume(None))

    def _answer(self, report: RunReport) -> None:
        """Answer one question truthfully, as far as anybody can see."""
        assert self.world.shadow is not None
        question = self.random.choice(report.questions)
        attempt = self.world.shadow.steps[question.step].attempts
        untrue = "did-not" if self.world.happened(question.step, attempt) else "happened"
        words = {
            choice.word: ANSWERS[choice.word]
            for choice in question.choices
            if choice.word in ANSWERS and choice.word != untrue
        }
        if self.patience == 0 and "retry" in words:
            del words["retry"]
        word = self._draw(words)
        self.patience -= word == "retry"
        self.counted[f"answered {word}"] += 1
        if word == "done" and self.random.random() < 0.8:  # others only say so
            self.world.effects[question.step, attempt] = 1
        given = Given(word=word, said="It is as it is." if word == "cannot" else "")
        self._verb(lambda app: app.answers.answer(question.item, given, KIM))

    def _draw(self, weights: dict[Any, int]) -> Any:
        return self.random.choices(list(weights), list(weights.values()))[0]

    # --- One process of ours ---------------------------------------------------------------------------------------

    def new_app(self, lock: MemoryWriterLock | None = None) -> App:
        ports = twin_ports(
            self.ledger,
            workspace=self.world.workspace,
            protection=SimulatedProtection(self.world),
            shell=SimulatedShell(self.world),
            toolbox=self.toolbox,
            agents=SimulatedAgents(),
            clock=WallClock("boot"),
            ids=self.ids,
            lock=lock or MemoryWriterLock(),
            sandbox=OpenSandbox(SimulatedShell(self.world)) if self.plan.tier else None,
        )
        return App(ports)

    def _carry_out(self, work: Work) -> None:
        """An executor, perhaps with a trouble of its own."""
        trouble = self._draw(TROUBLES) if self.troubles else Trouble.NONE
        if trouble is Trouble.FROZEN and (self.frozen is not None or self.world.shadow is None):
            trouble = Trouble.KILLED_AT_BOUNDARY
        self.troubles -= trouble is not Trouble.NONE
        self.counted[f"trouble: {trouble}"] += 1
        self.world.tell(f"--- an executor; trouble: {trouble}")
        executor, random = Executor(), self.random
        at_s = random.choice([0.01, 1, 10, 100]) * random.random()
        after: dict[Trouble, Callable[[App], object]] = {
            Trouble.KILLED_IN_TIME: lambda app: self.world.die(),
            Trouble.STOPPED: lambda app: app.runs.stop(),
            Trouble.CLOCK: lambda app: self.world.set_clock(random.choice(JUMPS_MS)),
            Trouble.PAUSED: lambda app: self._outside(lambda other: other.runs.pause(None, KIM)),
            Trouble.CANCELLED: lambda app: self._outside(self._cancel),
        }
        if trouble is Trouble.KILLED_AT_BOUNDARY:
            executor.dies_at = random.randint(1, random.choice([6, 20, 60]))
        elif trouble is Trouble.DISK:
            executor.fails_at = random.randint(1, 12)
        elif trouble is Trouble.FROZEN:
            executor.freezes_at = random.randint(2, 8)
        self._go(work, executor, (at_s, after[trouble]) if trouble in after else None)

    async def _cancel(self, app: App) -> None:
        for stream in self.ledger.streams("run/")[-1:]:
            await app.runs.cancel_run(stream.removeprefix("run/"), KIM)

    def _outside(self, work: Work) -> None:
        """Do this in another process while the executor is at work; it may come too late or be told to try again."""

        async def outside() -> None:
            self.world.tell("somebody else comes")
            try:
                await work(app)
            except Refused as refused:
                codes = {problem.code for problem in refused.problems}
                self.counted[f"outside: {sorted(codes)}"] += 1
                late = {"E_RUN_ENDED", "E_RUN_NOT_FOUND", "E_RUN_BUSY", "E_LEDGER_BUSY", "E_LEDGER_IO"}
                assert codes & late, codes

        assert self.world.loop is not None
        loop, app = self.world.loop, self.new_app(OutsideLock(lambda: self.executing))
        self.outsiders.append(loop.create_task(outside()))

    def _verb(self, work: Work) -> None:
        """A verb that a person uses, which may be killed too."""
        executor = Executor()
        if self.troubles and self.random.random() < 0.15:
            self.troubles -= 1
            self.counted["trouble: a verb is killed"] += 1
            executor.dies_at = self.random.randint(1, 4)
        self._go(work, executor, None)

    def _go(self, work: Work, executor: Executor, after: tuple[float, Callable[[App], object]] | None) -> None:
        try:
            self._run(work, executor, after)
        except Crash:
            self.counted["deaths"] += 1
        except Refused as refused:
            codes = [problem.code for problem in refused.problems]
            self.world.tell(f"refused: {codes}")
            known = {"E_LEDGER_IO", "E_LEDGER_CONFLICT", "E_FENCED"}
            assert known & set(codes), f"refused with {codes}"

    def _run(
        self, work: Work, executor: Executor | None = None, after: tuple[float, Callable[[App], object]] | None = None
    ) -> Any:
        """Do this in a process of its own, to its end or death."""
        world, self.live_state = self.world, None
        world.executor = executor = executor or Executor()
        world.loop = loop = VirtualLoop(world)
        app = self.new_app()
        task = loop.create_task(work(app))
        task.add_done_callback(lambda _: self._done(loop))
        self.executing, self.outsiders = True, []
        if after is not None:
            loop.call_later(after[0], after[1], app)
        if self.frozen is not None:
            loop.call_later(self.random.random() * 20, self._interrupt, loop)
        for _ in range(self.random.choice([0, 1, 2, 3])):
            loop.call_later(self.random.choice([0, 1, 20]) * self.random.random(), self._stranger_turns)
        while True:
            loop.run_forever()
            if task.done() or executor.dead:
                break
            if executor.frozen:
                self.counted["frozen"] += 1
                self.frozen = Frozen(executor, loop, task)
                return None
            self._thaw()
            world.executor, world.loop = executor, loop
        return self._over(loop, task, executor)

    def _stranger_turns(self) -> None:
        """Another run gives the lock back, or takes it if it is free."""
        lock = Records(self.ledger).lock(LOCK)
        event: LockTaken | LockReleased = LockTaken(lock=LOCK, run_id=STRANGER, step=StepId("s"))
        if lock.holder == STRANGER:
            event = LockReleased(lock=LOCK, run_id=STRANGER, reason="it is done")
        elif lock.holder is not None:
            return
        self.world.tell(f"the stranger: {type(event).__name__}")
        append = Append(stream=stream_of(LOCK), expected=lock.size, events=(event,))
        # Not by way of this executor's disk, and so at once.
        with suppress(StopIteration):
            MemoryLedger.append(self.ledger, Instant(self.world.wall_ms()), append).send(None)

    def _done(self, loop: VirtualLoop) -> None:
        self.executing = False
        loop.stop()

    def _interrupt(self, loop: VirtualLoop) -> None:
        """Let the one that is frozen go on now, while this one is at work; but not before it was taken over from."""
        if self.frozen is None or self.world.shadow is None:
            return
        if self.world.shadow.epoch > self.frozen.executor.epoch:
            loop.stop()

    def _thaw(self) -> None:
        """Let the one that is frozen go on to its end: it may write no more."""
        if self.frozen is None:
            return
        frozen, self.frozen = self.frozen, None
        self.world.tell("--- the frozen one goes on")
        self.world.executor, self.world.loop = frozen.executor, frozen.loop
        frozen.executor.frozen = False
        frozen.loop.be_patient()
        assert self.world.shadow is not None
        fenced = self.world.shadow.epoch > frozen.executor.epoch
        size = self.world.shadow.size
        while not frozen.task.done():
            frozen.loop.run_forever()
        try:
            self._over(frozen.loop, frozen.task, frozen.executor)
        except Refused as refused:
            codes = [problem.code for problem in refused.problems]
            self.world.tell(f"refused: {codes}")
            self.counted[f"thawed: {codes[0]}"] += 1
            assert not fenced or codes[0] == "E_FENCED", "a conflict would be an invitation to try again"
        else:
            assert not fenced, "one that was taken over from went on"
        assert not fenced or size == self.world.shadow.size, "one that was taken over from wrote something"

    def _watching(self) -> Callable[[Engine, int, str], Coroutine[Any, Any, RunState]]:
        """The engine's loop, with what it believes at its end remembered."""
        carry_out = Engine.carry_out

        async def watched(engine: Engine, pid: int, boot_id: str) -> RunState:
            self.live_state = await carry_out(engine, pid, boot_id)
            return self.live_state

        return watched

    def _over(self, loop: VirtualLoop, task: asyncio.Task[Any], executor: Executor) -> Any:
        """What came of a process; a dead one is unwound, and nothing of that reaches the world."""
        while not executor.dead and (waiting := [one for one in self.outsiders if not one.done()]):
            waiting[0].add_done_callback(lambda _: loop.stop())
            loop.run_forever()
        for outsider in self.outsiders:
            if outsider.done():
                outsider.result()
        left = asyncio.all_tasks(loop)
        assert executor.dead or not left, f"it returned, and left {left} behind"
        for one in left:
            one.cancel()
        while rest := asyncio.all_tasks(loop):
            rest.pop().add_done_callback(lambda _: loop.stop())
            loop.run_forever()
        loop.close()
        if executor.dead:
            raise Crash
        assert not [one for one in self.world.processes if one.executor is executor], "it left processes behind"
        return task.result()

    def abandon(self) -> None:
        """Let go of what a life that failed has left, so that it is no trouble to others."""
        self.world.executor.dead = True
        for loop in (self.world.loop, self.frozen.loop if self.frozen is not None else None):
            if isinstance(loop, VirtualLoop) and not loop.is_closed():
                for one in asyncio.all_tasks(loop):
                    one.cancel()
                with suppress(Stuck):
                    loop.call_soon(loop.stop)
                    loop.run_forever()
                loop.close()

    # --- What must be true -----------------------------------------------------------------------------------------

    def history(self) -> list[tuple[Instant, RunEvent]]:
        streams = self.ledger.streams("run/")
        return [(one.at, one.event) for one in self.ledger.read(streams[-1])] if streams else []  # type: ignore[misc]

    def _report(self) -> RunReport | None:
        records = Records(self.ledger)
        run_id = next(reversed(records.lineage(records.find_plan(str(self.plan_id))).runs), None)
        return self.new_app().runs.run(run_id) if run_id is not None else None

    def _check(self) -> None:
        """After every process, dead or not."""
        assert not self.world.broken, self.world.broken[0]
        history = self.history()
        if self.world.shadow is not None:
            assert replay(self.plan, history) == self.world.shadow, "what is read is not what was written"
        if self.live_state is not None:
            written = replay(self.plan, history[: self.live_state.size])  # others may have written since
            assert self.live_state == written, "what the engine believed is not what the ledger says"
            self._check_files()

    def _check_files(self) -> None:
        found = {name: self.world.workspace.documents.get(name) for name in self.world.good}
        assert found == self.world.good, "a protected file was not put back"

    def _check_end(self, report: RunReport) -> None:
        """When it is over."""
        self._thaw()
        self._check()
        self.counted[report.status] += 1
        self.counted.update({f"check, {answer}": count for answer, count in self.world.answers.items()})
        history = self.history()
        recorded = self.ledger.read(self.ledger.streams("run/")[-1])  # reading verifies the chain
        assert [one.seq for one in recorded] == list(range(1, len(recorded) + 1))
        check_history(self.plan, history, self.toolbox.definitions())
        check_evidence(replay(self.plan, history), [event for _, event in history])
        slow = standing(self.plan, history)
        assert {one.id: one.state for one in report.steps} == {name: one.state for name, one in slow.steps.items()}
        assert [one.id for one in report.steps if one.part_of is None] == [step.id for step in self.plan.steps]
        through = all(slow.steps[step.id].satisfies for step in self.plan.steps)
        if isinstance(history[-1][1], RunFinished):  # else somebody ended it before it was seen that nothing is left
            assert (report.status == "completed") == through, "none ready is never complete"
        assert all(one.state in ("passed", "skipped", "failed", "cancelled") for one in report.steps)
        self.world.executor = Executor(dead=True)
        assert not [one for one in self.world.processes if not one.killed], "something still runs"
        before = self.world.effects.copy()
        self.world.pass_time(3 * DAY)
        assert self.world.effects == before, "something happened after the end"
        self._check_files()
        assert Records(self.ledger).lock(LOCK).holder in (None, STRANGER), "it ended and kept its lock"
        self.counted["waited for a lock"] += sum(isinstance(event, AttemptWaiting) for _, event in history)
        self.counted.update(type(event).__name__ for _, event in history if isinstance(event, FLOW))
        self.counted.update(f"unfolded: {e.kind.value}" for _, e in history if isinstance(e, StepUnfolded))
        ends = (event.outcome.error for _, event in history if isinstance(event, AttemptEnded))
        self.counted.update(error for error in ends if error == AGENT_CANNOT)
        # Of the stranger nothing is known but what it did with the lock.
        findings = [one for one in self.new_app().audits.verify().findings if STRANGER not in one.sentence]
        assert not findings, findings


def _heir(plan: Plan, change: str, random: Random) -> Plan:
    """Another plan that could go on with a run of this one."""
    steps = list(plan.steps)
    place = random.randrange(len(steps))
    if change == "with a check less" and steps[place].proof is None:
        steps[place] = replace(steps[place], verification=None)
    elif change == "with a step more":
        steps.append(Step(id=StepId("more"), description="more", action=RunCommand(command="do more"), needs=()))
    return replace(plan, title=f"{plan.title}, again", steps=tuple(steps))


def live(seed: int) -> Life:
    """The life of this seed; raises Failed where a promise was broken in it."""
    life = Life(seed)
    try:
        life.live()
    except Exception as error:
        life.abandon()
        story = "\n".join(life.world.trace)
        again = f"python -m tests.simulation {seed}"
        raise Failed(f"{type(error).__name__}: {error}\n{story}\nseed {seed}; again: {again}") from error
    return life
