"""A whole life of a plan, in memory, as a sentence:

    Scenario(step("a"), step("b", contract="check b")).approve().crash_at(3).run().resume().expect(b="passed")

The world (effects done, files written) outlives a crash, as it does in life. After every run the invariants are
checked: sequence dense, chain whole, every pass has its evidence, and replaying the ledger gives the live state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.build import plan as build_plan
from tests.history import replay
from tests.patience import PATIENCE_S
from tests.twins.execution import (
    CountingIds,
    ManualClock,
    MemoryPanes,
    ScriptedAgents,
    ScriptedHandlers,
    ScriptedShell,
    ScriptedToolbox,
    ToldNotifier,
)
from tests.twins.ledger import MemoryLedger
from tests.twins.workspace import (
    MemoryCopies,
    MemoryHost,
    MemoryKeyring,
    MemoryProtection,
    MemorySecrets,
    MemorySightings,
    MemoryStepLogs,
    MemoryStopSwitch,
    MemoryWorkspace,
    MemoryWriterLock,
)
from tests.words import (
    Agent,
    App,
    Append,
    AttemptEnded,
    AttemptStarted,
    Cel,
    Channel,
    Command,
    ContractHeld,
    ContractSeen,
    Copies,
    DecisionGiven,
    DoubtChecked,
    DoubtFound,
    DoubtSettled,
    Engine,
    FileArchive,
    FilesProtected,
    Finished,
    Instant,
    Ledger,
    LedgerAccess,
    Plan,
    PlanId,
    Ports,
    Principal,
    ProtectedChanged,
    Recorded,
    Records,
    RunEnds,
    RunEvent,
    RunId,
    RunReport,
    RunState,
    Saved,
    SqliteLedger,
    Step,
    StepId,
    StepUnfolded,
    Surroundings,
    ToolDefinition,
    ToolResult,
    ToolSources,
    WorkItem,
    check_of,
)

KIM = Principal(name="kim", channel=Channel.TERMINAL)
ROBOT = Principal(name="robot", channel=Channel.ROBOT)


class Crash(Exception):
    """The executor dies here: nothing it would do afterwards happens."""


class World:
    """What outlives a crash: effects, and how many boundaries the present executor may still cross."""

    def __init__(self) -> None:
        self.effects: list[str] = []
        self.boundaries = 0
        self.dies_at: int | None = None
        self.dead = False

    def boundary(self) -> None:
        """A moment at which the executor may die."""
        self.boundaries += 1
        if self.dead or self.boundaries == self.dies_at:
            self.dead = True
            raise Crash(f"at boundary {self.boundaries}")

    def new_executor(self) -> None:
        self.boundaries, self.dies_at, self.dead = 0, None, False


class CrashingLedger(MemoryLedger):
    """The in-memory ledger with a boundary before each append and one after it is durable."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    async def append(self, at: Instant, *appends: Append) -> tuple[Recorded, ...]:
        self.world.boundary()
        recorded = await super().append(at, *appends)
        self.world.boundary()
        return recorded


class WorldShell(ScriptedShell):
    """Commands `do X` have the effect X; `check X` holds when X happened; anything else is up to the script."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    async def run(self, command: Command) -> Finished:
        self.world.boundary()
        word, _, name = command.text.partition(" ")
        if word == "do" and command.text not in self.script:
            self.calls.append(command)
            await asyncio.sleep(0)
            self.world.effects.append(name)
            finished = Finished(duration_ms=1, exit_code=0)
        elif word == "check" and command.text not in self.script:
            finished = Finished(duration_ms=1, exit_code=0 if name in self.world.effects else 1)
        else:
            finished = await super().run(command)
        self.world.boundary()
        return finished


class WorldToolbox(ScriptedToolbox):
    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    async def call(self, tool: str, args: Any, key: str, **around: Any) -> Any:
        self.world.boundary()
        result = await super().call(tool, args, key)
        if result.error is None:
            self.world.effects.append(f"{tool} {args.get('path', '.')}")
        self.world.boundary()
        return result


class WorldHandlers(ScriptedHandlers):
    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    async def call(self, handler: ToolDefinition, payload: Any, key: str) -> ToolResult:
        self.world.boundary()
        result = await super().call(handler, payload, key)
        if result.error is None:
            self.world.effects.append(handler.name)
        self.world.boundary()
        return result


class WorldAgents(ScriptedAgents):
    """Registered agents with a boundary before and after each: what one has done is `NAME does STEP`."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    async def call(self, agent: Agent, item: WorkItem) -> ToolResult:
        self.world.boundary()
        result = await super().call(agent, item)
        self.world.effects.append(f"{item.agent} does {item.step}")
        self.world.boundary()
        return result


class WorldProtection(MemoryProtection):
    """Protected files with a boundary before each is put back."""

    def __init__(self, world: World, workspace: MemoryWorkspace) -> None:
        super().__init__(workspace)
        self.world = world

    async def restore(self, files: Mapping[str, Saved]) -> None:
        for path, saved in files.items():
            self.world.boundary()
            await super().restore({path: saved})
        self.world.boundary()


class OpenSandbox:
    """ports.Sandbox that believes what a command says it may write, and runs it in a shell of the world's."""

    def __init__(self, shell: ScriptedShell) -> None:
        self._shell = shell

    def fault(self) -> str | None:
        return None

    def unseen(self, limits: Any, argv: Any, names: Any) -> str | None:
        return None

    def shell(self, limits: Any) -> ScriptedShell:
        return self._shell


def twin_ports(ledger: Ledger, workspace: MemoryWorkspace | None = None, **ports: Any) -> Ports:
    """Ports of twins over this ledger; give a port to use another one."""
    workspace = workspace or MemoryWorkspace()
    twins: dict[str, Any] = {
        "protection": MemoryProtection(workspace),
        "expressions": Cel,
        "shell": ScriptedShell(),
        "toolbox": ScriptedToolbox(),
        "handlers": ScriptedHandlers(),
        "agents": ScriptedAgents(),
        "sources": ToolSources(Path("/nowhere")),
        "clock": ManualClock(),
        "ids": CountingIds(),
        "lock": MemoryWriterLock(),
        "stop_switch": MemoryStopSwitch(),
        "keyring": MemoryKeyring(),
        "notifier": ToldNotifier(),
        "secrets": MemorySecrets(),
        "copies": MemoryCopies(workspace),
        "logs": MemoryStepLogs(),
        "archive": FileArchive(lambda: Path("/nowhere/ledger.db"), SqliteLedger.open),
        "sightings": MemorySightings(),
        "host": MemoryHost(),
        "terminal": True,
        "pid": 1,
        "boot_id": "boot",
    }
    access = LedgerAccess(lambda: ledger, exists=lambda: True, empty=MemoryLedger)
    return Ports(ledger=access, workspace=workspace, **(twins | ports))


class Scenario:
    def __init__(self, *steps: Step, plan: Plan | None = None, **fields: Any) -> None:
        self.plan = plan or build_plan(*steps, **fields)
        self.world = World()
        self.ledger = CrashingLedger(self.world)
        self.shell, self.toolbox = WorldShell(self.world), WorldToolbox(self.world)
        self.clock, self.workspace, self.lock = ManualClock(), MemoryWorkspace(), MemoryWriterLock()
        self.ids = CountingIds()
        self.handlers, self.panes = WorldHandlers(self.world), MemoryPanes()
        self.agents = WorldAgents(self.world)
        self.protection = WorldProtection(self.world, self.workspace)
        self.keyring, self.notifier, self.secrets = MemoryKeyring(), ToldNotifier(), MemorySecrets()
        self.logs = MemoryStepLogs()
        self.copies: Copies = MemoryCopies(self.workspace)
        self.sandbox: OpenSandbox | None = OpenSandbox(self.shell) if self.plan.tier else None
        self.app = self.new_app()
        self.plan_id: PlanId | None = None
        self.report: RunReport | None = None
        self.crashed = False

    def new_app(self) -> App:
        """What another process, or this one started again, would open over the same world."""
        ports = twin_ports(
            self.ledger,
            workspace=self.workspace,
            protection=self.protection,
            shell=self.shell,
            toolbox=self.toolbox,
            handlers=self.handlers,
            agents=self.agents,
            panes=self.panes,
            clock=self.clock,
            ids=self.ids,
            lock=self.lock,
            keyring=self.keyring,
            notifier=self.notifier,
            secrets=self.secrets,
            logs=self.logs,
            copies=self.copies,
            sandbox=self.sandbox,
        )
        return App(ports)

    def script(self, **commands: Any) -> Scenario:
        """What `do NAME` does instead of its effect: an exit status, a Finished or a coroutine function."""
        self.shell.script |= {f"do {name}": answer for name, answer in commands.items()}
        return self

    def prepare(self) -> Scenario:
        prepared = asyncio.run(self.app.plans.prepare_plan(self.plan, KIM))
        self.plan_id = prepared.review.plan_id
        return self

    def approve(self) -> Scenario:
        if self.plan_id is None:
            self.prepare()
        asyncio.run(self.app.approvals.approve(str(self.plan_id), KIM))
        return self

    def crash_at(self, boundary: int) -> Scenario:
        """The next executor dies at this boundary."""
        self.world.new_executor()
        self.world.dies_at = boundary
        return self

    def run(self) -> Scenario:
        assert self.plan_id is not None
        return self.execute(lambda: self.app.runs.commit(str(self.plan_id), KIM))

    def resume(self) -> Scenario:
        return self.execute(lambda: self.app.runs.resume(None))

    def answer(self, step: str, word: str) -> Scenario:
        run_id = self.run_id()
        assert run_id is not None
        asked = {question.step: question.item for question in self.app.runs.run(run_id).questions}
        asyncio.run(self.app.answers.answer(asked.get(StepId(step), f"{run_id}/{step}"), word, KIM))
        return self

    async def ask_to_stop(self, run_id: RunId | None, to: str, by: Principal = KIM, reason: str = "") -> None:
        """What somebody elsewhere records who wants a run to stop; nobody waits here until it is heeded."""
        assert run_id is not None
        ends = RunEnds(Surroundings(self.app.ports), self.app.runs.run, lambda report, lineage: None)
        await ends.ask(Records(self.ledger).run(run_id)[0], to, by, reason)

    def execute(self, work: Callable[[], Any]) -> Scenario:
        """Carry out one verb, which may die; then all that must be true of every history is."""
        self.crashed = False
        live: list[RunState] = []
        carry_out = Engine.carry_out

        async def watched(engine: Engine, pid: int, boot_id: str) -> RunState:
            live.append(await carry_out(engine, pid, boot_id))
            return live[-1]

        try:
            with patch.object(Engine, "carry_out", watched):
                self.report = asyncio.run(asyncio.wait_for(work(), PATIENCE_S))
        except Crash:
            self.crashed = True
        for state in live:
            assert state == replay(self.plan, self.history()), "what the engine believed is not what the ledger says"
        self.world.new_executor()
        self.app = self.new_app()
        self.check_invariants()
        return self

    def run_id(self) -> RunId | None:
        assert self.plan_id is not None
        state = Records(self.ledger).lineage(Records(self.ledger).find_plan(self.plan_id))
        return next(reversed(state.runs), None)

    def history(self) -> list[tuple[Instant, RunEvent]]:
        run_id = self.run_id()
        if run_id is None:
            return []
        return [(one.at, one.event) for one in self.ledger.read(f"run/{run_id}")]  # type: ignore[misc]

    def states(self) -> dict[str, str]:
        state = replay(self.plan, self.history())
        return {step_id: record.state.value for step_id, record in state.steps.items()}

    def expect(self, **states: str) -> Scenario:
        found = self.states()
        assert {name: found[name] for name in states} == states
        return self

    def status(self) -> str:
        assert self.report is not None
        return self.report.status

    def check_invariants(self) -> None:
        """What must be true of every history, whatever happened."""
        run_id = self.run_id()
        if run_id is None:
            return
        recorded = self.ledger.read(f"run/{run_id}")  # reading verifies the chain
        assert [one.seq for one in recorded] == list(range(1, len(recorded) + 1))
        history = self.history()
        state = replay(self.plan, history)  # every event fits the table
        check_evidence(state, [event for _, event in history])


def check_evidence(state: RunState, events: list[RunEvent]) -> None:
    """Every pass has a verdict, an observed result or a decision; no step in doubt begins again by itself; no attempt
    passes by evidence during which protected files changed, or whose contract was never seen broken where it had to."""
    contracts = {name for name, step in state.defined.items() if check_of(step) is not None}
    proving = {name for name, step in state.defined.items() if step.proof is not None}
    protecting: set[str] = set()
    doubtful: set[str] = set()
    tampered: set[str] = set()
    protected: set[str] = set()
    for event in events:
        match event:
            case AttemptStarted(step=name):
                tampered.discard(name)
                protected.discard(name)
                if state.protects(name):
                    protecting.add(name)
            case StepUnfolded(step=name):
                tampered.discard(name)
            case DoubtSettled(step=name, to=to) if to.value == "pending" and name not in protected:
                protecting.discard(name)  # its files are looked at before it does anything, so it has done nothing
            case FilesProtected(step=name):
                protected.add(name)
            case ProtectedChanged(steps=steps):
                assert protected.issuperset(protecting.intersection(steps))  # others only had their contract run
                tampered.update(steps)
            case ContractSeen(step=name, evidence=evidence) if evidence.verdict.value == "broken":
                proving.discard(name)
            case _:
                pass
        match event:
            case AttemptEnded(step=name, to=to) | DoubtSettled(step=name, to=to) if to.value == "passed":
                assert name not in tampered and name not in proving and (name in protected or name not in protecting)
            case ContractHeld(step=name):
                assert name not in tampered and name not in proving and (name in protected or name not in protecting)
            case _:
                pass
        match event:
            case AttemptEnded(to=to, step=name, outcome=outcome) if to.value == "passed":
                assert name not in contracts and outcome.error is None
            case ContractHeld(step=name, evidence=evidence):
                assert name in contracts and evidence.verdict.value == "held"
            case DoubtFound(step=name):
                doubtful.add(name)
            case DoubtChecked(step=name, to=to) if to.value == "in_doubt":
                pass
            case DoubtSettled(step=name) | DoubtChecked(step=name) | DecisionGiven(step=name):
                doubtful.discard(name)
            case AttemptStarted(step=name):
                assert name not in doubtful, f"{name} began again while in doubt"
            case _:
                pass


def crashes(make: Callable[[], Scenario]) -> Iterator[Scenario]:
    """The life that `make` begins, after a crash at each boundary of its run in turn, until it ends before the next."""
    for boundary in count(1):
        life = make().crash_at(boundary).run()
        if not life.crashed:
            return
        yield life
