"""What a plan is: frozen values that hold exactly what is hashed, and nothing volatile.

Everything that can change what happens is a field here, so that it is inside the digest by construction; authors,
dates, notes and states live in the records around the plan. Fields left at their default are absent from the canonical
form, so new optional fields never change an old digest. Two lists mean something when empty and are therefore always
written: a step's `needs` and, once given, `tools`. The names of fields and tags are the names on the wire.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec

from ordain.core.plan.action import (
    AcquireLock,
    Ask,
    CallTool,
    Custom,
    MarkEventHandled,
    ReleaseLock,
    RunCommand,
    RunWorkflow,
    SendText,
    StoreData,
    Task,
    ValidateApproval,
    WaitFor,
    WaitForFile,
)
from ordain.core.plan.condition import Contract, CustomCondition, Precondition, Strategy, Verification
from ordain.core.plan.failure import FailurePolicy
from ordain.core.plan.role import About, EffectClass, Nested
from ordain.core.plan.value import StepId, Value

if TYPE_CHECKING:
    from ordain.core.plan.builder import PlanBuilder

PLAN_VERSION = 1
"""The newest plan version this code understands; newer ones are refused."""


# It is here, and not among the other actions, because it holds a plan.
class NestedPlan(Value, frozen=True, tag_field="type", tag="nested_plan"):
    plan: Annotated[Plan, Nested()]

    about: ClassVar[About] = About(
        effect=EffectClass.OPAQUE, ledger_only=True, did="carried out the plan `{0.plan.title}`"
    )


Action = (
    RunCommand
    | CallTool
    | Task
    | SendText
    | WaitFor
    | AcquireLock
    | ReleaseLock
    | StoreData
    | RunWorkflow
    | MarkEventHandled
    | ValidateApproval
    | NestedPlan
    | Ask
    | Custom
    | WaitForFile
)


class Budget(Value, frozen=True):
    """What may be spent; a breach pauses the run and asks."""

    tokens: int | None = None
    cost_usd: float | None = None
    wall_clock_ms: int | None = None
    """Time during which something is at work; not that in which somebody is waited for."""
    attempts: int | None = None


class ForEach(Value, frozen=True, rename={"source": "in", "name": "as"}):
    """Repeat a step for every item of a list: one that is known at run time, or a parameter's."""

    source: str
    max: int
    name: str | None = None
    """What the item is called inside the step; absent, it is `item`."""
    concurrency: int | None = None
    batch: int | None = None
    """How many items are taken at once; the item is then the list of them."""

    def __post_init__(self) -> None:
        if self.name == "item":
            msgspec.structs.force_setattr(self, "name", None)


class Parameter(Value, frozen=True):
    """A value that a template wants before it becomes a plan."""

    type: Literal["string", "integer", "number", "boolean", "list"]
    description: str | None = None
    default: Any = None
    required: bool = False
    files: str | None = None
    """A pattern; the value, unless one is given, are the names of the files that match it when the plan is made."""


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
    when: str | None = None
    for_each: ForEach | None = None
    preconditions: tuple[Precondition, ...] = ()
    verification: Verification | None = None
    happened: str | None = None
    """A read-only command that says after a crash whether the effect happened: 0 yes, 1 no, anything else unknown."""
    proof: Literal["red-then-green"] | None = None
    protect: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    """Files that the step reads without naming them, as paths and patterns: an approval is bound to them."""
    on_failure: FailurePolicy | None = None
    timeout_ms: int | None = None
    idempotent: bool | None = None
    approval: Literal["ask"] | None = None
    budget: Budget | None = None
    model: str | None = None
    network: bool | None = None
    worktree: bool | None = None
    pool: str | None = None

    def __post_init__(self) -> None:
        _without_empty_budget(self)


class Plan(Value, frozen=True):
    """The immutable description of intended work. Its digest is its identity."""

    plan_version: int
    title: str
    steps: tuple[Step, ...]
    task: str | None = None
    context: str | None = None
    fallbacks: tuple[Step, ...] = ()
    preconditions: tuple[Precondition, ...] = ()
    on_failure: FailurePolicy | None = None
    tools: tuple[str, ...] | None = None
    protect: tuple[str, ...] = ()
    budget: Budget | None = None
    tier: int | None = None
    params: Mapping[str, Parameter] = {}
    agent: str | None = None
    model: str | None = None
    timeout_ms: int | None = None
    concurrency: int | None = None
    workspace_id: str | None = None

    def __post_init__(self) -> None:
        _without_empty_budget(self)

    @staticmethod
    def build(title: str, **fields: Any) -> PlanBuilder:
        """Make a plan by code: `Plan.build("Tidy up").step("lint", run="ruff check").done()`."""
        from ordain.core.plan.builder import PlanBuilder

        return PlanBuilder(title, **fields)


def _without_empty_budget(value: Step | Plan) -> None:
    """A budget that limits nothing is none; two spellings of one plan would have two digests."""
    if value.budget is not None and value.budget == Budget():
        msgspec.structs.force_setattr(value, "budget", None)


def all_steps(plan: Plan) -> Iterator[Step]:
    """Every step that may run: the plan's, its fallbacks, and those of nested plans."""
    for step in (*plan.steps, *plan.fallbacks):
        yield step
        if (inner := nested_plan_of(step)) is not None:
            yield from all_steps(inner)


def nested_plan_of(step: Step) -> Plan | None:
    """The plan that a step holds; None where it holds none."""
    return step.action.plan if isinstance(step.action, NestedPlan) else None


def carry_out(plan: Plan) -> Action:
    """The action of a step that holds a plan."""
    return NestedPlan(plan=plan)


def conditions_of(step: Step) -> tuple[Precondition | Strategy, ...]:
    """What must hold before a step, and how it is seen that it is done."""
    if step.verification is None:
        return step.preconditions
    return (*step.preconditions, step.verification.strategy)


def contract_of(step: Step) -> Contract | None:
    """The contract of a step, when that is how it is verified."""
    if step.verification is not None and isinstance(step.verification.strategy, Contract):
        return step.verification.strategy
    return None


def look_commands(step: Step) -> tuple[str, ...]:
    """The commands by which the harness looks at what a step did: its contract, and its check in doubt."""
    contract = contract_of(step)
    looks = (contract.command if contract is not None else None, step.happened)
    return tuple(one for one in looks if one is not None)


def check_of(step: Step) -> Contract | CustomCondition | None:
    """What the harness looks at after a step, and without which the step does not pass; None where the step's own
    observed result is the evidence."""
    if step.verification is not None and isinstance(step.verification.strategy, Contract | CustomCondition):
        return step.verification.strategy
    return None


def item_name(step: Step) -> str:
    """What the item is called in a step, if it is repeated."""
    return step.for_each.name or "item" if step.for_each is not None else "item"
