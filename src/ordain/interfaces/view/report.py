"""What the verbs answer, as robots get it: the values that verbs return, with a few words more."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from ordain.core.guard.plan_note import PlanNote
from ordain.core.plan.model import Plan
from ordain.core.plan.value import Instant, PlanId, RunId
from ordain.core.report.report import (
    InboxItem,
    KeptOutput,
    PlanLine,
    Prepared,
    Review,
    ReviewedPlan,
    RunReport,
    StepReport,
)
from ordain.core.run.event import Recorded, to_wire
from ordain.core.run.topic import Message, TopicLine
from ordain.core.run.wait import SignalAwaited
from ordain.core.text.problem import Place, Problem
from ordain.interfaces.view.picked import picked
from ordain.ports.machine import Client

EVENT = "Event"
"""The name of the definition of an event in every schema that has events in it."""


class IdentifiedPlan(Plan, frozen=True, kw_only=True):
    """A plan in its canonical form, and beside it the id that its bytes have."""

    plan_id: PlanId


class ReviewResult(ReviewedPlan, frozen=True, kw_only=True):
    """A plan with everything that an approver must see."""

    plan: IdentifiedPlan


def review_result(review: Review) -> ReviewResult:
    return picked(ReviewResult, review, **_plan_and_base(review))


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
    facts = {name: getattr(prepared, name) for name in ("commit_command", "preparation", "expires_at")}
    review = prepared.review
    return picked(PreparedResult, review, **_plan_and_base(review), **facts, approval=approval)


def _plan_and_base(review: Review) -> dict[str, Any]:
    # Values of variables are for the person who approves, and for the record.
    base = msgspec.structs.replace(review.base, environment=None)
    return {"base": base, "plan": picked(IdentifiedPlan, review.plan, plan_id=review.plan_id)}


class OutputResult(KeptOutput, frozen=True, kw_only=True):
    """What a step wrote, without secrets; or the file that the exact bytes were written to."""

    written: str | None
    output: str | None


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


class RunResult(RunReport, frozen=True, kw_only=True):
    """A run as it stands now that the command is over. `status` is `success` where it completed."""

    execution_id: RunId
    error_code: str | None
    remediation: str | None


def run_words(report: RunReport, commands: Sequence[str]) -> dict[str, Any]:
    """What robots are told of a run besides its report, or in other words."""
    failed = failed_step(report) if report.status != "completed" else None
    return {
        "execution_id": report.run_id,
        "status": "success" if report.status == "completed" else report.status,  # the first seed's word
        "error_code": failed.error if failed is not None else None,
        "remediation": commands[0] if commands else None,
    }


def failed_step(report: RunReport) -> StepReport | None:
    """The first step that did not get through."""
    return next((step for step in report.steps if step.error is not None), None)


def failure(report: RunReport) -> Problem | None:
    """What somebody who wanted a run carried out is told to have gone wrong, where it failed."""
    if report.status != "failed":
        return None
    step = failed_step(report)
    if step is None or step.error is None:
        return Problem(code="F_STEP_FAILED", detail="The run ended with steps that did not pass.")
    return Problem(code=step.error, detail=f"`{step.id}`: {step.evidence}", where=Place(step=step.id))


def warnings(report: RunReport) -> tuple[Problem, ...]:
    """The steps that failed and were skipped, where their failure policy says to warn of that."""
    return tuple(
        Problem(
            code="W_STEP_SKIPPED",
            detail=f"`{step.id}` failed and was skipped: {step.evidence}",
            where=Place(step=step.id),
            command=f"ordain show {report.run_id} --output {shlex.quote(step.id)}",
        )
        for step in report.steps
        if step.warned is True
    )


def earlier_run(report: RunReport) -> Problem:
    """What somebody is told who committed what has its run already."""
    stopped = report.status in ("stopped", "stalled", "paused")
    again = "To do it once more, prepare it again; where it needs approval, a person approves that preparation then."
    return Problem(
        code="W_RUN_EARLIER",
        detail=f"{report.run_id} was started for this before, and is told of here; no second run was started.",
        hints=("It was interrupted, and goes on from there when it is resumed." if stopped else again,),
        command=f"ordain {'resume' if stopped else 'show'} {report.run_id}",
    )


class BegunResult(msgspec.Struct, frozen=True, kw_only=True):
    """A run that another process carries out by now."""

    status: Literal["executing"]
    execution_id: RunId
    run_id: RunId


class QueuedResult(msgspec.Struct, frozen=True, kw_only=True):
    """Another process waits until there is a place for the run."""

    status: Literal["waiting_for_place"]
    execution_id: None
    pid: int


class StatusResult(msgspec.Struct, frozen=True, kw_only=True):
    """The plans that are open and the newest that have ended, and how many there are in all."""

    workspace: str
    plans: tuple[PlanLine, ...]
    count: int


class InboxResult(msgspec.Struct, frozen=True, kw_only=True):
    """What waits for a person, and which signals are waited for."""

    items: tuple[InboxItem, ...]
    signals: tuple[SignalAwaited, ...]
    notes: tuple[PlanNote, ...] = ()
    """Plans in prose that agents left their plan mode with; nothing waits for them."""


class LogResult(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger's own events, in order."""

    events: tuple[Annotated[dict[str, Any], msgspec.Meta(extra_json_schema={"$ref": f"#/$defs/{EVENT}"})], ...]


def log_result(events: Sequence[Recorded]) -> LogResult:
    return LogResult(events=tuple(map(to_wire, events)))


class InitResult(msgspec.Struct, frozen=True, kw_only=True):
    written: str


class CompletionResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a shell reads so that it completes the words of our commands."""

    shell: str
    script: str


class SettingValue(msgspec.Struct, frozen=True, kw_only=True, rename={"source": "from"}):
    """A setting in force, and where it came from."""

    value: Any
    source: str


class ConfigResult(msgspec.Struct, frozen=True, kw_only=True):
    digest: str
    """What approvals are bound to."""
    settings: Mapping[str, SettingValue]


class TopicsResult(msgspec.Struct, frozen=True, kw_only=True):
    """Every topic of the workspace, oldest first."""

    topics: tuple[TopicLine, ...]


class TopicResult(msgspec.Struct, frozen=True, kw_only=True):
    """The newest messages of a topic, in order, and how many there are in all."""

    topic: str
    count: int
    messages: tuple[Message, ...]


class PostedResult(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was left in a topic, as it was recorded, and how many there are now."""

    topic: str
    count: int
    posted: Message


class SchemaNames(msgspec.Struct, frozen=True, kw_only=True):
    """What there is a schema of."""

    schemas: tuple[str, ...]


class SkillResult(msgspec.Struct, frozen=True, kw_only=True):
    """What models that work with Ordain should know."""

    text: str
    version: str
    written: str | None


class Verb(msgspec.Struct, frozen=True, kw_only=True):
    """One verb."""

    name: str
    line: str
    usage: str
    person: bool
    """Whether only a person at a terminal can do it; a robot gets the command to hand to one."""
    schema: str
    """What `ordain schema` knows its answer as."""
    help: str | msgspec.UnsetType = msgspec.UNSET
    """Only where one verb is asked about."""


class VerbsResult(msgspec.Struct, frozen=True, kw_only=True):
    """Every verb there is."""

    verbs: tuple[Verb, ...]


class RevokedResult(msgspec.Struct, frozen=True, kw_only=True):
    """The approvals that ended."""

    revoked: tuple[str, ...]


class ClientsResult(msgspec.Struct, frozen=True, kw_only=True):
    """The clients that have a token of the MCP server."""

    clients: tuple[Client, ...]


class HookResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the hook of a host is answered."""

    decision: Literal["none", "deny"]
    """Nothing, and the host's own rules decide; or no."""
    reason: str


class SettingsFile(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    text: str | None
    """Null where it would be deleted."""


class InstallResult(msgspec.Struct, frozen=True, kw_only=True):
    """What would be written into settings; nothing was."""

    files: tuple[SettingsFile, ...]
    notes: tuple[str, ...]
    command: str | None
    """What the host has to be told by its own command, if anything."""
