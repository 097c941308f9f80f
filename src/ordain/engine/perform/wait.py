"""Watches for `wait_for`: the stream of the signal says whether it was given."""

from __future__ import annotations

from ordain.core.plan.action import WaitFor
from ordain.core.plan.condition import External
from ordain.core.plan.value import Instant, StepId
from ordain.core.run.wait import at_signal, badly, stream_of_signal
from ordain.engine.context import RunContext
from ordain.engine.wait import Look


def look(run: RunContext, action: WaitFor, step_id: StepId, now: Instant) -> Look:
    condition = action.condition
    if not isinstance(condition, External):  # refused before a run can start (core.lint.unsupported)
        detail = f"the wait condition {condition.__struct_config__.tag} is not carried out by this version"
        return Look(badly(run.state, step_id, now, "F_STEP_FAILED", detail))
    signal = run.records.signal(condition.key)
    found = at_signal(run.state, step_id, signal, now, action.timeout_ms)
    return Look(found, stream_of_signal(condition.key), signal.size)
