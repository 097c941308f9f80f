"""Which step of one plan is which step of another: the same by id, renamed, moved, new or gone.

A step keeps its identity through its id. One whose id is new is the old one renamed where nothing but its id, its
needs and its description differ, for in a document the id follows the title. Moved are as few steps as can be: those
outside the longest run of steps that kept their order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence

import msgspec

from ordain.core.canonical import canonical_bytes
from ordain.core.model import Step
from ordain.core.value import StepId

__all__ = ["Pair", "Pairing", "pair"]


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """One step in both plans. Positions count from zero."""

    old: Step
    new: Step
    old_position: int
    position: int
    moved: bool = False

    @property
    def renamed(self) -> bool:
        return self.old.id != self.new.id


class Pairing(msgspec.Struct, frozen=True, kw_only=True):
    """Two lists of steps put side by side, each in its own order."""

    pairs: tuple[Pair, ...]
    """In the new order."""
    removed: tuple[tuple[int, Step], ...]
    added: tuple[tuple[int, Step], ...]


def pair(old: Sequence[Step], new: Sequence[Step]) -> Pairing:
    """Put the steps of two plans side by side."""
    waiting: dict[StepId, deque[int]] = defaultdict(deque)
    for position, step in enumerate(old):
        waiting[step.id].append(position)
    found: dict[int, int] = {}
    added = []
    for position, step in enumerate(new):
        if waiting[step.id]:
            found[position] = waiting[step.id].popleft()
        else:
            added.append(position)
    removed = sorted(position for left in waiting.values() for position in left)
    for alike in (_without_name, _without_words):
        found |= _renamed(alike, old, new, removed, added)
        taken = set(found.values())
        removed = [position for position in removed if position not in taken]
        added = [position for position in added if position not in found]
    kept = _kept(found)
    return Pairing(
        pairs=tuple(
            Pair(
                old=old[found[position]],
                new=new[position],
                old_position=found[position],
                position=position,
                moved=position not in kept,
            )
            for position in sorted(found)
        ),
        removed=tuple((position, old[position]) for position in removed),
        added=tuple((position, new[position]) for position in added),
    )


def _without_name(step: Step) -> Step:
    return msgspec.structs.replace(step, id=StepId(""), needs=())


def _without_words(step: Step) -> Step:
    return msgspec.structs.replace(step, id=StepId(""), needs=(), description="")


def _renamed(
    alike: Callable[[Step], Step], old: Sequence[Step], new: Sequence[Step], removed: list[int], added: list[int]
) -> dict[int, int]:
    """Positions of one step under two names among the added and the removed, the first with the first."""
    if not removed or not added:
        return {}
    left: dict[bytes, deque[int]] = defaultdict(deque)
    for position in removed:
        left[canonical_bytes(alike(old[position]))].append(position)
    found = {}
    for position in added:
        candidates = left.get(canonical_bytes(alike(new[position])))
        if candidates:
            found[position] = candidates.popleft()
    return found


def _kept(found: Mapping[int, int]) -> set[int]:
    """The new positions of the longest run of steps whose order is the same in both plans."""
    ends: list[int] = []
    holders: list[int] = []
    before: dict[int, int | None] = {}
    for position in sorted(found):
        length = bisect_left(ends, found[position])
        before[position] = holders[length - 1] if length else None
        ends[length : length + 1] = [found[position]]
        holders[length : length + 1] = [position]
    kept: set[int] = set()
    last: int | None = holders[-1] if holders else None
    while last is not None:
        kept.add(last)
        last = before[last]
    return kept
