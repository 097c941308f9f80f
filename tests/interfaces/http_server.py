"""The real `ordain mcp --http` in a process of its own, and requests to it as no client's library would send them."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.interfaces.terminal import start
from tests.patience import PATIENCE_S
from tests.words import Instant, open_clients

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
ACCEPT = "application/json, text/event-stream"


class Reply(NamedTuple):
    """What a request was answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def result(self) -> dict[str, Any]:
        """The result in it, whether it came by itself or on a stream."""
        text = self.body.decode()
        found = re.findall(r"^data: (\{.*)$", text, re.MULTILINE) or [text]
        message = json.loads(found[-1])
        assert "result" in message, message
        result: dict[str, Any] = message["result"]
        return result


class HttpServer:
    """One server over one workspace; ended by a signal."""

    def __init__(self, workspace: Path, *args: str) -> None:
        self.workspace = workspace
        self._child = start(
            ["mcp", "--http", "--port", "0", *args],
            cwd=workspace,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._child.stderr is not None
        self.said = [self._child.stderr.readline().decode()]
        found = re.search(r"http://127\.0\.0\.1:(\d+)/mcp", self.said[0])
        assert found is not None, self.said[0] + self._child.stderr.read().decode()
        self.port = int(found.group(1))
        while not self.said[-1].startswith(("Clients with", '{"mcpServers"')):
            self.said.append(self._child.stderr.readline().decode())

    def token(self, name: str) -> str:
        """A new client's token."""
        return open_clients(str(self.workspace)).add(name, Instant(0))

    def revoke(self, name: str) -> None:
        assert open_clients(str(self.workspace)).revoke(name)

    def request(
        self, method: str = "POST", path: str = "/mcp", body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Reply:
        """One request with exactly these headers, besides Host where they have none."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, body=body or None, headers=dict(headers or {}))
            answer = connection.getresponse()
            return Reply(answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def ask(self, token: str, method: str, params: Mapping[str, Any] | None = None, **headers: str) -> Reply:
        """A request of the protocol since 2026-07-28, which has no sessions."""
        name = (params or {}).get("name") or (params or {}).get("uri")
        sent = modern_headers(token, method, name) | headers
        return self.request(body=modern_body(method, params), headers=sent)

    def call(self, token: str, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a tool answers: one envelope."""
        result = self.ask(token, "tools/call", {"name": tool, "arguments": arguments}).result
        answer: dict[str, Any] = result["structuredContent"]
        return answer

    @contextmanager
    def listening(
        self, token: str, wanted: Mapping[str, Any], granted: Mapping[str, Any] | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        """A stream of what is wanted, acknowledged as it was granted."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        body = modern_body("subscriptions/listen", {"notifications": wanted})
        connection.request("POST", "/mcp", body=body, headers=modern_headers(token, "subscriptions/listen"))
        stream = connection.getresponse()
        assert next_event(stream)["params"]["notifications"] == (granted or wanted)
        yield stream
        connection.close()

    def session(self, token: str) -> str:
        """Begin a session of the protocol before 2026-07-28; its id."""
        client = {"name": "tests", "version": "1"}
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client}
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        reply = self.request(body=json.dumps(body).encode(), headers=headers(token))
        assert reply.status == 200, reply
        return reply.headers["mcp-session-id"]

    def in_session(self, token: str, session: str, method: str = "tools/list", http_method: str = "POST") -> Reply:
        body = json.dumps({"jsonrpc": "2.0", "id": 2, "method": method, "params": {}}).encode()
        sent = headers(token) | {"Mcp-Session-Id": session, "MCP-Protocol-Version": LEGACY}
        return self.request(http_method, body=body if http_method == "POST" else b"", headers=sent)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send it a signal; its exit status."""
        self._child.send_signal(number)
        status = self._child.wait(PATIENCE_S)
        assert self._child.stderr is not None and self._child.stdout is not None
        self.said += self._child.stderr.read().decode().splitlines()
        assert self._child.stdout.read() == b""
        self._child.stderr.close()
        self._child.stdout.close()
        return status

    def __enter__(self) -> HttpServer:
        return self

    def __exit__(self, *why: object) -> None:
        if self._child.poll() is None:
            self.end()

    def listening_on(self) -> set[str]:
        """The addresses that its process listens on, as the kernel has them."""
        inodes = set()
        for entry in Path(f"/proc/{self._child.pid}/fd").iterdir():
            found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(entry))
            inodes |= {found.group(1)} if found is not None else set()
        addresses = set()
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/{self._child.pid}/net/{table}").read_text().splitlines()[1:]:
                columns = line.split()
                if columns[3] == "0A" and columns[9] in inodes:
                    addresses.add(columns[1].partition(":")[0])
        return addresses


def next_event(stream: http.client.HTTPResponse) -> dict[str, Any]:
    """The next message of a stream, which may send other signs of life."""
    while not (line := stream.readline()).startswith(b"data:"):
        assert line, "the stream has ended"
    message: dict[str, Any] = json.loads(line.removeprefix(b"data:"))
    return message


def headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Accept": ACCEPT}


def modern_headers(token: str, method: str, name: str | None = None) -> dict[str, str]:
    sent = headers(token) | {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    return sent | ({"Mcp-Name": name} if name is not None else {})


def modern_body(method: str, params: Mapping[str, Any] | None = None) -> bytes:
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**(params or {}), "_meta": meta}}
    return json.dumps(message).encode()
