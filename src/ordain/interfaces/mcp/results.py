"""What the tools answer: the facts of robot mode's results that a model needs, and no more than its window holds. Each
answer names the fields that it takes from a value of the app."""

from __future__ import annotations

from collections import Counter
from types import GenericAlias
from typing import Any, Literal, get_type_hints

import msgspec

from ordain.core.lineage.decision import Question
from ordain.core.lineage.lineage import Rejection
from ordain.core.plan.canonical import short_id
from ordain.core.policy.effect import PlannedEffect
from ordain.core.report.report import PlanLine, Prepared, Review, RunReport, StepReport
from ordain.core.run.step_event import StepState
from ordain.core.text.tail import marked_tail
from ordain.interfaces.view.picked import picked
from ordain.interfaces.view.preview import review_lines
from ordain.interfaces.view.report import ListResult, PreparedResult, RunResult, prepared_result, run_words
from ordain.interfaces.view.style import Style
from ordain.interfaces.view.tool import ToolsResult

STEPS_MAX = 50
"""How many steps an answer tells of, those that matter first, unless all of them are asked for."""
_TAIL_MAX = 2_000
_FILES_MAX = 20
_WENT_WRONG = (StepState.FAILED, StepState.ESCALATED, StepState.IN_DOUBT)
_UNDER_WAY = (StepState.RUNNING, StepState.VERIFYING, StepState.WAITING)
_MATTERS = dict.fromkeys(_WENT_WRONG, 0) | dict.fromkeys(_UNDER_WAY, 1)


def _answer(name: str, source: type, fields: str, **others: Any) -> Any:
    """The type of an answer: these fields of `source`, in this order; `others` are of a type of their own."""
    hints = get_type_hints(source) | others
    return msgspec.defstruct(name, [(field, hints[field]) for field in fields.split()], frozen=True, kw_only=True)


def _many(kind: Any) -> Any:
    return GenericAlias(tuple, (kind, ...))


class Inventory(ToolsResult, frozen=True, kw_only=True):
    """What a plan can be made of: tools to call, and agents to give tasks to."""

    agents: tuple[str, ...]
    """Each by its name, with what it is good for, and what it does where a task names nobody."""


# `plan` is the short id by which a plan is named.
PlanBrief = _answer(
    "PlanBrief",
    PlanLine,
    "plan plan_id lineage title status proposer revisions requires_approval expires_at feedback run_id version "
    "previous_plan_id reason continues",
    plan=str,
    proposer=str,
    run_id=str | None,
)
PlansAnswer = _answer("PlansAnswer", ListResult, "plans count", plans=_many(PlanBrief))
EffectBrief = _answer("EffectBrief", PlannedEffect, "step kind target effect destructive", effect=str)
RejectionBrief = _answer("RejectionBrief", Rejection, "by feedback comments", by=str, comments=dict[str, str])
ProposedAnswer = _answer(
    "ProposedAnswer",
    PreparedResult,
    "plan plan_id plan_hash lineage title status requires_approval reasons effects risks approval commit_command "
    "preparation expires_at tier preview",
    plan=str,
    lineage=str,
    title=str,
    effects=_many(EffectBrief),
    preview=str,
)
PlanAnswer = _answer(
    "PlanAnswer",
    Review,
    "plan plan_id plan_hash lineage status requires_approval reasons effects risks rejections tier document "
    "preview run_id version",
    plan=str,
    lineage=str,
    effects=_many(EffectBrief),
    rejections=_many(RejectionBrief),
    document=dict[str, Any],
    preview=str,
    run_id=str | None,
)
# Evidence is what the harness saw; what an agent said about its own work is not in it.
StepBrief = _answer(
    "StepBrief",
    StepReport,
    "number id description state attempts evidence unverified error waiting output_tail own_output_tail affected_files "
    "kept_from",
    state=str,
    affected_files=tuple[str, ...] | None,
)
QuestionBrief = _answer("QuestionBrief", Question, "item kind text command", command=str)
RunAnswer = _answer(
    "RunAnswer",
    RunResult,
    "run_id execution_id plan plan_id title status counts steps steps_left_out questions error_code remediation "
    "took_ms continues replaced_by",
    plan=str,
    counts=dict[str, int],
    steps=_many(StepBrief),
    steps_left_out=int,
    questions=_many(QuestionBrief),
)
StatusAnswer = _answer("StatusAnswer", PlanLine, "plan run", plan=PlanBrief, run=RunAnswer | None)


class QueuedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A run that begins by itself: when another one has ended, or when what it needs has answered."""

    plan: str
    status: Literal["waiting_for_place", "starting"] = "waiting_for_place"


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


def plan_brief(line: PlanLine) -> Any:
    return picked(PlanBrief, line, plan=short_id(line.plan_id), proposer=line.proposer.words, run_id=line.last_run)


def proposed_answer(prepared: Prepared) -> Any:
    result = prepared_result(prepared)
    more = {"lineage": prepared.lineage, "title": result.plan.title, "effects": _effects(result.effects)}
    return picked(ProposedAnswer, result, plan=short_id(result.plan_id), preview=preview(prepared.review), **more)


def plan_answer(review: Review) -> Any:
    return picked(
        PlanAnswer,
        review,
        plan=short_id(review.plan_id),
        lineage=review.lineage or "",
        effects=_effects(review.effects),
        rejections=tuple(picked(RejectionBrief, one, by=one.by.name) for one in review.rejections),
        document=msgspec.to_builtins(review.plan),
        preview=preview(review),
        run_id=review.run.run_id if review.run is not None else None,
    )


def preview(review: Review, detail: str = "normal") -> str:
    return "\n".join(review_lines(review, Style(False), detail=detail))


def _effects(effects: tuple[PlannedEffect, ...]) -> tuple[Any, ...]:
    return tuple(picked(EffectBrief, effect) for effect in effects)


def run_answer(report: RunReport, commands: tuple[str, ...], *, full: bool) -> Any:
    """A run with the steps that matter most, or all of them."""
    ranked = sorted(report.steps, key=lambda step: _MATTERS.get(step.state, 2 + (step.state is StepState.PASSED)))
    chosen = {step.id for step in (ranked if full else ranked[:STEPS_MAX])}
    steps = tuple(_step(step) for step in report.steps if step.id in chosen)
    return picked(
        RunAnswer,
        report,
        **run_words(report, commands),
        plan=short_id(report.plan_id),
        counts=dict(Counter(step.state.value for step in report.steps)),
        steps=steps,
        steps_left_out=len(report.steps) - len(steps),
        questions=tuple(picked(QuestionBrief, one, command=one.asking) for one in report.questions),
    )


def _step(step: StepReport) -> Any:
    tails = {name: marked_tail(getattr(step, name), _TAIL_MAX) for name in ("output_tail", "own_output_tail")}
    files = step.affected_files[:_FILES_MAX] if isinstance(step.affected_files, tuple) else None
    return picked(StepBrief, step, **tails, affected_files=files)
