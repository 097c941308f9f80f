"""Runs as tasks of the protocol: a task is a run, by its id, and stands as the ledger says.

Nothing is kept here, so that a server which is killed and started again knows the same tasks. A run that waits for a
person is `working` and never `input_required`: the client cannot give what is asked, and an answer that comes through
it does not count.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from msgspec.structs import replace

from ordain.app.app import App
from ordain.core.lineage.decision import persons_only
from ordain.core.plan.value import Instant
from ordain.core.report.report import RunReport
from ordain.core.text.problem import Refused
from ordain.interfaces.mcp.follow import OPEN, how_far, how_it_stands, who_acts
from ordain.interfaces.mcp.surface import ClientCall, ProtocolTask, TaskStatus
from ordain.interfaces.view.report import failure
from ordain.records.records import names_run

LOOKING_S = 0.5
"""How often it is looked at a run whose changes somebody wants to be told."""
_POLL_MS = 1_000
_POLL_PERSON_MS = 10_000
"""Where it goes on only when somebody does something."""
_ENDS = {"completed": TaskStatus.COMPLETED, "failed": TaskStatus.COMPLETED, "cancelled": TaskStatus.CANCELLED}
_ENDS |= {"replaced": TaskStatus.COMPLETED}
"""A run that failed is a tool that was called and whose work went wrong; `failed` is said of calls themselves."""
_NONE_OF_YOURS = frozenset(("E_RUN_NOT_FOUND", "E_RUN_AMBIGUOUS", "E_PLAN_NOT_YOURS"))
_ASKED = frozenset(("E_RUN_ENDED", "E_RUN_BUSY"))
"""Refusals of cancelling that leave nothing to do: it has ended, or its executor was asked and has yet to answer."""


def run_task(report: RunReport) -> ProtocolTask:
    """A run as a task."""
    status = _ENDS.get(report.status, TaskStatus.WORKING)
    answer = None
    if status is TaskStatus.COMPLETED:
        answer = replace(how_it_stands(report, full=False), failure=failure(report))
    by_itself = report.status in OPEN and not report.questions
    return ProtocolTask(
        task_id=report.run_id,
        status=status,
        message=". ".join((how_far(report), *who_acts(report), *((report.reason,) if report.reason else ()))),
        created_at=Instant(report.changed_at - report.took_ms),
        updated_at=report.changed_at,
        poll_ms=_POLL_MS if by_itself or status.ended else _POLL_PERSON_MS,
        answer=answer,
    )


class RunTasks:
    """The runs of a workspace, each for whoever prepared its plan."""

    async def get(self, call: ClientCall, task_id: str) -> ProtocolTask | None:
        async with call.app() as app:
            report = await _report(call, app, task_id)
            return run_task(report) if report is not None else None

    async def update(self, call: ClientCall, task_id: str, given: Mapping[str, Any]) -> None:
        if not given:
            return
        async with call.app() as app:
            questions = app.runs.run(task_id).questions
            command = questions[0].asking if questions else f"ordain show {task_id}"
            try:
                persons_only("answer what a run asks", call.by, command)
            except Refused as refused:
                await app.refusals.record("tasks/update", task_id, call.by, refused.problems)
                raise

    async def cancel(self, call: ClientCall, task_id: str) -> None:
        async with call.app() as app:
            try:
                await app.runs.cancel_run(task_id, call.by)
            except Refused as refused:
                if refused.problems[0].code not in _ASKED:
                    raise

    async def changes(self, call: ClientCall, task_id: str) -> AsyncGenerator[ProtocolTask, None]:
        told: tuple[TaskStatus, str] | None = None
        while True:
            async with call.app() as app:  # each time anew: somebody may want to be told for hours
                task = run_task(app.runs.run(task_id))
            if (task.status, task.message) != told:
                told = (task.status, task.message)
                yield task
            if task.status.ended:
                return
            await asyncio.sleep(LOOKING_S)


async def _report(call: ClientCall, app: App, task_id: str) -> RunReport | None:
    """The caller's run of exactly this name. Whether somebody else has one is not told."""
    if not names_run(task_id):
        return None
    try:
        async with app.refusals.asked_for("tasks/get", task_id, call.by):
            return app.runs.run(task_id) if app.runs.find_run(task_id) == task_id else None
    except Refused as refused:
        if refused.problems[0].code in _NONE_OF_YOURS:
            return None
        raise
