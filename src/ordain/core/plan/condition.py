"""Conditions: what is waited for, what must hold before a step, and how it is seen that a step is done."""

from __future__ import annotations

from typing import Annotated

from ordain.core.plan.role import (
    CommandText,
    Duration,
    Expression,
    Inner,
    Name,
    Number,
    PaneName,
    Picked,
    Prose,
    StepName,
)
from ordain.core.plan.value import Value


class ApprovalScope(Value, frozen=True):
    """What an approval must cover."""

    action_kind: Annotated[str, Picked()]
    workspace_id: Annotated[str | None, Picked()] = None
    pane_id: Annotated[int | None, Picked()] = None


class Pattern(Value, frozen=True, tag_field="type", tag="pattern"):
    rule_id: Annotated[str, Picked()]
    pane_id: Annotated[int | None, PaneName()] = None


class PaneIdle(Value, frozen=True, tag_field="type", tag="pane_idle"):
    idle_threshold_ms: Annotated[int, Duration("time that must be quiet")]
    pane_id: Annotated[int | None, PaneName()] = None


class StableTail(Value, frozen=True, tag_field="type", tag="stable_tail"):
    stable_for_ms: Annotated[int, Duration("time that must be quiet")]
    pane_id: Annotated[int | None, PaneName()] = None


class External(Value, frozen=True, tag_field="type", tag="external"):
    """A signal from outside, by name."""

    key: Annotated[str, Name("signal key", "signal")]


WaitCondition = Pattern | PaneIdle | StableTail | External


class PaneExists(Value, frozen=True, tag_field="type", tag="pane_exists"):
    pane_id: Annotated[int, PaneName()]


class PaneState(Value, frozen=True, tag_field="type", tag="pane_state"):
    pane_id: Annotated[int, PaneName()]
    expected_agent: Annotated[str | None, Picked()] = None
    expected_domain: Annotated[str | None, Picked()] = None


class PatternMatched(Value, frozen=True, tag_field="type", tag="pattern_matched"):
    rule_id: Annotated[str, Picked()]
    pane_id: Annotated[int | None, PaneName()] = None
    within_ms: Annotated[int | None, Number()] = None


class PatternNotMatched(Value, frozen=True, tag_field="type", tag="pattern_not_matched"):
    rule_id: Annotated[str, Picked()]
    pane_id: Annotated[int | None, PaneName()] = None


class LockHeld(Value, frozen=True, tag_field="type", tag="lock_held"):
    lock_name: Annotated[str, Name("lock name", "lock")]


class LockAvailable(Value, frozen=True, tag_field="type", tag="lock_available"):
    lock_name: Annotated[str, Name("lock name", "lock")]


class ApprovalValid(Value, frozen=True, tag_field="type", tag="approval_valid"):
    scope: Annotated[ApprovalScope, Inner()]


class StepCompleted(Value, frozen=True, tag_field="type", tag="step_completed"):
    step_id: Annotated[str, StepName()]


class CustomCondition(Value, frozen=True, tag_field="type", tag="custom"):
    """A named condition in the expression language (CEL); must be boolean."""

    name: Annotated[str, Picked()]
    expression: Annotated[str, Expression()]


Precondition = (
    PaneExists
    | PaneState
    | PatternMatched
    | PatternNotMatched
    | LockHeld
    | LockAvailable
    | ApprovalValid
    | StepCompleted
    | CustomCondition
)


class Contract(Value, frozen=True, tag_field="type", tag="contract"):
    """A command that the harness runs after the step; it holds when it exits with `exit_code` and, if given, its
    standard output matches the pattern `stdout` somewhere."""

    command: Annotated[str, CommandText("contract")]
    exit_code: Annotated[int, Number()] = 0
    stdout: Annotated[str | None, Picked()] = None


class PatternMatch(Value, frozen=True, tag_field="type", tag="pattern_match"):
    rule_id: Annotated[str, Picked()]
    pane_id: Annotated[int | None, PaneName()] = None


class PatternAbsent(Value, frozen=True, tag_field="type", tag="pattern_absent"):
    rule_id: Annotated[str, Picked()]
    wait_ms: Annotated[int, Duration("time that the verification waits")]
    pane_id: Annotated[int | None, PaneName()] = None


class NoCheck(Value, frozen=True, tag_field="type", tag="none"):
    """Nothing is verified, and the step is called unverified where its own result is no evidence."""


Strategy = Contract | PatternMatch | PaneIdle | PatternAbsent | CustomCondition | NoCheck


class Verification(Value, frozen=True):
    """How the harness sees that a step is done."""

    strategy: Annotated[Strategy, Inner("time that the verification waits")]
    description: Annotated[str | None, Prose("verification")] = None
    timeout_ms: Annotated[int | None, Duration("timeout of the verification")] = None
