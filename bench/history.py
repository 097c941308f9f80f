"""A workspace with a long history: what it costs to look at the plans, and to verify every event."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from bench.measure import Line, Size, compare, timed
from bench.plans import commands_plan
from ordain.adapters.ledger.sqlite import SqliteLedger
from ordain.adapters.state.directory import shelf_path
from ordain.app import audits as measuring
from ordain.core.approval.approval import Channel, Principal, WorkspaceIdentity
from ordain.core.ledger import chain
from ordain.core.ledger.audit import audit
from ordain.core.plan.canonical import canonical_bytes, plan_id
from ordain.core.plan.value import Instant, RunId
from ordain.core.policy.settings import Settings, limits
from ordain.core.run.event import (
    Event,
    ExecutorStarted,
    PlanPrepared,
    RunEnded,
    RunFinished,
    RunOpened,
    RunStarted,
    WorkspaceOpened,
)
from ordain.core.run.step_event import AttemptEnded, AttemptStarted, Outcome, StepState
from ordain.ports.ledger import Append

__all__ = ["lived", "measure"]

LOOK_TARGET = 3.0
VERIFY_TARGET = 30.0
OPEN = 20
_TOGETHER = 250
"""How many plans are written with one append."""
_BY = Principal(name="bench", channel=Channel.TERMINAL)
_AT = Instant(1_800_000_000_000)
_FOREVER = Instant(9_000_000_000_000)


async def measure(size: Size) -> list[Line]:
    count, rounds = size.pick(10_000, 1_000), size.pick(9, 5)
    home = size.directory / "home"
    long, empty = size.directory / "long", size.directory / "empty"
    ledger = await lived(home, long, count)
    events = ledger.checkpoint().size
    verifying, auditing, counting = (_looking_through(ledger, rounds, work) for work in (_verify, _audit, _count))
    await ledger.close()
    await (await lived(home, empty, 0)).close()
    lines = [_looking(command, home, long, empty, rounds, count) for command in ("list", "status")]
    what = f"every chain and the checkpoint, {events:,} events"
    lines.append(compare("history", what, "sha256 of their bytes", verifying, target=VERIFY_TARGET))
    lines.append(compare("history", "and the whole audit", "sha256 of their bytes", auditing))
    lines.append(compare("history", "all that `ordain stats` counts", "sha256 of their bytes", counting))
    return lines


async def lived(home: Path, workspace: Path, plans: int) -> SqliteLedger:
    """The ledger of a new workspace in which so many plans were made, all of them completed but the last few."""
    (workspace / ".ordain").mkdir(parents=True)  # else the workspace is the checkout that this lies in
    shelf_path(home, workspace).mkdir(parents=True, mode=0o700)
    for made in (home, home / "workspaces", shelf_path(home, workspace)):
        made.chmod(0o700)
    ledger = SqliteLedger.open(shelf_path(home, workspace) / "ledger.db")
    await ledger.append(_AT, Append(stream="workspace", expected=0, events=(_opened(workspace),)))
    await _live(ledger, workspace, plans)
    return ledger


def _looking(command: str, home: Path, long: Path, empty: Path, rounds: int, plans: int) -> Line:
    """The whole process, in the long history and in one where nothing happened yet."""
    pairs = [(_start(command, home, long), _start(command, home, empty)) for _ in range(rounds + 1)]
    note = f"{plans:,} plans, {OPEN} of them open"
    return compare("history", f"ordain {command}", "with an empty ledger", pairs[1:], target=LOOK_TARGET, note=note)


def _start(command: str, home: Path, workspace: Path) -> float:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["ORDAIN_HOME"] = str(home)
    ordain = str(Path(sys.executable).with_name("ordain"))
    said = b""

    def run() -> None:
        nonlocal said
        said = subprocess.run([ordain, command], check=True, capture_output=True, cwd=workspace, env=env).stdout

    seconds = timed(run)
    if (b"Plan " in said) != (workspace.name == "long"):
        raise RuntimeError(f"`ordain {command}` looked at another ledger: {said!r}")
    return seconds


def _looking_through(
    ledger: SqliteLedger, rounds: int, work: Callable[[SqliteLedger], None]
) -> list[tuple[float, float]]:
    """From the file to the verdict, beside the hash of all bodies in one go, which are in memory already."""
    everything = b"".join(entry.body for entry in ledger.everything())
    pairs = []
    for _ in range(rounds):
        ours = timed(lambda: work(ledger))
        pairs.append((ours, timed(lambda: hashlib.sha256(everything).digest())))
    return pairs


def _verify(ledger: SqliteLedger) -> None:
    verified = chain.verify_everything(ledger.everything())
    if not verified.whole or verified.checkpoint != ledger.checkpoint():
        raise RuntimeError("the history that was made does not verify")


def _audit(ledger: SqliteLedger) -> None:
    found = audit(ledger.everything(), verify=lambda key, signature, statement: False).findings
    if found:
        raise RuntimeError(f"the audit of the history that was made finds: {found[0]}")


def _count(ledger: SqliteLedger) -> None:
    found = measuring.measure(ledger, _AT)
    if found.plans is None or found.plans.count != ledger.plan_count():
        raise RuntimeError("not every plan of the history that was made is counted")


async def _live(ledger: SqliteLedger, workspace: Path, plans: int) -> None:
    """Plans of two commands with ten events each, all completed but the last few, which wait for a decision."""
    where = _opened(workspace).workspace
    for begin in range(0, plans, _TOGETHER):
        appends: list[Append] = []
        for number in range(begin, min(begin + _TOGETHER, plans)):
            appends += _life(number, where, opened=number >= plans - OPEN)
        await ledger.append(_AT, *appends)


def _life(number: int, where: WorkspaceIdentity, *, opened: bool) -> list[Append]:
    plan = msgspec.structs.replace(commands_plan(2, 1), title=f"Plan {number}")
    identity, run_id, lineage = plan_id(plan), RunId(f"RUN-{number:016}"), f"lineage/PLAN-{number:016}"
    prepared = PlanPrepared(
        plan_id=identity,
        plan=msgspec.Raw(canonical_bytes(plan)),
        document=f"plans/{number % 500}.plan.md",
        document_sha256="0" * 64,
        by=_BY,
        expires_at=_FOREVER,
    )
    if opened:
        return [Append(stream=lineage, expected=0, events=(prepared,))]
    stream = f"run/{run_id}"
    begun = RunOpened(run_id=run_id, plan_id=identity, lineage=lineage, workspace=where, limits=limits(Settings()))
    events: list[Event] = [begun, ExecutorStarted(epoch=1, pid=1, boot_id="bench")]
    for step in plan.steps:
        outcome = Outcome(duration_ms=12, exit_code=0, output_tail="done\n", output_bytes=5)
        events.append(AttemptStarted(step=step.id, attempt=1, key="step:" + "0" * 64))
        events.append(AttemptEnded(step=step.id, attempt=1, outcome=outcome, to=StepState.PASSED))
    events.append(RunFinished(status="completed"))
    head = chain.ORIGIN.head
    for seq, event in enumerate(events, 1):
        head = chain.extend(head, chain.encode(stream, seq, _AT, event))
    started = RunStarted(run_id=run_id, plan_id=identity, approval_id=None, by=_BY)
    ended = RunEnded(run_id=run_id, status="completed", head=head.hex())
    return [
        Append(stream=lineage, expected=0, events=(prepared, started)),
        Append(stream=stream, expected=0, events=tuple(events), new_epoch=1),
        Append(stream=lineage, expected=2, events=(ended,)),
    ]


def _opened(workspace: Path) -> WorkspaceOpened:
    found = workspace.stat()
    where = WorkspaceIdentity(id="WS-BENCH", path=str(workspace), device=found.st_dev, inode=found.st_ino)
    return WorkspaceOpened(workspace=where)
