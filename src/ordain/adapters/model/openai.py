"""OpenAI's two protocols: Chat Completions, as every server that is called compatible speaks them, and Responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ordain.adapters.model.wire import (
    AnswerReader,
    Broken,
    ProviderError,
    WireProtocol,
    count,
    error_in_stream,
    mapping,
    plain_answer,
    provider_error,
    tool_use,
    words,
)
from ordain.core.policy.agent import PROVIDERS, ModelAccess
from ordain.ports.model import Message, ModelRequest, ModelTurn, ModelUsage, StopReason, ToolAnswers, UserText

# --- Chat Completions ------------------------------------------------------------------------------------------------
# Servers differ in small things: calls without an index or an id, a last chunk without usage, thoughts under several
# names. What a delta brings beside text and calls is kept and goes back with the calls that it came with.

_STOPS = {"length": StopReason.TRUNCATED, "content_filter": StopReason.REFUSED}
_OURS = frozenset({"role", "content", "tool_calls", "refusal", "function_call", "audio", "annotations"})


class Chat(WireProtocol):
    path = "/chat/completions"

    def body(self, access: ModelAccess, request: ModelRequest) -> dict[str, Any]:
        system = [{"role": "system", "content": request.system}] if request.system else []
        # OpenAI's own models that think want the new name, which servers like it may not know yet.
        own = access.base_url == PROVIDERS["openai-chat"].base_url
        body: dict[str, Any] = {
            "model": access.name,
            "messages": [*system, *_messages(request.messages)],
            "max_completion_tokens" if own else "max_tokens": request.output_tokens_max,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            told = (
                {"name": one.name, "description": one.description, "parameters": one.schema} for one in request.tools
            )
            body["tools"] = [{"type": "function", "function": one} for one in told]
        return body

    def reader(self) -> AnswerReader:
        return _ChatAnswer()

    def mended(self, body: Mapping[str, Any], error: ProviderError) -> dict[str, Any] | None:
        """A server that knows only one name for the limit, or no options of streams."""
        said = f"{error.param} {error.message}"
        left = dict(body)
        if "max_tokens" in left and "max_completion_tokens" in said:
            left["max_completion_tokens"] = left.pop("max_tokens")
        elif "max_completion_tokens" in left and "max_completion_tokens" in said:
            left["max_tokens"] = left.pop("max_completion_tokens")
        elif "stream_options" in left and "stream_options" in said:
            del left["stream_options"]
        return left if left != body else None


def _messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = []
    for message in messages:
        match message:
            case ModelTurn():
                written.append(message.raw)
            case UserText(text=text):
                written.append({"role": "user", "content": text})
            case ToolAnswers(answers=answers, text=text):
                written += (
                    {"role": "tool", "tool_call_id": one.use_id, "content": plain_answer(one)} for one in answers
                )
                written += [{"role": "user", "content": text}] if text else []
    return written


class _Call:
    """A call, as it arrives."""

    def __init__(self, use_id: str) -> None:
        self.id, self.name, self.written = use_id, "", [""]
        self.more: dict[str, Any] = {}


class _ChatAnswer:
    def __init__(self) -> None:
        self.complete = False
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[_Call] = []
        self._at: dict[int, _Call] = {}
        self._more: dict[str, Any] = {}
        self._usage: Mapping[str, Any] = {}
        self._stop = self._model = ""

    def take(self, event: Mapping[str, Any]) -> str:
        if (error := provider_error(event)) is not None:
            raise error_in_stream(error)
        self._model = words(event.get("model")) or self._model
        self._usage = mapping(event.get("usage")) or self._usage
        choices = event.get("choices")
        choice = mapping(choices[0]) if isinstance(choices, list) and choices else {}
        delta = mapping(choice.get("delta"))
        calls = delta.get("tool_calls")
        for number, call in enumerate(calls if isinstance(calls, list) else ()):
            self._call(number, mapping(call))
        for name, value in delta.items():
            if name not in _OURS and value is not None:
                self._more[name] = _joined(self._more.get(name), value)
        if stop := words(choice.get("finish_reason")):
            self._stop, self.complete = stop, True
        said, refused = words(delta.get("content")), words(delta.get("refusal"))
        self._text.append(said)
        self._refusal.append(refused)
        return said or refused

    def _call(self, number: int, piece: Mapping[str, Any]) -> None:
        index = piece["index"] if isinstance(piece.get("index"), int) else number
        use_id, function = words(piece.get("id")), mapping(piece.get("function"))
        call = self._at.get(index)
        # A server that numbers nothing sends each call whole, with an id of its own.
        if call is None or (use_id and call.id and use_id != call.id):
            call = self._at[index] = _Call(use_id)
            self._calls.append(call)
        call.id = call.id or use_id
        call.name = call.name or words(function.get("name"))
        call.written.append(words(function.get("arguments")))
        call.more |= {name: value for name, value in piece.items() if name not in ("index", "id", "function", "type")}

    def turn(self) -> ModelTurn:
        stop = _STOPS.get(self._stop, StopReason.ENDED)
        text, refusal = "".join(self._text), "".join(self._refusal)
        uses, raw_calls = [], []
        for number, call in enumerate(self._calls, 1):
            written = "".join(call.written)
            use = tool_use(call.id or f"call_{number}", call.name, written)
            if use.fault and stop is StopReason.TRUNCATED:
                continue  # half a call, to which there is no answer
            uses.append(use)
            # What is no JSON no server takes back.
            function = {"name": use.name, "arguments": "{}" if use.fault or not written else written}
            raw_calls.append({"id": use.id, "type": "function", "function": function, **call.more})
        if refusal and stop is StopReason.ENDED and not uses:
            stop = StopReason.REFUSED
        if uses and stop is StopReason.ENDED:
            stop = StopReason.TOOLS
        raw: dict[str, Any] = {"role": "assistant", "content": text or (None if uses else refusal)}
        raw |= {"tool_calls": raw_calls, **self._more} if raw_calls else {}
        used, cost = self._usage, self._usage.get("cost")
        return ModelTurn(
            text=text or refusal,
            uses=tuple(uses),
            stop=stop,
            usage=ModelUsage(
                input=count(used.get("prompt_tokens")),
                output=count(used.get("completion_tokens")),
                cached=count(mapping(used.get("prompt_tokens_details")).get("cached_tokens")),
                cost_usd=float(cost) if isinstance(cost, int | float) and 0 <= cost < 1e6 else None,
            ),
            raw=raw,
            model=self._model,
        )


def _joined(before: Any, value: Any) -> Any:
    """A part of an answer that comes in pieces."""
    if isinstance(before, str) and isinstance(value, str):
        return before + value
    if isinstance(before, list) and isinstance(value, list):
        return before + value
    return value


# --- Responses -------------------------------------------------------------------------------------------------------
# Nothing is stored there (`store: false`): what a model thought comes back to us encrypted, and every item of an answer
# goes back as it came.

_THOUGHTS = "reasoning.encrypted_content"


class Responses(WireProtocol):
    path = "/responses"

    def body(self, access: ModelAccess, request: ModelRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": access.name,
            "input": _response_items(request.messages),
            "max_output_tokens": request.output_tokens_max,
            "include": [_THOUGHTS],
            "store": False,
            "stream": True,
        }
        if request.system:
            body["instructions"] = request.system
        if request.tools:
            told = (
                {"name": one.name, "description": one.description, "parameters": one.schema} for one in request.tools
            )
            body["tools"] = [{"type": "function", **one, "strict": False} for one in told]
        return body

    def reader(self) -> AnswerReader:
        return _ResponsesAnswer()

    def mended(self, body: Mapping[str, Any], error: ProviderError) -> dict[str, Any] | None:
        """Models that do not think cannot be asked for what they thought."""
        about = error.param.startswith("include") or "encrypted content" in error.message.lower()
        left = {name: value for name, value in body.items() if name != "include"}
        return left if about and left != body else None


def _response_items(messages: Sequence[Message]) -> list[Any]:
    items: list[Any] = []
    for message in messages:
        match message:
            case ModelTurn():
                items += message.raw
            case UserText(text=text):
                items.append({"role": "user", "content": [{"type": "input_text", "text": text}]})
            case ToolAnswers(answers=answers, text=text):
                kind = {"type": "function_call_output"}
                items += ({**kind, "call_id": one.use_id, "output": plain_answer(one)} for one in answers)
                items += [{"role": "user", "content": [{"type": "input_text", "text": text}]}] if text else []
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
        used, model = mapping(self._response.get("usage")), words(self._response.get("model"))
        usage = ModelUsage(
            input=count(used.get("input_tokens")),
            output=count(used.get("output_tokens")),
            cached=count(mapping(used.get("input_tokens_details")).get("cached_tokens")),
        )
        return ModelTurn(text=text, uses=tuple(uses), stop=stop, usage=usage, raw=raw, model=model)


def _said(item: Mapping[str, Any]) -> tuple[str, bool]:
    """The text of a message, and whether it refuses."""
    content = item.get("content")
    parts = [mapping(part) for part in content] if isinstance(content, list) else []
    text = "".join(words(part.get("text")) or words(part.get("refusal")) for part in parts)
    return text, any(part.get("type") == "refusal" for part in parts)
