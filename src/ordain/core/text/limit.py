"""How much a document or a plan may hold, and a result. One number for each thing, for all who have to do with it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

DOCUMENT_BYTES_MAX = 16 << 20
STRING_BYTES_MAX = 1 << 20
"""One text, wherever it stands in a plan."""
INTEGER_MAX = 2**53 - 1
"""The largest integer that every JSON reader holds exactly."""
DEPTH_MAX = 16
"""How many lists and mappings may stand inside one another."""

STEPS_MAX = 20_000
STEPS_OF_RUN_MAX = 200_000
"""With all that come to be while a run goes on: repeats inside of repeats multiply."""
STEPS_LARGE = 200
"""More steps than this nobody reviews with care."""
EDGES_MAX = 200_000
"""How often steps of a plan wait for one another, with what references imply."""
NESTED_PLANS_MAX = 3
"""How many plans may stand inside one another, the outermost not counted."""
ID_LENGTH_MAX = 64
NAME_LENGTH_MAX = 256
TITLE_MAX = 200
"""How much of a title is shown wherever it only says which plan is meant."""

HOUR_MS = 3_600_000
DAY_MS = 86_400_000
"""The longest timeout and the longest delay."""
ATTEMPTS_MAX = 101
"""All attempts of a step: the first and a hundred further ones."""
FACTOR_MAX = 100
"""By which a delay may grow from one attempt to the next."""
CONCURRENCY_MAX = 64
REPETITIONS_MAX = 10_000
"""Items of one `for_each`."""
COMMAND_BYTES_MAX = 120_000
"""Linux takes a single argument of up to 128 KiB."""
ENV_BYTES_MAX = 120_000
"""The same goes for a variable with its name."""
EXIT_CODE_MAX = 255
TIER_MAX = 2

OUTPUT_BYTES_MAX = 1 << 20
"""How much of the end of an output or a result is at hand, for expressions, or if it is too long to be kept whole."""
ARTIFACT_BYTES_MAX = 64 << 20
"""How long an output or a result may be that is kept whole."""


# --- What a text and a number inside a plan may be, so that every reader and every terminal takes them alike ---------

FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
"""The characters that no document and no plan may hold."""
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")
_EXPONENT_FORM_FROM = 1e21
"""From here on the canonical form writes a float with an exponent, so that it reads back as a float."""


def character_fault(character: str) -> tuple[str, str]:
    """Code and detail of a forbidden character."""
    point = f"U+{ord(character):04X}"
    if _BIDI.match(character):
        return "E_DOC_BIDI", f"The character {point} changes the order in which text is shown."
    if character == "\r":
        return "E_DOC_CONTROL_CHARACTER", "There is a carriage return alone (U+000D without a newline)."
    if "\ud800" <= character <= "\udfff":
        return "E_DOC_CONTROL_CHARACTER", f"{point} is half of a surrogate pair and no character."
    return "E_DOC_CONTROL_CHARACTER", f"The control character {point} is not allowed in a document."


def string_fault(value: str) -> tuple[str, str] | None:
    """Code and detail of what keeps a text out of a plan, also where an escape sequence put it there."""
    found = FORBIDDEN.search(value)
    if found:
        return character_fault(found.group())
    if len(value) * 4 > STRING_BYTES_MAX and (size := len(value.encode())) > STRING_BYTES_MAX:
        return "E_DOC_TOO_LARGE", f"A text has {size:,} bytes; at most {STRING_BYTES_MAX:,} are read."
    return None


def line_fault(name: str, value: Any) -> str | None:
    """What keeps a text from being a title or a description: those are one line that says something."""
    if name not in ("title", "description") or type(value) is not str or (value.strip() and "\n" not in value):
        return None
    return f"`{name}` {'has more than one line' if value.strip() else 'is empty'}; one line of text is wanted"


def short_title(title: str) -> str:
    """A title as lists and boards have it; whoever judges the plan reads it whole."""
    return title if len(title) <= TITLE_MAX else f"{title[: TITLE_MAX - 1]}…"


def number_fault(value: float) -> tuple[str, str] | None:
    """Code and detail of what keeps a number out of a plan: it would not be read back as the same one."""
    if isinstance(value, int):
        kept = -INTEGER_MAX <= value <= INTEGER_MAX
    else:
        whole = math.isfinite(value) and value.is_integer()
        kept = math.isfinite(value) and (not whole or abs(value) <= INTEGER_MAX or abs(value) >= _EXPONENT_FORM_FROM)
    if kept:
        return None
    # Python refuses to write very long integers in decimal.
    is_long = isinstance(value, int) and value.bit_length() > 128
    shown = f"of {int(value).bit_length()} bits" if is_long else str(value)
    return "E_DOC_NUMBER", f"The number {shown} can not be kept exactly."


def strings(value: Any) -> Iterator[str]:
    """Every text in a free value, keys excepted. Each list and mapping is looked into once: it may hold itself."""
    todo, seen = [value], set()
    while todo:
        one = todo.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping | list | tuple) and id(one) not in seen:
            seen.add(id(one))
            todo += one.values() if isinstance(one, Mapping) else one
