"""What was counted of plans and runs so far, and the statistics it makes.

Folding is done by `PlanTally` (`core.plan_tally`) and `RunTally` (`core.run_tally`), which add to a `Tally` one event
after the other: what is held is what was counted, never the events.
"""

from __future__ import annotations

from collections import Counter

from ordain.core.model import Step
from ordain.core.program_name import kind_of
from ordain.core.statistics import (
    Contracts,
    Decisions,
    Doubts,
    Failure,
    KindTime,
    Missing,
    Part,
    Plans,
    Retries,
    Runs,
    Statistics,
    StepCount,
    StepTime,
    periods,
    spread,
    time_of,
)
from ordain.core.value import Instant, StepId

__all__ = ["FailureTally", "StepTally", "Tally"]


class StepTally:
    """What was counted of one step of one document."""

    def __init__(self, step: Step) -> None:
        self.description = step.description
        self.runs = self.attempts = self.failures = 0
        self.parts: Counter[Part] = Counter()
        self.held = self.broken = self.inconclusive = 0
        self.held_after_retry = self.held_same_attempt = 0


class FailureTally:
    """What was counted of one cause."""

    def __init__(self) -> None:
        self.then: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.steps: Counter[tuple[str, StepId]] = Counter()


class Tally:
    """Everything counted so far."""

    def __init__(self) -> None:
        self.plans: Counter[str] = Counter()
        self.plan_counts: Counter[str] = Counter()
        self.approvals: Counter[str] = Counter()
        self.to_approval_ms: list[int] = []
        self.runs: list[tuple[Instant, str]] = []
        self.run_counts: Counter[str] = Counter()
        self.durations_ms: list[int] = []
        self.parts: Counter[Part] = Counter()
        self.steps: dict[tuple[str, StepId, str], StepTally] = {}
        """By plan, step and kind: a step that came to do something else is another one."""
        self.failures: dict[str, FailureTally] = {}
        self.passes: Counter[int] = Counter()
        self.missing: Counter[tuple[str | None, str]] = Counter()
        self.doubts = 0
        self.settled: Counter[str] = Counter()
        self.asked = 0
        self.answers: Counter[str] = Counter()
        self.answered_ms: list[int] = []

    def step(self, plan: str, step: Step) -> StepTally:
        return self.steps.setdefault((plan, step.id, kind_of(step.action)), StepTally(step))

    def failure(self, code: str) -> FailureTally:
        return self.failures.setdefault(code, FailureTally())

    def statistics(self, since: Instant | None, until: Instant, *, plans: bool = True) -> Statistics:
        """All of it as values; `plans` is false where only runs were counted."""
        return Statistics(
            since=since,
            until=until,
            plans=self._plans() if plans else None,
            runs=self._runs(),
            time=time_of(self.parts),
            steps=self._steps(),
            kinds=self._kinds(),
            failures=self._failures(),
            retries=Retries(
                attempts=sum(one.attempts for one in self.steps.values()),
                passed=self.passes.total(),
                passed_again=sum(count for attempts, count in self.passes.items() if attempts > 1),
                passes_by_attempts=dict(sorted(self.passes.items())),
            ),
            missing=self._missing(),
            doubts=Doubts(
                found=self.doubts, settled=_ranked(self.settled), unsettled=self.doubts - self.settled.total()
            ),
            decisions=Decisions(asked=self.asked, answers=_ranked(self.answers), waited=spread(self.answered_ms)),
            contracts=self._contracts(),
        )

    def _plans(self) -> Plans:
        counted = self.plan_counts
        return Plans(
            count=self.plans.total(),
            by_status=_ranked(self.plans),
            archived=counted["archived"],
            revised=counted["revised"],
            rejections=counted["rejections"],
            expiries=counted["expiries"],
            tried=counted["tried"],
            completed_at_first=counted["completed_at_first"],
            to_approval=spread(self.to_approval_ms),
            approvals=_ranked(self.approvals),
            runs_approved=counted["runs_approved"],
            runs_unasked=counted["runs_unasked"],
        )

    def _runs(self) -> Runs:
        unit, over_time = periods(self.runs)
        counted = self.run_counts
        return Runs(
            count=len(self.runs),
            by_status=_ranked(Counter(status for _, status in self.runs)),
            durations=spread(self.durations_ms),
            unit=unit,
            over_time=over_time,
            reruns=counted["reruns"],
            kept=counted["kept"],
            not_kept=counted["not_kept"],
            unverified=counted["unverified"],
            takeovers=counted["takeovers"],
        )

    def _steps(self) -> tuple[StepTime, ...]:
        found = [
            StepTime(
                plan=plan,
                id=step_id,
                description=one.description,
                kind=kind,
                runs=one.runs,
                attempts=one.attempts,
                failures=one.failures,
                time=time_of(one.parts),
            )
            for (plan, step_id, kind), one in self.steps.items()
        ]
        return tuple(sorted(found, key=lambda one: (-one.time.total_ms, -one.attempts, one.plan, one.id)))

    def _kinds(self) -> tuple[KindTime, ...]:
        kinds: dict[str, tuple[Counter[Part], Counter[str]]] = {}
        for (_, _, kind), one in self.steps.items():
            parts, counted = kinds.setdefault(kind, (Counter(), Counter()))
            parts.update(one.parts)
            counted.update(attempts=one.attempts, failures=one.failures)
        found = [
            KindTime(kind=kind, attempts=counted["attempts"], failures=counted["failures"], time=time_of(parts))
            for kind, (parts, counted) in kinds.items()
        ]
        return tuple(sorted(found, key=lambda one: (-one.time.total_ms, -one.attempts, one.kind)))

    def _failures(self) -> tuple[Failure, ...]:
        found = [
            Failure(
                code=code,
                count=one.then.total(),
                then=_ranked(one.then),
                ended=_ranked(one.ended),
                steps=tuple(
                    StepCount(plan=plan, step=step_id, count=count)
                    for (plan, step_id), count in sorted(one.steps.items(), key=lambda item: (-item[1], item[0]))
                ),
            )
            for code, one in self.failures.items()
        ]
        return tuple(sorted(found, key=lambda one: (-one.count, one.code)))

    def _missing(self) -> tuple[Missing, ...]:
        found = [
            Missing(
                program=program,
                commands=self.missing[program, "command"],
                contracts=self.missing[program, "contract"],
            )
            for program in {program for program, _ in self.missing}
        ]
        return tuple(sorted(found, key=lambda one: (-one.commands - one.contracts, one.program or "")))

    def _contracts(self) -> tuple[Contracts, ...]:
        found = [
            Contracts(
                plan=plan,
                step=step_id,
                held=one.held,
                broken=one.broken,
                inconclusive=one.inconclusive,
                held_after_retry=one.held_after_retry,
                held_same_attempt=one.held_same_attempt,
            )
            for (plan, step_id, _), one in self.steps.items()
            if one.held_after_retry or one.held_same_attempt
        ]
        return tuple(sorted(found, key=lambda one: (-one.held_after_retry - one.held_same_attempt, one.plan, one.step)))


def _ranked(counted: Counter[str]) -> dict[str, int]:
    """The most frequent first."""
    return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))
