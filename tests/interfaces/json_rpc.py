"""A client of a real `ordain mcp` over its standard input and output that says exactly what a test says."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.interfaces.terminal import start
from tests.message_lines import MessageLines
from tests.patience import PATIENCE_S

TASKS = "io.modelcontextprotocol/tasks"
_META = "io.modelcontextprotocol/"


class RpcError(Exception):
    """The error that the server answered with."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: Any = error.get("data")


class RpcClient:
    """One client with a server of its own; `extensions` are those that it declares with every request, unless it speaks
    as of 2025."""

    def __init__(self, path: Path, *, extensions: Sequence[str] = (TASKS,), legacy: bool = False) -> None:
        self._server = start(["mcp"], cwd=path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        self._asked, self._lines = 0, MessageLines(self._server.stdout, PATIENCE_S)
        self._legacy, self.name = legacy, "test"
        self._capabilities: dict[str, Any] = {"extensions": {one: {} for one in extensions}}
        self.notifications: list[dict[str, Any]] = []
        if legacy:
            info = {"name": self.name, "version": "1"}
            self.initialized = self.request(
                "initialize",
                {"protocolVersion": "2025-11-25", "capabilities": self._capabilities, "clientInfo": info},
            )
            self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def __enter__(self) -> RpcClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()

    def kill(self) -> None:
        """End the server as nobody can prevent."""
        if self._server.poll() is None:
            self._server.kill()
            assert self._server.wait(PATIENCE_S) == -signal.SIGKILL
        for stream in (self._server.stdin, self._server.stdout):
            if stream is not None:
                stream.close()

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """The result of a request; raises RpcError."""
        return self.answer(self.ask(method, params))

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The result of calling a tool."""
        return self.request("tools/call", {"name": tool, "arguments": arguments})

    def ask(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Send a request; the id by which its answer is known."""
        self._asked += 1
        meta = {
            f"{_META}protocolVersion": "2026-07-28",
            f"{_META}clientCapabilities": self._capabilities,
            f"{_META}clientInfo": {"name": self.name, "version": "1"},
        }
        given = dict(params or {}) if self._legacy else {**(params or {}), "_meta": meta}
        self._send({"jsonrpc": "2.0", "id": self._asked, "method": method, "params": given})
        return self._asked

    def answer(self, asked: int) -> dict[str, Any]:
        """Wait for the answer to a request; what is told meanwhile is kept in `notifications`."""
        while True:
            message = self._lines.next()
            if message.get("id") == asked:
                if "error" in message:
                    raise RpcError(message["error"])
                result = message["result"]
                assert isinstance(result, dict)
                return result
            self.notifications.append(message)

    def told(self, method: str) -> dict[str, Any]:
        """Wait for the next notification of this kind; its params."""
        while True:
            message = self._lines.next()
            if message.get("method") == method:
                params = message["params"]
                assert isinstance(params, dict)
                return params

    def _send(self, message: dict[str, Any]) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(message).encode() + b"\n")
        self._server.stdin.flush()
