"""What a tool declares about itself: its parameters and its effect class, which decides whether a plan needs approval
and what may be done after a crash. Classes come from the registry, never from a plan."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping
from functools import cache
from typing import Any, get_args

import msgspec
from msgspec.structs import replace

from ordain.core.plan.action import CallTool, RunCommand
from ordain.core.plan.canonical import canonical_bytes, digest
from ordain.core.plan.model import Action, Plan, Step, all_steps
from ordain.core.plan.role import EffectClass, HandlerName, value_with
from ordain.core.text.limit import NAME_LENGTH_MAX
from ordain.core.text.problem import closest
from ordain.core.text.schema import misfits
from ordain.core.text.secret import named_secrets


class ToolParameter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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
    description: str = ""


class ToolSource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the configuration says that a tool comes from: `[tools.NAME]`."""

    python: str | None = None
    """A Python function, or a list of them, each an operation: `module:name`."""
    plugin: str | None = None
    """The same by the name of an entry point, or of the package that has it."""
    mcp: tuple[str, ...] = ()
    url: str | None = None
    headers: Mapping[str, str] = {}
    """What it is sent with every request; `secret:NAME` for a secret."""
    env: tuple[str, ...] = ()
    """Variables that a server may see besides the few that every one does."""
    trust_annotations: bool = False
    """Whether what a server says about the effects of its operations is believed."""
    effects: Mapping[str, EffectClass] = {}
    """What operations count as, whatever the server says."""
    files: Mapping[str, str] = {}
    """The code of the workspace that it runs: digests by path."""
    happened: str = ""
    """A read-only command for bash that says in doubt whether a call with this step key took effect."""
    happened_final: bool = False
    """Whether its "did not" is final: nothing that is still under way can take effect later."""


class ToolDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One registered tool, one operation of a tool that has several, or one handler of custom actions."""

    name: str
    """Of an operation, `tool:operation`."""
    description: str
    effect: EffectClass
    parameters: tuple[ToolParameter, ...] = ()
    schema: Mapping[str, Any] | None = None
    """In place of parameters, for tools that are not built in: what is understood of the schema of its arguments."""
    atomic: bool = False
    """No half-done effect is ever visible."""
    destructive: bool = False
    command: tuple[str, ...] = ()
    """Of a handler that is a command: the program and its arguments. It gets the payload as JSON."""
    python: str | None = None
    files: Mapping[str, str] = {}
    source: ToolSource | None = None
    pinned: str = ""
    """The digest of all that its server says of it."""
    registered: bool = False
    """Whether that callable was handed over by the program that uses us, and can be found in no other one."""
    happened: str = ""
    happened_final: bool = False


class HappenedCheck(msgspec.Struct, frozen=True):
    """Who is asked in doubt whether the effect of a step happened."""

    command: str
    tool: str = ""
    """The tool whose registration declares it; empty for the step's own."""
    final: bool = False
    """Whether its "did not" may run the step again. A step's own check is never final."""


HANDLER = "custom:"
"""What the names of handlers begin with; no tool can be called by such a name."""

_ENV = ToolParameter(name="env", kind="variables", description="Variables that it sees besides those of the settings.")

_COMMAND = ToolParameter(name="command", kind="string", required=True)
_ARGV = ToolParameter(name="argv", kind="argv", required=True, description="The program first.")
_EXECUTES = "Run a program in the workspace with exactly these arguments, without a shell."


def _tool(name: str, effect: EffectClass, what: str, *parameters: ToolParameter, **flags: Any) -> ToolDefinition:
    return ToolDefinition(name=name, description=what, effect=effect, parameters=parameters, **flags)


SHELL = _tool("shell", EffectClass.OPAQUE, "Run a command with bash in the workspace.", _COMMAND, _ENV)
"""What a `run` step and every contract uses; a call of it means the same as `run`."""

EXEC = _tool("exec", EffectClass.OPAQUE, _EXECUTES, _ARGV, _ENV)
COMMANDS = {SHELL.name: SHELL, EXEC.name: EXEC}
"""The tools that are commands: the shell runs them (`ports.Shell`), no toolbox does."""

OWN_ACTION_KINDS = frozenset(
    str(kind.__struct_config__.tag) for kind in get_args(Action) if kind not in (RunCommand, CallTool)
)
"""The names on the wire of actions that are not tools, which policy may use."""


HOSTS = ("claude-code",)
"""Programs whose own tools only the guard judges, by a hook: lists call them `claude-code:WebFetch`."""
HOST_TOOL = re.compile(rf"(?:{'|'.join(HOSTS)}):[A-Za-z_]\w*|mcp__\w(?:[\w-]*\w)?__\w[\w-]*", re.ASCII)
"""A tool of such a program, or, as hosts call it, one of a server that is not configured here."""

RESERVED = frozenset(
    [*EffectClass, *OWN_ACTION_KINDS, *COMMANDS, *HOSTS, "agent", "destructive", "path", "rule", "run", "tool"]
)
"""Words that mean something to policy whatever tools there are: no tool of others can be called so."""


def action_kind(action: Action) -> str:
    """The action's name on the wire: `run`, `tool`, `task` …"""
    return str(action.__struct_config__.tag)


def handler_name(action_type: str) -> str:
    return HANDLER + action_type


def handlers_of(plan: Plan) -> tuple[str, ...]:
    """The types of the custom actions of a plan."""
    types = (handler_of(step.action) for step in all_steps(plan))
    return tuple(dict.fromkeys(one for one in types if one is not None))


def handler_of(action: Action) -> str | None:
    """The type of a custom action, by which its handler is registered; None for every other action."""
    found: str | None = value_with(action, HandlerName)
    return found


def operation_name(tool: str, operation: str) -> str:
    return f"{tool}:{operation}"


def operations_of(tool: str, tools: Mapping[str, ToolDefinition]) -> tuple[str, ...]:
    """The operations that a tool has among these; none where it is one thing, or not among them."""
    begins = operation_name(tool, "")
    return tuple(name.removeprefix(begins) for name in tools if name.startswith(begins)) if begins != HANDLER else ()


def tool_name(action: Action) -> str:
    """What scopes and policy call an action by: `shell`, its tool (and operation), its handler, or else its kind."""
    match action:
        case RunCommand():
            return SHELL.name
        case CallTool(tool=tool, operation=operation):
            return tool if operation is None else operation_name(tool, operation)
        case _:
            handler = handler_of(action)
            return handler_name(handler) if handler is not None else action_kind(action)


def definition_of(action: Action, tools: Mapping[str, ToolDefinition]) -> ToolDefinition | None:
    """The definition behind an action: what is registered for a call and for a custom action, our own else."""
    match action:
        case RunCommand():
            return SHELL
        case CallTool():
            name = tool_name(action)
            return tools.get(name) if not name.startswith(HANDLER) else None
        case _:
            handler = handler_of(action)
            return tools.get(handler_name(handler)) if handler is not None else _own_definition(type(action))


def reached(source: ToolSource) -> ToolSource:
    """How a server is reached, without what a person says of its operations."""
    return replace(source, effects={}, trust_annotations=False, happened="", happened_final=False)


def declared(tool: ToolDefinition, source: ToolSource) -> ToolDefinition:
    """A tool with the check that its registration declares for all that it does; what only reads is never in doubt."""
    if not source.happened or tool.effect is EffectClass.READS:
        return tool
    return replace(tool, happened=source.happened, happened_final=source.happened_final)


def happened_check(step: Step, tools: Mapping[str, ToolDefinition]) -> HappenedCheck | None:
    """The check that is asked when a step is in doubt: its tool's where that declares one, else the step's own."""
    tool = definition_of(step.action, tools)
    if tool is not None and tool.happened:
        return HappenedCheck(tool.happened, tool.name, tool.happened_final)
    return HappenedCheck(step.happened) if step.happened is not None else None


@cache
def _own_definition(kind: type[Any]) -> ToolDefinition:
    name = str(kind.__struct_config__.tag)
    return ToolDefinition(name=name, description=f"The action {name}.", effect=kind.about.effect)


def _is_texts_by_name(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(part, str) for pair in value.items() for part in pair)


ARGUMENTS_MAX = 200
DEPTH_MAX = 32
"""How many lists and mappings of a call's arguments may stand inside one another."""

_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "string": ("a string", lambda value: isinstance(value, str)),
    "integer": ("an integer", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "boolean": ("a boolean", lambda value: isinstance(value, bool)),
    "argv": (
        "a list of strings, the program first",
        lambda value: isinstance(value, list | tuple) and all(isinstance(one, str) for one in value) and any(value[:1]),
    ),
    "variables": ("a mapping of names to strings", _is_texts_by_name),
    "headers": ("a mapping of names to strings", _is_texts_by_name),
    "url": ("a string", lambda value: isinstance(value, str)),
}
"""What a value of each kind is called, and how it is told."""


def argument_faults(
    tool: ToolDefinition, args: Mapping[str, Any], later: Container[str] = ()
) -> list[tuple[str, tuple[str, ...]]]:
    """Everything wrong with a call's arguments, as (sentence, hints). Values of those in `later` are not known yet."""
    if tool.schema is not None:
        return list(_misfits(tool, args, later))
    known = {parameter.name: parameter for parameter in tool.parameters}
    faults: list[tuple[str, tuple[str, ...]]] = []
    for name in args:
        if name not in known:
            faults.append((f"`{tool.name}` takes no argument `{name}`.", (*closest(name, known), taken_words(tool))))
    for parameter in tool.parameters:
        if parameter.required and parameter.name not in args:
            faults.append((f"`{tool.name}` needs the argument `{parameter.name}`.", (taken_words(tool),)))
        if parameter.name not in args or parameter.name in later:
            continue
        value, (called, fits) = args[parameter.name], _KINDS[parameter.kind]
        if not fits(value):
            faults.append((f"`{tool.name}` wants `{parameter.name}` to be {called}.", ()))
        elif parameter.choices and value not in parameter.choices:
            faults.append((f"`{tool.name}` wants `{parameter.name}` to be one of {', '.join(parameter.choices)}.", ()))
    return faults


def _misfits(
    tool: ToolDefinition, args: Mapping[str, Any], later: Container[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    schema: Mapping[str, Any] = tool.schema or {}
    known: Mapping[str, Any] = schema.get("properties", {})
    for name in args:
        if name not in known and schema.get("additionalProperties") is False:
            yield f"`{tool.name}` takes no argument `{name}`.", (*closest(name, known), taken_words(tool))
    for name in schema.get("required", ()):
        if name not in args:
            yield f"`{tool.name}` needs the argument `{name}`.", (taken_words(tool),)
    for name, value in args.items():
        if name in known and name not in later and not any(named_secrets(value)):
            # Whether a text matches a pattern the tool finds out itself, in its own language of patterns.
            for fault in misfits(known[name], value, lambda pattern, text: True, f"`{name}`"):
                yield f"`{tool.name}`: {fault}.", ()


def unbearable(args: Mapping[str, Any]) -> list[tuple[str, tuple[str, ...]]]:
    """Why arguments are not looked at any closer, which a caller could make costly; as `argument_faults` has it."""
    if len(args) > ARGUMENTS_MAX or any(not isinstance(name, str) or len(name) > NAME_LENGTH_MAX for name in args):
        return [("There are more arguments, or longer names of some, than any tool has.", ())]
    below: list[Any] = [args]
    for _ in range(DEPTH_MAX + 1):
        inner = (one for one in below if isinstance(one, Mapping | list | tuple))
        below = [part for one in inner for part in (one.values() if isinstance(one, Mapping) else one)]
    return [(f"More than {DEPTH_MAX} lists and mappings are nested.", ())] if below else []


def argument_names(tool: ToolDefinition) -> Iterator[tuple[str, bool]]:
    """The arguments of a tool, and whether each is required."""
    if tool.schema is None:
        yield from ((one.name, one.required) for one in tool.parameters)
    else:
        required = tool.schema.get("required", ())
        yield from ((name, name in required) for name in tool.schema.get("properties", {}))


def taken_words(tool: ToolDefinition) -> str:
    """The arguments that a tool takes, as a sentence."""
    names = list(argument_names(tool))
    said = [", ".join(f"`{name}`" for name, needed in names if needed is wanted) for wanted in (True, False)]
    said[1] = f"optional: {said[1]}" if said[1] else ""
    return f"`{tool.name}` takes {'; '.join(filter(None, said)) or 'no arguments'}."


def definition_digest(tools: tuple[ToolDefinition, ...]) -> str:
    """One digest over the definitions a plan uses, so that a tool that changed voids an approval."""
    body = canonical_bytes(sorted((msgspec.to_builtins(tool) for tool in tools), key=lambda tool: str(tool["name"])))
    return "sha256:" + digest("application/vnd.ordain.tools.v1+json", body)


# --- Built-in tools, which `adapters/tools/file.py` and `adapters/tools/http.py` carry out ---------------------------

_PATH = ToolParameter(name="path", kind="string", required=True, path=True, description="Relative to the workspace.")

_DEEP = replace(_PATH, deep=True)
_PLACE = replace(_PATH, required=False, description="Default: the workspace.")
_TO = replace(_DEEP, name="to", description="The new path itself, not a directory to move into.")
_CONTENT, _OLD, _NEW = (ToolParameter(name=name, kind="string", required=True) for name in ("content", "old", "new"))
_PATTERN = ToolParameter(
    name="pattern", kind="string", required=True, description="Plain text of one line; `*` is anything between."
)
_FILES = ToolParameter(name="files", kind="string", description="Only files with names like `*.py`, `src/**/*.c`.")
_IGNORE_CASE = ToolParameter(name="ignore_case", kind="boolean", description="Take small and capital letters as one.")
_OVERWRITE = ToolParameter(name="overwrite", kind="boolean", description="Replace a file or empty directory there.")
_RECURSIVE = ToolParameter(name="recursive", kind="boolean", description="A directory with everything in it, too.")
_READS, _REPEATABLE, _CHECKABLE = EffectClass.READS, EffectClass.REPEATABLE, EffectClass.CHECKABLE
_MOVES = "Give a file, directory or link another path, in one step and without overwriting."
_DELETES = "Delete a file, a link (never what it points to) or an empty directory."
_SEARCHES = "Find the lines of text files that hold a text, each as `path:line: text`; binary files are left out."
_EDITS = "Replace one text, which must occur exactly once in the file, by another."

DEFINITIONS = {
    tool.name: tool
    for tool in (
        _tool("read_file", _READS, "Read a UTF-8 text file.", _PATH),
        _tool("list_files", _READS, "List the entries of a directory, sorted; directories end with a slash.", _PLACE),
        _tool("search", _READS, _SEARCHES, _PATTERN, replace(_PLACE, deep=True), _FILES, _IGNORE_CASE),
        _tool("write_file", _REPEATABLE, "Write a whole file, replacing what was there.", _PATH, _CONTENT, atomic=True),
        _tool("make_dir", _REPEATABLE, "Make a directory and its parents; fine if it is there.", _PATH),
        _tool("edit_file", _CHECKABLE, _EDITS, _PATH, _OLD, _NEW, atomic=True),
        _tool("move", _CHECKABLE, _MOVES, _DEEP, _TO, _OVERWRITE, atomic=True),
        _tool("delete", _CHECKABLE, _DELETES, _DEEP, _RECURSIVE, atomic=True, destructive=True),
    )
}

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

HTTP_REQUEST = _tool(
    "http_request",
    EffectClass.OPAQUE,
    "Send an HTTP request; the result is the body of the answer.",
    ToolParameter(name="method", kind="string", choices=_METHODS, description="Default: GET."),
    ToolParameter(name="url", kind="url", required=True),
    ToolParameter(name="headers", kind="headers"),
    ToolParameter(name="body", kind="string", description="Sent as UTF-8."),
    ToolParameter(name="status", kind="integer", description="The status that is wanted. Default: any 2xx."),
)

BUILT_IN: Mapping[str, ToolDefinition] = {**COMMANDS, **DEFINITIONS, HTTP_REQUEST.name: HTTP_REQUEST}


def inventory_line(tool: ToolDefinition) -> str:
    """A tool in the inventory that planners get: its arguments, its effect and what it does, on one line."""
    names = ", ".join(name if required else f"{name}?" for name, required in argument_names(tool))
    harm = ", destructive" if tool.destructive else ""
    return f"{tool.name}({names}) [{tool.effect.value}{harm}]: {first_paragraph(tool.description)}"


def first_paragraph(description: str) -> str:
    """What a tool does, in one line: the first paragraph about it."""
    return " ".join(description.strip().partition("\n\n")[0].split())
