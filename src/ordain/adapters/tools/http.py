"""The built-in tool `http_request`: one request, exactly as the plan has it, to the server that the plan names.

No proxy, cookies or credentials of a file are added. A redirect is followed only to the same server. The exchange runs
in a thread, whose connection is cut when the call is cancelled.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag, urljoin

from ordain.adapters.process.spool import Spool
from ordain.core.plan.tool import HTTP_REQUEST, ToolDefinition
from ordain.core.policy.tier import Address, header_fault, read_address
from ordain.core.text.limit import CONCURRENCY_MAX
from ordain.ports.tool import Patterns, ToolResult

if TYPE_CHECKING:
    import socket
    from concurrent.futures import ThreadPoolExecutor

CONNECT_S = 30.0
"""How long it may take until a server answers at all."""
REDIRECTS_MAX = 5
_SAFE = ("GET", "HEAD")
_REDIRECTS = (301, 302, 303, 307, 308)
_HEADERS = {"User-Agent": "ordain", "Connection": "close"}


class HttpTools:
    """ports.Toolbox with `http_request`, in threads of its own: servers that are slow must hold up nobody else."""

    def __init__(self, room: Callable[[], Path] | None = None) -> None:
        """`room` is where there is some for a long answer."""
        self._room = room

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        from concurrent.futures import ThreadPoolExecutor

        return ThreadPoolExecutor(CONCURRENCY_MAX, thread_name_prefix="http")

    def definitions(self) -> Mapping[str, ToolDefinition]:
        return {HTTP_REQUEST.name: HTTP_REQUEST}

    async def call(
        self, tool: str, args: Mapping[str, Any], key: str, *, control: Patterns = (), secret_files: Patterns = ()
    ) -> ToolResult:
        import asyncio  # most commands only look, and start faster without it

        if tool != HTTP_REQUEST.name:
            return ToolResult(error="F_STEP_FAILED", detail=f"there is no tool {tool!r}")
        wire = _Wire()
        work = asyncio.get_running_loop().run_in_executor(self._threads, _call, wire, args, self._room)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            wire.cut()
            result = await work
            if wire.ended:
                return result
            raise

    async def operand(self, tool: str, args: Mapping[str, Any]) -> str | None:
        return None


class _Fault(Exception):
    """A request that did not go well, in words for the reader."""


class _Wire:
    """The connection of an exchange, to be cut from outside: a thread cannot be ended, but what it waits for can."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: socket.socket | None = None
        self._cut = False
        self.ended = False
        """The exchange came to its end before anybody cut it."""

    def cut(self) -> None:
        with self._lock:
            self._cut = True
            if self._held is not None:
                import socket

                with contextlib.suppress(OSError):
                    self._held.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        self._hold(None)
        with self._lock:
            self.ended = not self._cut

    def connect(self, address: Address) -> socket.socket:
        """A connection to the first of a server's addresses that answers."""
        import socket  # few commands fetch anything

        failure = OSError("it has no address")
        for family, kind, protocol, _, where in socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM):
            connection = socket.socket(family, kind, protocol)
            try:
                connection.settimeout(CONNECT_S)
                self._hold(connection)
                self.go_on()
                connection.connect(where)
                self.go_on()
                return connection
            except (OSError, _Fault) as error:
                connection.close()
                if isinstance(error, _Fault):
                    raise
                failure = error
        raise failure

    def go_on(self) -> None:
        if self._cut:
            raise _Fault("it was stopped")

    def _hold(self, connection: socket.socket | None) -> None:
        # Another descriptor of the same connection: the one that is read from may belong to TLS by the time of the cut.
        with self._lock:
            if self._held is not None:
                self._held.close()
            self._held = connection.dup() if connection is not None else None


def _call(wire: _Wire, args: Mapping[str, Any], room: Callable[[], Path] | None) -> ToolResult:
    wanted = args.get("status")
    try:
        status, body = _exchange(wire, args, room)
        good = status == wanted if wanted is not None else 200 <= status < 300
        error = None if good else "F_STEP_FAILED"
        detail = "" if good else f"the server answered with status {status}"
        return ToolResult(error=error, detail=detail, output=body.end(), output_bytes=body.size, whole=body.whole())
    except _Fault as fault:
        return ToolResult(error="F_STEP_FAILED", detail=str(fault))
    finally:
        wire.end()


def _exchange(wire: _Wire, args: Mapping[str, Any], room: Callable[[], Path] | None) -> tuple[int, Spool]:
    """The status and the body of the answer, where redirects to the same server end."""
    url, method, headers = args["url"], args.get("method", "GET"), args.get("headers", {})
    address, fault = read_address(url), header_fault(headers)
    if address is None:
        raise _Fault("this is not an address that a request can be sent to")
    if fault is not None:
        raise _Fault(f"it would send the header {fault}")
    for _ in range(REDIRECTS_MAX + 1):
        body = Spool(room)
        status, location = _ask(wire, method, address, headers, args.get("body"), body)
        follows = method in _SAFE and status in _REDIRECTS and status != args.get("status")
        if not follows or location is None:
            return status, body
        url = urldefrag(urljoin(url, location)).url
        origin, address = address.origin, read_address(url)
        if address is None:
            raise _Fault("it is redirected to an address that no request can be sent to")
        if address.origin != origin:
            scheme, host, port = address.origin
            raise _Fault(f"it is redirected to another server, {scheme}://{host}:{port}, which the plan does not name")
    raise _Fault(f"it is redirected more than {REDIRECTS_MAX} times")


def _ask(
    wire: _Wire, method: str, address: Address, headers: Mapping[str, str], body: str | None, spool: Spool
) -> tuple[int, str | None]:
    """The status of one answer, and where it leads to."""
    import http.client  # few plans send requests

    try:
        connection = _connected(wire, address)
    except (OSError, ValueError) as error:
        raise _Fault(f"{address.host}:{address.port} cannot be reached, so nothing was sent: {error}") from error
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    client = kind(address.host, address.port)
    client.sock = connection
    try:
        data = body.encode() if body is not None else None
        given = {name.lower() for name in headers}
        ours = {name: value for name, value in _HEADERS.items() if name.lower() not in given}
        client.request(method, address.target, body=data, headers={**ours, **headers})
        response = client.getresponse()
        while data := response.read(65536):
            spool.take(data)
        if response.length:  # the library tells of a body that ends early only where it is sent in chunks
            raise OSError(f"{response.length} bytes are missing")
        return response.status, response.getheader("Location")
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise _Fault(f"it was sent, and no whole answer came: {error or type(error).__name__}") from error
    finally:
        client.close()


def _connected(wire: _Wire, address: Address) -> socket.socket:
    """A connection on which nothing was sent yet, but for what TLS needs."""
    connection = wire.connect(address)
    try:
        if address.scheme == "https":
            import ssl

            connection = ssl.create_default_context().wrap_socket(connection, server_hostname=address.host)
        connection.settimeout(None)
        wire.go_on()
    except BaseException:
        connection.close()
        raise
    return connection
