"""The heart's questions answered the slow way, for comparison: from the whole plan and the whole history, each time.

Nothing here looks at what a RunState keeps (`ready`, `active` …), nor uses the rules it is compared with. `standing` is
what the events say of every step, `check_effects` asks whether what is to be done next is right, and `check_history`
whether what must be true of every history is true of this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ordain.core.action import Ask, LockAction
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
    FilesProtected,
    Limits,
    ProtectedChanged,
    RunCancelled,
    RunEvent,
    RunFinished,
    RunOpened,
    Settlement,
    StepKept,
    StepNotKept,
    Verdict,
)
from ordain.core.failure import Abort, Continue, FailurePolicy, Retry, Skip
from ordain.core.model import Plan, Step, check_of, contract_of
from ordain.core.schedule import Effect, End, GiveUp, Recheck, SettleByContract, Start, Stop, Verify, WaitOn, Wake
from ordain.core.tool import EffectClass, ToolDefinition, definition_of
from ordain.core.value import Instant, StepId

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
    settle: Settlement | None = None
    kept: bool = False
    """Whether protected files were kept in this attempt."""
    seen: Verdict | None = None
    """What the contract showed before the effect of this attempt."""
    proved: bool = False
    """Whether the contract was ever seen broken before an effect."""
    tampered: bool = False
    until: Instant | None = None
    """For a step that waits: when it waits no longer."""


@dataclass
class Standing:
    """A run as the events leave it."""

    plan: Plan
    limits: Limits | None = None
    status: str | None = None
    aborting: bool = False
    steps: dict[StepId, Stand] = field(default_factory=dict)
    may_keep: set[StepId] = field(default_factory=set)
    """Steps that passed in the run before and that are looked at before they are run again."""

    def having(self, *states: str) -> list[StepId]:
        """The steps in one of these states, in the plan's order."""
        return [name for name, one in self.steps.items() if one.state in states]

    def unmet(self, step: Step) -> list[StepId]:
        return [need for need in step.needs if self.steps[need].state not in SATISFYING]

    @property
    def ready(self) -> list[int]:
        return [
            place
            for place, step in enumerate(self.plan.steps)
            if self.steps[step.id].state == "pending" and not self.unmet(step)
        ]

    @property
    def settling(self) -> list[StepId]:
        """The steps in doubt whose contract is to tell."""
        return [name for name, one in self.steps.items() if one.settle is Settlement.CONTRACT]

    @property
    def asking(self) -> dict[StepId, Instant | None]:
        """The steps that wait for a person's answer, and until when."""
        asks = {step.id for step in self.plan.steps if isinstance(step.action, Ask)}
        return {name: self.steps[name].until for name in self.having("waiting") if name in asks}

    @property
    def concurrency(self) -> int:
        assert self.limits is not None
        return self.plan.concurrency or self.limits.concurrency


def standing(plan: Plan, history: Iterable[tuple[Instant, RunEvent]]) -> Standing:
    """What the events say of every step."""
    found = Standing(plan, steps={step.id: Stand() for step in plan.steps})
    for _, event in history:
        _note(found, event)
    return found


def _note(run: Standing, event: RunEvent) -> None:
    one = run.steps[event.step] if hasattr(event, "step") else Stand()
    match event:
        case RunOpened(limits=limits, may_keep=may_keep):
            run.limits, run.may_keep = limits, set(may_keep)
        case StepKept(step=name):
            one.state = "passed"
            run.may_keep.discard(name)
        case StepNotKept(step=name):
            run.may_keep.discard(name)
        case AttemptStarted():
            one.state, one.attempts, one.not_before = "running", one.attempts + 1, None
            one.kept, one.seen, one.tampered = False, None, False
            if not isinstance(next(step.action for step in run.plan.steps if step.id == event.step), LockAction):
                run.may_keep -= {event.step, *(step.id for step in run.plan.steps if event.step in step.needs)}
        case AttemptWaiting():
            one.state, one.until = "waiting", event.until
        case FilesProtected():
            one.kept = True
        case ContractSeen(evidence=evidence):
            one.seen = evidence.verdict
            one.proved = one.proved or evidence.verdict == "broken"
        case ProtectedChanged(steps=steps):
            for name in steps:
                run.steps[name].tampered = True
        case AttemptEnded() | ContractBroken() | ContractInconclusive():
            went_badly = not isinstance(event, AttemptEnded) or event.outcome.error is not None
            one.failures += went_badly and event.to != "cancelled"
            one.state, one.not_before = event.to.value, event.not_before
            run.aborting = run.aborting or event.aborts
        case ContractHeld():
            one.state = "passed"
        case DoubtFound(settle=settle):
            one.state, one.settle = "in_doubt", settle
        case DoubtReferred():
            one.settle = Settlement.PERSON
        case DoubtSettled(to=to):
            one.state, one.settle = to.value, None
        case DecisionGiven(to=to):
            one.failures = 0 if event.outcome is None else one.failures
            one.state, one.settle, one.not_before = to.value, None, None
            run.aborting = run.aborting or event.aborts
        case RunFinished(status=status):
            run.status = status
        case RunCancelled(status=status):
            run.status = status
        case _:
            pass
    if run.status is not None:
        for other in run.steps.values():
            other.state = "cancelled" if other.state in OPEN else other.state


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
    settling = {SettleByContract(name) for name in run.settling}
    verifying = {effect for effect in others if isinstance(effect, Verify)}
    places = max(run.concurrency - len(settling) - len(run.having("running")), 0)
    assert {effect.step for effect in verifying} <= set(run.having("verifying"))
    assert len(verifying) == min(len(run.having("verifying")), places), "as many are verified as there are places"
    if run.aborting:
        wanted = settling | verifying | {Stop(name) for name in run.having("running", "waiting")}
        if run.having("running", "waiting", "verifying", "in_doubt"):
            assert (others, starts, wakes) == (wanted, [], [])
        else:
            (end,) = effects
            assert isinstance(end, End) and end.status == "failed"
        return
    asking = run.asking
    waiting: set[Effect] = {WaitOn(name) for name in run.having("waiting") if name not in asking}
    waiting |= {GiveUp(name) for name, until in asking.items() if until is not None and until <= now}
    answerable = [until for until in asking.values() if until is not None and until > now]
    ready = [run.plan.steps[place].id for place in run.ready]
    again = {name: until for name in ready if (until := run.steps[name].not_before) is not None}
    due = sorted((name for name in again if again[name] <= now), key=lambda name: again[name])  # the plan's order stays
    due += [name for name in ready if name not in again]
    delayed = [until for name in ready if (until := run.steps[name].not_before) is not None and until > now]
    free = max(places - len(run.having("verifying")), 0)
    assert starts == due[:free], "what is due again, then the first in the plan's order, as many as there are places"
    if free > len(starts) and delayed:
        assert wakes == [min([*delayed, *answerable])]
    else:
        busy = starts or settling or verifying or waiting or run.having("running", "verifying")
        assert wakes == ([min(answerable)] if answerable and busy else []), "nobody stays for a person alone"
    if starts or wakes or settling or run.having("running", "waiting", "verifying", "in_doubt", "escalated"):
        assert others == settling | verifying | waiting
    else:
        complete = all(one.state in SATISFYING for one in run.steps.values())
        assert others == {End("completed" if complete else "failed")}, "none ready is never complete"


# --- What must be true of every history ------------------------------------------------------------------------------


def check_history(plan: Plan, history: Sequence[tuple[Instant, RunEvent]], tools: Mapping[str, ToolDefinition]) -> None:
    """That every event had the right to follow those before it: by the table of doubt, the failure policies, the needs,
    the number of places, and with evidence for every pass."""
    run = Standing(plan, steps={step.id: Stand() for step in plan.steps})
    steps = {step.id: step for step in plan.steps}
    for at, event in history:
        assert run.status is None, f"{event} after the end"
        if hasattr(event, "step"):
            _check_step_event(run, steps[event.step], run.steps[event.step], event, at, tools)
        if isinstance(event, RunFinished):
            complete = all(one.state in SATISFYING for one in run.steps.values())
            assert (event.status == "completed") == complete, "completed is when every step passed or was skipped"
            assert not run.having("running", "waiting", "verifying", "in_doubt")
            assert run.aborting or not run.having("escalated")
            assert run.aborting or not run.ready, "it ended with a step that could have begun"
        _note(run, event)
        if isinstance(event, AttemptStarted):
            assert len(run.having("running", "verifying")) + len(run.settling) <= run.concurrency, "too many at once"


def _check_step_event(
    run: Standing, step: Step, one: Stand, event: RunEvent, at: Instant, tools: Mapping[str, ToolDefinition]
) -> None:
    if not isinstance(event, DecisionGiven | AttemptStarted):
        assert event.attempt == one.attempts, f"{event} is about another attempt than the last"  # type: ignore[union-attr]
    match event:
        case AttemptStarted(attempt=attempt):
            assert (one.state, attempt) == ("pending", one.attempts + 1)
            assert not run.unmet(step), f"{step.id} began before what it needs"
            assert not run.aborting, f"{step.id} began while the run aborts"
            assert (one.not_before or 0) <= at, f"{step.id} began too early"
        case AttemptWaiting():
            assert one.state in ("running", "waiting") and not one.tampered
        case StepKept(evidence=evidence) | StepNotKept(evidence=evidence):
            assert one.state == "pending" and step.id in run.may_keep and not run.unmet(step)
            held = evidence is not None and evidence.verdict == "held"
            assert held == (isinstance(event, StepKept) and check_of(step) is not None)
        case AttemptEnded(outcome=outcome, to=to):
            assert one.state in ("running", "waiting")
            if one.state == "waiting" and isinstance(step.action, Ask) and to != "cancelled":
                assert one.until is not None and at >= one.until, f"{step.id} was given up before its time"
            if outcome.error is None:
                assert not one.tampered
                assert step.proof is None or one.proved
                assert one.kept or not (step.protect or run.plan.protect)
                assert to == ("verifying" if check_of(step) is not None else "passed")
            elif to == "cancelled":
                assert run.aborting and outcome.error == "F_STEP_STOPPED"
            else:
                _check_failure(run, step, one, event, at)
        case ContractHeld(evidence=evidence):
            assert one.state == "verifying" and evidence.verdict == "held" and not one.tampered
        case ContractBroken() | ContractInconclusive():
            assert one.state == "verifying" and event.evidence.verdict != "held"
            _check_failure(run, step, one, event, at)
        case DoubtFound(settle=settle):
            assert one.state == "running"
            assert settle is doubt_table(run.plan, step, one, tools), f"{step.id} is settled by {settle}"
        case DoubtReferred(evidence=evidence):
            assert one.settle is Settlement.CONTRACT and evidence is not None
        case DoubtSettled(to=to, evidence=evidence):
            assert one.state == "in_doubt"
            if to == "passed":
                assert one.settle is Settlement.CONTRACT and not one.tampered
                assert evidence is not None and evidence.verdict == "held"
            else:
                assert one.settle is Settlement.AGAIN or (one.settle is Settlement.CONTRACT and evidence is not None)
        case DecisionGiven(choice=choice, to=to):
            words = {
                "in_doubt": {
                    "happened": "verifying" if contract_of(step) is not None else "passed",
                    "did-not": "pending",
                    "abort": "failed",
                },
                "escalated": {"retry": "pending", "skip": "skipped", "pass": "passed", "abort": "failed"},
                "waiting": {"answer": "verifying" if check_of(step) is not None else "passed", "abort": "failed"},
            }
            assert one.state == "escalated" or one.settle is Settlement.PERSON or step.id in run.asking
            assert one.state != "waiting" or choice == "abort" or not one.tampered
            assert to == words[one.state][choice]
        case _:
            pass


def doubt_table(plan: Plan, step: Step, one: Stand, tools: Mapping[str, ToolDefinition]) -> Settlement:
    """The table of doubt in docs/architecture.md, row by row."""
    tool = definition_of(step.action, tools)
    effect = tool.effect if tool is not None else EffectClass.OPAQUE
    if step.idempotent is not None and effect is not EffectClass.READS:
        effect = EffectClass.REPEATABLE if step.idempotent else EffectClass.OPAQUE
    checkable = effect is EffectClass.CHECKABLE and contract_of(step) is not None
    rows = [
        ((plan.protect or step.protect) and not one.kept, Settlement.AGAIN),
        (step.proof is not None and not one.proved, Settlement.AGAIN),
        (effect in (EffectClass.READS, EffectClass.REPEATABLE), Settlement.AGAIN),
        (isinstance(step.action, LockAction | Ask), Settlement.AGAIN),
        (checkable and one.seen is None, Settlement.AGAIN),
        (checkable and one.seen == "broken" and tool is not None and tool.atomic, Settlement.CONTRACT),
        (True, Settlement.PERSON),
    ]
    return next(settlement for applies, settlement in rows if applies)


def _check_failure(
    run: Standing, step: Step, one: Stand, event: AttemptEnded | ContractBroken | ContractInconclusive, at: Instant
) -> None:
    """That the failure policy sends the step where the event says."""
    assert run.limits is not None
    found = (event.to.value, event.not_before, event.aborts)
    if run.aborting:
        assert found == ("failed", None, False)
        return
    policy: FailurePolicy = step.on_failure or run.plan.on_failure or run.limits.on_failure
    if isinstance(policy, Retry):
        tries = one.failures + 1
        if tries < policy.max_attempts:
            grown = policy.initial_delay_ms * policy.backoff_multiplier ** (tries - 1)
            delay = min(grown + policy.increment_ms * (tries - 1), policy.max_delay_ms or DAY_MS, DAY_MS)
            assert found == ("pending", at + int(delay), False), "tries are left"
            return
        whole: FailurePolicy = run.plan.on_failure or run.limits.on_failure
        rest = (whole.then or Abort()) if isinstance(whole, Retry) else whole
        policy = policy.then or rest
    to = {Abort: "failed", Continue: "failed", Skip: "skipped"}.get(type(policy), "escalated")
    assert found == (to, None, isinstance(policy, Abort)), f"the policy is {policy}"
