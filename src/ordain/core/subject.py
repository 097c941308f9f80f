"""An effect with everything in it that an entry of a list can name: words, paths, arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate, takewhile
from typing import Any

import msgspec

from ordain.core.action import (
    CallTool,
    Custom,
    Task,
)
from ordain.core.command import command_of
from ordain.core.effect import ABOUT_PATHS, PlannedEffect, effects_of, with_agents
from ordain.core.lint.paths import folded, path_fault
from ordain.core.model import Action, Plan, Step
from ordain.core.settings import Settings
from ordain.core.tool import (
    COMMANDS,
    EXEC,
    HANDLER,
    OWN_ACTION_KINDS,
    SHELL,
    EffectClass,
    ToolDefinition,
    action_kind,
)
from ordain.core.value import StepId

__all__ = [
    "AGENT",
    "OWN_WORDS",
    "PATH",
    "VAGUE",
    "WILD",
    "NamedPath",
    "Subject",
    "above",
    "call_action",
    "count",
    "plain_part",
    "subject_of_call",
    "subjects",
]

PATH, AGENT = "path:", "agent:"
_DESTRUCTIVE = "destructive"
OWN_WORDS = frozenset([*EffectClass, _DESTRUCTIVE, SHELL.name, *OWN_ACTION_KINDS])
"""Words that mean something whatever tools there are."""
VAGUE = frozenset(EffectClass)
"""Words that allow nothing destructive: that is allowed by its name or as `destructive`, by neither class nor path."""
WILD = frozenset("*?")


class NamedPath(msgspec.Struct, frozen=True):
    """A path that an effect names, as far as it is known beforehand."""

    text: str
    """As the plan has it."""
    known: str
    """As much of it as is written out, in one spelling for all that may be the same."""
    within: str
    """The same, or for a pattern the directory that all is in which it matches."""
    exact: str | None
    """The path itself, without needless parts; None when it is not known or not a path of the workspace."""
    deep: bool
    """What lies beneath is meant as well."""
    anywhere: bool
    """It may turn out to be any path."""


class Subject(msgspec.Struct, frozen=True):
    """An effect, with everything in it that an entry can name."""

    effect: PlannedEffect
    words: frozenset[str]
    surely: frozenset[str]
    """Those of the words that cannot be taken for another meaning: only they allow."""
    paths: tuple[NamedPath, ...]
    about_paths: bool
    """The paths say what is done, so that allowing them can allow it."""
    args: Mapping[str, Any] | None = None
    """What a tool is called with; None where it is no call, or a command, which nobody tells by its text."""


def subjects(plan: Plan, tools: Mapping[str, ToolDefinition], settings: Settings) -> Iterator[Subject]:
    """Every effect of a plan, in the order of `planned_effects`."""
    for step, agent in with_agents(plan, settings):
        first, *contract = effects_of(step, tools, agent)
        yield _subject(step, first, tools, agent)
        for effect in contract:
            words = _classes(effect) | {effect.tool}
            yield Subject(effect=effect, words=words, surely=words, paths=(), about_paths=False)


def subject_of_call(name: str, args: Mapping[str, Any], definition: ToolDefinition | None) -> Subject:
    """A single call, as the step that it would be in a plan. Of a tool that nobody knows the worst is assumed, which
    lets nothing through: only its name does."""
    step = Step(id=StepId("call"), description=name, action=call_action(name, args), needs=())
    tools = {name: definition} if definition is not None else {}
    effect = next(effects_of(step, tools))
    subject = _subject(step, effect, tools, "")
    if definition is not None:
        return subject
    return msgspec.structs.replace(subject, surely=subject.surely - _classes(effect))


def call_action(name: str, args: Mapping[str, Any]) -> CallTool:
    """The action that a call of `tool` or `tool:operation` is in a plan."""
    tool, _, operation = name.partition(":")
    return CallTool(tool=tool, operation=operation or None, args=args)


def _subject(step: Step, effect: PlannedEffect, tools: Mapping[str, ToolDefinition], agent: str) -> Subject:
    words, surely = _words(step.action, effect, agent)
    return Subject(
        effect=effect,
        words=words,
        surely=surely,
        paths=tuple(_paths(step, tools)),
        about_paths=effect.kind in ABOUT_PATHS and effect.effect is not EffectClass.OPAQUE,
        args=step.action.args if isinstance(step.action, CallTool) and step.action.tool not in COMMANDS else None,
    )


def _classes(effect: PlannedEffect) -> frozenset[str]:
    return frozenset([effect.effect.value, _DESTRUCTIVE] if effect.destructive else [effect.effect.value])


def _words(action: Action, effect: PlannedEffect, agent: str) -> tuple[frozenset[str], frozenset[str]]:
    """The words for an effect, and those of them that can mean nothing else."""
    classes = _classes(effect)
    match action:
        case CallTool(tool=EXEC.name, operation=None):
            # Any command can be run this way, so whoever denies commands denies it, whatever its arguments are; whoever
            # allows them does not allow it.
            surely = classes | {EXEC.name}
            return surely | {SHELL.name}, surely
        case CallTool() if command_of(action) is not None:
            words = classes | {effect.tool}
        case CallTool(tool=tool, operation=operation):
            names = frozenset([tool] if operation is None else [tool, f"{tool}:{operation}"])
            taken = tool in OWN_WORDS or f"{tool}:".startswith((PATH, AGENT, HANDLER))
            return classes | names, classes if taken else classes | names
        case Task() if agent:
            words = classes | {effect.tool, f"{AGENT}{agent}"}
        case Custom():
            words = classes | {effect.tool, action_kind(action)}
        case _:
            words = classes | {effect.tool}
    return words, words


def _paths(step: Step, tools: Mapping[str, ToolDefinition]) -> Iterator[NamedPath]:
    """Every path that a step names. An argument that is left out stands for the workspace."""
    match step.action:
        case CallTool(tool=name, args=args) if name in tools:
            tool = tools[name]
            writes = tool.effect is not EffectClass.READS
            for parameter in tool.parameters:
                if parameter.path:
                    deep = tool.destructive or parameter.deep
                    yield _path(args.get(parameter.name, "."), writes=writes, deep=deep)
        case Task(reads=reads):
            files = (read.removeprefix("file:") for read in reads if read.startswith("file:"))
            yield from (_path(path, writes=False) for path in files)
    yield from (_path(path, writes=True) for path in step.writes)


def _path(value: Any, *, writes: bool, deep: bool = False) -> NamedPath:
    if not isinstance(value, str):
        return NamedPath(text=str(value), known="", within="", exact=None, deep=True, anywhere=True)
    later = value.find("${")
    known = folded(value if later < 0 else value[:later].rpartition("/")[0])
    if later >= 0 or path_fault(value, writes=writes) is not None:
        return NamedPath(text=value, known=known, within=known, exact=None, deep=True, anywhere=True)
    if not WILD.isdisjoint(value):
        # It may also be the name of a file, so that is compared as well.
        return NamedPath(text=value, known=known, within=plain_part(known), exact=None, deep=True, anywhere=False)
    exact = "/".join(part for part in value.split("/") if part not in ("", "."))
    return NamedPath(
        text=value, known=known, within=known, exact=exact, deep=deep or value.endswith("/"), anywhere=False
    )


def plain_part(pattern: str) -> str:
    """The directory that everything is in that a pattern matches."""
    return "/".join(takewhile(WILD.isdisjoint, pattern.split("/")))


def above(path: str) -> Iterator[str]:
    """Every directory above a path, down from the workspace, which is the empty path; and the path itself."""
    yield ""
    if path:
        yield from accumulate(path.split("/"), "{}/{}".format)


def count(path: str) -> int:
    """How many names a path has."""
    return path.count("/") + 1 if path else 0
