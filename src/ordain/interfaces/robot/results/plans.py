"""What the verbs about plans answer: lint, show, prepare, revise, list, fmt."""

from __future__ import annotations

from typing import Any

import msgspec

from ordain.core.approval.diff.concern import Concern
from ordain.core.approval.diff.difference import Comparison, FieldChange, Side, StepsDifference
from ordain.core.lint.waves import fallbacks_for, waits_for, waves
from ordain.core.plan.canonical import plan_hash, plan_id
from ordain.core.plan.model import Plan
from ordain.core.plan.value import Instant, PlanId, RunId, StepId
from ordain.core.report.report import KeptOutput, LintReport, PlanLine, Prepared, Review, ReviewedPlan, RunReport
from ordain.core.run.step_event import StepState
from ordain.interfaces.view.picture import for_all, states_of

# --- Plans -----------------------------------------------------------------------------------------------------------


class LintResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a document says. `plan_id` is null where there is no plan to speak of."""

    file: str | None
    dialect: str | None
    plan_id: PlanId | None
    plan_hash: str | None
    title: str | None
    steps: int


def lint_result(report: LintReport) -> LintResult:
    return LintResult(
        file=report.file,
        dialect=report.dialect,
        plan_id=report.plan_id,
        plan_hash=report.plan_hash,
        title=report.title,
        steps=report.steps,
    )


class IdentifiedPlan(Plan, frozen=True, kw_only=True):
    """A plan in its canonical form, and beside it the id that its bytes have."""

    plan_id: PlanId


class ReviewResult(ReviewedPlan, frozen=True, kw_only=True):
    """A plan with everything that an approver must see."""

    plan: IdentifiedPlan


def review_result(review: Review) -> ReviewResult:
    return ReviewResult(**_reviewed(review))


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """How a person permits the run. The handle is worth nothing until one does."""

    request: str
    expires_at: Instant
    command: str


class PreparedResult(ReviewResult, frozen=True, kw_only=True):
    """A plan that was stored, and what comes next."""

    approval: ApprovalRequest | None
    """Null where policy asks for none."""
    commit_command: str
    preparation: str
    """What the command names: it starts one run, however often it is asked."""
    expires_at: Instant


def prepared_result(prepared: Prepared) -> PreparedResult:
    approval = None
    if prepared.approval_command is not None:
        approval = ApprovalRequest(
            request=prepared.lineage, expires_at=prepared.expires_at, command=prepared.approval_command
        )
    return PreparedResult(
        **_reviewed(prepared.review),
        approval=approval,
        commit_command=prepared.commit_command,
        preparation=prepared.preparation,
        expires_at=prepared.expires_at,
    )


def _reviewed(review: Review) -> dict[str, Any]:
    facts = {name: getattr(review, name) for name in ReviewedPlan.__struct_fields__}
    # Values of variables are for the person who approves, and for the record.
    facts["base"] = msgspec.structs.replace(review.base, environment=None)
    return facts | {"plan": IdentifiedPlan(**msgspec.structs.asdict(review.plan), plan_id=review.plan_id)}


class OutputResult(KeptOutput, frozen=True, kw_only=True):
    """What a step wrote, without secrets; or the file that the exact bytes were written to."""

    written: str | None
    output: str | None


def output_result(found: KeptOutput, *, written: str | None = None, output: str | None = None) -> OutputResult:
    return OutputResult(**msgspec.structs.asdict(found), written=written, output=output)


class DrawnStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step in the picture. One of no wave waits for itself; without a run there is no state."""

    number: int
    id: StepId
    waits_for: tuple[StepId, ...]
    wave: int | None
    state: StepState | None


class DrawnFallback(msgspec.Struct, frozen=True, kw_only=True, rename={"used_by": "for"}):
    """A fallback, the steps that name it, and whether the plan's own policy does."""

    id: StepId
    used_by: tuple[StepId, ...]
    for_all: bool


class PictureResult(msgspec.Struct, frozen=True, kw_only=True):
    """Which step waits for which."""

    plan_id: PlanId
    written: str | None
    """The file that the picture was written to, as a Mermaid flowchart."""
    title: str
    run_id: RunId | None
    waves: tuple[tuple[StepId, ...], ...]
    steps: tuple[DrawnStep, ...]
    fallbacks: tuple[DrawnFallback, ...]
    mermaid: str | msgspec.UnsetType = msgspec.UNSET
    """The picture as a Mermaid flowchart, where that was to be printed."""


def picture_result(
    plan: Plan,
    run: RunReport | None,
    written: str | None = None,
    mermaid: str | msgspec.UnsetType = msgspec.UNSET,
) -> PictureResult:
    needs, states = waits_for(plan), states_of(run)
    found = waves(needs)
    wave_of = {step: number for number, wave in enumerate(found, start=1) for step in wave}
    return PictureResult(
        plan_id=plan_id(plan),
        written=written,
        title=plan.title,
        run_id=run.run_id if run is not None else None,
        waves=tuple(map(tuple, found)),
        steps=tuple(
            DrawnStep(
                number=number,
                id=step.id,
                waits_for=tuple(needs[step.id]),
                wave=wave_of.get(step.id),
                state=states.get(step.id),
            )
            for number, step in enumerate(plan.steps, start=1)
        ),
        fallbacks=tuple(
            DrawnFallback(id=name, used_by=tuple(users), for_all=name in for_all(plan))
            for name, users in fallbacks_for(plan).items()
        ),
        mermaid=mermaid,
    )


class ListResult(msgspec.Struct, frozen=True, kw_only=True):
    """Plans, and how many there are in all."""

    plans: tuple[PlanLine, ...]
    count: int


class FormResult(msgspec.Struct, frozen=True, kw_only=True):
    """A document in form: which lines are others, and all of it unless it was only to be checked or rewritten."""

    notation: str
    plan_id: PlanId
    changed_lines: tuple[int, ...]
    text: str | msgspec.UnsetType = msgspec.UNSET


# --- Comparing -------------------------------------------------------------------------------------------------------
# What the verb that compares plans answers: diff.


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
