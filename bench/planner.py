"""What a round of planning costs besides its model: a whole planning against a server that answers in 300 ms, beside
the bare client asking it as often."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from bench.measure import Line, Size, compare
from ordain.adapters.model.client import HttpModels
from ordain.app.app import App
from ordain.assemble.workspace import open_at_terminal
from ordain.core.approval.approval import Channel, Principal
from ordain.core.plan.canonical import sha256
from ordain.core.policy.agent import model_access
from ordain.planner.outcome import PlanRequest
from ordain.planner.planner import Planner
from ordain.ports.model import ModelRequest, UserText

__all__ = ["measure"]

TARGET = 1.15
ANSWERS_IN_S = 0.3
_PLAN = "# Raise the version\n\n1. `sed -i s/1.0/1.1/ VERSION`\n2. `grep -Fx 1.1 VERSION`\n"
_MOVES: Sequence[tuple[str, dict[str, str]]] = (
    ("read_file", {"path": "VERSION"}),
    ("submit_plan", {"document": _PLAN.replace("sed", "sde")}),
    ("submit_plan", {"document": _PLAN}),
)


async def measure(size: Size) -> list[Line]:
    place = size.directory / "planned"
    place.mkdir()
    (place / "VERSION").write_text("1.0\n")
    kim = Principal(name="kim", channel=Channel.TERMINAL)
    with _serving() as url:
        settings = f'[planner]\nmodel = "openai-chat:m"\nbase_url = "{url}"\n'
        (place / "ordain.toml").write_text(settings)
        opened = open_at_terminal(place, exact=True)
        await opened.approvals.trust(sha256(settings.encode()), kim)
        app = App(msgspec.structs.replace(opened.ports, outlines=None))
        access = model_access("openai-chat:m", base_url=url)
        request = ModelRequest(system="", messages=(UserText(text="Plan."),))

        async def planned() -> None:
            found = await Planner(app).draft(PlanRequest(goal="raise the version"), kim)
            assert found.good and found.rounds == 2, found

        async def bare() -> None:
            async with HttpModels().client(access, "") as client:
                for _ in _MOVES:
                    await client.respond(request, lambda news: None)

        await planned()
        await bare()
        pairs = [(await _timed(planned()), await _timed(bare())) for _ in range(size.pick(9, 3))]
        await app.close()
        await opened.close()
    return [compare("planner", "planning of three turns", "the bare client", pairs, target=TARGET)]


async def _timed(work: Any) -> float:
    begun = time.perf_counter()
    await work
    return time.perf_counter() - begun


@contextmanager
def _serving() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()


class _Server(BaseHTTPRequestHandler):
    """A server of Chat Completions that makes one move after the other."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(ANSWERS_IN_S)
        turn = sum(one["role"] == "assistant" for one in asked["messages"])
        name, args = _MOVES[turn]
        call = {"index": 0, "id": f"call_{turn}", "function": {"name": name, "arguments": json.dumps(args)}}
        choice = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
        used = {"choices": [], "usage": {"prompt_tokens": 60, "completion_tokens": 7}}
        events = [{"choices": [choice]}, used]
        body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        self.send_response_only(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *said: object) -> None:
        pass
