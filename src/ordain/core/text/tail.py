"""The end of an output, with a mark where something was before it."""

from __future__ import annotations

CUT_MARK = "[earlier output left out]\n"
"""Stands before the end of an output of which more came before: also within one long line."""


def marked_tail(text: str, limit: int) -> str:
    """At most so many last characters of a text, and the mark before them where there were more."""
    rest = text.removeprefix(CUT_MARK)
    return text if len(rest) <= limit else f"{CUT_MARK}{rest[-limit:]}"
