"""Rules about numbers: timeouts, attempts, repetitions, budgets and texts stay within what a run can keep."""

from __future__ import annotations

from collections.abc import Iterator

from ordain.core.action import AcquireLock, WaitFor
from ordain.core.bound import (
    ATTEMPTS_MAX,
    COMMAND_BYTES_MAX,
    CONCURRENCY_MAX,
    DAY_MS,
    FACTOR_MAX,
    INTEGER_MAX,
    REPETITIONS_MAX,
)
from ordain.core.command import program_of
from ordain.core.condition import Contract, PaneIdle, PatternAbsent, StableTail
from ordain.core.failure import FailurePolicy, Retry
from ordain.core.lint.facts import Facts
from ordain.core.lint.survey import Survey
from ordain.core.model import Action, Budget, Plan, Step
from ordain.core.problem import Place, Problem
from ordain.core.spending import counted

__all__ = ["budgets", "limits", "text_length"]

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
        for fault in _action_faults(action):
            yield Problem(code="E_STEP_LIMIT", detail=f"`{step.id}`: the {fault}.", where=Place(step=step.id))


def _unlimited(step: Step) -> bool:
    """Whether a step has none of the numbers, as most have not."""
    return (
        step.timeout_ms is None
        and step.on_failure is None
        and step.budget is None
        and step.for_each is None
        and (step.verification is None or isinstance(step.verification.strategy, Contract))
        and (step.verification is None or step.verification.timeout_ms is None)
    )


def _plan_faults(plan: Plan) -> Iterator[str]:
    yield from _concurrency_faults(plan.concurrency)
    yield from _timeout_faults(plan.timeout_ms, "timeout")
    yield from _retry_faults(plan.on_failure)
    yield from _budget_faults(plan.budget)


def _step_faults(step: Step) -> Iterator[str]:
    if step.timeout_ms is not None:
        yield from _timeout_faults(step.timeout_ms, "timeout")
    if step.on_failure is not None:
        yield from _retry_faults(step.on_failure)
    if step.budget is not None:
        yield from _budget_faults(step.budget)
    if step.for_each is not None:
        if not 1 <= step.for_each.max <= REPETITIONS_MAX:
            yield f"`max` of `for_each` must be between 1 and {REPETITIONS_MAX}"
        if step.for_each.batch is not None and not 1 <= step.for_each.batch <= REPETITIONS_MAX:
            yield f"`batch` of `for_each` must be between 1 and {REPETITIONS_MAX}"
        yield from _concurrency_faults(step.for_each.concurrency)
    if step.verification is not None:
        yield from _timeout_faults(step.verification.timeout_ms, "timeout of the verification")
        match step.verification.strategy:
            case PaneIdle(idle_threshold_ms=wait) | PatternAbsent(wait_ms=wait):
                yield from _timeout_faults(wait, "time that the verification waits")


def _action_faults(action: Action) -> Iterator[str]:
    match action:
        case AcquireLock(timeout_ms=timeout):
            yield from _timeout_faults(timeout, "timeout of the lock")
        case WaitFor(timeout_ms=timeout, condition=condition):
            yield from _timeout_faults(timeout, "timeout of the wait")
            match condition:
                case PaneIdle(idle_threshold_ms=wait) | StableTail(stable_for_ms=wait):
                    yield from _timeout_faults(wait, "time that must be quiet")


def _timeout_faults(milliseconds: int | None, what: str) -> Iterator[str]:
    if milliseconds is not None and not 0 < milliseconds <= DAY_MS:
        yield f"{what} must be more than zero and at most a day"


def _concurrency_faults(concurrency: int | None) -> Iterator[str]:
    if concurrency is not None and not 1 <= concurrency <= CONCURRENCY_MAX:
        yield f"concurrency must be between 1 and {CONCURRENCY_MAX}"


def _retry_faults(policy: FailurePolicy | None) -> Iterator[str]:
    if not isinstance(policy, Retry):
        return
    if not 1 <= policy.max_attempts <= ATTEMPTS_MAX:
        yield f"failure policy may retry at most {ATTEMPTS_MAX - 1} times"
    delays = (policy.initial_delay_ms, policy.increment_ms, policy.max_delay_ms or 0)
    if not all(0 <= delay <= DAY_MS for delay in delays):
        yield "delays between attempts must be between zero and a day"
    if not 1 <= policy.backoff_multiplier <= FACTOR_MAX:  # which NaN is not either
        yield f"factor by which delays grow must be between 1 and {FACTOR_MAX}"


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
                    yield Problem(
                        code="W_BUDGET",
                        detail=f"The budget of `{step.id}` has more `{name}` than that of its plan: {own} of {given}.",
                        where=Place(step=step.id),
                        hints=(
                            "It would be asked about before the step begins; raise the plan's or lower the step's.",
                        ),
                    )


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
    return Problem(
        code="E_STEP_LIMIT",
        detail=f"A command of `{step.id}` is longer than {COMMAND_BYTES_MAX} bytes.",
        where=Place(step=step.id),
        hints=("Put it into a script file and run that.",),
    )
