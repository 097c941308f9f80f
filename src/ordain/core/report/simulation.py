"""What a run of a plan would be like, as far as somebody looked, and what is known before an approval."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from heapq import heappop, heappush

import msgspec

from ordain.core.lint.survey import fallbacks_for, waits_for, waves
from ordain.core.plan.canonical import action_digest
from ordain.core.plan.command import decided_later
from ordain.core.plan.condition import (
    ApprovalValid,
    CustomCondition,
    LockAvailable,
    LockHeld,
    Precondition,
    StepCompleted,
)
from ordain.core.plan.failure import FailurePolicy
from ordain.core.plan.model import Action, Budget, ForEach, Plan, Step, all_steps, contract_of, item_name
from ordain.core.plan.value import PlanId, StepId
from ordain.core.policy.assignment import Assignment
from ordain.core.run.step_event import Verdict
from ordain.core.text.problem import Problem


class Looked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What looking at a step's contract showed, before anything was done; no verdict where nobody could look."""

    verdict: Verdict | None = None
    detail: str = ""


class SimulatedStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step as it would go."""

    number: int
    id: StepId
    description: str
    action: Action
    """With the values that are known now; `decided_later` names those that are not."""
    wave: int
    """The first wave is 1; a step of no wave (0) waits for itself and never begins."""
    waits_for: tuple[StepId, ...] = ()
    when: str | None = None
    """The step is skipped where this is false then."""
    preconditions: tuple[Precondition, ...] = ()
    for_each: ForEach | None = None
    approval: str | None = None
    """`ask` where a person is asked before it."""
    budget: Budget | None = None
    """What it may spend over all its attempts."""
    on_failure: FailurePolicy | None = None
    """Its own; else the plan's."""
    decided_later: Mapping[str, tuple[str, ...]] = {}
    """By the name of the argument, the references whose values are known only when the step begins."""
    contract: Looked | None = None
    proof: str | None = None
    """What the step must prove about its contract before it does anything."""
    usually_ms: int | None = None
    """How long the same action took before, where it ever did."""


class SimulatedFallback(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step that comes to be only after a failure."""

    id: StepId
    description: str
    action: Action
    used_by: tuple[StepId, ...] = ()
    """The steps whose own failure policy names it."""


class Simulation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run that did not happen."""

    plan_id: PlanId
    title: str
    concurrency: int
    waves: tuple[tuple[StepId, ...], ...]
    steps: tuple[SimulatedStep, ...]
    expected_ms: int | None = None
    """How long it would take, where it is known of every step how long it took before."""
    unknown_durations: int = 0
    budget: Budget | None = None
    on_failure: FailurePolicy | None = None
    """The plan's own, for steps that have none."""
    preconditions: tuple[Precondition, ...] = ()
    """What must hold before the first step."""
    fallbacks: tuple[SimulatedFallback, ...] = ()
    tasks: tuple[Assignment, ...] = ()
    """Who would perform each task, those of nested plans and of fallbacks too."""
    notices: tuple[Problem, ...] = ()
    """What is to be known besides, first of all what would be refused."""


_AS_PLANNED = frozenset(SimulatedStep.__struct_fields__) & frozenset(Step.__struct_fields__)


def simulate(
    plan: Plan,
    identity: PlanId,
    *,
    concurrency: int,
    looked: Mapping[StepId, Looked],
    usual: Mapping[str, Sequence[int]],
    tasks: tuple[Assignment, ...] = (),
) -> Simulation:
    """How a run would go. `usual` holds, by the digest of an action, how long it took before."""
    needs = waits_for(plan)
    layers = waves(needs)
    wave_of = {step: number for number, layer in enumerate(layers, start=1) for step in layer}
    steps = tuple(
        SimulatedStep(
            **{name: getattr(step, name) for name in _AS_PLANNED},
            number=number,
            wave=wave_of.get(step.id, 0),
            waits_for=needs[step.id],
            decided_later=decided_later(step),
            contract=looked.get(step.id, Looked()) if contract_of(step) is not None else None,
            usually_ms=_median(usual.get(action_digest(step.action), ())),
        )
        for number, step in enumerate(plan.steps, start=1)
    )
    users = fallbacks_for(plan)
    unknown = sum(step.usually_ms is None for step in steps)
    return Simulation(
        plan_id=identity,
        title=plan.title,
        concurrency=concurrency,
        waves=layers,
        steps=steps,
        expected_ms=None if unknown else _expected(steps, layers, concurrency),
        unknown_durations=unknown,
        budget=plan.budget,
        on_failure=plan.on_failure,
        preconditions=plan.preconditions,
        tasks=tasks,
        fallbacks=tuple(
            SimulatedFallback(id=one.id, description=one.description, action=one.action, used_by=users[one.id])
            for one in plan.fallbacks
        ),
    )


def _median(durations: Sequence[int]) -> int | None:
    return sorted(durations)[len(durations) // 2] if durations else None


def _expected(steps: Sequence[SimulatedStep], layers: Sequence[Sequence[StepId]], concurrency: int) -> int | None:
    """How long steps of these durations take, as many at once as may be; None where some step never begins."""
    if sum(map(len, layers)) < len(steps):
        return None
    ready_at: dict[StepId, int] = {}
    slots = [0] * concurrency
    end = 0
    for step in sorted(steps, key=lambda step: (step.wave, step.number)):
        free = heappop(slots)
        ready = max((ready_at[need] for need in step.waits_for), default=0)
        ready_at[step.id] = max(free, ready) + (step.usually_ms or 0)
        heappush(slots, ready_at[step.id])
        end = max(end, ready_at[step.id])
    return end


# --- Before an approval ----------------------------------------------------------------------------------------------
# What is known of preconditions and contracts then. What an earlier step may still change is not known yet.


class KnownAnswer(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "not_known_yet"


class KnownCondition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A precondition, and whether it holds now."""

    condition: Precondition
    answer: KnownAnswer
    step: StepId | None = None
    """Whose it is; the plan's own where absent."""
    detail: str = ""
    """Why it does not hold."""


class Foreknown(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All of it. Nothing of a plan is executed for robots, scripts and agents: there, nothing is known yet."""

    looked: bool = False
    preconditions: tuple[KnownCondition, ...] = ()
    holding: tuple[StepId, ...] = ()
    """The steps whose contracts hold already: they would prove nothing."""
    broken: int = 0
    """How many contracts are broken now, as they should be before their step."""
    unknown: int = 0
    """Of how many contracts it is not known yet."""
    why_unknown: str = ""
    """Why, where it is the same for all of them."""


def foreknown(
    plan: Plan,
    fault: Callable[[Precondition], str | None] | None = None,
    looked: Mapping[StepId, Looked] | None = None,
    kept: Collection[StepId] = (),
) -> Foreknown:
    """What is known. `fault` says why a precondition does not hold now; without it nobody has looked. Of steps that are
    kept from a run before a contract should hold, so it says nothing against them."""
    conditions: list[tuple[StepId | None, Precondition]] = [(None, one) for one in plan.preconditions]
    conditions += [(step.id, one) for step in plan.steps for one in step.preconditions]
    steps = {step.id: step for step in plan.steps}
    actions = [step.action for step in all_steps(plan)]
    locks = {str(action.about.target(action)) for action in actions if action.about.held}
    found = []
    for step, one in conditions:
        why = fault(one) if fault is not None and _is_settled(one, steps[step] if step else None, locks) else ""
        answer = KnownAnswer.PASS if why is None else KnownAnswer.FAIL if why else KnownAnswer.UNKNOWN
        found.append(KnownCondition(condition=one, answer=answer, step=step, detail=why or ""))
    checked = (step.id for step in plan.steps if contract_of(step) is not None and step.id not in kept)
    contracts = {step_id: (looked or {}).get(step_id, Looked()) for step_id in checked}
    verdicts = [one.verdict for one in contracts.values()]
    reasons = {one.detail for one in contracts.values() if one.verdict is None}
    return Foreknown(
        looked=fault is not None,
        preconditions=tuple(found),
        holding=tuple(name for name, one in contracts.items() if one.verdict is Verdict.HELD),
        broken=verdicts.count(Verdict.BROKEN),
        unknown=verdicts.count(None),
        why_unknown=reasons.pop() if len(reasons) == 1 else "",
    )


def _is_settled(condition: Precondition, step: Step | None, locks: set[str]) -> bool:
    """Whether no step that comes before can change what a condition says."""
    if step is None:
        return not isinstance(condition, ApprovalValid)  # which the approval itself decides
    match condition:
        case LockAvailable(lock_name=name) | LockHeld(lock_name=name):
            return name not in locks
        case ApprovalValid() | StepCompleted():
            return False
        case CustomCondition(expression=expression):
            return not _ASKS.search(expression) and not re.search(rf"\b{re.escape(item_name(step))}\b", expression)
        case _:
            return False


_ASKS = re.compile(r"\b(?:steps|data|index)\b")
"""What an expression asks about that is decided only when the run is at work."""
