"""Conditions: what is waited for, what must hold before a step, and how it is seen that a step is done."""

from __future__ import annotations

from ordain.core.value import Value

__all__ = [
    "ApprovalScope",
    "ApprovalValid",
    "Contract",
    "CustomCondition",
    "External",
    "LockAvailable",
    "LockHeld",
    "NoCheck",
    "PaneExists",
    "PaneIdle",
    "PaneState",
    "Pattern",
    "PatternAbsent",
    "PatternMatch",
    "PatternMatched",
    "PatternNotMatched",
    "Precondition",
    "StableTail",
    "StepCompleted",
    "Strategy",
    "Verification",
    "WaitCondition",
]


class ApprovalScope(Value, frozen=True):
    """What an approval must cover."""

    action_kind: str
    workspace_id: str | None = None
    pane_id: int | None = None


class Pattern(Value, frozen=True, tag_field="type", tag="pattern"):
    rule_id: str
    pane_id: int | None = None


class PaneIdle(Value, frozen=True, tag_field="type", tag="pane_idle"):
    idle_threshold_ms: int
    pane_id: int | None = None


class StableTail(Value, frozen=True, tag_field="type", tag="stable_tail"):
    stable_for_ms: int
    pane_id: int | None = None


class External(Value, frozen=True, tag_field="type", tag="external"):
    """A signal from outside, by name."""

    key: str


WaitCondition = Pattern | PaneIdle | StableTail | External


class PaneExists(Value, frozen=True, tag_field="type", tag="pane_exists"):
    pane_id: int


class PaneState(Value, frozen=True, tag_field="type", tag="pane_state"):
    pane_id: int
    expected_agent: str | None = None
    expected_domain: str | None = None


class PatternMatched(Value, frozen=True, tag_field="type", tag="pattern_matched"):
    rule_id: str
    pane_id: int | None = None
    within_ms: int | None = None


class PatternNotMatched(Value, frozen=True, tag_field="type", tag="pattern_not_matched"):
    rule_id: str
    pane_id: int | None = None


class LockHeld(Value, frozen=True, tag_field="type", tag="lock_held"):
    lock_name: str


class LockAvailable(Value, frozen=True, tag_field="type", tag="lock_available"):
    lock_name: str


class ApprovalValid(Value, frozen=True, tag_field="type", tag="approval_valid"):
    scope: ApprovalScope


class StepCompleted(Value, frozen=True, tag_field="type", tag="step_completed"):
    step_id: str


class CustomCondition(Value, frozen=True, tag_field="type", tag="custom"):
    """A named condition in the expression language (CEL); must be boolean."""

    name: str
    expression: str


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

    command: str
    exit_code: int = 0
    stdout: str | None = None


class PatternMatch(Value, frozen=True, tag_field="type", tag="pattern_match"):
    rule_id: str
    pane_id: int | None = None


class PatternAbsent(Value, frozen=True, tag_field="type", tag="pattern_absent"):
    rule_id: str
    wait_ms: int
    pane_id: int | None = None


class NoCheck(Value, frozen=True, tag_field="type", tag="none"):
    """Nothing is verified, and the step is called unverified where its own result is no evidence."""


Strategy = Contract | PatternMatch | PaneIdle | PatternAbsent | CustomCondition | NoCheck


class Verification(Value, frozen=True):
    """How the harness sees that a step is done."""

    strategy: Strategy
    description: str | None = None
    timeout_ms: int | None = None
