"""Where a step is in its plan, and the end of what the steps that it needs gave: for the agent that performs it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ordain.core.plan.action import Task
from ordain.core.plan.graph import needs_of
from ordain.core.plan.model import Plan, Step
from ordain.core.plan.value import StepId
from ordain.core.run.run_state import AT_WORK, SETTLED, RunState, StepRecord
from ordain.core.run.step_event import StepState
from ordain.core.text.tail import CUT_MARK

RESULT_MAX = 3000
"""How many characters of what one step gave are told."""
RESULTS_MAX = 8
"""Of how many steps."""


class NeededResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a step gave that another one needs."""

    step: str
    title: str
    how: str
    """How it ended, in words."""
    text: str = ""
    """The end of what it gave, as it is shown."""
    files: tuple[str, ...] = ()
    """What it changed, as far as that is known."""
    cut: bool = False
    """Whether there is more of it."""


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """Where a step is in its plan: titles, each with how it stands where that is not plain."""

    number: int | None
    """Which step of its plan it is; None for a fallback."""
    count: int
    done: tuple[str, ...] = ()
    now: tuple[str, ...] = ()
    """What else is under way."""
    next: tuple[str, ...] = ()
    results: tuple[NeededResult, ...] = ()


def course_of(state: RunState, step_id: StepId) -> Course:
    """Where a step of a run is that is about to be performed."""
    plan, own = state.plan_around(step_id), state.written_name(step_id)
    done, now, later = [], [], []
    for step in plan.steps:
        if step.id == own:
            continue
        record = state.steps.get(state.named(step_id, step.id))
        if record is None or record.state not in AT_WORK | SETTLED:
            later.append(step.description)
        elif record.state in AT_WORK:
            now.append(step.description)
        else:
            passed = record.state is StepState.PASSED
            done.append(step.description if passed else f"{step.description} ({record.state.value})")
    return Course(
        number=_number(plan, own),
        count=len(plan.steps),
        done=tuple(done),
        now=tuple(now),
        next=tuple(later),
        results=tuple(_results(state, step_id, plan, own)),
    )


def planned_course(plan: Plan, step: Step) -> Course:
    """Where a step of a plan is of which nothing was done yet."""
    others = tuple(one.description for one in plan.steps if one.id != step.id)
    return Course(number=_number(plan, step.id), count=len(plan.steps), next=others)


def _number(plan: Plan, name: StepId) -> int | None:
    return next((number for number, step in enumerate(plan.steps, 1) if step.id == name), None)


def _results(state: RunState, step_id: StepId, plan: Plan, own: StepId) -> Iterator[NeededResult]:
    """What the steps gave that this one needs, but for those that it reads in whole."""
    action, titles = state.step(step_id).action, {step.id: step.description for step in plan.steps}
    read = {ref.removeprefix("step:") for ref in action.reads} if isinstance(action, Task) else set()
    needs = [name for name in needs_of(plan).get(own, ()) if name not in read]
    for name in needs[:RESULTS_MAX]:
        if (record := state.steps.get(state.named(step_id, name))) is not None:
            yield _result(name, titles.get(name, name), record)


def _result(name: StepId, title: str, record: StepRecord) -> NeededResult:
    outcome = record.outcome if record.state is StepState.PASSED else None
    how = record.state.value
    if record.evidence is not None and record.state is StepState.PASSED:
        how += f", its check {record.evidence.verdict.value}"
    if outcome is None:
        return NeededResult(step=name, title=title, how=how)
    text = outcome.output_tail.removeprefix(CUT_MARK)
    return NeededResult(
        step=name,
        title=title,
        how=how,
        text=text[-RESULT_MAX:],
        files=outcome.affected_files or (),
        cut=len(text) > RESULT_MAX or text != outcome.output_tail or outcome.output_bytes > len(text.encode()),
    )
