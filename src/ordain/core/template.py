"""From a template to the plan that is hashed: parameters get values, and steps over a list known now become steps.

A plan with `params` is a template. Filling it in puts each value where it is referred to, and makes one step of each
item (or batch of items) of a repeated step whose list is a parameter. What comes out refers to no parameter, so that
what is approved is what is seen. The parameters themselves stay only where an expression asks for them, with their
values as defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from ordain.core.action import RunCommand, Task
from ordain.core.bound import ID_LENGTH_MAX
from ordain.core.condition import CustomCondition, Precondition, StepCompleted
from ordain.core.expr import named
from ordain.core.failure import FailurePolicy, Fallback, Retry
from ordain.core.model import Action, ForEach, NestedPlan, Parameter, Plan, Step
from ordain.core.params import values_of
from ordain.core.payload import with_payload
from ordain.core.problem import Place, Problem
from ordain.core.refs import Index, Item, ParamValue, Reference, StepExitCode, StepOutput, Unreadable, parse, spelt
from ordain.core.resolve import KEPT, Written, as_text, part, resolved
from ordain.core.value import StepId

__all__ = ["Filled", "fill"]


class Filled(msgspec.Struct, frozen=True, kw_only=True):
    """A plan without open parameters. `origin` says which step of the template each generated step comes from."""

    plan: Plan
    origin: Mapping[str, str] = {}


# --- Filling in ------------------------------------------------------------------------------------------------------


def fill(
    plan: Plan, given: Mapping[str, Any] | None = None, files: Mapping[str, Sequence[str]] | None = None
) -> Filled | tuple[Problem, ...]:
    """The plan that a template becomes with these values, or everything that keeps it from becoming one.

    `files` are the names of files that each pattern of `file_patterns` matches. A plan without parameters is returned
    as it is.
    """
    if not given and not plan.params and not any(isinstance(step.action, NestedPlan) for step in plan.steps):
        return Filled(plan=plan)
    values, problems = values_of(plan, given or {}, files or {})
    if problems:
        return tuple(problems)
    template = _Template(plan, values, files or {})
    made = template.filled()
    return tuple(template.problems) or Filled(plan=made, origin=template.origin)


class _Template:
    """Fills in one plan."""

    def __init__(self, plan: Plan, values: Mapping[str, Any], files: Mapping[str, Sequence[str]]) -> None:
        self.plan, self.values, self.files = plan, values, files
        self.problems: list[Problem] = []
        self.origin: dict[str, str] = {}
        self.groups: dict[str, tuple[Step, ...]] = {}
        """What has become of each step that was repeated over a list known now."""

    def filled(self) -> Plan:
        plan = self.plan
        taken = {step.id for step in (*plan.steps, *plan.fallbacks)}
        for step in (*plan.steps, *plan.fallbacks):
            known = self._known_list(step)
            if known is not None and step.for_each is not None:
                self.groups[step.id] = tuple(self._generated(step, step.for_each, known, taken))
        self._refuse_groups_in_expressions()
        return replace(
            plan,
            steps=tuple(self._step(step) for one in plan.steps for step in self.groups.get(one.id, (one,))),
            fallbacks=tuple(self._step(step) for one in plan.fallbacks for step in self.groups.get(one.id, (one,))),
            preconditions=self._preconditions(plan.preconditions),
            on_failure=self._policy(plan.on_failure),
            params=self._params_left(),
        )

    def _params_left(self) -> dict[str, Parameter]:
        """The parameters that expressions ask for, with their values."""
        asked = {name for _, expression, _ in _expressions(self.plan) for name in named(expression).params}
        return {
            name: Parameter(type=parameter.type, description=parameter.description, default=self.values.get(name))
            for name, parameter in self.plan.params.items()
            if name in asked
        }

    def _add(self, code: str, detail: str, step: str | None, *hints: str) -> None:
        self.problems.append(Problem(code=code, detail=detail, where=Place(step=step) if step else None, hints=hints))

    # --- Steps ---

    def _step(self, step: Step) -> Step:
        """A step with values in place of parameters, and what it says of repeated steps said of what they became."""
        item = step.for_each.name or "item" if step.for_each is not None else "item"
        return replace(
            step,
            action=self._action(step, item),
            needs=tuple(sorted({need for one in step.needs for need in self._instances(one)})),
            for_each=self._for_each(step),
            preconditions=self._preconditions(step.preconditions),
            on_failure=self._policy(step.on_failure),
        )

    def _instances(self, step: StepId) -> Iterator[StepId]:
        """What a need of a step has become; a need of a step over an empty list is one of what that step needs."""
        if step not in self.groups:
            yield step
        elif self.groups[step]:
            yield from (one.id for one in self.groups[step])
        else:
            origin = next(one for one in (*self.plan.steps, *self.plan.fallbacks) if one.id == step)
            for need in origin.needs:
                if need != step:
                    yield from self._instances(need)

    def _action(self, step: Step, item: str) -> Action:
        match step.action:
            case Task(reads=reads):
                return replace(step.action, reads=tuple(one for read in reads for one in self._reads(read)))
            case NestedPlan(plan=plan):
                inner = fill(plan, {}, self.files)
                if isinstance(inner, Filled):
                    return NestedPlan(plan=inner.plan)
                for problem in inner:
                    self._add(problem.code, f"{problem.detail} It is of a nested plan.", step.id, *problem.hints)
                return step.action
            case action:
                return _put_in(action, lambda reference, whole: self._value(reference, step, whole=whole), item)

    def _value(self, reference: Reference, step: Step, *, whole: bool = True) -> Any:
        """What stands in place of a reference; results of other steps are known only when they have run."""
        match reference.source:
            case ParamValue(name=name) if name in self.values:
                return self.values[name]
            case ParamValue(name=name) if name in self.plan.params:
                if reference.default is None:
                    detail = f"`{spelt(reference)}` has no value: the parameter is neither given nor has it a default."
                    self._add("E_PARAM", detail, step.id, f'Write `--param {name}=…`, or a default: `?? "none"`.')
                    return KEPT
                return reference.default.value
            case StepOutput(step=other, path=path) if other in self.groups:
                return self._results(reference, other, path, step, whole=whole)
            case StepExitCode(step=other) if other in self.groups:
                detail = f"`{spelt(reference)}`: the step becomes one step for each item, and each has its own."
                self._add("E_REF", detail, step.id)
                return KEPT
            case _:
                return KEPT

    def _results(
        self, reference: Reference, group: str, path: tuple[str | int, ...], step: Step, *, whole: bool
    ) -> Any:
        """The list of the results of a generated group, or one of them."""
        steps = self.groups[group]
        if not path and whole:
            return Written([f"${{{one.id}.output}}" for one in steps])
        index = path[0] if path else None
        if isinstance(index, int) and index < len(steps):
            source = StepOutput(step=steps[index].id, path=path[1:])
            return Written(spelt(Reference(source=source, default=reference.default)))
        if reference.default is not None:
            return reference.default.value
        detail = f"`{spelt(reference)}`: `{group}` becomes {len(steps)} steps, whose results are a list."
        self._add("E_REF", detail, step.id, f"Name all of them, `${{{group}.output}}` alone, or one by its number.")
        return KEPT

    def _reads(self, read: str) -> Iterator[str]:
        kind, _, name = read.partition(":")
        if kind == "step" and name in self.groups:
            yield from (f"step:{one.id}" for one in self.groups[name])
        else:
            yield read

    def _preconditions(self, conditions: tuple[Precondition, ...]) -> tuple[Precondition, ...]:
        made: list[Precondition] = []
        for condition in conditions:
            if isinstance(condition, StepCompleted) and condition.step_id in self.groups:
                made += [StepCompleted(step_id=one.id) for one in self.groups[condition.step_id]]
            else:
                made.append(condition)
        return tuple(made)

    def _policy(self, policy: FailurePolicy | None) -> FailurePolicy | None:
        match policy:
            case Fallback(steps=steps):
                return Fallback(steps=tuple(one for step in steps for one in self._instances(step)))
            case Retry(then=Fallback(steps=steps)):
                return replace(
                    policy, then=Fallback(steps=tuple(one for step in steps for one in self._instances(step)))
                )
            case _:
                return policy

    # --- Steps over a list that is known now ---

    def _known_list(self, step: Step) -> list[Any] | None:
        """The items of a repeated step whose list is a parameter; None where it is known only at run time."""
        if step.for_each is None:
            return None
        reference = parse(step.for_each.source)
        if isinstance(reference, Unreadable) or not isinstance(reference.source, ParamValue):
            return None
        value = self._value(reference, step)
        if value is KEPT:
            return None
        if not isinstance(value, list | tuple):
            detail = f"`{step.for_each.source}` is no list, and the step is to be repeated over it."
            self._add("E_PARAM", detail, step.id, "Give the parameter the type `list`.")
            return None
        return list(value)

    def _for_each(self, step: Step) -> ForEach | None:
        return None if step.id in self.origin else step.for_each

    def _generated(self, step: Step, each: ForEach, items: list[Any], taken: set[StepId]) -> Iterator[Step]:
        batches = [items[at : at + each.batch] for at in range(0, len(items), each.batch)] if each.batch else items
        if len(batches) > each.max:
            detail = f"The list has {len(batches)} items, and `for_each` allows {each.max}."
            self._add("E_STEP_LIMIT", detail, step.id, "Raise `max`, or take a larger `batch`.")
            return
        self._refuse_item_in_expressions(step, each)
        names: list[StepId] = []
        for index, value in enumerate(batches):
            name = StepId(f"{step.id}-{index + 1}")
            if name in taken or len(name) > ID_LENGTH_MAX:
                wrong = "is already that of another step" if name in taken else f"is over {ID_LENGTH_MAX} characters"
                self._add("E_STEP_ID", f"The id `{name}` of a generated step {wrong}.", step.id)
                return
            names.append(name)
            self.origin[name] = step.id
            # A bound of its own becomes an order: each waits for the one that far before it.
            waits = (names[index - each.concurrency],) if each.concurrency and index >= each.concurrency else ()
            yield replace(
                step,
                id=name,
                description=f"{step.description} ({index + 1} of {len(batches)})",
                needs=(*step.needs, *waits),
                action=_with_item(step.action, each.name or "item", value, index),
            )

    def _refuse_groups_in_expressions(self) -> None:
        for step, expression, field in _expressions(self.plan):
            for name in named(expression).steps:
                if name in self.groups:
                    detail = f"`{field}` asks for `{name}`, which becomes {len(self.groups[name])} steps."
                    self._add("E_EXPR", detail, step.id if step is not None else None)

    def _refuse_item_in_expressions(self, step: Step, each: ForEach) -> None:
        for owner, expression, field in _expressions(self.plan):
            if owner is step and {each.name or "item", "index"} & set(named(expression).others):
                detail = f"`{field}` asks for the item, which an expression of a generated step does not know."
                self._add("E_EXPR", detail, step.id)


def _with_item(action: Action, name: str, value: Any, index: int) -> Action:
    """The action for one item: the item and its index are put in, everything else stays."""

    def resolve(reference: Reference, whole: bool) -> Any:
        match reference.source:
            case Item(path=path):
                try:
                    return part(value, path)
                except LookupError:
                    return KEPT if reference.default is None else reference.default.value
            case Index():
                return index
            case _:
                return KEPT

    return _put_in(action, resolve, name)


def _put_in(action: Action, resolve: Callable[[Reference, bool], Any], item: str) -> Action:
    made = with_payload(action, lambda value: resolved(value, resolve, item))
    if isinstance(made, RunCommand) and made.env:
        return replace(made, env={name: _for_env(value) for name, value in made.env.items()})
    return made


def _for_env(value: Any) -> str:
    """A value as a variable holds it: a list of texts one on each line, anything else as text."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "\n".join(value)
    return as_text(value)


def _expressions(plan: Plan) -> Iterator[tuple[Step | None, str, str]]:
    """Every expression of a plan's own, with the step it belongs to and what it is."""
    for condition in plan.preconditions:
        if isinstance(condition, CustomCondition):
            yield None, condition.expression, "preconditions"
    for step in (*plan.steps, *plan.fallbacks):
        if step.when is not None:
            yield step, step.when, "when"
        for condition in step.preconditions:
            if isinstance(condition, CustomCondition):
                yield step, condition.expression, "preconditions"
        strategy = step.verification.strategy if step.verification is not None else None
        if isinstance(strategy, CustomCondition):
            yield step, strategy.expression, "verify"
