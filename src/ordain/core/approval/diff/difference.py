"""What changed between two plans, by step; the difference is empty exactly when both have one digest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ordain.core.approval.diff.concern import Concern, concerns
from ordain.core.approval.diff.pairing import StepPair, pair
from ordain.core.plan.model import Plan, Step, nested_plan_of
from ordain.core.plan.tool import ToolDefinition
from ordain.core.plan.value import Instant, PlanId, StepId
from ordain.core.policy.settings import DEFAULTS, Settings

ALIKE_MIN = 3
"""So many changes that are the same are told once."""


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One of two plans that are compared, and where it is from: a stored lineage, a document, or both."""

    plan_id: PlanId
    plan: Plan
    lineage: str | None = None
    document: str | None = None


class FieldChange(msgspec.Struct, frozen=True, kw_only=True):
    """One field that differs, by its path of names on the wire. A side that does not have it is absent."""

    path: tuple[str, ...]
    old: Any = msgspec.UNSET
    new: Any = msgspec.UNSET


class PlacedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step that only one of the plans has, whole, with its number there."""

    number: int
    step: Step


class RenamedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step with another id that does and checks the same."""

    id: StepId
    old_id: StepId
    number: int


class MovedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step that stands elsewhere among the others."""

    id: StepId
    number: int
    old_number: int


class ChangedStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step that both plans have and that is not the same; `inside` is about the plan nested in it."""

    id: StepId
    number: int
    fields: tuple[FieldChange, ...] = ()
    inside: PlanDifference | None = None


class StepsDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Two lists of steps. Ids and numbers are the new plan's, except those of removed steps."""

    added: tuple[PlacedStep, ...] = ()
    removed: tuple[PlacedStep, ...] = ()
    renamed: tuple[RenamedStep, ...] = ()
    moved: tuple[MovedStep, ...] = ()
    changed: tuple[ChangedStep, ...] = ()


class PlanDifference(msgspec.Struct, frozen=True, kw_only=True):
    """All that differs between two plans."""

    fields: tuple[FieldChange, ...] = ()
    steps: StepsDifference = StepsDifference()
    fallbacks: StepsDifference = StepsDifference()


class Difference(PlanDifference, frozen=True, kw_only=True):
    """All that differs, and above it what an approver should read first, the most dangerous on top."""

    concerns: tuple[Concern, ...] = ()

    @property
    def empty(self) -> bool:
        return self == Difference()


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two plans and what changed from the old to the new."""

    old: Side
    new: Side
    difference: Difference


class Since(msgspec.Struct, frozen=True, kw_only=True):
    """What changed since the plan that a person approved, or rejected, last from the same document."""

    plan_id: PlanId
    approved_at: Instant | None = None
    rejected_at: Instant | None = None
    concerns: tuple[str, ...]
    summary: str
    changes: PlanDifference
    """Every field that differs, with its old and new value."""


def difference(old: Plan, new: Plan, tools: Mapping[str, ToolDefinition], settings: Settings = DEFAULTS) -> Difference:
    """What changed from one plan to the other; `tools` says what calls would do."""
    found = msgspec.structs.asdict(_plans(old, new))
    return Difference(**found, concerns=concerns(old, new, tools, settings))


def summary(found: PlanDifference) -> str:
    """How much changed, in one sentence."""
    lists = (found.steps, found.fallbacks)
    words = ("added", "removed", "changed", "renamed", "moved")
    counts = [(sum(len(getattr(one, word)) for one in lists), word) for word in words]
    said = ", ".join(f"{count} step{'s' * (count != 1)} {word}" for count, word in counts if count)
    fields = f"; {len(found.fields)} of the plan's own fields changed" if found.fields else ""
    return f"In all: {said or 'no step is different'}{fields}."


def concern_words(found: Sequence[Concern]) -> tuple[tuple[str, str], ...]:
    """Concerns as kind and sentence; what is said of many steps is said once, with their number."""
    alike: dict[tuple[str, str], list[Concern]] = {}
    for one in found:
        alike.setdefault((one.kind, one.detail.replace(f"`{one.step}`", "`…`")), []).append(one)
    told = []
    for (kind, _), ones in alike.items():
        if len(ones) < ALIKE_MIN:
            told += [(kind, one.detail) for one in ones]
        else:
            told.append((kind, f"{ones[0].detail} The same holds for {len(ones) - 1:,} other steps."))
    return tuple(told)


def _plans(old: Plan, new: Plan) -> PlanDifference:
    trees = [msgspec.to_builtins(msgspec.structs.replace(plan, steps=(), fallbacks=())) for plan in (old, new)]
    return PlanDifference(
        fields=tuple(_changes(trees[0], trees[1])),
        steps=_lists(old.steps, new.steps),
        fallbacks=_lists(old.fallbacks, new.fallbacks),
    )


def _lists(old: Sequence[Step], new: Sequence[Step]) -> StepsDifference:
    paired = pair(old, new)
    changed = (_step(one) for one in paired.pairs if one.old is not one.new)
    return StepsDifference(
        added=tuple(PlacedStep(number=position + 1, step=step) for position, step in paired.added),
        removed=tuple(PlacedStep(number=position + 1, step=step) for position, step in paired.removed),
        renamed=tuple(
            RenamedStep(id=one.new.id, old_id=one.old.id, number=one.position + 1)
            for one in paired.pairs
            if one.renamed
        ),
        moved=tuple(
            MovedStep(id=one.new.id, old_number=one.old_position + 1, number=one.position + 1)
            for one in paired.pairs
            if one.moved
        ),
        changed=tuple(one for one in changed if one.fields or one.inside is not None),
    )


def _step(both: StepPair) -> ChangedStep:
    old: dict[str, Any] = msgspec.to_builtins(both.old)
    new: dict[str, Any] = msgspec.to_builtins(both.new)
    del old["id"], new["id"]  # another id is told as a renaming
    inside = None
    before, now = nested_plan_of(both.old), nested_plan_of(both.new)
    if before is not None and now is not None:
        inside = _plans(before, now)
        del old["action"]["plan"], new["action"]["plan"]
    return ChangedStep(
        id=both.new.id,
        number=both.position + 1,
        fields=tuple(_changes(old, new)),
        inside=inside if inside != PlanDifference() else None,
    )


# --- Values ----------------------------------------------------------------------------------------------------------


def _changes(old: Any, new: Any, path: tuple[str, ...] = ()) -> Iterator[FieldChange]:
    """The deepest fields that differ. A list is one value, and so is what became another kind of thing."""
    if isinstance(old, dict) and isinstance(new, dict) and (not path or _comparable(old, new)):
        for name in dict.fromkeys((*old, *new)):
            yield from _changes(old.get(name, msgspec.UNSET), new.get(name, msgspec.UNSET), (*path, name))
    elif not _same(old, new):
        yield FieldChange(path=path, old=_plain(old), new=_plain(new))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _comparable(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    for tag in ("type", "strategy"):
        kinds = (old.get(tag), new.get(tag))
        if all(isinstance(kind, str) for kind in kinds) and kinds[0] != kinds[1]:
            return False
    return bool(old and new)


def _same(old: Any, new: Any) -> bool:
    """Whether two values have one canonical form: numbers by value, and no boolean is a number."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(_same(inner, new[name]) for name, inner in old.items())
    if isinstance(old, list | tuple) and isinstance(new, list | tuple):
        return len(old) == len(new) and all(map(_same, old, new))
    return isinstance(old, bool) == isinstance(new, bool) and bool(old == new)
