"""The word of whoever performs a task that its contract cannot be satisfied: how it is told from other words of theirs.

It passes nothing and is not tried again by itself: a person decides, and reads why. So whatever says it is believed,
and what only looks like it is not looked for: it is the last thing that an agent says, or stands where nothing else
does.
"""

from __future__ import annotations

import json

from ordain.core.prompt import CANNOT

__all__ = ["AGENT_CANNOT", "bounded", "cannot_words", "why_cannot"]

AGENT_CANNOT = "F_AGENT_CANNOT"
"""The error of an attempt that ended so."""
WHY_MAX = 2000
"""How many characters of it a person is shown."""
_MARKUP = "*_`#> \t"
"""What agents put around a line to make it stand out."""


def why_cannot(text: bytes, reported: bytes = b"") -> str | None:
    """Why an agent says that it cannot, from its last words and from the lines that it reported; None where it does not
    say so."""
    said = _reported(reported)
    return said if said is not None else _last_words(text)


def cannot_words(who: str, why: str) -> str:
    """What a person is told of it, once the secrets are taken out and it is `bounded`."""
    return f"{who} says that it cannot be done: {why.strip() or 'it gave no reason'}"


def bounded(words: str) -> str:
    """Not more of it than a person reads. Secrets are taken out before: no half of one is left at the edge."""
    return words if len(words) <= WHY_MAX else f"{words[:WHY_MAX]}…"


def _last_words(text: bytes) -> str | None:
    """What follows the mark in the last paragraph, to its end."""
    paragraph: list[str] = []
    for line in reversed(text[-8 * WHY_MAX :].decode("utf-8", "replace").rstrip().splitlines()):
        if not line.strip():
            return None
        paragraph.insert(0, line.strip())
        bare = line.lstrip(_MARKUP)
        if bare.startswith(CANNOT):
            first = bare.removeprefix(CANNOT).strip(_MARKUP)
            return " ".join([first, *paragraph[1:]]).strip(_MARKUP)
    return None


def _reported(data: bytes) -> str | None:
    """What a line like `{"cannot": "why"}` says."""
    for line in data.splitlines():
        try:
            why = json.loads(line).get("cannot")
        except (ValueError, AttributeError, RecursionError):
            continue
        if isinstance(why, str):
            return why.strip()
    return None
