"""What the output of a command-line agent says: its last words, what it used, what went wrong.

Output is whatever a program wrote, whole or cut off, in any version of it. Nothing here raises. What cannot be read is
left out; where that is what says how it ended, it did not end well.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from ordain.core.run.step_event import Usage
from ordain.core.text.limit import INTEGER_MAX
from ordain.ports.agent import Said
from ordain.ports.process import Finished

NOTHING = "it ended without a word of the model"
UNREAD = "what it wrote is not the JSON that it was to write"
LINE_MAX = 16 << 20
"""Of a longer line nothing is read."""
WORDS_MAX = 500
_OBJECTS_MAX = 50
_LOOKED_AT = 64 << 10
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)

_CLAUDE_TOKENS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
_CLAUDE_USAGE = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "tokens")

T = TypeVar("T")


class _TypedLine(msgspec.Struct, frozen=True):
    type: str = ""


def _lines(finished: Finished, kind: type[T], *ends: str) -> Iterator[T | None]:
    """The lines of JSON that are like this, in order; all there are, also of a long output. None is one of a type that
    says how it ended and that cannot be read."""
    decoder = msgspec.json.Decoder(kind)
    for line in _complete(finished):
        try:
            yield decoder.decode(line)
        except _UNREADABLE:
            with contextlib.suppress(*_UNREADABLE):
                if msgspec.json.decode(line, type=_TypedLine).type in ends:
                    yield None


def _object_in(finished: Finished, kind: type[T]) -> T | None:
    """The one object of JSON that an output is, or that its last line is."""
    text = b"".join(_parts(finished)).strip()
    for part in (text, text.rpartition(b"\n")[2]):
        try:
            return msgspec.json.decode(part, type=kind)
        except _UNREADABLE:
            continue
    return None


def at(value: Any, *names: str) -> Any:
    """What an object has under these names, one in the other; None where it has no such thing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def text_of(value: object) -> bytes:
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "replace")


def used(tokens: Iterable[float], costs: Iterable[float] = ()) -> Usage | None:
    """What an agent says it used, in all; None where that is nothing."""
    counts = [min(max(number, 0), INTEGER_MAX) for number in tokens]
    amounts = [max(number, 0.0) for number in costs]
    told = Usage(tokens=int(min(sum(counts), INTEGER_MAX)) or None, cost_usd=sum(amounts) or None)
    return told if told != Usage() else None


def unread(finished: Finished) -> Said:
    """Where an output is none of what it should be: as it is, and what standard error says last."""
    return Said(text=finished.output, error=last_line(finished.errors) or UNREAD)


def in_words(message: str) -> str:
    """What an error says, without the JSON that model's servers wrap it in."""
    head, brace, rest = message.partition("{")
    inner: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        inner = json.loads(brace + rest) if brace else None
    while isinstance(inner, dict) and isinstance(inner.get("error"), dict):
        inner = inner["error"]
    if isinstance(inner, dict) and isinstance(inner.get("message"), str):
        message = head + inner["message"]
    return " ".join(message.split())[:WORDS_MAX]


def last_line(errors: bytes) -> str:
    """The last line of what was written to standard error that says anything."""
    text = errors[-_LOOKED_AT:].decode("utf-8", "replace")
    return next((in_words(line) for line in reversed(text.splitlines()) if line.strip()), "")


def objects(text: bytes) -> Iterator[Any]:
    """The objects of JSON that begin a line in a text with other things in it; not more than anybody writes."""
    decoder, said = json.JSONDecoder(), text[-_LOOKED_AT:].decode("utf-8", "replace")
    start = 0 if said.startswith("{") else said.find("\n{") + 1
    for _ in range(_OBJECTS_MAX):
        if not said.startswith("{", start):
            return
        with contextlib.suppress(ValueError, RecursionError):
            yield decoder.raw_decode(said, start)[0]
        start = said.find("\n{", start) + 1
        if start == 0:
            return


def _parts(finished: Finished) -> Iterator[bytes]:
    if finished.whole is not None and finished.whole.parts is not None:
        yield from finished.whole.parts()
    else:
        yield finished.output


def _complete(finished: Finished) -> Iterator[bytes]:
    """The lines that are there from their beginning; that of a cut output is in the middle of one."""
    whole = finished.whole is not None and finished.whole.parts is not None
    skipping = not whole and finished.output_bytes > len(finished.output)
    rest = b""
    for part in _parts(finished):
        first, *more = part.split(b"\n")
        rest += b"" if skipping else first
        for line in more:
            if not skipping:
                yield rest
            rest, skipping = line, False
        if len(rest) > LINE_MAX:
            rest, skipping = b"", True
    if not skipping:
        yield rest


# --- Claude Code, and every agent that writes one object -------------------------------------------------------------


class _Result(msgspec.Struct, frozen=True):
    result: Any = None
    is_error: bool = False
    subtype: str = ""
    errors: list[str] = []
    total_cost_usd: float | None = None
    usage: dict[str, Any] | None = None
    by_model: dict[str, dict[str, Any]] = msgspec.field(name="modelUsage", default_factory=dict)
    """With all that it asked models beside the conversation."""


def read_object(finished: Finished) -> Said:
    """One object: `result` is what it says, `usage` and `total_cost_usd` what it used; `is_error` decides, for the
    `subtype` of an answer that a server did not give is `success`."""
    said = _object_in(finished, _Result)
    if said is None:
        return unread(finished)
    counts = [counted.get(name) for counted in said.by_model.values() for name in _CLAUDE_TOKENS]
    if not counts:
        counts = [(said.usage or {}).get(name) for name in _CLAUDE_USAGE]
    error = None
    if said.is_error:
        error = in_words("; ".join(said.errors) or text_of(said.result).decode() or said.subtype) or "it says no more"
    tokens = [one for one in counts if isinstance(one, int | float) and not isinstance(one, bool)]
    cost = () if said.total_cost_usd is None else (said.total_cost_usd,)
    return Said(text=text_of(said.result), used=used(tokens, cost), error=error)


# --- Codex: lines of JSON --------------------------------------------------------------------------------------------


class _TypedText(msgspec.Struct, frozen=True):
    type: str = ""
    text: str = ""


class _CodexUsage(msgspec.Struct, frozen=True):
    input_tokens: float = 0
    output_tokens: float = 0


class _CodexError(msgspec.Struct, frozen=True):
    message: str = ""


class _CodexLine(msgspec.Struct, frozen=True):
    type: str = ""
    item: _TypedText | None = None
    usage: _CodexUsage | None = None
    error: _CodexError | None = None


def read_codex(finished: Finished) -> Said:
    text, error, ended, tokens = "", None, False, list[float]()
    for line in _lines(finished, _CodexLine, "turn.completed", "turn.failed"):
        if line is None:
            ended, error = True, last_line(finished.errors) or UNREAD
        elif line.type == "item.completed" and line.item is not None and line.item.type == "agent_message":
            text = line.item.text
        elif line.type == "turn.completed":
            ended, error = True, None
            tokens += [line.usage.input_tokens, line.usage.output_tokens] if line.usage is not None else []
        elif line.type == "turn.failed":
            ended, error = True, in_words(line.error.message if line.error is not None else "") or NOTHING
    if not ended:
        error = last_line(finished.errors) or NOTHING
    return Said(text=text.encode("utf-8", "replace"), used=used(tokens), error=error)


# --- Gemini CLI: one object when it ends, on standard error where it ends badly --------------------------------------


class _Total(msgspec.Struct, frozen=True):
    total: float = 0


class _GeminiModel(msgspec.Struct, frozen=True):
    tokens: _Total = _Total()


class _Stats(msgspec.Struct, frozen=True):
    models: dict[str, _GeminiModel] = {}


class _GeminiEnded(msgspec.Struct, frozen=True):
    response: str | None = None
    stats: _Stats = _Stats()
    error: Any = None


def read_gemini(finished: Finished) -> Said:
    told = next((one["error"] for one in objects(finished.errors) if "error" in one), None)
    ended = _object_in(finished, _GeminiEnded)
    if ended is None and told is None:
        return unread(finished)
    ended = ended if ended is not None else _GeminiEnded()
    fault = ended.error or (told if ended.response is None else None)
    error = None
    if fault is not None:
        message = at(fault, "message") or fault
        error = in_words(message if isinstance(message, str) else text_of(fault).decode()) or NOTHING
    tokens = [model.tokens.total for model in ended.stats.models.values()]
    return Said(text=text_of(ended.response), used=used(tokens), error=error)


# --- opencode: lines of JSON -----------------------------------------------------------------------------------------


class _Part(msgspec.Struct, frozen=True):
    text: str = ""
    message: str = msgspec.field(name="messageID", default="")
    tokens: _Total = _Total()
    cost: float = 0


class _Data(msgspec.Struct, frozen=True):
    message: str = ""
    status: int | None = msgspec.field(name="statusCode", default=None)


class _Error(msgspec.Struct, frozen=True):
    name: str = ""
    data: _Data = _Data()


class _OpencodeLine(msgspec.Struct, frozen=True):
    type: str = ""
    part: _Part = _Part()
    error: _Error | None = None


def read_opencode(finished: Finished) -> Said:
    texts, last, error, ended = list[str](), "", None, False
    tokens, costs = list[float](), list[float]()
    for line in _lines(finished, _OpencodeLine, "error"):
        if line is None:
            error = last_line(finished.errors) or UNREAD
        elif line.type == "text":
            texts = [*(texts if line.part.message == last else ()), line.part.text]
            last = line.part.message
        elif line.type == "step_finish":
            ended = True
            tokens.append(line.part.tokens.total)
            costs.append(line.part.cost)
        elif line.type == "error" and line.error is not None:
            status = f"{line.error.data.status} " if line.error.data.status is not None else ""
            error = in_words(f"{status}{line.error.data.message or line.error.name}") or NOTHING
    if not ended and error is None:
        error = last_line(finished.errors) or NOTHING
    return Said(text="\n".join(texts).encode("utf-8", "replace"), used=used(tokens, costs), error=error)


# --- pi: lines of JSON -----------------------------------------------------------------------------------------------


class _Used(msgspec.Struct, frozen=True):
    tokens: float = msgspec.field(name="totalTokens", default=0)
    cost: _Total = _Total()


class _Message(msgspec.Struct, frozen=True):
    role: str = ""
    content: list[_TypedText] = []
    usage: _Used = _Used()
    stopped: str = msgspec.field(name="stopReason", default="")
    error: str = msgspec.field(name="errorMessage", default="")


class _PiLine(msgspec.Struct, frozen=True):
    type: str = ""
    message: _Message | None = None


def read_pi(finished: Finished) -> Said:
    text, tokens, costs = "", list[float](), list[float]()
    wrong: str | None = last_line(finished.errors) or NOTHING
    for line in _lines(finished, _PiLine, "turn_end"):
        if line is None:
            wrong = last_line(finished.errors) or UNREAD
            continue
        if line.type != "turn_end" or line.message is None:
            continue
        message = line.message
        text = "\n".join(part.text for part in message.content if part.type == "text")
        # It ends with status 0 all the same, and may have tried again since.
        wrong = None if message.stopped not in ("error", "aborted") else in_words(message.error) or NOTHING
        tokens.append(message.usage.tokens)
        costs.append(message.usage.cost.total)
    return Said(text=text.encode("utf-8", "replace"), used=used(tokens, costs), error=wrong)
