"""Going on with a long run that was interrupted near its end, beside reading its events."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from bench.measure import Line, Size, compare, timed
from bench.plans import reading_plan
from ordain.adapters.ledger.sqlite import SqliteLedger
from ordain.adapters.state.directory import shelf_path
from ordain.assemble.workspace import open_at_terminal
from ordain.core.approval.approval import Channel, Principal, WorkspaceIdentity
from ordain.core.plan.canonical import canonical_bytes, plan_id
from ordain.core.plan.value import Instant, RunId
from ordain.core.policy.settings import Settings, limits
from ordain.core.run.event import Event, ExecutorStarted, PlanPrepared, Recorded, RunOpened, RunStarted, WorkspaceOpened
from ordain.core.run.step_event import AttemptEnded, AttemptStarted, Outcome, StepState
from ordain.ports.ledger import Append

__all__ = ["measure"]

TARGET = 2.0
LEFT = 10
"""How many steps had not begun when the run was interrupted; one more was under way."""
_BY = Principal(name="bench", channel=Channel.TERMINAL)
_AT = Instant(1_800_000_000_000)


async def measure(size: Size) -> list[Line]:
    count, rounds = size.pick(10_000, 2_000), size.pick(5, 3)
    home, workspace = size.directory / "home", size.directory / "workspace"
    (workspace / ".ordain").mkdir(parents=True)  # else the workspace is the checkout that this lies in
    shelf = shelf_path(home, workspace)
    shelf.mkdir(parents=True, mode=0o700)
    for made in (home, home / "workspaces", shelf):
        made.chmod(0o700)
    runs = [RunId(f"RUN-{number:016}") for number in range(rounds + 1)]
    ledger = SqliteLedger.open(shelf / "ledger.db")
    await _live(ledger, workspace, count, runs)
    before = os.environ.get("ORDAIN_HOME")
    os.environ["ORDAIN_HOME"] = str(home)
    try:
        pairs = [(await _resume(workspace, run), timed(lambda run=run: ledger.read(f"run/{run}"))) for run in runs]
    finally:
        if before is None:
            del os.environ["ORDAIN_HOME"]
        else:
            os.environ["ORDAIN_HOME"] = before
        await ledger.close()
    what = f"resume of {count:,} steps, to the first"
    return [
        compare("resume", what, "reading its events", pairs[1:], target=TARGET, note=f"{2 * (count - LEFT):,} events")
    ]


async def _resume(workspace: Path, run_id: RunId) -> float:
    """Seconds from `resume` to the first step that was begun since: taken over, looked at, decided and recorded."""
    app = open_at_terminal(workspace)
    begun: list[float] = []

    def observe(recorded: Recorded) -> None:
        if isinstance(recorded.event, AttemptStarted):
            begun.append(time.perf_counter())

    try:
        start = time.perf_counter()
        report = await app.runs.resume(run_id, observe)
    finally:
        await app.close()
    if report.status != "completed" or len(begun) != LEFT + 1:
        raise RuntimeError(f"the run that was resumed ended as {report.status}, with {len(begun)} steps begun")
    return begun[0] - start


async def _live(ledger: SqliteLedger, workspace: Path, count: int, runs: list[RunId]) -> None:
    """Runs of plans whose steps only read, each interrupted in the middle of a step near its end."""
    where = _identity(workspace)
    await ledger.append(_AT, Append(stream="workspace", expected=0, events=(WorkspaceOpened(workspace=where),)))
    for number, run_id in enumerate(runs):
        plan = msgspec.structs.replace(reading_plan(count), title=f"Plan {number}")
        identity, lineage = plan_id(plan), f"lineage/PLAN-{number:016}"
        prepared = PlanPrepared(
            plan_id=identity,
            plan=msgspec.Raw(canonical_bytes(plan)),
            document=None,
            document_sha256=None,
            by=_BY,
            expires_at=Instant(_AT + 60_000),
        )
        opened = RunOpened(run_id=run_id, plan_id=identity, lineage=lineage, workspace=where, limits=limits(Settings()))
        events: list[Event] = [opened, ExecutorStarted(epoch=1, pid=1, boot_id="bench")]
        for step in plan.steps[:-LEFT]:
            events.append(AttemptStarted(step=step.id, attempt=1, key="step:" + "0" * 64))
            outcome = Outcome(duration_ms=12, output_tail="[]", output_bytes=2)
            events.append(AttemptEnded(step=step.id, attempt=1, outcome=outcome, to=StepState.PASSED))
        events.pop()
        started = RunStarted(run_id=run_id, plan_id=identity, approval_id=None, by=_BY)
        await ledger.append(
            _AT,
            Append(stream=lineage, expected=0, events=(prepared, started)),
            Append(stream=f"run/{run_id}", expected=0, events=tuple(events), new_epoch=1),
        )


def _identity(workspace: Path) -> WorkspaceIdentity:
    found = workspace.stat()
    return WorkspaceIdentity(id="WS-BENCH", path=str(workspace), device=found.st_dev, inode=found.st_ino)
