"""What a step comes after: what it says it needs, and what it refers to.

A reference, an expression, `reads: step:ID` and the precondition `step_completed` each imply that the step waits for
what they name. One rule for whoever checks, shows or carries out a plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ordain.core.action import StoreData, Task
from ordain.core.condition import CustomCondition, StepCompleted
from ordain.core.expr import named
from ordain.core.failure import Fallback, LastPolicy, Retry
from ordain.core.graph import ancestors
from ordain.core.model import Plan, Step
from ordain.core.payload import payload
from ordain.core.refs import StepExitCode, StepOutput, StoredData, Unreadable, parse, references
from ordain.core.value import StepId

__all__ = ["Link", "item_name", "links", "may_refer", "needs_of", "stores_of", "users_of"]


class Link(msgspec.Struct, frozen=True):
    """A step that comes after another one, not because it says so but because of what it refers to."""

    step: str
    target: str
    code: str
    text: str


def item_name(step: Step) -> str:
    """What the item is called in a step, if it is repeated."""
    return step.for_each.name or "item" if step.for_each is not None else "item"


def stores_of(plan: Plan) -> dict[str, list[StepId]]:
    """For each key of data, the steps of this plan that store it, nested plans left out."""
    found: dict[str, list[StepId]] = {}
    for step in (*plan.steps, *plan.fallbacks):
        if type(step.action) is StoreData:
            found.setdefault(step.action.key, []).append(step.id)
    return found


def links(step: Step, stores: Mapping[str, Sequence[str]]) -> Iterator[Link]:
    """Whom a step comes after because of what it refers to, as it is written; whether it is there is not asked. Data is
    stored by a step too; where several store it, the plan must say in which order."""
    item = item_name(step)
    values = payload(step.action)
    places = [(values, item)] if values else []
    if step.for_each is not None:
        places.append((step.for_each.source, "item"))
    for value, name in places:
        for text in references(value, name):
            reference = parse(text, name)
            if isinstance(reference, Unreadable):
                continue
            match reference.source:
                case StepOutput(step=target) | StepExitCode(step=target):
                    yield Link(step.id, target, "E_REF", text)
                case StoredData(key=key) if len(stores.get(key, ())) == 1:
                    yield Link(step.id, stores[key][0], "E_REF", text)
                case _:
                    pass
    yield from _asked(step, stores)
    if type(step.action) is Task:
        for read in step.action.reads:
            if read.startswith("step:"):
                yield Link(step.id, read.removeprefix("step:"), "E_REF", read)
    for condition in step.preconditions:
        if isinstance(condition, StepCompleted):
            yield Link(step.id, condition.step_id, "E_REF", f"step_completed: {condition.step_id}")


def _asked(step: Step, stores: Mapping[str, Sequence[str]]) -> Iterator[Link]:
    """The same for what a step's expressions ask about."""
    expressions = [(one.expression, False) for one in step.preconditions if isinstance(one, CustomCondition)]
    if step.when is not None:
        expressions.append((step.when, False))
    if step.verification is not None and isinstance(step.verification.strategy, CustomCondition):
        expressions.append((step.verification.strategy.expression, True))
    for expression, after in expressions:
        used = named(expression)
        for target in used.steps:
            if not (after and target == step.id):
                yield Link(step.id, target, "E_EXPR", f'steps["{target}"]')
        for key in used.data:
            if len(stores.get(key, ())) == 1:
                yield Link(step.id, stores[key][0], "E_EXPR", f"data.{key}")


def users_of(plan: Plan) -> dict[str, set[str]]:
    """For each fallback, the steps whose own policy names it."""
    found: dict[str, set[str]] = {step.id: set() for step in plan.fallbacks}
    if found:
        for step in (*plan.steps, *plan.fallbacks):
            last: LastPolicy | None = step.on_failure.then if isinstance(step.on_failure, Retry) else step.on_failure
            if isinstance(last, Fallback):
                for name in last.steps:
                    found.setdefault(name, set()).add(step.id)
    return found


def needs_of(plan: Plan) -> dict[StepId, tuple[StepId, ...]]:
    """What each step of a plan waits for, fallbacks left out: its own needs, and what references imply. A fallback runs
    for the steps that name it, so what it refers to comes before those, and what it needs unless that comes after."""
    steps = {step.id for step in plan.steps}
    implied: dict[StepId, list[StepId]] = {}
    stores = stores_of(plan)
    for step in plan.steps:
        if may_refer(step):
            implied[step.id] = [StepId(link.target) for link in links(step, stores) if link.target in steps]
    users = users_of(plan)
    for fallback in plan.fallbacks:
        for link in links(fallback, stores):
            for user in users[fallback.id]:
                if user in steps and link.target in steps and user != link.target:
                    implied.setdefault(StepId(user), []).append(StepId(link.target))
    needs = {step.id: step.needs for step in plan.steps}
    for name, found in implied.items():
        needs[name] = tuple(dict.fromkeys((*needs[name], *found)))
    for fallback in plan.fallbacks:
        for user in map(StepId, users[fallback.id]):
            for need in fallback.needs if user in steps else ():
                if need in steps and need != user and not _comes_before(needs, user, need):
                    needs[user] = tuple(dict.fromkeys((*needs[user], need)))
    return needs


def _comes_before(needs: Mapping[StepId, tuple[StepId, ...]], first: StepId, then: StepId) -> bool:
    return first in ancestors({str(name): found for name, found in needs.items()}, then)


def may_refer(step: Step) -> bool:
    """Whether it is worth a look: most steps refer to nothing, and a plan may have 20,000."""
    if step.for_each is not None or step.when is not None or step.preconditions or step.verification is not None:
        return True
    return type(step.action) is Task or bool(payload(step.action))
