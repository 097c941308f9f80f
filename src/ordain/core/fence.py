"""Text of others inside a text of ours: between backticks, so that it cannot end what it stands in."""

from __future__ import annotations

import re

__all__ = ["fenced", "longest_row", "one_line", "spanned"]


def fenced(text: str) -> str:
    """A text between fences that are longer than any in it."""
    fence = "`" * max(3, longest_row(text) + 1)
    return f"{fence}\n{text.rstrip(chr(10))}\n{fence}"


def longest_row(text: str) -> int:
    """How many backticks stand in a row, at most."""
    return max(map(len, re.findall(r"`+", text)), default=0)


def spanned(text: str) -> str:
    """A text within a line, between rows of backticks that are longer than any in it."""
    line = one_line(text)
    ticks = "`" * (longest_row(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def one_line(text: str) -> str:
    return " ".join(text.split())
