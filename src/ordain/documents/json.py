"""Strict JSON text to a value: every refusal with its place, which the standard library could not give. msgspec reads
for speed, and whatever it is not surely right about is read carefully."""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import chain
from typing import Any, NoReturn

import msgspec

from ordain.core.text.limit import DEPTH_MAX, INTEGER_MAX, STRING_BYTES_MAX, string_fault
from ordain.core.text.pattern import compile_later
from ordain.documents.document import PROBLEMS_MAX, Mark, ProblemList, ReadValue, exact_number

_TOKEN = compile_later(
    r"""
      (?P<string> "(?: [^"\\\x00-\x1f]++ | \\(?: ["\\/bfnrt] | u[0-9a-fA-F]{4} ) )*+" )
    | (?P<number> -?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?(?![0-9A-Za-z_.+-]) )
    | (?P<word>   -?[A-Za-z]++ )
    | (?P<mark>   [\[\]{}:,] )
    """,
    re.VERBOSE,
)
_SPACE = compile_later(r"[ \t\n\r]*+")
_WORDS = {"null": None, "true": True, "false": False}
_RAW_DOUBT = compile_later("[\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
_ESCAPE_DOUBT = compile_later(r"\\(?:[bfr]|u(?:00[01789]|20|[dD][89a-fA-F]))")
_BORDER = compile_later(r'[^\\]"')
_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")


class _Expect(Enum):
    """What may come next, in words."""

    VALUE = "a value"
    VALUE_OR_END = "a value or `]`"
    KEY = "a key in quotes"
    KEY_OR_END = "a key in quotes or `}`"
    COLON = "`:`"
    COMMA_OR_END = "`,` or the closing bracket"
    NOTHING = "nothing more"


class _Stop(Exception):
    """What follows can not be understood any more; the problem is already noted."""


def read_json(text: str, *, first_line: int = 1, depth_max: int = DEPTH_MAX) -> ReadValue:
    """The value of a JSON text that starts on `first_line` of its document, or all that is wrong with it."""
    try:
        value, depth = _quickly(text, depth_max)
    except (ValueError, RecursionError):
        return _carefully(text, first_line, depth_max)
    # Places are found by a second reading, made when the first one is asked for: a good document needs none.
    again = functools.cache(lambda: _carefully(text, first_line, depth_max).locate)
    return ReadValue(value=value, depth=depth, locate=lambda path: again()(path))


def _carefully(text: str, first_line: int, depth_max: int) -> ReadValue:
    reader = _JsonReader(text, first_line, depth_max)
    with contextlib.suppress(_Stop):
        reader.read()
    if reader.problems:
        return ReadValue(problems=reader.problems.in_order())
    return ReadValue(value=reader.value, depth=reader.depth, locate=reader.root.find)


# --- The quick way -------------------------------------------------------------------------------------------------


def _quickly(text: str, depth_max: int) -> tuple[Any, int]:
    """The value by msgspec's reader, and its depth; ValueError wherever the careful one might have a word to say."""
    if not (text.isascii() and "\x7f" not in text) and _RAW_DOUBT.search(text):
        raise ValueError
    holder = [msgspec.json.decode(text)]
    # The last of two equal keys wins there; then a colon is lost, which an escape sequence could make up for.
    if "\\u003a" in text or "\\u003A" in text or text.count(":") != msgspec.json.encode(holder[0]).count(b":"):
        raise ValueError
    depth = _made_whole(holder, depth_max)
    if _strings_in_doubt(text) and any(map(string_fault, _strings(holder[0]))):
        raise ValueError
    return holder[0], depth


def _made_whole(holder: list[Any], depth_max: int) -> int:
    """The depth of the value in this list, whose whole floats become integers; ValueError where it is too deep or a
    number may not be what was written."""
    level: list[Any] = [holder]
    for depth in range(depth_max + 1):
        items = chain.from_iterable(container.values() if type(container) is dict else container for container in level)
        others = [item for item in items if type(item) is not str]
        inner = [item for item in others if type(item) is dict or type(item) is list]
        if len(inner) < len(others) and _in_doubt(others):
            for container in level:
                for key, item in container.items() if type(container) is dict else enumerate(container):
                    if type(item) is float and item.is_integer():
                        container[key] = int(item)
        if not inner:
            return depth
        level = inner
    raise ValueError


def _in_doubt(items: Sequence[Any]) -> bool:
    """Whether a float among these is whole; ValueError where a number may not be what was written."""
    found = False
    for item in items:
        if type(item) is int and not -INTEGER_MAX <= item <= INTEGER_MAX:
            raise ValueError
        if type(item) is float and item.is_integer():
            found = True
            if not 0 < abs(item) <= INTEGER_MAX:
                raise ValueError
    return found


def _strings_in_doubt(text: str) -> bool:
    """Whether an escape sequence may stand for a forbidden character, or a string may be too long."""
    if "\\" in text and _ESCAPE_DOUBT.search(text):
        return True
    # A border of a string in every window of this length: then none can be longer than two windows.
    window = STRING_BYTES_MAX // 8
    full = range(0, len(text) - window + 1, window)
    return any(not _BORDER.search(text, at, at + window) for at in full)


def _strings(value: Any) -> Iterator[str]:
    todo = [value]
    while todo:
        match todo.pop():
            case str() as text:
                yield text
            case dict() as mapping:
                yield from mapping
                todo += mapping.values()
            case list() as items:
                todo += items


# --- The careful way -----------------------------------------------------------------------------------------------


class _JsonReader:
    """One pass over the tokens with a stack of open containers."""

    def __init__(self, text: str, first_line: int, depth_max: int) -> None:
        self.text, self.depth_max = text, depth_max
        self._line, self._line_start, self._counted = first_line, 0, 0
        self.problems, self.root = ProblemList(), Mark(first_line, 1)
        self.value: Any = None
        self.depth = 0
        self._open: list[list[Any] | dict[str, Any]] = []
        self._marks: list[Mark] = []
        self._keys: list[str] = []
        self._expect = _Expect.VALUE

    def read(self) -> None:
        at = 0
        while True:
            space = _SPACE.match(self.text, at)
            at = space.end() if space else at
            if at == len(self.text):
                break
            token = _TOKEN.match(self.text, at)
            if token is None:
                self._not_a_token(at)
            self._take(token.lastgroup or "", token.group(), at)
            at = token.end()
        if self._expect is not _Expect.NOTHING:
            self._stop(f"The JSON ends where {self._expect.value} should be.", at)

    def _take(self, kind: str, token: str, at: int) -> None:
        match self._expect, token:
            case ((_Expect.VALUE | _Expect.VALUE_OR_END), "[" | "{"):
                self._enter(token, at)
            case ((_Expect.VALUE_OR_END | _Expect.COMMA_OR_END), "]") if isinstance(self._open[-1], list):
                self._leave()
            case ((_Expect.KEY_OR_END | _Expect.COMMA_OR_END), "}") if isinstance(self._open[-1], dict):
                self._leave()
            case _Expect.COMMA_OR_END, ",":
                self._expect = _Expect.VALUE if isinstance(self._open[-1], list) else _Expect.KEY
            case _Expect.COLON, ":":
                self._expect = _Expect.VALUE
            case ((_Expect.KEY | _Expect.KEY_OR_END), _) if kind == "string":
                self._key(token, at)
            case ((_Expect.VALUE | _Expect.VALUE_OR_END), _) if kind != "mark":
                self._mark(at)
                self._put(self._scalar(kind, token, at))
            case _:
                self._unexpected(token, at)

    def _enter(self, token: str, at: int) -> None:
        if len(self._open) == self.depth_max:
            self._add("E_DOC_DEPTH", f"More than {self.depth_max} lists and mappings are nested.", at)
            raise _Stop
        self._marks.append(self._mark(at))
        self._open.append([] if token == "[" else {})
        self.depth = max(self.depth, len(self._open))
        self._expect = _Expect.VALUE_OR_END if token == "[" else _Expect.KEY_OR_END

    def _leave(self) -> None:
        self._marks.pop()
        self._put(self._open.pop())

    def _mark(self, at: int) -> Mark:
        """The mark of the value that starts here: that of its key in a mapping, its own elsewhere."""
        if self._open and isinstance(self._open[-1], dict):
            return self._marks[-1].inside[self._keys[-1]]
        mark = Mark(*self._place(at))
        if self._open:
            self._marks[-1].inside[len(self._open[-1])] = mark
        else:
            self.root = mark
        return mark

    def _key(self, token: str, at: int) -> None:
        key = self._string(token, at)
        mapping = self._open[-1]
        if key in mapping:
            self._add("E_DOC_DUPLICATE", f"The key {json.dumps(key)} is twice in one mapping.", at)
        self._marks[-1].inside[key] = Mark(*self._place(at))
        self._keys.append(key)
        self._expect = _Expect.COLON

    def _put(self, value: Any) -> None:
        if not self._open:
            self.value = value
            self._expect = _Expect.NOTHING
            return
        container = self._open[-1]
        if isinstance(container, list):
            container.append(value)
        else:
            container[self._keys.pop()] = value
        self._expect = _Expect.COMMA_OR_END

    def _scalar(self, kind: str, token: str, at: int) -> Any:
        if kind == "string":
            return self._string(token, at)
        if kind == "number":
            number = exact_number(token)
            if number is None:
                shown = token if len(token) <= 32 else token[:29] + "…"
                self._add("E_DOC_NUMBER", f"The number {shown} can not be kept exactly.", at, "Write it as text.")
            return number
        if token in _NO_NUMBERS:
            self._add("E_DOC_NUMBER", f"{token} is not a number in JSON.", at, "Write it as text.")
        elif token not in _WORDS:
            self._stop(f"`{token[:32]}` is not JSON.", at, "Text is in double quotes.")
        return _WORDS.get(token)

    def _string(self, token: str, at: int) -> str:
        text: str = json.loads(token) if "\\" in token else token[1:-1]
        fault = string_fault(text)
        if fault:
            self._add(fault[0], fault[1], at)
        return text

    def _unexpected(self, token: str, at: int) -> NoReturn:
        if self._expect is _Expect.NOTHING:
            self._stop("There is something after the end of the JSON value.", at)
        elif (self._expect is _Expect.KEY and token == "}") or (
            self._expect is _Expect.VALUE and token == "]" and self._open and isinstance(self._open[-1], list)
        ):
            self._stop(f"There is a comma before `{token}`.", at, "Delete the last comma.")
        else:
            self._stop(f"Here should be {self._expect.value}.", at)

    def _not_a_token(self, at: int) -> NoReturn:
        rest = self.text[at : at + 2]
        if rest in ("//", "/*") or rest[:1] == "#":
            self._stop("JSON has no comments.", at)
        elif rest[:1] == '"':
            self._stop("This text in quotes does not end, or holds a raw newline or an unknown escape.", at)
        else:
            self._stop(f"Here should be {self._expect.value}.", at)

    def _stop(self, detail: str, at: int, *hints: str) -> NoReturn:
        self._add("E_DOC_SYNTAX", detail, at, *hints)
        raise _Stop

    def _add(self, code: str, detail: str, at: int, *hints: str) -> None:
        line, column = self._place(at)
        self.problems.add(code, detail, *hints, line=line, column=column)
        if len(self.problems) >= PROBLEMS_MAX:
            raise _Stop

    def _place(self, at: int) -> tuple[int, int]:
        """Line and column of a place that is never before the last one asked for; newlines are counted once."""
        newlines = self.text.count("\n", self._counted, at)
        if newlines:
            self._line += newlines
            self._line_start = self.text.rfind("\n", self._counted, at) + 1
        self._counted = at
        return self._line, at - self._line_start + 1
