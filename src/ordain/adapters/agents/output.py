"""What the output of a command-line agent says: its last words, what it used, what went wrong.

Output is whatever a program wrote, whole or cut off, in any version of it. Nothing here raises: what cannot be read is
left out.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

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

_CLAUDE_TOKENS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
_CLAUDE_USAGE = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "tokens")


def _objects_of(texts: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Those of these texts that are objects of JSON."""
    for text in texts:
        with contextlib.suppress(msgspec.MsgspecError, ValueError, RecursionError):
            found = msgspec.json.decode(text)
            if isinstance(found, dict):
                yield found


def _lines(finished: Finished) -> Iterator[dict[str, Any]]:
    """The lines that are objects of JSON; all there are, also of a long output."""
    return _objects_of(_complete(finished))


def _object_in(finished: Finished) -> dict[str, Any] | None:
    """The one object of JSON that an output is, or that its last line is."""
    text = b"".join(_parts(finished)).strip()
    return next(_objects_of((text, text.rpartition(b"\n")[2])), None)


def at(value: Any, *names: str) -> Any:
    """What an object has under these names, one in the other; None where it has no such thing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _text(value: Any, *names: str) -> str:
    found = at(value, *names)
    return found if isinstance(found, str) else ""


def _all(value: Any, *names: str) -> list[Any]:
    """What is in the list or object that is there."""
    found = at(value, *names)
    return list(found.values()) if isinstance(found, dict) else found if isinstance(found, list) else []


def text_of(value: object) -> bytes:
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "replace")


def used(tokens: Iterable[Any], costs: Iterable[Any] = ()) -> Usage | None:
    """What an agent says it used, in all; None where that is nothing. What is no number does not count."""
    counts = [min(max(number, 0), INTEGER_MAX) for number in tokens if type(number) in (int, float)]
    amounts = [max(number, 0.0) for number in costs if type(number) in (int, float)]
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


# --- Each program ----------------------------------------------------------------------------------------------------


def read_object(finished: Finished) -> Said:
    """Claude Code, and every agent that writes one object: `result` is what it says, `usage` and `total_cost_usd` what
    it used; `is_error` decides, for the `subtype` of an answer that a server did not give is `success`."""
    if (said := _object_in(finished)) is None:
        return unread(finished)
    # By model there is all that it asked beside the conversation, too.
    counts = [at(counted, name) for counted in _all(said, "modelUsage") for name in _CLAUDE_TOKENS]
    counts = counts or [at(said, "usage", name) for name in _CLAUDE_USAGE]
    error = None
    if said.get("is_error") is True:
        errors = "; ".join(map(_text, _all(said, "errors")))
        error = in_words(errors or text_of(said.get("result")).decode() or _text(said, "subtype")) or "it says no more"
    return Said(text=text_of(said.get("result")), used=used(counts, [said.get("total_cost_usd")]), error=error)


def read_codex(finished: Finished) -> Said:
    """Lines of JSON."""
    text, error, ended, tokens = "", None, False, list[Any]()
    for line in _lines(finished):
        kind = _text(line, "type")
        if kind == "item.completed" and at(line, "item", "type") == "agent_message":
            text = _text(line, "item", "text")
        elif kind == "turn.completed":
            ended, error = True, None
            tokens += [at(line, "usage", "input_tokens"), at(line, "usage", "output_tokens")]
        elif kind == "turn.failed":
            ended, error = True, in_words(_text(line, "error", "message")) or NOTHING
    if not ended:
        error = last_line(finished.errors) or NOTHING
    return Said(text=text_of(text), used=used(tokens), error=error)


def read_gemini(finished: Finished) -> Said:
    """One object when it ends, on standard error where it ends badly."""
    told = next((one["error"] for one in objects(finished.errors) if "error" in one), None)
    ended = _object_in(finished)
    if ended is None and told is None:
        return unread(finished)
    fault = at(ended, "error") or (told if at(ended, "response") is None else None)
    error = None
    if fault is not None:
        error = in_words(_text(fault, "message") or text_of(fault).decode()) or NOTHING
    tokens = [at(model, "tokens", "total") for model in _all(ended, "stats", "models")]
    return Said(text=text_of(at(ended, "response")), used=used(tokens), error=error)


def read_opencode(finished: Finished) -> Said:
    """Lines of JSON; the texts of the last message are what it says."""
    texts, last, error, ended = list[str](), None, None, False
    tokens, costs = list[Any](), list[Any]()
    for line in _lines(finished):
        kind, part, fault = _text(line, "type"), at(line, "part"), at(line, "error")
        if kind == "text":
            texts = [*(texts if at(part, "messageID") == last else ()), _text(part, "text")]
            last = at(part, "messageID")
        elif kind == "step_finish":
            ended = True
            tokens.append(at(part, "tokens", "total"))
            costs.append(at(part, "cost"))
        elif kind == "error" and isinstance(fault, dict):
            status = at(fault, "data", "statusCode")
            said = _text(fault, "data", "message") or _text(fault, "name")
            error = in_words(f"{status} {said}" if isinstance(status, int) else said) or NOTHING
    if not ended and error is None:
        error = last_line(finished.errors) or NOTHING
    return Said(text=text_of("\n".join(texts)), used=used(tokens, costs), error=error)


def read_pi(finished: Finished) -> Said:
    """Lines of JSON. It ends with status 0 also where it ends badly, and may try again before."""
    text, tokens, costs = "", list[Any](), list[Any]()
    wrong: str | None = last_line(finished.errors) or NOTHING
    for line in _lines(finished):
        message = at(line, "message")
        if line.get("type") != "turn_end" or not isinstance(message, dict):
            continue
        text = "\n".join(_text(part, "text") for part in _all(message, "content") if at(part, "type") == "text")
        failed = at(message, "stopReason") in ("error", "aborted")
        wrong = in_words(_text(message, "errorMessage")) or NOTHING if failed else None
        tokens.append(at(message, "usage", "totalTokens"))
        costs.append(at(message, "usage", "cost", "total"))
    return Said(text=text_of(text), used=used(tokens, costs), error=wrong)
