"""A run as it goes on, in the lines of a seed: folds what is told and says what became of each step of the plan.

The seeds have no way back: a step is told as begun once, and as ended once, when that is certain. One that is tried
again is still at work, and so is one that is in doubt or with a person, until nobody tells any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from typing import Any, NamedTuple

from ordain.core.plan.model import Plan
from ordain.core.plan.value import PlanId, RunId, StepId
from ordain.core.report.report import AttemptOutput, PlanLine, Told, step_report
from ordain.core.run.event import Recorded, RunCancelled, RunEvent, RunFinished, StepState
from ordain.core.run.run_state import AT_WORK, SETTLED, RunState
from ordain.core.run.state import apply
from ordain.documents.dialects.status import STEP_WORDS
from ordain.interfaces.robot.dialect.document import checkpoint, plan_value, step_result, work_item
from ordain.interfaces.robot.dialect.state import (
    DialectState,
    OutputDialect,
    Stood,
    instant_text,
    said,
    step_status,
    what_went_wrong,
)

Line = dict[str, Any]


class _Phase(IntEnum):
    """How far a step can be said to be; there is no way back."""

    BLOCKED = 0
    READY = 1
    AT_WORK = 2
    ENDED = 3


class Begun(NamedTuple):
    """What is known of a run besides what is told: its plan, and what was recorded of it before."""

    plan_id: PlanId
    plan: Plan
    line: PlanLine
    history: Iterable[Recorded]


class DialectStream:
    """Turns what is told of one run into the lines of a dialect."""

    def __init__(self, dialect: OutputDialect, begun: Callable[[RunId], Begun]) -> None:
        self._dialect, self._begun = dialect, begun
        self._state: RunState | None = None
        self._standing: DialectState | None = None
        self._numbers: dict[StepId, int] = {}
        self._phases: dict[StepId, _Phase] = {}
        """How far each step of the plan was said to be."""
        self._settled: dict[StepId, set[StepId]] = {}
        """Of a step that waits for steps of its own: those that have come to an end."""
        self._percent: dict[StepId, int] = {}

    def lines(self, told: Told) -> Iterator[Line]:
        """What the dialect says of it, which may be nothing."""
        if isinstance(told, AttemptOutput):
            yield from self._output(told)
            return
        if not isinstance(told.event, RunEvent):
            return
        first = self._state is None
        state = self._open(told) if self._state is None else self._state
        apply(state, told.event, told.at)
        if first and self._dialect == "s1":
            yield {"type": "PLAN_CREATED", "plan": plan_value(self._known, "s1")}
        for step in self._numbers if first else self._touched(state, told.event):
            yield from self._step(state, step)
        yield from self._members(state, told.event)

    def close(self) -> Iterator[Line]:
        """What is left to say where nobody tells any more: which steps are in doubt or with a person."""
        if self._state is None:
            return
        for step in self._numbers:
            if self._state.steps[step].state in (StepState.IN_DOUBT, StepState.ESCALATED):
                yield from self._say(self._state, step, _Phase.ENDED)

    @property
    def _known(self) -> DialectState:
        assert self._standing is not None, "a line before the run is known"
        return self._standing

    def _open(self, first: Recorded) -> RunState:
        known = self._begun(RunId(first.stream.removeprefix("run/")))
        state = RunState(known.plan)
        for recorded in known.history:
            if recorded.seq < first.seq and isinstance(recorded.event, RunEvent):
                apply(state, recorded.event, recorded.at)
        self._state = state
        self._numbers = {step.id: number for number, step in enumerate(known.plan.steps, 1)}
        self._standing = DialectState(
            plan_id=known.plan_id, plan=known.plan, status="executing", line=known.line, state=state
        )
        return state

    def _touched(self, state: RunState, event: RunEvent) -> Iterable[StepId]:
        """The steps of the plan that an event may have moved."""
        if isinstance(event, RunFinished | RunCancelled):
            return self._numbers
        step: StepId | None = getattr(event, "step", None)
        if step not in self._numbers:
            return ()
        freed = state.dependents_of(step) if state.steps[step].satisfies else ()
        return (step, *(one for one in freed if one in self._numbers))

    def _step(self, state: RunState, step: StepId) -> Iterator[Line]:
        now = state.steps[step].state
        if now in SETTLED:
            yield from self._say(state, step, _Phase.ENDED)
        elif now in AT_WORK:
            yield from self._say(state, step, _Phase.AT_WORK)
        else:
            yield from self._say(state, step, _Phase.BLOCKED if state.is_blocked(step) else _Phase.READY)

    def _say(self, state: RunState, step: StepId, phase: _Phase) -> Iterator[Line]:
        if phase <= self._phases.get(step, -1):
            return
        self._phases[step] = phase
        at_work = STEP_WORDS[self._dialect][StepState.RUNNING]
        word = at_work if phase == _Phase.AT_WORK else step_status(state, step, self._dialect)
        line = self._line(state, step, phase, word) if word is not None else None
        if line is not None:
            yield line

    def _line(self, state: RunState, step: StepId, phase: _Phase, word: str) -> Line | None:
        one = self._stood(state, step)
        ended = phase == _Phase.ENDED
        match self._dialect:
            case "s1":
                return _s1_event(one, word)
            case "s2":
                progress = 100 if ended and state.steps[step].state is StepState.PASSED else None
                result = step_result(one) if ended else None
                told = said(progress=progress, result=result, unverified=one.unverified)
                return {**self._about(state, step), "status": word, **told}
            case "s3":
                return checkpoint(self._known, one) if ended else None
            case "s4":
                return work_item(self._known, one, word)

    def _stood(self, state: RunState, step: StepId) -> Stood:
        number = self._numbers[step]
        report = step_report(state, step, number, state.changed_at)
        return Stood(number, self._known.plan.steps[number - 1], state.steps[step], report)

    def _about(self, state: RunState, step: StepId) -> Line:
        return {"taskId": state.run_id, "stepId": step}

    # --- Only in s2 ------------------------------------------------------------------------------------------------

    def _output(self, told: AttemptOutput) -> Iterator[Line]:
        """The end of what a step has written so far."""
        if self._state is not None and self._dialect == "s2" and self._phases.get(told.step) == _Phase.AT_WORK:
            entry = {"timestamp": instant_text(told.at), "message": told.tail}
            yield {**self._about(self._state, told.step), "status": "running", "logs": [entry]}

    def _members(self, state: RunState, event: RunEvent) -> Iterator[Line]:
        """How many of a step's own steps have come to an end, in percent of those there are."""
        name: StepId | None = getattr(event, "step", None)
        member = state.members.get(name) if name is not None else None
        if self._dialect != "s2" or name is None or member is None or member.parent not in self._numbers:
            return
        parent = member.parent
        settled = self._settled.setdefault(parent, set())
        (settled.add if state.steps[name].state in SETTLED else settled.discard)(name)
        percent = 100 * len(settled) // len(state.groups[parent].members)
        if percent > self._percent.get(parent, 0) and self._phases.get(parent) == _Phase.AT_WORK:
            self._percent[parent] = percent
            yield {**self._about(state, parent), "status": "running", "progress": percent}


def _s1_event(one: Stood, word: str) -> Line | None:
    """The event of the seed's state machine; it has none for a step that is skipped."""
    about = {"stepIndex": one.number - 1}
    report = one.report
    assert report is not None
    match word:
        case "in_progress":
            return {"type": "STEP_STARTED", **about}
        case "complete":
            output = report.own_output_tail or report.output_tail
            return {"type": "STEP_COMPLETED", **about, "output": output, **said(unverified=one.unverified)}
        case "failed":
            return {"type": "STEP_FAILED", **about, "error": what_went_wrong(report) or report.evidence}
        case _:
            return None
