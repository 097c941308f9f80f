"""OpenAI's chat completions: what opencode speaks, and most that is called compatible."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.agents.conversation import Call, Conversation, Move, Result, Said
from tests.agents.protocols.wire import Event, fresh_id, text_of


def read(body: dict[str, Any]) -> Conversation:
    entries: list[Said | Result] = []
    called: dict[str, str] = {}
    for message in body["messages"]:
        match message["role"]:
            case "user":
                entries.append(Said(text_of(message["content"])))
            case "assistant":
                for call in message.get("tool_calls") or ():
                    called[call["id"]] = call["function"]["name"]
            case "tool":
                entries.append(Result(called[message["tool_call_id"]], text_of(message["content"])))
    return Conversation(tuple(tool["function"]["name"] for tool in body.get("tools") or ()), tuple(entries))


def write(move: Move, body: dict[str, Any]) -> Iterator[Event]:
    if isinstance(move, Call):
        function = {"name": move.tool, "arguments": Event.json(move.arguments)}
        delta: dict[str, Any] = {
            "tool_calls": [{"index": 0, "id": fresh_id("call"), "type": "function", "function": function}]
        }
    else:
        delta = {"content": move.text}
    chunk = {"id": fresh_id("chat"), "object": "chat.completion.chunk", "created": 0, "model": body["model"]}
    reason = "tool_calls" if isinstance(move, Call) else "stop"
    for choice in (
        {"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": None},
        {"index": 0, "delta": {}, "finish_reason": reason},
    ):
        yield Event({**chunk, "choices": [choice]})
    counted = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    yield Event({**chunk, "choices": [], "usage": counted})
    yield Event("[DONE]")
