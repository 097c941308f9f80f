"""Counting one run. What an event means for a step is asked of `apply`, so that an event that is not counted here is
still followed. Time that a clock took back is no time.
"""

from __future__ import annotations

from collections import Counter
from typing import assert_never

import msgspec

from ordain.core.plan.model import Plan
from ordain.core.plan.value import Instant, StepId
from ordain.core.report.report import by_word
from ordain.core.report.statistics import Part
from ordain.core.report.tally import COULD_NOT_RUN, StepTally, Tally, could_not_start, missing_program
from ordain.core.run.event import ExecutorStarted, RunCancelled, RunEvent, RunPaused
from ordain.core.run.run_state import SETTLED, RunState, StepRecord
from ordain.core.run.schedule import asks
from ordain.core.run.state import apply
from ordain.core.run.step_event import (
    AttemptEnded,
    AttemptStarted,
    ContractBroken,
    ContractHeld,
    ContractInconclusive,
    ContractSeen,
    DecisionGiven,
    DoubtFound,
    DoubtSettled,
    Evidence,
    Outcome,
    Settlement,
    StepKept,
    StepNotKept,
    StepState,
    Verdict,
)

_OPEN = "open"
_AT_WORK = (Part.EXECUTING, Part.VERIFYING)
_THEN = {
    StepState.PENDING: "retried",
    StepState.SKIPPED: "skipped",
    StepState.ESCALATED: "escalated",
    StepState.FAILED: "failed",
}


def part_of(record: StepRecord) -> Part | None:
    """What the time of a step as it stands is spent on; None where it has not begun or is settled."""
    match record.state:
        case StepState.RUNNING:
            return Part.EXECUTING
        case StepState.VERIFYING:
            return Part.VERIFYING
        case StepState.WAITING:
            return Part.WAITING
        case StepState.PENDING:
            return Part.WAITING if record.attempts else None
        case StepState.ESCALATED:
            return Part.PERSON
        case StepState.IN_DOUBT:
            return Part.PERSON if record.settle is Settlement.PERSON else Part.VERIFYING
        case StepState.PASSED | StepState.FAILED | StepState.SKIPPED | StepState.CANCELLED:
            return None
        case never:
            assert_never(never)


class _StepSpan(msgspec.Struct):
    """What a step is about, and since when."""

    part: Part
    since: Instant
    question: int
    """How many were asked about it before: with the next one it is about something else."""


class RunTally:
    """One run as it is counted. `name` is what its steps are counted under.

    Invariants: `_spans` holds the steps whose time is counted, each with the part it is spent on, and `_about` how many
    there are of each part. Steps' time and the run's are counted up to `_now`, which never goes back.
    """

    def __init__(self, tally: Tally, plan: Plan, name: str) -> None:
        self.state = RunState(plan)
        self._tally, self._name = tally, name
        self._opened = self._now = Instant(0)
        self._spans: dict[StepId, _StepSpan] = {}
        self._about: Counter[Part] = Counter()
        self._steps: dict[StepId, StepTally] = {}
        self._failed: dict[StepId, list[str]] = {}
        self._not_held: dict[StepId, int] = {}
        """The newest attempt of a step that its contract was not held for."""

    def fold(self, event: RunEvent, at: Instant) -> None:
        """Count one event; raises IllegalTransition for what cannot happen."""
        state, step_id = self.state, getattr(event, "step", None)
        about_budget = bool(state.reached)
        if state.size == 0:
            self._opened = self._now = at
        epoch, doubted = state.epoch, step_id in state.doubtful
        apply(state, event, at)
        before, now = self._now, max(self._now, at)
        if self._nobody_at_work(event):
            self._pass_over(before, now, about_budget=about_budget)
        else:
            self._pass(event, before, now)
        self._now = now
        self._count(event, epoch=epoch, doubted=doubted)
        for touched in (step_id,) if step_id in state.steps else tuple(self._spans):
            self._look_at(touched)

    def close(self, now: Instant) -> None:
        """Add what can be told only at the end. A run that is open has taken the time until its last event, and until
        now where it does nothing but wait for a person."""
        state, tally = self.state, self._tally
        now = max(self._now, now)
        only_asks = self._about[Part.PERSON] and not any(self._about[part] for part in _AT_WORK)
        if not state.finished and only_asks:
            self._add(Part.PERSON, now - self._now)
        for step_id, span in self._spans.items():
            until = now if only_asks and span.part is Part.PERSON else self._now
            self._step(step_id).parts[span.part] += until - span.since
        tally.runs.append((self._opened, state.status or _OPEN))
        if state.finished:
            tally.durations_ms.append(self._now - self._opened)
        tally.run_counts["reruns"] += state.rerun_of is not None
        for step_id, record in state.steps.items():
            if record.attempts:
                self._step(step_id).runs += 1
            if record.state is StepState.PASSED and not record.kept:
                tally.passes[record.attempts] += 1
                tally.run_counts["unverified"] += by_word(state, step_id) is not None
            for code in self._failed.get(step_id, ()):
                tally.failure(code).ended[_end_of(record)] += 1

    # --- Time ------------------------------------------------------------------------------------------------------

    def _nobody_at_work(self, event: RunEvent) -> bool:
        """Whether this event tells that nobody carried the run out since the one before it."""
        match event:
            case ExecutorStarted() | RunCancelled():
                return True
            case DecisionGiven():  # which may come while others are at work
                return not any(self._about[part] for part in _AT_WORK)
            case RunPaused():
                return any(self._about[part] for part in _AT_WORK)
            case _:
                return False

    def _pass_over(self, before: Instant, now: Instant, *, about_budget: bool) -> None:
        """Let time pass that counts for no step, but for those that wait for a person; a budget can have been asked
        about, which is no step."""
        for step_id, span in self._spans.items():
            if span.part is not Part.PERSON:
                self._step(step_id).parts[span.part] += before - span.since
                span.since = now
        self._add(Part.PERSON if self._about[Part.PERSON] or about_budget else Part.STOPPED, now - before)

    def _pass(self, event: RunEvent, before: Instant, now: Instant) -> None:
        """Let time pass in which the run was carried out. A contract that was looked at before its step began anything,
        or instead of that, is told by the event alone."""
        looked = 0
        if isinstance(event, ContractSeen | StepKept | StepNotKept) and event.evidence is not None:
            span = self._spans.get(event.step)
            looked = min(event.evidence.duration_ms, now - (span.since if span is not None else before))
            self._step(event.step).parts[Part.VERIFYING] += looked
            if span is not None:
                self._step(event.step).parts[span.part] += now - span.since - looked
                span.since = now
        gap = now - before
        others = self._about[Part.EXECUTING] - isinstance(event, ContractSeen)
        looked = min(looked, gap) if others <= 0 else 0
        self._add(Part.VERIFYING, looked)
        self._add(next((part for part in Part if self._about[part] > 0), Part.BETWEEN), gap - looked)

    def _look_at(self, step_id: StepId) -> None:
        """See what a step is about after an event."""
        now, span = self._now, self._spans.get(step_id)
        part = Part.PERSON if asks(self.state, step_id) else part_of(self.state.steps[step_id])
        question = self.state.steps[step_id].asked_before if part is Part.PERSON else 0
        if span is not None and (span.part, span.question) == (part, question):
            return
        if span is not None:
            self._step(step_id).parts[span.part] += now - span.since
            self._about[span.part] -= 1
            del self._spans[step_id]
        if part is not None:
            self._spans[step_id] = _StepSpan(part=part, since=now, question=question)
            self._about[part] += 1
            self._tally.asked += part is Part.PERSON

    def _add(self, part: Part, duration_ms: int) -> None:
        if duration_ms:
            self._tally.parts[part] += duration_ms

    # --- Counts ----------------------------------------------------------------------------------------------------

    def _step(self, step_id: StepId) -> StepTally:
        if step_id not in self._steps:
            self._steps[step_id] = self._tally.step(self._name, self.state.step(step_id))
        return self._steps[step_id]

    def _count(self, event: RunEvent, *, epoch: int, doubted: bool) -> None:
        """Count what an event says; `epoch` was the run's before it, and `doubted` whether its step was in doubt."""
        tally = self._tally
        match event:
            case ExecutorStarted():
                tally.run_counts["takeovers"] += epoch > 0
            case StepKept():
                tally.run_counts["kept"] += 1
            case StepNotKept():
                tally.run_counts["not_kept"] += 1
            case AttemptStarted(step=step_id):
                self._step(step_id).attempts += 1
            case AttemptEnded(step=step_id, outcome=outcome, to=to):
                if outcome.error is not None and to is not StepState.CANCELLED:
                    self._count_failure(event, outcome.error)
                    self._count_missing(step_id, outcome)
            case ContractHeld(step=step_id, attempt=attempt):
                step, not_held = self._step(step_id), self._not_held.get(step_id)
                step.held += 1
                step.held_after_retry += not_held is not None and not_held < attempt
                step.held_same_attempt += not_held == attempt
            case ContractBroken(step=step_id, evidence=evidence):
                self._step(step_id).broken += 1
                self._not_held[step_id] = event.attempt
                self._count_failure(event, evidence.error or "F_CONTRACT_BROKEN")
                self._count_missing(step_id, evidence)
            case ContractInconclusive(step=step_id, evidence=evidence):
                self._step(step_id).inconclusive += 1
                self._not_held[step_id] = event.attempt
                self._count_failure(event, evidence.error or "F_CONTRACT_INCONCLUSIVE")
            case DoubtFound():
                tally.doubts += 1
            case DoubtSettled(evidence=evidence, to=to):
                by = "rule" if evidence is None else "contract"
                tally.settled[f"{by}: {'passed' if to is StepState.PASSED else 'run again'}"] += 1
            case DecisionGiven(step=step_id, choice=choice, outcome=outcome):
                tally.answers[choice] += 1
                if outcome is not None and outcome.error is not None:
                    self._count_failure(event, outcome.error)
                if doubted:
                    tally.settled[f"person: {choice}"] += 1
                if (span := self._spans.get(step_id)) is not None:
                    tally.answered_ms.append(self._now - span.since)
            case _:
                pass

    def _count_failure(
        self, event: AttemptEnded | ContractBroken | ContractInconclusive | DecisionGiven, code: str
    ) -> None:
        failure = self._tally.failure(code)
        failure.then["aborted" if event.aborts else _THEN.get(event.to, event.to.value)] += 1
        failure.steps[self._name, event.step] += 1
        self._step(event.step).failures += 1
        self._failed.setdefault(event.step, []).append(code)

    def _count_missing(self, step_id: StepId, seen: Outcome | Evidence) -> None:
        own = isinstance(seen, Outcome)
        if seen.exit_code in COULD_NOT_RUN or (own and seen.exit_code is None and could_not_start(seen.detail)):
            action = self.state.step(step_id).action if own else None
            program = missing_program(seen.output_tail, action)
            self._tally.missing[program, "command" if own else "contract"] += 1


def _end_of(record: StepRecord) -> str:
    """How a step that failed on its way ended."""
    verified = record.evidence is not None and record.evidence.verdict is Verdict.HELD
    if record.state is StepState.PASSED and record.decided_by is not None and not verified:
        return "passed by decision"
    return record.state.value if record.state in SETTLED else _OPEN
