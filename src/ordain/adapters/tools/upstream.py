"""ports.Upstreams: sessions with MCP servers in which every message passes as the value that it is.

A server is a process of ours, or at an address, where the SDK's transport carries the messages. Nothing but what the
configuration says is sent along: no header and no credential of whoever asks.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec

from ordain.adapters.process.server import GARBAGE_MAX, LINE_MAX, ServerProcess
from ordain.adapters.state.directory import state_directory, workspace_directory
from ordain.core.plan.tool import ToolSource, reached
from ordain.core.text.problem import Refused
from ordain.core.text.secret import Secret, SecretMissing, filled_secrets
from ordain.ports.tool import Unreached, Upstream

CAME_MAX = 16
"""How many messages of a server wait for a client that is slow to read; then the server waits, too."""
KEPT_MAX = 4 << 20
NOISE_MAX = 100
_META_VERSION = "io.modelcontextprotocol/protocolVersion"
_TERMINATED = "Session terminated"
"""What the SDK's transport answers when the server knows the session no more."""

_CANNOT_BE_SENT = {"code": -32600, "message": "This is no request that can be sent over HTTP."}


class ServerSessions:
    """Sessions with servers; those that are processes run in an empty directory, outside the workspace."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace

    async def open(self, source: ToolSource, secret: Secret) -> Upstream:
        if source.url is not None:
            try:
                headers = {name: filled_secrets(value, secret) for name, value in source.headers.items()}
            except SecretMissing as missing:
                raise Unreached(f"cannot be had: {missing}") from missing
            return _Remote(source.url, headers)
        try:
            return _Local(await ServerProcess.start(source, self._workspace, heard=True))
        except ValueError as error:
            raise Unreached(f"cannot be started: {error}; look with `ordain trust`") from error
        except OSError as error:
            raise Unreached(f"cannot be started: `{source.mcp[0]}`: {error.strerror or error}") from error

    def known(self, source: ToolSource) -> Mapping[str, Any]:
        with suppress(OSError, ValueError, Refused):
            said = json.loads(self._kept(source).read_bytes())
            return said if isinstance(said, dict) else {}
        return {}

    def keep(self, source: ToolSource, said: Mapping[str, Any]) -> None:
        with suppress(OSError, ValueError, Refused):
            file, data = self._kept(source), json.dumps(said).encode()
            if len(data) <= KEPT_MAX and (not file.exists() or file.read_bytes() != data):
                file.parent.mkdir(mode=0o700, exist_ok=True)
                # Not synced: it is written on the event loop, and what a loss of power leaves is no JSON and not read.
                written = file.with_name(f"{file.name}.{os.getpid()}")
                written.write_bytes(data)
                written.replace(file)

    def _kept(self, source: ToolSource) -> Path:
        """The file for what is kept of a server, as it is reached: another command is another server."""
        shelf = workspace_directory(state_directory(os.environ, self._workspace), self._workspace)
        return shelf / "servers" / hashlib.sha256(msgspec.json.encode(reached(source), order="sorted")).hexdigest()[:32]


class _Local:
    """A session with a process."""

    noise = ""

    def __init__(self, process: ServerProcess) -> None:
        self._process = process
        self._ending: asyncio.Task[None] | None = None

    def send(self, message: Mapping[str, Any]) -> None:
        taken = self._process.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        if not taken and self._ending is None:  # nobody shall wait for what it will never read
            self._ending = asyncio.create_task(self._process.end())

    async def messages(self) -> AsyncIterator[dict[str, Any]]:
        garbage = 0
        async for line in self._process.lines():
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                message = None
            if isinstance(message, dict):
                yield message
            elif line.strip():
                garbage += 1
                self.noise = self.noise or " ".join(line[:NOISE_MAX].decode("utf-8", "replace").split())
                if garbage >= GARBAGE_MAX:
                    return

    async def close(self) -> None:
        await self._process.end()


class _Remote:
    """A session with a server at an address, of either era: which one, its first request decides."""

    noise = ""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self._url, self._headers = url, headers
        self._goes: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self._came: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._taken = asyncio.Event()
        self._greeted: Any = None
        """The id of `initialize`."""
        self._version: str | None = None
        """What was agreed on in answer to that."""
        self._mirrored: dict[str, Any] = {}
        """Which arguments of which tools are told in headers as well."""
        self._task = asyncio.create_task(self._session())

    def send(self, message: Mapping[str, Any]) -> None:
        self._goes.put_nowait(message)

    async def messages(self) -> AsyncIterator[dict[str, Any]]:
        while (message := await self._came.get()) is not None:
            self._taken.set()
            yield message

    async def close(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _session(self) -> None:
        try:
            from mcp.client.streamable_http import streamable_http_client
            from mcp.shared._httpx_utils import create_mcp_http_client

            async with AsyncExitStack() as stack:
                http = await stack.enter_async_context(create_mcp_http_client(headers=dict(self._headers)))
                transport = streamable_http_client(self._url, http_client=http, max_sse_event_size=LINE_MAX)
                reading, writing = await stack.enter_async_context(transport)
                sending = asyncio.create_task(self._hand_over(writing))
                stack.callback(sending.cancel)
                async for one in reading:
                    if isinstance(one, Exception):
                        continue
                    message = one.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
                    self._look(message)
                    self._came.put_nowait(message)
                    while self._came.qsize() > CAME_MAX:
                        self._taken.clear()
                        await self._taken.wait()
                    if "error" in message and message["error"].get("message") == _TERMINATED:
                        return
        except Exception:  # whatever the network does, it is the end of the session and of nothing else
            return
        finally:
            self._came.put_nowait(None)

    async def _hand_over(self, writing: Any) -> None:
        from mcp.shared.message import ClientMessageMetadata, SessionMessage
        from mcp_types import jsonrpc_message_adapter

        while True:
            message = await self._goes.get()
            if message.get("method") == "initialize":
                self._greeted = message.get("id")
            try:
                known = jsonrpc_message_adapter.validate_python(message)
                metadata = ClientMessageMetadata(headers=self._routing(message))
            except (ValueError, TypeError, AttributeError):  # one that cannot be sent does not hold up the others
                if "id" in message and "method" in message:
                    self._came.put_nowait({"jsonrpc": "2.0", "id": message["id"], "error": _CANNOT_BE_SENT})
                continue
            await writing.send(SessionMessage(known, metadata))

    def _look(self, message: Mapping[str, Any]) -> None:
        """Remember what later requests must say in their headers."""
        result = message.get("result")
        if not isinstance(result, dict):
            return
        if self._greeted is not None and message.get("id") == self._greeted:
            self._version, self._greeted = result.get("protocolVersion"), None
        if isinstance(result.get("tools"), list):
            from mcp.shared.inbound import x_mcp_header_map

            for tool in result["tools"]:
                with suppress(Exception):  # what is not as it should be is not told in headers
                    self._mirrored[tool["name"]] = x_mcp_header_map(tool["inputSchema"])

    def _routing(self, message: Mapping[str, Any]) -> dict[str, str]:
        """The headers of a request: those of the era in which it is made."""
        from mcp.shared.inbound import NAME_BEARING_METHODS, encode_header_value, mcp_param_headers

        method, params = message.get("method"), message.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        version = meta.get(_META_VERSION) if isinstance(meta, dict) else None
        if not isinstance(version, str) or not isinstance(method, str):
            return {"mcp-protocol-version": self._version} if self._version is not None else {}
        assert isinstance(params, dict)
        headers = {"mcp-protocol-version": version, "mcp-method": method}
        name = params.get(NAME_BEARING_METHODS.get(method, ""))
        if isinstance(name, str):
            headers["mcp-name"] = encode_header_value(name)
            if method == "tools/call" and self._mirrored.get(name):
                headers |= mcp_param_headers(self._mirrored[name], params.get("arguments") or {})
        return headers
