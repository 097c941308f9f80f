"""A model's server that answers byte for byte what a test says, in three protocols and with every fault.

`Answer`s are given out one for each request. Events are sent one at a time, so that a client sees a stream; a fault
cuts it, holds it or spoils it. What was asked is kept with its headers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.patience import PATIENCE_S


@dataclasses.dataclass(frozen=True)
class Asked:
    """One request."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Answer:
    """What it is answered."""

    events: Iterable[Any] = ()
    """Objects, sent as events; texts, sent as they are."""
    status: int = 200
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    body: bytes = b""
    """In place of events."""
    cut: bool = False
    """The connection breaks after them."""
    held_before: threading.Event | None = None
    """Nothing is sent before this is set."""
    held_after: threading.Event | None = None
    """Nor does it end before this is."""


class WireServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answers: Iterable[Answer | Callable[[Asked], Answer]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = iter(answers)
        self.asked: list[Asked] = []
        self.broken = threading.Event()
        """Set when a client has closed a connection before its answer was whole."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


@contextlib.contextmanager
def answering(*answers: Answer | Callable[[Asked], Answer]) -> Iterator[WireServer]:
    with WireServer(answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: WireServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked = Asked(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        self.server.asked.append(asked)
        answer = next(self.server.answers)
        answer = answer(asked) if callable(answer) else answer
        try:
            self._send(answer)
        except OSError:
            self.server.broken.set()

    def _send(self, answer: Answer) -> None:
        if answer.held_before is not None:
            answer.held_before.wait(PATIENCE_S)
        self.send_response_only(answer.status)
        kind = "application/json" if answer.body else "text/event-stream; charset=utf-8"
        for name, value in {"Content-Type": kind, **answer.headers}.items():
            self.send_header(name, value)
        if answer.body:
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in answer.events:
            data = event if isinstance(event, str) else json.dumps(event)
            self._chunk(f"data: {data}\n\n".encode())
        if answer.held_after is not None:
            answer.held_after.wait(PATIENCE_S)
            self._chunk(b": still there\n\n")
        if answer.cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def log_message(self, *said: object) -> None:
        pass


# --- What the protocols say ------------------------------------------------------------------------------------------


def in_pieces(text: str, size: int = 5) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def messages_events(
    text: str = "", calls: Iterable[tuple[str, str]] = (), *, stop: str = "", thinking: str = "", usage: Any = None
) -> list[Any]:
    """Anthropic's Messages: `calls` are names and arguments, as they are written."""
    used = usage or {"input_tokens": 10, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 30}
    message = {"type": "message", "role": "assistant", "model": "a-model", "content": [], "usage": used}
    events: list[Any] = [{"type": "message_start", "message": message}, {"type": "ping"}]
    index = -1
    if thinking:
        index += 1
        block = {"type": "thinking", "thinking": "", "signature": ""}
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in in_pieces(thinking)]
        deltas.append({"type": "signature_delta", "signature": "c2lnbmVk"})
        events += [{"type": "content_block_delta", "index": index, "delta": one} for one in deltas]
        events.append({"type": "content_block_stop", "index": index})
    if text:
        index += 1
        events.append({"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}})
        deltas = [{"type": "text_delta", "text": piece} for piece in in_pieces(text)]
        events += [{"type": "content_block_delta", "index": index, "delta": one} for one in deltas]
        events.append({"type": "content_block_stop", "index": index})
    for number, (name, written) in enumerate(calls, 1):
        index += 1
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *in_pieces(written)]]
        events += [{"type": "content_block_delta", "index": index, "delta": one} for one in deltas]
        events.append({"type": "content_block_stop", "index": index})
    reason = stop or ("tool_use" if calls else "end_turn")
    events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}})
    return [*events, {"type": "message_stop"}]


def responses_events(
    text: str = "", calls: Iterable[tuple[str, str]] = (), *, stop: str = "", thinking: str = "", usage: Any = None
) -> list[Any]:
    """OpenAI's Responses."""
    items: list[Any] = []
    if thinking:
        items.append({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ZW5jcnlwdGVk"})
    if text:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        items.append({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content})
    items += (
        {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": name, "arguments": written}
        for number, (name, written) in enumerate(calls, 1)
    )
    events: list[Any] = [{"type": "response.created", "response": {"status": "in_progress"}}]
    events += [{"type": "response.output_text.delta", "output_index": 0, "delta": piece} for piece in in_pieces(text)]
    events += [
        {"type": "response.output_item.done", "output_index": index, "item": item} for index, item in enumerate(items)
    ]
    used = usage or {
        "input_tokens": 60,
        "input_tokens_details": {"cached_tokens": 30},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 3},
    }
    response = {"model": "a-model", "output": items, "usage": used, "status": "completed"}
    if stop:
        response |= {"status": "incomplete", "incomplete_details": {"reason": stop}}
        return [*events, {"type": "response.incomplete", "response": response}]
    return [*events, {"type": "response.completed", "response": response}]


def chat_events(
    text: str = "", calls: Iterable[tuple[str, str]] = (), *, stop: str = "", thinking: str = "", usage: Any = None
) -> list[Any]:
    """Chat Completions; `thinking` under the name that most servers have for it."""

    def chunk(delta: Any, reason: str | None = None) -> Any:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {"object": "chat.completion.chunk", "model": "a-model", "choices": [choice]}

    events = [chunk({"role": "assistant", "content": ""})]
    events += [chunk({"reasoning_content": piece}) for piece in in_pieces(thinking)]
    events += [chunk({"content": piece}) for piece in in_pieces(text)]
    for index, (name, written) in enumerate(calls):
        begin = {"index": index, "id": f"call_{index + 1}", "type": "function"}
        events.append(chunk({"tool_calls": [{**begin, "function": {"name": name, "arguments": ""}}]}))
        events += [
            chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}) for piece in in_pieces(written)
        ]
    events.append(chunk({}, stop or ("tool_calls" if calls else "stop")))
    used = usage or {"prompt_tokens": 60, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 30}}
    return [*events, {"model": "a-model", "choices": [], "usage": used}, "[DONE]"]


EVENTS: Mapping[str, Callable[..., list[Any]]] = {
    "anthropic": messages_events,
    "openai": responses_events,
    "openai-chat": chat_events,
    "ollama": chat_events,
}
"""By provider, what makes the events of an answer."""
