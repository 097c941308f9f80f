"""A plan and its run as one value in the form of a seed: the names of the fields are the seed's own.

What a seed wants and we do not know is left out; docs/dialects.md says what that is, and which of our facts have no
place there.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from ordain.core.plan.actions.task import Task
from ordain.core.plan.actions.tool import CallTool
from ordain.core.plan.model import Plan, Step, contract_of
from ordain.core.plan.words import write_failure
from ordain.core.run.event import Outcome, StepState
from ordain.core.run.run_state import SETTLED, StepRecord
from ordain.interfaces.robot.dialect.state import (
    DialectState,
    OutputDialect,
    Stood,
    instant_text,
    said,
    tool_of,
    what_went_wrong,
)


def plan_value(standing: DialectState, dialect: OutputDialect) -> dict[str, Any]:
    """A plan with its steps and how they stand."""
    match dialect:
        case "s1":
            return _s1(standing)
        case "s2":
            return _s2(standing)
        case "s3":
            return _s3_whole(standing)
        case "s4":
            return _s4_whole(standing)


def in_list(standing: DialectState, dialect: OutputDialect) -> dict[str, Any]:
    """A plan among others: in the seeds whose plans are files, what stands at the head of one."""
    match dialect:
        case "s3":
            return _s3_head(standing)
        case "s4":
            return _s4_head(standing)
        case _:
            return plan_value(standing, dialect)


# --- s1 --------------------------------------------------------------------------------------------------------------


def _s1(standing: DialectState) -> dict[str, Any]:
    line, plan = standing.line, standing.plan
    positions = {step.id: index for index, step in enumerate(plan.steps)}
    return {
        "id": standing.plan_id,
        "task": plan.task or plan.title,
        "status": standing.status_in("s1"),
        "steps": [_s1_step(standing, one, positions) for one in standing.steps()],
        "currentStepIndex": _current(standing),
        **said(
            createdAt=instant_text(line.opened_at) if line is not None else None,
            updatedAt=_updated(standing),
            createdBy=line.proposer.name if line is not None else None,
        ),
        "version": line.revisions if line is not None else 1,
    }


def _s1_step(standing: DialectState, one: Stood, positions: dict[Any, int]) -> dict[str, Any]:
    step, record = one.step, one.record
    task = step.action if isinstance(step.action, Task) else None
    return {
        "index": one.number - 1,
        "description": step.description,
        "status": standing.step_status_in("s1", step.id),
        **said(
            suggestedAgent=standing.agent_of(one),
            startedAt=instant_text(record.started_at) if record is not None else None,
            completedAt=instant_text(_ended_at(record)),
            output=one.report.own_output_tail or one.report.output_tail if one.report is not None else None,
            error=what_went_wrong(one.report),
            unverified=one.unverified,
            dependsOn=[positions[need] for need in step.needs if need in positions],
            instructions=task.instructions if task is not None else None,
            acceptanceCriteria=list(task.criteria) if task is not None else None,
        ),
    }


def _current(standing: DialectState) -> int:
    """The first step that has not come to its end; one more than there are where all have."""
    for one in standing.steps():
        if one.record is None or one.record.state not in SETTLED:
            return one.number - 1
    return len(standing.plan.steps)


# --- s2 --------------------------------------------------------------------------------------------------------------


def _s2(standing: DialectState) -> dict[str, Any]:
    line, report = standing.line, standing.report
    name = line.lineage if line is not None else standing.plan_id
    return {
        "id": name,
        "taskId": report.run_id if report is not None else name,
        "version": line.revisions if line is not None else 1,
        "steps": [_s2_step(standing, one) for one in standing.steps()],
        **said(createdAt=instant_text(line.opened_at) if line is not None else None),
    }


def _s2_step(standing: DialectState, one: Stood) -> dict[str, Any]:
    action = one.step.action
    args = action.args if isinstance(action, CallTool) else _fields(action)
    return {
        "id": one.step.id,
        "order": one.number,
        "description": one.step.description,
        "tool": tool_of(action)[0],
        "args": msgspec.to_builtins(args),
        "dependsOn": list(one.step.needs),
        "status": standing.step_status_in("s2", one.step.id),
        **said(result=step_result(one), unverified=one.unverified),
    }


def _fields(action: msgspec.Struct) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(action)
    return {name: value for name, value in fields.items() if name != "type"}


_JUDGED = SETTLED | {StepState.IN_DOUBT, StepState.ESCALATED}
"""Where a step is no longer at work by itself."""


def step_result(one: Stood) -> dict[str, Any] | None:
    """What came of a step, once it has come to an end or waits for a person; None where nothing was done."""
    record = one.record
    if record is None or record.outcome is None or record.state not in _JUDGED:
        return None
    value = _output(record.outcome)
    return {
        "ok": record.state is StepState.PASSED,
        **({"value": value} if value not in (None, "") else {}),
        **said(error=what_went_wrong(one.report)),
        "duration": record.outcome.duration_ms,
        **said(timestamp=instant_text(record.ended_at)),
    }


def _output(outcome: Outcome) -> Any:
    """The redacted end of what a step wrote; of a value in JSON the value, where that is all of it."""
    if outcome.output_json:
        try:
            return json.loads(outcome.output_tail)
        except ValueError:
            pass
    return outcome.output_tail


# --- s3 --------------------------------------------------------------------------------------------------------------


def _s3_head(standing: DialectState) -> dict[str, Any]:
    line, report, state = standing.line, standing.report, standing.state
    ended = report is not None and state is not None and state.finished
    return {
        "id": line.lineage if line is not None else standing.plan_id,
        "title": standing.plan.title,
        "status": standing.status_in("s3"),
        "version": line.revisions if line is not None else 1,
        **said(
            created_at=instant_text(line.opened_at) if line is not None else None,
            updated_at=_updated(standing),
        ),
        "tools_required": list(_tools(standing.plan)),
        **said(
            executor_model=standing.plan.model,
            execution_session=report.run_id if report is not None else None,
            execution_started_at=instant_text(state.opened_at) if state is not None else None,
            execution_ended_at=instant_text(state.changed_at) if ended and state is not None else None,
            result_summary=_summary(standing) if ended else None,
        ),
    }


def _s3_whole(standing: DialectState) -> dict[str, Any]:
    checkpoints = [line for one in standing.steps() if (line := checkpoint(standing, one)) is not None]
    return {
        **_s3_head(standing),
        "steps": [{"description": one.step.description, **_s3_tool(one.step, "operation")} for one in standing.steps()],
        **said(context=standing.plan.context),
        **({"checkpoints": checkpoints} if standing.state is not None else {}),
    }


def _s3_tool(step: Step, operation: str) -> dict[str, str]:
    tool, done = tool_of(step.action)
    return said(**{"tool": tool, operation: done})


def checkpoint(standing: DialectState, one: Stood) -> dict[str, Any] | None:
    """A step that has come to an end as a line of the seed's session log; None where it has no word for how it did."""
    status = standing.step_status_in("s3", one.step.id)
    if status is None or one.report is None:
        return None
    wrong = what_went_wrong(one.report)
    told = {"result_summary": one.report.evidence} if status == "success" else {"error": wrong or one.report.evidence}
    return {"step": one.number, **_s3_tool(one.step, "op"), "status": status, **told}


def _tools(plan: Plan) -> tuple[str, ...]:
    """The tools that a plan may use, where it says so; else those that its steps name."""
    if plan.tools is not None:
        return plan.tools
    names = (tool_of(step.action)[0] for step in plan.steps if not isinstance(step.action, Task) or step.action.tools)
    return tuple(dict.fromkeys(names))


def _summary(standing: DialectState) -> str:
    passed = sum(one.record is not None and one.record.state is StepState.PASSED for one in standing.steps())
    return f"{passed} of {len(standing.plan.steps)} steps passed"


# --- s4 --------------------------------------------------------------------------------------------------------------


def _s4_head(standing: DialectState) -> dict[str, Any]:
    return {
        "type": "plan",
        "status": standing.status_in("s4"),
        "owner": "ordain",
        "plan_id": standing.plan_id,
        "title": standing.plan.title,
    }


def _s4_whole(standing: DialectState) -> dict[str, Any]:
    return {
        **_s4_head(standing),
        **said(context=standing.plan.context),
        "steps": [_s4_step(standing, one) for one in standing.steps()],
    }


def _s4_step(standing: DialectState, one: Stood) -> dict[str, Any]:
    step = one.step
    task = step.action if isinstance(step.action, Task) else None
    contract = contract_of(step)
    return {
        "step": one.number,
        "title": step.description,
        **said(
            target=standing.agent_of(one),
            subscriptions=list(task.reads) if task is not None else None,
            task=task.task if task is not None else None,
            contract=contract.command if contract is not None else None,
            exit_code=contract.exit_code if contract is not None else None,
            on_fail=write_failure(step.on_failure) if step.on_failure is not None else None,
        ),
        "status": standing.step_status_in("s4", step.id),
        **said(unverified=one.unverified),
    }


def work_item(standing: DialectState, one: Stood, status: str) -> dict[str, Any]:
    """A step as the seed's queue knows it, and how it stands."""
    task = one.step.action if isinstance(one.step.action, Task) else None
    output = one.report.own_output_tail or one.report.output_tail if one.report is not None else ""
    return {
        **said(
            agent_id=standing.agent_of(one),
            input={"prompt": task.task} if task is not None else None,
        ),
        "payload": {
            **said(subscriptions=list(task.reads) if task is not None else None),
            "plan_id": standing.plan_id,
            "step": one.number,
        },
        "status": status,
        **said(output={"text": output} if output else None, unverified=one.unverified),
    }


# --- All of them -----------------------------------------------------------------------------------------------------


def _updated(standing: DialectState) -> str | None:
    """When something was recorded last of the plan or of its run."""
    known = [one.changed_at for one in (standing.line, standing.report) if one is not None]
    return instant_text(max(known)) if known else None


def _ended_at(record: StepRecord | None) -> Any:
    return record.ended_at if record is not None and record.state in SETTLED else None
