"""Policy: which plans need a person's approval, which are denied, and why.

Deny wins, then ask, then allow; what no list names is asked. Every effect is judged by itself, and a plan is as its
worst effect. Rules look at the registry and the plan's bytes, never at prose. An entry of a list is

- an effect class, or `destructive`, for what the registry calls so;
- a tool or an action of our own: `write_file`, `task`; commands and contracts are both `shell`, which in `deny` and
  `ask` also means `exec`;
- `tool:operation`; `custom:NAME`, for custom actions of that type;
- `agent:NAME`, who performs a task (`core.choosing`). It says nothing of the task's contract, which is a command;
- `path:PATTERN`, for the paths that arguments, `reads` and `writes` name. What a command, an agent or a call does with
  paths that it does not name is not seen here.

Doubt goes to the strict side. In `deny` and `ask` a pattern also means what lies beneath a path it matches, and
`docs/**` also the directory `docs`; spellings that some file system takes for the same path are the same. A path that
only may touch one of them is asked about, by either list: one that is decided at run time, one that lint refuses, a
pattern, a directory above, and whatever may lie beneath what is destroyed or moved. In `allow` a pattern means what it
says, letter by letter, and vouches for a call only if that is of a known tool about paths, is not opaque, and names no
path that is not matched. What is destructive is allowed by its name or as `destructive`, never by a class or a path. A
word for a class or for an action of ours never allows a tool that bears it as its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set

import msgspec

from ordain.core.judge import Judge
from ordain.core.model import Plan
from ordain.core.path import OFF_LIMITS, pattern_fault
from ordain.core.problem import Place, Problem, closest
from ordain.core.settings import Settings
from ordain.core.subject import AGENT, OWN_WORDS, PATH, subjects
from ordain.core.tool import (
    EffectClass,
    ToolDefinition,
)
from ordain.core.value import StepId

__all__ = ["Ruling", "rule", "unknown_names"]


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """What policy says of a plan."""

    requires_approval: bool
    reasons: tuple[str, ...]
    denied: tuple[Problem, ...] = ()


class _Group(msgspec.Struct, frozen=True):
    """Effects of one kind of which the same is said."""

    steps: list[StepId]
    paths: set[tuple[str, ...]]


def rule(plan: Plan, tools: Mapping[str, ToolDefinition], settings: Settings) -> Ruling:
    """Whether this plan may run unasked, must be approved, or is denied; with a reason for each kind of effect."""
    judge = Judge(settings)
    groups: dict[tuple[str, EffectClass, str, str], _Group] = {}
    claims: list[str] = []
    for subject in subjects(plan, tools, settings):
        effect, verdict = subject.effect, judge.verdict(subject)
        key = (effect.tool, effect.effect, verdict.answer, verdict.said)
        group = groups.setdefault(key, _Group(steps=[], paths=set()))
        group.steps.append(effect.step)
        group.paths.add(verdict.paths)
        if effect.claimed_repeatable:
            claims.append(
                f"`{effect.step}` claims that it may be run again after a crash, which only an approver can say"
            )
    asks: list[str] = []
    allows: list[str] = []
    denied: list[Problem] = []
    for (tool, effect_class, answer, said), group in groups.items():
        what = _described(tool, effect_class, group)
        match answer:
            case "deny":
                denied.append(
                    Problem(
                        code="E_POLICY_DENIED",
                        detail=f"Policy denies {what}: {said}.",
                        where=Place(step=group.steps[0]),
                        hints=("`[policy] deny` in ordain.toml says so.",),
                    )
                )
            case "ask":
                asks.append(f"{what} {said}")
            case _:
                allows.append(f"{what} {said}")
    asks += claims
    denied += judge.too_much()
    return Ruling(requires_approval=bool(asks), reasons=tuple(asks or allows), denied=tuple(denied))


def _described(tool: str, effect_class: EffectClass, group: _Group) -> str:
    """What is judged: with its paths where they decided and are the same for all."""
    paths = next(iter(group.paths)) if len(group.paths) == 1 else ()
    times = f"{len(group.steps)} time{'s' if len(group.steps) > 1 else ''}"
    return f"`{tool}`{''.join(f' `{path}`' for path in paths)} ({effect_class.value}, {times})"


# --- Entries that mean nothing -------------------------------------------------------------------------------------


def unknown_names(settings: Settings, tools: Mapping[str, ToolDefinition]) -> tuple[Problem, ...]:
    """Entries in the policy's lists that mean nothing: a misspelt deny would deny nothing."""
    found = []
    for which, entries in (("allow", settings.allow), ("ask", settings.ask), ("deny", settings.deny)):
        for entry in entries:
            fault = _path_entry_fault(entry, which) if entry.startswith(PATH) else _name_fault(entry, settings, tools)
            if fault is not None:
                detail, hints = fault
                found.append(Problem(code="E_CONFIG", detail=f"policy.{which} names `{entry}`, {detail}.", hints=hints))
    return tuple(found)


_Fault = tuple[str, tuple[str, ...]]
"""What is wrong with an entry, as the end of a sentence, and hints."""


def _path_entry_fault(entry: str, which: str) -> _Fault | None:
    fault = pattern_fault(entry.removeprefix(PATH))
    if fault is None or (fault == OFF_LIMITS and which != "allow"):
        return None
    return f"and that path {fault}", ("Paths are relative to the workspace and stay beneath it.",)


def _name_fault(entry: str, settings: Settings, tools: Mapping[str, ToolDefinition]) -> _Fault | None:
    callable_names = {*tools, *settings.sources}
    if entry in OWN_WORDS or entry in callable_names:
        return None
    kind, colon, name = entry.partition(":")
    if not colon:
        return "which is no tool, action or effect class", _meant(entry, settings, callable_names)
    if kind == AGENT.removesuffix(":"):
        if name in settings.agents:
            return None
        return "and there is no agent of that name", closest(name, sorted(settings.agents))
    if kind in OWN_WORDS:
        return f"and `{kind}` has no operations", ()
    # A tool's name may have a colon in it as well.
    if any(entry[: at.start()] in callable_names and at.end() < len(entry) for at in re.finditer(":", entry)):
        return None
    if kind in callable_names:
        return "without an operation", (f"Write `{kind}` for all it can do.",)
    return f"and there is no tool `{kind}`", closest(kind, [AGENT, PATH, *sorted(callable_names)])


def _meant(word: str, settings: Settings, callable_names: Set[str]) -> tuple[str, ...]:
    if word in settings.agents:
        return (f"Write `{AGENT}{word}`.",)
    if "/" in word or "*" in word:
        return (f"Write `{PATH}{word}`.",)
    return closest(word, sorted(OWN_WORDS | callable_names))
