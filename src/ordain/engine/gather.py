"""What the steps of a group add up to for the step that waited for them."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ordain.core.plan.value import StepId
from ordain.core.run.result import Missing
from ordain.core.run.run_state import RunState
from ordain.core.run.step_event import GroupKind, Outcome
from ordain.engine.context import RunContext
from ordain.engine.perform.effects import value_outcome
from ordain.engine.result import Results

NAMED_MAX = 5


def gathered(run: RunContext, step_id: StepId) -> Outcome:
    """The outcome of a step that was repeated, or that holds a plan: the list of what its items gave, with nothing for
    one that was skipped; or what each step of the plan gave, by its name."""
    state, now = run.state, run.journal.now
    group = state.groups[step_id]
    duration_ms = max(now - (state.steps[step_id].started_at or now), 0)
    failed = [name for name in group.members if not state.steps[name].satisfies]
    if failed:
        what = "items" if group.kind is GroupKind.ITEMS else "steps"
        named = ", ".join(f"{name} ({_became(state, name)})" for name in failed[:NAMED_MAX])
        more = f" and {len(failed) - NAMED_MAX} more" if len(failed) > NAMED_MAX else ""
        detail = f"{len(failed)} of its {len(group.members)} {what} did not pass: {named}{more}"
        return Outcome(duration_ms=duration_ms, error="F_STEP_FAILED", detail=detail)
    gave = {name: _given(run.results, name) for name in group.members}
    value: Any = list(gave.values())
    if group.kind is GroupKind.NESTED:
        value = {state.members[name].name: one for name, one in gave.items()}
    return replace(value_outcome(run, step_id, value), duration_ms=duration_ms)


def _given(results: Results, step_id: StepId) -> Any:
    try:
        return results.output(step_id)
    except Missing:
        return None


def _became(state: RunState, step_id: StepId) -> str:
    record = state.steps[step_id]
    return "denied" if record.denied else record.state.value
