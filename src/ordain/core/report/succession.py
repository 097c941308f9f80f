"""What whoever approves a successor must know: why it exists, what it keeps, what became wider and what weaker."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ordain.core.approval.approval import Continuation
from ordain.core.approval.diff.difference import PlanDifference, StepsDifference
from ordain.core.lineage.lineage import Rejection
from ordain.core.plan.role import ConcernKind
from ordain.core.plan.value import PlanId, RunId, StepId

WEAKER: frozenset[ConcernKind] = frozenset(
    [
        "contract_removed", "contract_weakened", "contract_changed", "proof_removed", "protect_narrowed",
        "inputs_narrowed", "workspace_unbound", "tier_lowered", "approval_dropped", "ask_removed", "step_removed",
        "condition_removed", "failure_softened", "worktree_dropped", "needs_removed", "question_changed",
        "failure_changed",
    ]
)  # fmt: skip
"""The kinds of change that check less or ask less; all others let a plan do more, or something else."""


class KeptStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step that need not run again, and the run that carried it out."""

    step: StepId
    run_id: RunId
    passed: bool
    """Else only its check had failed, and it is kept only where its contract holds now."""
    contract: bool
    """Whether a contract is run first, and must hold."""
    word: str = ""
    """By whose word alone it passed, where nothing was seen."""


class Successor(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that goes on with a run of another version."""

    binding: Continuation
    run_id: RunId
    run_status: str
    """How that run ended, or `open`: then it is replaced when this one starts."""
    previous_plan_id: PlanId
    version: int
    reason: str
    causes: tuple[str, ...]
    """What failed there, and how."""
    kept: tuple[KeptStep, ...]
    runs: tuple[StepId, ...]
    """The steps of the plan that run."""
    runs_partly: tuple[StepId, ...] = ()
    """Those of which some items, or steps inside, are kept."""
    uncertain: tuple[StepId, ...] = ()
    """Steps that were under way when that run was ended: they may have happened."""
    wider: tuple[str, ...] = ()
    weaker: tuple[str, ...] = ()
    summary: str = ""
    changes: PlanDifference = PlanDifference()
    """Every field that differs from the plan before."""
    approved_before: bool = False
    """Whether a person approved that plan, so that what is unchanged was read."""
    unasked: bool = False
    """Whether it goes on without an approval of its own, because the approval of before allows a subset."""
    why_asked: tuple[str, ...] = ()
    """Where an approval allows a subset: why this is none."""

    def reasons(self, policy: tuple[str, ...]) -> tuple[str, ...]:
        """Why somebody is asked about it, with what policy says; or why nobody is."""
        if self.unasked:
            return (f"{self.run_id} was approved with what does only a part of that",)
        return f"it goes on with {self.run_id}", *self.why_asked, *policy


# --- Comment ---------------------------------------------------------------------------------------------------------


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
