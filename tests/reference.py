"""The heart's questions answered the slow way, for comparison: from the whole plan and the whole history, each time.

Nothing here looks at what a RunState keeps (`ready`, `active`, `groups` …), nor uses the rules it is compared with.
`standing` is what the events say of every step, `check_effects` asks whether what is to be done next is right, and
`check_history` whether what must be true of every history is true of this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.words import (
    Abort,
    AcquireLock,
    Ask,
    AttemptEnded,
    AttemptStarted,
    AttemptWaiting,
    ConditionFalse,
    Continue,
    ContractBroken,
    ContractHeld,
    ContractInconclusive,
    ContractSeen,
    DecisionGiven,
    DoubtChecked,
    DoubtFound,
    DoubtReferred,
    DoubtSettled,
    Effect,
    EffectClass,
    End,
    FailurePolicy,
    Fallback,
    FallbackEnded,
    FilesProtected,
    Gather,
    GiveUp,
    Instant,
    Limits,
    NestedPlan,
    Plan,
    PreconditionBroken,
    ProtectedChanged,
    Recheck,
    ReleaseLock,
    Retry,
    RunCancelled,
    RunEvent,
    RunFinished,
    RunOpened,
    SettleByContract,
    Settlement,
    Skip,
    Start,
    Step,
    StepApprovalAsked,
    StepId,
    StepKept,
    StepNotKept,
    StepUnfolded,
    Stop,
    Task,
    ToolDefinition,
    Verdict,
    Verify,
    WaitOn,
    Wake,
    WorkClaimed,
    WorkOffered,
    check_of,
    contract_of,
    definition_of,
    needs_of,
)

DAY_MS = 86_400_000
OPEN = frozenset({"pending", "running", "waiting", "verifying", "in_doubt", "escalated"})
UNDER_WAY = frozenset({"running", "verifying"})
SATISFYING = frozenset({"passed", "skipped"})


@dataclass
class Stand:
    """One step as the events leave it."""

    state: str = "pending"
    attempts: int = 0
    failures: int = 0
    not_before: Instant | None = None
    until: Instant | None = None
    """For a step that waits: for how long."""
    settle: Settlement | None = None
    kept: bool = False
    """Whether protected files were kept in this attempt."""
    seen: Verdict | None = None
    """What the contract showed before the effect of this attempt."""
    proved: bool = False
    """Whether the contract was ever seen broken before an effect."""
    tampered: bool = False
    denied: bool = False
    """Whether a person said that it must not be done."""
    asked: bool = False
    """Whether a person is asked for a yes."""
    fell_back: bool = False
    checking: bool = False
    """Whether a person has its contract run again, and nothing else."""
    """Whether its fallback steps were run in this attempt."""
    gathers: bool = False
    """Whether it waits for steps of its own."""
    agent: str = ""
    """Of a task: whose it is in this attempt."""
    offered: bool = False
    claimed: bool = False
    """Whether an agent has taken it."""

    @property
    def satisfies(self) -> bool:
        return self.state in SATISFYING and not self.denied


@dataclass
class Came:
    """How a step came to be."""

    parent: StepId
    kind: str
    """`items`, `nested` or `fallback`."""
    step: Step
    """What the plan says of it."""
    needs: tuple[StepId, ...] = ()


@dataclass
class Family:
    """The steps that a step waits for."""

    kind: str
    members: list[StepId]
    limit: int | None = None
    let_in: list[StepId] = field(default_factory=list)
    """Where there is a limit: those that may begin, or have begun and not settled."""
    held: list[StepId] = field(default_factory=list)
    """Those that could begin, were there room."""
    ended: bool = False
    """Whether one of them ended all of it."""


@dataclass
class Standing:
    """A run as the events leave it."""

    plan: Plan
    limits: Limits | None = None
    status: str | None = None
    aborting: bool = False
    steps: dict[StepId, Stand] = field(default_factory=dict)
    came: dict[StepId, Came] = field(default_factory=dict)
    families: dict[StepId, Family] = field(default_factory=dict)
    may_keep: set[StepId] = field(default_factory=set)
    """Steps that passed in the run before and that are looked at before they are run again."""
    unfolds_again: dict[StepId, str] = field(default_factory=dict)
    """Those that some of these are part of, with the seal of their items then."""

    def __post_init__(self) -> None:
        self.steps = {step.id: Stand() for step in self.plan.steps}
        self._needs = needs_of(self.plan)
        self._written = {step.id: step for step in self.plan.steps}

    def having(self, *states: str) -> list[StepId]:
        """The steps in one of these states, in the order in which they came to be."""
        return [name for name, one in self.steps.items() if one.state in states]

    def step(self, name: StepId) -> Step:
        """What the plan says of a step; what is about each item is not about the step that is repeated."""
        return self.came[name].step if name in self.came else self._written[name]

    def becomes_steps(self, name: StepId) -> bool:
        return self.step(name).for_each is not None or isinstance(self.step(name).action, NestedPlan)

    def check(self, name: StepId) -> bool:
        """Whether a step passes by a contract or an expression, and not by its own result."""
        return check_of(self.step(name)) is not None and self.step(name).for_each is None

    def persons(self, name: StepId) -> bool:
        """Whether only a person can do it."""
        if not isinstance(self.step(name).action, Task):
            return isinstance(self.step(name).action, Ask)
        assert self.limits is not None
        return self.limits.agents[self.steps[name].agent].human

    def protects(self, name: StepId) -> bool:
        """Whether files must not change while a step is at work: by what it says, or any plan or step around it."""
        around: StepId | None = name
        while around is not None:
            inner = self.step(around).action
            if self.step(around).protect or (around != name and isinstance(inner, NestedPlan) and inner.plan.protect):
                return True
            came = self.came.get(around)
            while came is not None and came.kind != "nested":
                came = self.came.get(came.parent)
            around = came.parent if came is not None else None
        return bool(self.plan.protect)

    def plan_of(self, name: StepId) -> Plan:
        """The plan that a step is of."""
        came = self.came.get(name)
        while came is not None:
            around = self.step(came.parent).action
            if came.kind == "nested" and isinstance(around, NestedPlan):
                return around.plan
            came = self.came.get(came.parent)
        return self.plan

    def needs(self, name: StepId) -> tuple[StepId, ...]:
        return self.came[name].needs if name in self.came else self._needs[name]

    def unmet(self, name: StepId) -> list[StepId]:
        return [need for need in self.needs(name) if not self.steps[need].satisfies]

    def free(self, name: StepId) -> bool:
        """Whether a step could begin, as far as its needs go."""
        return self.steps[name].state == "pending" and not self.unmet(name)

    def let_in(self, name: StepId) -> bool:
        family = self.families[self.came[name].parent] if name in self.came else None
        return family is None or family.limit is None or name in family.let_in

    @property
    def ready(self) -> list[int]:
        """The places of all steps that could begin, now or later."""
        return [place for place, name in enumerate(self.steps) if self.free(name) and self.let_in(name)]

    @property
    def settling(self) -> list[StepId]:
        """The steps in doubt whose contract is to tell."""
        return [name for name, one in self.steps.items() if one.settle is Settlement.CONTRACT]

    @property
    def gathering(self) -> list[StepId]:
        return [name for name, one in self.steps.items() if one.gathers]

    @property
    def waiting(self) -> list[StepId]:
        """The steps that wait for something outside."""
        return [name for name in self.having("waiting") if not self.steps[name].gathers]

    def live(self, parent: StepId) -> int:
        """How many of a step's own steps may still come to something."""
        work = [n for n in self.families[parent].members if self.steps[n].state in OPEN - {"pending"} or self.free(n)]
        return len(work)

    @property
    def gatherable(self) -> list[StepId]:
        return [name for name in self.gathering if not self.live(name)]

    def scope(self, name: StepId) -> StepId | None:
        """The step whose nested plan or fallback a step can end; None where that is the run."""
        came = self.came.get(name)
        while came is not None and came.kind == "items":
            came = self.came.get(came.parent)
        return came.parent if came is not None else None

    def is_ended(self, name: StepId) -> bool:
        """Whether the run ends, or what a step is part of, however far above."""
        scope = self.scope(name)
        while scope is not None:
            if self.families[scope].ended:
                return True
            scope = self.scope(scope)
        return self.aborting

    @property
    def concurrency(self) -> int:
        assert self.limits is not None
        return self.plan.concurrency or self.limits.concurrency

    # --- What events do to it ---------------------------------------------------------------------------------------

    def unfold(self, parent: StepId, kind: str, made: list[tuple[StepId, Step, tuple[StepId, ...]]]) -> None:
        """Steps come to be, or begin anew; of a nested plan those that have not passed."""
        step, limit = self.step(parent), None
        if kind == "items" and step.for_each is not None:
            limit = step.for_each.concurrency
        elif kind == "nested" and isinstance(step.action, NestedPlan):
            limit = step.action.plan.concurrency
        self.families[parent] = Family(kind, [name for name, _, _ in made], limit)
        for name, what, needs in made:
            before = self.steps.get(name)
            self.came[name] = Came(parent, kind, what, needs)
            if before is None:
                self.steps[name] = Stand()
            elif kind != "nested" or not before.satisfies:
                self.steps[name] = Stand(attempts=before.attempts)
                if kind != "nested":
                    for other in self._below(name):
                        self.steps[other] = Stand("cancelled", attempts=self.steps[other].attempts)
        self.steps[parent].state, self.steps[parent].gathers = "waiting", True

    def _below(self, name: StepId) -> Iterator[StepId]:
        for other, came in self.came.items():
            if came.parent == name:
                yield other
                yield from self._below(other)

    def items(self, parent: StepId, count: int) -> None:
        from msgspec.structs import replace

        one = replace(self.step(parent), for_each=None)
        self.unfold(parent, "items", [(StepId(f"{parent}[{index}]"), one, ()) for index in range(count)])

    def nested(self, parent: StepId) -> None:
        action = self.step(parent).action
        assert isinstance(action, NestedPlan)
        needs = needs_of(action.plan)
        made = [
            (StepId(f"{parent}/{step.id}"), step, tuple(StepId(f"{parent}/{need}") for need in needs[step.id]))
            for step in action.plan.steps
        ]
        self.unfold(parent, "nested", made)

    def fall_back(self, parent: StepId, names: Sequence[StepId]) -> None:
        """Those that are named, one after the other, each after those that it needs itself."""
        known = {step.id: step for step in self.plan_of(parent).fallbacks}
        order: dict[StepId, tuple[StepId, ...]] = {}

        def add(name: StepId, before: tuple[StepId, ...]) -> None:
            if name not in order:
                for need in known[name].needs:
                    if need in known:
                        add(need, before)
                own = [StepId(f"{parent}+{need}") if need in known else need for need in known[name].needs]
                order[name] = tuple(dict.fromkeys((*before, *own)))

        before: tuple[StepId, ...] = ()
        for name in names:
            add(name, before)
            before = (StepId(f"{parent}+{name}"),)
        self.unfold(parent, "fallback", [(StepId(f"{parent}+{n}"), known[n], needs) for n, needs in order.items()])

    def leave(self, name: StepId, to: str) -> None:
        """A step goes elsewhere; what it waited for and never began is given up."""
        one = self.steps[name]
        if one.gathers:
            for other in self.families[name].members:
                if self.steps[other].state == "pending":
                    self.steps[other].state = "cancelled"
        one.state, one.gathers, one.until = to, False, None
        if to in ("pending", "escalated") and name in self.came and self.is_ended(name):
            one.state = "cancelled"

    def abort(self, name: StepId, *, by_person: bool = False) -> None:
        scope = self.scope(name) if not by_person else None
        if scope is None:
            self.aborting = True
        for parent in [scope] if scope is not None else self.gathering:
            self._end(parent)

    def _end(self, parent: StepId) -> None:
        self.families[parent].ended = True
        for name in self.families[parent].members:
            one = self.steps[name]
            if one.state in ("pending", "escalated"):
                one.state = "cancelled"
            elif one.gathers:
                self._end(name)

    def settle_places(self) -> None:
        """Let as many of each family begin as may: who could begin first goes first."""
        for family in self.families.values():
            family.let_in = [name for name in family.let_in if self.steps[name].state in OPEN]
            family.held = [name for name in family.held if self.free(name)]
            if family.limit is not None:
                known = {*family.let_in, *family.held}
                family.held += [name for name in family.members if name not in known and self.free(name)]
                room = max(family.limit - len(family.let_in), 0)
                family.let_in += family.held[:room]
                family.held = family.held[room:]

    def run_again(self, name: StepId) -> None:
        """What comes after a step that is run again is not kept, nor what is inside of that; but a lock is the same
        lock again. What a step is part of is run again with it, and the rest of that may be kept."""
        todo, seen, after = [name], set[StepId](), set[StepId]()
        while todo:
            one = todo.pop()
            if one not in seen and not isinstance(self.step(one).action, AcquireLock | ReleaseLock):
                seen.add(one)
                following = [other for other in self.steps if one in self.needs(other)]
                todo += following
                after.update(following)
                if self.unfolds_again and one in self.came:
                    todo.append(self.came[one].parent)
        self.may_keep -= seen
        for one in after:
            self.keep_nothing_in(one)

    def keep_nothing_in(self, name: StepId) -> None:
        self.may_keep = {one for one in self.may_keep if one[: len(name) + 1] not in (f"{name}/", f"{name}[")}


def standing(plan: Plan, history: Iterable[tuple[Instant, RunEvent]]) -> Standing:
    """What the events say of every step."""
    found = Standing(plan)
    for _, event in history:
        _note(found, event)
    return found


def _note(run: Standing, event: RunEvent) -> None:
    one = run.steps[event.step] if hasattr(event, "step") else Stand()
    match event:
        case RunOpened(limits=limits, may_keep=may_keep, unfolds_again=unfolds_again):
            run.limits, run.may_keep, run.unfolds_again = limits, set(may_keep), dict(unfolds_again)
        case StepKept(step=name):
            one.state = "passed"
            run.may_keep.discard(name)
        case StepNotKept(step=name):
            run.may_keep.discard(name)
        case ConditionFalse():
            one.state = "skipped"
        case StepApprovalAsked():
            one.state, one.asked = "escalated", True
        case StepUnfolded(step=name, kind=kind, count=count):
            one.attempts, one.not_before, one.fell_back = one.attempts + 1, None, False
            one.kept, one.seen, one.tampered = False, None, False
            if kind == "items":
                run.items(name, count)
            else:
                run.nested(name)
            if run.unfolds_again.get(name) != event.items_seal:
                run.keep_nothing_in(name)
                run.run_again(name)
        case AttemptStarted(step=name):
            one.state, one.attempts, one.not_before = "running", one.attempts + 1, None
            one.kept, one.seen, one.tampered, one.fell_back = False, None, False, False
            one.agent, one.offered, one.claimed = event.agent, False, False
            run.run_again(name)
        case WorkOffered():
            one.offered = True
        case WorkClaimed():
            one.claimed = True
        case AttemptWaiting(until=until):
            one.state, one.until = "waiting", until
        case FilesProtected():
            one.kept = True
        case ContractSeen(evidence=evidence):
            one.seen = evidence.verdict
            one.proved = one.proved or evidence.verdict == "broken"
        case ProtectedChanged(steps=steps):
            for name in steps:
                run.steps[name].tampered = True
        case AttemptEnded() | ContractBroken() | ContractInconclusive() | PreconditionBroken():
            went_badly = not isinstance(event, AttemptEnded) or event.outcome.error is not None
            one.failures += went_badly and event.to != "cancelled"
            run.leave(event.step, event.to.value)
            one.not_before = event.not_before
            if event.fallback:
                run.fall_back(event.step, event.fallback)
            if event.aborts:
                run.abort(event.step)
        case FallbackEnded(step=name, to=to):
            one.fell_back = True
            run.leave(name, to.value)
            one.not_before = event.not_before
            if event.aborts:
                run.abort(name)
        case ContractHeld():
            one.state = "passed"
        case DoubtFound(settle=settle):
            one.state, one.settle = "in_doubt", settle
        case DoubtReferred(settle=settle):
            one.settle, one.checking = settle, False
        case DoubtChecked(step=name, to=to) if to == "in_doubt":
            one.settle = Settlement.PERSON
        case DoubtChecked(step=name, to=to):
            one.settle = None
            run.leave(name, to.value)
        case DoubtSettled(step=name, to=to):
            one.settle = None
            run.leave(name, to.value)
        case DecisionGiven(step=name, to=to):
            one.checking = event.choice == "check"
            one.settle, one.not_before = Settlement.CONTRACT if to == "in_doubt" else None, None
            if not one.checking:
                one.failures = 0 if event.outcome is None else one.failures
                one.fell_back = False
            one.denied = one.asked and event.choice == "deny"
            one.asked = False
            run.leave(name, to.value)
            if event.aborts:
                run.abort(name, by_person=True)
        case RunFinished(status=status):
            run.status = status
        case RunCancelled(status=status):
            run.status = status
        case _:
            pass
    if run.status is not None:
        for other in run.steps.values():
            other.state = "cancelled" if other.state in OPEN else other.state
            other.gathers = False
    run.settle_places()


# --- What should be done next ----------------------------------------------------------------------------------------


def check_effects(run: Standing, now: Instant, effects: Sequence[Effect]) -> None:
    """That these are the effects this standing calls for at this time, by a look at all steps."""
    starts = [effect.step for effect in effects if isinstance(effect, Start | Recheck)]
    wakes = [effect.at for effect in effects if isinstance(effect, Wake)]
    others = {effect for effect in effects if not isinstance(effect, Start | Recheck | Wake)}
    assert {effect.step for effect in effects if isinstance(effect, Recheck)} == run.may_keep & set(starts)
    assert len(effects) == len(starts) + len(wakes) + len(others), "an effect is named twice"
    if run.status is not None:
        assert not effects
        return
    wanted: set[Effect] = {SettleByContract(name) for name in run.settling}
    verifying = {effect for effect in others if isinstance(effect, Verify)}
    places = max(run.concurrency - len(wanted) - len(run.having("running")), 0)
    assert {effect.step for effect in verifying} <= set(run.having("verifying"))
    assert len(verifying) == min(len(run.having("verifying")), places), "as many are verified as there are places"
    wanted |= verifying | {Gather(name) for name in run.gatherable}
    stopped = {name for name in (*run.having("running"), *run.waiting) if run.is_ended(name)}
    wanted |= {Stop(name) for name in stopped}
    if run.aborting:
        if run.having("running", "waiting", "verifying", "in_doubt"):
            assert (others, starts, wakes) == (wanted, [], [])
        else:
            (end,) = effects
            assert isinstance(end, End) and end.status == "failed"
        return
    asking = {name: run.steps[name].until for name in run.waiting if run.persons(name)}
    wanted |= {WaitOn(name) for name in run.waiting if name not in asking and name not in stopped}
    wanted |= {GiveUp(name) for name, until in asking.items() if until is not None and until <= now}
    times = [until for until in asking.values() if until is not None and until > now]
    order = list(run.steps)
    ready = [order[place] for place in run.ready]
    again = {name: until for name in ready if (until := run.steps[name].not_before) is not None}
    due = sorted((name for name in again if again[name] <= now), key=lambda name: again[name])  # the order stays
    due += [name for name in ready if name not in again]
    delayed = [until for name in ready if (until := run.steps[name].not_before) is not None and until > now]
    free = max(places - len(run.having("verifying")), 0)
    assert starts == due[:free], "what is due again, then the first in the plan's order, as many as there are places"
    if free > len(starts) and delayed:
        assert wakes == [min([*delayed, *times])]
    else:
        busy = starts or wanted or run.having("running", "verifying")
        assert wakes == ([min(times)] if times and busy else []), "nobody stays for a person alone"
    if starts or wakes or wanted or run.having("running", "waiting", "verifying", "in_doubt", "escalated"):
        assert others == wanted, others ^ wanted
    else:
        complete = all(run.steps[step.id].satisfies for step in run.plan.steps)
        assert others == {End("completed" if complete else "failed")}, "none ready is never complete"


# --- What must be true of every history ------------------------------------------------------------------------------


def check_history(plan: Plan, history: Sequence[tuple[Instant, RunEvent]], tools: Mapping[str, ToolDefinition]) -> None:
    """That every event had the right to follow those before it: by the table of doubt, the failure policies, the needs,
    the number of places, and with evidence for every pass."""
    run = Standing(plan)
    for at, event in history:
        assert run.status is None, f"{event} after the end"
        if hasattr(event, "step"):
            _check_step_event(run, run.step(event.step), run.steps[event.step], event, at, tools)
        if isinstance(event, RunFinished):
            complete = all(run.steps[step.id].satisfies for step in plan.steps)
            assert (event.status == "completed") == complete, "completed is when every step passed or was skipped"
            assert not run.having("running", "waiting", "verifying", "in_doubt")
            assert run.aborting or not run.having("escalated")
            assert run.aborting or not run.ready, "it ended with a step that could have begun"
        _note(run, event)
        if isinstance(event, AttemptStarted):
            # What is to be verified waits for a place, and can come to that in the turn in which others begin.
            assert len(run.having("running")) + len(run.settling) <= run.concurrency, "too many at once"
        for family in run.families.values():
            begun = [name for name in family.members if run.steps[name].state in OPEN - {"pending"}]
            assert family.limit is None or len(begun) <= family.limit, "too many of a family at once"


def _check_step_event(
    run: Standing, step: Step, one: Stand, event: RunEvent, at: Instant, tools: Mapping[str, ToolDefinition]
) -> None:
    if not isinstance(event, DecisionGiven | AttemptStarted | StepUnfolded):
        assert event.attempt == one.attempts, f"{event} is about another attempt than the last"  # type: ignore[union-attr]
    match event:
        case AttemptStarted(attempt=attempt) | StepUnfolded(attempt=attempt):
            assert (one.state, attempt) == ("pending", one.attempts + 1)
            assert isinstance(event, StepUnfolded) == run.becomes_steps(event.step)
            _check_turn(run, event.step, at)
        case ConditionFalse() | StepApprovalAsked():
            assert one.state == "pending"
            assert step.when is not None if isinstance(event, ConditionFalse) else True
            _check_turn(run, event.step, at)
        case PreconditionBroken():
            assert one.state == "pending"
            _check_turn(run, event.step, at)
            _check_failure(run, event.step, one, event, at)
        case FallbackEnded(to=to):
            assert event.step in run.gatherable and run.families[event.step].kind == "fallback"
            helped = all(run.steps[name].satisfies for name in run.families[event.step].members)
            found = (to.value, event.aborts)
            if run.is_ended(event.step):
                assert found == ("cancelled", False)
            elif helped and run.check(event.step) and (step.proof is None or one.proved):
                assert found == ("verifying", False)
            else:
                assert found == _last_resort(run, event.step)[0::2]
        case AttemptWaiting():
            assert one.state in ("running", "waiting") and not one.tampered
            assert not isinstance(step.action, Task) or (one.offered and run.persons(event.step))
        case WorkOffered():
            assert one.state == "running" and isinstance(step.action, Task) and not one.offered
        case WorkClaimed():
            assert one.state == "running" and one.offered and not one.claimed and not run.persons(event.step)
        case StepKept(evidence=evidence) | StepNotKept(evidence=evidence):
            assert one.state == "pending" and event.step in run.may_keep and not run.unmet(event.step)
            held = evidence is not None and evidence.verdict == "held"
            assert held == (isinstance(event, StepKept) and check_of(step) is not None)
        case AttemptEnded(outcome=outcome, to=to):
            assert one.state in ("running", "waiting")
            if one.gathers:
                family = run.families[event.step]
                assert event.step in run.gatherable and family.kind != "fallback"
                assert (outcome.error is None) == all(run.steps[name].satisfies for name in family.members)
            elif one.state == "waiting" and run.persons(event.step) and to != "cancelled":
                assert one.until is not None and at >= one.until, f"{step.id} was given up before its time"
            if outcome.error is None:
                assert not one.tampered
                assert one.gathers or step.proof is None or one.proved
                assert one.gathers or one.kept or not run.protects(event.step)
                assert to == ("verifying" if run.check(event.step) else "passed")
                assert one.gathers or one.claimed or not isinstance(step.action, Task), "nobody did it"
            elif outcome.error == "F_AGENT_CANNOT":
                after = "failed" if run.is_ended(event.step) else "escalated"
                assert (to, event.not_before, event.aborts, event.fallback) == (after, None, False, ())
            elif to == "cancelled":
                assert run.is_ended(event.step) and outcome.error == "F_STEP_STOPPED"
            elif one.gathers and run.families[event.step].kind == "items":
                assert (to, event.not_before, event.aborts, event.fallback) == ("failed", None, False, ())
            else:
                _check_failure(run, event.step, one, event, at)
        case ContractHeld(evidence=evidence):
            assert one.state == "verifying" and evidence.verdict == "held" and not one.tampered
        case ContractBroken() | ContractInconclusive():
            assert one.state == "verifying" and event.evidence.verdict != "held"
            if one.checking and not run.is_ended(event.step):
                assert (event.to, event.not_before, event.aborts, event.fallback) == ("escalated", None, False, ())
            else:
                _check_failure(run, event.step, one, event, at)
        case DoubtFound(settle=settle):
            assert one.state == "running"
            wanted = doubt_table(step, one, tools, protects=run.protects(event.step))
            assert settle is wanted, f"{step.id} is settled by {settle}"
        case DoubtReferred(evidence=evidence):
            assert one.settle is Settlement.CONTRACT and evidence is not None
        case DoubtChecked(to=to, evidence=evidence):
            assert (one.state, one.settle) == ("in_doubt", Settlement.CHECK)
            assert to == "in_doubt" or (event.read_only and not one.tampered)
            if to == "pending":
                tool = definition_of(step.action, tools)
                assert tool is not None and tool.happened_final and event.final and evidence.verdict == "broken"
            elif to != "in_doubt":
                assert evidence.verdict == "held"
                assert to == ("verifying" if contract_of(step) is not None else "passed")
        case DoubtSettled(to=to, evidence=evidence):
            assert one.state == "in_doubt"
            if to == "passed":
                assert one.settle is Settlement.CONTRACT and not one.tampered
                assert evidence is not None and evidence.verdict == "held"
            else:
                assert one.settle is Settlement.AGAIN or (one.settle is Settlement.CONTRACT and evidence is not None)
                assert not one.checking, "to look once more runs nothing again"
        case DecisionGiven(choice=choice, to=to):
            words = {
                "in_doubt": {
                    "happened": "verifying" if contract_of(step) is not None else "passed",
                    "did-not": "pending",
                    "abort": "failed",
                },
                "escalated": {"retry": "pending", "skip": "skipped", "pass": "passed", "abort": "failed"},
                "asked": {"allow": "pending", "deny": "skipped", "abort": "failed"},
                "waiting": dict.fromkeys(("answer", "yes", "no"), "verifying" if run.check(event.step) else "passed"),
            }
            if isinstance(step.action, Task):
                words["waiting"] = {"done": words["waiting"]["answer"], "cannot": "escalated"}
                if one.state == "waiting" and choice != "abort":
                    badly = event.outcome is not None and event.outcome.error == "F_AGENT_CANNOT"
                    assert badly == (choice == "cannot")
            words["waiting"]["abort"] = "failed"
            assert one.state in ("escalated", "waiting") or one.settle is Settlement.PERSON
            assert one.state != "waiting" or (run.persons(event.step) and not one.gathers)
            assert one.state != "waiting" or choice in ("abort", "cannot") or not one.tampered
            if choice == "check":
                assert contract_of(step) is not None and not one.asked and not one.tampered
                assert to == {"in_doubt": "in_doubt", "escalated": "verifying"}[one.state]
            else:
                assert to == words["asked" if one.asked else one.state][choice]
        case _:
            pass


def doubt_table(step: Step, one: Stand, tools: Mapping[str, ToolDefinition], *, protects: bool) -> Settlement:
    """The table of doubt in docs/architecture.md, row by row."""
    tool = definition_of(step.action, tools)
    effect = tool.effect if tool is not None else EffectClass.OPAQUE
    if step.idempotent is not None and effect is not EffectClass.READS:
        effect = EffectClass.REPEATABLE if step.idempotent else EffectClass.OPAQUE
    checkable = effect is EffectClass.CHECKABLE and contract_of(step) is not None
    rows = [
        (protects and not one.kept, Settlement.AGAIN),
        (step.proof is not None and not one.proved, Settlement.AGAIN),
        (isinstance(step.action, Task) and not one.claimed, Settlement.AGAIN),
        (effect in (EffectClass.READS, EffectClass.REPEATABLE), Settlement.AGAIN),
        (isinstance(step.action, AcquireLock | ReleaseLock | Ask), Settlement.AGAIN),
        (checkable and one.seen is None, Settlement.AGAIN),
        (checkable and one.seen == "broken" and tool is not None and tool.atomic, Settlement.CONTRACT),
        ((tool is not None and bool(tool.happened)) or step.happened is not None, Settlement.CHECK),
        (True, Settlement.PERSON),
    ]
    return next(settlement for applies, settlement in rows if applies)


def _check_turn(run: Standing, name: StepId, at: Instant) -> None:
    """That a step may be begun, or looked at, now."""
    assert not run.unmet(name), f"{name} began before what it needs"
    assert not run.is_ended(name), f"{name} began while the run aborts, or what it is part of"
    assert (run.steps[name].not_before or 0) <= at, f"{name} began too early"
    assert run.let_in(name), f"{name} began while so many of its family had"


def _general(run: Standing, name: StepId) -> FailurePolicy:
    """The policy of a step's plan, or that of the settings; of fallback steps that they end."""
    assert run.limits is not None
    came = run.came.get(name)
    while came is not None and came.kind == "items":
        came = run.came.get(came.parent)
    if came is not None and came.kind == "fallback":
        return Abort()
    return run.plan_of(name).on_failure or run.limits.on_failure


def _last_resort(run: Standing, name: StepId) -> tuple[str, None, bool]:
    """What follows where neither tries nor a fallback are left."""
    policy = _general(run, name)
    last = (policy.then or Abort()) if isinstance(policy, Retry) else policy
    if isinstance(last, Fallback | Abort):
        return "failed", None, True
    return {Continue: "failed", Skip: "skipped"}.get(type(last), "escalated"), None, False


def _check_failure(
    run: Standing,
    name: StepId,
    one: Stand,
    event: AttemptEnded | ContractBroken | ContractInconclusive | PreconditionBroken,
    at: Instant,
) -> None:
    """That the failure policy sends the step where the event says."""
    found = (event.to.value, event.not_before, event.aborts)
    if run.is_ended(name):
        assert found == ("failed", None, False)
        return
    general = _general(run, name)
    policy: FailurePolicy = run.step(name).on_failure or general
    if isinstance(policy, Retry):
        tries = one.failures + 1
        if tries < policy.max_attempts:
            grown = policy.initial_delay_ms * policy.backoff_multiplier ** (tries - 1)
            delay = min(grown + policy.increment_ms * (tries - 1), policy.max_delay_ms or DAY_MS, DAY_MS)
            assert found == ("pending", at + int(delay), False), "tries are left"
            return
        rest = (general.then or Abort()) if isinstance(general, Retry) else general
        policy = policy.then or rest
    if isinstance(policy, Fallback):
        if one.fell_back:
            assert (found, event.fallback) == (_last_resort(run, name), ())
        else:
            assert (found, event.fallback) == (("waiting", None, False), policy.steps)
        return
    to = {Abort: "failed", Continue: "failed", Skip: "skipped"}.get(type(policy), "escalated")
    assert (found, event.fallback) == ((to, None, isinstance(policy, Abort)), ()), f"the policy is {policy}"
