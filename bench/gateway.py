"""What an open call takes through `ordain mcp --gateway`, beside a minimal proxy made with the SDK and beside no proxy
at all: one server that takes next to no time behind each, one call after the other."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.measure import Line, Size, compare, installed, timed
from bench.workspaces import trust

__all__ = ["measure"]

TARGET = 1.5
_PROXY = "a minimal proxy made with the SDK"
_HERE = Path(__file__).parent
_SERVER = [sys.executable, "-I", "-S", str(_HERE / "tool_server.py")]
_LARGE = 100_000
_FRESH_S = 2
"""How long a connection is used again: servers close what nobody uses."""
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-11-25",
}
_GREETING = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}

Ask = Callable[[str, dict[str, Any], int | None], bytes]
"""Sends a message, a request where it has an id; what that is answered."""


async def measure(size: Size) -> list[Line]:
    workspace = size.directory / "workspace"
    workspace.mkdir()
    behind = f'[tools.bench]\nmcp = {json.dumps(_SERVER)}\neffects = {{ echo = "reads" }}\n'
    await trust(size.directory / "home", workspace, f'[guard]\nmode = "enforce"\nopen = ["bench:echo"]\n{behind}')
    ordain = [str(Path(sys.executable).with_name("ordain")), "mcp", "--gateway"]
    proxy = [sys.executable, "-P", str(_HERE / "peer_proxy.py")]  # else `mcp` would be our benchmark
    env = installed(size.directory)
    with ExitStack() as stack:
        begun = lambda command: _stdio(stack, command, workspace, env)  # noqa: E731
        stdio = [_Client(begun(command)) for command in (ordain, [*proxy, "stdio", *_SERVER], _SERVER)]
        over = [_Client(_ours_http(stack, ordain, workspace, env)), _Client(_peer_http(stack, proxy, workspace, env))]
        count, rounds = size.pick(300, 100), size.pick(15, 5)
        ours, peer, direct = _race(stdio, rounds, count, 1)
        large, peer_large, _ = _race(stdio, rounds, count // 5, _LARGE)
        by_http, peer_by_http = _race(over, rounds, count // 2, 1)
    return [
        _line("open call", _PROXY, ours, peer, count, TARGET),
        _line("open call", "no proxy", ours, direct, count, None),
        _line("open call with a result of 100 kB", _PROXY, large, peer_large, count // 5, TARGET),
        _line("open call over HTTP", f"{_PROXY}, over HTTP", by_http, peer_by_http, count // 2, TARGET),
    ]


def _line(what: str, beside: str, ours: list[float], other: list[float], per: int, target: float | None) -> Line:
    return compare("gateway", what, beside, list(zip(ours, other, strict=True)), per=per, target=target)


def _race(clients: list[_Client], rounds: int, count: int, times: int) -> list[list[float]]:
    """Seconds of each, round by round, in turn; after one to warm up."""
    found: list[list[float]] = [[] for _ in clients]
    for turn in range(rounds + 1):
        for client, times_of in zip(clients, found, strict=True):
            seconds = timed(lambda: client.calls(count, times))  # noqa: B023 - called at once
            times_of += [seconds] if turn else []
    return found


class _Client:
    """A client of one server or proxy, greeted."""

    def __init__(self, ask: Ask) -> None:
        self._ask, self._number = ask, 0
        self._request("initialize", _GREETING)
        ask("notifications/initialized", {}, None)
        self._request("tools/list", {})
        self.calls(1, 3)

    def calls(self, count: int, times: int) -> None:
        for _ in range(count):
            said = self._request("tools/call", {"name": "echo", "arguments": {"text": "x", "times": times}})
            if len(said) < times or b'"x' not in said:
                raise RuntimeError(f"a call was not answered: {said[:500]!r}")

    def _request(self, method: str, params: dict[str, Any]) -> bytes:
        self._number += 1
        said = self._ask(method, params, self._number)
        if b'"result"' not in said:
            raise RuntimeError(f"{method} was not answered: {said[:500]!r}")
        return said


def _message(method: str, params: dict[str, Any], number: int | None) -> bytes:
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(message if number is None else {**message, "id": number}).encode()


def _stdio(stack: ExitStack, command: list[str], workspace: Path, env: dict[str, str]) -> Ask:
    child = stack.enter_context(
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=workspace, env=env)
    )
    assert child.stdin is not None and child.stdout is not None
    reading, writing = child.stdout, child.stdin
    stack.callback(writing.close)

    def ask(method: str, params: dict[str, Any], number: int | None) -> bytes:
        writing.write(_message(method, params, number) + b"\n")
        writing.flush()
        return reading.readline() if number is not None else b""

    return ask


def _ours_http(stack: ExitStack, ordain: list[str], workspace: Path, env: dict[str, str]) -> Ask:
    said = _served(stack, [*ordain, "--http", "--port", "0"], workspace, env)
    while not (line := next(said)).startswith("{"):
        pass
    ((_, found),) = json.loads(line)["mcpServers"].items()
    return _http(stack, int(re.findall(r":(\d+)/", found["url"])[0]), found["headers"])


def _peer_http(stack: ExitStack, proxy: list[str], workspace: Path, env: dict[str, str]) -> Ask:
    return _http(stack, int(next(_served(stack, [*proxy, "http", *_SERVER], workspace, env))), {})


def _served(stack: ExitStack, command: list[str], workspace: Path, env: dict[str, str]) -> Any:
    """A server over HTTP, ended with the stack; the lines that it says."""
    child = stack.enter_context(
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=workspace, env=env, text=True)
    )
    stack.callback(child.terminate)
    return iter(child.stderr or ())


def _http(stack: ExitStack, port: int, headers: dict[str, str]) -> Ask:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    stack.callback(connection.close)
    sent, used = {**_HEADERS, **headers}, [time.monotonic()]

    def ask(method: str, params: dict[str, Any], number: int | None) -> bytes:
        if time.monotonic() - used[0] > _FRESH_S:
            connection.close()  # and made again with the request
        connection.request("POST", "/mcp", _message(method, params, number), sent)
        answer = connection.getresponse()
        used[0] = time.monotonic()
        body = answer.read()
        if answer.headers["Mcp-Session-Id"] is not None:
            sent["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
        return body

    return ask
