"""Every condition and every failure policy does something, says all that it holds, and is known to lint and diff. What
is added to one of the unions and forgotten elsewhere fails here by its name."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from tests.build import plan, step
from tests.rows import each
from tests.sample import sample
from tests.scenario import Scenario, twin_ports
from tests.twins.ledger import MemoryLedger
from tests.words import (
    Abort,
    AskApproval,
    CallTool,
    Conditions,
    Continue,
    Escalate,
    Facts,
    FailurePolicy,
    Fallback,
    LastPolicy,
    LockAvailable,
    Precondition,
    Recover,
    Replan,
    Retry,
    Skip,
    StepPolicy,
    condition_words,
    failure_changes,
    lint,
)


def values(given: Any) -> list[str]:
    """Everything that a value holds, in words."""
    found = []
    for name in given.__struct_fields__:
        value = getattr(given, name)
        found += values(value) if isinstance(value, msgspec.Struct) else [str(value)]
    return found


# --- Conditions ------------------------------------------------------------------------------------------------------


@each("kind", get_args(Precondition), ids=lambda kind: kind.__name__)
def test_whoever_reads_a_condition_has_read_every_value_of_it(kind: Any) -> None:
    condition = sample(kind)
    words = condition_words(condition)
    for value in values(condition):
        assert value in words, f"`condition_words` (interfaces/view/text.py) leaves out {value} of {kind.__name__}."


WITHOUT_ANYTHING = {LockAvailable}
"""Conditions that hold where there is nothing at all."""


@each("kind", get_args(Precondition), ids=lambda kind: kind.__name__)
def test_a_condition_does_not_hold_where_there_is_nothing(kind: Any) -> None:
    here = Conditions(
        ports=twin_ports(MemoryLedger()),
        run_id=None,
        lock_holder=lambda name: None,
        approval=None,
        passed=lambda name: f"`{name}` has not passed",
        variables=lambda expression: {},
    )
    fault = here.fault(sample(kind))
    assert (fault is None) == (kind in WITHOUT_ANYTHING), f"{kind.__name__} in engine/begin.py: {fault}"


# --- Failure policies ------------------------------------------------------------------------------------------------

ENDS = {
    Abort: ("failed", "cancelled", "cancelled"),
    Skip: ("skipped", "passed", "passed"),
    Continue: ("failed", "cancelled", "passed"),
    Escalate: ("escalated", "pending", "passed"),
    AskApproval: ("escalated", "pending", "passed"),
    Fallback: ("passed", "passed", "passed"),
    Replan: ("escalated", "pending", "passed"),
    Recover: ("escalated", "pending", "passed"),
}
"""What becomes of a step that fails, of one that needs it, and of another that does not."""


def failing(kind: Any) -> Any:
    return step("a", run="fails", contract="check undo", on_failure=sample(kind))


@pytest.mark.parametrize("kind", get_args(LastPolicy), ids=lambda kind: kind.__name__)
def test_what_becomes_of_a_step_that_fails(kind: Any) -> None:
    assert kind in ENDS, f"Say in ENDS what becomes of a step whose failure policy is {kind.__name__}."
    steps = failing(kind), step("after", needs="a"), step("late", needs=())
    life = Scenario(*steps, fallbacks=(step("undo", needs=()),), concurrency=1)
    life.shell.script["fails"] = 1
    life.approve().run()
    life.expect(**dict(zip(("a", "after", "late"), ENDS[kind], strict=True)))


@each("kind", get_args(LastPolicy), ids=lambda kind: kind.__name__)
def test_lint_knows_which_steps_may_be_skipped(kind: Any) -> None:
    """Nobody may count on the result of a step that a failure skips."""
    refers = step("b", action=CallTool(tool="read_file", args={"path": "${a.output}"}), needs="a")
    made = plan(failing(kind), refers, fallbacks=(step("undo", needs=()),))
    found = {problem.code for problem in lint(made, Facts())}
    assert ("E_REF_MAY_BE_MISSING" in found) == (ENDS[kind][0] == "skipped"), kind


@each("kind", get_args(FailurePolicy), ids=lambda kind: kind.__name__)
def test_an_approver_is_told_when_a_failure_stops_less(kind: Any) -> None:
    if kind is Retry:
        said = [*failure_changes(StepPolicy(None, Abort()), StepPolicy(sample(Retry), Abort()))]
    else:
        said = [*failure_changes(StepPolicy(None, Abort()), StepPolicy(None, sample(kind)))]
    strict = kind in (Abort, Escalate)
    assert bool(said) != strict, f"failure_changes (core/approval/diff/direction.py) says of {kind.__name__}: {said}"
