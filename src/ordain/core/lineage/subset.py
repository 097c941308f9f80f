"""Whether a successor does nothing but what was approved before, so that nobody need be asked about it.

All must be the same, byte for byte, but for steps that are left out, lower limits, and needs that are added. A step may
be left out where nothing was seen by it: a command's exit status is a check like any other, and so is what failed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ordain.core.plan.action import CallTool, Task
from ordain.core.plan.canonical import canonical_bytes
from ordain.core.plan.graph import needs_of
from ordain.core.plan.model import Budget, Plan, Step
from ordain.core.plan.role import about
from ordain.core.plan.value import StepId

_LOWERED = ("timeout_ms", "concurrency")
"""Fields that may have a lower value than what was approved."""
_BESIDE = frozenset({"steps", "fallbacks", "budget", "needs", *_LOWERED})
"""Fields that are compared in their own way; all others must be the same."""
_LEFT_OUT = (CallTool, Task)
"""Actions that a later one may leave out: of all others the end itself is looked at, awaited or given back."""


def subset_faults(approved: Plan, new: Plan, failed: Collection[StepId] = ()) -> tuple[str, ...]:
    """Why a person must be asked about a plan although all of this one was approved; `failed` did not pass there."""
    return tuple(dict.fromkeys(_faults(approved, new, failed)))


def _faults(approved: Plan, new: Plan, failed: Collection[StepId]) -> Iterator[str]:
    yield from _fields(approved, new, "the plan")
    known, fallbacks = {step.id: step for step in approved.steps}, {step.id: step for step in approved.fallbacks}
    for step in new.steps:
        name = f"`{step.id}`"
        yield from _fields(known[step.id], step, name) if step.id in known else [f"{name} was not approved"]
    for step in new.fallbacks:
        if step.id not in fallbacks or canonical_bytes(fallbacks[step.id]) != canonical_bytes(step):
            yield f"the fallback `{step.id}` is not as it was approved"
    yield from _order(approved, new)
    here = {step.id for step in new.steps}
    for step in approved.steps:
        if step.id not in here:
            yield from _gone(step, failed)


def _fields(old: Step | Plan, new: Step | Plan, whose: str) -> Iterator[str]:
    for name in old.__struct_fields__:
        before, now = getattr(old, name), getattr(new, name)
        if name not in _BESIDE and canonical_bytes(before) != canonical_bytes(now):
            yield f"{whose} has another `{name}`"
        elif name in _LOWERED and before != now and (before is None or now is None or now > before):
            yield f"{whose} has a `{name}` that is not lower"
    yield from (f"{whose} {said}" for said in _budget(old.budget, new.budget))


def _budget(old: Budget | None, new: Budget | None) -> Iterator[str]:
    for name in Budget.__struct_fields__:
        before, now = getattr(old or Budget(), name), getattr(new or Budget(), name)
        if before is not None and (now is None or now > before):
            yield f"has a higher budget of `{name}`"


def _order(approved: Plan, new: Plan) -> Iterator[str]:
    here = {step.id for step in new.steps}
    places = {step.id: place for place, step in enumerate(approved.steps)}
    order = [places[step.id] for step in new.steps if step.id in places]
    if order != sorted(order) or len(set(order)) != len(order):
        yield "the steps are not in the order that was approved"
    before, now = needs_of(approved), needs_of(new)
    for name in (step.id for step in new.steps if step.id in places):
        for need in before[name]:
            if need not in now[name]:
                yield f"`{name}` no longer waits for `{need}`" + ("" if need in here else ", which is gone")


def _gone(step: Step, failed: Collection[StepId]) -> Iterator[str]:
    """Why a step cannot be left out unasked."""
    if step.id in failed:
        yield f"`{step.id}` did not pass and is gone"
    checks = ("verification", "preconditions", "happened", "approval", "proof", "protect")
    yield from (f"`{step.id}` is gone, and its `{name}` with it" for name in checks if getattr(step, name))
    if not isinstance(step.action, _LEFT_OUT) or about(step.action).asks:
        yield f"`{step.id}` is gone, and how it ends was looked at"
