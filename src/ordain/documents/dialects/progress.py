"""Marks of progress in Markdown, kept as claims: ✅ and `[x]` before a step's title, and `**status: …**` lines.

Knows where steps start, not what they are. A claim stands beside the plan; nothing that decides ever reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ordain.documents.document import Document
from ordain.documents.scan import Heading, Text, scan

__all__ = ["with_claims"]

_DONE = re.compile(r"[ \t]*(?:#{1,6}[ \t]+)?(?:[^ \t.]+\.[ \t]+)?(?:✅|\[[xX]\](?:[ \t]|$))")
_STATUS = re.compile(r" {0,3}\*\*status:(?:\*\*[ \t]*(?P<beside>.*)|(?P<inside>[^*]*)\*\*[ \t]*)", re.IGNORECASE)


def with_claims(document: Document, text: str) -> Document:
    """The document with what its marks of progress claim, unless its record says something else."""
    if not ("✅" in text or "[x]" in text or "[X]" in text or "**status:" in text.lower()):
        return document
    record: dict[str, Mapping[str, Any]] = dict(document.record)
    for owner, word in _claims(document, text.split("\n")):
        if "status" not in record.get(owner, {}):
            record[owner] = {**record.get(owner, {}), "status": word}
    return msgspec.structs.replace(document, record=record)


def _claims(document: Document, lines: list[str]) -> Iterator[tuple[str, str]]:
    starts = {place.line: owner for owner, place in document.places.items()}
    owner = ""
    for block in scan(lines, _end_of_front_matter(lines)):
        if block.line in starts:
            owner = starts[block.line]
            if _DONE.match(lines[block.line - 1]):
                yield owner, "done"
        elif isinstance(block, Heading) and block.level == 2 and block.text not in ("Steps", "Fallbacks"):
            # Below stand notes, which claim nothing.
            return
        elif isinstance(block, Text) and (found := _STATUS.fullmatch(block.text)):
            word = (found["beside"] or found["inside"] or "").strip()
            if word:
                yield owner, word


def _end_of_front_matter(lines: list[str]) -> int:
    if lines[0].rstrip() != "---":
        return 0
    return next((at + 1 for at in range(1, len(lines)) if lines[at].rstrip() == "---"), 0)
