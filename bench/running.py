"""One run of a plan through the real engine over a real ledger file, timed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from bench.plans import chain_plan
from ordain.adapters.ledger.sqlite import SqliteLedger
from ordain.adapters.process.bash import BashShell
from ordain.adapters.state.stop_file import StopFiles
from ordain.adapters.tools.cel import Cel
from ordain.adapters.workspace.clock import RandomIds, WallClock
from ordain.adapters.workspace.directory import DirectoryWorkspace
from ordain.adapters.workspace.protected_file import ProtectedFiles
from ordain.app.authority import RunAuthority
from ordain.core.approval.approval import Channel, Principal, WorkspaceIdentity
from ordain.core.plan.canonical import canonical_bytes, plan_id
from ordain.core.plan.model import Plan
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import ToolDefinition
from ordain.core.plan.value import Instant, RunId
from ordain.core.policy.agent import Agent
from ordain.core.policy.sealing import RunEnvironment
from ordain.core.policy.settings import Settings, limits
from ordain.core.run.event import PlanPrepared, RunOpened, RunStarted
from ordain.core.run.run_state import RunState
from ordain.core.run.state import apply
from ordain.core.text.redaction import Redactor
from ordain.engine.context import OpenedRun, open_context
from ordain.engine.loop import Engine
from ordain.ports.agent import Agents
from ordain.ports.ledger import Append
from ordain.ports.process import Shell
from ordain.ports.tool import Toolbox, ToolResult
from ordain.records.sink import Sink
from ordain.records.surroundings import Surroundings

__all__ = ["CHAIN_STEP_BYTES", "PATH", "Bench", "bare_processes", "open_bench"]

PATH = "/usr/local/bin:/usr/bin:/bin"

CHAIN_STEP_BYTES = 460
"""About what the ledger stores for one step of a chain: the outcome of one and the intent of the next."""

_WARM_STEPS = 1000
_SEALED = RunEnvironment(variables={"PATH": PATH}, programs={"bash": "/bin/bash"})
"""What a run has: its variables, and where bash is, found and looked at when it was prepared."""
_SNAPSHOT: Any = SimpleNamespace(settings=Settings())
_NOTHING = ToolDefinition(name="nothing", description="Do nothing.", effect=EffectClass.READS)


class _NothingToolbox:
    """ports.Toolbox with one tool that does nothing, in memory."""

    def definitions(self) -> Mapping[str, ToolDefinition]:
        return {_NOTHING.name: _NOTHING}

    async def call(
        self,
        tool: str,
        args: Mapping[str, Any],
        key: str,
        *,
        control: Sequence[str] = (),
        secret_files: Sequence[str] = (),
    ) -> ToolResult:
        return ToolResult()

    async def operand(self, tool: str, args: Mapping[str, Any]) -> str | None:
        return None


class Bench:
    """A ledger and everything else an engine wants, for as many runs as one likes."""

    def __init__(
        self,
        ledger: SqliteLedger,
        directory: Path,
        shell: Shell | None = None,
        agents: Agents | None = None,
        known: Mapping[str, Agent] | None = None,
    ) -> None:
        self.ledger, self._known = ledger, known
        self._clock, self._ids = WallClock(), RandomIds()
        toolbox: Toolbox = _NothingToolbox()
        self._ports: Any = SimpleNamespace(  # what a run asks for, and no more
            ledger=SimpleNamespace(open=lambda: ledger, look=lambda: ledger, exists=lambda: True),
            keyring=SimpleNamespace(verify=lambda key, statement, signature: False),
            stop_switch=StopFiles(directory, "", lambda shelves, boot_id: ((), ())),
            shell=shell or BashShell(directory).sealed(_SEALED),
            toolbox=toolbox,
            clock=self._clock,
            workspace=DirectoryWorkspace(directory),
            protection=ProtectedFiles(Path("/nowhere")),
            expressions=Cel,
            agents=agents,
            doors=None,
            panes=None,
            secrets=SimpleNamespace(known=lambda patterns, files: ({}, ())),
        )

    async def run(self, plan: Plan) -> float:
        """Seconds from an opened run to its recorded end; preparing and opening it are not counted."""
        lineage, now = "lineage/" + self._ids.mint("PLAN-"), self._clock.now()
        run_id, identity = RunId(self._ids.mint("RUN-")), plan_id(plan)
        prepared = PlanPrepared(
            plan_id=identity,
            plan=msgspec.Raw(canonical_bytes(plan)),
            document=None,
            document_sha256=None,
            by=Principal(name="bench", channel=Channel.TERMINAL),
            expires_at=Instant(now + 60_000),
        )
        started = RunStarted(run_id=run_id, plan_id=identity, approval_id=None, by=prepared.by)
        opened = RunOpened(
            run_id=run_id,
            plan_id=identity,
            lineage=lineage,
            workspace=WorkspaceIdentity(id="WS-BENCH", path="/bench", device=1, inode=1),
            limits=limits(Settings(), agents=self._known),
        )
        recorded = await self.ledger.append(
            now,
            Append(stream=lineage, expected=0, events=(prepared, started)),
            Append(stream=f"run/{run_id}", expected=0, events=(opened,)),
        )
        start = time.perf_counter()
        state = apply(RunState(plan), opened, now)
        opened_run = OpenedRun(state=state, head=recorded[-1].head, heard=2)
        sink = Sink(Redactor({}), self.ledger.seal)
        authority = RunAuthority(Surroundings(self._ports), Settings(), {}, approved=False, judged_at=0)
        run = open_context(self._ports, opened_run, snapshot=_SNAPSHOT, sink=sink, authority=authority)
        engine = Engine(run)
        ended = await engine.carry_out(1, "bench")
        seconds = time.perf_counter() - start
        if ended.status != "completed":
            raise RuntimeError(f"the run of {plan.title} ended as {ended.status}")
        return seconds


@asynccontextmanager
async def open_bench(
    directory: Path,
    *,
    warm: bool = True,
    shell: Shell | None = None,
    agents: Agents | None = None,
    known: Mapping[str, Agent] | None = None,
) -> AsyncIterator[Bench]:
    """A bench over a new ledger, warmed up past the first checkpoint of its write-ahead log. `shell` runs commands,
    `agents` perform tasks as those that are `known`."""
    ledger = SqliteLedger.open(directory / "ledger.db")
    try:
        bench = Bench(ledger, directory, shell, agents, known)
        if warm:
            await bench.run(chain_plan(_WARM_STEPS))
        yield bench
    finally:
        await ledger.close()


async def bare_processes(argv: tuple[str, ...], count: int, directory: Path, prompt: bytes | None = None) -> float:
    """Seconds to start so many processes one after the other, to hand each a prompt where there is one, and to wait for
    them."""
    start = time.perf_counter()
    for _ in range(count):
        child = await asyncio.create_subprocess_exec(
            *argv,
            cwd=directory,
            env={"PATH": PATH},
            stdin=asyncio.subprocess.DEVNULL if prompt is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT if prompt is None else asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        await child.communicate(prompt)
        if child.returncode != 0:
            raise RuntimeError(f"{argv[0]} exited with {child.returncode}")
    return time.perf_counter() - start
