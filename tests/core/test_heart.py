"""The heart as a state machine: any plan, any outcome, any answer, a crash at any moment, a clock that jumps.

The machine does what the engine does (fold intents, make them durable, begin, fold what was seen) without a world: what
is seen is drawn. What was folded and is not durable is lost in a crash. After every rule everything that the state
keeps ready is compared with what `tests.reference` finds by going through the whole history. A new event gets a rule
here and a row in `EVENTS`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from ordain.core.approval.approval import Channel, Principal, WorkspaceIdentity
from ordain.core.lineage.ask import given_up, waiting_for
from ordain.core.lineage.decision import Question, decided, questions, still_asked
from ordain.core.plan.action import AcquireLock, Ask, ReleaseLock, Task
from ordain.core.plan.condition import LockHeld
from ordain.core.plan.failure import (
    Abort,
    AskApproval,
    Continue,
    Escalate,
    FailurePolicy,
    Fallback,
    Replan,
    Retry,
    Skip,
)
from ordain.core.plan.model import ForEach, NestedPlan, Plan, Step
from ordain.core.plan.tool import BUILT_IN
from ordain.core.plan.value import Instant, PlanId, RunId, StepId
from ordain.core.policy.agent import Agent
from ordain.core.policy.settings import Limits
from ordain.core.run.event import (
    ExecutorStarted,
    ProtectedChanged,
    RunCancelled,
    RunEvent,
    RunFinished,
    RunOpened,
    RunPaused,
)
from ordain.core.run.prompt import AGENT_CANNOT
from ordain.core.run.run_state import SETTLED, IllegalTransition, RunState
from ordain.core.run.schedule import (
    Effect,
    End,
    Gather,
    GiveUp,
    Recheck,
    SettleByContract,
    Start,
    Stop,
    Verify,
    WaitOn,
    Wake,
    decide,
    doubt,
    ended,
    fallback_ended,
    judged,
    looks_first,
    not_begun,
    not_held,
    rechecked,
    settled,
    wants_proof,
    why_waiting,
)
from ordain.core.run.state import apply
from ordain.core.run.step_event import (
    AgentCalled,
    AgentCallFailed,
    AttemptEnded,
    AttemptStarted,
    AttemptWaiting,
    ConditionFalse,
    ContractBroken,
    ContractHeld,
    ContractInconclusive,
    ContractSeen,
    DecisionGiven,
    DoubtChecked,
    DoubtFound,
    DoubtReferred,
    DoubtSettled,
    Evidence,
    FallbackEnded,
    FilesProtected,
    GroupKind,
    Outcome,
    PreconditionBroken,
    ProtectedFile,
    Settlement,
    StepApprovalAsked,
    StepKept,
    StepNotKept,
    StepState,
    StepUnfolded,
    Verdict,
    WorkClaimed,
    WorkOffered,
)
from ordain.core.run.transition import TRANSITIONS
from ordain.core.task.work_item import Lease, WorkItem
from tests.build import plan, step
from tests.history import replay
from tests.reference import OPEN, UNDER_WAY, check_effects, check_history, standing

KIM = Principal(name="kim", channel=Channel.TERMINAL)
WORKSPACE = WorkspaceIdentity(id="WS-1", path="/w", device=1, inode=1)
AGENTS = {"coder": Agent(command=("coder",)), "reviewer": Agent(human=True)}
LIMITS = Limits(
    concurrency=2, step_timeout_ms=1000, contract_timeout_ms=1000, on_failure=Abort(), env=(), agents=AGENTS
)
OPENED = RunOpened(run_id=RunId("RUN-1"), plan_id=PlanId("plan:0"), lineage="l", workspace=WORKSPACE, limits=LIMITS)

POLICIES: list[FailurePolicy | None] = [
    None,
    None,
    Abort(),
    Skip(),
    Continue(),
    Escalate(),
    Replan(),
    AskApproval(summary="What now?"),
    Retry(max_attempts=2),
    Retry(max_attempts=3, initial_delay_ms=10, backoff_multiplier=2),
    Retry(max_attempts=2, initial_delay_ms=5, then=Escalate()),
    Retry(max_attempts=4, initial_delay_ms=5, increment_ms=5, max_delay_ms=12, then=Skip()),
    Retry(max_attempts=2, initial_delay_ms=40, then=Continue()),
]


def policies(fallbacks: list[str]) -> st.SearchStrategy[FailurePolicy | None]:
    """Any policy; where there are fallback steps, those that fall back on them too."""
    found = list(POLICIES)
    if fallbacks:
        back = [Fallback(steps=(StepId(name),)) for name in fallbacks] + [Fallback(steps=tuple(map(StepId, fallbacks)))]
        found += [*back, *back, *(Retry(max_attempts=2, initial_delay_ms=3, then=one) for one in back)]
    return st.sampled_from(found)


ACTIONS = st.sampled_from(
    [
        {},
        {"idempotent": True},
        {"tool": "exec", "args": {"argv": ["true"]}},
        {"tool": "read_file"},
        {"tool": "write_file"},
        {"tool": "write_file", "idempotent": False},
        *[{"tool": "edit_file"}] * 8,
        {"tool": "edit_file", "idempotent": True},
        {"tool": "move"},
        {"tool": "http_request"},
        {"tool": "unknown_tool"},
        *[{"action": AcquireLock(lock_name="l")}] * 2,
        {"action": AcquireLock(lock_name="l"), "idempotent": False},
        {"action": ReleaseLock(lock_name="l")},
        {"action": Ask(question="Which?")},
        {"action": Ask(question="Which?"), "timeout_ms": 40},
        {"action": Ask(question="Which?"), "idempotent": False},
        *[{"action": Task(task="Do it.", agent="coder")}] * 4,
        {"action": Task(task="Do it.", agent="coder"), "idempotent": True},
        *[{"action": Task(task="Do it.", agent="reviewer")}] * 2,
        {"action": Task(task="Do it.", agent="reviewer"), "timeout_ms": 40},
    ]
)
"""Every effect class, sharpened by claims and not."""


@st.composite
def plans(draw: st.DrawFn, deep: int = 2, most: int = 6) -> Plan:
    """Any order without a circle, forwards and backwards; plans within plans, repeats, fallback steps."""
    count = draw(st.integers(1, most))
    order = draw(st.permutations(range(count)))
    fallbacks = [f"f{index}" for index in range(draw(st.sampled_from([0, 0, 1, 2])))]
    steps = []
    for index in range(count):
        earlier = [f"s{other}" for other in range(count) if order[other] < order[index]]
        needs = tuple(sorted(draw(st.sets(st.sampled_from(earlier), max_size=2)))) if earlier else ()
        steps.append(_step(draw, f"s{index}", needs, fallbacks, deep))
    spare = [
        _step(draw, name, tuple(fallbacks[:index]) if draw(st.booleans()) else (), [], deep - 1)
        for index, name in enumerate(fallbacks)
    ]
    return plan(
        *steps,
        fallbacks=tuple(spare),
        on_failure=draw(policies(fallbacks)),
        concurrency=draw(st.sampled_from([None, 1, 3])),
        protect=draw(st.sampled_from([(), (), ("tests",)])) if deep == 2 else (),
    )


def _step(draw: st.DrawFn, name: str, needs: tuple[str, ...], fallbacks: list[str], deep: int) -> Step:
    action = draw(ACTIONS)
    if deep > 0 and draw(st.sampled_from([False, False, True])):
        action = {"action": NestedPlan(plan=draw(plans(deep=deep - 1, most=3)))}
    contract = draw(st.sampled_from([None, "check", "check"]))
    made = step(
        name,
        needs=needs,
        contract=contract,
        proof=draw(st.sampled_from([None, None, "red-then-green"])) if contract and "action" not in action else None,
        protect=draw(st.sampled_from([(), (), ("own",)])) if "action" not in action else (),
        on_failure=draw(policies(fallbacks)),
        **action,
    )
    each = ForEach(source="${list.output}", max=3, concurrency=draw(st.sampled_from([None, 1, 2])))
    return replace(
        made,
        for_each=each if draw(st.sampled_from([False, False, False, True])) else None,
        when="1 == 1" if draw(st.sampled_from([False, False, True])) else None,
        preconditions=(LockHeld(lock_name="l"),) if draw(st.sampled_from([False, False, True])) else (),
        approval="ask" if draw(st.sampled_from([False, False, False, True])) else None,
    )


VERDICTS = st.sampled_from([Verdict.BROKEN, Verdict.INCONCLUSIVE, Verdict.HELD, Verdict.HELD])
OUTCOMES = st.sampled_from([None, None, None, "F_STEP_FAILED", "F_STEP_TIMEOUT"])
OPERANDS = st.sampled_from([None, "as it was", "another"])


def evidence(verdict: Verdict) -> Evidence:
    return Evidence(verdict=verdict, duration_ms=1, exit_code=0 if verdict is Verdict.HELD else 1)


def work(state: RunState, name: StepId) -> WorkItem:
    record = state.steps[name]
    return WorkItem(
        agent=record.agent,
        kind="code",
        plan_id=state.plan_id,
        run_id=state.run_id,
        step=name,
        attempt=record.attempts,
        key="k",
        timeout_ms=1000,
    )


def lease(now: Instant) -> Lease:
    return Lease(worker="w", until=Instant(now + 1000))


KINDS = 49
"""How many events `any_event` tries."""


class Heart(RuleBasedStateMachine):
    """One run, its executors and the people it asks."""

    def __init__(self) -> None:
        super().__init__()
        self.now = Instant(1_000_000_000_000)
        self.ledger: list[tuple[Instant, RunEvent]] = []
        self.batch: list[tuple[Instant, RunEvent]] = []
        self.alive = False
        self.stopping = False
        self.under_way: dict[tuple[str, StepId], bool] = {}
        """What the executor has begun; whether it was told to end it."""
        self.wake: Instant | None = None
        self.again = 8
        """How often a person may have a step begin again; without a bound a life could go on for ever."""

    @initialize(made=plans(), again=st.sampled_from([False, False, True]), data=st.data())
    def open(self, made: Plan, again: bool, data: st.DataObject) -> None:
        """A new run, or one that does a run again of which any steps passed."""
        self.plan = made
        self.state = RunState(made)
        plain = [one.id for one in made.steps if one.for_each is None and not isinstance(one.action, NestedPlan)]
        kept = data.draw(st.sets(st.sampled_from(plain))) if again and plain else set()
        self.fold(replace(OPENED, may_keep=tuple(sorted(kept))))
        self.flush()

    # --- What the engine does with events ------------------------------------------------------------------------

    def fold(self, event: RunEvent) -> None:
        apply(self.state, event, self.now)
        self.batch.append((self.now, event))

    def flush(self) -> None:
        self.ledger += self.batch
        self.batch = []

    def die(self) -> None:
        self.alive, self.stopping, self.wake = False, False, None
        self.batch, self.under_way = [], {}
        self.state = replay(self.plan, self.ledger)

    # --- Executors -----------------------------------------------------------------------------------------------

    # Hypothesis leaves some rules out of every example; what brings a life forward is therefore one rule, twice.

    @precondition(lambda self: not self.state.finished)
    @rule(data=st.data())
    def goes_on(self, data: st.DataObject) -> None:
        if not self.alive:
            dies, changed = data.draw(st.sampled_from([False, False, False, True])), data.draw(st.booleans())
            self.resume(dies=dies, changed=changed, data=data)
        elif self.under_way:
            self.work_goes_on(data)
        else:
            self.time_comes(data)

    @precondition(lambda self: not self.state.finished)
    @rule(data=st.data())
    def goes_on_again(self, data: st.DataObject) -> None:
        self.goes_on(data)

    def resume(self, dies: bool, changed: bool, data: st.DataObject | None = None) -> None:
        """Take over as the engine does; it may die again before it has faced anything."""
        self.alive = True
        self.fold(ExecutorStarted(epoch=self.state.epoch + 1, pid=1, boot_id="b"))
        if self.state.epoch > 1:
            self.flush()
        if any(self.state.protects(name) for name in self.state.active):
            suspects = [
                name
                for name in self.state.active
                if self.state.steps[name].state is StepState.RUNNING and self.state.steps[name].protected_now
            ]
            if changed and suspects:
                self.fold(ProtectedChanged(files=("f",), steps=tuple(suspects)))
                self.flush()
        if dies:
            self.die()
            return
        for name in list(self.state.active):
            if self.state.steps[name].state is StepState.RUNNING:
                found = doubt(self.state, name, BUILT_IN)
                self.fold(found)
                if found.settle is Settlement.AGAIN:
                    self.fold(DoubtSettled(step=name, attempt=found.attempt, to=StepState.PENDING, reason="r"))
        self.turn(data)

    def turn(self, data: st.DataObject | None = None) -> None:
        """Decide, make the intents durable, begin; return when there is nothing to wait for."""
        effects = decide(self.state, self.now)
        assert effects == decide(self.state, self.now), "same in, same out"
        check_effects(standing(self.plan, [*self.ledger, *self.batch]), self.now, effects)
        if self.stopping:
            effects = tuple(effect for effect in effects if isinstance(effect, End | Stop | Verify))
            self.under_way = {key: told for key, told in self.under_way.items() if key[0] != "wait"}
        looks_again = False
        for effect in effects:
            looks_again |= self.begin(effect, data)
        self.flush()
        self.wake = next((effect.at for effect in effects if isinstance(effect, Wake)), None)
        if looks_again:
            self.turn(data)
        elif self.wake is None and not self.under_way:
            assert replay(self.plan, self.ledger) == self.state
            asked = questions(self.state)
            assert self.state.finished or self.stopping or asked, "nothing to do, nobody to ask, not ended: wedged"
            self.die()

    def begin(self, effect: Effect, data: st.DataObject | None) -> bool:
        """Fold the intent of an effect and begin it; whether the loop has to look again at once."""
        match effect:
            case Start(step=name) if ("start", name) not in self.under_way:
                if self.state.aborting(name) is not None:
                    return False  # what was begun before it in this turn has ended what it is part of
                event = self.first_look(name, data)
                self.fold(event)
                if not isinstance(event, AttemptStarted):
                    return True
                self.under_way["start", name] = False
            case Recheck(step=name):
                self.under_way.setdefault(("recheck", name), False)
            case Verify(step=name):
                self.under_way.setdefault(("verify", name), False)
            case SettleByContract(step=name):
                self.under_way.setdefault(("settle", name), False)
            case WaitOn(step=name):
                self.under_way.setdefault(("wait", name), False)
            case Gather(step=name):
                self.fold(self.gathered(name))
                return True
            case GiveUp(step=name):
                self.fold(given_up(self.state, name, self.now))
                return True
            case Stop(step=name) if name in self.state.waiting:
                self.under_way.pop(("wait", name), None)
                outcome = Outcome(duration_ms=0, error="F_STEP_STOPPED")
                self.fold(ended(self.state, name, outcome, self.now, stopped=True))
                return True
            case Stop(step=name) if ("start", name) in self.under_way:
                self.under_way["start", name] = True
            case End(status=status, reason=reason):
                self.under_way.clear()  # only whether steps could be kept, which is of no interest any more
                self.fold(RunFinished(status=status, reason=reason))
            case _:
                pass
        return False

    def first_look(self, name: StepId, data: st.DataObject | None) -> RunEvent:
        """What a step finds whose turn has come; all goes well where nothing is drawn."""

        def is_so(often: int = 2) -> bool:
            return data is not None and data.draw(st.integers(0, often)) == 0

        made, record = self.state.step(name), self.state.steps[name]
        if made.when is not None and not record.attempts and record.broken is None and is_so(3):
            return ConditionFalse(step=name, attempt=record.attempts)
        if made.preconditions and is_so():
            return not_held(self.state, name, "F_PRECONDITION", "as if", self.now)
        attempt = record.attempts + 1
        if made.for_each is not None:
            count = data.draw(st.integers(0, 3)) if data is not None else 1
            return StepUnfolded(step=name, attempt=attempt, kind=GroupKind.ITEMS, count=count, items_seal="s")
        if made.approval is not None and record.allowed != "seal" and data is not None:
            return StepApprovalAsked(step=name, attempt=record.attempts, reason="r", shown="s", seal="seal")
        if isinstance(made.action, NestedPlan):
            count = len(made.action.plan.steps)
            return StepUnfolded(step=name, attempt=attempt, kind=GroupKind.NESTED, count=count)
        agent = made.action.agent or "" if isinstance(made.action, Task) else ""
        return AttemptStarted(step=name, attempt=attempt, key="k", agent=agent)

    def gathered(self, name: StepId) -> RunEvent:
        """What a step makes of the end of its own."""
        group = self.state.groups[name]
        if group.kind is GroupKind.FALLBACK:
            return fallback_ended(self.state, name, self.now)
        passed = all(self.state.steps[one].satisfies for one in group.members)
        outcome = Outcome(duration_ms=1, error=None if passed else "F_STEP_FAILED")
        return ended(self.state, name, outcome, self.now, stopped=False)

    def work_goes_on(self, data: st.DataObject) -> None:
        """What is under way comes forward, some of it several times; the loop looks now and then."""
        for _ in range(data.draw(st.integers(1, 5))):
            if self.under_way:
                kind, name = data.draw(st.sampled_from(list(self.under_way)))
                self.comes_forward(kind, name, data.draw(OUTCOMES), data.draw(VERDICTS), data.draw(OPERANDS))
                self.history_is_sound()
            then = data.draw(st.sampled_from(["turn", "turn", "turn", "wait"]))
            if self.alive and then == "turn":
                self.turn(data)

    def comes_forward(self, kind: str, name: StepId, error: str | None, verdict: Verdict, operand: str | None) -> None:
        if kind == "start":
            return self.attempt_goes_on(name, error, verdict, operand)
        del self.under_way[kind, name]
        if kind == "wait":
            return self.wait_goes_on(name, error, operand)
        if kind == "verify":
            return self.fold(judged(self.state, name, evidence(verdict), self.now))
        if kind == "settle":
            return self.fold(settled(self.state, name, evidence(verdict), operand))
        seen = evidence(verdict) if self.state.step(name).verification is not None else None
        return self.fold(rechecked(name, Outcome(duration_ms=1), seen))

    def attempt_goes_on(self, name: StepId, error: str | None, verdict: Verdict, operand: str | None) -> None:
        """An attempt does what comes next: keep protected files, look at its contract, or come to its end."""
        record, made = self.state.steps[name], self.state.step(name)
        if self.under_way["start", name]:
            return self.attempt_ends(name, Outcome(duration_ms=1, error="F_STEP_STOPPED"), stopped=True)
        if self.state.protects(name) and not record.protected_now:
            if error == "F_STEP_TIMEOUT":
                return self.attempt_ends(name, Outcome(duration_ms=0, error="F_PROTECT_FAILED"))
            known = self.state.protected or {}
            of_plan = {"tests": ProtectedFile(seal="s", size=1)} if self.plan.protect and "tests" not in known else {}
            of_step = {"own": ProtectedFile(seal="s", size=1)} if made.protect and record.protected is None else {}
            return self.fold(FilesProtected(step=name, attempt=record.attempts, of_plan=of_plan, of_step=of_step))
        proves = wants_proof(self.state, name)
        if (looks_first(made, BUILT_IN) or proves) and record.seen_before is None:
            if record.tampered:
                return self.attempt_ends(name, Outcome(duration_ms=1))
            self.fold(ContractSeen(step=name, attempt=record.attempts, evidence=evidence(verdict), operand=operand))
            outcome = not_begun(evidence(verdict), 1) if proves else None
            return self.attempt_ends(name, outcome) if outcome is not None else None
        if isinstance(made.action, AcquireLock) and operand is not None and not record.tampered:
            del self.under_way["start", name]
            return self.waits(name, "somebody")
        if isinstance(made.action, Task) and record.work is None:
            return self.fold(WorkOffered(step=name, attempt=record.attempts, item=work(self.state, name)))
        if self.state.is_persons(name):
            if record.tampered:
                return self.attempt_ends(name, Outcome(duration_ms=0))
            del self.under_way["start", name]
            return self.fold(waiting_for(self.state, name))
        if isinstance(made.action, Task):
            if record.lease is None:
                return self.fold(WorkClaimed(step=name, attempt=record.attempts, lease=lease(self.now)))
            error = AGENT_CANNOT if error is not None and operand is not None else error
        return self.attempt_ends(name, Outcome(duration_ms=1, exit_code=1 if error else 0, error=error))

    def waits(self, name: StepId, whom: str) -> None:
        until = self.state.steps[name].waits_until or Instant(self.now + 50)
        attempt = self.state.steps[name].attempts
        self.fold(AttemptWaiting(step=name, attempt=attempt, reason=whom, until=until))

    def wait_goes_on(self, name: StepId, error: str | None, operand: str | None) -> None:
        """What a step waits for has come, or its time is over, or it waits for somebody else now."""
        if operand == "another":
            return self.waits(name, operand)
        return self.fold(ended(self.state, name, Outcome(duration_ms=1, error=error), self.now, stopped=False))

    def attempt_ends(self, name: StepId, outcome: Outcome, *, stopped: bool = False) -> None:
        del self.under_way["start", name]
        self.fold(ended(self.state, name, outcome, self.now, stopped=stopped))

    @precondition(lambda self: self.plan.protect and any(self.state.steps[n].protected_now for n in self.at_work()))
    @rule()
    def protected_file_changes(self) -> None:
        at_work = dict.fromkeys(name for name in self.at_work() if self.state.steps[name].protected_now)
        self.fold(ProtectedChanged(files=("f",), steps=tuple(at_work)))

    def at_work(self) -> list[StepId]:
        return [name for kind, name in self.under_way if kind != "wait"]

    @precondition(lambda self: self.alive)
    @rule(how=st.sampled_from(["crash", "crash", "crash", "stop"]))
    def executor_ends(self, how: str) -> None:
        if how == "crash":
            self.die()
        else:
            self.stopping = True

    @precondition(lambda self: any(self.state.steps[name].seen_before for kind, name in self.under_way))
    @rule(dies=st.sampled_from([True, True, False]))
    def cut_off_before_the_end_is_seen(self, dies: bool) -> None:
        """The rarest moment of all, at which a contract can settle the doubt."""
        self.turn()
        if dies and self.alive:
            self.die()
            self.resume(dies=False, changed=False)

    # --- Time and people -----------------------------------------------------------------------------------------

    @precondition(lambda self: not self.state.finished)
    @rule(by=st.sampled_from([1, 5, 50, 86_400_000, -1, -20, -86_400_000]))
    def clock_moves(self, by: int) -> None:
        self.now = Instant(self.now + by)

    def time_comes(self, data: st.DataObject | None = None) -> None:
        self.now = max(self.now, self.wake or self.now)
        self.turn(data)

    @precondition(lambda self: questions(self.state))
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        """A person answers; an executor at work takes it up, and makes it durable when it looks next."""
        question = data.draw(st.sampled_from(questions(self.state)))
        words = [choice.word for choice in question.choices if self.again or choice.word not in ("retry", "did-not")]
        word = data.draw(st.sampled_from([*["answer"] * 3, *words] if question.takes else words))
        self.again -= word in ("retry", "did-not")
        self.decide(question, word)

    def decide(self, question: Question, word: str) -> None:
        outcome = Outcome(duration_ms=1) if word in ("answer", "done") else None
        if word == "cannot":
            outcome = Outcome(duration_ms=1, error=AGENT_CANNOT)
        decision = decided(self.state, question, word, KIM, outcome=outcome)
        assert still_asked(self.state, decision)
        self.fold(decision)
        assert not still_asked(self.state, decision), "nobody answers the same question twice"
        if not self.alive:
            self.flush()

    @precondition(lambda self: not self.alive and not self.state.finished and len(self.ledger) > 12)
    @rule(status=st.sampled_from(["cancelled", "failed"]))
    def cancel(self, status: str) -> None:
        self.fold(RunCancelled(by=KIM, status=status))
        self.flush()

    @precondition(lambda self: not self.alive and not self.state.finished and self.state.paused_by is None)
    @rule()
    def pause(self) -> None:
        self.fold(RunPaused(by=KIM))
        self.flush()

    # --- What nobody may do --------------------------------------------------------------------------------------

    @rule(
        data=st.data(),
        kind=st.sampled_from(range(KINDS)),
        to=st.sampled_from(StepState),
        off=st.sampled_from([0, 0, 1]),
    )
    def somebody_tries_anything(self, data: st.DataObject, kind: int, to: StepState, off: int) -> None:
        """Any event at any time either fits the table or is refused, and what is refused changes nothing."""
        name = data.draw(st.sampled_from(self.state.names))
        tried = any_event(self.state, name, to, off)[kind]
        history = [*self.ledger, *self.batch]
        copy = replay(self.plan, history)
        try:
            apply(copy, tried, self.now)
        except IllegalTransition:
            assert copy == self.state, f"refused, and yet it changed something: {tried}"
            return
        check_move(self.state, copy, tried)

    # --- Always --------------------------------------------------------------------------------------------------

    @invariant()
    def questions_have_the_slow_answers(self) -> None:
        if not self.ledger:
            return
        state, history = self.state, [*self.ledger, *self.batch]
        slow = standing(self.plan, history)
        states = {name: record.state.value for name, record in state.steps.items()}
        assert states == {name: one.state for name, one in slow.steps.items()}
        names = list(slow.steps)
        assert state.names == names
        due = {place: slow.steps[names[place]].not_before for place in slow.ready}
        assert state.ready == [place for place, instant in due.items() if instant is None]
        assert state.delayed == sorted((instant, place) for place, instant in due.items() if instant is not None)
        assert set(state.active) == set(slow.having("running", "verifying"))
        assert set(state.waiting) == set(slow.waiting)
        assert set(state.gathering) == set(slow.gathering)
        assert set(state.gatherable) == set(slow.gatherable)
        assert set(state.doubtful) == set(slow.having("in_doubt"))
        assert set(state.escalated) == set(slow.having("escalated"))
        assert state.unsatisfied == sum(not slow.steps[one.id].satisfies for one in self.plan.steps)
        for name in slow.having(*OPEN):
            assert state._unmet[name] == len(slow.unmet(name)), name
            assert state.is_blocked(name) == bool(slow.unmet(name))
            assert (state.aborting(name) is not None) == slow.is_ended(name)
            assert state.protects(name) == slow.protects(name) or slow.step(name).for_each is not None
        for name in slow.gathering:
            group, family = state.groups[name], slow.families[name]
            assert (group.kind.value, list(group.members), group.limit) == (family.kind, family.members, family.limit)
            assert (group.live, group.aborted_by is not None) == (slow.live(name), family.ended)
            assert (list(group.held), set(group.begun)) == (family.held, set(family.let_in))
        assert {name: one.attempts for name, one in slow.steps.items()} == {
            name: record.attempts for name, record in state.steps.items()
        }
        assert state.may_keep == slow.may_keep
        assert (state.status, state.aborted_by is not None) == (slow.status, slow.aborting)
        assert state == replay(self.plan, history)
        assert sorted(state.reading_order()) == sorted(names)
        for name in names:
            reason = why_waiting(state, name, self.now)
            waits = states[name] in OPEN - UNDER_WAY
            assert bool(reason) == waits, f"{name} is {states[name]}: {reason}"

    @invariant()
    def history_is_sound(self) -> None:
        if self.ledger:
            check_history(self.plan, [*self.ledger, *self.batch], BUILT_IN)

    def teardown(self) -> None:
        """Whatever happened, it can be brought to an end: resumed, answered, never disturbed again."""
        if not self.ledger:
            return
        self.die()
        for _ in range(500):
            if self.state.finished:
                return
            if not self.alive and (asked := questions(self.state)):
                words = {"doubt": "abort", "escalation": "skip", "step_approval": "deny", "ask": "answer"}
                words["task"] = "done"
                self.decide(asked[0], words[asked[0].kind])
            elif not self.alive:
                self.resume(dies=False, changed=False)
            elif self.under_way:
                self.comes_forward(*next(iter(self.under_way)), None, Verdict.BROKEN, None)
                self.turn()
            elif self.wake is not None and not self.batch:
                self.time_comes()
            else:
                self.turn()
        raise AssertionError("it never ended")


TestHeart = Heart.TestCase
TestHeart.settings = settings(stateful_step_count=40)


# --- The table, whole ------------------------------------------------------------------------------------------------


def any_event(state: RunState, name: StepId, to: StepState, off: int = 0) -> list[RunEvent]:
    """One event of every kind a run can have, about this step and its last attempt (or another one, by `off`)."""
    attempt = state.steps[name].attempts + off
    held, broken, unclear = (evidence(verdict) for verdict in Verdict)
    well, badly = Outcome(duration_ms=1), Outcome(duration_ms=1, error="F_STEP_FAILED")
    cannot = Outcome(duration_ms=1, error=AGENT_CANNOT)
    fallback = tuple(one.id for one in state.plan_around(name).fallbacks[:1])
    return [
        AttemptStarted(step=name, attempt=attempt + 1, key="k"),
        FilesProtected(step=name, attempt=attempt),
        AttemptWaiting(step=name, attempt=attempt, reason="r"),
        ContractSeen(step=name, attempt=attempt, evidence=broken),
        AttemptEnded(step=name, attempt=attempt, outcome=Outcome(duration_ms=1), to=to),
        AttemptEnded(step=name, attempt=attempt, outcome=badly, to=to),
        ContractHeld(step=name, attempt=attempt, evidence=held),
        ContractBroken(step=name, attempt=attempt, evidence=broken, to=to),
        ContractInconclusive(step=name, attempt=attempt, evidence=unclear, to=to, aborts=True),
        DoubtFound(step=name, attempt=attempt, settle=Settlement.PERSON, reason="r"),
        DoubtReferred(step=name, attempt=attempt, evidence=unclear, reason="r"),
        DoubtChecked(step=name, attempt=attempt, evidence=held, reason="r", to=to, read_only=True),
        DoubtChecked(step=name, attempt=attempt, evidence=held, reason="r", to=to),
        DoubtChecked(step=name, attempt=attempt, evidence=broken, reason="r", to=to, read_only=True),
        DoubtChecked(step=name, attempt=attempt, evidence=broken, reason="r", to=to, final=True, read_only=True),
        DoubtChecked(
            step=name, attempt=attempt, evidence=broken, reason="r", to=to, tool="pay", final=True, read_only=True
        ),
        DoubtSettled(step=name, attempt=attempt, to=to, reason="r"),
        DoubtSettled(step=name, attempt=attempt, to=to, reason="r", evidence=held),
        FallbackEnded(step=name, attempt=attempt, reason="r", to=to),
        FallbackEnded(step=name, attempt=attempt, reason="r", to=to, aborts=True),
        ConditionFalse(step=name, attempt=attempt),
        PreconditionBroken(step=name, attempt=attempt, error="F_PRECONDITION", detail="d", to=to),
        PreconditionBroken(step=name, attempt=attempt, error="F_PRECONDITION", detail="d", to=to, fallback=fallback),
        AttemptEnded(step=name, attempt=attempt, outcome=badly, to=to, fallback=fallback),
        ContractBroken(step=name, attempt=attempt, evidence=broken, to=to, fallback=fallback),
        ContractInconclusive(step=name, attempt=attempt, evidence=unclear, to=to, fallback=fallback),
        AttemptEnded(step=name, attempt=attempt, outcome=badly, to=to, fallback=(StepId("unheard-of"),)),
        StepApprovalAsked(step=name, attempt=attempt, reason="r", shown="s", seal="s"),
        StepUnfolded(step=name, attempt=attempt + 1, kind=GroupKind.ITEMS, count=2),
        StepUnfolded(step=name, attempt=attempt + 1, kind=GroupKind.NESTED, count=2),
        DecisionGiven(step=name, choice="pass", by=KIM, to=to, aborts=True),
        DecisionGiven(step=name, choice="check", by=KIM, to=to),
        DecisionGiven(step=name, choice="answer", by=KIM, to=to, outcome=Outcome(duration_ms=1)),
        DecisionGiven(step=name, choice="done", by=KIM, to=to, outcome=well, about="task", attempt=attempt),
        DecisionGiven(step=name, choice="done", by=KIM, to=to, outcome=well),
        DecisionGiven(step=name, choice="cannot", by=KIM, to=to, outcome=cannot, about="task"),
        DecisionGiven(step=name, choice="done", by=KIM, to=to, outcome=cannot, about="task"),
        AttemptEnded(step=name, attempt=attempt, outcome=cannot, to=to),
        WorkOffered(step=name, attempt=attempt, item=work(state, name)),
        WorkClaimed(step=name, attempt=attempt, lease=lease(Instant(1_000_000_000_000))),
        ProtectedChanged(files=("f",), steps=(name,)),
        StepKept(step=name, attempt=attempt),
        StepKept(step=name, attempt=attempt, evidence=held),
        StepNotKept(step=name, attempt=attempt, evidence=broken),
        RunFinished(status="completed"),
        RunFinished(status="failed"),
        RunCancelled(by=KIM, status="completed"),
        RunPaused(by=KIM),
        ExecutorStarted(epoch=state.epoch + off, pid=1, boot_id="b"),
        OPENED,
    ]


STAYING = {
    FilesProtected: {"running"},
    ContractSeen: {"running"},
    WorkOffered: {"running"},
    WorkClaimed: {"running"},
    AgentCalled: {"running"},
    AgentCallFailed: {"running"},
    DoubtReferred: {"in_doubt"},
    StepNotKept: {"pending"},
    ProtectedChanged: {"running", "verifying", "in_doubt"},
}
"""The events that leave a step where it is, and where it must be for them."""


def check_move(before: RunState, after: RunState, event: RunEvent) -> None:
    """That an event which was taken is one of the table, and moved nothing but what it should."""
    moved = {
        name: (before.steps[name].state, record.state)
        for name, record in after.steps.items()
        if name in before.steps and record.state is not before.steps[name].state
    }
    assert after.size == before.size + 1 and not before.finished
    match event:
        case ExecutorStarted(epoch=epoch):
            assert epoch > before.epoch and not moved
        case RunFinished():
            assert all(to is StepState.CANCELLED for _, to in moved.values())
        case ProtectedChanged(steps=steps):
            assert not moved
            assert all(before.steps[name].state.value in STAYING[ProtectedChanged] for name in steps)
        case RunPaused():
            assert not moved
        case RunOpened() | RunCancelled():
            raise AssertionError("a run is opened once, and never called complete by anybody")
        case AttemptWaiting(step=name):
            assert before.steps[name].state.value in ("running", "waiting") and moved.keys() <= {name}
            assert after.steps[name].state.value == "waiting"
        case _ if type(event) in STAYING:
            assert not moved and before.steps[event.step].state.value in STAYING[type(event)]
        case _:
            name, aborts = event.step, getattr(event, "aborts", False)
            origin, to = before.steps[name].state, after.steps[name].state
            allowed = TRANSITIONS[origin, type(event)]
            # What is part of something that was ended does not begin again.
            ended_before = before.aborting(name) is not None and name in before.members
            open_again = {StepState.PENDING, StepState.ESCALATED} & allowed
            assert to in allowed or (ended_before and to is StepState.CANCELLED and open_again)
            for other, (was, now) in moved.items():
                if other != name and not is_part_of(after, other, name):
                    assert aborts and now is StepState.CANCELLED and was.value in ("pending", "escalated")
            assert all(is_part_of(after, other, name) for other in after.steps.keys() - before.steps.keys())


def is_part_of(state: RunState, name: StepId, other: StepId) -> bool:
    """Whether a step came to be for another one, however far above."""
    while name in state.members:
        name = state.members[name].parent
        if name == other:
            return True
    return False


ASKING = step("a", action=Ask(question="Which?"), contract="check")
CHECKED = step("a", tool="pay", contract="check", happened="paid?")
TASK = step("a", action=Task(task="Do it."), contract="check")


def states() -> Iterator[RunState]:
    """Runs whose step `a` is in each state there is: an ordinary one that asks, one that holds a plan, one that is
    repeated."""
    name, well = StepId("a"), Outcome(duration_ms=1)
    opened = [replace(OPENED, may_keep=(name,)), ExecutorStarted(epoch=1, pid=1, boot_id="b")]
    started = [*opened, AttemptStarted(step=name, attempt=1, key="k")]
    badly = Outcome(duration_ms=1, error="F_STEP_FAILED")

    def gone(to: StepState, outcome: Outcome = badly, **fields: Any) -> AttemptEnded:
        return AttemptEnded(step=name, attempt=1, outcome=outcome, to=to, **fields)

    def passes(other: str) -> list[RunEvent]:
        begun = AttemptStarted(step=StepId(other), attempt=1, key="k")
        return [begun, AttemptEnded(step=StepId(other), attempt=1, outcome=well, to=StepState.PASSED)]

    verifying = [*started, gone(StepState.VERIFYING, well)]
    falling_back = [*started, gone(StepState.WAITING, fallback=(StepId("f"),))]
    simple = [
        opened,
        started,
        [*started, AttemptWaiting(step=name, attempt=1, reason="r")],
        falling_back,
        [*falling_back, *passes("a+f")],
        verifying,
        [*verifying, ContractHeld(step=name, attempt=1, evidence=evidence(Verdict.HELD))],
        [*started, DoubtFound(step=name, attempt=1, settle=Settlement.PERSON, reason="r")],
        *([*started, gone(to)] for to in StepState if to.value in ("failed", "skipped", "escalated", "cancelled")),
    ]
    nested = NestedPlan(plan=plan(step("x", needs=()), step("y", needs=())))
    unfolded = [*opened, StepUnfolded(step=name, attempt=1, kind=GroupKind.NESTED, count=2)]
    holding = [opened, unfolded, [*unfolded, *passes("a/x"), *passes("a/y")]]
    repeated = [opened, [*opened, StepUnfolded(step=name, attempt=1, kind=GroupKind.ITEMS, count=0)]]

    def offering(agent: str) -> list[RunEvent]:
        item = replace(work(RunState(plan(TASK)), name), attempt=1, agent=agent)
        begun = AttemptStarted(step=name, attempt=1, key="k", agent=agent)
        return [*opened, begun, WorkOffered(step=name, attempt=1, item=item)]

    offered, persons = offering("coder"), offering("reviewer")
    claimed = [*offered, WorkClaimed(step=name, attempt=1, lease=lease(Instant(0)))]
    tasks = [started, offered, claimed, persons, [*persons, AttemptWaiting(step=name, attempt=1, reason="r")]]
    asked = DoubtFound(step=name, attempt=1, settle=Settlement.CHECK, reason="r")
    each = replace(ASKING, for_each=ForEach(source="${list.output}", max=3))
    for one, histories in (
        (ASKING, simple),
        (TASK, tasks),
        (CHECKED, [[*started, asked]]),
        (replace(CHECKED, verification=None), [[*started, asked]]),
        (replace(ASKING, action=nested), holding),
        (each, repeated),
    ):
        made = plan(one, step("z", needs=()), fallbacks=(step("f", needs=()),))
        for history in histories:
            yield replay(made, [(Instant(0), event) for event in history])


def test_every_event_in_every_state_is_in_the_table_or_refused():
    """All of them: each state, each event, each place it could say the step went. What is refused changes nothing, and
    all that the table has is taken."""
    taken: Counter[tuple[StepState, type, StepState]] = Counter()
    for to in StepState:
        for kind in range(KINDS):
            for state, before in zip(states(), states(), strict=True):
                origin, event = state.steps[StepId("a")].state, any_event(state, StepId("a"), to)[kind]
                try:
                    apply(state, event, Instant(1))
                except IllegalTransition:
                    assert state == before, f"refused, and yet it changed something: {event}"
                else:
                    check_move(before, state, event)
                    taken[origin, type(event), state.steps[StepId("a")].state] += 1
    moves = {(origin, kind, to) for (origin, kind), reached in TRANSITIONS.items() for to in reached}
    # A step with a contract passes by that alone, unless a person says otherwise; an answer is no such word.
    moves -= {(origin, AttemptEnded, StepState.PASSED) for origin in (StepState.RUNNING, StepState.WAITING)}
    moves -= {(StepState.WAITING, DecisionGiven, StepState.PASSED)}
    assert moves <= set(taken)
    of_settled = {kind for origin, kind, _ in taken if origin in SETTLED}
    assert of_settled <= {ExecutorStarted, RunFinished, RunPaused}, "an event about a step that is settled"


@pytest.mark.parametrize("to", list(StepState))
@pytest.mark.parametrize("answered", [False, True])
def test_a_step_that_waits_is_decided_by_an_answer_where_it_asks_and_nowhere_else(to: StepState, answered: bool):
    asking, lock = step("a", action=Ask(question="Which?")), step("a", action=AcquireLock(lock_name="db"))
    outcome = Outcome(duration_ms=1) if answered else None
    event = DecisionGiven(step=StepId("a"), choice="x", by=KIM, to=to, aborts=not answered, outcome=outcome)
    after = [(asking, StepState.PASSED), (ASKING, StepState.VERIFYING)]
    if not answered:
        after = [(one, StepState.FAILED) for one, _ in after]
    for one, goes in [*after, (lock, None), (step("a"), None)]:
        made = plan(one, step("z", needs=()))
        begun = [
            OPENED,
            ExecutorStarted(epoch=1, pid=1, boot_id="b"),
            AttemptStarted(step=StepId("a"), attempt=1, key="k"),
            AttemptWaiting(step=StepId("a"), attempt=1, reason="r"),
        ]
        state = replay(made, [(Instant(0), happened) for happened in begun])
        if goes is to:
            assert apply(state, event, Instant(1)).steps[StepId("a")].outcome == outcome
        else:
            with pytest.raises(IllegalTransition):
                apply(state, event, Instant(1))


@pytest.mark.parametrize("settled_in", sorted(SETTLED))
def test_nothing_leads_out_of_a_settled_state(settled_in):
    assert not [origin for origin, _ in TRANSITIONS if origin is settled_in]
