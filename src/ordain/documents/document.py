"""What reading a document gives: a plan or the problems that keep it from being one, each with its place.

Knows nothing of any notation. Holds the one invariant that callers rely on: a document with an error has no plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from ordain.core.model import Plan
from ordain.core.problem import Place, Problem, Severity

__all__ = ["PROBLEMS_MAX", "Document", "LazyPlaces", "Notation", "ProblemList", "plan_unless_wrong"]

Notation = Literal["markdown", "yaml", "json"]

PROBLEMS_MAX = 200
"""How many problems one reading keeps; a hostile document could otherwise have a million."""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """One document as read.

    `plan` is there unless a problem is an error; then `partial` is what could be read of it, with which nothing may be
    done but to look for further problems. `places` says where each step starts, by step id, and where the
    plan's title is, under the empty key. `notes` are the parts beside the plan: heading and text of every other
    section, and under the empty heading the free paragraphs around the title. `record` holds what the document says
    about the plan and its steps without being part of them, never hashed and never believed: owner, status, foreign
    ids and the like, by step id, and under the empty key those of the plan; those of a plan nested in the step `a`
    stand under `a/` and its steps' under `a/b`. `dialect` names the seed in whose form the document is written, where
    that is not the form of its notation.
    """

    plan: Plan | None = None
    partial: Plan | None = None
    problems: tuple[Problem, ...] = ()
    places: Mapping[str, Place] = {}
    notes: tuple[tuple[str, str], ...] = ()
    notation: Notation = "markdown"
    dialect: str | None = None
    record: Mapping[str, Mapping[str, Any]] = {}


class LazyPlaces(Mapping[str, Place]):
    """Places that are looked up when they are asked for, by readers for which finding a place is work."""

    def __init__(self, find: Callable[[str], Place], keys: Iterable[str], file: str | None = None) -> None:
        self._find = find
        self._keys = dict.fromkeys(keys)
        self._file = file

    def in_file(self, file: str) -> LazyPlaces:
        """The same places, which know the name of their file."""
        return LazyPlaces(self._find, self._keys, file)

    def __getitem__(self, key: str) -> Place:
        if key not in self._keys:
            raise KeyError(key)
        return msgspec.structs.replace(self._find(key), file=self._file)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


class ProblemList:
    """Gathers the problems of one reading, so that all of them can be shown and not just the first."""

    def __init__(self) -> None:
        self._found: list[Problem] = []
        self._default = Place()

    def about(self, step: str | None, line: int | None) -> ProblemList:
        """The same list for problems of one step: they carry its id, and its line where they have none."""
        same = ProblemList()
        same._found = self._found
        same._default = Place(step=step, line=line)
        return same

    def add(self, code: str, detail: str, *hints: str, line: int | None = None, column: int | None = None) -> None:
        """One more problem, at this place."""
        where = Place(line=line or self._default.line, column=column, step=self._default.step)
        self.extend([Problem(code=code, detail=detail, where=where, hints=hints)])

    def extend(self, problems: Iterable[Problem]) -> None:
        """Problems found by another reader, which knows the line but not the step."""
        for problem in problems:
            if len(self._found) >= PROBLEMS_MAX:
                return
            place = problem.where or self._default
            where = msgspec.structs.replace(place, step=place.step or self._default.step)
            self._found.append(msgspec.structs.replace(problem, where=where))

    def __len__(self) -> int:
        return len(self._found)

    def in_order(self) -> tuple[Problem, ...]:
        """All of them as they come in the document."""
        return tuple(sorted(self._found, key=_line))


def _line(problem: Problem) -> int:
    return (problem.where.line if problem.where else None) or 0


def plan_unless_wrong(plan: Plan | None, problems: Iterable[Problem]) -> Plan | None:
    """The plan, unless one of the problems is more than a warning."""
    return plan if all(problem.severity is Severity.WARNING for problem in problems) else None
