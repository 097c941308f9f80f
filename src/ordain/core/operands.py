"""Operands: the files that a plan names, and in words what became of them between two looks.

Only what can be told from the plan itself: paths that are written out, and patterns. What a command or an agent reads
besides is not known, and neither is a path that is decided at run time. Whether a path may be looked at is for lint to
say, and looking is for others (`ports.Workspace.digests`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from ordain.core.action import CallTool, Custom, Task
from ordain.core.agent import Agent
from ordain.core.model import NestedPlan, Plan, Step, all_steps
from ordain.core.refs import literal, references
from ordain.core.tool import ToolDefinition, definition_of

__all__ = ["ABSENT", "changed", "operand_paths", "operand_patterns", "spelt_path"]

ABSENT = "absent"
"""What stands in place of a digest where there is nothing."""
_WILD = frozenset("*?")
_FILE = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_./+@-]*")


def operand_paths(plan: Plan, tools: Mapping[str, ToolDefinition], agents: Iterable[Agent] = ()) -> tuple[str, ...]:
    """Every file that a plan names, or the command of one of the agents that perform its tasks, each in one spelling,
    sorted. The workspace itself is no operand: an approval is bound to it anyway."""
    found = {spelt_path(path) for step in all_steps(plan) for path in _paths(step, tools)}
    found |= {spelt_path(word) for agent in agents for word in agent.command if _names_file(word)}
    return tuple(sorted(found - {""}))


def operand_patterns(plan: Plan) -> tuple[str, ...]:
    """Every pattern by which a plan names files that it protects or has an agent read, as it is written, sorted."""
    found = set(plan.protect)
    for step in all_steps(plan):
        found.update(step.protect, (read for read in _reads(step) if not _WILD.isdisjoint(read)))
        if isinstance(step.action, NestedPlan):
            found.update(step.action.plan.protect)
    return tuple(sorted(found))


def spelt_path(path: str) -> str:
    """The one spelling of a path, without needless parts; empty for the workspace itself."""
    return "/" * path.startswith("/") + "/".join(part for part in path.split("/") if part not in ("", "."))


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """What is different between two looks at a plan's operands, in words, by path. A path that was not seen is one
    where nothing was."""
    found = []
    for path in sorted(before.keys() | now.keys()):
        was, is_now = before.get(path, ABSENT), now.get(path, ABSENT)
        if was != is_now:
            what = "is new" if was == ABSENT else "is gone" if is_now == ABSENT else "has changed"
            found.append(f"`{path}` {what}")
    return tuple(found)


def _paths(step: Step, tools: Mapping[str, ToolDefinition]) -> Iterator[str]:
    """The paths that a step names. A star is a character like any other where a tool gets it, and elsewhere makes a
    pattern."""
    item = step.for_each.name or "item" if step.for_each is not None else "item"
    if isinstance(step.action, CallTool) and step.action.tool in tools:
        values = (step.action.args.get(one.name) for one in tools[step.action.tool].parameters if one.path)
        written = (value for value in values if isinstance(value, str))
        yield from (str(literal(path)) for path in _decided(written, item))
    handler = definition_of(step.action, tools) if isinstance(step.action, Custom) else None
    yield from (word for word in handler.command if _names_file(word)) if handler is not None else ()
    yield from _decided((path for path in (*_reads(step), *step.writes) if _WILD.isdisjoint(path)), item)


def _names_file(word: str) -> bool:
    """Whether a word of a handler's or an agent's command is, by its looks, a file of the workspace."""
    return _FILE.fullmatch(word) is not None and ("/" in word or "." in word) and ".." not in word.split("/")


def _decided(paths: Iterable[str], item: str) -> Iterator[str]:
    """Those that hold no reference: the others are known only when their step begins."""
    return (path for path in paths if next(references(path, item), None) is None)


def _reads(step: Step) -> Iterator[str]:
    reads = step.action.reads if isinstance(step.action, Task) else ()
    return (read.removeprefix("file:") for read in reads if read.startswith("file:"))
