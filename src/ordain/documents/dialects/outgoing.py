"""What the writers of all dialects share: saying what a dialect has no place for, and what was left out beside it.

A plan is written whole or not at all: every field that a dialect can not say is an error with its step and name. What
stands beside the plan is left out where there is no place for it, and a warning names it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from ordain.core.plan.model import Step
from ordain.core.text.problem import Place, Problem
from ordain.documents.dialects.status import status_word
from ordain.documents.document import Document

_ALWAYS = ("plan_version", "title", "steps", "id", "description", "action", "needs")


class Outgoing:
    """One document on its way into a dialect: its plan and record, and the problems met."""

    def __init__(self, document: Document, dialect: str) -> None:
        if document.plan is None:
            raise ValueError("a document that could not be read is never written")
        self.plan = document.plan
        self.dialect = dialect
        self.notes = document.notes
        self.problems: list[Problem] = []
        self._places = document.places
        self._record = dict(document.record)

    # --- The plan ---

    def refuse(self, step: str | None, field: str, *hints: str, why: str = "") -> None:
        """The dialect can not say this field of the plan or of one of its steps."""
        reason = (
            f"{why}, which dialect {self.dialect} can not say" if why else f"has no place in dialect {self.dialect}"
        )
        self._refuse(step, field, reason, *hints)

    def demand(self, step: str | None, field: str, *hints: str) -> None:
        """The dialect wants this field, and nothing is said about it."""
        self._refuse(step, field, f"is not said, and dialect {self.dialect} wants it", *hints)

    def _refuse(self, step: str | None, field: str, reason: str, *hints: str) -> None:
        owner = "The plan's" if step is None else f"Step `{step}`:"
        self._add("E_DIALECT", f"{owner} `{field}` {reason}.", step, *hints)

    def refuse_fields(self, value: msgspec.Struct, sayable: Collection[str], step: str | None) -> None:
        """Refuse every field of a value that says something and is not among those that the dialect can say."""
        for name in said_fields(value):
            if name not in sayable and name not in _ALWAYS:
                self.refuse(step, name)

    def refuse_ids(self, ids: Sequence[str]) -> None:
        """Refuse ids that are not those which a reader makes where none can be written."""
        for step, made in zip(self.plan.steps, ids, strict=True):
            if step.id != made:
                self.refuse(step.id, "id", f"There the step would be called `{made}`; give it that id.")

    def refuse_needs(self) -> None:
        """Refuse every order of steps but one after the other."""
        for number, step in enumerate(self.plan.steps):
            if step.needs != ((self.plan.steps[number - 1].id,) if number else ()):
                self.refuse(step.id, "needs", why="is not just the step before")

    def action_of(self, step: Step, *kinds: type[Any], name: str | None = None) -> Any:
        """The step's action, if it is one of these; `name` is what to call a step of a nested plan."""
        if isinstance(step.action, kinds):
            return step.action
        tag = type(step.action).__struct_config__.tag
        self.refuse(name or step.id, "action", why=f"is of the type `{tag}`")
        return None

    # --- Beside the plan ---

    def beside(self, owner: str) -> Aside:
        """What the document says beside the plan or a step."""
        return Aside(self._record.pop(owner, {}), self, owner)

    def leave_out(self, owner: str, names: Sequence[str]) -> None:
        """These things beside the plan or a step have no place in the dialect."""
        if names:
            listed = ", ".join(f"`{name}`" for name in names)
            whose = f"step `{owner}`" if owner else "the plan"
            detail = f"Dialect {self.dialect} has no place for what stands beside {whose}: {listed}."
            self._add("W_DIALECT", detail, owner or None)

    def leave_out_rest(self, *, notes: bool) -> None:
        """Name what nobody has asked for; `notes` says whether those are left out as well."""
        for owner, said in self._record.items():
            self.leave_out(owner, list(said))
        if notes and self.notes:
            self.leave_out("", ["notes"])

    def _add(self, code: str, detail: str, step: str | None, *hints: str) -> None:
        where = self._places.get(step or "")
        place = where if where is not None else Place(step=step)
        self.problems.append(Problem(code=code, detail=detail, where=place, hints=hints))


class Aside:
    """What a document says beside a plan or one of its steps, while a writer takes from it what it has a place for."""

    def __init__(self, said: Mapping[str, Any], out: Outgoing, owner: str) -> None:
        self._said = dict(said)
        metadata = self._said.get("metadata")
        self._metadata = dict(metadata) if isinstance(metadata, Mapping) else {}
        if isinstance(metadata, Mapping):
            del self._said["metadata"]
        lineage = self._metadata.get("lineage")
        self._lineage = dict(lineage) if isinstance(lineage, Mapping) else {}
        if isinstance(lineage, Mapping):
            del self._metadata["lineage"]
        self._out = out
        self._owner = owner

    def status(self, of: Literal["plan", "step"]) -> str | None:
        """The status that is claimed, in the dialect's own words."""
        said = self._said.get("status")
        word = status_word(said, of, self._out.dialect) if isinstance(said, str) else None
        if word is not None:
            del self._said["status"]
        return word

    def record(self, *names: str) -> dict[str, Any]:
        """What is said under these names of the record itself."""
        return {name: self._said.pop(name) for name in names if name in self._said}

    def metadata(self, *names: str) -> dict[str, Any]:
        """What the metadata says under these names."""
        return {name: self._metadata.pop(name) for name in names if name in self._metadata}

    def whole_metadata(self) -> Any:
        """All of the metadata, as it was said."""
        whole = {**self._metadata, **({"lineage": self._lineage} if self._lineage else {})}
        self._metadata, self._lineage = {}, {}
        return whole or self._said.pop("metadata", None)

    def lineage(self, *names: str) -> dict[str, Any]:
        """What is said about the versions before this one."""
        return {name: self._lineage.pop(name) for name in names if name in self._lineage}

    def leave_out_rest(self) -> None:
        """Name what was not taken."""
        rest = [*self._said, *(f"metadata.{name}" for name in self._metadata)]
        rest += [f"metadata.lineage.{name}" for name in self._lineage]
        self._out.leave_out(self._owner, rest)


def said_fields(value: msgspec.Struct) -> Iterator[str]:
    """The names of the fields of a value that are not left at their default."""
    for field in msgspec.structs.fields(value):
        default = field.default if field.default is not msgspec.NODEFAULT else None
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        given = getattr(value, field.name)
        if given != default:
            yield field.encode_name
