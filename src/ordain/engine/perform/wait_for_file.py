"""Watches for `wait_for_file`: nobody tells when a file comes, so it is looked for again and again."""

from __future__ import annotations

from ordain.core.plan.action import WaitForFile
from ordain.core.plan.value import Instant, StepId
from ordain.core.run.wait import badly, waits, well
from ordain.core.text.problem import Refused
from ordain.engine.context import RunContext
from ordain.engine.wait import Look


def look(run: RunContext, action: WaitForFile, step_id: StepId, now: Instant) -> Look:
    try:
        run.ports.workspace.beginning(action.path, 0, ())
    except Refused as refused:
        problem = refused.problems[0]
        if problem.code != "F_READ_MISSING":  # a link leads elsewhere: to wait would help nobody
            return Look(badly(run.state, step_id, now, problem.code, problem.detail))
        return Look(waits(run.state, step_id, now, f"the file `{action.path}`", action.timeout_ms))
    return Look(well(run.state, step_id, now))
