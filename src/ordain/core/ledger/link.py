"""The links of a hash chain, over bytes: knows neither events nor storage (`core.chain` does know events)."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple

_DOMAIN = b"ordain-ledger-v1\0"


class Tip(NamedTuple):
    """Where a chain stands: how many events it has, and its head. Of a whole ledger: its checkpoint."""

    size: int
    head: bytes


class Row(NamedTuple):
    """An event as it is stored: its place, its exact bytes, and the head after it."""

    seq: int
    body: bytes
    head: bytes


ORIGIN = Tip(0, bytes(32))
"""Where every chain begins."""


def extend(head: bytes, body: bytes) -> bytes:
    """The head after one more body."""
    return sha256(_DOMAIN + head + len(body).to_bytes(8, "big") + body).digest()


def verify(rows: Iterable[Row], *, start: Tip = ORIGIN, end: Tip | None = None) -> int | None:
    """The first number at which the chain is broken. It cannot tell that its last rows are gone, so `end` says that."""
    size, head = start
    for row in rows:
        size += 1
        head = extend(head, row.body)
        if row.seq != size or row.head != head:
            return size
    if end is None or (size, head) == end:
        return None
    return size if size == end.size else min(size, end.size) + 1
