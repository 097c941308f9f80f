"""State is a fold over history: `RunState`, the table of transitions, and `apply`.

`apply` is total over TRANSITIONS and refuses everything else, so that no code path can take a step where the table
does not allow it. A RunState has one owner, which folds events into it in place: the cost of an event depends on what
it changes, never on the size of the plan. Adjectives (ready, blocked) are questions answered here, not columns.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from typing import assert_never

import msgspec

from ordain.core.action import Ask, LockAction, StoreData
from ordain.core.approval import Principal, WorkspaceIdentity
from ordain.core.bound import REPETITIONS_MAX, STEPS_OF_RUN_MAX
from ordain.core.dependency import needs_of
from ordain.core.event import (
    AttemptEnded,
    AttemptStarted,
    AttemptWaiting,
    BudgetReached,
    ConditionFalse,
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
    FallbackEnded,
    FilesProtected,
    GroupKind,
    Limits,
    Outcome,
    PreconditionBroken,
    ProtectedChanged,
    ProtectedFile,
    RunCancelled,
    RunEvent,
    RunFinished,
    RunOpened,
    RunPaused,
    Settlement,
    StepApprovalAsked,
    StepEvent,
    StepKept,
    StepNotKept,
    StepState,
    StepUnfolded,
    Verdict,
)
from ordain.core.graph import dependents
from ordain.core.group import (
    Group,
    Made,
    Member,
    fallback_members,
    item_members,
    nested_members,
    nested_plan_of,
    repeated,
    within,
)
from ordain.core.model import Plan, Step, check_of
from ordain.core.spending import RUN, Account, account_of, counted, new_account, owner_of, sayable
from ordain.core.tries import Try, with_try
from ordain.core.value import Instant, RunId, StepId

__all__ = ["TRANSITIONS", "IllegalTransition", "RunState", "StepRecord", "apply", "replay"]

PENDING, RUNNING, VERIFYING = StepState.PENDING, StepState.RUNNING, StepState.VERIFYING
WAITING = StepState.WAITING
PASSED, FAILED, SKIPPED, CANCELLED = StepState.PASSED, StepState.FAILED, StepState.SKIPPED, StepState.CANCELLED
IN_DOUBT, ESCALATED = StepState.IN_DOUBT, StepState.ESCALATED

AFTER_FAILURE = frozenset({PENDING, FAILED, SKIPPED, ESCALATED, WAITING})
"""Where a failure policy can take a step; it waits where fallback steps are run."""

TRANSITIONS: dict[tuple[StepState, type], frozenset[StepState]] = {
    (PENDING, StepKept): frozenset({PASSED}),
    (PENDING, StepNotKept): frozenset({PENDING}),
    (PENDING, ConditionFalse): frozenset({SKIPPED}),
    (PENDING, PreconditionBroken): AFTER_FAILURE,
    (PENDING, StepApprovalAsked): frozenset({ESCALATED}),
    (PENDING, StepUnfolded): frozenset({WAITING}),
    (PENDING, AttemptStarted): frozenset({RUNNING}),
    (RUNNING, AttemptWaiting): frozenset({WAITING}),
    (WAITING, AttemptWaiting): frozenset({WAITING}),
    (RUNNING, AttemptEnded): AFTER_FAILURE | {VERIFYING, PASSED, CANCELLED},
    (WAITING, AttemptEnded): AFTER_FAILURE | {VERIFYING, PASSED, CANCELLED},
    (WAITING, DecisionGiven): frozenset({VERIFYING, PASSED, FAILED}),
    (VERIFYING, ContractHeld): frozenset({PASSED}),
    (VERIFYING, ContractBroken): AFTER_FAILURE,
    (VERIFYING, ContractInconclusive): AFTER_FAILURE,
    (WAITING, FallbackEnded): frozenset({VERIFYING, FAILED, SKIPPED, ESCALATED, CANCELLED}),
    (RUNNING, DoubtFound): frozenset({IN_DOUBT}),
    (IN_DOUBT, DoubtSettled): frozenset({PASSED, PENDING}),
    (IN_DOUBT, DecisionGiven): frozenset({VERIFYING, PASSED, PENDING, FAILED}),
    (ESCALATED, DecisionGiven): frozenset({PENDING, SKIPPED, PASSED, FAILED}),
}
"""From state and event to the states it may lead to. Every move of every step is one of these; besides them,
`run_finished` takes the steps that are still open (pending, or escalated when the run aborts) to cancelled,
`run_cancelled` all that are; and where a plan that is nested or a step's fallback is ended early, its steps that are
not at work are cancelled too. Only steps that belong to another one can leave a settled state: when that is tried
again, they begin anew."""

SETTLED = frozenset({PASSED, FAILED, SKIPPED, CANCELLED})
"""States a step never leaves."""

SATISFIES = frozenset({PASSED, SKIPPED})
"""States that satisfy a need, unless a person denied the step."""

AT_WORK = frozenset({RUNNING, VERIFYING, WAITING, IN_DOUBT, ESCALATED})
"""States of a step that has begun and may come to something by itself or by somebody outside."""


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
    """How often a person decided about it."""
    unanswered: int = 0
    """How often it asked a person something, and the question ended without an answer."""
    not_before: Instant | None = None
    waits_for: str = ""
    """For a step that waits: what for."""
    waits_until: Instant | None = None
    waits_since: Instant | None = None
    """For a step that waits or is in doubt: since when."""
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
    broken: PreconditionBroken | None = None
    """What did not hold before it, when that is why it is where it is."""
    condition_false: bool = False
    asked: StepApprovalAsked | None = None
    """What a person is asked or was asked before it may be done."""
    allowed: str = ""
    """The seal of what a person allowed."""
    denied: bool = False
    """Whether a person said that it must not be done; then it satisfies nobody's need."""
    fell_back: str = ""
    """What became of its fallback steps, where they were run."""
    gathers: bool = False
    """Whether it waits for steps of its own."""
    tries: tuple[Try, ...] = ()
    """The attempts before the last one; nothing is kept of a step that was tried once."""

    @property
    def satisfies(self) -> bool:
        """Whether steps that need it may begin."""
        return self.state in SATISFIES and not self.denied

    @property
    def asked_before(self) -> int:
        """How many questions about it have ended: one is told from the one before by that."""
        return self.decisions + self.unanswered

    def last_try(self) -> Try:
        """The last attempt, as far as it got."""
        return Try(
            attempt=self.attempts,
            started_at=self.started_at,
            ended_at=self.ended_at,
            outcome=self.outcome,
            evidence=self.evidence,
            how=self.how,
            decided_by=self.decided_by,
        )


class RunState:
    """One run, folded from its events.

    Invariants: `ready` and `delayed` hold the positions of exactly the pending steps whose needs are satisfied and that
    their group lets begin, the second those that must not begin before an instant, with that instant and by it, the
    first all others in the order of their positions; `active` holds the ids of those running or verifying, `waiting`
    those that wait for something outside, `gathering` those that wait for steps of their own, `doubtful` and
    `escalated` those that are so. `gatherable` are those among `gathering` whose steps have come to their end.
    `accounts` holds what the run has spent, and each step that has a budget; `reached` the budgets that keep steps from
    beginning until a person has decided.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.names = [step.id for step in plan.steps]
        """Every step by its position: the plan's, then those that came to be."""
        self.position = {name: index for index, name in enumerate(self.names)}
        self.defined = {step.id: repeated(step) if step.for_each is not None else step for step in plan.steps}
        """What each step is to do."""
        self.steps = {step.id: StepRecord() for step in plan.steps}
        self.members: dict[StepId, Member] = {}
        """Of steps that came to be: whose they are."""
        self.groups: dict[StepId, Group] = {}
        """Of steps that became steps of their own or fell back on others: the newest group."""
        self.data: dict[str, StepId] = {}
        """For each key of stored data, the step that stored it last."""
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
        self._run_again: set[StepId] = set()
        """Where some steps may be kept: those that are run again, and all that comes after them."""
        self.paused_by: Principal | None = None
        self.opened_at = Instant(0)
        self.signals: Mapping[str, int] = {}
        """How often each signal that the plan waits for had been given before the run was opened."""
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
        self.gathering: dict[StepId, None] = {}
        self.gatherable: dict[StepId, None] = {}
        self.doubtful: dict[StepId, None] = {}
        self.escalated: dict[StepId, None] = {}
        self._having = {
            RUNNING: self.active,
            VERIFYING: self.active,
            WAITING: self.waiting,
            IN_DOUBT: self.doubtful,
            ESCALATED: self.escalated,
        }
        self.unsatisfied = len(plan.steps)
        """How many steps of the plan have neither passed nor been skipped."""
        self.protected: dict[str, ProtectedFile] | None = None
        """What the plan protects, each file as it was when a step that was about to begin first found it; None before
        anybody looked."""
        self.needs = needs_of(plan)
        """What each step waits for, by what it says and by what it refers to."""
        self._dependents = dependents({str(name): needs for name, needs in self.needs.items()})
        self._unmet = {name: len(set(needs)) for name, needs in self.needs.items()}
        self.ready = [index for index, name in enumerate(self.names) if not self.needs[name]]
        self.delayed: list[tuple[Instant, int]] = []
        self.accounts: dict[StepId, Account] = {RUN: new_account(plan.budget)}
        self.budgeted = plan.budget is not None
        """Whether there ever was a limit of anything."""
        self.reached: dict[StepId, BudgetReached] = {}
        self.worked_at = Instant(0)
        """When an executor recorded something last."""
        self._open_accounts(plan.steps)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunState) and vars(self) == vars(other)

    def __hash__(self) -> int:
        raise TypeError("a RunState changes; it has no hash")

    def step(self, step_id: StepId) -> Step:
        return self.defined[step_id]

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
        return tuple(need for need in self.needs[step_id] if not self.steps[need].satisfies)

    def reading_order(self) -> Iterable[StepId]:
        """Every step, each followed by those that belong to it."""
        children: dict[StepId, list[StepId]] = {}
        for name, member in self.members.items():
            children.setdefault(member.parent, []).append(name)
        todo = [step.id for step in reversed(self.plan.steps)]
        while todo:
            name = todo.pop()
            yield name
            todo += reversed(children.get(name, []))

    # --- Budgets -------------------------------------------------------------------------------------------------

    def payers(self, step_id: StepId) -> Iterable[StepId]:
        """Whose accounts a step spends from: its own, those of the steps that it belongs to, the run's. Fallback steps
        are not paid by the step that failed."""
        if len(self.accounts) > 1:
            name: StepId | None = step_id
            own = True
            while name is not None:
                if own and name in self.accounts:
                    yield name
                member = self.members.get(name)
                own = member is None or member.kind is not GroupKind.FALLBACK
                name = member.parent if member is not None else None
        yield RUN

    def held(self, step_id: StepId) -> bool:
        """Whether a step may not begin before a person has decided about a budget."""
        return bool(self.reached) and any(owner in self.reached for owner in self.payers(step_id))

    def _open_accounts(self, steps: Iterable[Step]) -> None:
        for step in steps:
            if step.id not in self.accounts and (account := account_of(step)) is not None:
                self.accounts[step.id] = account
                self.budgeted = True

    # --- Steps that belong to others -----------------------------------------------------------------------------

    def plan_around(self, step_id: StepId) -> Plan:
        """The plan that a step is of: the outermost, or the nested one."""
        around = self.holder(step_id)
        nested = nested_plan_of(self.defined[around]) if around is not None else self.plan
        assert nested is not None
        return nested

    def holder(self, step_id: StepId) -> StepId | None:
        """The step that holds the plan which a step is of; None where that is the outermost."""
        member = self.members.get(step_id)
        while member is not None and member.kind is not GroupKind.NESTED:
            member = self.members.get(member.parent)
        return member.parent if member is not None else None

    def named(self, step_id: StepId, name: str) -> StepId:
        """The step that this name means where it stands in a step: of the same plan, or of the same fallback."""
        member = self.members.get(step_id)
        if member is None:
            return StepId(name)
        if member.kind is GroupKind.NESTED:
            return StepId(f"{member.parent}/{name}")
        if member.kind is GroupKind.FALLBACK and (beside := StepId(f"{member.parent}+{name}")) in self.steps:
            return beside
        return self.named(member.parent, name)

    def written_name(self, step_id: StepId) -> StepId:
        """What the plan calls a step."""
        member = self.members.get(step_id)
        return member.name if member is not None else step_id

    def ended_with(self, step_id: StepId) -> StepId | None:
        """The step whose nested plan or fallback this one can end; None where that is the run."""
        member = self.members.get(step_id)
        while member is not None and member.kind is GroupKind.ITEMS:
            member = self.members.get(member.parent)
        return member.parent if member is not None else None

    def aborting(self, step_id: StepId) -> StepId | None:
        """The step that ends the run, or the plan or fallback that this step is of, however far above."""
        parent: StepId | None = step_id
        while parent is not None:
            parent = self.ended_with(parent)
            if parent is not None and self.groups[parent].aborted_by is not None:
                return self.groups[parent].aborted_by
        return self.aborted_by

    @property
    def stopped(self) -> list[StepId]:
        """The steps that run or wait although what they are of is being ended."""
        if self.aborted_by is None and not any(self.groups[parent].aborted_by for parent in self.gathering):
            return []
        under_way = (name for name in self.active if self.steps[name].state is RUNNING)
        return [name for name in (*under_way, *self.waiting) if self.aborting(name) is not None]

    def has_room(self, count: int) -> bool:
        """Whether so many more steps may come to be in this run."""
        return len(self.names) + count <= STEPS_OF_RUN_MAX

    def unfold(self, parent: StepId, group: Group, made: Made, members: Iterable[Member]) -> None:
        """Let steps come to be, or begin anew, that a step waits for. What has passed of a nested plan stays so."""
        again = group.kind is not GroupKind.NESTED
        self.groups[parent] = group
        self.gatherable.pop(parent, None)
        new = [step.id for step, _ in made if step.id not in self.steps]
        for (step, needs), member in zip(made, members, strict=True):
            name = step.id
            if name not in self.steps:
                self.position[name] = len(self.names)
                self.names.append(name)
                self.members[name] = member
                self._dependents[name] = []
                self.needs[name] = needs
                self.steps[name] = StepRecord()
            elif again or not self.steps[name].satisfies:
                self.steps[name] = _anew(self.steps[name])
                if again and name in self.groups:
                    self._forget(name)
            self.defined[name] = repeated(step) if step.for_each is not None else step
        self._open_accounts(step for step, _ in made)
        for name in new:
            for need in self.needs[name]:  # which may stand behind it in the plan
                self._dependents[need].append(name)
        for name in group.members:
            self._unmet[name] = len(self.unmet_needs(name))
            if self.steps[name].state is PENDING and self._unmet[name] == 0:
                group.live += 1
                self._offer(name)
        if group.live == 0:
            self.gatherable[parent] = None

    def _forget(self, parent: StepId) -> None:
        """Let nothing stay done that belongs to a step which begins anew."""
        for name, member in self.members.items():
            if member.parent == parent:
                self.steps[name] = _anew(self.steps[name], CANCELLED)
                self._forget(name)

    def end_early(self, parent: StepId, by: StepId) -> None:
        """End a nested plan or a fallback: what has not begun does not begin any more."""
        group = self.groups[parent]
        group.aborted_by = by
        for name in group.members:
            state = self.steps[name].state
            if state in (PENDING, ESCALATED):
                self.move(name, CANCELLED)
            elif state is WAITING and self.steps[name].gathers:
                self.end_early(name, by)

    # --- Questions -----------------------------------------------------------------------------------------------

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

    # --- Moving --------------------------------------------------------------------------------------------------

    def move(self, step_id: StepId, to: StepState, not_before: Instant | None = None, *, gathers: bool = False) -> None:
        """Put a step into a state, where it does not begin before an instant, or waits for steps of its own, and keep
        the questions' answers (ready, active …) true."""
        record = self.steps[step_id]
        origin, free = record.state, self._unmet[step_id] == 0
        if origin is PENDING and free:
            self._withdraw(step_id, record)
        record.not_before = not_before
        before = self.gathering if record.gathers else self._having.get(origin)
        after = self.gathering if gathers else self._having.get(to)
        record.state, record.gathers = to, gathers
        if after is not before:
            if before is not None:
                del before[step_id]
            if after is not None:
                after[step_id] = None
        if before is self.gathering and not gathers:
            self.gatherable.pop(step_id, None)
        if to is PENDING and free:
            self._offer(step_id)
        if self.members and step_id in self.members:
            self._count(step_id, origin, to, free=free)
        elif record.satisfies:
            self.unsatisfied -= 1
        if record.satisfies:
            action = self.defined[step_id].action
            if to is PASSED and type(action) is StoreData:
                self.data[action.key] = step_id
            for other in self._dependents[step_id]:
                self._meet(StepId(other))

    def run_again(self, step_id: StepId) -> None:
        """Keep nothing of the run before that comes after a step which is run again, however far, for it may come out
        otherwise; but a lock is the same lock again."""
        front = [step_id]
        while front:
            name = front.pop()
            if name not in self._run_again and not isinstance(self.defined[name].action, LockAction):
                self._run_again.add(name)
                self.may_keep.discard(name)
                front += map(StepId, self._dependents[name])

    def gather(self, step_id: StepId) -> None:
        """Have a step wait for the steps of its group."""
        self.move(step_id, WAITING, gathers=True)

    def _meet(self, step_id: StepId) -> None:
        """One need of a step is satisfied."""
        self._unmet[step_id] -= 1
        if self._unmet[step_id] == 0 and self.steps[step_id].state is PENDING:
            member = self.members.get(step_id) if self.members else None
            if member is not None:
                self.groups[member.parent].live += 1
                self.gatherable.pop(member.parent, None)
            self._offer(step_id)

    def _offer(self, step_id: StepId) -> None:
        """Let a pending step be ready, at once or when its time has come, as soon as its group lets it."""
        if self.members and not self._let_in(step_id):
            return
        position, due = self.position[step_id], self.steps[step_id].not_before
        if due is None:
            insort(self.ready, position)
        else:
            insort(self.delayed, (due, position))

    def _withdraw(self, step_id: StepId, record: StepRecord) -> None:
        position, due = self.position[step_id], record.not_before
        if self.members and (member := self.members.get(step_id)) is not None:
            group = self.groups[member.parent]
            if step_id in group.held:
                del group.held[step_id]
                return
        if due is None:
            del self.ready[bisect_left(self.ready, position)]
        else:
            del self.delayed[bisect_left(self.delayed, (due, position))]

    def _let_in(self, step_id: StepId) -> bool:
        """Whether the group of a step lets it begin; otherwise it is held until another member has settled."""
        member = self.members.get(step_id)
        group = self.groups[member.parent] if member is not None else None
        if group is None or group.limit is None or step_id in group.begun:
            return True
        if len(group.begun) < group.limit:
            group.begun[step_id] = None
            return True
        group.held[step_id] = None
        return False

    def _count(self, step_id: StepId, origin: StepState, to: StepState, *, free: bool) -> None:
        """Keep account of what of a group may still come to something."""
        parent = self.members[step_id].parent
        group = self.groups[parent]
        was = origin in AT_WORK or (origin is PENDING and free)
        now = to in AT_WORK or (to is PENDING and free)
        group.live += now - was
        if to in SETTLED and step_id in group.begun:
            del group.begun[step_id]
            if group.held:
                following = next(iter(group.held))
                del group.held[following]
                self._offer(following)
        if group.live == 0:
            if parent in self.gathering:
                self.gatherable[parent] = None
        else:
            self.gatherable.pop(parent, None)


def _anew(record: StepRecord, state: StepState = PENDING) -> StepRecord:
    """The record of a step that belongs to another one and begins anew: its attempts are still counted and told, and
    the questions that were asked about it."""
    tries = with_try(record.tries, record.last_try()) if record.started_at is not None else record.tries
    return StepRecord(
        state=state,
        attempts=record.attempts,
        decisions=record.decisions,
        unanswered=record.unanswered,
        tries=tries,
    )


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
            state.opened_at, state.signals = at, event.signals
        case ExecutorStarted():
            if event.epoch <= state.epoch:
                raise IllegalTransition(f"epoch {event.epoch} after {state.epoch}")
            state.epoch, state.paused_by, state.reason = event.epoch, None, ""
            state.executor_at = at
            for account in state.accounts.values():
                account.cut(state.worked_at, at)
            state.worked_at = at
        case RunPaused():
            state.paused_by, state.reason = event.by, event.reason
        case ProtectedChanged():
            _tampered(state, event)
        case BudgetReached():
            _reach(state, event, at)
        case RunFinished():
            _finish(state, event, at)
        case RunCancelled():
            if event.status not in ("cancelled", "failed"):
                raise IllegalTransition(f"nobody can end a run as {event.status}")
            _cancel(state, at)
            for account in state.accounts.values():
                account.cut(state.worked_at, at)  # whether anybody was still at work then, nobody can tell
                account.at_work = 0
            state.status, state.reason = event.status, event.reason
        case DecisionGiven() if (owner := owner_of(event.step)) is not None:
            _decide_budget(state, owner, event, at)
        case _:
            was_at_work = event.step in state.active
            _apply_to_step(state, event, at)
            _spend(state, event, at, was_at_work=was_at_work)
    state.size += 1
    state.changed_at = at
    return state


def _apply_to_step(state: RunState, event: StepEvent, at: Instant) -> None:
    if event.step not in state.steps:
        raise IllegalTransition(f"{type(event).__name__} for {event.step}, which is not in the plan")
    record = state.steps[event.step]
    expected = record.attempts + 1 if type(event) in (AttemptStarted, StepUnfolded) else record.attempts
    if event.attempt != expected and not isinstance(event, DecisionGiven):
        raise IllegalTransition(f"attempt {event.attempt} of {event.step} where {expected} was due")
    _refuse_move(record.state, event)  # before anything is noted: what is refused changes nothing
    _refuse_fallback(state, event)
    _refuse_group(state, record, event)
    match event:
        case AttemptStarted():
            _refuse_blocked(state, event)
            _refuse_held(state, event)
            state.move(event.step, RUNNING)
            _begin(state, event.step, record, at)
        case AttemptEnded():
            if event.outcome.error is None and event.to not in (VERIFYING, PASSED):
                raise IllegalTransition(f"{event.step} went well and cannot go to {event.to}")
            if event.outcome.error is not None and event.to in (VERIFYING, PASSED):
                raise IllegalTransition(f"{event.step} went badly and cannot go to {event.to}")
            if event.to is PASSED and check_of(state.step(event.step)) is not None:
                raise IllegalTransition(f"{event.step} has a contract; only that can pass it")
            if event.to in (VERIFYING, PASSED):
                _refuse_tampered(state, event.step)
            if record.state is WAITING and isinstance(state.step(event.step).action, Ask):
                record.unanswered += 1
            record.outcome, record.ended_at = event.outcome, at
            record.waits_for, record.waits_until = "", None
            _let_go(state, event.step)
            _after(state, event, failed=event.outcome.error is not None)
        case ContractHeld():
            _refuse_tampered(state, event.step)
            if event.evidence.verdict is not Verdict.HELD or check_of(state.step(event.step)) is None:
                raise IllegalTransition(f"{event.step} has no contract that was seen to hold")
            record.evidence, record.ended_at = event.evidence, at
            state.move(event.step, PASSED)
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
        case ConditionFalse():
            _refuse_blocked(state, event)
            record.condition_false, record.ended_at = True, at
            state.move(event.step, SKIPPED)
        case PreconditionBroken():
            _refuse_blocked(state, event)
            record.ended_at = at
            record.outcome, record.evidence, record.decided_by = None, None, None
            _after(state, event, failed=True)
            record.broken = event
        case StepApprovalAsked():
            _refuse_blocked(state, event)
            record.asked, record.waits_since = event, at
            state.move(event.step, ESCALATED)
        case StepUnfolded():
            _refuse_blocked(state, event)
            _refuse_held(state, event)
            _unfold(state, event)
            _begin(state, event.step, record, at)
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
            if record.state is RUNNING:
                record.waits_since = at
            record.waits_for, record.waits_until = event.reason, event.until
            state.move(event.step, WAITING)
        case ContractBroken() | ContractInconclusive():
            record.evidence, record.ended_at = event.evidence, at
            _after(state, event, failed=True)
        case FallbackEnded():
            record.fell_back, record.ended_at = event.reason, at
            record.waits_for, record.waits_until = "", None
            _let_go(state, event.step)
            _after(state, event, failed=False)
        case DoubtFound():
            record.settle, record.how, record.waits_since = event.settle, event.reason, at
            state.move(event.step, IN_DOUBT)
        case DoubtReferred():
            if record.state is not IN_DOUBT:
                raise IllegalTransition(f"{event.step} is not in doubt")
            record.settle, record.evidence, record.how = Settlement.PERSON, event.evidence, event.reason
        case DoubtSettled():
            if event.to is PASSED:
                _refuse_tampered(state, event.step)
                if event.evidence is None or event.evidence.verdict is not Verdict.HELD:
                    raise IllegalTransition(
                        f"{event.step} passes out of doubt by a contract that holds, or by a person"
                    )
            record.settle, record.how, record.ended_at = None, event.reason, at
            record.evidence = event.evidence or record.evidence
            _again(state, event.step, event.to)
        case DecisionGiven():
            if event.attempt not in (0, record.attempts):  # 0: of before answers were bound
                raise IllegalTransition(f"a decision about attempt {event.attempt} of {event.step}, which is over")
            if (record.asked is not None) is not (event.about == "step_approval"):
                raise IllegalTransition(f"a decision about {event.step} that is not the one that was asked for")
            if record.asked is not None and event.to is PASSED:
                raise IllegalTransition(f"{event.step} was not begun and cannot have passed")
            if record.state is WAITING or event.outcome is not None:
                _refuse_answer(state, event)
                record.outcome, record.waits_for, record.waits_until = event.outcome, "", None
            record.decisions += 1
            if event.outcome is None:  # an answer is what the step was for, and no second chance
                record.failures = 0
            record.settle = None
            record.how, record.decided_by = event.choice, event.by.name
            record.ended_at = at
            record.fell_back, record.broken = "", None
            if record.asked is not None:
                record.allowed = record.asked.seal if event.to is PENDING else ""
                record.denied = event.to is SKIPPED
                record.asked = None
            _again(state, event.step, event.to)
            if event.aborts:
                _abort(state, event.step)
        case _:
            assert_never(event)


def _again(state: RunState, step_id: StepId, to: StepState) -> None:
    """Take a step where a doubt or a question about it was settled to; nothing begins again that is part of something
    which was ended meanwhile."""
    state.move(step_id, to)
    if to is PENDING and step_id in state.members and state.aborting(step_id) is not None:
        state.move(step_id, CANCELLED)


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


def _refuse_answer(state: RunState, event: DecisionGiven) -> None:
    """Raise IllegalTransition for what is no answer to a question that the plan asks."""
    step = state.step(event.step)
    if state.steps[event.step].state is not WAITING or not isinstance(step.action, Ask):
        raise IllegalTransition(f"{event.step} asks a person nothing that could have a result")
    after = FAILED if event.aborts else VERIFYING if check_of(step) is not None else PASSED
    if event.to is not after or event.aborts is not (event.outcome is None):
        raise IllegalTransition(f"an answer cannot take {event.step} to {event.to}")
    if event.outcome is not None and event.outcome.error is not None:
        raise IllegalTransition(f"the answer about {event.step} went badly, and no answer can")
    if not event.aborts:
        _refuse_tampered(state, event.step)


_MAY_FALL_BACK = (AttemptEnded, ContractBroken, ContractInconclusive, PreconditionBroken)


def _refuse_fallback(state: RunState, event: StepEvent) -> None:
    """Raise IllegalTransition where a step goes to wait for no fallback steps, or for such as the plan does not
    have."""
    if not isinstance(event, _MAY_FALL_BACK):
        return
    if not event.fallback and event.to is not WAITING:
        return
    if not event.fallback or event.to is not WAITING:
        raise IllegalTransition(f"{event.step} waits after a failure for fallback steps, and for nothing else")
    known = {one.id for one in state.plan_around(event.step).fallbacks}
    if unknown := set(event.fallback) - known:
        names = ", ".join(sorted(unknown))
        raise IllegalTransition(f"{event.step} falls back on {names}, which the plan does not have")


def _refuse_blocked(state: RunState, event: StepEvent) -> None:
    if state.is_blocked(event.step):
        raise IllegalTransition(f"{event.step} started before what it needs")


def _refuse_held(state: RunState, event: StepEvent) -> None:
    if state.held(event.step):
        raise IllegalTransition(f"{event.step} began although a budget was reached that pays for it")


def _spend(state: RunState, event: StepEvent, at: Instant, *, was_at_work: bool) -> None:
    """Note with every account that pays for a step what an event of it costs."""
    kind, is_at_work = type(event), event.step in state.active
    if kind is not DecisionGiven:  # which can be given while nobody is at work
        state.worked_at = at
    used = event.outcome.used if type(event) is AttemptEnded else None
    if is_at_work is was_at_work and used is None:
        return
    for owner in state.payers(event.step) if len(state.accounts) > 1 else (RUN,):
        account = state.accounts[owner]
        if is_at_work and not was_at_work:
            account.spent["attempts"] += kind is AttemptStarted
            account.begin(at)
        elif was_at_work and not is_at_work:
            account.end(at)
        if used is not None:
            account.use(used)


def _reach(state: RunState, event: BudgetReached, at: Instant) -> None:
    """Note that nothing more is paid from an account until a person has decided."""
    owner = owner_of(event.step)
    if owner is None or owner not in state.accounts or owner in state.reached:
        raise IllegalTransition(f"{event.step} is no budget that can be reached now")
    account = state.accounts[owner]
    if event.what not in account.limits:
        raise IllegalTransition(f"{event.step} has no limit of {event.what}")
    said = (event.spent, event.limit)
    seen = (sayable(event.what, account.total(event.what, at)), sayable(event.what, account.limits[event.what]))
    if said != seen:
        raise IllegalTransition(f"{event.step} says {said} of {event.what}, where {seen} were spent and allowed")
    wanted = account.total(event.what, at) + counted(event.what, event.wanted)
    if account.total(event.what, at) < account.limits[event.what] >= wanted:
        raise IllegalTransition(f"{event.step} is not reached: there is enough {event.what} left")
    state.reached[owner] = event
    account.reached_at = state.worked_at = at


def _decide_budget(state: RunState, owner: StepId, event: DecisionGiven, at: Instant) -> None:
    """Go on as a person decided about a budget, or end what it paid for."""
    reached = state.reached.get(owner)
    if reached is None:
        raise IllegalTransition(f"nobody was asked about {event.step}")
    to, aborts = (FAILED, True) if event.choice == "abort" else (PENDING, False)
    known = event.choice in ("extend", "unlimited", "abort") and event.about == "budget" and event.outcome is None
    if not known or (event.to, event.aborts) != (to, aborts):
        raise IllegalTransition(f"{event.choice} is no answer about {event.step}, or does not do that")
    account = state.accounts[owner]
    account.decisions += 1
    del state.reached[owner]
    if event.choice == "extend":
        account.extend(reached.what, at)
    elif event.choice == "unlimited":
        del account.limits[reached.what]
    else:
        _abort(state, owner or event.step)


def _begin(state: RunState, step_id: StepId, record: StepRecord, at: Instant) -> None:
    """Note that one more attempt of a step has begun."""
    if state.may_keep:
        state.run_again(step_id)
    if record.started_at is not None:
        record.tries = with_try(record.tries, record.last_try())
    record.attempts += 1
    record.outcome, record.evidence, record.broken = None, None, None
    record.seen_before, record.operand_before = None, None
    record.protected_now, record.tampered, record.fell_back = False, (), ""
    record.started_at, record.ended_at, record.how, record.decided_by = at, None, "", None


def _unfold(state: RunState, event: StepUnfolded) -> None:
    """Let a step become steps of its own."""
    step_id, count = event.step, event.count
    step = state.step(step_id)
    if len(event.labels) not in (0, count):
        raise IllegalTransition(f"{step_id} has {count} items and {len(event.labels)} names for them")
    if not state.has_room(count):
        raise IllegalTransition(f"{step_id} becomes {count} steps, and then there are more than a run can have")
    match event.kind:
        case GroupKind.ITEMS if step.for_each is not None and 0 <= count <= min(step.for_each.max, REPETITIONS_MAX):
            original = _as_written(state, step_id)
            made = item_members(step, original, count, event.labels)
            limit = step.for_each.concurrency
            names = [state.written_name(step_id)] * count
        case GroupKind.NESTED if (nested := _nested(step)) is not None and count == len(nested.steps):
            made, limit = nested_members(step, nested), nested.concurrency
            names = [one.id for one in nested.steps]
        case _:
            raise IllegalTransition(f"{step_id} does not become {event.kind.value}")
    labels = event.labels or [""] * count
    members = [Member(step_id, event.kind, name, index, labels[index]) for index, name in enumerate(names)]
    group = Group(kind=event.kind, members=tuple(one.id for one, _ in made), limit=limit, items_seal=event.items_seal)
    state.gather(step_id)
    state.unfold(step_id, group, made, members)


def _nested(step: Step) -> Plan | None:
    return nested_plan_of(step) if step.for_each is None else None


def _as_written(state: RunState, step_id: StepId) -> Step:
    """A step with everything that the plan says of it."""
    plan, name = state.plan_around(step_id), state.written_name(step_id)
    return _within(state, step_id, next(one for one in (*plan.steps, *plan.fallbacks) if one.id == name))


def _within(state: RunState, step_id: StepId, written: Step) -> Step:
    """A step of the plan that this one is of, with what is said of all steps in that plan, if it is a nested one."""
    around = state.holder(step_id)
    return written if around is None else within(written, state.plan_around(step_id), state.step(around))


def _fall_back(state: RunState, step_id: StepId, names: tuple[StepId, ...]) -> None:
    """Let the fallback steps of a step begin."""
    fallbacks = [_within(state, step_id, one) for one in state.plan_around(step_id).fallbacks]
    if not state.has_room(len(fallbacks)):
        raise IllegalTransition(f"{step_id} falls back, and then there are more steps than a run can have")
    made = fallback_members(step_id, fallbacks, names, lambda name: state.named(step_id, name))
    prefix = len(step_id) + 1
    members = [
        Member(step_id, GroupKind.FALLBACK, StepId(one.id[prefix:]), index) for index, (one, _) in enumerate(made)
    ]
    state.gather(step_id)
    group = Group(kind=GroupKind.FALLBACK, members=tuple(one.id for one, _ in made))
    state.unfold(step_id, group, made, members)


def _let_go(state: RunState, step_id: StepId) -> None:
    """End the steps of a step's own that have not come to an end and never will."""
    if state.steps[step_id].gathers:
        for name in state.groups[step_id].members:
            if state.steps[name].state is PENDING:
                state.move(name, CANCELLED)


def _abort(state: RunState, step_id: StepId) -> None:
    """A step ends the run, or the nested plan or the fallback that it is of."""
    parent = state.ended_with(step_id)
    if parent is not None:
        state.end_early(parent, step_id)
        return
    state.aborted_by = step_id
    for one in list(state.gathering):
        if one in state.gathering:
            state.end_early(one, step_id)


def _after(
    state: RunState,
    event: AttemptEnded | ContractBroken | ContractInconclusive | PreconditionBroken | FallbackEnded,
    *,
    failed: bool,
) -> None:
    """Take a step where its outcome or verdict, and the failure policy written into the event, sent it."""
    record = state.steps[event.step]
    if failed and event.to is not CANCELLED:
        record.failures += 1
    if not isinstance(event, FallbackEnded) and event.to is WAITING:
        _fall_back(state, event.step, event.fallback)
    else:
        state.move(event.step, event.to, event.not_before)
    if event.aborts:
        _abort(state, event.step)


def _refuse_move(origin: StepState, event: StepEvent) -> None:
    match event:  # the most common first
        case AttemptStarted():
            to = RUNNING
        case AttemptEnded():
            to = event.to
        case FilesProtected() | ContractSeen() | DoubtReferred():
            return  # they leave a step where it is, and are refused where they have no place
        case AttemptWaiting() | StepUnfolded():
            to = WAITING
        case ConditionFalse():
            to = SKIPPED
        case StepApprovalAsked():
            to = ESCALATED
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


def _refuse_group(state: RunState, record: StepRecord, event: StepEvent) -> None:
    """Refuse what does not fit the steps that a step waits for, or would wait for."""
    name = event.step
    if record.gathers:
        group = state.groups[name]
        if name not in state.gatherable:
            raise IllegalTransition(f"{name} waits for steps of its own")
        if type(event) is not (FallbackEnded if group.kind is GroupKind.FALLBACK else AttemptEnded):
            raise IllegalTransition(f"{type(event).__name__} is not how {name} ends to wait for its {group.kind.value}")
        went_well = type(event) is AttemptEnded and event.outcome.error is None
        if went_well and not all(state.steps[one].satisfies for one in group.members):
            raise IllegalTransition(f"{name} went well, and not all steps of its own did")
    elif type(event) is FallbackEnded:
        raise IllegalTransition(f"{name} has no fallback under way")
    elif type(event) is AttemptStarted:
        step = state.step(name)
        if step.for_each is not None or nested_plan_of(step) is not None:
            raise IllegalTransition(f"{name} becomes steps of its own and is not begun itself")


def _finish(state: RunState, event: RunFinished, at: Instant) -> None:
    under_way = state.active or state.waiting or state.gathering or state.doubtful
    if under_way or (state.escalated and state.aborted_by is None):
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
            elif record.gathers:
                record.how = "waited for its own steps when the run was cancelled"
            elif record.state is WAITING:
                record.how = f"waited for {record.waits_for} when the run was cancelled"
                record.waits_for, record.waits_until = "", None
            elif record.state is VERIFYING:
                record.how = "was done and not verified when the run was cancelled"
            state.move(step_id, CANCELLED)
            record.ended_at = at
