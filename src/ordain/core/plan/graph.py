"""Who waits for whom, and who waits in a circle. Iterative throughout: a plan may hold 20,000 steps in one chain."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from ordain.core.plan.action import Task
from ordain.core.plan.command import payload
from ordain.core.plan.condition import CustomCondition, StepCompleted
from ordain.core.plan.expr import named
from ordain.core.plan.failure import Fallback, LastPolicy, Retry
from ordain.core.plan.model import Plan, Step, item_name, nested_plan_of
from ordain.core.plan.refs import StepAnsweredBy, StepExitCode, StepOutput, StoredData, Unreadable, parse, references
from ordain.core.plan.role import DataKey, value_with
from ordain.core.plan.value import StepId
from ordain.core.text.limit import EDGES_MAX, NESTED_PLANS_MAX
from ordain.core.text.problem import Problem

_Id = TypeVar("_Id", bound=str)


def dependents(needs: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """For each id, the ids that need it, in the order given."""
    found: dict[str, list[str]] = {name: [] for name in needs}
    for name, wanted in needs.items():
        for other in wanted:
            if other in found:
                found[other].append(name)
    return found


def ancestors(needs: Mapping[_Id, Iterable[_Id]], name: _Id) -> set[_Id]:
    """Everything that must come before `name`, however far away."""
    seen: set[_Id] = set()
    todo = list(needs.get(name, ()))
    while todo:
        other = todo.pop()
        if other not in seen:
            seen.add(other)
            todo.extend(needs.get(other, ()))
    return seen


def cycles(needs: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Every group of ids that need each other in a circle, each named in full; a need of itself is a circle of one."""
    # What remains after peeling off everything that can run, then everything nothing in the rest needs, is exactly
    # the circles and the paths between them; connected parts of it are reported together.
    known = {name: {other for other in wanted if other in needs} for name, wanted in needs.items()}
    rest = known.keys() - Order(known).sequence
    needed_by: dict[str, set[str]] = {name: set() for name in rest}
    for name in rest:
        for other in known[name] & rest:
            needed_by[other].add(name)
    rest = needed_by.keys() - Order(needed_by).sequence
    groups: list[list[str]] = []
    left = [name for name in known if name in rest]
    seen: set[str] = set()
    neighbours: dict[str, set[str]] = {name: set() for name in left}
    for name in left:
        for other in known[name] & neighbours.keys():
            neighbours[name].add(other)
            neighbours[other].add(name)
    for name in left:
        if name in seen:
            continue
        group, todo = {name}, [name]
        while todo:
            for other in neighbours[todo.pop()] - group:
                group.add(other)
                todo.append(other)
        seen |= group
        groups.append([member for member in left if member in group])
    return groups


# --- What a step comes after -----------------------------------------------------------------------------------------
# What it says it needs; and a reference, an expression, `reads: step:ID` and the precondition `step_completed` each
# imply that the step waits for what they name. One rule for whoever checks, shows or carries out a plan.


class ImpliedNeed(msgspec.Struct, frozen=True):
    """A step that comes after another one, not because it says so but because of what it refers to."""

    step: str
    target: str
    code: str
    text: str


def stores_of(plan: Plan) -> dict[str, list[StepId]]:
    """For each key of data, the steps of this plan that store it, nested plans left out."""
    found: dict[str, list[StepId]] = {}
    for step in (*plan.steps, *plan.fallbacks):
        if (key := value_with(step.action, DataKey)) is not None:
            found.setdefault(key, []).append(step.id)
    return found


def links(step: Step, stores: Mapping[str, Sequence[str]]) -> Iterator[ImpliedNeed]:
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
                case StepOutput(step=target) | StepExitCode(step=target) | StepAnsweredBy(step=target):
                    yield ImpliedNeed(step.id, target, "E_REF", text)
                case StoredData(key=key) if len(stores.get(key, ())) == 1:
                    yield ImpliedNeed(step.id, stores[key][0], "E_REF", text)
                case _:
                    pass
    yield from _asked(step, stores)
    if type(step.action) is Task:
        for read in step.action.reads:
            if read.startswith("step:"):
                yield ImpliedNeed(step.id, read.removeprefix("step:"), "E_REF", read)
    for condition in step.preconditions:
        if isinstance(condition, StepCompleted):
            yield ImpliedNeed(step.id, condition.step_id, "E_REF", f"step_completed: {condition.step_id}")


def _asked(step: Step, stores: Mapping[str, Sequence[str]]) -> Iterator[ImpliedNeed]:
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
                yield ImpliedNeed(step.id, target, "E_EXPR", f'steps["{target}"]')
        for key in used.data:
            if len(stores.get(key, ())) == 1:
                yield ImpliedNeed(step.id, stores[key][0], "E_EXPR", f"data.{key}")


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
                if need in steps and need != user and user not in ancestors(needs, need):
                    needs[user] = tuple(dict.fromkeys((*needs[user], need)))
    return needs


def edges_fault(plan: Plan) -> Problem | None:
    """Why the order of a plan is too much to look at; counted before anything is built of it."""
    count, todo = 0, [(plan, 0)]
    while todo:
        one, depth = todo.pop()
        stores, users = stores_of(one), users_of(one)
        for step in (*one.steps, *one.fallbacks):
            before = {*step.needs, *(link.target for link in links(step, stores))} if may_refer(step) else step.needs
            # What a fallback comes after, every step comes after that it runs for.
            count += len(before) * (1 + len(users.get(step.id, ())))
            if count > EDGES_MAX:
                detail = f"Steps of the plan wait for one another more than {EDGES_MAX:,} times."
                return Problem(code="E_PLAN_TOO_MANY_EDGES", detail=detail, hints=(_FEWER,))
            inner = nested_plan_of(step)
            if inner is not None and depth < NESTED_PLANS_MAX:
                todo.append((inner, depth + 1))
    return None


_FEWER = "Split the plan, or let many steps wait for one that waits for all the others."


def may_refer(step: Step) -> bool:
    """Whether it is worth a look: most steps refer to nothing, and a plan may have 20,000."""
    if step.for_each is not None or step.when is not None or step.preconditions or step.verification is not None:
        return True
    return type(step.action) is Task or bool(payload(step.action))


class Order:
    """The order of steps by their needs, asked of many pairs; needs that are no steps are passed over. The first
    question costs one pass with a set of bits for each step."""

    def __init__(self, needs: Mapping[Any, Iterable[str]]) -> None:
        self._needs = needs

    @cached_property
    def circles(self) -> list[list[str]]:
        """The groups of steps that need each other."""
        seen: set[str] = set()
        for name, wanted in self._needs.items():
            if not seen.issuperset(wanted):
                return cycles(self._needs)
            seen.add(name)
        return []  # everything needs only what stands before it, as in most plans

    @cached_property
    def sequence(self) -> list[str]:
        """The steps in an order that respects their needs; those in circles are left out."""
        waiting = {name: len({need for need in wanted if need in self._needs}) for name, wanted in self._needs.items()}
        needed_by = dependents({name: set(wanted) for name, wanted in self._needs.items()})
        done = [name for name, count in waiting.items() if count == 0]
        for name in done:
            for other in needed_by[name]:
                waiting[other] -= 1
                if waiting[other] == 0:
                    done.append(other)
        return done

    @cached_property
    def _position(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.sequence)}

    @cached_property
    def _ancestors(self) -> list[int]:
        """For each position, the positions before it as bits."""
        masks: list[int] = []
        for name in self.sequence:
            mask = 0
            for position in (self._position[need] for need in self._needs[name] if need in self._position):
                mask |= masks[position] | 1 << position
            masks.append(mask)
        return masks

    def before(self, first: str, then: str) -> bool:
        """Whether `then` starts only after `first` has ended."""
        one = self._position.get(first)
        return one is not None and self.after_any(1 << one, then)

    def mask(self, names: Iterable[str]) -> int:
        """These steps as bits, to ask about all of them at once."""
        data = bytearray(len(self._position) // 8 + 1)
        for position in (self._position[name] for name in names if name in self._position):
            data[position // 8] |= 1 << position % 8
        return int.from_bytes(data, "little")

    def after_any(self, mask: int, then: str) -> bool:
        """Whether one of the steps in the mask ends before `then` starts."""
        return then in self._position and bool(self._ancestors[self._position[then]] & mask)

    def sort_key(self, name: str) -> int:
        """By which steps are sorted into an order that respects their needs."""
        return self._position.get(name, -1)

    def before_all(self, names: Iterable[str]) -> Container[str]:
        """The steps that each of these is, or starts only after."""
        mask = -1
        for position in {self._position.get(name, -1) for name in names}:
            mask &= self._ancestors[position] | 1 << position if position >= 0 else 0
        return {name for name, position in self._position.items() if mask >> position & 1}
