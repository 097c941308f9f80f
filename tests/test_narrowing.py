"""A newer `deny` takes away from a run under way, and never gives."""

from __future__ import annotations

import asyncio
import hashlib

from tests.build import step
from tests.scenario import twin_ports
from tests.twins.ledger import MemoryLedger
from tests.words import (
    WORKSPACE_STREAM,
    Append,
    CallTool,
    Channel,
    ConfigTrusted,
    Principal,
    RunAuthority,
    Settings,
    Step,
    Surroundings,
)

KIM = Principal(name="kim", channel=Channel.TERMINAL)
COMMAND = step("a", needs=())
CALL = Step(id=COMMAND.id, description="", action=CallTool(tool="shell", args={"command": "x"}), needs=())


def here(ledger: MemoryLedger) -> Surroundings:
    return Surroundings(twin_ports(ledger))


def trust(ledger: MemoryLedger, text: str) -> None:
    event = ConfigTrusted(digest=f"sha256:{hashlib.sha256(text.encode()).hexdigest()}", text=text, by=KIM)
    size = ledger.size(WORKSPACE_STREAM)
    asyncio.run(ledger.append(1, Append(stream=WORKSPACE_STREAM, expected=size, events=(event,))))


def test_a_call_of_an_agent_is_refused_by_a_deny_that_is_newer_than_its_run() -> None:
    ledger = MemoryLedger()
    narrowing = RunAuthority(here(ledger), Settings(), {}, approved=True, judged_at=0)
    assert narrowing.unpermitted(CALL) is None
    trust(ledger, '[policy]\ndeny = ["shell"]\n')
    problem = narrowing.unpermitted(CALL)
    assert problem is not None and problem.code == "E_POLICY_DENIED"
    assert narrowing.denied(COMMAND) is not None


def test_a_newer_policy_that_denies_less_gives_nothing() -> None:
    ledger = MemoryLedger()
    narrowing = RunAuthority(here(ledger), Settings(deny=("shell",)), {}, approved=True, judged_at=0)
    trust(ledger, '[policy]\nallow = ["shell"]\n')
    assert narrowing.denied(COMMAND, True) is not None
    assert narrowing.unpermitted(CALL) is not None


def test_an_earlier_executors_judgement_is_made_again() -> None:
    ledger = MemoryLedger()
    trust(ledger, '[policy]\ndeny = ["shell"]\n')
    narrowing = RunAuthority(here(ledger), Settings(), {}, approved=True, judged_at=None)
    assert narrowing.denied(COMMAND) is not None
