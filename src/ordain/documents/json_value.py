"""Strict JSON text to a value: every refusal with its place, and no recursion for hostile nesting.

Knows nothing of plans. The standard library's reader would take duplicate keys, NaN and lone surrogates, and could
not say where they are.
"""

from __future__ import annotations

import contextlib
import json
import re
from enum import Enum, auto
from typing import Any, NoReturn

from ordain.documents.document import PROBLEMS_MAX, ProblemList
from ordain.documents.text import string_fault
from ordain.documents.value import DEPTH_MAX, ReadValue, exact_number

__all__ = ["read_json"]

_TOKEN = re.compile(
    r"""
      (?P<string> "(?: [^"\\\x00-\x1f]++ | \\(?: ["\\/bfnrt] | u[0-9a-fA-F]{4} ) )*+" )
    | (?P<number> -?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?(?![0-9A-Za-z_.+-]) )
    | (?P<word>   -?[A-Za-z]++ )
    | (?P<mark>   [\[\]{}:,] )
    """,
    re.VERBOSE,
)
_SPACE = re.compile(r"[ \t\n\r]*+")
_WORDS = {"null": None, "true": True, "false": False}
_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")


class _Expect(Enum):
    VALUE = auto()
    VALUE_OR_END = auto()
    KEY = auto()
    KEY_OR_END = auto()
    COLON = auto()
    COMMA_OR_END = auto()
    NOTHING = auto()


_WANTED = {
    _Expect.VALUE: "a value",
    _Expect.VALUE_OR_END: "a value or `]`",
    _Expect.KEY: "a key in quotes",
    _Expect.KEY_OR_END: "a key in quotes or `}`",
    _Expect.COLON: "`:`",
    _Expect.COMMA_OR_END: "`,` or the closing bracket",
    _Expect.NOTHING: "nothing more",
}


class _Stop(Exception):
    """What follows can not be understood any more; the problem is already noted."""


def read_json(text: str, *, first_line: int = 1) -> ReadValue:
    """The value of a JSON text that starts on `first_line` of its document, or all that is wrong with it."""
    reader = _Reader(text, first_line)
    with contextlib.suppress(_Stop):
        reader.read()
    if reader.problems:
        return ReadValue(problems=reader.problems.in_order())
    return ReadValue(value=reader.value, key_lines=reader.key_lines)


class _Reader:
    """One pass over the tokens with a stack of open containers."""

    def __init__(self, text: str, first_line: int) -> None:
        self.text = text
        self._line = first_line
        self._counted = 0
        self.problems = ProblemList()
        self.value: Any = None
        self.key_lines: dict[str, int] = {}
        self._open: list[list[Any] | dict[str, Any]] = []
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
            self._stop(f"The JSON ends where {_WANTED[self._expect]} should be.", at)

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
                self._put(self._scalar(kind, token, at))
            case _:
                self._unexpected(token, at)

    def _enter(self, token: str, at: int) -> None:
        if len(self._open) == DEPTH_MAX:
            self._add("E_DOC_DEPTH", f"More than {DEPTH_MAX} lists and mappings stand inside one another.", at)
            raise _Stop
        self._open.append([] if token == "[" else {})
        self._expect = _Expect.VALUE_OR_END if token == "[" else _Expect.KEY_OR_END

    def _leave(self) -> None:
        self._put(self._open.pop())

    def _key(self, token: str, at: int) -> None:
        key = self._string(token, at)
        mapping = self._open[-1]
        if key in mapping:
            self._add("E_DOC_DUPLICATE", f"The key {json.dumps(key)} stands twice in one mapping.", at)
        elif len(self._open) == 1:
            self.key_lines[key] = self._line_of(at)
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
            self._stop(f"`{token[:32]}` is not JSON.", at, "Text stands in double quotes.")
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
            self._stop(f"A comma stands before `{token}`.", at, "Delete the last comma.")
        else:
            self._stop(f"Here should be {_WANTED[self._expect]}.", at)

    def _not_a_token(self, at: int) -> NoReturn:
        rest = self.text[at : at + 2]
        if rest in ("//", "/*") or rest[:1] == "#":
            self._stop("JSON has no comments.", at)
        elif rest[:1] == '"':
            self._stop("This text in quotes does not end, or holds a raw newline or an unknown escape.", at)
        else:
            self._stop(f"Here should be {_WANTED[self._expect]}.", at)

    def _stop(self, detail: str, at: int, *hints: str) -> NoReturn:
        self._add("E_DOC_SYNTAX", detail, at, *hints)
        raise _Stop

    def _add(self, code: str, detail: str, at: int, *hints: str) -> None:
        column = at - self.text.rfind("\n", 0, at)
        self.problems.add(code, detail, *hints, line=self._line_of(at), column=column)
        if len(self.problems) >= PROBLEMS_MAX:
            raise _Stop

    def _line_of(self, at: int) -> int:
        """The line of a place that is never before the last one asked for; newlines are counted once."""
        self._line += self.text.count("\n", self._counted, at)
        self._counted = at
        return self._line
