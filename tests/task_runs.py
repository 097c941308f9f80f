"""Tasks carried out for real: a workspace, a trusted configuration with agents, and what was seen of each attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ordain import Channel, Principal
from tests.words import (
    AttemptEnded,
    ContractBroken,
    ContractHeld,
    Evidence,
    Outcome,
    RunReport,
    open_at_terminal,
    sha256,
)

__all__ = ["KIM", "Carried", "carried_out", "task", "trusting"]

KIM = Principal(name="kim", channel=Channel.TERMINAL)


class Carried(NamedTuple):
    report: RunReport
    outcomes: list[Outcome]
    """Of all attempts, in the order of their ends."""
    evidence: list[Evidence]
    """Of all contracts."""


def task(text: str = "Do it.", agent: str = "coder", **fields: Any) -> dict[str, Any]:
    check = {"strategy": {"type": "contract", "command": fields.pop("contract", "test ! -e nothing")}}
    return {"action": {"type": "task", "agent": agent, "task": text}, "verification": check, **fields}


async def trusting(workspace: Path, settings: str, **opening: Any) -> None:
    """Have a person trust a configuration."""
    (workspace / "ordain.toml").write_text(settings)
    app = open_at_terminal(workspace, exact=True, **opening)
    await app.approvals.trust(sha256(settings.encode()), KIM)
    await app.close()


def carried_out(
    workspace: Path,
    settings: str,
    *steps: dict[str, Any],
    tier: int = 0,
    agents: Mapping[str, Callable[..., Any]] | None = None,
    alone: bool = False,
) -> Carried:
    """Trust, prepare, approve and carry out. What stands in `ordain.toml` afterwards is what stood there before."""
    file = workspace / "ordain.toml"
    before = file.read_bytes() if file.exists() else None
    named = [{"id": f"s{number}", "timeout_ms": 20_000, **step} for number, step in enumerate(steps, 1)]

    async def life() -> Carried:
        await trusting(workspace, settings)
        if before is None:
            file.unlink()
        else:
            file.write_bytes(before)
        app = open_at_terminal(workspace, exact=True, agents=agents, alone=alone)
        try:
            prepared = await app.plans.prepare(
                msgspec.json.encode({"title": "T", "tier": tier, "steps": named}), None, KIM
            )
            await app.approvals.approve(prepared.review.plan_id, KIM)
            report = await app.runs.commit(prepared.review.plan_id, KIM)
            events = [one.event for one in app.plans.log(report.run_id)]
            return Carried(
                report,
                [event.outcome for event in events if isinstance(event, AttemptEnded)],
                [event.evidence for event in events if isinstance(event, ContractHeld | ContractBroken)],
            )
        finally:
            await app.close()

    return asyncio.run(life())
