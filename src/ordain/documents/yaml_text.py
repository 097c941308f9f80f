"""A JSON value to YAML text in block style, which the strict reader reads back as the very same value.

A string is written plain only where no reader of any version of YAML could take it for something else; text of
several lines is a literal block where that keeps every character.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ordain.core.canonical import canonical_bytes
from ordain.documents.yaml_value import reads_as_text

__all__ = ["yaml_text"]

_PLAIN = re.compile(r"[A-Za-z_/.$(][^\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]*")
_NOT_PLAIN = re.compile(r": |:\Z| #|\s\Z|\A\.\.\.|\A[yYnN]\Z")
_UNWRITABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_ONLY_ESCAPED = re.compile(f"{_UNWRITABLE.pattern}|[\t\n]")
_LONG_KEY = 512
"""A key of YAML on one line ends within 1,024 characters; a longer one is written with a question mark."""


def yaml_text(value: Any) -> str:
    """The YAML document of a value, ended by a newline."""
    return "\n".join(_lines(value, "")) + "\n"


def _lines(value: Any, indent: str) -> Iterator[str]:
    """The lines of a value that starts on a line of its own."""
    match value:
        case dict() if value:
            for key, inner in value.items():
                written = _quoted(key)
                head = f"{indent}{written}:"
                if len(written) > _LONG_KEY:
                    yield f"{indent}? {written}"
                    head = f"{indent}:"
                yield from _after(head, inner, indent + "  ")
        case list() | tuple() if value:
            for inner in value:
                if isinstance(inner, dict | list | tuple) and inner:
                    first, *rest = _lines(inner, indent + "  ")
                    yield f"{indent}- {first[len(indent) + 2 :]}"
                    yield from rest
                else:
                    yield from _after(f"{indent}-", inner, indent + "  ")
        case _:
            yield from _after(indent, value, indent + "  ")


def _after(head: str, value: Any, indent: str) -> Iterator[str]:
    """The lines of a value whose head, a key or a dash, is already written; `indent` is that of lines below it."""
    lead = f"{head} " if head.strip() else head
    match value:
        case str() if _is_literal(value):
            body = value.split("\n")
            if body[-1] == "":
                body.pop()
            yield f"{lead}|" + ("" if value.endswith("\n") else "-")
            yield from (f"{indent}{line}" if line else "" for line in body)
        case str():
            yield lead + _quoted(value)
        case dict() | list() | tuple() if value:
            yield head
            yield from _lines(value, indent)
        case dict():
            yield lead + "{}"
        case list() | tuple():
            yield lead + "[]"
        case _:
            yield lead + canonical_bytes(value).decode()


def _is_literal(text: str) -> bool:
    """Whether a literal block holds exactly this text: its first line tells the indent, its end the last newline."""
    return (
        "\n" in text.rstrip("\n")
        and not text.endswith("\n\n")
        and "\t" not in text
        and not text[0].isspace()
        and not any(line.isspace() for line in text.split("\n"))
        and not _UNWRITABLE.search(text)
    )


def _quoted(text: str) -> str:
    """A string on one line."""
    if _PLAIN.fullmatch(text) and not _NOT_PLAIN.search(text) and reads_as_text(text):
        return text
    if ("\\" in text or '"' in text) and not _ONLY_ESCAPED.search(text):
        return "'" + text.replace("'", "''") + "'"
    return _UNWRITABLE.sub(lambda found: f"\\u{ord(found.group()):04x}", json.dumps(text, ensure_ascii=False))
