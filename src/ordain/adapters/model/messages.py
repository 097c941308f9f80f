"""Anthropic's Messages. Thinking is signed, and missed in a turn with tools: every block goes back as it came."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ordain.adapters.model.wire import (
    AnswerReader,
    Broken,
    WireProtocol,
    count,
    error_in_stream,
    mapping,
    provider_error,
    tool_use,
    words,
)
from ordain.core.policy.agent import ModelAccess, address_of
from ordain.ports.model import Message, ModelRequest, ModelTurn, ModelUsage, StopReason, ToolAnswers, ToolUse, UserText

_CACHED = {"cache_control": {"type": "ephemeral"}}
"""A dialogue with tools sends the same beginning again and again."""
_STOPS = {
    "max_tokens": StopReason.TRUNCATED,
    "model_context_window_exceeded": StopReason.TRUNCATED,
    "refusal": StopReason.REFUSED,
}
_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
"""By the kind of a delta, what of a block it continues: the block has that under the same name."""


class Messages(WireProtocol):
    headers: Mapping[str, str] = {"anthropic-version": "2023-06-01"}

    def url(self, access: ModelAccess) -> str:
        path = "/messages" if access.base_url.partition("?")[0].rstrip("/").endswith("/v1") else "/v1/messages"
        return address_of(access.base_url, path)

    def body(self, access: ModelAccess, request: ModelRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": access.name,
            "max_tokens": request.output_tokens_max,
            "messages": _messages(request.messages),
            "stream": True,
        }
        if request.system:
            body["system"] = [{"type": "text", "text": request.system, **_CACHED}]
        if request.tools:
            body["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
                for tool in request.tools
            ]
        return body

    def reader(self) -> AnswerReader:
        return _MessagesAnswer()


def _messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = []
    for message in messages:
        match message:
            case ModelTurn():
                written.append({"role": "assistant", "content": message.raw})
                continue
            case UserText(text=text):
                content: list[dict[str, Any]] = [{"type": "text", "text": text}]
            case ToolAnswers(answers=answers, text=text):
                content = [
                    {
                        "type": "tool_result",
                        "tool_use_id": one.use_id,
                        "content": one.text,
                        **({"is_error": True} if one.is_error else {}),
                    }
                    for one in answers
                ]
                content += [{"type": "text", "text": text}] if text else []
        written.append({"role": "user", "content": content})
    if written and written[-1]["role"] == "user":
        written[-1]["content"][-1] |= _CACHED
    return written


class _MessagesAnswer:
    def __init__(self) -> None:
        self.complete = False
        self._blocks: dict[int, dict[str, Any]] = {}
        self._closed: set[int] = set()
        self._written: dict[int, list[str]] = {}
        """The arguments of calls, as they are written piece by piece."""
        self._parts: dict[tuple[int, str], list[str]] = {}
        self._usage: dict[str, int] = {}
        self._stop = self._model = ""

    def take(self, event: Mapping[str, Any]) -> str:
        match event.get("type"):
            case "message_start":
                message = mapping(event.get("message"))
                self._model = words(message.get("model"))
                self._count(message.get("usage"))
            case "content_block_start":
                block = self._blocks[count(event.get("index"))] = dict(mapping(event.get("content_block")))
                return words(block.get("text")) if block.get("type") == "text" else ""
            case "content_block_delta":
                return self._delta(count(event.get("index")), mapping(event.get("delta")))
            case "content_block_stop":
                self._closed.add(count(event.get("index")))
            case "message_delta":
                self._stop = words(mapping(event.get("delta")).get("stop_reason")) or self._stop
                self._count(event.get("usage"))
            case "message_stop":
                self.complete = True
            case "error":
                error = provider_error(event)
                raise error_in_stream(error) if error is not None else Broken("an error that says nothing")
        return ""

    def _count(self, usage: Any) -> None:
        """Counts are totals so far, not differences."""
        self._usage |= {name: count(value) for name, value in mapping(usage).items() if isinstance(value, int)}

    def _delta(self, index: int, delta: Mapping[str, Any]) -> str:
        kind = words(delta.get("type"))
        if index not in self._blocks:
            raise Broken("a piece of a block that never began")
        if kind == "input_json_delta":
            self._written.setdefault(index, []).append(words(delta.get("partial_json")))
        elif kind in _DELTAS:
            piece = words(delta.get(_DELTAS[kind]))
            self._parts.setdefault((index, _DELTAS[kind]), []).append(piece)
            return piece if kind == "text_delta" else ""
        return ""

    def turn(self) -> ModelTurn:
        for (index, field), pieces in self._parts.items():
            self._blocks[index][field] = words(self._blocks[index].get(field)) + "".join(pieces)
        stop, content, uses = _STOPS.get(self._stop, StopReason.ENDED), [], []
        for index, block in sorted(self._blocks.items()):
            if block.get("type") == "tool_use":
                use = self._use(index, block)
                if use.fault and stop is StopReason.TRUNCATED:
                    continue  # half a call, to which there is no answer
                uses.append(use)
                block["input"] = dict(use.arguments)
            elif block.get("type") == "text" and not block.get("text"):
                continue  # not taken back
            content.append(block)
        if uses and stop is StopReason.ENDED:
            stop = StopReason.TOOLS
        used = self._usage
        read, made = used.get("cache_read_input_tokens", 0), used.get("cache_creation_input_tokens", 0)
        return ModelTurn(
            text="".join(words(block.get("text")) for block in content if block.get("type") == "text"),
            uses=tuple(uses),
            stop=stop,
            usage=ModelUsage(
                input=used.get("input_tokens", 0) + read + made, output=used.get("output_tokens", 0), cached=read
            ),
            raw=content or [{"type": "text", "text": "(nothing)"}],
            model=self._model,
        )

    def _use(self, index: int, block: Mapping[str, Any]) -> ToolUse:
        written = "".join(self._written.get(index, ())) or json.dumps(block.get("input") or {})
        use = tool_use(words(block.get("id")), words(block.get("name")), written)
        return use if index in self._closed else ToolUse(id=use.id, name=use.name, fault="they were cut off")
