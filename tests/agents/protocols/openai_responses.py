"""OpenAI's Responses: what codex speaks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.agents.conversation import Call, Conversation, Move, Result, Said
from tests.agents.protocols.wire import Event, fresh_id, text_of


def read(body: dict[str, Any]) -> Conversation:
    entries: list[Said | Result] = []
    called: dict[str, str] = {}
    for item in body["input"]:
        match item.get("type", "message"):
            case "message" if item["role"] == "user":
                entries.append(Said(text_of(item["content"])))
            case "function_call":
                called[item["call_id"]] = item["name"]
            case "function_call_output":
                entries.append(Result(called[item["call_id"]], text_of(item["output"])))
    return Conversation(tuple(_offered(body)), tuple(entries))


def write(move: Move, body: dict[str, Any]) -> Iterator[Event]:
    if isinstance(move, Call):
        item: dict[str, Any] = {
            "type": "function_call",
            "id": fresh_id("fc"),
            "call_id": fresh_id("call"),
            "name": move.tool,
            "arguments": Event.json(move.arguments),
            **_offered(body).get(move.tool, {}),
        }
    else:
        item = {
            "type": "message",
            "id": fresh_id("msg"),
            "role": "assistant",
            "content": [{"type": "output_text", "text": move.text, "annotations": []}],
        }
    response = {"id": fresh_id("resp"), "object": "response", "model": body["model"], "output": []}
    yield _event("response.created", response={**response, "status": "in_progress"})
    yield _event("response.output_item.added", output_index=0, item=item)
    yield _event("response.output_item.done", output_index=0, item=item)
    counted = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    yield _event("response.completed", response={**response, "status": "completed", "output": [item], "usage": counted})


def _offered(body: dict[str, Any]) -> dict[str, dict[str, str]]:
    """The names of the tools; for those in a namespace, as all of one tool server are, how a call says so."""
    names: dict[str, dict[str, str]] = {}
    for tool in body.get("tools", ()):
        if tool["type"] == "namespace":
            names |= {inner["name"]: {"namespace": tool["name"]} for inner in tool["tools"]}
        else:
            names[tool.get("name", tool["type"])] = {}
    return names


def _event(kind: str, **fields: Any) -> Event:
    return Event({"type": kind, **fields}, kind)
