"""The SDK's own client at the real gateway over HTTP, in both eras of the protocol: what a server behind it can do, its
clients can have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.gateway.served import Client as Raw
from tests.gateway.served import fronting, gateway, token
from tests.patience import PATIENCE_S, eventually_in_loop
from tests.words import Instant, open_workspace

pytestmark = pytest.mark.slow("gateway processes with clients of the SDK")

FOREVER_MS = 600_000

Reach = Callable[[], AbstractAsyncContextManager[Client]]


@pytest.fixture(
    params=[("legacy", "modern"), ("auto", "modern"), ("auto", "legacy")],
    ids=["asked as of 2025", "asked as of 2026", "asked as of 2026 though the server is of 2025"],
)
def reach(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reach]:
    """A gateway over a server of one era, and how a client of one era reaches it."""
    mode, era = request.param
    workspace = fronting(tmp_path, era)
    shown = token(workspace, "sdk")
    with gateway(workspace.path) as port:

        @asynccontextmanager
        async def client() -> AsyncIterator[Client]:
            headers = {"Authorization": f"Bearer {shown}"}
            async with httpx2.AsyncClient(headers=headers, timeout=30) as over:
                where = streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=over)
                async with Client(where, mode=mode) as found:
                    yield found

        yield client
    left = [file.suffix for file in tmp_path.glob("asked.*") if Path(f"/proc/{file.suffix[1:]}").exists()]
    assert left == []  # what was started for clients ends with the gateway


def asked(tmp_path: Path) -> list[str]:
    return [line for file in tmp_path.glob("asked.*") for line in file.read_text().splitlines()]


def test_tools_are_listed_called_refused_told_of_and_cancelled(reach: Reach, tmp_path: Path):
    news: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        news.append((progress, total, message))

    async def life() -> None:
        async with reach() as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert {"say", "send", "plan_propose"} <= names
            said = await client.call_tool("say", {"text": "a-1"})
            assert said.content[0].text == "a-1" and not said.is_error
            told: dict[str, Any] = {"text": "a-2", "news": 2, "delay_ms": 20}
            said = await client.call_tool("say", told, progress_callback=note)
            assert said.structured_content["text"] == "a-2" and news == [(1, 2, "a-2"), (2, 2, "a-2")]
            refused = await client.call_tool("send", {"text": "a-3"})
            assert refused.is_error and "E_TOOL_GUARDED" in refused.content[0].text
            begun = asyncio.Event()

            async def begin(progress: float, total: float | None, message: str | None) -> None:
                begun.set()

            forever: dict[str, Any] = {"text": "a-4", "news": 1, "delay_ms": FOREVER_MS}
            waiting = asyncio.create_task(client.call_tool("say", forever, progress_callback=begin))
            await asyncio.wait_for(begun.wait(), PATIENCE_S)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await eventually_in_loop(lambda: "cancelled a-4" in asked(tmp_path), "the cancellation")
            assert (await client.call_tool("say", {"text": "a-5"})).content[0].text == "a-5"

    asyncio.run(life())
    assert asked(tmp_path) == ["say a-1", "say a-2", "say a-4", "cancelled a-4", "say a-5"]


@pytest.mark.parametrize("legacy", [True, False])
def test_a_client_is_noted_by_the_name_of_its_token_whatever_it_calls_itself(tmp_path: Path, legacy: bool):
    workspace = fronting(tmp_path)
    shown = token(workspace, "laptop")

    async def life(port: int) -> None:
        client = Raw(port, shown, legacy=legacy)
        await client.begin()
        await client.ask("tools/call", name="send", arguments={"text": "x"})
        client.close()

    with gateway(workspace.path) as port:
        asyncio.run(life(port))
    app = open_workspace(workspace.path, exact=True)
    (seen,) = app.ports.sightings.since(Instant(0))
    assert (seen.agent, seen.tool) == ("mcp/laptop", "many:send")
