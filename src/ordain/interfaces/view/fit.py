"""Texts and bars in a row of so many columns."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

_EIGHTHS = " ▏▎▍▌▋▊▉"


def _ends(text: str) -> list[int]:
    return list(accumulate(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text))


def fitted(text: str, room: int) -> str:
    """A text that fits into so many columns; what does not is cut, with a mark."""
    ends = _ends(text)
    if not ends or ends[-1] <= room:
        return text
    return text[: bisect_right(ends, max(room, 1) - 1)] + "…"


def padded(text: str, room: int) -> str:
    """A text in exactly so many columns."""
    short = fitted(text, room)
    return short + " " * (room - (_ends(short) or [0])[-1])


def packed(items: Iterable[str], room: int) -> Iterator[str]:
    """Short texts side by side, in as many rows as they need; one that is too long for a row has its own."""
    row = ""
    for text in items:
        if row and (_ends(row) or [0])[-1] + 3 + (_ends(text) or [0])[-1] > room:
            yield row
            row = ""
        row = f"{row} · {text}" if row else text
    if row:
        yield row


def bar(count: int, largest: int, room: int) -> str:
    """A bar as long as the count is part of the largest; something is always seen of what is not nothing."""
    eighths = round(8 * room * count / largest) if largest else 0
    whole, rest = divmod(max(eighths, 1 if count else 0), 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def shares(counts: Sequence[int], largest: int, room: int) -> tuple[int, ...]:
    """How many columns each count has in one bar, which is as long as their sum is part of the largest. Those with the
    largest rest get what rounding leaves; a bar of something has a column."""
    total = sum(counts)
    if not total or not largest:
        return (0,) * len(counts)
    length = max(round(room * total / largest), 1)
    made = [length * count // total for count in counts]
    by_rest = sorted(range(len(counts)), key=lambda number: (-(length * counts[number] % total), number))
    for number in by_rest[: length - sum(made)]:
        made[number] += 1
    return tuple(made)
