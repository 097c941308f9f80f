"""Models over HTTP: one request is one answer, streamed, with a few tries that are each told of.

The key goes into one header, to one address, and no redirect is followed; nothing that is said of a failure holds it.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from ordain import __version__
from ordain.adapters.model.messages import Messages
from ordain.adapters.model.openai import Chat, Responses
from ordain.adapters.model.wire import Broken, ProviderError, WireProtocol, is_unicode, provider_error
from ordain.core.policy.agent import ModelAccess, access_fault, shown_address
from ordain.core.text.redaction import Redactor
from ordain.ports.model import ModelClient, ModelFailed, ModelRequest, ModelTurn, RequestFailed, Tell, TextCame

if TYPE_CHECKING:
    import httpx2

Sleep = Callable[[float], Awaitable[None]]
_PROTOCOLS: Mapping[str, WireProtocol] = {"messages": Messages(), "responses": Responses(), "chat": Chat()}
AGAIN = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
"""What a server answers that may answer otherwise a moment later."""
TRIES_MAX = 4
WAIT_MAX_S = 90.0
"""A server that wants us to wait for longer is not waited for."""
ERROR_BYTES_MAX = 64 << 10
DETAIL_MAX = 500


class ModelBounds(msgspec.Struct, frozen=True, kw_only=True):
    """How long is waited for what, in seconds; and how long an answer may be."""

    connect: float = 10.0
    first_event: float = 300.0
    """Models think for minutes before they say anything, and some servers are silent meanwhile."""
    idle: float = 120.0
    after_end: float = 2.0
    """For what may come after an answer is complete, such as what it used."""
    answer_bytes: int = 8 << 20
    """Of all events of an answer. Models say far less; what is longer is a fault or an attack."""


class HttpModels:
    """ports.Models over HTTP."""

    def __init__(self, bounds: ModelBounds | None = None, sleep: Sleep = asyncio.sleep) -> None:
        self._bounds, self._sleep = bounds or ModelBounds(), sleep

    def fault(self, access: ModelAccess) -> str | None:
        if importlib.util.find_spec("httpx2") is None:
            return "models cannot be spoken to without the extra llm: `pip install 'ordain[llm]'`"
        return access_fault(access)

    @contextlib.asynccontextmanager
    async def client(self, access: ModelAccess, key: str) -> AsyncIterator[ModelClient]:
        if (fault := self.fault(access)) is not None:
            raise ModelFailed("F_MODEL_UNREACHED", fault)
        import httpx2  # 0.1 s

        bounds = self._bounds
        timeout = httpx2.Timeout(None, connect=bounds.connect, pool=bounds.connect, write=bounds.idle)
        # What checks certificates takes 20 ms to make, which a server without them need not cost.
        plain = access.base_url.startswith("http://")
        verify = False if plain else await asyncio.to_thread(httpx2.create_ssl_context)
        async with httpx2.AsyncClient(timeout=timeout, verify=verify) as http:
            yield HttpModel(access, key, http, bounds, self._sleep)


class HttpModel:
    """ports.ModelClient."""

    def __init__(
        self, access: ModelAccess, key: str, http: httpx2.AsyncClient, bounds: ModelBounds, sleep: Sleep
    ) -> None:
        self._access, self._http, self._bounds, self._sleep = access, http, bounds, sleep
        self._protocol, self._shown = _PROTOCOLS[access.protocol], shown_address(access.base_url)
        self._headers = {
            "accept": "text/event-stream",
            "content-type": "application/json",
            "user-agent": f"ordain/{__version__}",
            **self._protocol.headers,
        }
        if key:
            self._headers[access.key_header] = f"Bearer {key}" if access.key_header == "authorization" else key
        self._redactor = Redactor({"key": key} if key else {})
        self._mends: list[ProviderError] = []
        """What this server has said that it does not know."""

    async def respond(self, request: ModelRequest, tell: Tell) -> ModelTurn:
        body = self._protocol.body(self._access, request)
        for error in self._mends:
            body = self._protocol.mended(body, error) or body
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._ask(body, tell)
            except _Failure as failure:
                failed = failure
            mended = self._protocol.mended(body, failed.error) if failed.status == 400 and failed.error else None
            wait_s = 0.0 if mended is not None else failed.wait_s(attempt)
            last = attempt >= TRIES_MAX or wait_s is None
            detail = self._clean(failed.detail)
            wait_ms = None if last or wait_s is None else round(wait_s * 1000)
            tell(RequestFailed(attempt=attempt, detail=detail, status=failed.status, wait_ms=wait_ms))
            if wait_ms is None:
                tries = f" ({attempt} tries)" if attempt > 1 else ""
                raise ModelFailed("F_MODEL_UNREACHED", f"{self._access}: {detail}{tries}")
            if mended is not None and failed.error is not None:
                body = mended
                self._mends.append(failed.error)
            await self._sleep(wait_ms / 1000)

    def _clean(self, detail: str) -> str:
        """What may be said of a failure: one line without secrets."""
        line = " ".join("".join(one if one.isprintable() else " " for one in detail).split())
        said = self._redactor.text(line)
        return said if len(said) <= DETAIL_MAX else f"{said[: DETAIL_MAX - 1]}…"

    async def _ask(self, body: Mapping[str, Any], tell: Tell) -> ModelTurn:
        import httpx2

        bounds = self._bounds
        url, content = self._protocol.url(self._access), msgspec.json.encode(body)
        async with contextlib.AsyncExitStack() as held:
            try:
                async with asyncio.timeout(bounds.first_event):
                    stream = self._http.stream("POST", url, content=content, headers=self._headers)
                    response = await held.enter_async_context(stream)
                if response.status_code != 200:
                    raise await self._refusal(response)
                return await self._read(aiter(httpx2.EventSource(response, bounds.answer_bytes)), tell)
            except TimeoutError:
                raise _Failure(f"it said nothing for {bounds.first_event:g} s") from None
            except (Broken, httpx2.SSEError) as error:
                raise _Failure(str(error), again=getattr(error, "again", True)) from None
            except httpx2.ConnectTimeout:
                raise _Failure(f"{self._shown} did not take a connection for {bounds.connect:g} s") from None
            except httpx2.ConnectError as error:
                raise _Failure(f"{self._shown} cannot be reached: {error}") from None
            except (httpx2.HTTPError, httpx2.StreamError, UnicodeError) as error:
                raise _Failure(f"the connection broke: {type(error).__name__}: {error}") from None
            except httpx2.InvalidURL as error:
                raise _Failure(f"no address: {error}", again=False) from None

    async def _read(self, events: AsyncIterator[httpx2.ServerSentEvent], tell: Tell) -> ModelTurn:
        reading, size, first = self._protocol.reader(), 0, True
        while True:
            bounds = self._bounds
            wait = bounds.after_end if reading.complete else bounds.first_event if first else bounds.idle
            try:
                async with asyncio.timeout(wait):
                    event = await anext(events, None)
            except TimeoutError:
                if reading.complete:
                    break
                raise Broken(f"it said nothing for {wait:g} s in the middle of an answer") from None
            if event is None or event.data == "[DONE]":
                break
            first = False
            size += len(event.data)
            if size > bounds.answer_bytes:
                raise Broken(f"the answer has more than {bounds.answer_bytes:,} bytes", again=False)
            if text := reading.take(_decoded(event.data)):
                tell(TextCame(text))
            if reading.complete and self._access.protocol != "chat":
                break
        if not reading.complete:
            raise Broken("the answer broke off")
        return reading.turn()

    async def _refusal(self, response: httpx2.Response) -> _Failure:
        data = bytearray()
        with contextlib.suppress(Exception):
            async with asyncio.timeout(self._bounds.idle):
                async for chunk in response.aiter_bytes():
                    data += chunk[: ERROR_BYTES_MAX - len(data)]
                    if len(data) >= ERROR_BYTES_MAX:
                        break
        try:
            error = provider_error(json.loads(bytes(data)))
        except (ValueError, RecursionError):
            error = None
        status, said = response.status_code, error.message if error is not None else data.decode("utf-8", "replace")
        failure = _Failure(f"HTTP {status}" + (f": {said}" if said.strip() else ""), again=status in AGAIN)
        failure.status, failure.asked_s, failure.error = status, _wait_of(response.headers), error
        return failure


class _Failure(Exception):
    """One try that gave no answer."""

    status: int | None = None
    asked_s: float | None = None
    error: ProviderError | None = None

    def __init__(self, detail: str, *, again: bool = True) -> None:
        super().__init__(detail)
        self.detail, self.again = detail, again

    def wait_s(self, attempt: int) -> float | None:
        """After which time it makes sense to try again; None where it does not."""
        wait = self.asked_s if self.asked_s is not None else float(2 ** (attempt - 1))
        return wait if self.again and wait <= WAIT_MAX_S else None


def _wait_of(headers: Mapping[str, str]) -> float | None:
    """How many seconds a server wants us to wait, where it says so."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "")
        with contextlib.suppress(ValueError):
            seconds = float(value) / unit
            if 0 <= seconds < float("inf"):
                return seconds
    from email.utils import parsedate_to_datetime  # few servers say it as a date

    with contextlib.suppress(ValueError, TypeError):
        then = parsedate_to_datetime(headers.get("retry-after", ""))
        now = parsedate_to_datetime(headers["date"]) if "date" in headers else datetime.now(UTC)
        return max(0.0, (then - now).total_seconds())
    return None


def _decoded(data: str) -> Mapping[str, Any]:
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        raise Broken("what it sent is no JSON") from None
    if not isinstance(event, dict):
        raise Broken("what it sent is no object")
    if not is_unicode(event):
        raise Broken("what it sent holds what is no character", again=False)
    return event
