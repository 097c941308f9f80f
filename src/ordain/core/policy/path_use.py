"""What a plan names: its operands (files that are written out, and patterns), what became of them between two looks,
and everything in an effect that an entry of a policy list can name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec

from ordain.core.plan.action import CallTool, Task
from ordain.core.plan.command import command_of, program_of
from ordain.core.plan.model import Action, Plan, Step, all_steps, conditions_of, item_name, nested_plan_of
from ordain.core.plan.refs import literal, references
from ordain.core.plan.role import EffectClass, Handed, PathRead, PathWritten, parts
from ordain.core.plan.tool import (
    COMMANDS,
    EXEC,
    HANDLER,
    OWN_ACTION_KINDS,
    SHELL,
    ToolDefinition,
    action_kind,
    definition_of,
    handler_of,
)
from ordain.core.plan.value import StepId
from ordain.core.policy.agent import Agent
from ordain.core.policy.effect import ABOUT_PATHS, PlannedEffect, effects_of, with_agents, word
from ordain.core.policy.fact import SHELL_READS, LineFacts, Risk
from ordain.core.policy.program import WORKSPACE_WORD
from ordain.core.policy.rule import RULE
from ordain.core.policy.settings import Settings, reader_of_lines
from ordain.core.text.control import folded
from ordain.core.text.path import path_fault
from ordain.core.text.pattern import WILD, plain_part


class PathPart(NamedTuple):
    """A path that a step's action or one of its conditions names."""

    value: Any
    """`msgspec.UNSET` where a tool is called without it; what that means is for those to say who ask."""
    writes: bool
    deep: bool = False
    destructive: bool = False
    handed: bool = False
    expected: bool = False
    exact: bool = True
    """A star is a character like any other; elsewhere it makes a pattern."""


def paths_of(step: Step, tools: Mapping[str, ToolDefinition]) -> Iterator[PathPart]:
    """Every path that a step names by arguments and by the roles of fields, but for its `writes` and `inputs`."""
    action = step.action
    if isinstance(action, CallTool):
        tool = tools.get(action.tool)
        for one in tool.parameters if tool is not None else ():
            if one.path and tool is not None:
                reads = tool.effect is EffectClass.READS
                value = action.args.get(one.name, msgspec.UNSET)
                yield PathPart(value, not reads, one.deep, destructive=tool.destructive, expected=reads)
        if not step.preconditions and step.verification is None:
            return
    for declared in (action, *conditions_of(step)):
        for part in parts(declared, PathRead, PathWritten, Handed):
            match part.role:
                case PathRead(expected=expected):
                    yield PathPart(part.value, writes=False, expected=expected)
                case PathWritten(deep=deep):
                    yield PathPart(part.value, writes=True, deep=deep)
                case _ if part.value.startswith("file:"):
                    path = part.value.removeprefix("file:")
                    yield PathPart(path, writes=False, handed=True, expected=True, exact=False)


# --- Operands --------------------------------------------------------------------------------------------------------

ABSENT = "absent"
"""What stands in place of a digest where there is nothing."""
NOT_BOUND = ("too large", "unreadable", "changing")
"""What stands there of a file that was not read, so that nobody knows whether it changes."""
_FILE = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_./+@-]*")


def operand_paths(plan: Plan, tools: Mapping[str, ToolDefinition], agents: Iterable[Agent] = ()) -> tuple[str, ...]:
    """Every file that a plan, or the command of one of its agents, names, each in one spelling, sorted; never the
    workspace itself, which an approval is bound to anyway."""
    found = {spelt_path(path) for step in all_steps(plan) for path in _operand_paths(step, tools)}
    found |= {spelt_path(word) for agent in agents for word in agent.command if _names_file(word)}
    return tuple(sorted(found - {""}))


def operand_patterns(plan: Plan) -> tuple[str, ...]:
    """Every pattern by which a plan names files that it protects or has an agent read, as it is written, sorted."""
    found = set(plan.protect)
    for step in all_steps(plan):
        handed = (part.value for part in paths_of(step, {}) if not part.exact)
        found.update(step.protect, (read for read in handed if not WILD.isdisjoint(read)))
        if (inner := nested_plan_of(step)) is not None:
            found.update(inner.protect)
    return tuple(sorted(found))


def spelt_path(path: str) -> str:
    """The one spelling of a path, without needless parts; empty for the workspace itself."""
    return "/" * path.startswith("/") + "/".join(part for part in path.split("/") if part not in ("", "."))


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """What is different between two looks at a plan's operands. A path that was not seen is one where nothing was."""
    looks = ((path, before.get(path, ABSENT), now.get(path, ABSENT)) for path in sorted(before.keys() | now.keys()))
    return tuple(
        f"`{path}` {'is new' if was == ABSENT else 'is gone' if is_now == ABSENT else 'has changed'}"
        for path, was, is_now in looks
        if was != is_now and was not in NOT_BOUND
    )


def _operand_paths(step: Step, tools: Mapping[str, ToolDefinition]) -> Iterator[str]:
    """The paths that a step names. A star is like any other character where a tool gets it, else makes a pattern."""
    item = item_name(step)
    bound = (part for part in paths_of(step, tools) if part.writes or part.expected)
    named = [part for part in bound if isinstance(part.value, str)]
    yield from (str(literal(path)) for path in _decided((part.value for part in named if part.exact), item))
    handler = definition_of(step.action, tools) if handler_of(step.action) is not None else None
    words = (word.removeprefix(f"{WORKSPACE_WORD}/") for word in handler.command) if handler is not None else ()
    yield from (word for word in words if _names_file(word))
    others = (*(part.value for part in named if not part.exact), *step.writes)
    yield from _decided((path for path in others if WILD.isdisjoint(path)), item)


def _names_file(word: str) -> bool:
    """Whether a word of a handler's or an agent's command is, by its looks, a file of the workspace."""
    return _FILE.fullmatch(word) is not None and ("/" in word or "." in word) and ".." not in word.split("/")


def _decided(paths: Iterable[str], item: str) -> Iterator[str]:
    """Those that hold no reference: the others are known only when their step begins."""
    return (path for path in paths if next(references(path, item), None) is None)


# --- Subjects --------------------------------------------------------------------------------------------------------

Understand = Callable[[str], LineFacts]
PATH, AGENT = "path:", "agent:"
_DESTRUCTIVE = "destructive"
OWN_WORDS = frozenset([*EffectClass, _DESTRUCTIVE, SHELL.name, SHELL_READS, *OWN_ACTION_KINDS])
"""Words that mean something whatever tools there are."""
VAGUE = frozenset(EffectClass)
"""Words that allow nothing destructive: that is allowed by its name or as `destructive`, by neither class nor path."""


class NamedPath(msgspec.Struct, frozen=True):
    """A path that an effect names, as far as it is known beforehand."""

    text: str
    known: str
    """As much of it as is written out, in one spelling for all that may be the same."""
    within: str
    """The same, or for a pattern the directory that all is in which it matches."""
    exact: str | None
    """The path itself, without needless parts; None when it is not known or not a path of the workspace."""
    deep: bool
    anywhere: bool


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
    """What a tool is called with; None where it is no call, or a command."""
    line: LineFacts | None = None
    """What a command does; None where it is none, or nobody can tell."""


def subjects(plan: Plan, tools: Mapping[str, ToolDefinition], settings: Settings) -> Iterator[Subject]:
    """Every effect of a plan, in the order of `planned_effects`."""
    understand = reader_of_lines(settings)
    for step, agent in with_agents(plan, settings):
        first, *looks = effects_of(step, tools, agent)
        yield _understood(_subject(step, first, tools, agent), _command_text(step.action), understand)
        for effect in looks:
            words = _classes(effect) | {effect.tool}
            subject = Subject(effect=effect, words=words, surely=words, paths=(), about_paths=False)
            yield _understood(subject, effect.target, understand)


def subject_of_call(
    name: str, args: Mapping[str, Any], definition: ToolDefinition | None, understand: Understand | None = None
) -> Subject:
    """A single call, as the step that it would be in a plan. Only its name lets a tool through that nobody knows."""
    step = Step(id=StepId("call"), description=name, action=call_action(name, args), needs=())
    tools = {name: definition} if definition is not None else {}
    effect = next(effects_of(step, tools))
    subject = _understood(_subject(step, effect, tools, ""), _command_text(step.action), understand)
    if definition is not None:
        return subject
    return msgspec.structs.replace(subject, surely=subject.surely - _classes(effect))


def _command_text(action: Action) -> str | None:
    """The line that an action runs, where that says everything about it: variables may make another of it."""
    command = command_of(action)
    if command is not None:
        return command.command if not command.env else None
    program = program_of(action)
    return shlex.join(program.argv) if program is not None and not program.env else None


def _understood(subject: Subject, text: str | None, understand: Understand | None) -> Subject:
    if text is None or understand is None:
        return subject
    line = understand(text)
    if line.risk is not Risk.READS:
        return msgspec.structs.replace(subject, line=line)
    reads = frozenset([SHELL_READS])
    return msgspec.structs.replace(subject, line=line, words=subject.words | reads, surely=subject.surely | reads)


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
    classes = _classes(effect)
    match action:  # with arguments that are no command's it is denied by these names, and not allowed by them
        case CallTool(tool=EXEC.name, operation=None):
            # Any command can be run this way, so whoever denies commands denies it; who allows them does not allow it.
            surely = classes | {EXEC.name} if program_of(action) is not None else classes
            return classes | {EXEC.name, SHELL.name}, surely
        case CallTool(tool=SHELL.name, operation=None):
            words = classes | {SHELL.name}
            return words, words if command_of(action) is not None else classes
        case CallTool(tool=tool, operation=operation):
            names = frozenset([tool] if operation is None else [tool, f"{tool}:{operation}"])
            taken = tool in OWN_WORDS or f"{tool}:".startswith((PATH, AGENT, HANDLER, RULE))
            return classes | names, classes if taken else classes | names
        case Task() if agent:
            words = classes | {effect.tool, f"{AGENT}{agent}"}
        case _ if handler_of(action) is not None:
            words = classes | {effect.tool, action_kind(action)}
        case _:
            words = classes | {effect.tool}
    return words, words


def _paths(step: Step, tools: Mapping[str, ToolDefinition]) -> Iterator[NamedPath]:
    """Every path that a step names. An argument that is left out stands for the workspace."""
    for part in paths_of(step, tools):
        value = "." if part.value is msgspec.UNSET else part.value
        yield _path(value, writes=part.writes, deep=part.deep or part.destructive)
    yield from (_path(path, writes=True) for path in step.writes)


def _path(value: Any, *, writes: bool, deep: bool = False) -> NamedPath:
    if not isinstance(value, str):
        return NamedPath(text=word(value), known="", within="", exact=None, deep=True, anywhere=True)
    later = value.find("${")
    known = folded(value if later < 0 else value[:later].rpartition("/")[0])
    anywhere = later >= 0 or path_fault(value, writes=writes) is not None
    # A pattern may also be the name of a file, so that is compared as well.
    wild = not anywhere and not WILD.isdisjoint(value)
    within, deep = plain_part(known) if wild else known, deep or anywhere or wild or value.endswith("/")
    exact = None if anywhere or wild else "/".join(part for part in value.split("/") if part not in ("", "."))
    return NamedPath(text=value, known=known, within=within, exact=exact, deep=deep, anywhere=anywhere)


def above(path: str) -> Iterator[str]:
    """Every directory above a path, down from the workspace, which is the empty path; and the path itself."""
    yield ""
    if path:
        yield from accumulate(path.split("/"), "{}/{}".format)


def count(path: str) -> int:
    """How many names a path has."""
    return path.count("/") + 1 if path else 0
