"""State is a fold over history: `RunState`, the table of transitions, and `apply`.

`apply` is total over TRANSITIONS and refuses everything else, so that no code path can take a step where the table
does not allow it. A RunState has one owner, which folds events into it in place: the cost of an event depends on what
it changes, never on the size of the plan. Adjectives (ready, blocked) are questions answered here, not columns.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import assert_never

import msgspec

from ordain.core.action import LockAction
from ordain.core.approval import Principal, WorkspaceIdentity
from ordain.core.event import (
    AttemptEnded,
    AttemptStarted,
    AttemptWaiting,
    ContractBroken,
    ContractHeld,
    ContractInconclusive,
    ContractSeen,
    DecisionGiven,
    DoubtFound,
    DoubtReferred,
    DoubtSettled,
    Evidence,
    ExecutorStarted,
    FilesProtected,
    Limits,
    Outcome,
    ProtectedChanged,
    ProtectedFile,
    RunCancelled,
    RunEvent,
    RunFinished,
    RunOpened,
    RunPaused,
    Settlement,
    StepEvent,
    StepKept,
    StepNotKept,
    StepState,
    Verdict,
)
from ordain.core.graph import dependents
from ordain.core.model import Plan, Step, check_of
from ordain.core.value import Instant, RunId, StepId

__all__ = ["TRANSITIONS", "IllegalTransition", "RunState", "StepRecord", "apply", "replay"]

PENDING, RUNNING, VERIFYING = StepState.PENDING, StepState.RUNNING, StepState.VERIFYING
WAITING = StepState.WAITING
PASSED, FAILED, SKIPPED, CANCELLED = StepState.PASSED, StepState.FAILED, StepState.SKIPPED, StepState.CANCELLED
IN_DOUBT, ESCALATED = StepState.IN_DOUBT, StepState.ESCALATED

AFTER_FAILURE = frozenset({PENDING, FAILED, SKIPPED, ESCALATED})
"""Where a failure policy can take a step."""

TRANSITIONS: dict[tuple[StepState, type], frozenset[StepState]] = {
    (PENDING, StepKept): frozenset({PASSED}),
    (PENDING, StepNotKept): frozenset({PENDING}),
    (PENDING, AttemptStarted): frozenset({RUNNING}),
    (RUNNING, AttemptWaiting): frozenset({WAITING}),
    (WAITING, AttemptWaiting): frozenset({WAITING}),
    (RUNNING, AttemptEnded): AFTER_FAILURE | {VERIFYING, PASSED, CANCELLED},
    (WAITING, AttemptEnded): AFTER_FAILURE | {VERIFYING, PASSED, CANCELLED},
    (VERIFYING, ContractHeld): frozenset({PASSED}),
    (VERIFYING, ContractBroken): AFTER_FAILURE,
    (VERIFYING, ContractInconclusive): AFTER_FAILURE,
    (RUNNING, DoubtFound): frozenset({IN_DOUBT}),
    (IN_DOUBT, DoubtSettled): frozenset({PASSED, PENDING}),
    (IN_DOUBT, DecisionGiven): frozenset({VERIFYING, PASSED, PENDING, FAILED}),
    (ESCALATED, DecisionGiven): frozenset({PENDING, SKIPPED, PASSED, FAILED}),
}
"""From state and event to the states it may lead to. Every move of every step is one of these; besides them,
`run_finished` takes the steps that are still open (pending, or escalated when the run aborts) to cancelled, and
`run_cancelled` all that are."""

SETTLED = frozenset({PASSED, FAILED, SKIPPED, CANCELLED})
"""States a step never leaves."""

SATISFIES = frozenset({PASSED, SKIPPED})
"""States that satisfy a need."""


class IllegalTransition(Exception):
    """An event that the table does not allow: a bug of ours or a ledger that was tampered with."""


class StepRecord(msgspec.Struct):
    """What is known of one step. Owned by its RunState."""

    state: StepState = PENDING
    attempts: int = 0
    """Attempts started."""
    failures: int = 0
    """Attempts that went badly since the last person's decision."""
    decisions: int = 0
    """How often a person decided about it: a question is told from the one before by that."""
    not_before: Instant | None = None
    waits_for: str = ""
    """For a step that waits: what for."""
    waits_until: Instant | None = None
    started_at: Instant | None = None
    ended_at: Instant | None = None
    outcome: Outcome | None = None
    evidence: Evidence | None = None
    seen_before: Evidence | None = None
    """What the contract showed before this attempt's effect."""
    operand_before: str | None = None
    """What the tool was about to change, as a digest."""
    seen_broken: bool = False
    """Whether the contract was ever seen broken before an effect of this step: the proof that it can be."""
    protected: dict[str, ProtectedFile] | None = None
    """What the step itself protects, as it was before the first attempt; None before anybody looked."""
    protected_now: bool = False
    """Whether what must not change was kept before this attempt's effect."""
    tampered: tuple[str, ...] = ()
    """Protected files that were found changed while this attempt was at work, in words. It cannot pass by itself."""
    settle: Settlement | None = None
    """For a step in doubt: how to settle it."""
    how: str = ""
    """How it got where it is, in a few words, when that is not the plain way."""
    decided_by: str | None = None
    """Who decided where it is now, when a person did."""
    kept: bool = False
    """Whether it passed in the run before and was not run again."""


class RunState:
    """One run, folded from its events.

    Invariants: `ready` and `delayed` hold the positions of exactly the pending steps whose needs are satisfied, the
    second those that must not begin before an instant, with that instant and by it, the first all others in plan order;
    `active` holds the ids of those running or verifying, `waiting`, `doubtful` and `escalated` those that are so.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.position = {step.id: index for index, step in enumerate(plan.steps)}
        self.steps = {step.id: StepRecord() for step in plan.steps}
        self.size = 0
        """Events folded so far: what the next append expects."""
        self.run_id = RunId("")
        self.lineage = ""
        self.workspace: WorkspaceIdentity | None = None
        self.limits: Limits | None = None
        self.epoch = 0
        self.rerun_of: RunId | None = None
        self.first_run = RunId("")
        """The first of the chain of reruns that this run belongs to."""
        self.may_keep: set[StepId] = set()
        """Steps that passed in the run before and may still be kept; they are looked at when their turn comes."""
        self.paused_by: Principal | None = None
        self.executor_at = Instant(0)
        """When the newest executor took the run."""
        self.opened_at = Instant(0)
        self.changed_at = Instant(0)
        """When something was recorded last."""
        self.status: str | None = None
        """Set once the run has finished: completed, failed or cancelled."""
        self.reason = ""
        """Why it ended so, where there is more to say than the steps do."""
        self.aborted_by: StepId | None = None
        self.active: dict[StepId, None] = {}
        self.waiting: dict[StepId, None] = {}
        self.doubtful: dict[StepId, None] = {}
        self.escalated: dict[StepId, None] = {}
        self._members = {
            RUNNING: self.active,
            VERIFYING: self.active,
            WAITING: self.waiting,
            IN_DOUBT: self.doubtful,
            ESCALATED: self.escalated,
        }
        self.unsatisfied = len(plan.steps)
        """How many steps have neither passed nor been skipped."""
        self.protected: dict[str, ProtectedFile] | None = None
        """What the plan protects, each file as it was when a step that was about to begin first found it; None before
        anybody looked."""
        self._dependents = dependents({step.id: step.needs for step in plan.steps})
        self._unmet = {step.id: len(set(step.needs)) for step in plan.steps}
        self.ready = [index for index, step in enumerate(plan.steps) if not step.needs]
        self.delayed: list[tuple[Instant, int]] = []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunState) and vars(self) == vars(other)

    def __hash__(self) -> int:
        raise TypeError("a RunState changes; it has no hash")

    def step(self, step_id: StepId) -> Step:
        return self.plan.steps[self.position[step_id]]

    def protects(self, step_id: StepId) -> bool:
        """Whether any file must not change while this step is at work."""
        return bool(self.plan.protect or self.step(step_id).protect)

    def is_blocked(self, step_id: StepId) -> bool:
        """Whether any need of a step is not satisfied yet."""
        return self._unmet[step_id] > 0

    def dependents_of(self, step_id: StepId) -> Iterable[StepId]:
        """The steps that need this one."""
        return (StepId(other) for other in self._dependents[step_id])

    def unmet_needs(self, step_id: StepId) -> tuple[StepId, ...]:
        """The needs of a step that are not satisfied yet."""
        return tuple(need for need in self.step(step_id).needs if self.steps[need].state not in SATISFIES)

    @property
    def finished(self) -> bool:
        return self.status is not None

    @property
    def workspace_identity(self) -> WorkspaceIdentity:
        if self.workspace is None:
            raise IllegalTransition("the run was never opened")
        return self.workspace

    @property
    def limits_in_force(self) -> Limits:
        if self.limits is None:
            raise IllegalTransition("the run was never opened")
        return self.limits

    def move(self, step_id: StepId, to: StepState) -> None:
        """Put a step into a state and keep the questions' answers (ready, active …) true."""
        record = self.steps[step_id]
        if record.state is PENDING and self._unmet[step_id] == 0:
            position, due = self.position[step_id], record.not_before
            if due is None:
                del self.ready[bisect_left(self.ready, position)]
            else:
                del self.delayed[bisect_left(self.delayed, (due, position))]
        before, after = self._members.get(record.state), self._members.get(to)
        record.state = to
        if after is not before:
            if before is not None:
                del before[step_id]
            if after is not None:
                after[step_id] = None
        if to is PENDING and self._unmet[step_id] == 0:
            position, due = self.position[step_id], record.not_before
            if due is None:
                insort(self.ready, position)
            else:
                insort(self.delayed, (due, position))
        if to in SATISFIES:
            self.unsatisfied -= 1
            for other in self._dependents[step_id]:
                self._unmet[StepId(other)] -= 1
                if self._unmet[StepId(other)] == 0 and self.steps[StepId(other)].state is PENDING:
                    insort(self.ready, self.position[StepId(other)])


def replay(plan: Plan, history: Iterable[tuple[Instant, RunEvent]]) -> RunState:
    """The state that a run's whole history adds up to."""
    state = RunState(plan)
    for at, event in history:
        apply(state, event, at)
    return state


def apply(state: RunState, event: RunEvent, at: Instant) -> RunState:
    """Fold one event into the state and return it; raises IllegalTransition for what the table does not allow, and then
    nothing has changed."""
    if state.finished:
        raise IllegalTransition(f"{type(event).__name__} after the run finished")
    match event:
        case RunOpened():
            if state.size:
                raise IllegalTransition("a run is opened once, first")
            state.run_id, state.lineage, state.opened_at = event.run_id, event.lineage, at
            state.workspace, state.limits = event.workspace, event.limits
            state.rerun_of, state.first_run = event.rerun_of, event.first_run or event.run_id
            state.may_keep = {step_id for step_id in event.may_keep if step_id in state.steps}
        case ExecutorStarted():
            if event.epoch <= state.epoch:
                raise IllegalTransition(f"epoch {event.epoch} after {state.epoch}")
            state.epoch, state.paused_by, state.reason = event.epoch, None, ""
            state.executor_at = at
        case RunPaused():
            state.paused_by, state.reason = event.by, event.reason
        case ProtectedChanged():
            _tampered(state, event)
        case RunFinished():
            _finish(state, event, at)
        case RunCancelled():
            if event.status not in ("cancelled", "failed"):
                raise IllegalTransition(f"nobody can end a run as {event.status}")
            _cancel(state, at)
            state.status, state.reason = event.status, event.reason
        case _:
            _apply_to_step(state, event, at)
    state.size += 1
    state.changed_at = at
    return state


def _apply_to_step(state: RunState, event: StepEvent, at: Instant) -> None:
    if event.step not in state.steps:
        raise IllegalTransition(f"{type(event).__name__} for {event.step}, which is not in the plan")
    record = state.steps[event.step]
    expected = record.attempts + 1 if isinstance(event, AttemptStarted) else record.attempts
    if not isinstance(event, DecisionGiven) and event.attempt != expected:
        raise IllegalTransition(f"attempt {event.attempt} of {event.step} where {expected} was due")
    _refuse_move(record.state, event)  # before anything is noted: what is refused changes nothing
    match event:
        case StepKept() | StepNotKept():
            if event.step not in state.may_keep or state.unmet_needs(event.step):
                raise IllegalTransition(f"{event.step} cannot be kept from the run before")
            verdict = event.evidence.verdict if event.evidence is not None else None
            checked = check_of(state.step(event.step)) is not None
            if (verdict is Verdict.HELD) is not (checked and isinstance(event, StepKept)):
                raise IllegalTransition(f"{event.step} is kept where its contract holds, and nowhere else")
            state.may_keep.discard(event.step)
            record.evidence = event.evidence
            state.move(event.step, PASSED if isinstance(event, StepKept) else PENDING)
            if isinstance(event, StepKept):
                record.outcome, record.kept, record.ended_at = event.outcome, True, at
        case AttemptStarted():
            if state.is_blocked(event.step):
                raise IllegalTransition(f"{event.step} started before what it needs")
            state.move(event.step, RUNNING)
            # What depends on a step that is run again may come out otherwise; but a lock is the same lock again.
            if state.may_keep and not isinstance(state.step(event.step).action, LockAction):
                state.may_keep.difference_update((event.step, *state.dependents_of(event.step)))
            record.attempts += 1
            record.not_before, record.outcome, record.evidence = None, None, None
            record.seen_before, record.operand_before = None, None
            record.protected_now, record.tampered = False, ()
            record.started_at, record.ended_at, record.how, record.decided_by = at, None, "", None
        case FilesProtected():
            if record.state is not RUNNING or record.protected_now:
                raise IllegalTransition(f"what {event.step} must not change is kept once, before its effect")
            known = state.protected or {}
            if event.of_plan.keys() & known.keys() or (event.of_step and record.protected is not None):
                raise IllegalTransition(f"{event.step} would have a protected file be another than it was")
            state.protected = {**known, **event.of_plan} if event.of_plan or not known else known
            record.protected = dict(event.of_step) if record.protected is None else record.protected
            record.protected_now = True
        case ContractSeen():
            if record.state is not RUNNING or record.seen_before is not None:
                raise IllegalTransition(f"the contract of {event.step} is looked at once, before its effect")
            record.seen_before, record.operand_before = event.evidence, event.operand
            record.seen_broken = record.seen_broken or event.evidence.verdict is Verdict.BROKEN
        case AttemptWaiting():
            if record.tampered:
                raise IllegalTransition(f"{event.step} was at work while protected files changed; it can only fail")
            record.waits_for, record.waits_until = event.reason, event.until
            state.move(event.step, WAITING)
        case AttemptEnded():
            if event.outcome.error is None and event.to not in (VERIFYING, PASSED):
                raise IllegalTransition(f"{event.step} went well and cannot go to {event.to}")
            if event.outcome.error is not None and event.to in (VERIFYING, PASSED):
                raise IllegalTransition(f"{event.step} went badly and cannot go to {event.to}")
            if event.to is PASSED and check_of(state.step(event.step)) is not None:
                raise IllegalTransition(f"{event.step} has a contract; only that can pass it")
            if event.to in (VERIFYING, PASSED):
                _refuse_tampered(state, event.step)
            record.outcome, record.ended_at = event.outcome, at
            record.waits_for, record.waits_until = "", None
            _after(state, event, failed=event.outcome.error is not None)
        case ContractHeld():
            _refuse_tampered(state, event.step)
            record.evidence, record.ended_at = event.evidence, at
            state.move(event.step, PASSED)
        case ContractBroken() | ContractInconclusive():
            record.evidence, record.ended_at = event.evidence, at
            _after(state, event, failed=True)
        case DoubtFound():
            record.settle, record.how = event.settle, event.reason
            state.move(event.step, IN_DOUBT)
        case DoubtReferred():
            if record.state is not IN_DOUBT:
                raise IllegalTransition(f"{event.step} is not in doubt")
            record.settle, record.evidence, record.how = Settlement.PERSON, event.evidence, event.reason
        case DoubtSettled():
            if event.to is PASSED:
                _refuse_tampered(state, event.step)
            record.settle, record.how, record.ended_at = None, event.reason, at
            record.evidence = event.evidence or record.evidence
            state.move(event.step, event.to)
        case DecisionGiven():
            if event.attempt not in (0, record.attempts):  # 0: of before answers were bound
                raise IllegalTransition(f"a decision about attempt {event.attempt} of {event.step}, which is over")
            record.decisions += 1
            record.settle, record.failures, record.not_before = None, 0, None
            record.how, record.decided_by = event.choice, event.by.name
            record.ended_at = at
            state.move(event.step, event.to)
            if event.aborts:
                state.aborted_by = event.step
        case _:
            assert_never(event)


def _tampered(state: RunState, event: ProtectedChanged) -> None:
    """Note what was changed with every step that may have done it."""
    for step_id in event.steps:
        if step_id not in state.steps or state.steps[step_id].state not in (RUNNING, VERIFYING, IN_DOUBT):
            raise IllegalTransition(f"{step_id} was not at work and cannot have changed anything")
    for step_id in event.steps:
        record = state.steps[step_id]
        record.tampered = tuple(dict.fromkeys((*record.tampered, *event.files)))


def _refuse_tampered(state: RunState, step_id: StepId) -> None:
    if state.steps[step_id].tampered:
        raise IllegalTransition(f"{step_id} was at work while protected files changed; no evidence can pass it")


def _after(state: RunState, event: AttemptEnded | ContractBroken | ContractInconclusive, *, failed: bool) -> None:
    """Take a step where its outcome or verdict, and the failure policy written into the event, sent it."""
    record = state.steps[event.step]
    if failed and event.to is not CANCELLED:
        record.failures += 1
    record.not_before = event.not_before
    state.move(event.step, event.to)
    if event.aborts:
        state.aborted_by = event.step


def _refuse_move(origin: StepState, event: StepEvent) -> None:
    match event:
        case FilesProtected() | ContractSeen() | DoubtReferred():
            return  # they leave a step where it is, and are refused where they have no place
        case AttemptStarted():
            to = RUNNING
        case AttemptWaiting():
            to = WAITING
        case ContractHeld() | StepKept():
            to = PASSED
        case StepNotKept():
            to = PENDING
        case DoubtFound():
            to = IN_DOUBT
        case _:
            to = event.to
    if to not in TRANSITIONS.get((origin, type(event)), frozenset()):
        raise IllegalTransition(f"{event.step}: {type(event).__name__} takes nothing from {origin} to {to}")


def _finish(state: RunState, event: RunFinished, at: Instant) -> None:
    if state.active or state.waiting or state.doubtful or (state.escalated and state.aborted_by is None):
        raise IllegalTransition("a run cannot finish while a step is running, waiting, in doubt or with a person")
    # "None ready" is never "complete": only every step passed or skipped is.
    if (event.status == "completed") is not (state.unsatisfied == 0):
        raise IllegalTransition(f"the run is called {event.status}, but its steps say otherwise")
    _cancel(state, at)
    state.status, state.reason = event.status, event.reason


def _cancel(state: RunState, at: Instant) -> None:
    """End every step that is still open; of one that was under way nobody knows what it did."""
    for step_id, record in state.steps.items():
        if record.state not in SETTLED:
            record.how = ""
            if record.state in (RUNNING, IN_DOUBT):
                record.how = "was under way when the run was cancelled; nobody looked whether it happened"
            elif record.state is WAITING:
                record.how = f"waited for {record.waits_for} when the run was cancelled"
                record.waits_for, record.waits_until = "", None
            elif record.state is VERIFYING:
                record.how = "was done and not verified when the run was cancelled"
            state.move(step_id, CANCELLED)
            record.ended_at = at
