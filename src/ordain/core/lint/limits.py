"""Rules about numbers: timeouts, attempts, repetitions, budgets and texts stay within what a run can keep."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ordain.core.lint.survey import Facts, Survey
from ordain.core.plan.command import program_of
from ordain.core.plan.condition import Contract
from ordain.core.plan.model import Budget, Plan, Step
from ordain.core.plan.role import Count, Duration, Role, parts
from ordain.core.plan.words import counted
from ordain.core.text.limit import (
    COMMAND_BYTES_MAX,
    CONCURRENCY_MAX,
    DAY_MS,
    INTEGER_MAX,
    REPETITIONS_MAX,
)
from ordain.core.text.problem import Place, Problem, blame_step

_SURELY_SHORT = COMMAND_BYTES_MAX // 4


def limits(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Every number is one that a run can keep to."""
    for scope in survey.scopes:
        for fault in _plan_faults(scope.plan):
            yield Problem(code="E_STEP_LIMIT", detail=f"The plan's {fault}.")
    for step in survey.steps:
        if _unlimited(step):
            continue
        for fault in _step_faults(step):
            yield Problem(code="E_STEP_LIMIT", detail=f"`{step.id}`: the {fault}.", where=Place(step=step.id))
    for step, action in survey.others:
        for fault in _declared_faults(action):
            yield Problem(code="E_STEP_LIMIT", detail=f"`{step.id}`: the {fault}.", where=Place(step=step.id))


def _unlimited(step: Step) -> bool:
    """Whether a step has none of the numbers, as most have not."""
    return (
        step.timeout_ms is None
        and step.on_failure is None
        and step.budget is None
        and step.for_each is None
        and not step.preconditions
        and (step.verification is None or isinstance(step.verification.strategy, Contract))
        and (step.verification is None or step.verification.timeout_ms is None)
    )


def _plan_faults(plan: Plan) -> Iterator[str]:
    yield from _concurrency_faults(plan.concurrency)
    yield from _timeout_faults(plan.timeout_ms, "timeout")
    if plan.on_failure is not None:
        yield from _declared_faults(plan.on_failure)
    yield from _budget_faults(plan.budget)
    for condition in plan.preconditions:
        yield from _declared_faults(condition)


def _step_faults(step: Step) -> Iterator[str]:
    if step.timeout_ms is not None:
        yield from _timeout_faults(step.timeout_ms, "timeout")
    if step.on_failure is not None:
        yield from _declared_faults(step.on_failure)
    if step.budget is not None:
        yield from _budget_faults(step.budget)
    if step.for_each is not None:
        if not 1 <= step.for_each.max <= REPETITIONS_MAX:
            yield f"`max` of `for_each` must be between 1 and {REPETITIONS_MAX}"
        if step.for_each.batch is not None and not 1 <= step.for_each.batch <= REPETITIONS_MAX:
            yield f"`batch` of `for_each` must be between 1 and {REPETITIONS_MAX}"
        yield from _concurrency_faults(step.for_each.concurrency)
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


def _timeout_faults(milliseconds: int | None, what: str) -> Iterator[str]:
    if milliseconds is not None and not 0 < milliseconds <= DAY_MS:
        yield f"{what} must be more than zero and at most a day"


def _concurrency_faults(concurrency: int | None) -> Iterator[str]:
    if concurrency is not None and not 1 <= concurrency <= CONCURRENCY_MAX:
        yield f"concurrency must be between 1 and {CONCURRENCY_MAX}"


def _budget_faults(budget: Budget | None) -> Iterator[str]:
    if budget is not None:
        for name in Budget.__struct_fields__:
            value = getattr(budget, name)
            if value is not None and not 0 < value <= INTEGER_MAX:
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
    for step, action in survey.commands:
        if len(action.command) > _SURELY_SHORT and _too_long(action.command):
            yield _long(step)
    for step, call in survey.calls:
        program = program_of(call)
        if program is not None and any(len(word) > _SURELY_SHORT and _too_long(word) for word in program.argv):
            yield _long(step)
    for step, contract in survey.contracts:
        if len(contract.command) > _SURELY_SHORT and _too_long(contract.command):
            yield _long(step)


def _too_long(text: str) -> bool:
    return len(text.encode("utf-8", "surrogatepass")) > COMMAND_BYTES_MAX


def _long(step: Step) -> Problem:
    detail = f"A command of `{step.id}` is longer than {COMMAND_BYTES_MAX} bytes."
    return blame_step(step.id, "E_STEP_LIMIT", detail, "Put it into a script file and run that.")
