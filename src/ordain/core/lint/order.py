"""Which step comes before which, asked of many pairs of one plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from ordain.core.graph import cycles, dependents

__all__ = ["Order"]


class Order:
    """The order of the steps of a plan by their needs; needs that are no steps are passed over.

    The first question costs one pass with a set of bits for each step, so that 20,000 steps can be asked about all
    their pairs.
    """

    def __init__(self, needs: Mapping[str, Iterable[str]]) -> None:
        self._needs = needs

    @cached_property
    def circles(self) -> list[list[str]]:
        """The groups of steps that need each other."""
        seen: set[str] = set()
        for name, wanted in self._needs.items():
            if not seen.issuperset(wanted):
                return cycles(self._needs)
            seen.add(name)
        return []  # everything needs only what stands before it, as in most plans

    @cached_property
    def sequence(self) -> list[str]:
        """The steps in an order that respects their needs; those in circles are left out."""
        waiting = {name: len({need for need in wanted if need in self._needs}) for name, wanted in self._needs.items()}
        needed_by = dependents({name: set(wanted) for name, wanted in self._needs.items()})
        done = [name for name, count in waiting.items() if count == 0]
        for name in done:
            for other in needed_by[name]:
                waiting[other] -= 1
                if waiting[other] == 0:
                    done.append(other)
        return done

    @cached_property
    def _position(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.sequence)}

    @cached_property
    def _ancestors(self) -> list[int]:
        """For each position, the positions before it as bits."""
        masks: list[int] = []
        for name in self.sequence:
            mask = 0
            for need in self._needs[name]:
                position = self._position.get(need)
                if position is not None:
                    mask |= masks[position] | 1 << position
            masks.append(mask)
        return masks

    def before(self, first: str, then: str) -> bool:
        """Whether `then` starts only after `first` has ended."""
        one, other = self._position.get(first), self._position.get(then)
        return one is not None and other is not None and bool(self._ancestors[other] >> one & 1)

    def mask(self, names: Iterable[str]) -> int:
        """These steps as bits, to ask about all of them at once."""
        data = bytearray(len(self._position) // 8 + 1)
        for name in names:
            position = self._position.get(name)
            if position is not None:
                data[position // 8] |= 1 << position % 8
        return int.from_bytes(data, "little")

    def after_any(self, mask: int, then: str) -> bool:
        """Whether one of the steps in the mask ends before `then` starts."""
        position = self._position.get(then)
        return position is not None and bool(self._ancestors[position] & mask)

    def sort_key(self, name: str) -> int:
        """By which steps are sorted into an order that respects their needs."""
        return self._position.get(name, -1)
