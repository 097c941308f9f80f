"""Values put in the place of references.

What is put in is text for the next reader as well: a `${` in it is escaped, so that no value can become a reference.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from ordain.core.bound import STRING_BYTES_MAX
from ordain.core.refs import Reference, Unreadable, is_reference, parse, spans

__all__ = ["KEPT", "Kept", "Resolve", "Unwritable", "Written", "as_text", "as_variable", "escaped", "part", "resolved"]


class Kept(msgspec.Struct, frozen=True):
    """Says that a reference stays as it is."""


KEPT: Final = Kept()


class Unwritable(Exception):
    """What would come out can not be written in a plan, in words."""


class Written(msgspec.Struct, frozen=True):
    """Says that a value is written as references are, and takes no escape."""

    value: Any


Resolve = Callable[[Reference, bool], Any]
"""What stands in place of a reference: a value, `Written` or `KEPT`; told whether it is the whole string."""


def resolved(value: Any, resolve: Resolve, item: str = "item") -> Any:
    """The value with what `resolve` gives in place of each reference that it does not keep; raises Unwritable.

    A string that is one reference takes the type of what it refers to; inside a longer one it is put in as text.
    """
    match value:
        case str() if "${" in value:
            return _whole(value, resolve, item) if is_reference(value, item) else _text(value, resolve, item)
        case Mapping():
            return {key: resolved(inner, resolve, item) for key, inner in value.items()}
        case list() | tuple():
            return [resolved(inner, resolve, item) for inner in value]
        case _:
            return value


def _whole(text: str, resolve: Resolve, item: str) -> Any:
    found = _given(text, resolve, item, whole=True)
    if isinstance(found, Written):
        return found.value
    return text if isinstance(found, Kept) else escaped(found)


def _text(text: str, resolve: Resolve, item: str) -> str:
    made = _Joined()
    at = 0
    for start, end in spans(text, item):
        found = _given(text[start:end], resolve, item, whole=False)
        made.add(text[at:start])
        if isinstance(found, Kept | Written):
            made.add(found.value if isinstance(found, Written) else text[start:end], refers=True)
        else:
            made.add(escaped(as_text(found)))
        at = end
    made.add(text[at:])
    return made.text()


class _Joined:
    """Pieces of text, between which no reference and no escape may come to be."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = 0

    def add(self, piece: str, *, refers: bool = False) -> None:
        if not piece:
            return
        after_dollar = bool(self._pieces) and self._pieces[-1].endswith("$")
        if after_dollar and piece.startswith(("{", "${")):
            if refers:
                raise Unwritable("a value that ends in `$` stands right before a reference, which can not be written")
            self._pieces.append("$")
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > STRING_BYTES_MAX:
            raise Unwritable(f"a text becomes longer than {STRING_BYTES_MAX:,} bytes")

    def text(self) -> str:
        return "".join(self._pieces)


def _given(text: str, resolve: Resolve, item: str, *, whole: bool) -> Any:
    reference = parse(text, item)
    return KEPT if isinstance(reference, Unreadable) else resolve(reference, whole)


def escaped(value: Any) -> Any:
    """The value as it is written where references are read: every `${` in a string is a `$${`."""
    match value:
        case str():
            return value.replace("${", "$${")
        case Mapping():
            return {key: escaped(inner) for key, inner in value.items()}
        case list() | tuple():
            return [escaped(inner) for inner in value]
        case _:
            return value


def as_text(value: Any) -> str:
    """A value inside a longer text: a string as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def as_variable(value: Any) -> str:
    """A value as a variable of a command holds it: a list of texts one on each line, anything else as text."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "\n".join(value)
    return as_text(value)


def part(value: Any, path: tuple[str | int, ...]) -> Any:
    """The part of a value that a path leads to; LookupError where there is none."""
    for key in path:
        fits = isinstance(value, Mapping) if isinstance(key, str) else isinstance(value, list | tuple)
        if not fits:
            raise LookupError(key)
        value = value[key]
    return value
