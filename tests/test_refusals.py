"""What is recorded of refusals: enough of each caller to be seen, and never more than that, however many there are."""

import asyncio

from ordain.app import refusals
from tests.scenario import twin_ports
from tests.twins.ledger import MemoryLedger
from tests.words import PER_HOUR, REFUSALS_STREAM, Channel, Principal, Problem, RequestRefused, Surroundings

PROBLEMS = [Problem(code="E_CALL_ARGUMENTS", detail="There is no argument `approved`.")]


def test_however_many_clients_flood_no_more_is_recorded_of_each() -> None:
    ledger = MemoryLedger()
    recording = refusals.Refusals(Surroundings(twin_ports(ledger)), newest=100)
    callers = [Principal(name=f"mcp/{number}", channel=Channel.MCP) for number in range(4)]

    async def flood() -> None:
        for by in callers * (PER_HOUR + 2):
            await recording.record("plan_commit", "approved", by, PROBLEMS)

    asyncio.run(flood())
    assert ledger.size(REFUSALS_STREAM) == len(callers) * PER_HOUR
    says = [one.event.last for one in ledger.read(REFUSALS_STREAM) if isinstance(one.event, RequestRefused)]
    assert says == [False] * len(callers) * (PER_HOUR - 1) + [True] * len(callers)  # nobody is told there was no more
