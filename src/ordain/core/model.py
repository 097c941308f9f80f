"""What a plan is: frozen values that hold exactly what is hashed, and nothing volatile.

A plan is a title and steps. Everything that can change what happens is a field here, so that it is inside the
digest by construction; authors, dates, notes and states live in the records around the plan. Fields left at
their default are absent from the canonical form, so new optional fields never change an old digest. Two lists
mean something when empty and are therefore always written: a step's `needs` and, once given, a plan's `tools`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NewType

import msgspec

__all__ = [
    "PLAN_VERSION",
    "Abort",
    "Action",
    "CallTool",
    "Continue",
    "Contract",
    "Escalate",
    "FailurePolicy",
    "Instant",
    "Plan",
    "PlanId",
    "Retry",
    "RunCommand",
    "RunId",
    "Skip",
    "Step",
    "StepId",
    "Verification",
    "tool_name",
]

PLAN_VERSION = 1
"""The newest plan version this code understands; newer ones are refused."""

PlanId = NewType("PlanId", str)
"""`plan:` and 64 hex digits: the digest of the plan's canonical bytes."""
StepId = NewType("StepId", str)
"""The author's word for a step, or the slug of its title."""
RunId = NewType("RunId", str)
"""`RUN-` and random base32: one carrying-out of one plan."""
Instant = NewType("Instant", int)
"""Milliseconds since 1970-01-01 UTC."""


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of everything inside a plan: immutable, keyword-only, unknown fields refused."""


# --- Actions: what a step does -----------------------------------------------------------------------------------


class RunCommand(Value, frozen=True, tag_field="type", tag="run"):
    """Run a command with bash in the workspace; its exit status is observed by the harness."""

    command: str


class CallTool(Value, frozen=True, tag_field="type", tag="tool"):
    """Call a registered tool with exactly these arguments."""

    tool: str
    args: Mapping[str, Any] = {}


Action = RunCommand | CallTool


def tool_name(action: Action) -> str:
    """The tool an action uses, as scopes and policy name it: a command is the tool `shell`."""
    match action:
        case RunCommand():
            return "shell"
        case CallTool(tool=tool):
            return tool


# --- Verification: how the harness sees that a step is done ------------------------------------------------------


class Contract(Value, frozen=True, tag_field="type", tag="contract"):
    """A command that the harness runs after the step; it holds when it exits with `exit_code`."""

    command: str
    exit_code: int = 0


class Verification(Value, frozen=True):
    """The declared check that must hold after a step."""

    strategy: Contract
    timeout_ms: int | None = None


# --- Failure policy: what follows a broken contract or a failed attempt ------------------------------------------


class Abort(Value, frozen=True, tag_field="strategy", tag="abort"):
    """The step fails and the run ends."""

    message: str | None = None


class Skip(Value, frozen=True, tag_field="strategy", tag="skip"):
    """The step counts as skipped; steps that need it go on."""


class Continue(Value, frozen=True, tag_field="strategy", tag="continue"):
    """The step fails, steps that need it stay blocked, the rest goes on."""


class Escalate(Value, frozen=True, tag_field="strategy", tag="escalate"):
    """A person decides."""


class Retry(Value, frozen=True, tag_field="strategy", tag="retry"):
    """Try again, then do as `then` says.

    `max_attempts` counts all attempts. The delay before further attempt n (from zero) is
    `initial_delay_ms * backoff_multiplier ** n + increment_ms * n`, at most `max_delay_ms`.
    Without `then` the plan's own policy follows, less its retries.
    """

    max_attempts: int
    initial_delay_ms: int = 0
    increment_ms: int = 0
    backoff_multiplier: float = 1
    max_delay_ms: int | None = None
    then: Abort | Skip | Continue | Escalate | None = None

    def __post_init__(self) -> None:
        # A default is left out of the canonical form only when it is the very same object, and 1.0 is not 1.
        if self.backoff_multiplier == 1:
            msgspec.structs.force_setattr(self, "backoff_multiplier", 1)


FailurePolicy = Abort | Skip | Continue | Escalate | Retry


# --- Step and plan -----------------------------------------------------------------------------------------------


class Step(Value, frozen=True):
    """One node of a plan.

    `needs` is what the step waits for, always said: a reader turns "nothing written" into the step before.
    `idempotent` true claims that the action may be run again after a crash (an approver sees the claim); false
    forbids it whatever the tool's effect class says; absent, the effect class decides.
    """

    id: StepId
    description: str
    action: Action
    needs: tuple[StepId, ...]
    verification: Verification | None = None
    on_failure: FailurePolicy | None = None
    timeout_ms: int | None = None
    idempotent: bool | None = None


class Plan(Value, frozen=True):
    """The immutable description of intended work. Its digest is its identity."""

    plan_version: int
    title: str
    steps: tuple[Step, ...]
    context: str | None = None
    on_failure: FailurePolicy | None = None
    tools: tuple[str, ...] | None = None
    timeout_ms: int | None = None
    concurrency: int | None = None
    tier: int | None = None
    workspace_id: str | None = None
