"""What a tool declares about itself: its parameters and, above all, what its effect is like.

The effect class decides whether a plan needs approval and what may be done after a crash. Classes come from the
registry, never from a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from ordain.core.action import (
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
)
from ordain.core.canonical import canonical_bytes, digest
from ordain.core.model import Action, NestedPlan, Plan, all_steps
from ordain.core.problem import closest

__all__ = [
    "COMMANDS",
    "EXEC",
    "HANDLER",
    "OWN_ACTION_KINDS",
    "SHELL",
    "EffectClass",
    "Parameter",
    "ToolDefinition",
    "action_kind",
    "argument_faults",
    "definition_digest",
    "definition_of",
    "handler_name",
    "handlers_of",
    "tool_name",
]


class EffectClass(StrEnum):
    """What happens to the world when a tool is called, in the order of how little may be assumed after a crash."""

    READS = "reads"
    """Changes nothing."""
    REPEATABLE = "repeatable"
    """The same arguments twice have the effect of once."""
    CHECKABLE = "checkable"
    """A contract can tell whether it happened."""
    OPAQUE = "opaque"
    """Nobody can tell from outside; only a person may say."""


class Parameter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One argument of a tool. `path` marks a path that must lie beneath the workspace."""

    name: str
    kind: str
    """`string`, `integer`, `boolean`, or one with rules of its own: `argv` (a program and its arguments), `variables`
    (of an environment), `url` and `headers` (of a request)."""
    required: bool = False
    path: bool = False
    deep: bool = False
    """What lies beneath the path is meant as well."""
    choices: tuple[str, ...] = ()
    """The values there are, where there are not many."""
    description: str = ""


class ToolDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One registered tool, or one handler of custom actions. `atomic`: no half-done effect is ever visible."""

    name: str
    description: str
    effect: EffectClass
    parameters: tuple[Parameter, ...] = ()
    atomic: bool = False
    destructive: bool = False
    command: tuple[str, ...] = ()
    """Of a handler that is a command: the program and its arguments. It gets the payload as JSON."""
    python: str | None = None
    """Of a handler that is a Python callable: `module:name`."""
    registered: bool = False
    """Whether that callable was handed over by the program that uses us, and can be found in no other one."""


HANDLER = "custom:"
"""What the names of handlers begin with; no tool can be called by such a name."""

_ENV = Parameter(name="env", kind="variables", description="Variables that it sees besides those of the settings.")

SHELL = ToolDefinition(
    name="shell",
    description="Run a command with bash in the workspace.",
    effect=EffectClass.OPAQUE,
    parameters=(Parameter(name="command", kind="string", required=True), _ENV),
)
"""What a `run` step and every contract uses; a call of it means the same as `run`."""

EXEC = ToolDefinition(
    name="exec",
    description="Run a program in the workspace with exactly these arguments, without a shell.",
    effect=EffectClass.OPAQUE,
    parameters=(Parameter(name="argv", kind="argv", required=True, description="The program first."), _ENV),
)

COMMANDS = {SHELL.name: SHELL, EXEC.name: EXEC}
"""The tools that are commands: the shell runs them (`ports.Shell`), no toolbox does."""

_OWN_ACTIONS = {
    Task: EffectClass.OPAQUE,
    SendText: EffectClass.OPAQUE,
    WaitFor: EffectClass.REPEATABLE,
    AcquireLock: EffectClass.REPEATABLE,
    ReleaseLock: EffectClass.REPEATABLE,
    StoreData: EffectClass.REPEATABLE,
    RunWorkflow: EffectClass.OPAQUE,
    MarkEventHandled: EffectClass.REPEATABLE,
    ValidateApproval: EffectClass.READS,
    NestedPlan: EffectClass.OPAQUE,
    Ask: EffectClass.REPEATABLE,
    Custom: EffectClass.OPAQUE,
}
"""Actions that are not tools, and what they count as. Locks, data, events, questions and waiting are repeatable by
construction: they happen in the ledger's own transaction, or have no effect."""

OWN_ACTION_KINDS = frozenset(str(kind.__struct_config__.tag) for kind in _OWN_ACTIONS)
"""Their names on the wire, which policy may use."""


def action_kind(action: Action) -> str:
    """The action's name on the wire: `run`, `tool`, `task` …"""
    tag = action.__struct_config__.tag
    assert isinstance(tag, str)
    return tag


def handler_name(action_type: str) -> str:
    """What the handler of a type of custom actions is called among the tools."""
    return HANDLER + action_type


def handlers_of(plan: Plan) -> tuple[str, ...]:
    """The types of the custom actions of a plan."""
    actions = (step.action for step in all_steps(plan))
    return tuple(dict.fromkeys(action.action_type for action in actions if isinstance(action, Custom)))


def tool_name(action: Action) -> str:
    """What scopes and policy call an action by: a command is the tool `shell`, a call its tool, a custom action its
    handler, the rest its kind."""
    match action:
        case RunCommand():
            return SHELL.name
        case CallTool(tool=tool):
            return tool
        case Custom(action_type=action_type):
            return handler_name(action_type)
        case _:
            return action_kind(action)


def definition_of(action: Action, tools: Mapping[str, ToolDefinition]) -> ToolDefinition | None:
    """The definition behind an action: the shell's for a command, what is registered for a call and for a custom
    action, our own else."""
    match action:
        case RunCommand():
            return SHELL
        case CallTool(tool=tool):
            return tools.get(tool) if not tool.startswith(HANDLER) else None
        case Custom(action_type=action_type):
            return tools.get(handler_name(action_type))
        case _:
            kind = action_kind(action)
            return ToolDefinition(name=kind, description=f"The action {kind}.", effect=_OWN_ACTIONS[type(action)])


def _is_texts_by_name(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(part, str) for pair in value.items() for part in pair)


def _is_argv(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(word, str) for word in value) and any(value[:1])


_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "string": ("a string", lambda value: isinstance(value, str)),
    "integer": ("an integer", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "boolean": ("a boolean", lambda value: isinstance(value, bool)),
    "argv": ("a list of strings, the program first", _is_argv),
    "variables": ("a mapping of names to strings", _is_texts_by_name),
    "headers": ("a mapping of names to strings", _is_texts_by_name),
    "url": ("a string", lambda value: isinstance(value, str)),
}
"""What a value of each kind is called, and how it is told."""


def argument_faults(
    tool: ToolDefinition, args: Mapping[str, Any], later: Container[str] = ()
) -> list[tuple[str, tuple[str, ...]]]:
    """Everything wrong with a call's arguments, as (sentence, hints); empty when the call fits. The type of those named
    in `later` is not known yet."""
    known = {parameter.name: parameter for parameter in tool.parameters}
    faults: list[tuple[str, tuple[str, ...]]] = []
    for name in args:
        if name not in known:
            faults.append((f"`{tool.name}` takes no argument `{name}`.", closest(name, known)))
    for parameter in tool.parameters:
        if parameter.name not in args:
            if parameter.required:
                faults.append((f"`{tool.name}` needs the argument `{parameter.name}`.", ()))
            continue
        if parameter.name in later:
            continue
        value, (called, fits) = args[parameter.name], _KINDS[parameter.kind]
        if not fits(value):
            faults.append((f"`{tool.name}` wants `{parameter.name}` to be {called}.", ()))
        elif parameter.choices and value not in parameter.choices:
            faults.append((f"`{tool.name}` wants `{parameter.name}` to be one of {', '.join(parameter.choices)}.", ()))
    return faults


def definition_digest(tools: tuple[ToolDefinition, ...]) -> str:
    """One digest over the definitions a plan uses, so that a tool that changed voids an approval."""
    body = canonical_bytes(sorted((msgspec.to_builtins(tool) for tool in tools), key=lambda tool: str(tool["name"])))
    return "sha256:" + digest("application/vnd.ordain.tools.v1+json", body)
