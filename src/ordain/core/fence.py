"""Text of others inside a text of ours: fenced, so that it cannot end its own fence."""

from __future__ import annotations

import re

__all__ = ["fenced", "longest_row"]


def fenced(text: str) -> str:
    """A text between fences that are longer than any in it."""
    fence = "`" * max(3, longest_row(text) + 1)
    return f"{fence}\n{text.rstrip(chr(10))}\n{fence}"


def longest_row(text: str) -> int:
    """How many backticks stand in a row, at most."""
    return max(map(len, re.findall(r"`+", text)), default=0)
