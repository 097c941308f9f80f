"""Servers at an address behind the gateway, in both eras: what is sent along, progress, cancelling, and sessions that
the server forgot."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import mcp_types as types
import pytest
import uvicorn
from mcp.server.lowlevel import Server

from tests.gateway.conftest import Site
from tests.gateway.pipes import LEGACY, MODERN, Pipe
from tests.patience import PATIENCE_S, eventually, let_pass

pytestmark = pytest.mark.slow("a gateway process, and a server of the SDK in a thread")

FLOOD = 1_000


class Far:
    """A server of the SDK in a thread, and what it saw."""

    def __init__(self) -> None:
        self.headers: list[dict[str, str]] = []
        self.cancelled = threading.Event()
        self.told = 0
        self._server: uvicorn.Server | None = None
        self.port = 0
        self.start()

    def start(self) -> None:
        inside = Server("far", version="1", on_list_tools=self._list, on_call_tool=self._call).streamable_http_app()

        async def application(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                self.headers.append({key.decode(): value.decode() for key, value in scope["headers"]})
            await inside(scope, receive, send)

        config = uvicorn.Config(application, port=self.port, log_level="critical", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        eventually(lambda: self._server.started, "its start")
        self.port = self._server.servers[0].sockets[0].getsockname()[1]

    def stop(self) -> None:
        assert self._server is not None
        self._server.should_exit = True
        self._thread.join(PATIENCE_S)

    async def _list(self, context: Any, params: Any) -> types.ListToolsResult:
        schema = {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "Number"}}}
        names = ("look", "tell", "slow", "big", "flood")
        return types.ListToolsResult(tools=[types.Tool(name=name, input_schema=schema) for name in names])

    async def _call(self, context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        match params.name:
            case "tell":
                for done in range(3):
                    await context.session.report_progress(done, 3, "so far")
            case "flood":
                for self.told in range(FLOOD):
                    await context.session.report_progress(self.told, FLOOD, "x" * 50_000)
            case "slow":
                try:
                    await asyncio.sleep(20)
                except BaseException:
                    self.cancelled.set()
                    raise
        text = "x" * 3_000_000 if params.name == "big" else f"seen {params.arguments}"
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


@pytest.fixture
def far() -> Iterator[Far]:
    made = Far()
    yield made
    made.stop()


def settings(far: Far) -> str:
    reads = ", ".join(f'{name} = "reads"' for name in ("look", "tell", "slow", "big", "flood"))
    headers = '{ Authorization = "Bearer secret:FAR_TOKEN" }'
    return (
        f'[tools.far]\nurl = "http://127.0.0.1:{far.port}/mcp"\nheaders = {headers}\neffects = {{ {reads} }}\n'
        '[guard]\nmode = "enforce"\n'
    )


def text(message: dict[str, Any]) -> str:
    assert not message["result"].get("isError"), message
    found = message["result"]["content"][0]["text"]
    assert isinstance(found, str)
    return found


def test_a_server_that_says_more_than_its_client_reads_waits(
    site: Site, far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAR_TOKEN", "swordfish")
    site.trust(settings(far))
    with site.gateway() as pipe:
        pipe.greet()
        pipe.names()
        flood = pipe.ask("tools/call", {"name": "flood", "arguments": {}, "_meta": {"progressToken": "t"}})
        told = -1
        while told != far.told:
            told = far.told
            let_pass(0.5)
        assert 0 < told < FLOOD - 1
        pipe.answer(flood)
        assert [one["params"]["progress"] for one in pipe.heard if "progress" in one["method"]] == list(range(FLOOD))


@pytest.mark.parametrize("era", [LEGACY, MODERN])
def test_a_server_at_an_address_is_spoken_with_in_the_clients_era(
    site: Site, far: Far, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAR_TOKEN", "swordfish")
    site.trust(settings(far))
    far.headers.clear()
    with site.gateway(era=era) as pipe:
        assert "result" in pipe.greet()
        assert pipe.names()[:5] == ["look", "tell", "slow", "big", "flood"]
        assert text(pipe.call("look", n=5)) == "seen {'n': 5}"
        told = pipe.request("tools/call", {"name": "tell", "arguments": {}, "_meta": {"progressToken": "t"}})
        assert text(told) == "seen {}"
        progress = [one["params"] for one in pipe.heard if one["method"] == "notifications/progress"]
        assert [(one["progressToken"], one["progress"]) for one in progress] == [("t", 0), ("t", 1), ("t", 2)]
        assert len(text(pipe.call("big"))) == 3_000_000
        slow = pipe.ask("tools/call", {"name": "slow", "arguments": {}})
        assert text(pipe.call("look")) == "seen {}", "nobody waits for it"
        pipe.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": slow}})
        assert far.cancelled.wait(PATIENCE_S)
    assert {one["authorization"] for one in far.headers} == {"Bearer swordfish"}
    calls = [one for one in far.headers if one.get("mcp-method") == "tools/call"]
    versions = {one.get("mcp-protocol-version") for one in far.headers[1:]}
    if era == MODERN:
        assert versions == {MODERN} and (calls[0]["mcp-name"], calls[0]["mcp-param-number"]) == ("look", "5")
    else:
        assert LEGACY in versions and not calls
    assert "swordfish" not in pipe.errors


def test_a_session_that_the_server_forgot_is_begun_anew(site: Site, far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAR_TOKEN", "swordfish")
    site.trust(settings(far))

    def again(pipe: Pipe) -> dict[str, Any]:
        for _ in range(3):
            said = pipe.call("look", n=1)
            if "result" in said and not said["result"].get("isError"):
                return said
        return said

    with site.gateway() as pipe:
        pipe.greet()
        assert text(pipe.call("look", n=1))
        far.stop()
        lost = pipe.call("look", n=1)
        assert lost.get("error") or lost["result"]["isError"] is True
        far.start()
        assert text(again(pipe)) == "seen {'n': 1}"


def test_a_server_that_is_not_there_and_a_secret_that_is_not_set_are_told(site: Site, far: Far) -> None:
    with_secret = settings(far)
    nowhere = '[tools.nowhere]\nurl = "http://127.0.0.1:9/mcp"\n'
    site.trust(nowhere + with_secret)
    with site.gateway() as pipe:
        pipe.greet()
        assert pipe.names()[0] == "plan_propose"
    assert "The server `nowhere` did not answer: it has ended, or is not there; its tools are missing." in pipe.errors
    assert "The server `far` cannot be had: " in pipe.errors and "FAR_TOKEN is not set" in pipe.errors


@pytest.mark.parametrize("era", [LEGACY, MODERN])
def test_a_message_that_cannot_be_sent_holds_up_no_other(
    site: Site, far: Far, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAR_TOKEN", "swordfish")
    site.trust(settings(far).replace("enforce", "observe"))
    with site.gateway(era=era) as pipe:
        pipe.greet()
        for number, (method, params) in enumerate(
            [("vendor/x", [1]), ("vendor/x", "text"), ("a\r\nAuthorization: Bearer mine", {}), ("ünï\x00", {})]
        ):
            if era == MODERN and isinstance(params, dict):
                pipe.ask(method, params, f"odd {number}")
            else:
                pipe.send({"jsonrpc": "2.0", "id": f"odd {number}", "method": method, "params": params})
            assert "error" in pipe.answer(f"odd {number}")
        assert text(pipe.call("look", n=1)) == "seen {'n': 1}"
    assert {one["authorization"] for one in far.headers} == {"Bearer swordfish"}
