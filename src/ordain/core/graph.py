"""Order over plain ids: who waits for whom, and which ids wait for each other in a circle.

Knows nothing of plans. Iterative throughout, because a plan may hold 20,000 steps in one chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["ancestors", "cycles", "dependents"]


def dependents(needs: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """For each id, the ids that need it, in the order given."""
    found: dict[str, list[str]] = {name: [] for name in needs}
    for name, wanted in needs.items():
        for other in wanted:
            if other in found:
                found[other].append(name)
    return found


def ancestors(needs: Mapping[str, Iterable[str]], name: str) -> set[str]:
    """Everything that must come before `name`, however far away."""
    seen: set[str] = set()
    todo = list(needs.get(name, ()))
    while todo:
        other = todo.pop()
        if other not in seen:
            seen.add(other)
            todo.extend(needs.get(other, ()))
    return seen


def cycles(needs: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Every group of ids that need each other in a circle, each named in full; a need of itself is a circle of one."""
    # What remains after peeling off everything that can run, then everything nothing in the rest needs, is exactly
    # the circles and the paths between them; connected parts of it are reported together.
    known = {name: {other for other in wanted if other in needs} for name, wanted in needs.items()}
    rest = _peel(known)
    needed_by: dict[str, set[str]] = {name: set() for name in rest}
    for name in rest:
        for other in known[name] & rest:
            needed_by[other].add(name)
    rest = _peel(needed_by)
    groups: list[list[str]] = []
    left = [name for name in known if name in rest]
    seen: set[str] = set()
    neighbours: dict[str, set[str]] = {name: set() for name in left}
    for name in left:
        for other in known[name] & neighbours.keys():
            neighbours[name].add(other)
            neighbours[other].add(name)
    for name in left:
        if name in seen:
            continue
        group, todo = {name}, [name]
        while todo:
            for other in neighbours[todo.pop()] - group:
                group.add(other)
                todo.append(other)
        seen |= group
        groups.append([member for member in left if member in group])
    return groups


def _peel(needs: Mapping[str, set[str]]) -> set[str]:
    """The ids left over when everything with no unmet need is taken away, again and again."""
    waiting = {name: len(wanted) for name, wanted in needs.items()}
    needed_by = dependents(needs)
    free = [name for name, count in waiting.items() if count == 0]
    while free:
        name = free.pop()
        del waiting[name]
        for other in needed_by[name]:
            waiting[other] -= 1
            if waiting[other] == 0:
                free.append(other)
    return set(waiting)
