"""References to earlier results, `${…}`: where it is a reference, where it is literal, where it is in the wrong place.

This version does not carry references out; it recognises them, so that none is ever taken for text by mistake. A plan
keeps its arguments as they were written, `$${` for a literal `${` included; `literal` takes the escape away when the
call is made.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from typing import Any

__all__ = ["literal", "misplaced_reference", "references"]

_SOURCE = r"(?:data|params)[.\[]"
_IN_ARGS = re.compile(
    r"\$\$\{|(?P<reference>\$\{[ \t]*(?:"
    + _SOURCE
    + r"|(?:item|index)\b|[^\s{}.$]+\.(?:output|exit_code)\b)[^}]{0,64}\}?)"
)
_IN_TEXT = re.compile(r"\$\{[ \t]*(?:" + _SOURCE + r"|(?P<step>[A-Za-z0-9_-]+)\.(?:output|exit_code)\b)[^}\n]{0,64}\}?")


def references(value: Any) -> Iterator[str]:
    """Every reference in the strings of a value of arguments, however deep."""
    todo = [value]
    while todo:
        match todo.pop():
            case str() as text if "${" in text:
                yield from (found["reference"] for found in _IN_ARGS.finditer(text) if found["reference"])
            case dict() as mapping:
                todo += mapping.values()
            case list() | tuple() as items:
                todo += items


def literal(value: Any) -> Any:
    """The arguments as the tool gets them: every `$${` in a string is the `${` it stands for."""
    match value:
        case str():
            return value.replace("$${", "${") if "$${" in value else value
        case dict():
            return {key: literal(inner) for key, inner in value.items()}
        case list():
            return [literal(inner) for inner in value]
        case _:
            return value


def misplaced_reference(text: str, steps: Container[str]) -> str | None:
    """A reference in a command or in prose, where only the shell's own `${…}` belongs; None where there is none."""
    if "${" not in text:
        return None
    for found in _IN_TEXT.finditer(text):
        if found["step"] is None or found["step"] in steps:
            return found.group()
    return None
