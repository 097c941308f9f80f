"""What became of the things that were said about steps of a plan when it was rejected, as the next version shows."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ordain.core.approval.diff.difference import PlanDifference, StepsDifference
from ordain.core.lineage.lineage import Rejection
from ordain.core.plan.value import PlanId, StepId


class StepComment(msgspec.Struct, frozen=True, kw_only=True):
    """What was said about one step, and what became of that step since."""

    plan_id: PlanId
    """The plan that was rejected."""
    step: StepId
    comment: str
    became: str
    """Computed from the two plans, never told: whether it heeds the comment, whoever reviews it judges."""


def standings(rejection: Rejection, since: PlanDifference) -> Iterator[StepComment]:
    """What became of every comment of a rejection, where this changed since the plan that it was about."""
    for step, comment in rejection.comments.items():
        yield StepComment(plan_id=rejection.plan_id, step=step, comment=comment, became=became(step, since))


def became(step: StepId, since: PlanDifference) -> str:
    """What became of a step, in words that follow on its name."""
    for steps in (since.steps, since.fallbacks):
        if (words := _among(step, steps)) is not None:
            return words
    return "is unchanged"


def _among(step: StepId, steps: StepsDifference) -> str | None:
    if any(one.step.id == step for one in steps.removed):
        return "is gone"
    renamed = next((one for one in steps.renamed if one.old_id == step), None)
    if renamed is not None:
        return f"is called `{renamed.id}` now, and does and checks the same"
    changed = next((one for one in steps.changed if one.id == step), None)
    if changed is not None:
        fields = [change.path[0] for change in changed.fields] + ["its own plan"] * (changed.inside is not None)
        *first, last = (name.replace("_", " ") for name in dict.fromkeys(fields))
        return f"is changed: {', '.join(first)} and {last}" if first else f"is changed: {last}"
    moved = next((one for one in steps.moved if one.id == step), None)
    return f"is step {moved.number} now, and otherwise unchanged" if moved is not None else None
