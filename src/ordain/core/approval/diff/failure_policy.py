"""Whether what follows a failure became softer: more tries, or a plan that goes on where it stopped."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ordain.core.plan.concern import ConcernKind, Said, listed
from ordain.core.plan.failure import (
    Abort,
    AskApproval,
    Continue,
    Escalate,
    FailurePolicy,
    Fallback,
    LastPolicy,
    Recover,
    Replan,
    Retry,
    Skip,
)
from ordain.core.plan.model import Plan


class StepPolicy(msgspec.Struct, frozen=True):
    """What follows the failure of a step, with everything its plan says about it."""

    retry: Retry | None
    last: LastPolicy | None
    """None is what the configuration says; to abort, where it says nothing."""

    @property
    def attempts(self) -> int:
        return self.retry.max_attempts if self.retry is not None else 1

    @property
    def delays(self) -> Retry:
        return msgspec.structs.replace(self.retry or Retry(max_attempts=1), max_attempts=1, then=None)


def policy_of(own: FailurePolicy | None, plan: Plan) -> StepPolicy:
    """The policy of a step that says this, in this plan."""
    policy = own if own is not None else plan.on_failure
    if not isinstance(policy, Retry):
        return StepPolicy(None, policy)
    if policy.then is not None:
        return StepPolicy(policy, policy.then)
    of_plan = plan.on_failure
    return StepPolicy(policy, (of_plan.then or Abort()) if isinstance(of_plan, Retry) else of_plan)


_STRICT: dict[type, int] = {Skip: 0, Continue: 1, type(None): 2, AskApproval: 2, Escalate: 3, Abort: 3}
"""How much a policy stops. What else may follow does something, and nobody can tell what is stricter."""


def no_softer(old: StepPolicy, new: StepPolicy) -> bool:
    """Whether a failure stops no less than before, after no more tries."""
    if new.attempts > old.attempts or (new.attempts > 1 and old.delays != new.delays):
        return False
    before, now = _STRICT.get(type(old.last)), _STRICT.get(type(new.last), -1)
    return old.last == new.last or now == max(_STRICT.values()) or (before is not None and now > before)


def failure_changes(old: StepPolicy, new: StepPolicy) -> Iterator[Said]:
    """What is said of a policy that may be softer."""
    if new.attempts > old.attempts:
        yield "retry_raised", f"allows up to {new.attempts} attempts, not {old.attempts}"
    elif new.attempts > 1 and old.delays != new.delays:
        yield "failure_changed", "waits for another time between its tries"
    if no_softer(msgspec.structs.replace(old, retry=None), msgspec.structs.replace(new, retry=None)):
        return
    stopped = _STRICT.get(type(old.last), 0) > 1
    match new.last:
        case Skip():
            if isinstance(old.last, Skip):
                yield "failure_changed", "warns in another way when it is skipped after a failure"
            else:
                yield "failure_softened", "goes on after a failure as if it had been skipped"
        case Continue():
            yield "failure_softened", "goes on after a failure with what does not depend on it"
        case Fallback(steps=steps):
            known = set(old.last.steps) if isinstance(old.last, Fallback) else set()
            if more := [name for name in steps if name not in known]:
                yield "fallback_named", f"runs the fallback {listed(more)} after a failure"
            else:
                yield "failure_changed", "runs other fallbacks, or in another order, after a failure"
        case Replan() | Recover():
            kind: ConcernKind = "failure_softened" if stopped else "failure_changed"
            yield kind, "has a planner propose how to go on after a failure"
        case AskApproval():
            yield "failure_changed", "asks a person in other words whether to go on after a failure"
        case _:
            yield "failure_changed", "does after a failure what the configuration says"
