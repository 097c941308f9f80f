"""ports.Upstreams: what holds for every session with a server, whatever that is."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.twins.execution import MemoryUpstreams, Say
from tests.words import SERVERS, ServerSessions, ToolSource, Unreached, Upstream, Upstreams

ECHO = """
import sys
for line in sys.stdin:
    print("not a message", flush=True)
    if '"end"' in line:
        break
    sys.stdout.write(line)
    sys.stdout.flush()
"""
ODD = {"id": "x", "result": {"n": 12345678901234567890123, "f": 1.0, "none": None, "half": "\ud800", "e": "\u20ac"}}


def echo(message: dict[str, Any], say: Say) -> None:
    say(None if message.get("method") == "end" else message)


@pytest.fixture(params=["memory", "process"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Upstreams, ToolSource, ToolSource]:
    """The adapter, a server that says everything again until it is told to end, and one that is not there."""
    if request.param == "memory":
        return MemoryUpstreams(echo=echo), ToolSource(mcp=("echo",)), ToolSource(mcp=("gone",))
    there, gone = (sys.executable, "-c", ECHO), (str(tmp_path / "gone"),)
    return ServerSessions(tmp_path), ToolSource(mcp=there), ToolSource(mcp=gone)


def nobody(name: str) -> str | None:
    return None


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(20):
            await scenario()

    before = set(SERVERS)
    asyncio.run(whole())
    assert before >= SERVERS, "every server has ended"


def test_every_message_comes_as_the_value_that_was_sent_and_in_order(opened: Any) -> None:
    upstreams, there, _ = opened

    async def scenario() -> None:
        session: Upstream = await upstreams.open(there, nobody)
        sent = [ODD, *({"id": n, "method": "m"} for n in range(20)), {"id": "big", "result": "x" * 1_000_000}]
        for one in sent:
            session.send(one)
        session.send({"method": "end"})
        came = [message async for message in session.messages()]
        assert [repr(one) for one in came] == [repr(one) for one in sent]
        await session.close()

    run(scenario)


def test_a_session_that_is_closed_says_nothing_more(opened: Any) -> None:
    upstreams, there, _ = opened

    async def scenario() -> None:
        session: Upstream = await upstreams.open(there, nobody)
        session.send({"id": 1})
        messages = session.messages()
        assert await anext(messages) == {"id": 1}
        await session.close()
        session.send({"id": 2})
        assert [one async for one in messages] == []

    run(scenario)


def test_each_session_is_one_of_its_own(opened: Any) -> None:
    upstreams, there, _ = opened

    async def scenario() -> None:
        first, second = await upstreams.open(there, nobody), await upstreams.open(there, nobody)
        first.send({"id": "first"})
        second.send({"id": "second"})
        assert await anext(second.messages()) == {"id": "second"}
        assert await anext(first.messages()) == {"id": "first"}
        await first.close()
        await second.close()

    run(scenario)


def test_a_server_that_is_not_there_is_said_not_to_be(opened: Any) -> None:
    upstreams, _, gone = opened

    async def scenario() -> None:
        with pytest.raises(Unreached):
            await upstreams.open(gone, nobody)

    run(scenario)


def test_what_a_server_said_is_kept_without_waiting_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a cache, and written on the event loop that serves every session."""
    monkeypatch.setenv("ORDAIN_HOME", str(tmp_path / "state"))
    (tmp_path / "ws").mkdir()
    upstreams, source = ServerSessions(tmp_path / "ws"), ToolSource(mcp=("echo",))
    upstreams.keep(source, {"tools": []})  # makes the directories
    waited: list[int] = []
    monkeypatch.setattr(os, "fsync", waited.append)
    for name in "ab":
        upstreams.keep(source, {"tools": [{"name": name}]})
        assert upstreams.known(source) == {"tools": [{"name": name}]}
    assert waited == []
    assert len(list((tmp_path / "state").rglob("servers/*"))) == 1
