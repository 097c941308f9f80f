"""Hiding secrets in whatever is written or shown: the values that are known, in all their forms, and what has the shape
of a well-known token.

What is hidden is a set of spans, and whether a span is in it depends on nothing but the bytes in it and a few around
it. So it makes no difference in what chunks an output comes, and where spans overlap all of them are hidden. This is a
net and not a wall: a secret that a program encrypts, reverses or prints letter by letter goes through.
"""

from __future__ import annotations

import bisect
import functools
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from ordain.core.text.secret import (
    CREDENTIALS,
    HEAD_MAX,
    SECRET_LENGTH_MIN,
    SHAPES,
    TokenShape,
    compiled,
    literal_forms,
    pieces,
    plain_forms,
    spaced_forms,
)

CONTEXT = 512
"""How many bytes before a span may say whether it is one; and how many a secret takes that is known by what stands
before it."""
BLOCK_MAX = 64 << 10
"""How far from its first line the last line of a private key is looked for."""
SHORT = 256
"""Up to how many bytes a text is short."""
BROKEN_MAX = 768
"""How many bytes a short secret with breaks in it takes at most."""
CUT = "what may be the rest of a secret"
"""What is hidden at the beginning of an output whose own beginning is missing."""
HIDDEN_MAX = 200
"""How many spans are told of one output. What would be one more is hidden with all between it and the last."""
BEGUN_MIN = 4
"""How many bytes of a known secret must have come to be taken for its beginning: fewer stand anywhere by chance."""

_BEGINS = tuple((begin, shape) for shape in (*SHAPES, *CREDENTIALS) for begin in shape.begins)
"""How a token of each shape begins."""
_ANY_BEGIN = b"|".join(re.escape(begin) for begin, _ in _BEGINS)
_BREAKS = bytes(range(33)) + b":\x7f"
_NO_SPACE = bytes(set(range(256)) - set(b" \t\r\n\v\f"))
_UNBROKEN = rb"[^\0- :\x7f]+"
_CSI = rb"[0-?]{0,64}[ -/]{0,4}[@-~]"
_CONTROL = rb"(?:\[" + _CSI + rb"|[()*#%][0-9@-Z])"
_STRING = rb"[\]PX^_][^\x07\x1b\\\r\n]{0,200}(?:\x07|\x1b\\|\\a|\\(?:u00|x|0)07|\\(?:u001[bB]|x1[bB]|033|[eE])\\{1,2})"
"""What follows ESC: colours and the like, character sets, and titles and links, which hold a text."""
_UNSEEN = (
    rb"\x1b(?:CONTROL|[78=>])|\^\[CONTROL|\\(?:u001[bB]|x1[bB]|033|[eE])CONTROL"
    rb"|\\x(?:[0189][0-9A-Fa-f]|7[fF]|[aA][0dD])|\\(?=\r?\n)"
    rb"|\\u(?:00(?:[0189][0-9A-Fa-f]|7[fF]|[aA][0dD])|034[fF]|061[cC]|11(?:5[fF]|60)|1680|17[bB][45]|180[b-fB-F]"
    rb"|20(?:[06][0-9A-Fa-f]|2[89A-Fa-f]|5[fF])|2800|3000|3164"
    rb"|[fF](?:[eE]0[0-9A-Fa-f]|[eE][fF][fF]|[fF][aA]0|[fF][fF][0-9A-Ba-b])|[dD][bB]40\\u[dD][c-fC-F][0-9A-Fa-f]{2})"
    rb"|\xc2(?:\x9b" + _CSI + rb"|[\x80-\xa0\xad])|\xcd\x8f|\xd8\x9c"
    rb"|\xe1(?:\x85[\x9f\xa0]|\x9a\x80|\x9e[\xb4\xb5]|\xa0[\x8b-\x8f])"
    rb"|\xe2(?:\x80[\x80-\x8f\xa8-\xaf]|\x81[\x9f-\xaf]|\xa0\x80)|\xe3(?:\x80\x80|\x85\xa4)"
    rb"|\xef(?:\xb8[\x80-\x8f]|\xbb\xbf|\xbe\xa0|\xbf[\xb0-\xbb])"
    rb"|\xf0(?:\x9d\x85[\xb3-\xba]|\x9b\xb2[\xa0-\xa3])|\xf3\xa0[\x80-\xbf][\x80-\xbf]"
)
"""What may stand inside a secret unseen: escapes of a terminal, blanks and characters that are shown as nothing."""
_UNSEEN_MARKS = (
    b"\x1b", b"\\u", b"\\x", b"\\0", b"\\e", b"\\E", b"\\\n", b"\\\r", b"^[", b"\xc2", b"\xcd\x8f", b"\xd8\x9c",
    b"\xe1", b"\xe2\x80", b"\xe2\x81", b"\xe2\xa0\x80", b"\xe3\x80\x80", b"\xe3\x85\xa4", b"\xef",
    b"\xf0\x9d", b"\xf0\x9b", b"\xf3\xa0",
)  # fmt: skip
_UNSEEN, _UNSEEN_WITH_STRINGS = (
    _UNSEEN.replace(b"CONTROL", one) for one in (_CONTROL, rb"(?:" + _CONTROL + rb"|" + _STRING + rb")")
)
_STRINGS = rb"(?:\x1b|\^\[|\\(?:u001[bB]|x1[bB]|033|[eE]))" + _STRING
_IN_WORD = rb"[A-Za-z0-9]"
_ESCAPE = rb"(?:\\[nrt]|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}|%[0-9A-Fa-f]{2}|\x1b\[[0-9;]{0,11}[A-Za-z])\Z"
_ESCAPE_MAX = 14
_BORDER = rb"-----(BEGIN|END) [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_BETWEEN = rb"(?:\\[nrt]|[\s\"'+,>|#]){0,24}+"
_BODY = (
    rb"(?:(?:" + _BETWEEN + rb"[A-Za-z-]{1,20}: [^\r\n\\]{0,200}){0,8}+"
    rb"(?:" + _BETWEEN + rb"[A-Za-z0-9+/=]{16,}+)++(?:" + _BETWEEN + rb"[A-Za-z0-9+/=]{1,15}+)?)?"
)
"""Of a private key whose last line does not come: the lines that look like one."""
_CUT = rb"[\x80-\xbf]{0,3}[^\s\"'<>,;:(){}\[\]]*+(?:(?:\\[nr]|\s)++[A-Za-z0-9+/=]{40,}+(?![^\s\\]))*+"
"""The rest of a token, or of the lines of a private key, whose beginning is missing."""


Hidden = tuple[int, int, str]
"""Where a secret begins and ends in an output, and its name: recorded, to be hidden whenever the output is shown."""


def hide(parts: Iterable[bytes], hidden: Iterable[Hidden]) -> Iterator[bytes]:
    """An output, part by part, without what was hidden in it when it was recorded."""
    spans, at = deque(hidden), 0
    for part in parts:
        done, end = at, at + len(part)
        while spans and spans[0][0] < end:
            start, stop, name = spans[0]
            if start >= at:
                yield part[done - at : start - at] + _marker(name).encode("utf-8", "surrogatepass")
            done = min(max(stop, done), end)
            if stop > end:
                break
            spans.popleft()
        yield part[done - at :]
        at = end


class _Span(NamedTuple):
    """Bytes to be hidden. Of several that begin together, the longest is sorted first, and of equals a known one."""

    start: int
    minus_end: int
    rank: int
    name: str
    more: bytes = b""
    """Where it reaches the end of what is there: the bytes it may go on with."""
    undecided: bool = False
    """Whether what is there is too little to say where it ends."""


class Redactor:
    """Hides these secrets, each by its name, which is shown, and well-known tokens. A value of fewer than 8 characters
    is not searched for, nor one that stands in what is shown in place of a secret."""

    def __init__(self, secrets: Mapping[str, str], more: Mapping[str, str] | None = None) -> None:
        """`secrets` by their names, and `more` of them, each with its name."""
        self._secrets, self._more = secrets, more or {}
        shown = "".join(map(_marker, (*secrets, *self._more.values())))
        literal: dict[bytes, str] = {}
        spaced: dict[bytes, str] = {}
        for name, secret in (*secrets.items(), *((name, value) for value, name in self._more.items())):
            for piece in pieces(secret):
                if piece not in shown:
                    literal |= dict.fromkeys(set(literal_forms(piece)) - literal.keys(), name)
                    forms = {*spaced_forms(piece), *(one.translate(None, _BREAKS) for one in plain_forms(piece))}
                    forms = {one for one in forms if len(one) >= SECRET_LENGTH_MIN}
                    spaced |= dict.fromkeys(forms - spaced.keys(), name)
        self._literal, self._spaced = _Needles(literal), _Needles(spaced)
        longest = max(map(len, literal), default=0), _spaced_max(max(map(len, spaced), default=0))
        self.window = max(CONTEXT, *longest)
        """How many bytes a known secret takes at most: as many as `tail` wants to see before those that it shows."""

    def knowing(self, more: Mapping[str, str]) -> Redactor:
        """The same with more secrets, each with its name."""
        return Redactor(self._secrets, {**self._more, **more}) if more else self

    def text(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        redacted = self.data(data)
        if redacted is data:
            return text
        try:
            return redacted.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:  # a secret of bytes that are no text began or ended within a character
            return redacted.decode("utf-8", "replace")

    def data(self, data: bytes) -> bytes:
        """Bytes with every secret in them hidden; the very same object when there is none."""
        spans = self._spans(data)
        return _RedactedText().render(data, spans, len(data)) if spans else data

    @property
    def ahead(self) -> int:
        """How many bytes more than are to be shown `beginning` wants to see."""
        return 2 * max(self.window, HEAD_MAX)

    def beginning(self, data: bytes, *, whole: bool) -> tuple[bytes, int]:
        """The same, and how many were hidden. Where `data` is only the beginning of something, what may be the
        beginning of a secret whose rest is missing is left out with all that follows."""
        redacting = self.stream()
        shown = redacting.feed(data)
        return shown + redacting.close() if whole else shown, redacting.hidden

    def hidden(self, parts: Iterable[bytes], *, whole: bool) -> tuple[Hidden, ...]:
        """Where secrets are in an output, with what may be the rest of one that began before it is `whole`."""
        redacting, first = self.stream(), b""
        for part in parts:
            first = first or part
            redacting.feed(part)
        redacting.close()
        begin = 0 if whole else self._intact(first, BLOCK_MAX)
        cut = ((0, begin, CUT),) if begin else ()
        return (*cut, *((max(start, begin), end, name) for start, end, name in redacting.spans if end > begin))

    def value(self, tree: Any) -> Any:
        """A tree of builtins with every text in it redacted, keys too."""
        match tree:
            case str():
                return self.text(tree)
            case dict():
                return {self.value(key): self.value(value) for key, value in tree.items()}
            case list() | tuple():
                return type(tree)(map(self.value, tree))
            case _:
                return tree

    def stream(self) -> RedactingStream:
        """The same for an output that comes in chunks."""
        return RedactingStream(self)

    def tail(self, data: bytes, limit: int, *, whole: bool) -> str:
        """The last characters, redacted, of an output that ends in `data`. Unless this is the `whole` of it, as much is
        left out as a secret can take that lost its beginning: give `window` bytes more than are to be shown."""
        if limit <= 0:
            return ""
        near = data[-(BLOCK_MAX + self.window + 4 * limit) :]
        # No more than that has a part in what is shown, unless much of it is hidden.
        shown = self._end(near, whole=whole and len(near) == len(data))
        if len(shown) < limit and not (whole and len(near) == len(data)):
            # What is left out could be the rest of one token. Longer than any private key, it is a long line instead.
            shown = self._end(data, whole=whole, longest=BLOCK_MAX)
        return shown[-limit:]

    def so_far(self, data: bytes, limit: int, *, whole: bool) -> str:
        """The same of an output that is still written: without what may be the beginning of a secret, or character."""
        settled, before = self._settled(data), len(data)
        while settled < before:  # what is left out may have been the end of another secret
            before, settled = settled, self._settled(data[:settled])
        return self.tail(_whole_characters(data[:settled]), limit, whole=whole)

    def _settled(self, data: bytes) -> int:
        """Up to where none has begun of those that are not there to their end."""
        begun = [self._literal.begun(data), self._spaced_begun(data)]
        key = data.rfind(b"-----BEGIN ", max(0, len(data) - BLOCK_MAX))
        if key >= 0 and data.find(b"-----END ", key) < 0 and b"PRIVATE KEY" in data[key : key + 80]:
            begun.append(len(data) - key)
        # A token has no space in it; the credentials of a request stand in one line with what they are known by.
        line = data[-HEAD_MAX:].replace(b"\r", b"\n").rpartition(b"\n")[2]
        word = line[len(line.rstrip(_NO_SPACE)) :]
        for begin, shape in _BEGINS:
            searched = line if shape.within and shape.more else word
            if (found := searched.find(begin)) >= 0:
                begun.append(len(searched) - found)
        return len(data) - max(begun)

    def _spaced_begun(self, data: bytes) -> int:
        """The same of a secret in base64 or in hexadecimal: how many bytes at the end may be the beginning of one."""
        if not self._spaced:
            return 0
        return max(map(self._begun_in, _views(data[-_spaced_max(self._spaced.longest) :])))

    def _begun_in(self, view: bytes) -> int:
        begun, at = self._spaced.begun(view.translate(None, _BREAKS)), len(view)
        while begun > 0:
            at -= 1
            begun -= view[at] not in _BREAKS
        return len(view) - at

    def _end(self, data: bytes, *, whole: bool, longest: int | None = None) -> str:
        """All that can be shown of an output, or of the end of one."""
        spans = self._spans(data)
        begin = 0 if whole else self._intact(data, longest)
        if not spans:
            return data[begin:].decode("utf-8", "replace")
        rendering = _RedactedText()
        rendering.render(data, [span for span in spans if span.start < begin], begin)
        shown = rendering.render(data, [span for span in spans if span.start >= begin], len(data))
        return shown.decode("utf-8", "replace")

    def _intact(self, data: bytes, longest: int | None) -> int:
        """From where on, in an output without its beginning, no secret has lost its own."""
        begin = min(self.window, len(data))
        border = compiled(_BORDER).search(data, 0, BLOCK_MAX)
        if border is not None and border[1] == b"END":
            begin = max(begin, border.end())
        cut = compiled(_CUT).match(data, begin, len(data) if longest is None else begin + longest)
        return cut.end() if cut is not None else begin

    def _spans(self, data: bytes, since: int = 0) -> list[_Span]:
        """What is to be hidden, in order. A token that begins before `since` is not looked for."""
        if not data:
            return []
        spans = [_Span(start, -end, 0, name) for start, end, name in self._literal.found(data)]
        spans += self._spaced_spans(data)
        # In a short text one pattern is quicker than many searches, in a long one it is the other way round.
        if len(data) > SHORT or compiled(_ANY_BEGIN).search(data):
            for begin, shape in _BEGINS:
                spans += _shaped(shape, begin, data, since)
        spans.sort()
        return spans

    def _spaced_spans(self, data: bytes) -> Iterator[_Span]:
        """Secrets as they are, in base64 and in hexadecimal, with breaks in them or without."""
        if not self._spaced:
            return
        for view in _views(data):
            places: _Places | None = None
            for start, end, name in self._spaced.found(view.translate(None, _BREAKS)):
                places = places or _Places(view)
                first, last = places.original(start), places.original(end - 1) + 1
                if last - first <= _spaced_max(end - start):
                    yield _Span(first, -last, 0, name)


class RedactingStream:
    """An output as it comes, redacted: what `feed` and `close` return is together what `Redactor.data` makes of all.
    Held back is what may be the beginning of a secret."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = max(redactor.window, HEAD_MAX)
        self._data = b""
        self._enough = 2 * self._held
        """How much must be there before it is looked at, so that small chunks do not cost more than large ones."""
        self._rendering = _RedactedText()
        self._going_on: set[bytes] = set()
        """With what bytes the tokens go on whose end has not come."""

    @property
    def hidden(self) -> int:
        """How many secrets were hidden so far; what overlaps, or is more of the same next to it, is one."""
        return self._rendering.count

    @property
    def spans(self) -> Sequence[Hidden]:
        return self._rendering.spans

    def feed(self, chunk: bytes) -> bytes:
        """Take what came, and return what can be let through."""
        self._data += chunk
        return self._advance(len(self._data) - self._held) if len(self._data) >= self._enough else b""

    def close(self) -> bytes:
        return self._advance(None)

    def _advance(self, sure: int | None) -> bytes:
        """Render as far as it is sure what begins there; None when nothing more comes."""
        data, since = self._data, self._rendering.done
        spans = self._redactor._spans(data, since)
        upto = len(data) if sure is None else min([sure, *(span.start for span in spans if span.undecided)])
        ends = {more: _run_end(more, data, since) for more in self._going_on}
        self._rendering.hide(max(ends.values(), default=0))
        spans = [span for span in spans if since <= span.start < upto]
        redacted = self._rendering.render(data, spans, upto)
        self._going_on = {more for more, end in ends.items() if end == len(data)}
        self._going_on |= {span.more for span in spans if span.more}
        dropped = max(0, upto - CONTEXT)
        self._data = data[dropped:]
        self._rendering.shift(dropped)
        self._enough = len(self._data) + self._held
        return redacted


class _RedactedText:
    """The redacted bytes made from what was there and the spans in it; it can be continued where it stopped."""

    def __init__(self) -> None:
        self.done = 0
        """Up to where bytes have been let through or hidden."""
        self._hidden = 0
        """Up to where they are hidden, which may be further."""
        self._last = ""
        """By what name the bytes before `_hidden` are; empty when they were let through."""
        self.count = 0
        """How many markers were put in."""
        self.spans: list[Hidden] = []
        """What was hidden, counted from the very beginning; a few that are wide where there were too many."""
        self._dropped = 0

    def render(self, data: bytes, spans: Iterable[_Span], upto: int) -> bytes:
        """Go on up to a place. What overlaps what is hidden is hidden with it; so is more of the same next to it."""
        parts: list[bytes] = []
        for start, minus_end, _, name, _, _ in spans:
            if start > self._hidden or (start == self._hidden and name != self._last):
                parts += (data[self._hidden : start], _marker(name).encode("utf-8", "surrogatepass"))
                self._last = name
                self.count += 1
                if len(self.spans) < HIDDEN_MAX:
                    self.spans.append((start + self._dropped, start + self._dropped, name))
            self.hide(-minus_end)
        if self._hidden < upto:
            parts.append(data[self._hidden : upto])
            self._hidden, self._last = upto, ""
        self.done = upto
        return b"".join(parts)

    def hide(self, upto: int) -> None:
        """Hide more of what was hidden last."""
        if upto > self._hidden:
            self._hidden = upto
            start, _, name = self.spans[-1]
            self.spans[-1] = start, upto + self._dropped, name

    def shift(self, dropped: int) -> None:
        """Forget so many bytes at the beginning."""
        self._dropped += dropped
        self.done -= dropped
        self._hidden -= dropped


class _Needles:
    """Plain texts, found all at once: one pass over the numbers that each eight bytes are (or four, for short needles)
    tells which needles can be there at all, mostly none, and only those are searched for."""

    def __init__(self, names: Mapping[bytes, str]) -> None:
        self._names = names
        self._long = _by_number([one for one in names if len(one) >= 15], 8, "Q")
        self._short = _by_number([one for one in names if len(one) < 15], 4, "I")
        self.longest = max(map(len, names), default=0)

    def __bool__(self) -> bool:
        return bool(self._names)

    def begun(self, data: bytes) -> int:
        """How many bytes at the end are the beginning of a needle whose rest has not come."""
        end = data[max(0, len(data) - self.longest + 1) :] if self.longest else b""
        for at in range(len(end) - BEGUN_MIN + 1):
            if end[at] in self._first_bytes:
                begun = end[at:]
                place = bisect.bisect_right(self._in_order, begun)  # after one that is there to its end
                if place < len(self._in_order) and self._in_order[place].startswith(begun):
                    return len(begun)
        return 0

    @functools.cached_property
    def _in_order(self) -> list[bytes]:
        return sorted(self._names)

    @functools.cached_property
    def _first_bytes(self) -> frozenset[int]:
        return frozenset(needle[0] for needle in self._names)

    def found(self, data: bytes) -> Iterator[tuple[int, int, str]]:
        """Every place where a needle stands, and its name."""
        likely: set[bytes] = set()
        if self._long:
            row = memoryview(data)[: len(data) & ~7].cast("Q")
            likely.update(*(self._long[number] for number in self._long.keys() & row))
        if self._short:
            row = memoryview(data)[: len(data) & ~3].cast("I")
            likely.update(*(self._short[number] for number in self._short.keys() & row))
        for needle in likely:
            at = data.find(needle)
            while at >= 0:
                yield at, at + len(needle), self._names[needle]
                at = data.find(needle, at + 1)


def _by_number(needles: Sequence[bytes], size: int, kind: Literal["I", "Q"]) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    for needle in needles:
        for number in {memoryview(needle[at : at + size]).cast(kind)[0] for at in range(size)}:
            found.setdefault(number, []).append(needle)
    return found


class _Places:
    """Where the bytes of a text without its breaks stand in the text itself."""

    def __init__(self, view: bytes) -> None:
        self._originals: list[int] = []
        self._without: list[int] = []
        without = 0
        for part in compiled(_UNBROKEN).finditer(view):
            self._originals.append(part.start())
            self._without.append(without)
            without += part.end() - part.start()

    def original(self, place: int) -> int:
        part = bisect.bisect_right(self._without, place) - 1
        return self._originals[part] + place - self._without[part]


def _shaped(shape: TokenShape, begin: bytes, data: bytes, since: int) -> Iterator[_Span]:
    # Where only a part is secret, that may begin later than what it is known by.
    at = data.find(begin, max(0, since - CONTEXT) if shape.within else since)
    while at >= 0:
        after = at + 1
        head = compiled(shape.head).match(data, at)
        if head is None:
            pass
        elif shape.block:
            yield _block(shape, head)
        elif shape.within:
            assert head.lastindex is not None
            yield _token(shape, data, head.start(head.lastindex), head.end(head.lastindex))
        elif _stands_alone(data, at):
            token = _token(shape, data, at, head.end())
            yield token
            after = -token.minus_end  # what of this shape begins within it ends with it
        at = data.find(begin, after)


def _token(shape: TokenShape, data: bytes, start: int, known: int) -> _Span:
    if not shape.more:
        return _Span(start, -known, 1, shape.what)
    end = _run_end(shape.more, data, known)
    return _Span(start, -end, 1, shape.what, shape.more if end == len(data) else b"")


def _block(shape: TokenShape, head: re.Match[bytes]) -> _Span:
    """A private key up to its last line, or as far as it looks like one when that does not come or another begins."""
    data, (start, known), limit = head.string, head.span(), head.start() + BLOCK_MAX
    border = compiled(_BORDER).search(data, known, limit)
    if border is not None and border[1] == b"END":
        return _Span(start, -border.end(), 1, shape.what)
    body = compiled(_BODY).match(data, known, limit if border is None else border.start())
    end = body.end() if body is not None else known
    return _Span(start, -end, 1, shape.what, undecided=border is None and len(data) < limit)


def _whole_characters(data: bytes) -> bytes:
    """Bytes without a last character in UTF-8 of which not all have come."""
    for back, byte in enumerate(reversed(data[-3:]), start=1):
        if byte >= 0xC0:
            return data[:-back] if back < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4) else data
        if byte < 0x80:
            break
    return data


def _run_end(more: bytes, data: bytes, since: int) -> int:
    run = compiled(more + b"*+").match(data, since)
    return run.end() if run is not None else since


def _stands_alone(data: bytes, at: int) -> bool:
    """Whether this is not the middle of a word; letters that are the end of an escape are no word."""
    if not compiled(_IN_WORD).match(data[at - 1 : at]):
        return True
    return compiled(_ESCAPE).search(data[max(0, at - _ESCAPE_MAX) : at]) is not None


def _spaced_max(length: int) -> int:
    """How many bytes so many of a secret may take with the breaks in them."""
    return max(2 * length + 32, min(4 * length + 256, BROKEN_MAX))


def _views(data: bytes) -> Iterator[bytes]:
    """The same bytes with breaks in place of what is not seen, also without the texts of titles and links."""
    patterns: list[bytes | None] = [None]
    if any(mark in data for mark in _UNSEEN_MARKS):
        patterns = [_UNSEEN, _UNSEEN_WITH_STRINGS] if compiled(_STRINGS).search(data) else [_UNSEEN]
    for pattern in patterns:
        view = compiled(pattern).sub(lambda found: b"\n" * len(found[0]), data) if pattern is not None else data
        for escaped in (b"\\n", b"\\r", b"\\t"):
            view = view.replace(escaped, b"\n\n")
        yield view


def _marker(name: str) -> str:
    return f"[redacted {name}]"
