"""What a plan will do to the world, effect by effect: computed from its steps and the registry, never told by prose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ordain.core.plan.action import CallTool, Task
from ordain.core.plan.command import command_of, program_of, typed
from ordain.core.plan.model import Action, Plan, Step, contract_of, nested_plan_of
from ordain.core.plan.role import EffectClass, about
from ordain.core.plan.tool import SHELL, ToolDefinition, definition_of, handler_of, tool_name
from ordain.core.plan.value import StepId
from ordain.core.policy.agent import choose
from ordain.core.policy.settings import DEFAULTS, Settings
from ordain.core.text.secret import named_secrets


class PlannedEffect(msgspec.Struct, frozen=True, kw_only=True):
    """One thing a plan will do to the world, as an approver sees it: computed, never told."""

    step: StepId
    kind: str
    """`command`, `contract`, `check` (in doubt, whether it happened), `write`, `move`, `delete`, `read`, `request`,
    `call` of a tool that is about none of these, `agent`, `pane`, or `action` for the rest."""
    target: str
    """The command, the path, the address, or the name of what is called."""
    tool: str
    effect: EffectClass
    destructive: bool
    claimed_repeatable: bool
    """The plan claims that this may be run again after a crash; approving makes it the approver's word."""
    secrets: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    happened: str | msgspec.UnsetType = msgspec.UNSET
    happened_final: bool | msgspec.UnsetType = msgspec.UNSET
    """Whether that command's "did not" is final, so that the step is run again."""


def planned_effects(
    plan: Plan, tools: Mapping[str, ToolDefinition], settings: Settings = DEFAULTS
) -> tuple[PlannedEffect, ...]:
    """Everything the plan will do, in its order. A contract is a command too, and can do whatever a command can."""
    return tuple(effect for step, agent in with_agents(plan, settings) for effect in effects_of(step, tools, agent))


def with_agents(plan: Plan, settings: Settings, around: tuple[Plan, ...] = ()) -> Iterator[tuple[Step, str]]:
    """Every step that may run, and who performs its task; nobody, where it has none or nobody is named."""
    plans = (plan, *around)
    for step in (*plan.steps, *plan.fallbacks):
        task = isinstance(step.action, Task)
        choice = choose(step, plans, settings.agent_for, settings.agent) if task else None
        yield step, choice.agent if choice is not None else ""
        if (inner := nested_plan_of(step)) is not None:
            yield from with_agents(inner, settings, plans)


def effects_of(step: Step, tools: Mapping[str, ToolDefinition], agent: str = "") -> Iterator[PlannedEffect]:
    """What one step will do, but for what a plan in it will do. `agent` is who performs its task."""
    claimed = step.idempotent is True
    command = command_of(step.action)
    if command is not None:
        yield _shell("command", step.id, command.command, claimed=claimed)
    else:
        tool = definition_of(step.action, tools)
        effect = tool.effect if tool is not None else EffectClass.OPAQUE
        # A call may say that what is in its way may be lost.
        overwrites = isinstance(step.action, CallTool) and step.action.args.get("overwrite") is True
        yield PlannedEffect(
            step=step.id,
            kind=_kind(step.action, tool),
            target=_target(step.action, tool, agent),
            tool=tool_name(step.action),
            effect=effect,
            destructive=tool is None or tool.destructive or overwrites,
            claimed_repeatable=claimed and effect is not EffectClass.READS,
            secrets=_secrets(step.action, tool) or msgspec.UNSET,
            happened=(tool.happened if tool is not None else "") or msgspec.UNSET,
            happened_final=(tool is not None and tool.happened_final) or msgspec.UNSET,
        )
    contract = contract_of(step)
    if contract is not None:
        yield _shell("contract", step.id, contract.command, claimed=False)
    if step.happened is not None:
        yield _shell("check", step.id, step.happened, claimed=False)


def _secrets(action: Action, tool: ToolDefinition | None) -> tuple[str, ...]:
    """Tools that are built in are handed none; of what is not known, the worst is told."""
    if not isinstance(action, CallTool) or (tool is not None and tool.schema is None):
        return ()
    return tuple(sorted(set(named_secrets(action.args))))


def _kind(action: Action, tool: ToolDefinition | None) -> str:
    if not isinstance(action, CallTool):
        # A handler that is a command can do whatever a command can.
        return "command" if tool is not None and tool.command else about(action).kind
    if program_of(action) is not None:
        return "command"
    if tool is not None and tool.name in _OWN_KINDS:
        return _OWN_KINDS[tool.name]
    if tool is None or not _about_a_path(tool):
        return "call"
    return "read" if tool.effect is EffectClass.READS else "write"


_OWN_KINDS = {"move": "move", "delete": "delete", "http_request": "request"}
"""Tools of our own whose effect has a word of its own."""
LOOKS = frozenset(["contract", "check"])
"""Commands that look at what a step did; they come after what the step does."""
ABOUT_PATHS = frozenset(["read", "write", "move", "delete"])


def _about_a_path(tool: ToolDefinition) -> bool:
    return any(parameter.path for parameter in tool.parameters)


def _target(action: Action, tool: ToolDefinition | None, agent: str) -> str:
    program = program_of(action)
    if program is not None:
        return typed(program.argv)
    match action:
        case CallTool(tool="move", args=args) if tool is not None:
            return f"{word(args.get('path'))} → {word(args.get('to'))}"
        case CallTool(tool="http_request", args=args) if tool is not None:
            return f"{word(args.get('method', 'GET'))} {word(args.get('url'))}"
        case CallTool(args=args) if tool is not None and _about_a_path(tool):
            return word(args.get("path", "."))
        case CallTool(tool=name, operation=operation):
            return name if operation is None else f"{name}: {operation}"
        case Task():
            return agent or "nobody"
        case _ if handler_of(action) is not None and tool is not None:
            return typed(tool.command) if tool.command else f"calls {tool.python}"
        case _:
            return about(action).target(action)


def word(value: Any) -> str:
    """An argument that should be a text. What else somebody sends may be too long to be written, or nested too deep."""
    return value if isinstance(value, str) else f"({type(value).__name__})"


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
