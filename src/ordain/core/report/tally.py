"""What was counted of plans and runs so far, and the statistics it makes.

Folding is done by `PlanTally` (`core.plan_tally`) and `RunTally` (`core.run_tally`), which add to a `Tally` one event
after the other: what is held is what was counted, never the events.
"""

from __future__ import annotations

import re
from collections import Counter

from ordain.core.lineage.lineage import PlanState, Stage, apply_lineage
from ordain.core.plan.actions.tool import CallTool
from ordain.core.plan.command import command_of, program_of
from ordain.core.plan.model import Action, Step
from ordain.core.plan.tool import action_kind
from ordain.core.plan.value import Instant, PlanId, StepId
from ordain.core.policy.script import RESERVED
from ordain.core.report.statistics import (
    Contracts,
    Decisions,
    Doubts,
    Failure,
    KindTime,
    MissingProgram,
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
from ordain.core.run.event import (
    ApprovalGiven,
    LineageEvent,
    PlanArchived,
    PlanCancelled,
    PlanExpired,
    PlanPrepared,
    PlanRejected,
    RunStarted,
)

# --- Program name ----------------------------------------------------------------------------------------------------
# By which name the work of a step is counted, and which program was missing where one was.
#
# A name is taken from what is plainly written: nothing is parsed as bash would, so a name here is a label, never a
# reason for anything.

COULD_NOT_RUN = (126, 127)
"""What a shell exits with where a program cannot be run, or is not there."""

_BEFORE = r"\s*(?:(?:cd|set)\s+[^\s;&|]+\s*(?:&&|;|\n)\s*|[A-Za-z_][A-Za-z0-9_]*=[^\s'\"$`();|&<>]*\s+)*"
"""Where to go, options of the shell, variables: what stands before the first program and is none."""
_FIRST_WORD = re.compile(_BEFORE + r"([A-Za-z0-9_.+@/:\[-]+)(?=[\s;|&<>)]|$)")
_NOT_FOUND = re.compile(
    r"(?:^|[:/]\s|\s)['\"`‘]?([^\s:'\"`’‘]+)['\"`’]?: "
    r"(?:command not found|not found|No such file or directory|Permission denied|cannot execute[^\n]*)\s*$",
    re.MULTILINE,
)


def kind_of(action: Action) -> str:
    """What an action counts as: the first program of a command, `shell` where that is not plainly written, the tool of
    a call, the kind of any other."""
    command, program = command_of(action), program_of(action)
    if command is not None:
        found = _FIRST_WORD.match(command.command)
        return _base(found[1]) if found is not None and found[1] not in RESERVED else "shell"
    if program is not None:
        return _base(program.argv[0])
    return action.tool if isinstance(action, CallTool) else action_kind(action)


def _base(program: str) -> str:
    return program.rstrip("/").rpartition("/")[2] or program


def could_not_start(detail: str) -> bool:
    """Whether a program that is run without a shell was not there, or is none, by what the system said."""
    return detail.startswith(("could not be started: [Errno 2]", "could not be started: [Errno 13]"))


def missing_program(output: str, action: Action | None) -> str | None:
    """The program that could not be run, by what was written about it last, or because the action runs no other."""
    said = _NOT_FOUND.findall(output)
    if said:
        return str(said[-1])
    program = program_of(action) if action is not None else None
    return program.argv[0] if program is not None else None


# --- Tally -----------------------------------------------------------------------------------------------------------


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

    def _missing(self) -> tuple[MissingProgram, ...]:
        found = [
            MissingProgram(
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


# --- Plan tally ------------------------------------------------------------------------------------------------------
# Counting one lineage. What an event means for a plan is asked of `apply_lineage`, so that an event that is not
# counted here is still followed.


class PlanTally:
    """One lineage as it is counted."""

    def __init__(self) -> None:
        self.state = PlanState()
        self._proposed: dict[PlanId, Instant] = {}
        """When each plan was proposed that waits for its approval."""
        self._waited_ms: list[int] = []
        self._counted: Counter[str] = Counter()
        self._before_archiving: Stage | None = None

    @property
    def name(self) -> str:
        """What its steps are counted under: a document that is prepared again begins a new lineage, but is the same
        work."""
        return self.state.document or self.state.title

    def fold(self, event: LineageEvent, at: Instant) -> None:
        """Count one event; raises IllegalTransition for what cannot happen."""
        before = self.state.stage
        apply_lineage(self.state, event, at)
        match event:
            case PlanPrepared(plan_id=plan_id):
                self._proposed.setdefault(plan_id, at)
            case ApprovalGiven(approval=approval):
                proposed = self._proposed.pop(approval.plan_id, None)
                if proposed is not None:
                    self._waited_ms.append(max(at - proposed, 0))
            case PlanRejected():
                self._counted["rejections"] += 1
                self._proposed.clear()
            case PlanExpired():
                self._counted["expiries"] += 1
                self._proposed.clear()
            case PlanCancelled():
                self._proposed.clear()
            case PlanArchived():
                self._before_archiving = before
            case RunStarted(approval_id=approval_id):
                self._counted["runs_approved" if approval_id is not None else "runs_unasked"] += 1
            case _:
                pass

    def close(self, tally: Tally, now: Instant) -> None:
        """Add it to the rest, as it stands now."""
        state, counted = self.state, self._counted
        if state.stage is Stage.ARCHIVED:
            counted["archived"] += 1
            tally.plans[str(self._before_archiving)] += 1
        else:
            status = state.status(now)
            tally.plans[str(status)] += 1
            counted["expiries"] += status == Stage.EXPIRED and state.stage is not Stage.EXPIRED
        counted["revised"] += len(state.revisions) > 1
        first = next(iter(state.runs.values()), None)
        counted["tried"] += first is not None
        counted["completed_at_first"] += first == Stage.COMPLETED
        tally.plan_counts.update(counted)
        tally.to_approval_ms += self._waited_ms
        for one in state.ended.values():
            tally.approvals[one.how if one.how in ("revoked", "expired", "superseded") else "used"] += 1
        for permission in state.permissions.values():
            tally.approvals["unused" if now < permission.approval.expires_at else "expired"] += 1
