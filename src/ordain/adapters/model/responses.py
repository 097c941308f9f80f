"""OpenAI's Responses. Nothing is stored there (`store: false`): what a model thought comes back to us encrypted, and
every item of an answer goes back as it came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ordain.adapters.model.wire import (
    AnswerReader,
    Broken,
    ProviderError,
    count,
    error_in_stream,
    mapping,
    plain_answer,
    provider_error,
    tool_use,
    words,
)
from ordain.core.policy.model_choice import ModelAccess
from ordain.ports.model import Message, ModelRequest, ModelTurn, ModelUsage, StopReason, ToolAnswers, UserText

_THOUGHTS = "reasoning.encrypted_content"


class Responses:
    """adapters.model.wire.WireProtocol."""

    def url(self, access: ModelAccess) -> str:
        return f"{access.base_url}/responses"

    def headers(self) -> Mapping[str, str]:
        return {}

    def body(self, access: ModelAccess, request: ModelRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": access.name,
            "input": _items(request.messages),
            "max_output_tokens": request.output_tokens_max,
            "include": [_THOUGHTS],
            "store": False,
            "stream": True,
        }
        if request.system:
            body["instructions"] = request.system
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.schema,
                    "strict": False,
                }
                for tool in request.tools
            ]
        return body

    def reader(self) -> AnswerReader:
        return _ResponsesAnswer()

    def mended(self, body: Mapping[str, Any], error: ProviderError) -> dict[str, Any] | None:
        """Models that do not think cannot be asked for what they thought."""
        about = error.param.startswith("include") or "encrypted content" in error.message.lower()
        return (
            {name: value for name, value in body.items() if name != "include"} if about and "include" in body else None
        )


def _items(messages: Sequence[Message]) -> list[Any]:
    items: list[Any] = []
    for message in messages:
        match message:
            case ModelTurn():
                items += message.raw
            case UserText(text=text):
                items.append({"role": "user", "content": [{"type": "input_text", "text": text}]})
            case ToolAnswers(answers=answers, text=text):
                items += (
                    {"type": "function_call_output", "call_id": one.use_id, "output": plain_answer(one)}
                    for one in answers
                )
                if text:
                    items.append({"role": "user", "content": [{"type": "input_text", "text": text}]})
    return items


class _ResponsesAnswer:
    def __init__(self) -> None:
        self.complete = False
        self._items: dict[int, Mapping[str, Any]] = {}
        self._response: Mapping[str, Any] = {}

    def take(self, event: Mapping[str, Any]) -> str:
        match event.get("type"):
            case "response.output_text.delta" | "response.refusal.delta":
                return words(event.get("delta"))
            case "response.output_item.done":
                self._items[count(event.get("output_index"))] = mapping(event.get("item"))
            case "response.completed" | "response.incomplete":
                self._response, self.complete = mapping(event.get("response")), True
            case "response.failed":
                error = provider_error(event.get("response"))
                raise error_in_stream(error) if error is not None else Broken("it failed, and does not say why")
            case "error":
                error = provider_error(event) or provider_error({"error": event})
                raise error_in_stream(error) if error is not None else Broken("an error that says nothing")
        return ""

    def turn(self) -> ModelTurn:
        given = self._response.get("output")
        items = [mapping(one) for one in given] if isinstance(given, list) else []
        # Some servers leave out of the last event what came before it.
        items = items or [item for _, item in sorted(self._items.items())]
        reason = words(mapping(self._response.get("incomplete_details")).get("reason"))
        stop = StopReason.ENDED
        if reason or self._response.get("status") == "incomplete":
            stop = StopReason.REFUSED if reason == "content_filter" else StopReason.TRUNCATED
        text, uses, raw = "", [], []
        for item in items:
            if item.get("type") == "function_call":
                use = tool_use(words(item.get("call_id")), words(item.get("name")), words(item.get("arguments")))
                if stop is StopReason.TRUNCATED and (use.fault or item.get("status") == "incomplete"):
                    continue  # half a call, to which there is no answer
                uses.append(use)
            elif item.get("type") == "message":
                said, refused = _said(item)
                text += said
                stop = StopReason.REFUSED if refused and stop is StopReason.ENDED else stop
            elif item.get("type") == "reasoning" and not item.get("encrypted_content"):
                continue  # it is stored nowhere, so it cannot be named
            raw.append(item)
        if uses and stop is StopReason.ENDED:
            stop = StopReason.TOOLS
        return ModelTurn(
            text=text,
            uses=tuple(uses),
            stop=stop,
            usage=self._usage(),
            raw=raw,
            model=words(self._response.get("model")),
        )

    def _usage(self) -> ModelUsage:
        used = mapping(self._response.get("usage"))
        return ModelUsage(
            input=count(used.get("input_tokens")),
            output=count(used.get("output_tokens")),
            cached=count(mapping(used.get("input_tokens_details")).get("cached_tokens")),
        )


def _said(item: Mapping[str, Any]) -> tuple[str, bool]:
    """The text of a message, and whether it refuses."""
    content = item.get("content")
    parts = [mapping(part) for part in content] if isinstance(content, list) else []
    text = "".join(words(part.get("text")) or words(part.get("refusal")) for part in parts)
    return text, any(part.get("type") == "refusal" for part in parts)
