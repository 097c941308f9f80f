"""Counting plans and runs, one event after the other: what is held is what was counted, never the events.

What an event means is asked of `apply` and `apply_lineage`. Time that a clock took back is no time.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable
from typing import Any, TypeVar

import msgspec

from ordain.core.lineage.lineage import PlanState, Stage, apply_lineage
from ordain.core.plan.action import CallTool
from ordain.core.plan.command import command_of, program_of
from ordain.core.plan.model import Action, Plan
from ordain.core.plan.tool import action_kind
from ordain.core.plan.value import Instant, PlanId, StepId
from ordain.core.policy.script import RESERVED
from ordain.core.report.report import by_word
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
    time_of,
)
from ordain.core.run import event as events
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
    DoubtChecked,
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

# --- Program name ----------------------------------------------------------------------------------------------------
# What the work of a step is counted as, from what is plainly written: a label, never a reason for anything.

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
    """What an action counts as: the first program of a command, else `shell`; the tool of a call; its own kind."""
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
    if said := _NOT_FOUND.findall(output):
        return str(said[-1])
    program = program_of(action) if action is not None else None
    return program.argv[0] if program is not None else None


# --- Tally -----------------------------------------------------------------------------------------------------------

Told = TypeVar("Told", bound=msgspec.Struct)
StepKey = tuple[str, StepId, str]
"""Plan, step and kind: a step that came to do something else is another one."""


class Tally:
    """Everything counted so far."""

    def __init__(self) -> None:
        self.counted: defaultdict[Hashable, Counter[Any]] = defaultdict(Counter)
        """By subject: `plans` and `runs` by status, `approvals`, `settled` doubts, `answers`, `passes` by how many
        attempts they needed, `missing` programs, the `time` of all runs, and `other`; `then`, `ended` and `steps` by
        the cause of failures."""
        self.steps: defaultdict[StepKey, Counter[str]] = defaultdict(Counter)
        """What was counted of each step, and what its time was spent on."""
        self.descriptions: dict[StepKey, str] = {}
        self.durations_ms: defaultdict[str, list[int]] = defaultdict(list)
        """`to_approval`, of each `run` that has ended, and `answered`."""

    def statistics(self, since: Instant | None, until: Instant, *, plans: bool = True) -> Statistics:
        """All of it as values; `plans` is false where only runs were counted."""
        counted, other, passes = self.counted, self.counted["other"], self.counted["passes"]
        return Statistics(
            since=since,
            until=until,
            plans=self._plans() if plans else None,
            runs=_filled(
                Runs,
                other,
                count=counted["runs"].total(),
                by_status=_ranked(counted["runs"]),
                duration_ms=self._mean_ms("run"),
            ),
            time=time_of(counted["time"]),
            steps=self._steps(),
            kinds=self._kinds(),
            failures=self._failures(),
            retries=Retries(
                attempts=sum(one["attempts"] for one in self.steps.values()),
                passed=passes.total(),
                passed_again=sum(count for attempts, count in passes.items() if attempts > 1),
                passes_by_attempts=dict(sorted(passes.items())),
            ),
            missing=self._missing(),
            doubts=Doubts(
                found=other["doubts"],
                settled=_ranked(counted["settled"]),
                unsettled=other["doubts"] - counted["settled"].total(),
            ),
            decisions=Decisions(
                asked=other["asked"], answers=_ranked(counted["answers"]), waited_ms=self._mean_ms("answered")
            ),
            contracts=self._contracts(),
        )

    def _mean_ms(self, what: str) -> int | None:
        durations = self.durations_ms[what]
        return sum(durations) // len(durations) if durations else None

    def _plans(self) -> Plans:
        return _filled(
            Plans,
            self.counted["other"],
            count=self.counted["plans"].total(),
            by_status=_ranked(self.counted["plans"]),
            to_approval_ms=self._mean_ms("to_approval"),
            approvals=_ranked(self.counted["approvals"]),
        )

    def _steps(self) -> tuple[StepTime, ...]:
        found = [
            _filled(StepTime, one, plan=plan, id=step_id, kind=kind, description=said, time=time_of(one))
            for ((plan, step_id, kind), one), said in zip(self.steps.items(), self.descriptions.values(), strict=True)
        ]
        return tuple(sorted(found, key=lambda one: (-one.time.total_ms, -one.attempts, one.plan, one.id)))

    def _kinds(self) -> tuple[KindTime, ...]:
        kinds: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for (_, _, kind), one in self.steps.items():
            kinds[kind].update(one)
        found = [_filled(KindTime, one, kind=kind, time=time_of(one)) for kind, one in kinds.items()]
        return tuple(sorted(found, key=lambda one: (-one.time.total_ms, -one.attempts, one.kind)))

    def _failures(self) -> tuple[Failure, ...]:
        counted = self.counted
        found = [
            Failure(
                code=code,
                count=count,
                then=_ranked(counted["then", code]),
                ended=_ranked(counted["ended", code]),
                steps=tuple(
                    StepCount(plan=plan, step=step_id, count=times)
                    for (plan, step_id), times in _ranked(counted["steps", code]).items()
                ),
            )
            for code, count in counted["failures"].items()
        ]
        return tuple(sorted(found, key=lambda one: (-one.count, one.code)))

    def _missing(self) -> tuple[MissingProgram, ...]:
        counted = self.counted["missing"]
        found = [
            MissingProgram(
                program=program, commands=counted[program, "command"], contracts=counted[program, "contract"]
            )
            for program in {program for program, _ in counted}
        ]
        return tuple(sorted(found, key=lambda one: (-one.commands - one.contracts, one.program or "")))

    def _contracts(self) -> tuple[Contracts, ...]:
        found = [
            _filled(Contracts, one, plan=plan, step=step_id)
            for (plan, step_id, _), one in self.steps.items()
            if one["held_after_retry"] or one["held_same_attempt"]
        ]
        return tuple(sorted(found, key=lambda one: (-one.held_after_retry - one.held_same_attempt, one.plan, one.step)))


def _filled(made: type[Told], counted: Counter[str], /, **told: Any) -> Told:
    """A value with this told, and in all its other fields what was counted by their names."""
    return made(**told, **{name: counted[name] for name in made.__struct_fields__ if name not in told})


def _ranked(counted: Counter[Any]) -> dict[Any, int]:
    return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


# --- A plan ----------------------------------------------------------------------------------------------------------


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
        """What its steps are counted under: a document that is prepared again is the same work."""
        return self.state.document or self.state.title

    def fold(self, event: events.LineageEvent, at: Instant) -> None:
        """Count one event; raises IllegalTransition for what cannot happen."""
        before = self.state.stage
        apply_lineage(self.state, event, at)
        match event:
            case events.PlanPrepared(plan_id=plan_id):
                self._proposed.setdefault(plan_id, at)
            case events.ApprovalGiven(approval=approval):
                proposed = self._proposed.pop(approval.plan_id, None)
                if proposed is not None:
                    self._waited_ms.append(max(at - proposed, 0))
            case events.PlanRejected() | events.PlanExpired() | events.PlanCancelled():
                self._counted["rejections"] += isinstance(event, events.PlanRejected)
                self._counted["expiries"] += isinstance(event, events.PlanExpired)
                self._proposed.clear()
            case events.PlanArchived():
                self._before_archiving = before
            case events.RunStarted(approval_id=approval_id):
                self._counted["runs_approved" if approval_id is not None else "runs_unasked"] += 1

    def close(self, tally: Tally, now: Instant) -> None:
        """Add it to the rest, as it stands now."""
        state, counted = self.state, self._counted
        if state.stage is Stage.ARCHIVED:
            counted["archived"] += 1
            tally.counted["plans"][str(self._before_archiving)] += 1
        else:
            status = state.status(now)
            tally.counted["plans"][str(status)] += 1
            counted["expiries"] += status == Stage.EXPIRED and state.stage is not Stage.EXPIRED
        counted["revised"] += len(state.revisions) > 1
        first = next(iter(state.runs.values()), None)
        counted["tried"] += first is not None
        counted["completed_at_first"] += first == Stage.COMPLETED
        tally.counted["other"].update(counted)
        tally.durations_ms["to_approval"] += self._waited_ms
        approvals = tally.counted["approvals"]
        for one in state.ended.values():
            approvals[one.how if one.how in ("revoked", "expired", "superseded") else "used"] += 1
        for permission in state.permissions.values():
            approvals["unused" if now < permission.approval.expires_at else "expired"] += 1


# --- A run -----------------------------------------------------------------------------------------------------------

_OPEN = "open"
_AT_WORK = (Part.EXECUTING, Part.VERIFYING)
_THEN = {
    StepState.PENDING: "retried",
    StepState.SKIPPED: "skipped",
    StepState.ESCALATED: "escalated",
    StepState.FAILED: "failed",
}
_PARTS = {
    StepState.RUNNING: Part.EXECUTING,
    StepState.VERIFYING: Part.VERIFYING,
    StepState.WAITING: Part.WAITING,
    StepState.ESCALATED: Part.PERSON,
}


def part_of(record: StepRecord) -> Part | None:
    """What the time of a step as it stands is spent on; None where it has not begun or is settled."""
    if record.state is StepState.PENDING:
        return Part.WAITING if record.attempts else None
    if record.state is StepState.IN_DOUBT:
        return Part.PERSON if record.settle is Settlement.PERSON else Part.VERIFYING
    return _PARTS.get(record.state)


class _StepSpan(msgspec.Struct):
    """What a step is about, and since when."""

    part: Part
    since: Instant
    question: int
    """How many were asked about it before: with the next one it is about something else."""


class RunTally:
    """One run as it is counted. `name` is what its steps are counted under.

    Invariants: `_spans` holds the steps whose time is counted, each with the part it is spent on, and `_about` how many
    there are of each part. All time is counted up to `_now`, which never goes back.
    """

    def __init__(self, tally: Tally, plan: Plan, name: str) -> None:
        self.state = RunState(plan)
        self._tally, self._time, self._name = tally, tally.counted["time"], name
        self._opened = self._now = Instant(0)
        self._spans: dict[StepId, _StepSpan] = {}
        self._about: Counter[Part] = Counter()
        self._steps: dict[StepId, Counter[str]] = {}
        self._failed: dict[StepId, list[str]] = {}
        self._not_held: dict[StepId, int] = {}
        """The newest attempt of a step that its contract was not held for."""

    def fold(self, event: events.RunEvent, at: Instant) -> None:
        """Count one event; raises IllegalTransition for what cannot happen."""
        state, step_id = self.state, getattr(event, "step", None)
        about_budget = bool(state.reached)
        if state.size == 0:
            self._opened = self._now = at
        epoch, doubted = state.epoch, step_id in state.doubtful
        apply(state, event, at)
        gap = max(at - self._now, 0)
        self._now = Instant(self._now + gap)
        if self._nobody_at_work(event):
            self._pass_over(gap, about_budget=about_budget)
        else:
            self._pass(event, gap)
        self._count(event, epoch=epoch, doubted=doubted)
        for touched in (step_id,) if step_id in state.steps else tuple(self._spans):
            self._look_at(touched)

    def close(self, now: Instant) -> None:
        """Add what can be told only at the end. A run that is open has taken the time until its last event, and until
        now where it does nothing but wait for a person."""
        state, counted = self.state, self._tally.counted
        only_asks = self._about[Part.PERSON] and not any(self._about[part] for part in _AT_WORK)
        if not state.finished and only_asks and now > self._now:
            self._pass_over(now - self._now)
        counted["runs"][state.status or _OPEN] += 1
        if state.finished:
            self._tally.durations_ms["run"].append(self._now - self._opened)
        counted["other"]["reruns"] += state.rerun_of is not None
        for step_id, record in state.steps.items():
            if record.attempts:
                self._step(step_id)["runs"] += 1
            if record.state is StepState.PASSED and not record.kept:
                counted["passes"][record.attempts] += 1
                counted["other"]["unverified"] += by_word(state, step_id) is not None
            for code in self._failed.get(step_id, ()):
                counted["ended", code][_end_of(record)] += 1

    # --- Time ------------------------------------------------------------------------------------------------------

    def _nobody_at_work(self, event: events.RunEvent) -> bool:
        """Whether this event tells that nobody carried the run out since the one before it."""
        at_work = any(self._about[part] for part in _AT_WORK)
        match event:
            case events.ExecutorStarted() | events.RunCancelled():
                return True
            case DecisionGiven():  # which may come while others are at work
                return not at_work
            case events.RunPaused():
                return at_work
            case _:
                return False

    def _pass_over(self, gap: int, *, about_budget: bool = False) -> None:
        """Let time pass that counts for no step, but for those that wait for a person; budgets may, and are no step."""
        for step_id, span in self._spans.items():
            if span.part is Part.PERSON:
                self._step(step_id)[Part.PERSON] += gap
            else:
                span.since = self._now
        self._time[Part.PERSON if self._about[Part.PERSON] or about_budget else Part.STOPPED] += gap

    def _pass(self, event: events.RunEvent, gap: int) -> None:
        """Let time pass in which the run was carried out. A contract that was looked at before its step began anything,
        or instead of that, is told by the event alone."""
        for step_id, span in self._spans.items():
            self._step(step_id)[span.part] += gap
        looked = 0
        if isinstance(event, ContractSeen | StepKept | StepNotKept) and event.evidence is not None:
            own, parts = self._spans.get(event.step), self._step(event.step)
            looked = min(event.evidence.duration_ms, self._now - own.since if own is not None else gap)
            parts[Part.VERIFYING] += looked
            if own is not None:
                parts[own.part] -= looked
                own.since = self._now
        others = self._about[Part.EXECUTING] - isinstance(event, ContractSeen)
        looked = min(looked, gap) if others <= 0 else 0
        self._time[Part.VERIFYING] += looked
        self._time[next((part for part in Part if self._about[part] > 0), Part.BETWEEN)] += gap - looked

    def _look_at(self, step_id: StepId) -> None:
        span, record = self._spans.get(step_id), self.state.steps[step_id]
        part = Part.PERSON if asks(self.state, step_id) else part_of(record)
        question = record.asked_before if part is Part.PERSON else 0
        if span is not None and (span.part, span.question) == (part, question):
            return
        if span is not None:
            self._about[span.part] -= 1
            del self._spans[step_id]
        if part is not None:
            self._spans[step_id] = _StepSpan(part=part, since=self._now, question=question)
            self._about[part] += 1
            self._tally.counted["other"]["asked"] += part is Part.PERSON

    # --- Counts ----------------------------------------------------------------------------------------------------

    def _step(self, step_id: StepId) -> Counter[str]:
        if step_id not in self._steps:
            step = self.state.step(step_id)
            key = self._name, step.id, kind_of(step.action)
            self._tally.descriptions.setdefault(key, step.description)
            self._steps[step_id] = self._tally.steps[key]
        return self._steps[step_id]

    def _count(self, event: events.RunEvent, *, epoch: int, doubted: bool) -> None:
        """Count what an event says; `epoch` was the run's before it, and `doubted` whether its step was in doubt."""
        counted, other = self._tally.counted, self._tally.counted["other"]
        match event:
            case events.ExecutorStarted():
                other["takeovers"] += epoch > 0
            case StepKept():
                other["kept"] += 1
            case StepNotKept():
                other["not_kept"] += 1
            case AttemptStarted(step=step_id):
                self._step(step_id)["attempts"] += 1
            case AttemptEnded(outcome=outcome, to=to):
                if outcome.error is not None and to is not StepState.CANCELLED:
                    self._count_failure(event, outcome.error)
                    self._count_missing(event.step, outcome)
            case ContractHeld(step=step_id, attempt=attempt):
                not_held = self._not_held.get(step_id)
                how = "held_same_attempt" if not_held == attempt else "held_after_retry"
                self._step(step_id).update(["held", how] if not_held is not None else ["held"])
            case ContractBroken(step=step_id, evidence=evidence):
                self._count_not_held(event, "broken", evidence.error or "F_CONTRACT_BROKEN")
                self._count_missing(step_id, evidence)
            case ContractInconclusive(evidence=evidence):
                self._count_not_held(event, "inconclusive", evidence.error or "F_CONTRACT_INCONCLUSIVE")
            case DoubtFound():
                other["doubts"] += 1
            case DoubtSettled(evidence=evidence, to=to):
                by = "rule" if evidence is None else "contract"
                counted["settled"][f"{by}: {'passed' if to is StepState.PASSED else 'run again'}"] += 1
            case DoubtChecked(to=to) if to is not StepState.IN_DOUBT:
                counted["settled"][f"check: {'run again' if to is StepState.PENDING else 'happened'}"] += 1
            case DecisionGiven(step=step_id, choice=choice, outcome=outcome):
                counted["answers"][choice] += 1
                if outcome is not None and outcome.error is not None:
                    self._count_failure(event, outcome.error)
                if doubted:
                    counted["settled"][f"person: {choice}"] += 1
                if (span := self._spans.get(step_id)) is not None:
                    self._tally.durations_ms["answered"].append(self._now - span.since)

    def _count_not_held(self, event: ContractBroken | ContractInconclusive, how: str, code: str) -> None:
        self._step(event.step)[how] += 1
        self._not_held[event.step] = event.attempt
        self._count_failure(event, code)

    def _count_failure(
        self, event: AttemptEnded | ContractBroken | ContractInconclusive | DecisionGiven, code: str
    ) -> None:
        counted = self._tally.counted
        counted["failures"][code] += 1
        counted["then", code]["aborted" if event.aborts else _THEN.get(event.to, event.to.value)] += 1
        counted["steps", code][self._name, event.step] += 1
        self._step(event.step)["failures"] += 1
        self._failed.setdefault(event.step, []).append(code)

    def _count_missing(self, step_id: StepId, seen: Outcome | Evidence) -> None:
        own = isinstance(seen, Outcome)
        if seen.exit_code in COULD_NOT_RUN or (own and seen.exit_code is None and could_not_start(seen.detail)):
            action = self.state.step(step_id).action if own else None
            program = missing_program(seen.output_tail, action)
            self._tally.counted["missing"][program, "command" if own else "contract"] += 1


def _end_of(record: StepRecord) -> str:
    verified = record.evidence is not None and record.evidence.verdict is Verdict.HELD
    if record.state is StepState.PASSED and record.decided_by is not None and not verified:
        return "passed by decision"
    return record.state.value if record.state in SETTLED else _OPEN
