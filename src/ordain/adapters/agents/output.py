"""What the output of a command-line agent says: its last words, what it used, what went wrong.

Output is whatever a program wrote, whole or cut off, in any version of it. Nothing here raises; what cannot be read is
left out, and where nothing can be read that is said.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from ordain.core.run.step_event import Usage
from ordain.core.text.limit import INTEGER_MAX
from ordain.ports.ports import Finished, Said

NOTHING = "it ended without a word of the model"
UNREAD = "what it wrote is not the JSON that it was to write"
LINE_MAX = 16 << 20
"""Of a longer line nothing is read."""
WORDS_MAX = 500
_OBJECTS_MAX = 50
_LOOKED_AT = 64 << 10
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)

T = TypeVar("T")


def lines(finished: Finished, kind: type[T]) -> Iterator[T]:
    """The lines of JSON that are like this, in order; all there are, also of a long output."""
    decoder = msgspec.json.Decoder(kind)
    for line in _complete(finished):
        try:
            yield decoder.decode(line)
        except _UNREADABLE:
            continue


def object_in(finished: Finished, kind: type[T]) -> T | None:
    """The one object of JSON that an output is, or that its last line is."""
    text = b"".join(_parts(finished)).strip()
    for part in (text, text.rpartition(b"\n")[2]):
        try:
            return msgspec.json.decode(part, type=kind)
        except _UNREADABLE:
            continue
    return None


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
