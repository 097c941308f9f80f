"""What is known of a plan's preconditions and contracts before anybody approves it.

Pure: who looked hands in what was seen. What an earlier step may still change is not known yet, whatever holds now.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from enum import StrEnum

import msgspec

from ordain.core.plan.condition import (
    ApprovalValid,
    CustomCondition,
    LockAvailable,
    LockHeld,
    Precondition,
    StepCompleted,
)
from ordain.core.plan.model import Plan, Step, all_steps, contract_of, item_name
from ordain.core.plan.value import StepId
from ordain.core.report.simulation import Looked
from ordain.core.run.step_event import Verdict


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
