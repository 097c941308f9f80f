"""What the tools answer: the facts of robot mode's results that a model needs, and no more than its window holds.

Everything is folded from the app's values; all there is to know is in the resources and in robot mode.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

import msgspec

from ordain.core.lineage.decision import Question
from ordain.core.plan.canonical import short_id
from ordain.core.policy.effect import PlannedEffect
from ordain.core.report.report import PlanLine, Prepared, Review, RunReport, StepReport
from ordain.core.run.step_event import StepState
from ordain.interfaces.robot.results.plans import ApprovalRequest, prepared_result
from ordain.interfaces.robot.results.runs import error_code, status_word
from ordain.interfaces.robot.results.tools import ToolsResult

STEPS_MAX = 50
"""How many steps an answer tells of, those that matter first, unless all of them are asked for."""
_TAIL_MAX = 2_000
"""How much of what a step wrote an answer tells."""
_MATTERS = {
    StepState.FAILED: 0,
    StepState.ESCALATED: 0,
    StepState.IN_DOUBT: 0,
    StepState.RUNNING: 1,
    StepState.VERIFYING: 1,
    StepState.WAITING: 1,
}


class Inventory(ToolsResult, frozen=True, kw_only=True):
    """What a plan can be made of: tools to call, and agents to give tasks to."""

    agents: tuple[str, ...]
    """Each by its name, with what it is good for, and what it does where a task names nobody."""


class PlanBrief(msgspec.Struct, frozen=True, kw_only=True):
    """One plan in a list."""

    plan: str
    """The short id by which it is named."""
    plan_id: str
    lineage: str
    title: str
    status: str
    proposer: str
    revisions: int
    requires_approval: bool
    expires_at: int
    feedback: str | None
    """What was said when it was rejected last."""
    run_id: str | None


class PlansAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Plans, newest last, and how many there are in all."""

    plans: tuple[PlanBrief, ...]
    count: int


class EffectBrief(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that the plan will do, as whoever approves it is told."""

    step: str
    kind: str
    target: str
    effect: str
    destructive: bool


class ProposedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that was stored, what it will do, and how a person permits it."""

    plan: str
    """The short id by which it is named from now on."""
    plan_id: str
    plan_hash: str
    lineage: str
    title: str
    status: str
    requires_approval: bool
    reasons: tuple[str, ...]
    """Why it needs a person's approval."""
    effects: tuple[EffectBrief, ...]
    approval: ApprovalRequest | None
    """How a person approves. Nobody else can, and no tool here does."""
    commit_command: str
    preparation: str
    """Give it to plan_commit: it starts one run, however often it is asked."""
    expires_at: int
    tier: int
    """0: cooperative. The harness, and no sandbox, keeps steps to what was approved."""
    preview: str
    """The plan as whoever approves it sees it."""


class RejectionBrief(msgspec.Struct, frozen=True, kw_only=True):
    """One no, and what should change."""

    by: str
    feedback: str
    comments: dict[str, str]


class PlanAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A stored plan whole."""

    plan: str
    plan_id: str
    plan_hash: str
    lineage: str
    status: str
    requires_approval: bool
    reasons: tuple[str, ...]
    effects: tuple[EffectBrief, ...]
    rejections: tuple[RejectionBrief, ...]
    tier: int
    document: dict[str, Any]
    """The plan in its canonical form: `ordain schema plan` describes it. Edited, it can be the next revision."""
    preview: str
    """The same as whoever approves it sees it."""
    run_id: str | None


class StepBrief(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a run."""

    number: int
    id: str
    description: str
    state: str
    attempts: int
    evidence: str
    unverified: bool
    """Whether it passed by somebody's word alone, and nothing was seen."""
    """What the harness saw. What an agent said about its own work is not in it."""
    error: str | None
    waiting: str | None
    output_tail: str
    """The end of what was written last: by the contract, where it was run, else by the step itself."""
    own_output_tail: str
    """The end of what the step itself wrote, where `output_tail` is its contract's."""


class QuestionBrief(msgspec.Struct, frozen=True, kw_only=True):
    """What a run asks a person. Only they can answer, with the command."""

    item: str
    kind: str
    text: str
    command: str


class RunAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it stands."""

    run_id: str
    execution_id: str
    """The same as `run_id`."""
    plan: str
    plan_id: str
    title: str
    status: str
    """`success`, `failed`, `cancelled`; `executing`, `pausing`, `cancelling`; `waiting` (for a person), `paused` (by
    one), `stopped` (nobody is carrying it out), `stalled` (no sign of life)."""
    counts: dict[str, int]
    """How many steps are in each state."""
    steps: tuple[StepBrief, ...]
    """Those that matter most, in the plan's order."""
    steps_left_out: int
    questions: tuple[QuestionBrief, ...]
    error_code: str | None
    remediation: str | None
    took_ms: int


class QueuedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A run that begins by itself: when another one has ended, or when what it needs has answered."""

    plan: str
    status: Literal["waiting_for_place", "starting"] = "waiting_for_place"


class StatusAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How a plan stands, and its newest run if it has one."""

    plan: PlanBrief
    run: RunAnswer | None


class ApprovalAsked(msgspec.Struct, frozen=True, kw_only=True):
    """How a person approves a plan. This tool asked nobody and approved nothing by itself."""

    plan: str
    status: str
    approved: bool
    """Whether a person's approval is there that a run could use."""
    requires_approval: bool
    command: str | None
    """What a person types at a terminal. It shows them the whole plan first."""
    expires_at: int | None


def plan_brief(line: PlanLine) -> PlanBrief:
    return PlanBrief(
        plan=short_id(line.plan_id),
        plan_id=line.plan_id,
        lineage=line.lineage,
        title=line.title,
        status=line.status,
        proposer=line.proposer.words,
        revisions=line.revisions,
        requires_approval=line.requires_approval,
        expires_at=line.expires_at,
        feedback=line.feedback,
        run_id=line.last_run,
    )


def proposed_answer(prepared: Prepared, preview: str) -> ProposedAnswer:
    review, result = prepared.review, prepared_result(prepared)
    return ProposedAnswer(
        plan=short_id(review.plan_id),
        plan_id=review.plan_id,
        plan_hash=review.plan_hash,
        lineage=prepared.lineage,
        title=review.plan.title,
        status=review.status,
        requires_approval=review.requires_approval,
        reasons=review.reasons,
        effects=tuple(map(_effect, review.effects)),
        approval=result.approval,
        commit_command=result.commit_command,
        preparation=result.preparation,
        expires_at=result.expires_at,
        tier=review.tier,
        preview=preview,
    )


def plan_answer(review: Review, preview: str) -> PlanAnswer:
    return PlanAnswer(
        plan=short_id(review.plan_id),
        plan_id=review.plan_id,
        plan_hash=review.plan_hash,
        lineage=review.lineage or "",
        status=review.status,
        requires_approval=review.requires_approval,
        reasons=review.reasons,
        effects=tuple(map(_effect, review.effects)),
        rejections=tuple(
            RejectionBrief(
                by=one.by.name, feedback=one.feedback, comments={str(step): text for step, text in one.comments.items()}
            )
            for one in review.rejections
        ),
        tier=review.tier,
        document=msgspec.to_builtins(review.plan),
        preview=preview,
        run_id=review.run.run_id if review.run is not None else None,
    )


def _effect(effect: PlannedEffect) -> EffectBrief:
    return EffectBrief(
        step=effect.step,
        kind=effect.kind,
        target=effect.target,
        effect=effect.effect.value,
        destructive=effect.destructive,
    )


def run_answer(report: RunReport, commands: tuple[str, ...], *, full: bool) -> RunAnswer:
    """A run with the steps that matter most, or all of them."""
    ranked = sorted(report.steps, key=lambda step: _MATTERS.get(step.state, 2 + (step.state is StepState.PASSED)))
    chosen = {step.id for step in (ranked if full else ranked[:STEPS_MAX])}
    steps = tuple(_step(step) for step in report.steps if step.id in chosen)
    return RunAnswer(
        run_id=report.run_id,
        execution_id=report.run_id,
        plan=short_id(report.plan_id),
        plan_id=report.plan_id,
        title=report.title,
        status=status_word(report),
        counts=dict(Counter(step.state.value for step in report.steps)),
        steps=steps,
        steps_left_out=len(report.steps) - len(steps),
        questions=tuple(map(_question, report.questions)),
        error_code=error_code(report),
        remediation=commands[0] if commands else None,
        took_ms=report.took_ms,
    )


def _step(step: StepReport) -> StepBrief:
    return StepBrief(
        number=step.number,
        id=step.id,
        description=step.description,
        state=step.state.value,
        attempts=step.attempts,
        evidence=step.evidence,
        unverified=step.unverified,
        error=step.error,
        waiting=step.waiting,
        output_tail=step.output_tail[-_TAIL_MAX:],
        own_output_tail=step.own_output_tail[-_TAIL_MAX:],
    )


def _question(question: Question) -> QuestionBrief:
    return QuestionBrief(item=question.item, kind=question.kind, text=question.text, command=question.asking)
