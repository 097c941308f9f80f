"""One run as its events leave it: `RunState`, and what is known of each step.

It has one owner, which folds events into it in place (`state`): an event costs what it changes, however large the plan.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from ordain.core.approval.approval import Principal, WorkspaceIdentity
from ordain.core.plan.action import Task
from ordain.core.plan.graph import dependents, needs_of
from ordain.core.plan.model import Plan, Step, nested_plan_of
from ordain.core.plan.role import DataKey, about, value_with
from ordain.core.plan.value import Instant, PlanId, RunId, StepId
from ordain.core.policy.agent import AgentChoice, choose, is_open
from ordain.core.policy.sealing import SealedEnvironment
from ordain.core.policy.settings import Limits
from ordain.core.run.attempt import Try, with_try
from ordain.core.run.event import BudgetReached
from ordain.core.run.group import Group, Made, Member, repeated
from ordain.core.run.spending import RUN, Account, account_of, new_account
from ordain.core.run.step_event import (
    Carried,
    Evidence,
    GroupKind,
    Outcome,
    PreconditionBroken,
    ProtectedFile,
    Settlement,
    StepApprovalAsked,
    StepState,
)
from ordain.core.task.work_item import Lease, WorkItem
from ordain.core.text.limit import STEPS_OF_RUN_MAX

PENDING, RUNNING, VERIFYING = StepState.PENDING, StepState.RUNNING, StepState.VERIFYING
WAITING = StepState.WAITING
PASSED, FAILED, SKIPPED, CANCELLED = StepState.PASSED, StepState.FAILED, StepState.SKIPPED, StepState.CANCELLED
IN_DOUBT, ESCALATED = StepState.IN_DOUBT, StepState.ESCALATED

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
    beside: frozenset[str] | None = None
    """What was there besides, before the first attempt, that would be tampering if it were new; None: nobody looked."""
    protected_now: bool = False
    """Whether what must not change was kept before this attempt's effect."""
    tampered: tuple[str, ...] = ()
    """Protected files that were found changed while this attempt was at work, in words. It cannot pass by itself."""
    agent: str = ""
    """Of a task: who performs or performed the last attempt."""
    agent_why: str = ""
    work: WorkItem | None = None
    """What was offered in this attempt."""
    lease: Lease | None = None
    """Who claimed it, and when its time is over."""
    key: str = ""
    """The step key of this attempt, which its effect got."""
    calls: int = 0
    """How many calls its agent has made in this attempt."""
    settle: Settlement | None = None
    """For a step in doubt: how to settle it."""
    checked: bool = False
    """Whether a check was asked about this attempt in doubt."""
    checking: bool = False
    """Whether a person has its contract run again: nothing follows from it by itself but that it passes."""
    how: str = ""
    """How it got where it is, in a few words, when that is not the plain way."""
    decided_by: str | None = None
    """Who decided where it is now, when a person did."""
    said: str = ""
    """What they said with it."""
    kept: bool = False
    """Whether it passed in the run before and was not run again."""
    kept_from: RunId | None = None
    """Where a successor kept it: the run in which it was carried out."""
    kept_word: str = ""
    """By whose word alone it passed there."""
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
    failed_first: Evidence | None = None
    """What its contract showed before its fallback steps were run."""
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
        return Try(
            attempt=self.attempts,
            started_at=self.started_at,
            ended_at=self.ended_at,
            outcome=self.outcome,
            evidence=self.evidence,
            how=self.how,
            decided_by=self.decided_by,
            agent=self.agent,
            said=self.said,
        )


class RunState:
    """One run, folded from its events.

    Invariants: `ready` and `delayed` hold the positions of exactly the pending steps whose needs are satisfied and that
    their group lets begin, the second those that must not begin before an instant, with it and ordered by it; `active`
    holds those running or verifying, `waiting` those that wait for something outside, `gathering` those that wait for
    steps of their own, `gatherable` those of them whose steps have come to their end. `accounts` holds what the run and
    each step with a budget has spent; `reached` the budgets that keep steps from beginning until a person has decided.
    """

    replaced_by: RunId | None = None
    """The run that goes on in its place."""

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
        self.data: dict[StepId | None, dict[str, StepId]] = {}
        """By the step that holds a plan, for each key of data stored in that plan, the step that stored it last."""
        self.size = 0
        """Events folded so far: what the next append expects."""
        self.run_id = RunId("")
        self.plan_id = PlanId("")
        self.lineage = ""
        self.workspace: WorkspaceIdentity | None = None
        self.limits: Limits | None = None
        self.epoch = 0
        self.rerun_of: RunId | None = None
        self.continues: RunId | None = None
        self.unfolds_again: Mapping[StepId, str] = {}
        self.carried: Mapping[StepId, Carried] = {}
        self.first_run = RunId("")
        """The first of the chain of reruns that this run belongs to."""
        self.may_keep: set[StepId] = set()
        """Steps that passed in the run before and may still be kept; they are looked at when their turn comes."""
        self.again: set[StepId] = set()
        """Where some steps may be kept: those that are run again, and all that comes after them."""
        self.paused_by: Principal | None = None
        self.opened_at = Instant(0)
        self.signals: Mapping[str, int] = {}
        """How often each signal that the plan waits for had been given before the run was opened."""
        self.operands: Mapping[str, str] | None = None
        self.environment: SealedEnvironment | None = None
        self.executor_at = Instant(0)
        """When the newest executor took the run."""
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
        self.beside: frozenset[str] | None = None
        """What was there besides that would be tampering if it were new; None before anybody looked."""
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
        return self._unmet[step_id] > 0

    def dependents_of(self, step_id: StepId) -> Iterable[StepId]:
        return (StepId(other) for other in self._dependents[step_id])

    def unmet_needs(self, step_id: StepId) -> tuple[StepId, ...]:
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
        """Whose accounts a step spends from; fallback steps are not paid by the step that failed."""
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
                account.carry(self.carried.get(step.id))

    # --- Steps that belong to others -----------------------------------------------------------------------------

    def plan_around(self, step_id: StepId) -> Plan:
        """The plan that a step is of: the outermost, or the nested one."""
        around = self.holder(step_id)
        nested = nested_plan_of(self.defined[around]) if around is not None else self.plan
        assert nested is not None
        return nested

    def plans_around(self, step_id: StepId) -> Iterator[Plan]:
        """The plan that a step is of, then the one around that, to the outermost."""
        yield self.plan_around(step_id)
        around = self.holder(step_id)
        if around is not None:
            yield from self.plans_around(around)

    def choice(self, step_id: StepId) -> AgentChoice | None:
        """Who performs the task of a step."""
        limits, step = self.limits_in_force, self.defined[step_id]
        found = choose(step, self.plans_around(step_id), limits.agent_for, limits.agent)
        if found is None or not limits.arbiter or not is_open(step, self.plans_around(step_id), limits.agent_for):
            return found
        return AgentChoice(agent=found.agent, why=f"{found.why}, unless the arbiter {limits.arbiter} chooses another")

    def performer(self, step_id: StepId) -> AgentChoice | None:
        """The same, or who did in the last attempt, where an arbiter was asked."""
        record = self.steps[step_id]
        asked = record.work is not None and record.work.arbiter
        return AgentChoice(agent=record.agent, why=record.agent_why) if asked else self.choice(step_id)

    def is_persons(self, step_id: StepId) -> bool:
        """Whether only a person can do what a step does: it asks one, or its task was given to one."""
        action = self.defined[step_id].action
        if isinstance(action, Task):
            agent = self.limits.agents.get(self.steps[step_id].agent) if self.limits is not None else None
            return agent is not None and agent.human
        return about(action).waits == "person"

    def holder(self, step_id: StepId) -> StepId | None:
        """The step that holds the plan which a step is of; None where that is the outermost."""
        member = self.members.get(step_id)
        while member is not None and member.kind is not GroupKind.NESTED:
            member = self.members.get(member.parent)
        return member.parent if member is not None else None

    def stored(self, step_id: StepId) -> Mapping[str, StepId]:
        """The data that a step can read, which is that of its own plan: for each key, the step that stored it last."""
        return self.data.get(self.holder(step_id), {}) if self.data else {}

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
            key = value_with(self.defined[step_id].action, DataKey) if to is PASSED else None
            if key is not None:
                self.data.setdefault(self.holder(step_id), {})[key] = step_id
            for other in self._dependents[step_id]:
                self._meet(StepId(other))

    def gather(self, step_id: StepId) -> None:
        self.move(step_id, WAITING, gathers=True)

    def _meet(self, step_id: StepId) -> None:
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
    """The record of a member that begins anew: its attempts and questions are still counted and told."""
    tries = with_try(record.tries, record.last_try()) if record.started_at is not None else record.tries
    return StepRecord(
        state=state,
        attempts=record.attempts,
        decisions=record.decisions,
        unanswered=record.unanswered,
        tries=tries,
    )
