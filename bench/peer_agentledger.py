"""AgentLedger on SQLite: durable calls of a tool that does nothing, within one step. Run by `.venv-bench`, not by us.

Called with a folder, a form, how many calls, how many rounds and perhaps the only way to measure. Prints one JSON line:
{way: [seconds per call, …]}, one number a round. A call is recorded as requested, judged, begun and ended. `chain` has
the calls one after the other, `wide` also all at once.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from itertools import count as numbers
from typing import Any

from agentledger import AgentContext, Runtime

WARM_CALLS = 50
LEASE_S = 3600


def main(folder: str, form: str, count: int, rounds: int, only: str = "") -> None:
    runtime = Runtime.local(folder)
    fresh = numbers()
    found: dict[str, list[float]] = {}

    @runtime.tool(name="nothing")
    def nothing(args: dict[str, Any]) -> None:
        return None

    async def one(ctx: AgentContext) -> None:
        await ctx.call_tool("nothing", {"number": next(fresh)})  # the same call a second time would be another thing

    async def in_turn(ctx: AgentContext, calls: int) -> None:
        for _ in range(calls):
            await one(ctx)

    async def at_once(ctx: AgentContext, calls: int) -> None:
        await asyncio.gather(*(one(ctx) for _ in range(calls)))

    async def agent(ctx: AgentContext, state: dict[str, Any]) -> None:
        await in_turn(ctx, WARM_CALLS)
        ways = {"one by one": in_turn} | ({"all at once": at_once} if form == "wide" else {})
        for way, work in ways.items():
            if only in ("", way):
                found[way] = []
                for _ in range(rounds):
                    start = time.perf_counter()
                    await work(ctx, count)
                    found[way].append((time.perf_counter() - start) / count)

    run_id, _ = runtime.create_run(initial_state={})
    if not asyncio.run(runtime.run_once(agent, run_id=run_id, lease_seconds=LEASE_S)):
        raise SystemExit("the run did not end well")
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])
