"""A hundred clients at once and ten thousand calls, through the real gateway over HTTP to real servers: every call is
answered with its own result, or refused, or cancelled, and none of it is lost or somebody else's."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.gateway.asgi import notification
from tests.gateway.served import Client, fronting, gateway, token

pytestmark = pytest.mark.slow("many clients, each with a server process")

CLIENTS, CALLS, AT_ONCE = 100, 100, 4
KINDS = {"plain": 80, "news": 10, "refused": 5, "cancelled": 5}
FOREVER_MS = 600_000


def test_of_many_calls_by_many_clients_each_is_answered_its_own(tmp_path: Path) -> None:
    workspace = fronting(tmp_path)
    tokens = [token(workspace, f"c{number}") for number in range(CLIENTS)]
    with gateway(workspace.path) as port:
        found = asyncio.run(_all(port, tokens))
    told = {text: kind for one in found for text, kind in one.items()}
    assert Counter(map(len, found)) == {CALLS: CLIENTS} and len(told) == CLIENTS * CALLS
    asked = Counter(line for file in tmp_path.glob("asked.*") for line in file.read_text().splitlines())
    expected = {f"say {text}": 1 for text, kind in told.items() if kind != "refused"}
    expected |= {f"cancelled {text}": 1 for text, kind in told.items() if kind == "cancelled"}
    assert asked == expected  # each exactly once, nothing that was refused, and whoever was cancelled was told


async def _all(port: int, tokens: list[str]) -> list[Mapping[str, str]]:
    async with asyncio.TaskGroup() as group:
        lives = [group.create_task(_life(port, shown, number)) for number, shown in enumerate(tokens)]
    servers = {server for life in lives for server in life.result()[1]}
    assert len(servers) == CLIENTS  # each has its own
    return [life.result()[0] for life in lives]


async def _life(port: int, shown: str, number: int) -> tuple[Mapping[str, str], set[int]]:
    """What became of each call of one client, and which processes answered it."""
    chance = random.Random(number)
    kinds = chance.choices([*KINDS], [*KINDS.values()], k=CALLS)
    client = Client(port, shown, legacy=number % 2 == 0)
    told: dict[str, str] = {}
    servers: set[int] = set()
    await client.begin()
    calls = iter([(f"c{number}-{count}", kind, chance.randrange(20)) for count, kind in enumerate(kinds)])

    async def work() -> None:
        for text, kind, delay_ms in calls:
            server = await _call(client, text, kind, delay_ms, legacy=number % 2 == 0)
            servers.update([server] if server is not None else [])
            told[text] = kind

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())
    client.close()
    return told, servers


async def _call(client: Client, text: str, kind: str, delay_ms: int, *, legacy: bool) -> int | None:
    """One call, and that it is answered as it should be; the process that answered it."""
    arguments = {"text": text, "delay_ms": delay_ms}
    if kind == "refused":
        (refused,) = await client.ask("tools/call", name="send", arguments=arguments)
        assert refused["result"]["isError"] and "E_TOOL_GUARDED" in refused["result"]["content"][0]["text"], refused
        return None
    if kind == "cancelled":
        meta = {"progressToken": text}
        arguments |= {"delay_ms": FOREVER_MS, "news": 1}
        async with client.asking("tools/call", name="say", arguments=arguments, _meta=meta) as (asked, messages):
            assert (await anext(messages))["params"]["message"] == text  # it has begun
            if legacy:
                await client.say(notification("notifications/cancelled", requestId=asked))
                (ended,) = [one async for one in messages]
                assert (ended["id"], ended["error"]["code"]) == (asked, -32800)
        return None
    news = 3 if kind == "news" else 0
    meta = {"progressToken": text if delay_ms % 2 else 7}
    arguments |= {"news": news}
    async with client.asking("tools/call", name="say", arguments=arguments, _meta=meta) as (asked, messages):
        *before, response = [one async for one in messages]
    assert [(one["params"]["message"], one["params"]["progressToken"]) for one in before] == [
        (text, meta["progressToken"])
    ] * news
    result = response["result"]["structuredContent"]
    assert (response["id"], result["text"], result["clients"]) == (asked, text, [text.partition("-")[0]]), response
    server: int = result["pid"]
    return server
