"""Policy: which plans need a person's approval, which are denied, and why.

Deny wins, then ask, then allow; what no list names is asked. A list names effect classes and tools. Rules look at the
registry and the plan's bytes, never at prose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from ordain.core.action import (
    AcquireLock,
    CallTool,
    Custom,
    ReleaseLock,
    RunCommand,
    RunWorkflow,
    SendText,
    StoreData,
    Task,
)
from ordain.core.model import Action, Plan, Step, all_steps, contract_of
from ordain.core.problem import Place, Problem, closest
from ordain.core.settings import Settings
from ordain.core.tool import OWN_ACTION_KINDS, SHELL, EffectClass, ToolDefinition, definition_of, tool_name
from ordain.core.value import StepId

__all__ = ["PlannedEffect", "Ruling", "effects_of", "planned_effects", "rule", "unknown_names"]


class PlannedEffect(msgspec.Struct, frozen=True, kw_only=True):
    """One thing a plan will do to the world, as an approver sees it: computed, never told."""

    step: StepId
    kind: str
    """`command`, `contract`, `write`, `read`, `call` of a tool that is not about a path, `agent`, `pane`, or `action`
    for the rest."""
    target: str
    """The command, the path, or the name of what is called."""
    tool: str
    effect: EffectClass
    destructive: bool
    claimed_repeatable: bool
    """The plan claims that this may be run again after a crash; approving makes it the approver's word."""


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """What policy says of a plan."""

    requires_approval: bool
    reasons: tuple[str, ...]
    denied: tuple[Problem, ...] = ()


def planned_effects(plan: Plan, tools: Mapping[str, ToolDefinition]) -> tuple[PlannedEffect, ...]:
    """Everything the plan will do, in its order. A contract is a command too, and can do whatever a command can."""
    return tuple(effect for step in all_steps(plan) for effect in effects_of(step, tools))


def effects_of(step: Step, tools: Mapping[str, ToolDefinition]) -> Iterator[PlannedEffect]:
    """What one step will do: its action, then its contract. What a plan in it will do is not among it."""
    claimed = step.idempotent is True
    if isinstance(step.action, RunCommand):
        yield _shell("command", step.id, step.action.command, claimed=claimed)
    else:
        tool = definition_of(step.action, tools)
        effect = tool.effect if tool is not None else EffectClass.OPAQUE
        yield PlannedEffect(
            step=step.id,
            kind=_kind(step.action, tool),
            target=_target(step.action, tool),
            tool=tool_name(step.action),
            effect=effect,
            destructive=tool.destructive if tool is not None else True,
            claimed_repeatable=claimed and effect is not EffectClass.READS,
        )
    contract = contract_of(step)
    if contract is not None:
        yield _shell("contract", step.id, contract.command, claimed=False)


def _kind(action: Action, tool: ToolDefinition | None) -> str:
    if isinstance(action, Task | SendText):
        return "agent" if isinstance(action, Task) else "pane"
    if not isinstance(action, CallTool):
        return "action"
    if tool is None or not _about_a_path(tool):
        return "call"
    return "read" if tool.effect is EffectClass.READS else "write"


def _about_a_path(tool: ToolDefinition) -> bool:
    return any(parameter.path for parameter in tool.parameters)


def _target(action: Action, tool: ToolDefinition | None) -> str:
    """What an action is done to, as far as one word can say it."""
    match action:
        case CallTool(args=args) if tool is not None and _about_a_path(tool):
            return str(args.get("path", "."))
        case CallTool(tool=name, operation=operation):
            return name if operation is None else f"{name}: {operation}"
        case Task(agent=agent):
            return agent or "the agent of the configuration"
        case SendText(pane=pane, pane_id=pane_id):
            return pane or f"pane {pane_id}"
        case AcquireLock(lock_name=name) | ReleaseLock(lock_name=name):
            return name
        case StoreData(key=key):
            return key
        case RunWorkflow(workflow_id=name) | Custom(action_type=name):
            return name
        case _:
            return ""


def _shell(kind: str, step: StepId, command: str, *, claimed: bool) -> PlannedEffect:
    return PlannedEffect(
        step=step,
        kind=kind,
        target=command,
        tool=SHELL.name,
        effect=SHELL.effect,
        destructive=SHELL.destructive,
        claimed_repeatable=claimed,
    )


def unknown_names(settings: Settings, tools: Mapping[str, ToolDefinition]) -> tuple[Problem, ...]:
    """Names in the policy's lists that mean nothing: a misspelt deny would deny nothing."""
    known = {*EffectClass, *tools, SHELL.name, *OWN_ACTION_KINDS}
    return tuple(
        Problem(
            code="E_CONFIG",
            detail=f"policy.{which} names `{name}`, which is no tool, action or effect class.",
            hints=closest(name, sorted(known)),
        )
        for which, names in (("allow", settings.allow), ("ask", settings.ask), ("deny", settings.deny))
        for name in names
        if name not in known
    )


def rule(plan: Plan, tools: Mapping[str, ToolDefinition], settings: Settings) -> Ruling:
    """Whether this plan may run unasked, must be approved, or is denied; with a reason for each kind of effect."""
    steps_by_tool: dict[tuple[str, EffectClass], list[StepId]] = {}
    effects = planned_effects(plan, tools)
    for effect in effects:
        steps_by_tool.setdefault((effect.tool, effect.effect), []).append(effect.step)
    asks: list[str] = []
    allows: list[str] = []
    denied: list[Problem] = []
    for (tool, effect_class), steps in steps_by_tool.items():
        names = {tool, effect_class.value}
        what = f"`{tool}` ({effect_class.value}, {len(steps)} time{'s' if len(steps) > 1 else ''})"
        if names & set(settings.deny):
            denied.append(
                Problem(
                    code="E_POLICY_DENIED",
                    detail=f"Policy denies {what}.",
                    where=Place(step=steps[0]),
                    hints=("`[policy] deny` in ordain.toml says so.",),
                )
            )
        elif names & set(settings.ask):
            asks.append(f"{what} is in the policy's ask list")
        elif names & set(settings.allow):
            allows.append(f"{what} is allowed without asking")
        else:
            asks.append(f"{what} is not in the policy's allow list")
    asks += [
        f"`{effect.step}` claims that it may be run again after a crash, which only an approver can say"
        for effect in effects
        if effect.claimed_repeatable
    ]
    return Ruling(requires_approval=bool(asks), reasons=tuple(asks or allows), denied=tuple(denied))
