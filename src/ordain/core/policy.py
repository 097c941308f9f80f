"""Policy: which plans need a person's approval, which are denied, and why.

Deny wins, then ask, then allow; what no list names is asked. A list names effect classes and tools. Rules look at the
registry and the plan's bytes, never at prose.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ordain.core.model import Plan, StepId, tool_name
from ordain.core.problem import Place, Problem
from ordain.core.settings import Settings
from ordain.core.tool import EffectClass, ToolDefinition, definition_of

__all__ = ["PlannedEffect", "Ruling", "planned_effects", "rule"]


class PlannedEffect(msgspec.Struct, frozen=True, kw_only=True):
    """One thing a plan will do to the world, as an approver sees it: computed, never told."""

    step: StepId
    kind: str
    """`command`, `write` or `read`."""
    target: str
    """The command, or the path."""
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
    """Everything the plan will do, one effect a step, in the plan's order."""
    found = []
    for step in plan.steps:
        tool = definition_of(step.action, tools)
        effect = tool.effect if tool is not None else EffectClass.OPAQUE
        arguments = msgspec.to_builtins(step.action).get("args", {})
        name = tool_name(step.action)
        if name == "shell":
            kind, target = "command", msgspec.to_builtins(step.action)["command"]
        else:
            kind = "read" if effect is EffectClass.READS else "write"
            target = str(arguments.get("path", "."))
        found.append(
            PlannedEffect(
                step=step.id,
                kind=kind,
                target=target,
                tool=name,
                effect=effect,
                destructive=tool.destructive if tool is not None else True,
                claimed_repeatable=step.idempotent is True and effect is not EffectClass.READS,
            )
        )
    return tuple(found)


def rule(plan: Plan, tools: Mapping[str, ToolDefinition], settings: Settings) -> Ruling:
    """Whether this plan may run unasked, must be approved, or is denied; with a reason for each kind of effect."""
    steps_by_tool: dict[tuple[str, EffectClass], list[StepId]] = {}
    for effect in planned_effects(plan, tools):
        steps_by_tool.setdefault((effect.tool, effect.effect), []).append(effect.step)
    asks: list[str] = []
    allows: list[str] = []
    denied: list[Problem] = []
    for (tool, effect_class), steps in steps_by_tool.items():
        names = {tool, effect_class.value}
        what = f"`{tool}` ({effect_class.value}, {len(steps)} step{'s' if len(steps) > 1 else ''})"
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
    return Ruling(requires_approval=bool(asks), reasons=tuple(asks or allows), denied=tuple(denied))
