"""What the protocols have in common: events of a stream, ids, and text that comes in parts."""

from __future__ import annotations

import dataclasses
import itertools
import json
from typing import Any

_NUMBERS = itertools.count(1)


@dataclasses.dataclass(frozen=True)
class Event:
    """One server-sent event; text is sent as it is, everything else as JSON."""

    data: Any
    name: str | None = None

    def encoded(self) -> bytes:
        data = self.data if isinstance(self.data, str) else self.json(self.data)
        return (f"event: {self.name}\n" if self.name else "").encode() + f"data: {data}\n\n".encode()

    @staticmethod
    def json(value: Any) -> str:
        return json.dumps(value, default=dict)


def fresh_id(kind: str) -> str:
    return f"{kind}_{next(_NUMBERS):024d}"


def text_of(content: Any) -> str:
    """The text of a message or a result, which may be a string, or a list of parts, or a value."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if "text" in part)
    return Event.json(content)
