"""What the verb that compares plans answers: diff."""

from __future__ import annotations

import msgspec

from ordain.core.canonical import plan_hash
from ordain.core.concern import Concern
from ordain.core.difference import Comparison, FieldChange, StepsDifference
from ordain.core.report import Side
from ordain.core.value import PlanId

__all__ = ["ComparedPlan", "ComparisonResult", "comparison_result"]


class ComparedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two, by name."""

    plan_id: PlanId
    plan_hash: str
    title: str
    lineage: str | None
    document: str | None


class ComparisonResult(msgspec.Struct, frozen=True, kw_only=True):
    """Both sides by name, then what to read first, then everything."""

    old: ComparedPlan
    new: ComparedPlan
    same: bool
    concerns: tuple[Concern, ...]
    fields: tuple[FieldChange, ...]
    steps: StepsDifference
    fallbacks: StepsDifference


def comparison_result(found: Comparison) -> ComparisonResult:
    changes = found.difference
    return ComparisonResult(
        old=_compared(found.old),
        new=_compared(found.new),
        same=changes.empty,
        concerns=changes.concerns,
        fields=changes.fields,
        steps=changes.steps,
        fallbacks=changes.fallbacks,
    )


def _compared(side: Side) -> ComparedPlan:
    return ComparedPlan(
        plan_id=side.plan_id,
        plan_hash=plan_hash(side.plan_id),
        title=side.plan.title,
        lineage=side.lineage,
        document=side.document,
    )
