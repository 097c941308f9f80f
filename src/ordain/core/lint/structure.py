"""Rules about the shape of a plan and about its numbers, which stay within what a run can keep."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from itertools import chain

import msgspec

from ordain.core.lint.path import topics_of
from ordain.core.lint.survey import Facts, Survey, last_policy
from ordain.core.plan.action import lock_released, lock_taken
from ordain.core.plan.command import program_of
from ordain.core.plan.condition import Contract
from ordain.core.plan.failure import Fallback
from ordain.core.plan.graph import cycles
from ordain.core.plan.model import PLAN_VERSION, Budget, Parameter, Plan, Step
from ordain.core.plan.name import id_fault, model_fault, name_fault, scope_fault
from ordain.core.plan.role import Count, Duration, Name, Role, parts
from ordain.core.plan.template import fits
from ordain.core.plan.words import counted
from ordain.core.policy.tier import tier_of, tier_problem, writable
from ordain.core.text import limit
from ordain.core.text.path import pattern_fault
from ordain.core.text.problem import Place, Problem, blame_plan, blame_step

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_TAKEN = frozenset(["index", "data", "params", "steps", "true", "false", "null", "in"])


def version(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A plan of a newer version may mean what we do not understand."""
    for scope in survey.scopes:
        if scope.plan.plan_version != PLAN_VERSION:
            detail = f"The plan is of version {scope.plan.plan_version}; this program reads version {PLAN_VERSION}."
            yield blame_plan("plan_version", "E_PLAN_VERSION", detail)


def number_of_steps(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A plan has steps, and not more than anybody can approve."""
    for scope in survey.scopes:
        if not scope.plan.steps:
            which = "A nested plan" if scope.depth else "The plan"
            yield Problem(code="E_PLAN_NO_STEPS", detail=f"{which} has no steps.")
    count = len(survey.steps)
    if count > limit.STEPS_MAX:
        detail = f"The plan has {count} steps or more; {limit.STEPS_MAX} are allowed."
        yield Problem(code="E_PLAN_TOO_MANY_STEPS", detail=detail)
    elif count > limit.STEPS_LARGE:
        detail = f"The plan has {count} steps; nobody reviews more than {limit.STEPS_LARGE} with care."
        yield blame_step(None, "W_PLAN_LARGE", detail, "Split it into plans that can each be approved on their own.")


def length_of_title(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A title is short enough to be shown whole wherever it says which plan is meant."""
    for scope in survey.scopes:
        count = len(scope.plan.title)
        if limit.TITLE_MAX < count <= limit.STRING_BYTES_MAX:  # more is refused
            which = "The title of a nested plan" if scope.depth else "The title"
            detail = f"{which} has {count:,} characters; lists show {limit.TITLE_MAX} of them at most."
            yield blame_plan("title", "W_PLAN_LARGE", detail, "Say it in a few words; write the rest into `context`.")


def nesting(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Plans inside plans are followed only so deep, and so is one that holds itself."""
    for step in survey.too_deep:
        detail = f"The plan in `{step.id}` is nested more than {limit.NESTED_PLANS_MAX} deep."
        yield blame_step(step.id, "E_PLAN_NESTING", detail, "Put its steps into the plan around it.")


def step_ids(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Every step of a plan has its own well-formed id, its fallbacks included."""
    for scope in survey.scopes:
        found = Counter([step.id for step in (*scope.plan.steps, *scope.plan.fallbacks)])
        for name, count in found.items():
            if count > 1:
                yield blame_step(name, "E_STEP_ID", f"{count} steps have the id `{name}`.")
            fault = id_fault(name)
            if fault is not None:
                hint = "Use letters, digits, `_` and `-`, at most 64, not a number and not `none`."
                yield blame_step(name, *fault, hint)


def names(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Names are ASCII, because letters of other scripts can look the same and be others."""
    for kind, name, step in _names(survey):
        # A reference in place of a name has a problem of its own.
        judge = _SPELLING.get(kind, partial(name_fault, kind))
        if "${" not in name and (fault := judge(name)) is not None:
            yield blame_step(step, *fault)


_SPELLING = {"scope": scope_fault, "model": model_fault}


def _names(survey: Survey) -> Iterator[tuple[str, str, str | None]]:
    for scope in survey.scopes:
        if scope.plan.model is not None:
            yield "model", scope.plan.model, None
        yield from (("scope", name, None) for name in scope.plan.tools or ())
        yield from (("parameter", name, None) for name in scope.plan.params if not name.isascii())
        if scope.plan.agent is not None:
            yield "agent", scope.plan.agent, None
    yield from (("model", step.model, step.id) for step in survey.steps if step.model is not None)
    for step, call in survey.calls:
        yield "tool", call.tool, step.id
        if call.operation is not None:
            yield "operation", call.operation, step.id
    for _, step, task in survey.tasks:
        yield from (("scope", name, step.id) for name in task.tools or ())
        if task.agent is not None:
            yield "agent", task.agent, step.id
        yield from (("topic", name, step.id) for name in topics_of(task) if name)
    for step, action in survey.others:
        yield from ((kind, name, step.id) for kind, name in _declared_names(action))
    for step in survey.steps:
        if step.pool is not None:
            yield "pool", step.pool, step.id
    for step_id, declared in survey.declared():
        yield from ((kind, name, step_id) for kind, name in _declared_names(declared))


def _declared_names(value: msgspec.Struct) -> Iterator[tuple[str, str]]:
    return ((part.role.kind, part.value) for part in parts(value, Name) if part.role.kind is not None)


def needs_known(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """What a step needs must be a step of the same plan; a fallback may need other fallbacks too."""
    for scope in survey.scopes:
        for steps, known in ((scope.plan.steps, scope.steps), (scope.plan.fallbacks, scope.known)):
            for name, need in ((one.id, need) for one in steps for need in one.needs if need not in known):
                detail = f"`{name}` needs `{need}`, which is not a step of this plan."
                yield blame_step(name, "E_STEP_UNKNOWN_NEED", detail, *survey.near(need, known))


def fallbacks_known(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """`fallback(id)` names steps that stand among the plan's fallbacks."""
    for scope in survey.scopes:
        owners: tuple[Step | Plan, ...] = (*scope.plan.steps, *scope.plan.fallbacks, scope.plan)
        for owner in owners:
            step = owner if isinstance(owner, Step) else None
            blame = partial(blame_step, step.id) if step is not None else partial(blame_plan, "on_failure")
            last, who = last_policy(owner.on_failure), f"`{step.id}`" if step is not None else "The plan"
            if isinstance(last, Fallback) and not last.steps:
                hint = "Name a step of `## Fallbacks`, or choose another policy."
                yield blame("E_FIELD_VALUE", f"{who} falls back on no step: the list is empty.", hint)
            for name in last.steps if isinstance(last, Fallback) else ():
                if name not in scope.fallbacks:
                    detail = f"{who} falls back to `{name}`, which is not among the plan's fallbacks."
                    hint = f"`{name}` is an ordinary step; move it under `## Fallbacks`."
                    hints = (hint,) if name in scope.steps else survey.near(name, scope.fallbacks)
                    yield blame("E_STEP_UNKNOWN_NEED", detail, *hints)


def locks(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A lock that is given back is one that the plan takes: no run gives back what it does not hold."""
    taken = {name for _, action in survey.others if (name := lock_taken(action)) is not None}
    for step, action in survey.others:
        name = lock_released(action)
        if name is not None and name not in taken and name_fault("lock", name) is None:
            detail = f"`{step.id}` gives back the lock `{name}`, which no step takes."
            hints = survey.near(name, taken) or ("Take it with `acquire_lock`, or leave the step out.",)
            yield blame_step(step.id, "W_LOCK_NOT_TAKEN", detail, *hints)


def fallbacks_end(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Fallbacks that fall back to each other never end."""
    for scope in survey.scopes:
        if scope.fallbacks:
            follows: dict[str, list[str]] = {}
            for step in scope.fallbacks.values():
                last = last_policy(step.on_failure)
                follows[step.id] = [*(last.steps if isinstance(last, Fallback) else ()), *step.needs]
            for group in cycles(follows):
                yield _circle(group, scope.fallbacks)


def no_cycles(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Steps that wait for each other never start."""
    for scope in survey.scopes:
        for group in scope.declared.circles:
            yield _circle(group, scope.steps)


def _circle(group: list[str], steps: Mapping[str, Step]) -> Problem:
    shown = ", ".join(f"`{name}`" for name in group)
    detail = f"{shown} needs itself." if len(group) == 1 else f"These steps need each other: {shown}."
    return blame_step(group[0], "E_STEP_CYCLE", detail, *_dropped_need(set(group), steps))


def _dropped_need(group: Collection[str], steps: Mapping[str, Step]) -> tuple[str, ...]:
    """The need that is most likely wrong: a step waits for one that stands after it, or for itself."""
    place = {name: number for number, name in enumerate(steps)}
    for name in sorted(group, key=lambda one: place.get(one, 0)):
        for need in steps[name].needs if name in steps else ():
            if need in group and place.get(need, -1) >= place[name]:
                why = "" if need == name else f": `{name}` is before it"
                return (f"Take `{need}` out of the `needs` of `{name}`{why}.",)
    return ()


def params(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A parameter has a name that can be referred to and a default, if any, of its own type."""
    for scope in survey.scopes:
        for name, parameter in scope.plan.params.items():
            if name.isascii() and not _VARIABLE.fullmatch(name):
                hint = "Use letters, digits and `_`, not a digit first."
                yield blame_plan("params", "E_PARAM", f"`{name}` cannot be the name of a parameter.", hint)
            if parameter.default is not None and not fits(parameter, parameter.default):
                detail = f"The default of the parameter `{name}` is not of its type, {parameter.type}."
                yield blame_plan("params", "E_PARAM", detail)
            if parameter.files is not None:
                yield from _files_faults(name, parameter)
            if parameter.default is not None and parameter.required:
                hint = "Take one of the two away."
                detail = f"The parameter `{name}` is required and has a default."
                yield blame_plan("params", "E_PARAM", detail, hint)


def _files_faults(name: str, parameter: Parameter) -> Iterator[Problem]:
    """A pattern of files stays beneath the workspace, and is the value of a list that has no other."""
    fault = pattern_fault(parameter.files or "")
    if fault is not None:
        detail = f"The pattern `{parameter.files}` of the parameter `{name}` {fault}."
        yield blame_plan("params", "E_PATH", detail)
    if parameter.type != "list" or parameter.default is not None or parameter.required:
        detail = f"The parameter `{name}` has `files`, so it is a list that is neither required nor has a default."
        yield blame_plan("params", "E_PARAM", detail, 'Write `{type: list, files: "src/*.py"}`.')


def repeated(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """The item of a repeated step has a name of its own."""
    for step in survey.steps:
        name = step.for_each.name if step.for_each is not None else None
        if name is not None and (not _VARIABLE.fullmatch(name) or name in _TAKEN):
            detail = f"`{step.id}`: an item cannot be called `{name}`."
            hint = "Use letters, digits and `_`, and no word that means something else."
            yield blame_step(step.id, "E_NAME" if not name.isascii() else "E_FIELD_VALUE", detail, hint)


def tier(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A plan, or the configuration, may demand a trust tier; a weaker one is not good enough."""
    wanted = tier_of(survey.plan, facts.settings.tier)
    if wanted > facts.tier:
        where = Place(field="tier") if survey.plan.tier is not None else None
        yield msgspec.structs.replace(tier_problem(wanted, facts.tier_fault), where=where)


def held_writes(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """At tier 1 a step is held to what it `writes`, so that must be something a sandbox can be made of."""
    if tier_of(survey.plan, facts.settings.tier) == 0:
        return
    for step in survey.steps:
        for pattern in step.writes:
            if writable(pattern) is None:
                detail = f"`{step.id}` cannot be held to `{pattern}`, which is neither a directory nor a file."
                hint = "Name whole directories, such as `src/**`, or files that are there."
                yield blame_step(step.id, "E_FIELD_VALUE", detail, hint)


def workspace(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A plan may be for one workspace only."""
    for scope in survey.scopes:
        wanted = scope.plan.workspace_id
        if wanted is not None and wanted != facts.workspace_id:
            here = facts.workspace_id or "not yet known"
            detail = f"The plan is for workspace {wanted}; this one is {here}."
            yield blame_plan("workspace_id", "E_PLAN_WORKSPACE", detail)


# --- Numbers ---------------------------------------------------------------------------------------------------------

_SURELY_SHORT = limit.COMMAND_BYTES_MAX // 4
_CONCURRENCY, _TIMEOUT = Count("concurrency", limit.CONCURRENCY_MAX), Duration("timeout")


def limits(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Every number is one that a run can keep to."""
    for scope in survey.scopes:
        for field, fault in _plan_faults(scope.plan):
            yield blame_plan(field, "E_STEP_LIMIT", f"The plan's {fault}.")
    of_steps = ((step, _step_faults(step)) for step in survey.steps if not _unlimited(step))
    of_actions = ((step, _declared_faults(action)) for step, action in survey.others)
    for step, faults in chain(of_steps, of_actions):
        yield from (blame_step(step.id, "E_STEP_LIMIT", f"`{step.id}`: the {fault}.") for fault in faults)


def _unlimited(step: Step) -> bool:
    checked = step.verification
    if checked is not None and (not isinstance(checked.strategy, Contract) or checked.timeout_ms is not None):
        return False
    given = (step.timeout_ms, step.on_failure, step.budget, step.for_each)
    return not step.preconditions and all(one is None for one in given)


def _plan_faults(plan: Plan) -> Iterator[tuple[str, str]]:
    yield from (("concurrency", fault) for fault in _number_faults(_CONCURRENCY, plan.concurrency))
    yield from (("timeout_ms", fault) for fault in _number_faults(_TIMEOUT, plan.timeout_ms))
    if plan.on_failure is not None:
        yield from (("on_failure", fault) for fault in _declared_faults(plan.on_failure))
    yield from (("budget", fault) for fault in _budget_faults(plan.budget))
    for condition in plan.preconditions:
        yield from (("preconditions", fault) for fault in _declared_faults(condition))


def _step_faults(step: Step) -> Iterator[str]:
    yield from _number_faults(_TIMEOUT, step.timeout_ms)
    if step.on_failure is not None:
        yield from _declared_faults(step.on_failure)
    yield from _budget_faults(step.budget)
    if step.for_each is not None:
        for name, number in (("max", step.for_each.max), ("batch", step.for_each.batch)):
            yield from _number_faults(Count(f"`{name}` of `for_each`", limit.REPETITIONS_MAX), number)
        yield from _number_faults(_CONCURRENCY, step.for_each.concurrency)
    if step.verification is not None:
        yield from _declared_faults(step.verification)
    for condition in step.preconditions:
        yield from _declared_faults(condition)


def _declared_faults(value: msgspec.Struct) -> Iterator[str]:
    """What is wrong with the durations and counts of a value, each sentence once and where its first field stands."""
    found: dict[tuple[Role, str], list[float]] = {}
    for role, what, number in ((part.role, part.what, part.value) for part in parts(value, Duration, Count)):
        found.setdefault((role, what), []).append(number)
    for (role, what), numbers in found.items():
        faults = (role.fault(number, what) for number in numbers if isinstance(role, Duration | Count))
        yield from [fault for fault in faults if fault is not None][:1]


def _number_faults(role: Duration | Count, number: int | None) -> Iterator[str]:
    if number is not None and (fault := role.fault(number, role.what)) is not None:
        yield fault


def _budget_faults(budget: Budget | None) -> Iterator[str]:
    if budget is not None:
        for name in Budget.__struct_fields__:
            value = getattr(budget, name)
            if value is not None and not 0 < value <= limit.INTEGER_MAX:
                yield f"budget of `{name}` must be more than zero, and a number that every reader holds exactly"
            elif value is not None and counted(name, value) == 0:
                yield f"budget of `{name}` is less than a billionth of a dollar, which is what money is counted in"


def budgets(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """No step may spend more than its whole plan: it could not begin without somebody being asked."""
    for scope in survey.scopes:
        whole = scope.plan.budget
        for step in (*scope.plan.steps, *scope.plan.fallbacks) if whole is not None else ():
            for name in Budget.__struct_fields__ if step.budget is not None else ():
                own, given = getattr(step.budget, name), getattr(whole, name)
                if own is not None and given is not None and own > given > 0:
                    detail = f"The budget of `{step.id}` has more `{name}` than that of its plan: {own} of {given}."
                    hint = "It would be asked about before the step begins; raise the plan's or lower the step's."
                    yield blame_step(step.id, "W_BUDGET", detail, hint)


def text_length(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """The operating system takes a command only up to a length."""
    commands = ((step, (action.command,)) for step, action in survey.commands)
    programs = ((step, program.argv) for step, call in survey.calls if (program := program_of(call)) is not None)
    looks = ((step, (text,)) for step, _, text in survey.looks)
    for step, words in chain(commands, programs, looks):
        long = (word for word in words if len(word) > _SURELY_SHORT)
        if any(len(word.encode("utf-8", "surrogatepass")) > limit.COMMAND_BYTES_MAX for word in long):
            detail = f"A command of `{step.id}` is longer than {limit.COMMAND_BYTES_MAX} bytes."
            yield blame_step(step.id, "E_STEP_LIMIT", detail, "Put it into a script file and run that.")
