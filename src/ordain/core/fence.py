"""Text of others inside a text of ours: fenced, so that it cannot end its own fence."""

from __future__ import annotations

import re

__all__ = ["fenced"]


def fenced(text: str) -> str:
    """A text between fences that are longer than any in it."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text.rstrip(chr(10))}\n{fence}"
