"""Where in a run a decision can have been given: at a head of its chain since when nothing of its step was recorded.

So an answer counts although other steps went on while a person was thinking, and for no other question than the one
that was asked: whatever happens to a step is recorded of it, a decision too.
"""

from __future__ import annotations

from ordain.core.event import DecisionGiven, ProtectedChanged, RunEvent

__all__ = ["Moments"]

_SIZE = 32


class Moments:
    """The heads of one run's chain so far, and the last event of each step."""

    def __init__(self) -> None:
        self._heads = bytearray()
        self._last: dict[str, int] = {}
        """How many events there were with the last one of each step."""

    def add(self, event: RunEvent, head: bytes) -> None:
        """One more event of the run, and the head that it left."""
        self._heads += head
        size = len(self._heads) // _SIZE
        if isinstance(event, ProtectedChanged):
            self._last |= dict.fromkeys(event.steps, size)
        elif (step := getattr(event, "step", None)) is not None:
            self._last[step] = size

    def fit(self, decision: DecisionGiven) -> bool:
        """Whether this decision, as the next event, is of a moment since when nothing of its step was recorded."""
        try:
            head = bytes.fromhex(decision.head)
        except ValueError:
            return False
        if len(head) != _SIZE:
            return False
        at = max(self._last.get(decision.step, 1) - 1, 0) * _SIZE
        while (at := self._heads.find(head, at)) >= 0:
            if at % _SIZE == 0:
                return True
            at += 1
        return False
