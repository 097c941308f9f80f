"""Actions that are commands: what bash gets, and what a program gets with no shell between. `command_of` makes a call
of `shell` and a `run` step alike. A call that does not fit its tool's parameters is no command: lint says what is
wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ordain.core.plan.action import CallTool, RunCommand
from ordain.core.plan.model import Action, Step, contract_of, item_name
from ordain.core.plan.refs import Index, Item, ParamValue, Unreadable, parse, references
from ordain.core.plan.role import Payload, field_with, value_with
from ordain.core.plan.tool import EXEC, SHELL, ToolDefinition, argument_faults, definition_of, handler_of
from ordain.core.plan.value import Value

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


class Program(Value, frozen=True):
    """A program and its arguments, handed over word by word."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = {}


def command_of(action: Action) -> RunCommand | None:
    """The command that bash gets, of a `run` step or of a call of `shell`."""
    if isinstance(action, RunCommand):
        return action
    args = _arguments(action, SHELL.name)
    return RunCommand(command=args["command"], env=args.get("env", {})) if args is not None else None


def program_of(action: Action) -> Program | None:
    """The program that a call of `exec` runs."""
    args = _arguments(action, EXEC.name)
    return Program(argv=tuple(args["argv"]), env=args.get("env", {})) if args is not None else None


def is_command(action: Action, tools: Mapping[str, ToolDefinition]) -> bool:
    """Whether the shell carries an action out."""
    if handler_of(action) is not None:
        handler = definition_of(action, tools)
        return handler is not None and bool(handler.command)
    return command_of(action) is not None or program_of(action) is not None


def command_text(action: Action) -> str | None:
    """What an action runs, as a person would type it; None where it is no command."""
    command, program = command_of(action), program_of(action)
    if command is not None:
        return command.command
    return typed(program.argv) if program is not None else None


def _arguments(action: Action, tool: str) -> Mapping[str, Any] | None:
    if not isinstance(action, CallTool) or action.tool != tool or action.operation is not None:
        return None
    definition = SHELL if tool == SHELL.name else EXEC
    return action.args if not argument_faults(definition, action.args) else None


def typed(argv: Sequence[str]) -> str:
    """Words as a person would type them into a shell."""
    return " ".join(word if _PLAIN.fullmatch(word) else "'" + word.replace("'", "'\"'\"'") + "'" for word in argv)


# --- Payload ---------------------------------------------------------------------------------------------------------
# The part of an action in which references may stand; never the text of a command, of which a value could break out.

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def payload(action: Action) -> Any:
    """The values of an action in which references may stand; None where there are none."""
    if isinstance(action, CallTool) and command_of(action) is not None:
        return action.args.get("env", {})
    return value_with(action, Payload)


def with_payload(action: Action, change: Callable[[Any], Any]) -> Action:
    """The action with these values changed."""
    if isinstance(action, CallTool) and command_of(action) is not None:
        args = action.args
        return replace(action, args={**args, "env": change(args["env"])}) if "env" in args else action
    name = field_with(type(action), Payload)
    return replace(action, **{name: change(getattr(action, name))}) if name is not None else action


def shared_variables(step: Step, look: str | None = None) -> dict[str, str]:
    """The variables of a step's command that its contract, or another `look` at it, names and therefore sees too."""
    contract, command = contract_of(step), command_of(step.action)
    text = look if look is not None else contract.command if contract is not None else None
    if text is None or command is None:
        return {}
    words = set(_WORD.findall(text))
    return {name: value for name, value in command.env.items() if name in words}


def decided_later(step: Step) -> dict[str, tuple[str, ...]]:
    """The arguments of a step whose values depend on what other steps do, with the references in them."""
    values: Any = payload(step.action)
    named = values if isinstance(values, Mapping) else {field_with(type(step.action), Payload) or "": values}
    item = item_name(step)
    found: dict[str, tuple[str, ...]] = {}
    for name, value in named.items():
        later = tuple(text for text in references(value, item) if _is_later(text, item))
        if later:
            found[name] = later
    if step.for_each is not None and _is_later(step.for_each.source, "item"):
        found["for_each"] = (step.for_each.source,)
    return found


def _is_later(text: str, item: str) -> bool:
    reference = parse(text, item)
    return not isinstance(reference, Unreadable) and not isinstance(reference.source, ParamValue | Item | Index)


# --- Names of environment variables ----------------------------------------------------------------------------------

_DANGEROUS = frozenset(
    [
        "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "IFS", "PROMPT_COMMAND", "PS4", "PYTHONPATH", "PYTHONHOME",
        "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONBREAKPOINT", "PERL5LIB", "PERL5OPT", "PERL5DB", "RUBYLIB", "RUBYOPT",
        "NODE_OPTIONS", "NODE_PATH", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "GIT_SSH",
        "GIT_SSH_COMMAND", "GIT_EXEC_PATH", "GIT_EXTERNAL_DIFF", "GIT_ASKPASS", "SSH_ASKPASS", "GIT_PROXY_COMMAND",
        "GIT_TEMPLATE_DIR", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_PAGER",
    ]
)  # fmt: skip
_NOT_FOR_STEPS = frozenset(
    [
        "PATH", "HOME", "CDPATH", "GLOBIGNORE", "PYTEST_ADDOPTS", "PYTEST_PLUGINS", "MAKEFLAGS", "MAKEFILES",
        "GNUMAKEFLAGS", "GOFLAGS", "RUSTC_WRAPPER", "RUSTFLAGS", "TAR_OPTIONS", "GREP_OPTIONS", "XDG_CONFIG_HOME",
        "LESSOPEN", "GIT_DIR", "GIT_WORK_TREE", "GCONV_PATH", "SHELL",
    ]
)  # fmt: skip
"""Variables that a person may let through from their own environment, and that no step may set."""
_DANGEROUS_BEGINNINGS = ("LD_", "DYLD_", "ORDAIN_", "BASH_FUNC_", "GIT_CONFIG", "NPM_CONFIG_", "npm_config_")


def setting_fault(name: str) -> str | None:
    """Why a step may not set a variable of this name; None when it may."""
    if name in _NOT_FOR_STEPS:
        return "could make a trusted program do something else"
    return variable_fault(name)


def variable_fault(name: str) -> str | None:
    """Why a variable of this name may not be given to a command at all; None when it may."""
    if not _WORD.fullmatch(name):
        return "is not the name of a variable"
    if name in _DANGEROUS or name.startswith(_DANGEROUS_BEGINNINGS):
        return "could make a trusted program do something else"
    return None
