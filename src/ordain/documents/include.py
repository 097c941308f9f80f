"""Documents inside of documents: `include` names a file, and the step that says so carries out the plan in it, which is
shown, hashed and approved with the whole. Whoever reads a document hands over what fetches files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any

from msgspec.structs import replace

from ordain.core.plan.model import Plan, nested_plan_of
from ordain.core.text.limit import DOCUMENT_BYTES_MAX, NESTED_PLANS_MAX
from ordain.core.text.path import path_fault, path_hints
from ordain.core.text.pattern import normal
from ordain.core.text.problem import Place, Problem
from ordain.documents.document import Document, LazyPlaces, ProblemList

INCLUDED_MAX = 1_000
"""How many files one document includes, each counted as often as it is."""
STAND_IN = {
    "plan_version": 1,
    "title": "…",
    "steps": [{"id": "x", "description": "…", "needs": [], "action": {"type": "run", "command": ":"}}],
}
"""The tree in place of a plan that could not be included, so that nothing more is said of it."""

Fetch = Callable[[str], bytes | Problem]
"""What is in a file beneath the workspace, or why nobody is given it."""
Reading = Callable[[bytes, "Includes"], Document]


class Includes:
    """What one document, and all that it includes, may include."""

    def __init__(self, fetch: Fetch | None, read: Reading, around: tuple[str, ...] = ()) -> None:
        self._fetch, self._read, self._around = fetch, read, around
        self.found: list[tuple[str, bytes]] = []
        """Each file that was included, and what was in it, in the order in which they stand."""

    def plan(
        self, name: object, depth: int, places: dict[str, Place], step: str, problems: ProblemList, line: int | None
    ) -> Plan | None:
        """The plan in a file, or None and what keeps it from being one. `depth` is how many plans of the document stand
        around it; the places of its steps are added under the id of the step that includes it."""
        room = NESTED_PLANS_MAX - depth - len(self._around)
        path, wrong = self._path(name, room)
        fetched = self._fetched(path) if wrong is None else wrong
        if isinstance(fetched, Problem):
            problems.about(step.rpartition("/")[2], line).extend([fetched])
            return None
        inner = Includes(self._fetch, self._read, (*self._around, path))
        inner.found = self.found
        document = in_file(self._read(fetched, inner), path)
        problems.extend(document.problems)
        if document.plan is None:
            return None
        if _depth(document.plan) >= room:
            detail = f"With `{path}` more than {NESTED_PLANS_MAX} plans are nested."
            problems.about(step.rpartition("/")[2], line).add("E_PLAN_NESTING", detail, "Include it further out.")
            return None
        for key in (step.id for step in (*document.plan.steps, *document.plan.fallbacks)):
            if (place := document.places.get(key)) is not None:
                places[f"{step}/{key}"] = place
        places.update({f"{step}/{key}": place for key, place in document.inner.items()})
        return document.plan

    def _path(self, name: object, room: int) -> tuple[str, Problem | None]:
        if not isinstance(name, str) or not name:
            return "", _problem("`include` names no file.", "Write the path of a document: `include: checks.plan.md`.")
        fault = path_fault(name)
        if fault is not None:
            return name, _problem(f"`{name[:200]}` cannot be included: it {fault}.", *path_hints(fault, writes=False))
        path = normal(name)
        if path in self._around:
            way = " includes ".join(f"`{one}`" for one in (*self._around[self._around.index(path) :], path))
            return path, _problem(f"A circle: {way}.", "A plan cannot hold itself.")
        if room <= 0:
            detail = f"`{path}` cannot be included: more than {NESTED_PLANS_MAX} plans would be nested."
            return path, Problem(code="E_PLAN_NESTING", detail=detail, hints=("Include it further out.",))
        return path, None

    def _fetched(self, path: str) -> bytes | Problem:
        if self._fetch is None:
            return _problem(f"`{path}` cannot be included: this document is read without a workspace.")
        if len(self.found) >= INCLUDED_MAX:
            return _problem(f"`{path}` cannot be included: there are {INCLUDED_MAX:,} before it.")
        data = self._fetch(path)
        if isinstance(data, bytes):
            if sum(len(one) for _, one in self.found) + len(data) > DOCUMENT_BYTES_MAX:
                return _problem(f"With `{path}` more than {DOCUMENT_BYTES_MAX:,} bytes are included.")
            self.found.append((path, data))
        return data


class Beside:
    """What is gathered beside the plan of one document: its record, where steps of inner plans are, its includes."""

    def __init__(self, includes: Includes | None = None, record: MutableMapping[str, Mapping[str, Any]] | None = None):
        self.includes = includes or Includes(None, lambda data, inner: Document())
        self.record: MutableMapping[str, Mapping[str, Any]] = {} if record is None else record
        self.inner: dict[str, Place] = {}


def document_digest(data: bytes, included: Iterable[tuple[str, bytes]]) -> str:
    """What a document says, and all that it includes: another digest where any of it is changed."""
    digest = hashlib.sha256(data)
    for path, content in included:
        digest.update(f"\0{path}\0{len(content)}\0".encode() + content)
    return "sha256:" + digest.hexdigest()


def not_included(path: str, why: str) -> Problem:
    """That a file that is named is given to nobody, and why."""
    return _problem(f"`{path}` cannot be included: {why}.")


def _problem(detail: str, *hints: str) -> Problem:
    return Problem(code="E_INCLUDE", detail=detail, hints=hints)


def _depth(plan: Plan) -> int:
    """How many plans stand inside one another in a plan, without itself."""
    inner = (nested_plan_of(step) for step in (*plan.steps, *plan.fallbacks))
    return max((1 + _depth(one) for one in inner if one is not None), default=0)


def in_file(document: Document, file: str) -> Document:
    """The same document; where its problems and places name no file yet, they are in this one."""
    return replace(
        document,
        problems=tuple(replace(one, where=_place_in(one.where or Place(), file)) for one in document.problems),
        places=_places_in(document.places, file),
        inner=_places_in(document.inner, file),
    )


def _place_in(place: Place, file: str) -> Place:
    return place if place.file is not None else replace(place, file=file)


def _places_in(places: Mapping[str, Place], file: str) -> Mapping[str, Place]:
    if isinstance(places, LazyPlaces):
        return places.in_file(file)
    return {key: _place_in(place, file) for key, place in places.items()}
