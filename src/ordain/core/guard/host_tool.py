"""The tools that Claude Code has of its own, and those of its MCP servers, in the words of our rules.

A command is the tool `shell` as a whole. What works on files of the workspace is the tool of ours that does the same;
what only arranges the agent's own work counts as `reads`. What is not known has no definition, and so is guarded.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ordain.core.guard.call import Call, CallStanding, Guard, Judged
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import DEFINITIONS, SHELL, ToolDefinition, ToolSource, operation_name
from ordain.core.policy.settings import Settings
from ordain.core.policy.tier import unescaped
from ordain.core.text.control import CONFIGURATION_FILE, folded, is_control
from ordain.core.text.limit import FORBIDDEN
from ordain.core.text.path import is_kept
from ordain.core.text.pattern import PATTERN_MAX
from ordain.core.text.schema import understood

# --- Host tool -------------------------------------------------------------------------------------------------------

CLAUDE_CODE = "claude-code"
PLAN_EXIT = "ExitPlanMode"
_SERVERS = "mcp__"

_IDLE = frozenset(
    (
        *("Agent", "AskUserQuestion", "BashOutput", "EnterPlanMode", "KillShell", "ListAgents", "ListMcpResourcesTool"),
        *("ReportFindings", "Skill", "Task", "TaskCreate", "TaskGet", "TaskList", "TaskOutput", "TaskStop"),
        *("TaskUpdate", "TodoWrite", "ToolSearch", PLAN_EXIT),
    )
)
"""Tools that do nothing to the world by themselves. What a subagent calls is asked about like everything else; what
looks at a command under way, or ends it, can only mean one that this session was let start."""
_REACHING = frozenset(("WebFetch", "WebSearch"))
"""Tools that reach outside: an address can carry away what was read."""


class _OnFile(NamedTuple):
    tool: str
    path: str
    """The argument that is the path."""
    args: Mapping[str, str] = {}
    """Arguments of ours by theirs, besides the path."""
    deep: bool = False
    """What lies beneath the path is meant as well."""


_ON_FILES = {
    "Read": _OnFile("read_file", "file_path"),
    "Grep": _OnFile("read_file", "path", deep=True),
    "Glob": _OnFile("list_files", "path"),
    "LS": _OnFile("list_files", "path"),
    "Write": _OnFile("write_file", "file_path", {"content": "content"}),
    "Edit": _OnFile("edit_file", "file_path", {"old_string": "old", "new_string": "new"}),
    "MultiEdit": _OnFile("edit_file", "file_path"),
    "NotebookEdit": _OnFile("edit_file", "notebook_path"),
}
KNOWN = frozenset(("Bash", *_ON_FILES, *_IDLE, *_REACHING))
"""What is known here of the tools that Claude Code has of its own; a newer one may have more."""
_HERE = frozenset(("Grep", "Glob", "LS"))
"""Those that mean the directory they are called in where no path is given."""


class FoundPath(NamedTuple):
    """Where a path leads."""

    paths: tuple[str, ...]
    """As the workspace has it: where it really leads, and as it was named where that is another one; none where it
    leads out of the workspace."""
    through: str | None = None
    """As the workspace names it, where that leads out of it."""
    kept: str = ""
    """Why no agent writes it outside of a plan, as the end of a sentence that begins with the tool."""
    idle: bool = False
    """Whether nothing comes of what is written there: it is the host's own note of a plan."""


def found_at(
    real: str,
    named: str,
    root: str,
    *,
    states: Collection[str],
    plans: str | None,
    control: Sequence[str] = (),
) -> FoundPath:
    """What is known of an absolute path, where it `real`ly leads and as it was `named`, to the workspace in `root`;
    `states` are our state directories, `plans` where the host notes plans, `control` patterns of the settings."""
    inside = tuple(dict.fromkeys(one for path in (real, named) if (one := _beneath(path, root)) is not None))
    leads_out = _beneath(real, root) is None
    found = FoundPath((), through=_beneath(named, root)) if leads_out else FoundPath(inside)
    if any(_beneath(f"/{folded(real)}", f"/{folded(state)}") is not None for state in states):
        return found._replace(kept="would change Ordain's own record, which nobody does")
    if plans is not None and _beneath(real, plans) is not None and real.endswith(".md"):
        return found._replace(idle=True)
    # Of what lies outside all names count but those above the host's notes.
    outside = (_NOTES.split(path)[-1] for path in (real, named) if _beneath(path, root) is None)
    kept = next((one for one in (*inside, *outside) if is_control(one, control)), None)
    if kept is None:
        return found
    if folded(kept).partition(":")[0].rstrip(". ") == CONFIGURATION_FILE:  # as Windows reads it
        return found._replace(kept="would change Ordain's settings, which a person has to trust")
    if is_kept(kept):
        return found._replace(kept="would change what is git's or Ordain's own")
    return found._replace(kept="would change the settings of an agent's host, an editor or a shell")


_NOTES = re.compile(r"/\.claude/(?:plans|projects|todos|worktrees)/", re.IGNORECASE)
"""Where a host keeps notes and work trees in its own directory."""


def found_twice(one: FoundPath, other: FoundPath) -> FoundPath:
    """What is known of a path that leads to two places, if links are followed before its `..`: what holds of either."""
    why = "leads to two places, as there is a link before its `..`"
    paths = tuple(dict.fromkeys((*one.paths, *other.paths)))
    return FoundPath(paths, through=one.through or other.through, kept=one.kept or other.kept or why)


_QUOTES = "\"'`"
_FILE_URL = re.compile(r"\Afile:(?://[^/]*)?(?=/)", re.IGNORECASE)


def readings(path: str) -> tuple[str, ...]:
    """What hosts may take a path for, as it is written first: without blanks and quotes around it, as an address, with
    escapes resolved, with the separators of Windows, in either form of composed letters. One that begins with `~` is
    meant from a home; where `~name` may be a name like any other, `./` is before it."""
    changes: tuple[Callable[[str], str], ...] = (
        lambda one: one.strip().strip(_QUOTES).strip(),
        lambda one: _FILE_URL.sub("", one),
        unescaped,
        lambda one: one.replace("\\", "/"),
    )
    found = {path: None}
    for change in changes:
        found |= dict.fromkeys(map(change, list(found)))
    for form in ("NFC", "NFD") if not path.isascii() or "%" in path else ():
        found |= dict.fromkeys(unicodedata.normalize(form, one) for one in list(found))
    tilde = [one for one in found if one.startswith("~") and one[1:2] not in ("", "/")]
    found |= dict.fromkeys(f"./{one}" for one in tilde)
    found |= dict.fromkeys(f".{one[2:]}" for one in tilde if one[1:2] in ("+", "-"))
    return tuple(one for one in found if one and "\0" not in one)


def _beneath(path: str, root: str) -> str | None:
    """A path from a directory on; None where it does not lie in it."""
    if path == root:
        return "."
    begins = root.rstrip("/") + "/"
    return path.removeprefix(begins) if path.startswith(begins) else None


Locate = Callable[[str], FoundPath]


def mangled(name: str) -> str:
    """The name of a server or tool in the form that hosts give it: different names may become one."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def host_calls(
    tool: str, args: Mapping[str, Any], server: str | None, settings: Settings, own: Collection[str], locate: Locate
) -> tuple[Call, ...]:
    """The calls that a call of Claude Code is to the rules; none for what one of our `own` servers offers."""
    if tool.startswith(_SERVERS):
        return _of_server(tool, args, server, settings, own)
    if tool == "Bash":
        command = args.get("command")
        told = {"command": command} if isinstance(command, str) else {}
        return (Call(tool=SHELL.name, args=told, definition=SHELL),)
    if tool in _ON_FILES:
        return tuple(_on_file(tool, _ON_FILES[tool], args, locate))
    name = operation_name(CLAUDE_CODE, tool)
    effect = EffectClass.READS if tool in _IDLE else EffectClass.OPAQUE
    definition = _definition(name, effect) if tool in _IDLE or tool in _REACHING else None
    return (Call(tool=name, args=args, definition=definition),)


def our_name(tool: str) -> tuple[str, bool]:
    """What the rules call a tool of Claude Code that is one of ours to them, and whether its own name still means what
    it does outside of the workspace; empty where it goes by its own name."""
    ours = SHELL.name if tool == "Bash" else _ON_FILES[tool].tool if tool in _ON_FILES else ""
    return ours, tool != "Bash" and (not ours or DEFINITIONS[ours].effect is not EffectClass.READS)


def idle(call: Call) -> bool:
    """Whether a call only arranges the agent's own work."""
    own = call.tool.startswith(operation_name(CLAUDE_CODE, ""))
    return own and call.definition is not None and call.definition.effect is EffectClass.READS


def proposable(call: Call) -> bool:
    """Whether a plan can hold this call: those of the host's own tools are nobody's but the host's."""
    return not call.tool.startswith((operation_name(CLAUDE_CODE, ""), _SERVERS)) and not call.kept


def strictest(guard: Guard, calls: tuple[Call, ...]) -> tuple[Call, Judged]:
    """The one of these calls that the rules are strictest about, and what they say of it."""
    judged = [(call, guard.judge(call)) for call in calls]
    return max(judged, key=lambda one: _ORDER.index(one[1].standing))


_ORDER = (CallStanding.OPEN, CallStanding.GUARDED, CallStanding.DENIED)


def _definition(name: str, effect: EffectClass) -> ToolDefinition:
    return ToolDefinition(name=name, description=f"{name.partition(':')[2]} of {CLAUDE_CODE}.", effect=effect)


def _on_file(tool: str, like: _OnFile, args: Mapping[str, Any], locate: Locate) -> Iterator[Call]:
    path = args.get(like.path, "." if tool in _HERE else None)
    name = operation_name(CLAUDE_CODE, tool)
    if not isinstance(path, str) or not path or "\0" in path:
        yield Call(tool=name, args=args)
        return
    if len(path) > PATTERN_MAX or len(path.encode("utf-8", "surrogatepass")) > PATTERN_MAX:
        # To resolve one takes seconds, and what a host makes of it nobody knows.
        yield Call(tool=name, args=args, kept="is guarded: its path is longer than any path")
        return
    ours = DEFINITIONS[like.tool]
    if like.deep:
        deeper = (msgspec.structs.replace(one, deep=True) if one.path else one for one in ours.parameters)
        ours = msgspec.structs.replace(ours, parameters=tuple(deeper))
    told = {mine: args[theirs] for theirs, mine in like.args.items() if theirs in args}
    for found in dict.fromkeys(map(locate, readings(path))):
        yield from _at(found, ours, name, path, told)


def _at(found: FoundPath, ours: ToolDefinition, name: str, path: str, told: Mapping[str, Any]) -> Iterator[Call]:
    if found.through is not None:
        yield Call(tool=ours.name, args={"path": found.through}, definition=ours)
    if ours.effect is EffectClass.READS:
        definition = ours if found.paths else msgspec.structs.replace(ours, parameters=())
        for one in found.paths or (path,):
            yield Call(tool=ours.name, args={"path": one, **told}, definition=definition)
    elif found.idle:
        yield Call(tool=name, args={"path": path}, definition=_definition(name, EffectClass.READS))
    elif not found.paths:
        # Only what lies in the workspace is opened by the name of a tool of ours, by a path or a class, or because
        # nothing guards it.
        yield Call(tool=name, args={"path": path}, unknown="its path leads out of the workspace", kept=found.kept)
    else:
        for one in found.paths:
            yield Call(tool=ours.name, args={"path": one, **told}, definition=ours, kept=found.kept)


def _of_server(
    tool: str, args: Mapping[str, Any], server: str | None, settings: Settings, own: Collection[str]
) -> tuple[Call, ...]:
    if any(_belongs(tool, name, server) is not None for name in own):
        return ()
    fronted = [name for name, source in settings.sources.items() if source.mcp or source.url is not None]
    matching = [(name, operation) for name in fronted if (operation := _belongs(tool, name, server)) is not None]
    if len(matching) != 1:
        return (Call(tool=tool, args=args),)
    (name, operation) = matching[0]
    # Where two are written alike, it may be either of them.
    known = dict.fromkeys(one for one in _operations(name, settings) if mangled(one) == operation)
    return tuple(_operation(name, one, args, settings) for one in known or (operation,))


def _operation(server: str, operation: str, args: Mapping[str, Any], settings: Settings) -> Call:
    said = {"name": operation, "annotations": None}
    definition = listed_definition(server, settings.sources[server], said)
    return Call(tool=definition.name, args=args, definition=definition)


def _belongs(tool: str, name: str, server: str | None) -> str | None:
    """The operation that a tool of a host is of the server of this name; None where it is another server's."""
    begins = f"{_SERVERS}{mangled(name)}__"
    if not tool.startswith(begins):
        return None
    operation = tool.removeprefix(begins)
    if server is None:  # then `a__b` may be the server's name, or the tool's
        return operation if "__" not in operation else None
    return operation if mangled(server) == mangled(name) else None


def _operations(server: str, settings: Settings) -> Iterator[str]:
    """The operations of a server that the settings name, as they really are called."""
    yield from settings.sources[server].effects
    rules = (rule.tools for rule in settings.rules.values())
    lists = (settings.allow, settings.ask, settings.deny, settings.guarded, settings.open_calls, *rules)
    begins = operation_name(server, "")
    yield from (entry.removeprefix(begins) for listed in lists for entry in listed if entry.startswith(begins))


# --- Listed tool -----------------------------------------------------------------------------------------------------
# The definition that is made of what a server lists of itself. Nothing that it says about effects is believed unless
# the configuration says so, which wins over everything.

_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")


def callable_name(name: str) -> bool:
    """Whether plans can name an operation that is called so."""
    return _NAME.fullmatch(name) is not None


def listed_definition(server: str, source: ToolSource, said: Mapping[str, Any]) -> ToolDefinition:
    name = said["name"]
    effect, destructive = _effect(source, name, said.get("annotations"))
    described = next((one for one in (said.get("description"), said.get("title")) if one and isinstance(one, str)), "")
    schema = understood(said.get("inputSchema"))
    return ToolDefinition(
        name=operation_name(server, name),
        description=FORBIDDEN.sub("\ufffd", described or f"The operation {name}."),
        effect=effect,
        destructive=destructive,
        schema=schema if isinstance(schema, Mapping) else {},
    )


def _effect(source: ToolSource, name: str, annotations: Any) -> tuple[EffectClass, bool]:
    """What the configuration says of an operation, else the hints where they are trusted; none is the worst."""
    hints = annotations if source.trust_annotations and isinstance(annotations, Mapping) else {}
    reads = hints.get("readOnlyHint") is True
    destructive = not reads and hints.get("destructiveHint") is not False
    hinted = EffectClass.REPEATABLE if hints.get("idempotentHint") is True else EffectClass.OPAQUE
    effect = source.effects.get(name, EffectClass.READS if reads else hinted)
    return effect, destructive and effect is not EffectClass.READS
