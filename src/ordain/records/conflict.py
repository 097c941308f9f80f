"""Writing to a stream that others write to: look, decide, append, and look again where somebody wrote in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from ordain.core.text.problem import Refused, refuse

CONFLICTS_MAX = 1_000
"""How often somebody else may be quicker: a crowd of as many writers gets through, and nobody tries for ever."""

T = TypeVar("T")


def is_conflict(refused: Refused) -> bool:
    """Whether an append was refused because of what somebody else recorded in between."""
    return refused.problems[0].code == "E_LEDGER_CONFLICT"


def conflicts() -> Iterator[int]:
    """Counts how often one write was overtaken, with `next`; raises Refused where that is too often."""
    yield from range(1, CONFLICTS_MAX)
    raise refuse(
        "E_LEDGER_CROWDED",
        f"Others wrote to this ledger first {CONFLICTS_MAX:,} times in a row, so this was not recorded.",
        "Some program writes to it without end: find it in the log, stop it, and run the command again.",
        command="ordain log",
    )


async def retried(attempt: Callable[[], Awaitable[T]]) -> T:
    """What an attempt returns that looks and then appends: the first during which nobody else wrote."""
    overtaken = conflicts()
    while True:
        try:
            return await attempt()
        except Refused as refused:
            if not is_conflict(refused):
                raise
            next(overtaken)
