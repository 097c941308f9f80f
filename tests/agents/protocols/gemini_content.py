"""Google's generateContent: what gemini speaks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.agents.conversation import Call, Conversation, Move, Result, Said
from tests.agents.protocols.wire import Event, text_of


def read(body: dict[str, Any]) -> Conversation:
    entries: list[Said | Result] = []
    for content in body["contents"]:
        for part in content["parts"]:
            if response := part.get("functionResponse"):
                # The client puts what a tool gave, or why it gave nothing, into a value of its own.
                gave = response["response"]
                entries.append(Result(response["name"], text_of(gave.get("output") or gave.get("error") or gave)))
            elif "text" in part and content.get("role") == "user":
                entries.append(Said(part["text"]))
    names = [tool["name"] for group in body.get("tools", ()) for tool in group.get("functionDeclarations", ())]
    return Conversation(tuple(names), tuple(entries))


def write(move: Move, body: dict[str, Any]) -> Iterator[Event]:
    if isinstance(move, Call):
        part: dict[str, Any] = {"functionCall": {"name": move.tool, "args": dict(move.arguments)}}
    else:
        part = {"text": move.text}
    candidate = {"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
    counted = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    yield Event({"candidates": [candidate], "usageMetadata": counted})
