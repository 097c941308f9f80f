"""Anthropic's Messages: what claude speaks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.agents.conversation import Call, Conversation, Move, Result, Said
from tests.agents.protocols.wire import Event, fresh_id, text_of


def read(body: dict[str, Any]) -> Conversation:
    entries: list[Said | Result] = []
    called: dict[str, str] = {}
    for message in body["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            match block["type"]:
                case "tool_use":
                    called[block["id"]] = block["name"]
                case "tool_result":
                    entries.append(Result(called[block["tool_use_id"]], text_of(block.get("content", ""))))
                case "text" if message["role"] == "user":
                    entries.append(Said(block["text"]))
    return Conversation(tuple(tool["name"] for tool in body.get("tools", ())), tuple(entries))


def write(move: Move, body: dict[str, Any]) -> Iterator[Event]:
    message = {
        "id": fresh_id("msg"),
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    if isinstance(move, Call):
        block = {"type": "tool_use", "id": fresh_id("toolu"), "name": move.tool, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": Event.json(move.arguments)}
    else:
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": move.text}
    yield _event("message_start", message=message)
    yield _event("content_block_start", index=0, content_block=block)
    yield _event("content_block_delta", index=0, delta=delta)
    yield _event("content_block_stop", index=0)
    reason = "tool_use" if isinstance(move, Call) else "end_turn"
    yield _event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage={"output_tokens": 1})
    yield _event("message_stop")


def _event(kind: str, **fields: Any) -> Event:
    return Event({"type": kind, **fields}, kind)
