"""MCP servers as sources of tools: each is one tool, and what it lists are its operations.

A server is asked once what it has, and the same session makes the calls. What it said of an operation is pinned by a
digest: one that says something else by the time of a call is not called. What it says about effects counts only where
the configuration says so. All sessions live in a thread of their own.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ordain.adapters.process.server import SEEN, served
from ordain.core.guard.host_tool import callable_name, listed_definition
from ordain.core.plan.canonical import sha256
from ordain.core.plan.command import typed
from ordain.core.plan.tool import ToolDefinition, ToolSource
from ordain.core.policy.agent import shown_address
from ordain.core.policy.sealing import RunEnvironment
from ordain.core.text.problem import Refused, refuse
from ordain.core.text.secret import Secret, SecretMissing, filled_secrets
from ordain.ports.tool import Lost, ToolResult

if TYPE_CHECKING:
    import mcp
    import mcp_types

ASK_S = 30.0
CLOSE_S = 10.0
OPERATIONS_MAX = 1_000
PAGES_MAX = 100
DEFINITION_BYTES_MAX = 256 << 10
DETAIL_MAX = 500
_T = TypeVar("_T")

Given = RunEnvironment | None


def _key(endpoint: ToolSource, given: Given) -> bytes:
    """What tells one session from another: where its server is, and what it sees."""
    seen = os.environ if given is None else given.variables
    return msgspec.json.encode([endpoint, [seen.get(name) for name in (*SEEN, *endpoint.env)]])


class _Server:
    """One session, and what its server listed."""

    def __init__(self) -> None:
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.closing = asyncio.Event()
        self.client: mcp.Client | None = None
        self.listed: dict[str, mcp_types.Tool] = {}
        self.task: asyncio.Task[None] | None = None


class McpTools:
    """Tools of MCP servers. Those that are processes of ours run outside the workspace."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._servers: dict[bytes, _Server] = {}
        self._said: dict[str, str] = {}
        """How far calls under way have come, by their keys."""

    # --- What there is -----------------------------------------------------------------------------------------------

    def definitions(
        self, name: str, source: ToolSource, secret: Secret, given: Given = None
    ) -> Mapping[str, ToolDefinition]:
        """The operations of a server, by their names among the tools; raises Refused with E_TOOL_SOURCE."""
        endpoint = _endpoint(source)
        try:
            server = asyncio.run_coroutine_threadsafe(self._server(endpoint, secret, given), self._running()).result()
        except ImportError as error:
            how = 'Install it with `pip install "ordain[mcp]"`.'
            raise refuse("E_TOOL_SOURCE", f"The tool `{name}` needs the extra `mcp`: {error}.", how) from error
        except Exception as error:
            how = f"It is at {shown_address(source.url or '')}."
            if source.url is None:
                how = "It is started in an empty directory, where `{workspace}` means the workspace, with: "
                how += typed(source.mcp)
            raise refuse("E_TOOL_SOURCE", f"The tool `{name}` cannot be had: {_why(error)}.", how) from error
        made = (_definition(name, source, tool) for tool in server.listed.values())
        return {one.name: one for one in made}

    # --- Calling -----------------------------------------------------------------------------------------------------

    def said(self, key: str) -> str:
        """How far a call under way says that it has come."""
        return self._said.get(key, "")

    async def call(
        self, tool: ToolDefinition, args: Mapping[str, Any], key: str, secret: Secret, given: Given = None
    ) -> ToolResult:
        """When cancelled, the session ends, with a server that is our process. Raises Lost where the server is gone."""
        assert tool.source is not None
        work = self._over_there(self._call(tool, tool.source, dict(args), key, secret, given))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            await asyncio.shield(self._over_there(self._end(tool.source, given)))
            raise
        finally:
            self._said.pop(key, None)

    async def _call(
        self, tool: ToolDefinition, endpoint: ToolSource, args: dict[str, Any], key: str, secret: Secret, given: Given
    ) -> ToolResult:
        try:
            server = await self._server(endpoint, secret, given)
        except Exception as error:
            return ToolResult(error="F_STEP_FAILED", detail=f"{tool.name} cannot be had: {_why(error)}")
        operation = tool.name.partition(":")[2]
        if operation not in server.listed or _pin(server.listed[operation]) != tool.pinned:
            return ToolResult(error="F_STEP_FAILED", detail=f"{tool.name} is not what it was when it was approved")
        assert server.client is not None

        async def note(progress: float, total: float | None, message: str | None) -> None:
            words = " ".join((message or "").split())[:DETAIL_MAX]
            count = f"{progress:g} of {total:g}" if total is not None else f"{progress:g}"
            self._said[key] = f"{count}: {words}" if words else count

        try:
            return _result(await server.client.call_tool(operation, args, progress_callback=note))
        except Exception as error:
            if server.closing.is_set():
                raise Lost(f"its server ended before it answered: {_why(error)}") from error
            return ToolResult(error="F_STEP_FAILED", detail=_why(error))

    # --- Sessions ----------------------------------------------------------------------------------------------------

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="tool servers", daemon=True)
            self._thread.start()
            atexit.register(self.close)
        return self._loop

    def _over_there(self, work: Coroutine[Any, Any, _T]) -> asyncio.Future[_T]:
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._running()))

    async def _server(self, endpoint: ToolSource, secret: Secret, given: Given = None) -> _Server:
        key = _key(endpoint, given)
        server = self._servers.get(key)
        if server is None or server.closing.is_set() or (server.task is not None and server.task.done()):
            server = self._servers[key] = _Server()
            server.task = asyncio.create_task(self._session(server, endpoint, secret, given))
        try:
            async with asyncio.timeout(ASK_S):
                await asyncio.shield(server.ready)
        except TimeoutError:
            await self._end(endpoint, given)
            raise TimeoutError(f"it did not say what it has within {ASK_S:g} s") from None
        return server

    async def _session(self, server: _Server, endpoint: ToolSource, secret: Secret, given: Given) -> None:
        try:
            from mcp import Client

            async with AsyncExitStack() as stack:
                transport = await self._transport(endpoint, secret, stack, server.closing.set, given)
                server.client = await stack.enter_async_context(Client(transport, cache=None))
                server.listed = await _listed(server.client)
                server.ready.set_result(None)
                await server.closing.wait()
        except (Exception, asyncio.CancelledError) as error:
            if not server.ready.done():
                server.ready.set_exception(error if isinstance(error, Exception) else ConnectionError("it was ended"))
                server.ready.exception()  # told to whoever asks; nobody may be left who does

    async def _transport(
        self, endpoint: ToolSource, secret: Secret, stack: AsyncExitStack, over: Callable[[], None], given: Given
    ) -> AbstractAsyncContextManager[Any]:
        if endpoint.url is None:
            return served(endpoint, self._workspace, over, given.variables if given is not None else None)
        from mcp.client.streamable_http import streamable_http_client
        from mcp.shared._httpx_utils import create_mcp_http_client

        headers = {name: filled_secrets(value, secret) for name, value in endpoint.headers.items()}
        http = await stack.enter_async_context(create_mcp_http_client(headers=headers))
        return streamable_http_client(endpoint.url, http_client=http)

    async def _end(self, endpoint: ToolSource, given: Given) -> None:
        if (server := self._servers.pop(_key(endpoint, given), None)) is not None:
            await _ended(server)

    def close(self) -> None:
        """End all sessions, and the servers that are processes of ours."""
        loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        atexit.unregister(self.close)
        servers = list(self._servers.values())
        self._servers.clear()

        async def end_all() -> None:
            await asyncio.gather(*map(_ended, servers), return_exceptions=True)

        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(end_all(), loop).result(CLOSE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSE_S)
        if not thread.is_alive():
            loop.close()


async def _ended(server: _Server) -> None:
    server.closing.set()
    if server.task is not None:
        if not server.ready.done():
            server.task.cancel()
        with suppress(asyncio.CancelledError):
            await server.task


async def _listed(client: mcp.Client) -> dict[str, mcp_types.Tool]:
    found: dict[str, mcp_types.Tool] = {}
    cursor: str | None = None
    for _ in range(PAGES_MAX):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            if callable_name(tool.name):
                found[tool.name] = tool
            if len(found) > OPERATIONS_MAX:
                raise ValueError(f"it lists more than {OPERATIONS_MAX:,} operations")
            if len(tool.model_dump_json()) > DEFINITION_BYTES_MAX:
                raise ValueError(f"what it says of {tool.name[:40]!r} is longer than anybody should read")
        if (cursor := page.next_cursor) is None:
            return found
    raise ValueError(f"its list has more than {PAGES_MAX} pages")


# --- What they say -------------------------------------------------------------------------------------------------


def _endpoint(source: ToolSource) -> ToolSource:
    """Where a source is, without what is thought of it."""
    return ToolSource(mcp=source.mcp, url=source.url, headers=source.headers, env=source.env, files=source.files)


def _definition(name: str, source: ToolSource, tool: mcp_types.Tool) -> ToolDefinition:
    said = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
    return msgspec.structs.replace(listed_definition(name, source, said), source=_endpoint(source), pinned=_pin(tool))


def _pin(tool: mcp_types.Tool) -> str:
    """The digest of everything that a server says about an operation and that anybody might be led by."""
    said = tool.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta", "icons"})
    return sha256(json.dumps(said, sort_keys=True).encode())


def _result(given: mcp_types.CallToolResult) -> ToolResult:
    texts = [part.text for part in given.content if part.type == "text"]
    if given.is_error:
        text = "\n".join(texts)
        detail = " ".join(text.split())[:DETAIL_MAX] or "it failed and did not say why"
        return ToolResult(error="F_STEP_FAILED", detail=detail, output=text.encode("utf-8", "replace"))
    if given.structured_content is not None:
        return ToolResult(value=given.structured_content)
    if len(texts) == len(given.content):
        return ToolResult(value="\n".join(texts))
    return ToolResult(value=[part.model_dump(mode="json", by_alias=True, exclude_none=True) for part in given.content])


def _why(error: BaseException) -> str:
    """What went wrong, as the end of a sentence; of several things at once the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, SecretMissing | TimeoutError | ValueError) and str(error):
        return str(error).split("\n")[0][:DETAIL_MAX]
    if isinstance(error, Refused):
        return error.problems[0].detail.removesuffix(".")
    said = " ".join(str(error).split())[:DETAIL_MAX]
    return said or type(error).__name__
