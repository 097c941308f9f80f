"""A model's server on this machine that plays a script, for command-line agents that would talk to a real one.

It speaks the providers' protocols, each a thin translation in `protocols/` to and from the terms of `conversation`.
Every request that it cannot answer is noted in `astray`: a test that finds something there has found a client that
changed. It is given to the clients as their proxy too, so that what they try to reach besides is refused and noted.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.agents.conversation import Astray, Conversation, Move, Script, next_move
from tests.agents.protocols import anthropic_messages, gemini_content, openai_chat, openai_responses
from tests.agents.protocols.wire import Event


class Protocol(NamedTuple):
    """How a provider's requests are read and its answers written."""

    read: Callable[[dict[str, Any]], Conversation]
    write: Callable[[Move, dict[str, Any]], Iterator[Event]]


PROTOCOLS = (
    (r"POST /v1/messages", Protocol(anthropic_messages.read, anthropic_messages.write)),
    (r"POST /v1/responses", Protocol(openai_responses.read, openai_responses.write)),
    (r"POST /v1/chat/completions", Protocol(openai_chat.read, openai_chat.write)),
    (r"POST /v1beta/models/[^/]+:streamGenerateContent", Protocol(gemini_content.read, gemini_content.write)),
)

# What clients ask beside the conversation, and an answer they are content with.
ASIDES: tuple[tuple[str, Any], ...] = (
    (r"HEAD /", {}),
    (r"POST /v1/messages/count_tokens", {"input_tokens": 1}),
    (r"GET /v1/models", {"object": "list", "data": [], "models": []}),
    (r"POST /v1beta/models/[^/]+:countTokens", {"totalTokens": 1}),
)


class ModelServer(ThreadingHTTPServer):
    """Plays, for each task a client is given, the script that belongs to it."""

    daemon_threads = True

    def __init__(self, scripts: Mapping[str, Script]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.scripts = scripts
        self.heard: list[Conversation] = []
        self.bodies: list[str] = []
        self.astray: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextlib.contextmanager
def serving(scripts: Mapping[str, Script]) -> Iterator[ModelServer]:
    with ModelServer(scripts) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: ModelServer
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        self.close_connection = True
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = f"{self.command} {self.path.partition('?')[0]}"
        try:
            for pattern, protocol in PROTOCOLS:
                if re.fullmatch(pattern, request):
                    return self._play(protocol, json.loads(body))
            for pattern, answer in ASIDES:
                if re.fullmatch(pattern, request):
                    return self._send(200, "application/json", json.dumps(answer).encode())
            raise Astray("no model's server is asked this")
        except Exception as error:  # whatever it is, the test must hear of it
            self.server.astray.append(f"{request}: {type(error).__name__}: {error}")
            refusal = {"error": {"type": "invalid_request_error", "message": f"the scripted model is lost: {error}"}}
            return self._send(400, "application/json", json.dumps(refusal).encode())

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_CONNECT = _answer  # noqa: N815

    def _play(self, protocol: Protocol, body: dict[str, Any]) -> None:
        talk = protocol.read(body)
        move = next_move(self.server.scripts, talk)
        if talk.tools:
            self.server.heard.append(talk)
            self.server.bodies.append(json.dumps(body))
        self._send(200, "text/event-stream", b"".join(event.encoded() for event in protocol.write(move, body)))

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *said: object) -> None:
        pass
