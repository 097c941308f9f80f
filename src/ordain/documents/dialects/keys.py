"""The keys of a dialect's mappings, each taken by name and type, and the way from a made tree back to its source.

Knows no dialect. No key is dropped: one is taken for the plan, kept beside it, or refused as unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ordain.core.problem import closest
from ordain.documents.document import PROBLEMS_MAX, Document, Notation, ProblemList, plan_unless_wrong
from ordain.documents.shape import shape, shown
from ordain.documents.tree import read_tree
from ordain.documents.value import Locate, Path, ReadValue

__all__ = ["Keys", "Renamed", "document_of", "first_line"]


class Keys:
    """One mapping of a dialect while its keys are taken; `refuse_rest` says which of them nobody has taken."""

    def __init__(self, value: Mapping[str, Any], path: Path, locate: Locate, problems: ProblemList) -> None:
        self.value = value
        self.path = path
        self._locate = locate
        self._problems = problems
        self._taken: set[str] = set()

    def take(self, key: str, kind: Any = Any) -> Any:
        """The value of a key as this type; None where it is absent or `null`, or is none and that was said."""
        self._taken.add(key)
        given = self.value.get(key)
        if given is None:
            return None
        return shape(given, kind, locate=self._locate, problems=self._problems, path=(*self.path, key))

    def beside(self, *keys: str) -> dict[str, Any]:
        """What these keys say, under their own names, as it stands: whoever gets it looks at it."""
        self._taken.update(keys)
        return {key: self.value[key] for key in keys if self.value.get(key) is not None}

    def wrong(self, code: str, detail: str, *hints: str, at: Path = ()) -> None:
        """One more problem, at this place below the mapping."""
        line, column = self._locate((*self.path, *at))
        self._problems.add(code, detail, *hints, line=line, column=column)

    def refuse_rest(self, owner: str, instead: Mapping[str, str]) -> None:
        """Refuse every key that means nothing here; `instead` has the dialect's words for those of the format."""
        for key in self.value:
            if key in self._taken or len(self._problems) >= PROBLEMS_MAX:
                continue
            hints = (f"Write `{instead[key]}`.",) if key in instead else closest(key[:64], sorted(self._taken))
            self.wrong("E_PLAN_UNKNOWN_FIELD", f"{owner} has no field `{shown(key)}`.", *hints, at=(key,))


class Renamed:
    """Finds the places of a tree that was made from another: `plan` and `step` say where their parts came from.

    A path that begins with none of their keys is the same in both.
    """

    def __init__(self, locate: Locate, plan: Mapping[Path, Path], step: Mapping[Path, Path]) -> None:
        self._locate = locate
        self._plan = plan
        self._step = step

    def __call__(self, path: Path) -> tuple[int | None, int | None]:
        if path[:1] == ("steps",) and len(path) > 2:
            return self._locate((*path[:2], *_source(path[2:], self._step)))
        return self._locate(_source(path, self._plan))


def _source(path: Path, sources: Mapping[Path, Path]) -> Path:
    for length in range(min(len(path), 3), 0, -1):
        if path[:length] in sources:
            return (*sources[path[:length]], *path[length:])
    return path


def document_of(
    tree: dict[str, Any], read: ReadValue, locate: Locate, notation: Notation, dialect: str, problems: ProblemList
) -> Document:
    """The document of a tree in the format's own form that was made from `read`, with the problems met on the way."""
    made = read_tree(msgspec.structs.replace(read, value=tree, locate=locate), notation)
    problems.extend(made.problems)
    found = problems.in_order()
    whole = plan_unless_wrong(made.plan, found)
    partial = None if whole is not None else made.plan or made.partial
    return msgspec.structs.replace(made, plan=whole, partial=partial, problems=found, dialect=dialect)


def first_line(text: str) -> str:
    """The title of a text that may have several lines; one that has a single line is its own."""
    return text if "\n" not in text else text.strip().partition("\n")[0].rstrip()
