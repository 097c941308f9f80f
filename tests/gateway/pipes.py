"""A raw client over a process's standard input and output: it says exactly what a test says, and keeps what comes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import Popen
from types import TracebackType
from typing import Any

from tests.interfaces.terminal import start
from tests.message_lines import MessageLines
from tests.patience import PATIENCE_S

ORDAIN = (sys.executable, "-m", "ordain")
GATEWAY = (*ORDAIN, "mcp", "--gateway")
ODD = Path(__file__).parent / "odd_server.py"
LEGACY, MODERN = "2025-11-25", "2026-07-28"
META = "io.modelcontextprotocol/"


class Pipe:
    """A process that is spoken with line by line, in one of the protocol's eras."""

    def __init__(self, argv: Sequence[str], cwd: Path, era: str = LEGACY) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        is_ours = tuple(argv[: len(ORDAIN)]) == ORDAIN
        self.process = start(argv[len(ORDAIN) :], cwd=cwd, **pipes) if is_ours else Popen(argv, cwd=cwd, **pipes)
        self._lines = MessageLines(self.process.stdout, PATIENCE_S)
        self._count, self._era = 0, era
        self.heard: list[dict[str, Any]] = []
        """Everything that came and was no answer that was waited for."""

    def __enter__(self) -> Pipe:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        try:
            self.process.wait(PATIENCE_S)
        finally:
            self.process.kill()
        assert self.process.stderr is not None
        self.errors = self.process.stderr.read().decode()
        self.process.stderr.close()

    def greet(self) -> dict[str, Any]:
        if self._era == MODERN:
            return self.request("server/discover", {})
        info = {"name": "raw", "version": "2"}
        params = {"protocolVersion": LEGACY, "capabilities": {"sampling": {}}, "clientInfo": info}
        said = self.request("initialize", params)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return said

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any], request: Any = None) -> Any:
        if request is None:
            self._count += 1
            request = self._count
        if self._era == MODERN:
            own = {
                f"{META}protocolVersion": MODERN,
                f"{META}clientCapabilities": {},
                f"{META}clientInfo": {"name": "raw", "version": "2"},
            }
            params = {**params, "_meta": {**own, **params.get("_meta", {})}}
        self.send({"jsonrpc": "2.0", "id": request, "method": method, "params": params})
        return request

    def answer(self, request: Any) -> dict[str, Any]:
        """The whole message that answers a request."""
        while True:
            message = self.next()
            if message.get("id") == request and type(message["id"]) is type(request) and "method" not in message:
                return message
            self.heard.append(message)

    def request(self, method: str, params: dict[str, Any], request: Any = None) -> dict[str, Any]:
        return self.answer(self.ask(method, params, request))

    def call(self, tool: str, request: Any = None, **arguments: Any) -> dict[str, Any]:
        return self.request("tools/call", {"name": tool, "arguments": arguments}, request)

    def names(self) -> list[str]:
        return [one["name"] for one in self.request("tools/list", {})["result"]["tools"]]

    def next(self) -> dict[str, Any]:
        return self._lines.next()
