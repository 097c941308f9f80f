"""The world of a simulated life: time that passes only when everybody waits, processes that outlive their executor, and
twins of the ports that die, fail and dawdle as fate has it.

Nothing here is real and nothing is random but through the one generator of the life, so a seed tells everything. What
the harness can never know for sure (did it happen?) is known here: whoever breaks a promise is noted in `broken`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from msgspec.structs import replace as replaced

from tests.simulation.fate import Fate
from tests.twins.execution import ScriptedToolbox
from tests.twins.ledger import MemoryLedger
from tests.twins.workspace import MemoryProtection, MemoryWorkspace
from tests.words import (
    BUILT_IN,
    AcquireLock,
    Append,
    Ask,
    AttemptEnded,
    AttemptStarted,
    Command,
    ContractHeld,
    CustomCondition,
    DecisionGiven,
    DoubtChecked,
    DoubtFound,
    DoubtSettled,
    EffectClass,
    Finished,
    Instant,
    Plan,
    Recorded,
    ReleaseLock,
    RunEvent,
    RunOpened,
    RunState,
    Saved,
    Settlement,
    StepId,
    StepKept,
    StepState,
    StoreData,
    Task,
    ToolResult,
    Verdict,
    all_steps,
    apply,
    check_of,
    effect_class,
    looks_first,
    plan_id,
    refuse,
)

GOOD = {"tests/a.py": b"assert a", "tests/b.py": b"assert b"}


PATIENCE_MS = 6 * 86_400_000
"""No process of ours needs longer; signs of life alone would let it go on for ever."""


class Crash(Exception):
    """The executor is dead: nothing it would do afterwards happens."""


class Stuck(Exception):
    """Everybody waits, and nothing will ever wake anybody."""


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop whose time is the world's: where a real one would wait, this one lets time pass at once."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._selector = self
        self.be_patient()
        self.set_exception_handler(lambda loop, context: None)  # a crash leaves tasks that nobody asks

    def be_patient(self) -> None:
        """Begin to count anew, when it is made and when whoever stood still goes on."""
        self._until_ms = self._world.passed_ms + PATIENCE_MS

    def time(self) -> float:
        return self._world.passed_ms / 1000

    def select(self, timeout: float | None) -> list[Any]:
        """In place of a selector's: nothing ever comes from outside, only time."""
        if timeout != 0 and self._world.executor.dead:
            raise Stuck("a dead executor waits for something")
        if timeout is None or self._world.passed_ms > self._until_ms:
            raise Stuck("everybody waits for somebody else")
        if timeout > 0:
            self._world.pass_time(timeout * 1000)
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody sleeps who would have to be woken."""


@dataclass
class Executor:
    """One process of ours: how far it has come and when it is to die."""

    dies_at: int | None = None
    """The boundary at which it is killed."""
    fails_at: int | None = None
    """The append that the disk refuses."""
    freezes_at: int | None = None
    """The append before which it is frozen."""
    boundaries: int = 0
    appends: int = 0
    dead: bool = False
    frozen: bool = False
    epoch: int = 0
    tools: int = 0
    """Calls of tools that are under way."""


@dataclass(eq=False)
class Process:
    """A command that runs, whoever started it."""

    step: StepId
    attempt: int
    mark: str
    kind: str
    """`do`, or `check` for a contract."""
    fate: Fate
    effect_ms: float
    ends_ms: float
    executor: Executor
    killed: bool = False


@dataclass
class World:
    """What outlives every crash, and the truth about it."""

    plan: Plan
    random: Random
    passed_ms: float = 1_000_000.0
    """Since the machine was started; nobody can set this."""
    ahead_ms: float = 1_800_000_000_000.0
    """How far ahead of that the wall clock is; anybody can set it."""
    executor: Executor = field(default_factory=Executor)
    loop: asyncio.AbstractEventLoop | None = None
    processes: list[Process] = field(default_factory=list)
    effects: Counter[tuple[StepId, int]] = field(default_factory=Counter)
    """How often each attempt of each step had its effect."""
    past: set[StepId] = field(default_factory=set)
    """The steps that had their effect in an earlier run."""
    said: set[StepId] = field(default_factory=set)
    """The steps of which a person said that they are done."""
    spoilers: set[tuple[StepId, int]] = field(default_factory=set)
    """The attempts that changed a protected file."""
    heir: Plan | None = None
    """The plan that is proposed to go on with the run."""
    shadow: RunState | None = None
    """What is durable, folded as it is written."""
    keys: dict[str, StepId] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    """How often each kind of check took a doubt where."""
    trace: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.workspace = MemoryWorkspace()
        self.good = GOOD | {name: b"own" for step in all_steps(self.plan) for name in step.protect}
        self.workspace.documents.update(self.good)

    def tell(self, what: str) -> None:
        self.trace.append(f"{(self.passed_ms - 1_000_000) / 1000:10.3f} s  {what}")

    def check(self, kept: bool, promise: str) -> None:
        """Note a promise that was broken; whoever is at work may not be able to let an exception through."""
        if not kept:
            self.tell(f"BROKEN: {promise}")
            self.broken.append(promise)

    # --- Time ------------------------------------------------------------------------------------------------------

    def wall_ms(self) -> int:
        return int(self.ahead_ms + self.passed_ms)

    def since_boot_ms(self) -> int:
        return int(self.passed_ms)

    def set_clock(self, by_ms: float) -> None:
        self.tell(f"the clock is set by {by_ms / 1000:+.0f} s")
        self.ahead_ms += by_ms

    def pass_time(self, ms: float) -> None:
        """Let time pass, and everything happen in it that processes do, in order."""
        until = self.passed_ms + ms
        while due := [one for one in self.processes if one.effect_ms <= until and one.fate.has_effect]:
            first = min(due, key=lambda one: one.effect_ms)
            self.passed_ms = max(self.passed_ms, first.effect_ms)
            first.effect_ms = float("inf")
            self.have_effect(first)
        # Whoever nobody waits for any more comes to an end by itself.
        self.passed_ms = until
        self.processes = [one for one in self.processes if one.ends_ms > until or not one.executor.dead]

    # --- Dying -----------------------------------------------------------------------------------------------------

    def boundary(self) -> None:
        """A moment at which the executor may die."""
        executor = self.executor
        executor.boundaries += 1
        if executor.boundaries == executor.dies_at:
            self.die()
        if executor.dead:
            raise Crash

    def die(self) -> None:
        if not self.executor.dead:
            self.tell("the executor is killed")
            self.executor.dead = True
            assert self.loop is not None
            self.loop.stop()

    # --- Effects ---------------------------------------------------------------------------------------------------

    def happened(self, step: StepId, attempt: int | None = None) -> bool:
        """Whether a step, or this attempt of it, has had its effect."""
        return (attempt is None and step in self.past) or any(
            count and name == step and attempt in (None, tried) for (name, tried), count in self.effects.items()
        )

    def is_done(self, step: StepId) -> bool:
        """Whether a step, or anything that it became or fell back on, has had its effect."""
        assert self.shadow is not None
        below = [name for name, member in self.shadow.members.items() if member.parent == step]
        return self.happened(step) or any(self.is_done(name) for name in below)

    def new_run(self) -> None:
        """Attempts are counted anew in every run; what was done is done."""
        self.past |= {name for (name, _), count in self.effects.items() if count}
        self.effects.clear()
        self.spoilers.clear()
        self.shadow = RunState(self.plan)

    def may_begin(self, step: StepId, attempt: int, kind: str) -> None:
        """Nothing may begin that is not durably intended by the executor that is in charge."""
        assert self.shadow is not None
        record, plan_step = self.shadow.steps[step], self.shadow.step(step)
        self.check(self.executor.epoch == self.shadow.epoch, f"{step} begun by an executor that was taken over from")
        others = [one.mark for one in self.processes if one.executor is not self.executor]
        self.check(not others, f"{step} begun while what somebody else began still runs: {others}")
        self.check(record.attempts == attempt, f"{step}: attempt {attempt} begun where {record.attempts} is recorded")
        if kind == "ask":
            asked = record.state is StepState.IN_DOUBT and record.settle is Settlement.CHECK
            self.check(asked, f"the check of {step} is asked, which is {record.state}")
        if kind == "check":
            wanted = record.state in (StepState.RUNNING, StepState.VERIFYING, StepState.IN_DOUBT)
            kept = record.state is StepState.PENDING and step in self.shadow.may_keep
            self.check(wanted or kept, f"the contract of {step} is run, which is {record.state}")
        if kind == "do":
            self.check(record.state is StepState.RUNNING, f"{step} begun without a durable intent")
            taken = record.lease is not None or not isinstance(plan_step.action, Task)
            self.check(taken, f"{step} begun by an agent that has not taken it")
            kept = record.protected_now or not self.shadow.protects(step)
            self.check(kept, f"{step} begun before protected files were kept")
            self.check(plan_step.proof is None or record.seen_broken, f"{step} begun without proof")
            looked = record.seen_before is not None or not looks_first(plan_step, BUILT_IN)
            self.check(looked, f"{step} begun before its contract was looked at")
        # Looks at what can be kept are not counted: `decide` knows nothing of those that are under way, so one that
        # comes first in the plan's order may be begun while later ones take all places.
        looking = sum(self.is_looked_at_again(one.step) for one in self.processes)
        mine = sum(not one.killed and one.executor is self.executor for one in self.processes)
        at_work = self.executor.tools + mine - looking
        places = self.plan.concurrency or self.shadow.limits_in_force.concurrency
        self.check(at_work < places, f"{step} begun while {at_work} others are at work, and {places} may be")

    def is_looked_at_again(self, step: StepId) -> bool:
        """Whether a step's contract is only run to see whether it need not be run again."""
        record = self.shadow.steps.get(step) if self.shadow is not None else None
        return record is not None and record.state is StepState.PENDING

    def have_effect(self, process: Process) -> None:
        if process.kind == "do":
            self.took_place(process.step, process.attempt)
        if process.fate.spoils:
            assert self.shadow is not None
            own = self.shadow.step(process.step).protect
            name = self.random.choice(sorted(GOOD) if self.plan.protect else own or ("nothing",))
            if name in self.good:
                self.tell(f"{process.step} spoils {name}")
                self.workspace.documents[name] = f"spoilt {self.passed_ms}".encode()
                if process.kind == "do":
                    self.spoilers.add((process.step, process.attempt))

    def took_place(self, step: StepId, attempt: int) -> None:
        """Take note of an effect: it may be had only by the attempt that is under way, and once."""
        assert self.shadow is not None
        record = self.shadow.steps[step]
        self.tell(f"{step} has its effect (attempt {attempt})")
        self.effects[step, attempt] += 1
        self.check(self.effects[step, attempt] == 1, f"attempt {attempt} of {step} had its effect twice")
        current = record.state is StepState.RUNNING and record.attempts == attempt
        self.check(current, f"attempt {attempt} of {step} had its effect late: it is {record.state}")

    # --- What becomes durable ----------------------------------------------------------------------------------------

    def note(self, recorded: Recorded, event: RunEvent) -> None:
        """Fold what became durable, and hold it against the truth."""
        assert self.shadow is not None
        self.tell(f"  #{recorded.seq} {type(event).__name__} {_words(event)}")
        match event:
            case AttemptStarted(step=name, key=key):
                self.keys[key] = name
            case AttemptEnded(step=name, attempt=attempt, to=StepState.PASSED):
                self.check(self._did(name, attempt), f"{name} passed, and attempt {attempt} did nothing")
                self.check((name, attempt) not in self.spoilers, f"{name} passed and spoilt a protected file")
            case ContractHeld(step=name, attempt=attempt):
                done = self._did(name, None) or self.is_done(name)
                self.check(done, f"{name} passed, and never did anything")
                self.check((name, attempt) not in self.spoilers, f"{name} passed and spoilt a protected file")
            case StepKept(step=name, word=word):
                said = bool(word) or name in self.said
                self.check(said or self._did(name, None), f"{name} was kept, and never did anything")
            case DecisionGiven(step=name, to=StepState.PASSED):
                self.said.add(name)
            case DoubtFound(step=name):
                runs = [one.mark for one in self.processes if one.step == name]
                self.check(not runs, f"{name} is found in doubt while it runs")
            case DoubtSettled(step=name, attempt=attempt, to=StepState.PASSED):
                self.check(self._did(name, attempt), f"the doubt about {name} was settled as passed, and it was not")
                self.check((name, attempt) not in self.spoilers, f"{name} passed and spoilt a protected file")
            case DoubtSettled(step=name, attempt=attempt, to=StepState.PENDING):
                again = self._class(name) in (EffectClass.READS, EffectClass.REPEATABLE)
                happened = self.happened(name, attempt)
                self.check(again or not happened, f"{name} is to be done again, though it happened")
            case DoubtChecked(step=name):
                self._note_answer(event)
            case DecisionGiven(step=name, choice="did-not"):
                happened = self.happened(name, self.shadow.steps[name].attempts)
                self.check(not happened, f"somebody was asked about {name} too early, and then it happened")
            case _:
                pass
        apply(self.shadow, event, recorded.at)

    def _note_answer(self, event: DoubtChecked) -> None:
        """An answer of a check became durable: what it settles must be true, and what is final and true be settled."""
        assert self.shadow is not None
        name, to, record = event.step, event.to, self.shadow.steps[event.step]
        self.answers[f"{'final' if event.final else 'not final'}: {to.value}"] += 1
        if to is not StepState.IN_DOUBT:
            self.check(bool(self.plan.tier), f"the doubt about {name} was settled by a check without a sandbox")
        if to in (StepState.PASSED, StepState.VERIFYING):
            self.check(self.happened(name), f"the check of {name} says that it happened, and it never did")
        if to is StepState.PENDING:
            self.check(event.final, f"{name} is to be done again, though its check is not final")
            self.check(not self.happened(name, event.attempt), f"{name} is to be done again, though it happened")
        expression = isinstance(check_of(self.shadow.step(name)), CustomCondition)
        excused = event.evidence.verdict is Verdict.INCONCLUSIVE or record.tampered or expression
        if event.final and self.plan.tier and to is StepState.IN_DOUBT:
            self.check(bool(excused), f"somebody is asked about {name}, although its check is final and knows")

    def _class(self, name: StepId) -> EffectClass:
        assert self.shadow is not None
        return effect_class(self.shadow.step(name), BUILT_IN)

    def _did(self, name: StepId, attempt: int | None) -> bool:
        assert self.shadow is not None
        if self.shadow.steps[name].gathers:
            members = self.shadow.groups[name].members
            return all(self.shadow.steps[one].satisfies for one in members)
        in_ledger = isinstance(self.shadow.step(name).action, AcquireLock | ReleaseLock | StoreData | Ask)
        return in_ledger or self._class(name) is EffectClass.READS or self.happened(name, attempt)


def _words(event: RunEvent) -> str:
    shown = ("step", "attempt", "to", "settle", "choice", "status", "epoch", "steps")
    return " ".join(str(getattr(event, name)) for name in shown if hasattr(event, name))


# --- The twins -------------------------------------------------------------------------------------------------------


class SimulatedLedger(MemoryLedger):
    """The twin with a disk that takes its time and may refuse, and an executor that may die before and after."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self._key = b"the same for every life of a seed"

    async def append(self, at: Instant, *appends: Append) -> tuple[Recorded, ...]:
        world, executor = self.world, self.world.executor
        world.boundary()
        executor.appends += 1
        if executor.appends == executor.fails_at:
            world.tell("the disk refuses")
            raise refuse("E_LEDGER_IO", "The disk refuses.")
        if executor.epoch and world.random.random() < 0.02:
            raise refuse("E_LEDGER_BUSY", "Somebody else holds the file.")
        if executor.appends == executor.freezes_at and not executor.tools:
            await self._freeze(executor)
        await asyncio.sleep(world.random.choice([0, 0, 0.001, 0.02]))
        world.boundary()
        recorded = await super().append(at, *appends)
        for append in appends:
            if append.new_epoch is not None:
                executor.epoch = append.new_epoch
        for one in recorded:
            if one.stream.startswith("run/"):
                if isinstance(one.event, RunOpened):
                    if world.heir is not None and plan_id(world.heir) == one.event.plan_id:
                        world.plan, world.heir = world.heir, None
                    world.new_run()
                world.note(one, one.event)  # type: ignore[arg-type]
        world.boundary()
        return recorded

    async def _freeze(self, executor: Executor) -> None:
        """Stand still, as under SIGSTOP, until somebody runs the loop again. What was begun already goes on first."""
        for _ in range(5):
            await asyncio.sleep(0)
        self.world.tell("the executor is frozen")
        executor.frozen = True
        assert self.world.loop is not None
        self.world.loop.stop()
        await asyncio.sleep(0)


class SimulatedShell:
    """ports.Shell whose processes belong to the world: a crash leaves them running."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def run(self, command: Command) -> Finished:
        world = self.world
        world.boundary()
        step, _, attempt = command.mark.split("/", 2)[2].rpartition("/")
        word = command.text.partition(" ")[0]
        kind = {"do": "do", "happened": "ask"}.get(word, "check")
        world.may_begin(StepId(step), int(attempt), kind)
        fate = Fate.draw(kind, world.random)
        if world.is_looked_at_again(StepId(step)):
            fate = replace(fate, spoils=False)  # nothing is protected from that yet
        took_ms = fate.duration_ms(world.random)
        if fate.fault:
            return Finished(duration_ms=0, fault="no such program")
        over_ms = min(took_ms, command.timeout_ms)
        process = Process(
            step=StepId(step),
            attempt=int(attempt),
            mark=command.mark,
            kind=kind,
            fate=fate,
            effect_ms=world.passed_ms + took_ms * world.random.random(),
            ends_ms=world.passed_ms + took_ms,
            executor=world.executor,
        )
        world.processes.append(process)
        world.tell(f"{command.text} begins, {fate.name}")
        world.boundary()
        try:
            await asyncio.sleep(over_ms / 1000)
            world.pass_time(0)  # what takes no time has its effect too
            world.boundary()
        finally:
            if not process.executor.dead and process in world.processes:
                world.processes.remove(process)
        if process.killed:
            return Finished(duration_ms=int(over_ms), signal=9)
        if took_ms > command.timeout_ms:
            return Finished(duration_ms=int(over_ms), timed_out=True)
        if fate.signal:
            return Finished(duration_ms=int(over_ms), signal=fate.signal)
        code = fate.exit_code
        if kind == "ask":
            said = command.text.partition(" ")[2]
            code = 2 if said == "unknown" else 0 if said == "truthful" and world.happened(StepId(step)) else 1
        if kind == "check" and not code:
            code = 0 if world.is_done(StepId(step)) else 1
        output = world.random.choice([b"[]", b'["a"]', b'["a", "b"]', b"a\nb\nc\n"]) if kind == "do" else b"%d" % code
        if command.text == "do it" and world.random.random() < 0.15:
            output = b"Looked.\n\nORDAIN CANNOT: it is as it is"
        return Finished(duration_ms=int(over_ms), exit_code=code, output=output, output_bytes=len(output))

    def written(self, mark: str, most: int) -> tuple[bytes, int]:
        return b"", 0

    def sweep(self, mark_prefix: str, *, again: bool = False) -> int:
        """Kill what an executor left that is gone, or only seems to be."""
        found = [one for one in self.world.processes if one.mark.startswith(mark_prefix)]
        for one in found:
            self.world.tell(f"{one.mark} is killed")
            one.killed = True
            self.world.processes.remove(one)
        return len(found)

    def environment(self, names: object) -> dict[str, str]:
        return {}

    def sealed(self, given: object) -> SimulatedShell:
        return self


class SimulatedToolbox(ScriptedToolbox):
    """The twin with calls that take time, fail and die; one that is cancelled either has not had its effect or is
    finished."""

    def __init__(self, world: World, *, checked: bool = False) -> None:
        super().__init__()
        self.world = world
        if checked:
            request = replaced(BUILT_IN["http_request"], happened="happened truthful", happened_final=True)
            self.tools = {**self.tools, request.name: request}

    async def call(self, tool: str, args: Mapping[str, Any], key: str, **around: Any) -> ToolResult:
        world = self.world
        world.boundary()
        step = world.keys.get(key)
        if step is None or world.shadow is None:
            world.check(False, f"{tool} called without a durable intent")
            return ToolResult(error="F_STEP_FAILED", detail="nobody knows why")
        attempt = world.shadow.steps[step].attempts
        world.may_begin(step, attempt, "do")
        fate = Fate.draw("call", world.random)
        world.tell(f"{step}: {tool} is called, {fate.name}")
        world.executor.tools += 1
        executor = world.executor
        try:
            await asyncio.sleep(fate.duration_ms(world.random) / 1000)
            world.boundary()
            if not fate.has_effect:
                return ToolResult(error="F_STEP_FAILED", detail="as fate would have it")
            result = await super().call(tool, args, key)
            if result.error is None and BUILT_IN[tool].effect is not EffectClass.READS:
                world.took_place(step, attempt)
            world.boundary()
            try:
                await asyncio.sleep(fate.duration_ms(world.random) / 1000)
            except asyncio.CancelledError:
                if executor.dead:
                    raise
            world.boundary()
            return result
        finally:
            executor.tools -= 1

    async def operand(self, tool: str, args: Mapping[str, Any]) -> str | None:
        self.world.boundary()
        return await super().operand(tool, args)


class SimulatedProtection(MemoryProtection):
    """The twin with a boundary wherever something is read or put back."""

    def __init__(self, world: World) -> None:
        super().__init__(world.workspace)
        self.world = world

    async def save(self, patterns: Any, known: Any) -> dict[str, Saved]:
        self.world.boundary()
        return await super().save(patterns, known)

    async def changed(self, files: Any, seal: Any) -> dict[str, str]:
        self.world.boundary()
        return await super().changed(files, seal)

    async def restore(self, files: Mapping[str, Saved]) -> None:
        for path, saved in files.items():
            self.world.boundary()
            await super().restore({path: saved})
            self.world.tell(f"{path} is put back")
        self.world.boundary()
