"""From a template to the plan that is hashed: parameters get values, and steps over a list known now become steps.

What comes out refers to no parameter, so that what is approved is what is seen. Parameters stay only where an
expression asks for them, with their values as defaults.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import replace

from ordain.core.plan.action import Task
from ordain.core.plan.command import command_of, with_payload
from ordain.core.plan.condition import CustomCondition, Precondition, StepCompleted
from ordain.core.plan.expr import named
from ordain.core.plan.failure import FailurePolicy, Fallback, Retry
from ordain.core.plan.model import Action, ForEach, NestedPlan, Parameter, Plan, Step, item_name
from ordain.core.plan.refs import (
    KEPT,
    Index,
    Item,
    ParamValue,
    Reference,
    Resolve,
    StepAnsweredBy,
    StepExitCode,
    StepOutput,
    Unreadable,
    Unwritable,
    WrittenReference,
    as_text,
    as_variable,
    parse,
    part,
    references,
    resolved,
    spelt,
)
from ordain.core.plan.value import StepId
from ordain.core.text.limit import DOCUMENT_BYTES_MAX, ID_LENGTH_MAX, STEPS_MAX
from ordain.core.text.problem import Place, Problem, closest

# --- Values of parameters --------------------------------------------------------------------------------------------

_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "list": (list, tuple),
}


def fits(parameter: Parameter, value: Any) -> bool:
    """Whether a value is of a parameter's type."""
    return isinstance(value, _TYPES[parameter.type]) and (parameter.type == "boolean" or not isinstance(value, bool))


def file_patterns(plan: Plan) -> frozenset[str]:
    """The patterns of files whose names a template wants, for a probe to look up."""
    found = {parameter.files for parameter in plan.params.values() if parameter.files is not None}
    for step in (*plan.steps, *plan.fallbacks):
        if isinstance(step.action, NestedPlan):
            found |= file_patterns(step.action.plan)
    return frozenset(found)


def values_of(
    plan: Plan, given: Mapping[str, Any], files: Mapping[str, Sequence[str]], unread: Collection[str] = ()
) -> tuple[dict[str, Any], list[Problem]]:
    """The value of each parameter that has one, and what is wrong; what is `unread` was refused already."""
    problems = []
    for name in given.keys() - plan.params.keys():
        hints = closest(name, plan.params)
        if plan.params and not hints:
            hints = (f"Its parameters: {', '.join(f'`{one}`' for one in list(plan.params)[:20])}.",)
        problems.append(Problem(code="E_PARAM", detail=f"The plan has no parameter `{name}`.", hints=hints))
    values: dict[str, Any] = {}
    for name, parameter in plan.params.items():
        if name in given:
            if fits(parameter, given[name]):
                values[name] = given[name]
            else:
                shown = as_text(given[name])[:60]
                detail = f"`{shown}` is no value for the parameter `{name}`, which is of type {parameter.type}."
                problems.append(Problem(code="E_PARAM", detail=detail, hints=_typing(name, parameter)))
        elif parameter.files is not None:
            values[name] = list(files.get(parameter.files, ()))
        elif parameter.default is not None:
            values[name] = parameter.default
        elif parameter.required and name not in unread:
            problems.append(missing_value(name, parameter))
    return values, problems


def missing_value(name: str, parameter: Parameter) -> Problem:
    """That a parameter has no value, and how to give it one."""
    detail = f"The plan wants a value for the parameter `{name}`."
    hints = (*((parameter.description,) if parameter.description else ()), *_typing(name, parameter))
    return Problem(code="E_PARAM", detail=detail, hints=hints)


def _typing(name: str, parameter: Parameter) -> tuple[str, ...]:
    example = {"string": "text", "integer": "3", "number": "1.5", "boolean": "true", "list": "one"}[parameter.type]
    several = f" --param {name}=two" if parameter.type == "list" else ""
    return (f"Write `--param {name}={example}{several}`.",)


# --- Filling in ------------------------------------------------------------------------------------------------------

_NEEDS_MAX = 20 * STEPS_MAX


class Filled(msgspec.Struct, frozen=True, kw_only=True):
    """A plan without open parameters. `origin` says which step of the template each generated step comes from."""

    plan: Plan
    origin: Mapping[str, str] = {}


def fill(
    plan: Plan,
    given: Mapping[str, Any] | None = None,
    files: Mapping[str, Sequence[str]] | None = None,
    unread: Collection[str] = (),
) -> Filled | tuple[Problem, ...]:
    """The plan that a template becomes with these values, or everything that keeps it from becoming one.

    `files` are those that each pattern of `file_patterns` matches; `unread` are parameters whose values were refused.
    """
    nested = any(isinstance(step.action, NestedPlan) for step in (*plan.steps, *plan.fallbacks))
    if not given and not plan.params and not nested and not unread:
        return Filled(plan=plan)
    values, problems = values_of(plan, given or {}, files or {}, unread)
    if problems or unread:
        return tuple(problems)
    template = _Template(plan, values, files or {})
    made = template.filled()
    return tuple(template.problems) if made is None or template.problems else Filled(plan=made, origin=template.origin)


class _Template:
    def __init__(self, plan: Plan, values: Mapping[str, Any], files: Mapping[str, Sequence[str]]) -> None:
        self.plan, self.values, self.files = plan, values, files
        self.problems: list[Problem] = []
        self.origin: dict[str, str] = {}
        self.groups: dict[str, tuple[Step, ...]] = {}
        """What has become of each step that was repeated over a list known now."""
        self.originals = {step.id: step for step in (*plan.steps, *plan.fallbacks)}
        self._repeated_over: set[str] = set()
        """Parameters over whose items steps are repeated at run time."""
        self._became: dict[StepId, tuple[StepId, ...]] = {}
        self._room = DOCUMENT_BYTES_MAX

    def filled(self) -> Plan | None:
        """The plan with its values, or None where it would be no plan or too large a one."""
        plan = self.plan
        taken = {step.id for step in self.originals.values()}
        room = STEPS_MAX - len(self.originals)
        for step in self.originals.values():
            known = self._known_list(step)
            if known is not None and step.for_each is not None and not self._stays(step.for_each, step, len(known)):
                made = tuple(islice(self._generated(step, step.for_each, known, taken), room + 1))
                self.groups[step.id] = made
                room -= len(made)
                if room < 0:
                    self._add("E_PLAN_TOO_MANY_STEPS", f"The plan becomes more than {STEPS_MAX:,} steps.", step.id)
                    return None
        self._refuse_groups_in_expressions()
        if self.problems or self._needs_too_many():
            return None
        return replace(
            plan,
            steps=tuple(self._step(step) for one in plan.steps for step in self.groups.get(one.id, (one,))),
            fallbacks=tuple(self._step(step) for one in plan.fallbacks for step in self.groups.get(one.id, (one,))),
            preconditions=self._preconditions(plan.preconditions),
            on_failure=self._policy(plan.on_failure),
            params=self._params_left(),
        )

    def _params_left(self) -> dict[str, Parameter]:
        asked = {name for _, expression, _ in _expressions(self.plan) for name in named(expression).params}
        asked |= self._repeated_over
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
        item = item_name(step)
        return replace(
            step,
            action=self._action(step, item),
            needs=tuple(sorted({need for one in step.needs for need in self._instances(one)})),
            for_each=None if step.id in self.origin else step.for_each,
            preconditions=self._preconditions(step.preconditions),
            on_failure=self._policy(step.on_failure),
        )

    def _instances(self, step: StepId) -> tuple[StepId, ...]:
        """What a need of a step has become; a need of a step over an empty list is one of what that step needs."""
        if step not in self._became:
            found: dict[StepId, None] = {}
            seen, todo = {step}, [step]
            while todo:
                one = todo.pop()
                if one in self.groups and not self.groups[one]:
                    todo += [need for need in self.originals[one].needs if need not in seen]
                    seen.update(self.originals[one].needs)
                else:
                    found |= dict.fromkeys(made.id for made in self.groups[one]) if one in self.groups else {one: None}
            self._became[step] = tuple(found)
        return self._became[step]

    def _needs_too_many(self) -> bool:
        """Whether so many steps would need so many others that nobody could read it."""
        count = 0
        for step in self.originals.values():
            times = len(self.groups[step.id]) if step.id in self.groups else 1
            count += times * sum(len(self._instances(need)) for need in step.needs)
            if count > _NEEDS_MAX:
                self._add("E_STEP_LIMIT", f"The steps would have more than {_NEEDS_MAX:,} needs.", step.id)
                return True
        return False

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
                resolve = self._within_room(lambda reference, whole: self._value(reference, step, whole=whole))
                return self._put_in(step, action, resolve, item)

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
            case StepExitCode(step=other) | StepAnsweredBy(step=other) if other in self.groups:
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
            return WrittenReference([f"${{{one.id}.output}}" for one in steps])
        index = path[0] if path else None
        if isinstance(index, int) and index < len(steps):
            source = StepOutput(step=steps[index].id, path=path[1:])
            return WrittenReference(spelt(Reference(source=source, default=reference.default)))
        if reference.default is not None:
            return reference.default.value
        detail = f"`{spelt(reference)}`: `{group}` becomes {len(steps)} steps, whose results are a list."
        self._add("E_REF", detail, step.id, f"Name all of them, `${{{group}.output}}` alone, or one by its number.")
        return KEPT

    def _reads(self, read: str) -> list[str]:
        kind, _, name = read.partition(":")
        return [f"step:{one.id}" for one in self.groups[name]] if kind == "step" and name in self.groups else [read]

    def _preconditions(self, conditions: tuple[Precondition, ...]) -> tuple[Precondition, ...]:
        made: list[Precondition] = []
        for one in conditions:
            group = self.groups.get(one.step_id) if isinstance(one, StepCompleted) else None
            made += [one] if group is None else [StepCompleted(step_id=step.id) for step in group]
        return tuple(made)

    def _policy(self, policy: FailurePolicy | None) -> FailurePolicy | None:
        match policy:
            case Fallback(steps=steps):
                return replace(policy, steps=tuple(one for step in steps for one in self._instances(step)))
            case Retry(then=Fallback() as last):
                return replace(policy, then=self._policy(last))
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
        if isinstance(value, list | tuple):
            return list(value)
        if value is not KEPT:
            detail = f"`{step.for_each.source}` is no list, and the step is to be repeated over it."
            self._add("E_PARAM", detail, step.id, "Give the parameter the type `list`.")
        return None

    def _stays(self, each: ForEach, step: Step, count: int) -> bool:
        """Whether a step is repeated at run time although its list is known: only then `concurrency` can be kept."""
        if each.concurrency is None:
            return False
        count = -(-count // each.batch) if each.batch else count
        if count > each.max:
            self._too_many(each, step, count)
        reference = parse(each.source)
        if isinstance(reference, Reference) and isinstance(reference.source, ParamValue):
            self._repeated_over.add(reference.source.name)
        return True

    def _too_many(self, each: ForEach, step: Step, count: int) -> None:
        detail = f"The list has {count} items, and `for_each` allows {each.max}."
        self._add("E_STEP_LIMIT", detail, step.id, "Raise `max`, or take a larger `batch`.")

    def _generated(self, step: Step, each: ForEach, items: list[Any], taken: set[StepId]) -> Iterator[Step]:
        batches = [items[at : at + each.batch] for at in range(0, len(items), each.batch)] if each.batch else items
        if len(batches) > each.max:
            self._too_many(each, step, len(batches))
            return
        self._refuse_item_elsewhere(step, each)
        for index, value in enumerate(batches):
            name = StepId(f"{step.id}-{index + 1}")
            if name in taken or len(name) > ID_LENGTH_MAX:
                wrong = "is already that of another step" if name in taken else f"is over {ID_LENGTH_MAX} characters"
                self._add("E_STEP_ID", f"The id `{name}` of a generated step {wrong}.", step.id)
                return
            self.origin[name] = step.id
            yield replace(
                step,
                id=name,
                description=f"{step.description} ({index + 1} of {len(batches)})",
                action=self._with_item(step, each.name or "item", value, index),
            )

    def _with_item(self, step: Step, name: str, value: Any, index: int) -> Action:
        """The action for one item: the item and its index are put in, everything else stays."""

        def resolve(reference: Reference, whole: bool) -> Any:
            match reference.source:
                case Item(path=path):
                    try:
                        return part(value, path)
                    except LookupError:
                        if reference.default is not None:
                            return reference.default.value
                        detail = f"`{spelt(reference)}`: item {index + 1} of the list has no such part."
                        self._add("E_REF", detail, step.id, 'Correct the name, or give a default: `?? "none"`.')
                        return KEPT
                case Index():
                    return index
                case _:
                    return KEPT

        return self._put_in(step, step.action, self._within_room(resolve), name)

    def _put_in(self, step: Step, action: Action, resolve: Resolve, item: str) -> Action:
        is_command = command_of(action) is not None

        def change(value: Any) -> Any:
            made = resolved(value, resolve, item)
            return {name: as_variable(one) for name, one in made.items()} if is_command else made

        try:
            return with_payload(action, change)
        except Unwritable as fault:
            self._add("E_PARAM", f"With these values {fault}.", step.id)
            return action

    def _within_room(self, resolve: Resolve) -> Resolve:
        """The same, until what was put in altogether is as much as a document may hold."""

        def bounded(reference: Reference, whole: bool) -> Any:
            found = resolve(reference, whole)
            if found is not KEPT:
                self._room -= _size(found.value if isinstance(found, WrittenReference) else found)
                if self._room < 0:
                    raise Unwritable(f"the plan becomes larger than {DOCUMENT_BYTES_MAX:,} bytes")
            return found

        return bounded

    def _refuse_groups_in_expressions(self) -> None:
        for step, expression, field in _expressions(self.plan):
            for name in named(expression).steps:
                if name in self.groups:
                    detail = f"`{field}` asks for `{name}`, which becomes {len(self.groups[name])} steps."
                    self._add("E_EXPR", detail, step.id if step is not None else None)

    def _refuse_item_elsewhere(self, step: Step, each: ForEach) -> None:
        """Refuse what would be left of the item where nothing is put in for it."""
        reads = step.action.reads if isinstance(step.action, Task) else ()
        for text in (*reads, *step.writes, *step.inputs, *step.protect):
            if next(references(text, each.name or "item"), None) is not None:
                self._add("E_REF_PLACE", f"`{text}` takes no reference.", step.id)
        for owner, expression, field in _expressions(self.plan):
            if owner is step and {each.name or "item", "index"} & set(named(expression).others):
                detail = f"`{field}` asks for the item, which an expression of a generated step does not know."
                self._add("E_EXPR", detail, step.id)


def _size(value: Any) -> int:
    """About how long a value is when it is written."""
    size, todo = 0, [value]
    while todo:
        one = todo.pop()
        size += len(one) if isinstance(one, str) else 8
        if isinstance(one, Mapping):
            todo += [*one, *one.values()]
        elif isinstance(one, list | tuple):
            todo += one
    return size


def _expressions(plan: Plan) -> Iterator[tuple[Step | None, str, str]]:
    """Every expression of a plan's own, with the step it belongs to and what it is."""
    for step in (None, *plan.steps, *plan.fallbacks):
        if step is not None and step.when is not None:
            yield step, step.when, "when"
        for condition in (step or plan).preconditions:
            if isinstance(condition, CustomCondition):
                yield step, condition.expression, "preconditions"
        strategy = step.verification.strategy if step is not None and step.verification is not None else None
        if isinstance(strategy, CustomCondition):
            yield step, strategy.expression, "verify"
