"""What the verbs about runs answer: run, commit, resume, rerun, watch, status, inbox, log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from ordain.core.plan.value import RunId
from ordain.core.report.report import InboxItem, PlanLine, RunReport, SignalAwaited, StepReport
from ordain.core.run.event import Recorded, to_wire
from ordain.core.text.problem import Place, Problem

EVENT = "Event"
"""The name of the definition of an event in every schema that has events in it."""
_WORDS = {"completed": "success"}
"""Where a robot gets another word for how a run stands: the first seed's."""


class RunResult(RunReport, frozen=True, kw_only=True):
    """A run as it stands now that the command is over. `status` is `success` where it completed."""

    execution_id: RunId
    """The same as `run_id`."""
    error_code: str | None
    """Of the first step that did not get through."""
    remediation: str | None
    """The command that helps."""


def run_result(report: RunReport, commands: Sequence[str]) -> RunResult:
    """A run for robots, with the commands that come next."""
    facts = msgspec.structs.asdict(report) | {"status": status_word(report)}
    return RunResult(
        **facts,
        execution_id=report.run_id,
        error_code=error_code(report),
        remediation=commands[0] if commands else None,
    )


def status_word(report: RunReport) -> str:
    """How a run stands, as robots are told."""
    return _WORDS.get(report.status, report.status)


def error_code(report: RunReport) -> str | None:
    """Of the first step that did not get through, where that was not made good."""
    failed = failed_step(report) if report.status != "completed" else None
    return failed.error if failed is not None else None


def failed_step(report: RunReport) -> StepReport | None:
    """The first step that did not get through."""
    return next((step for step in report.steps if step.error is not None), None)


def failure(report: RunReport) -> Problem | None:
    """What whoever wanted a run carried out is told to have gone wrong, where it failed: the first step that did not
    get through."""
    if report.status != "failed":
        return None
    step = failed_step(report)
    if step is None or step.error is None:
        return Problem(code="F_STEP_FAILED", detail="The run ended with steps that did not pass.")
    return Problem(code=step.error, detail=f"`{step.id}`: {step.evidence}", where=Place(step=step.id))


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


class LogResult(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger's own events, in order."""

    events: tuple[Annotated[dict[str, Any], msgspec.Meta(extra_json_schema={"$ref": f"#/$defs/{EVENT}"})], ...]


def log_result(events: Sequence[Recorded]) -> LogResult:
    return LogResult(events=tuple(map(to_wire, events)))
