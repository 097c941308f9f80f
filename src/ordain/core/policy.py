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

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import accumulate, islice, takewhile
from typing import Any, Literal

import msgspec

from ordain.core.action import (
    AcquireLock,
    CallTool,
    Custom,
    ReleaseLock,
    RunWorkflow,
    SendText,
    StoreData,
    Task,
)
from ordain.core.choosing import choose
from ordain.core.command import command_of, program_of, typed
from ordain.core.lint.paths import COMPARED_MAX, OFF_LIMITS, folded, path_fault, pattern_fault
from ordain.core.model import Action, NestedPlan, Plan, Step, contract_of
from ordain.core.pattern import Pattern, normal
from ordain.core.problem import Place, Problem, closest
from ordain.core.secret_reference import named_secrets
from ordain.core.settings import DEFAULTS, Settings
from ordain.core.tool import (
    HANDLER,
    OWN_ACTION_KINDS,
    SHELL,
    EffectClass,
    ToolDefinition,
    action_kind,
    definition_of,
    tool_name,
)
from ordain.core.value import StepId

__all__ = ["PlannedEffect", "Ruling", "effects_of", "planned_effects", "rule", "unknown_names"]

# --- What a plan does ----------------------------------------------------------------------------------------------


class PlannedEffect(msgspec.Struct, frozen=True, kw_only=True):
    """One thing a plan will do to the world, as an approver sees it: computed, never told."""

    step: StepId
    kind: str
    """`command`, `contract`, `write`, `move`, `delete`, `read`, `request` over the network, `call` of a tool that is
    about none of these, `agent`, `pane`, or `action` for the rest."""
    target: str
    """The command, the path, the address, or the name of what is called."""
    tool: str
    effect: EffectClass
    destructive: bool
    claimed_repeatable: bool
    """The plan claims that this may be run again after a crash; approving makes it the approver's word."""
    secrets: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """The secrets that a call is handed, by their names."""


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """What policy says of a plan."""

    requires_approval: bool
    reasons: tuple[str, ...]
    denied: tuple[Problem, ...] = ()


def planned_effects(
    plan: Plan, tools: Mapping[str, ToolDefinition], settings: Settings = DEFAULTS
) -> tuple[PlannedEffect, ...]:
    """Everything the plan will do, in its order. A contract is a command too, and can do whatever a command can."""
    return tuple(effect for step, agent in _with_agents(plan, settings) for effect in effects_of(step, tools, agent))


def _with_agents(plan: Plan, settings: Settings, around: tuple[Plan, ...] = ()) -> Iterator[tuple[Step, str]]:
    """Every step that may run, and who performs its task; nobody, where it has none or nobody is named."""
    plans = (plan, *around)
    for step in (*plan.steps, *plan.fallbacks):
        task = isinstance(step.action, Task)
        choice = choose(step, plans, settings.agent_for, settings.agent) if task else None
        yield step, choice.agent if choice is not None else ""
        if isinstance(step.action, NestedPlan):
            yield from _with_agents(step.action.plan, settings, plans)


def effects_of(step: Step, tools: Mapping[str, ToolDefinition], agent: str = "") -> Iterator[PlannedEffect]:
    """What one step will do: its action, then its contract. What a plan in it will do is not among it. `agent` is who
    performs its task."""
    claimed = step.idempotent is True
    command = command_of(step.action)
    if command is not None:
        yield _shell("command", step.id, command.command, claimed=claimed)
    else:
        tool = definition_of(step.action, tools)
        effect = tool.effect if tool is not None else EffectClass.OPAQUE
        yield PlannedEffect(
            step=step.id,
            kind=_kind(step.action, tool),
            target=_target(step.action, tool, agent),
            tool=tool_name(step.action),
            effect=effect,
            destructive=tool is None or tool.destructive or _overwrites(step.action),
            claimed_repeatable=claimed and effect is not EffectClass.READS,
            secrets=_secrets(step.action, tool) or msgspec.UNSET,
        )
    contract = contract_of(step)
    if contract is not None:
        yield _shell("contract", step.id, contract.command, claimed=False)


def _overwrites(action: Action) -> bool:
    """Whether a call says that what is in its way may be lost."""
    return isinstance(action, CallTool) and action.args.get("overwrite") is True


def _secrets(action: Action, tool: ToolDefinition | None) -> tuple[str, ...]:
    """Tools that are built in are handed none; of what is not known, the worst is told."""
    if not isinstance(action, CallTool) or (tool is not None and tool.schema is None):
        return ()
    return tuple(sorted(set(named_secrets(action.args))))


def _kind(action: Action, tool: ToolDefinition | None) -> str:
    if isinstance(action, Task | SendText):
        return "agent" if isinstance(action, Task) else "pane"
    if isinstance(action, Custom) and tool is not None and tool.command:
        return "command"
    if not isinstance(action, CallTool):
        return "action"
    if program_of(action) is not None:
        return "command"
    if tool is not None and tool.name in _OWN_KINDS:
        return _OWN_KINDS[tool.name]
    if tool is None or not _about_a_path(tool):
        return "call"
    return "read" if tool.effect is EffectClass.READS else "write"


_OWN_KINDS = {"move": "move", "delete": "delete", "http_request": "request"}
"""Tools of our own whose effect has a word of its own."""
_ABOUT_PATHS = frozenset(["read", "write", "move", "delete"])


def _about_a_path(tool: ToolDefinition) -> bool:
    return any(parameter.path for parameter in tool.parameters)


def _target(action: Action, tool: ToolDefinition | None, agent: str) -> str:
    """What an action is done to, as far as one word can say it."""
    program = program_of(action)
    if program is not None:
        return typed(program.argv)
    match action:
        case CallTool(tool="move", args=args) if tool is not None:
            return f"{args.get('path')} → {args.get('to')}"
        case CallTool(tool="http_request", args=args) if tool is not None:
            return f"{args.get('method', 'GET')} {args.get('url')}"
        case CallTool(args=args) if tool is not None and _about_a_path(tool):
            return str(args.get("path", "."))
        case CallTool(tool=name, operation=operation):
            return name if operation is None else f"{name}: {operation}"
        case Task():
            return agent or "nobody"
        case SendText(pane=pane, pane_id=pane_id):
            return pane or f"pane {pane_id}"
        case AcquireLock(lock_name=name) | ReleaseLock(lock_name=name):
            return name
        case StoreData(key=key):
            return key
        case RunWorkflow(workflow_id=name):
            return name
        case Custom() if tool is not None:
            return typed(tool.command) if tool.command else f"calls {tool.python}"
        case _:
            return ""


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


# --- What entries are compared with --------------------------------------------------------------------------------

_PATH, _AGENT = "path:", "agent:"
_DESTRUCTIVE = "destructive"
_OWN_WORDS = frozenset([*EffectClass, _DESTRUCTIVE, SHELL.name, *OWN_ACTION_KINDS])
"""Words that mean something whatever tools there are."""
_VAGUE = frozenset(EffectClass)
"""Words that allow nothing destructive: that is allowed by its name or as `destructive`, by neither class nor path."""
_WILD = frozenset("*?")


class _Path(msgspec.Struct, frozen=True):
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


class _Subject(msgspec.Struct, frozen=True):
    """An effect, with everything in it that an entry can name."""

    effect: PlannedEffect
    words: frozenset[str]
    surely: frozenset[str]
    """Those of the words that cannot be taken for another meaning: only they allow."""
    paths: tuple[_Path, ...]
    about_paths: bool
    """The paths say what is done, so that allowing them can allow it."""


def _subjects(plan: Plan, tools: Mapping[str, ToolDefinition], settings: Settings) -> Iterator[_Subject]:
    """Every effect of a plan, in the order of `planned_effects`."""
    for step, agent in _with_agents(plan, settings):
        first, *contract = effects_of(step, tools, agent)
        words, surely = _words(step.action, first, agent)
        yield _Subject(
            effect=first,
            words=words,
            surely=surely,
            paths=tuple(_paths(step, tools)),
            about_paths=first.kind in _ABOUT_PATHS and first.effect is not EffectClass.OPAQUE,
        )
        for effect in contract:
            words = _classes(effect) | {effect.tool}
            yield _Subject(effect=effect, words=words, surely=words, paths=(), about_paths=False)


def _classes(effect: PlannedEffect) -> frozenset[str]:
    return frozenset([effect.effect.value, _DESTRUCTIVE] if effect.destructive else [effect.effect.value])


def _words(action: Action, effect: PlannedEffect, agent: str) -> tuple[frozenset[str], frozenset[str]]:
    """The words for an effect, and those of them that can mean nothing else."""
    classes = _classes(effect)
    if program_of(action) is not None:
        # Any command can be run this way, so whoever denies commands denies it; whoever allows them does not allow it.
        surely = classes | {effect.tool}
        return surely | {SHELL.name}, surely
    match action:
        case CallTool() if command_of(action) is not None:
            words = classes | {effect.tool}
        case CallTool(tool=tool, operation=operation):
            names = frozenset([tool] if operation is None else [tool, f"{tool}:{operation}"])
            taken = tool in _OWN_WORDS or f"{tool}:".startswith((_PATH, _AGENT, HANDLER))
            return classes | names, classes if taken else classes | names
        case Task() if agent:
            words = classes | {effect.tool, f"{_AGENT}{agent}"}
        case Custom():
            words = classes | {effect.tool, action_kind(action)}
        case _:
            words = classes | {effect.tool}
    return words, words


def _paths(step: Step, tools: Mapping[str, ToolDefinition]) -> Iterator[_Path]:
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


def _path(value: Any, *, writes: bool, deep: bool = False) -> _Path:
    if not isinstance(value, str):
        return _Path(text=str(value), known="", within="", exact=None, deep=True, anywhere=True)
    later = value.find("${")
    known = folded(value if later < 0 else value[:later].rpartition("/")[0])
    if later >= 0 or path_fault(value, writes=writes) is not None:
        return _Path(text=value, known=known, within=known, exact=None, deep=True, anywhere=True)
    if not _WILD.isdisjoint(value):
        # It may also be the name of a file, so that is compared as well.
        return _Path(text=value, known=known, within=_plain_part(known), exact=None, deep=True, anywhere=False)
    exact = "/".join(part for part in value.split("/") if part not in ("", "."))
    return _Path(text=value, known=known, within=known, exact=exact, deep=deep or value.endswith("/"), anywhere=False)


def _plain_part(pattern: str) -> str:
    """The directory that everything is in that a pattern matches."""
    return "/".join(takewhile(_WILD.isdisjoint, pattern.split("/")))


def _above(path: str) -> Iterator[str]:
    """Every directory above a path, down from the workspace, which is the empty path; and the path itself."""
    yield ""
    if path:
        yield from accumulate(path.split("/"), "{}/{}".format)


def _count(path: str) -> int:
    """How many names a path has."""
    return path.count("/") + 1 if path else 0


# --- Lists that are ready ------------------------------------------------------------------------------------------


class _Entry(msgspec.Struct, frozen=True):
    """A pattern of a list."""

    text: str
    patterns: tuple[Pattern, ...]
    part: str
    """The longest of the parts that are in everything it matches: seen sooner than whether it matches."""
    parts: tuple[str, ...]
    deep: bool
    """It matches everything beneath whatever it matches."""


_NOT_PLAIN = re.compile(r"[*?]+/?")


def _entry(text: str, *patterns: str, deep: bool) -> _Entry:
    parts = tuple(_NOT_PLAIN.split(patterns[0]))
    ready = tuple(Pattern(pattern) for pattern in patterns)
    return _Entry(text=text, patterns=ready, part=max(parts, key=len), parts=parts, deep=deep)


class _Entries:
    """Patterns of a list, compared with paths as long as that takes bearable time."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._cost = 0

    def add(self, entry: _Entry) -> None:
        self._entries.append(entry)

    @property
    def exhausted(self) -> bool:
        return self._cost > COMPARED_MAX

    def matching(self, path: str, *, deep: bool = False) -> set[str]:
        """The entries that match a path, or with `deep` everything beneath as well; none any more when exhausted."""
        near = [entry for entry in self._entries if entry.part in path]
        near = [entry for entry in near if entry.deep >= deep and all(part in path for part in entry.parts)]
        self._cost += len(path) * len(near)
        if self.exhausted:
            return set()
        return {entry.text for entry in near if any(pattern.matches(path) for pattern in entry.patterns)}


class _Strict:
    """The list `deny` or `ask`: what it names, and what it may name."""

    def __init__(self, entries: Iterable[str]) -> None:
        self._words = frozenset(entry for entry in entries if not entry.startswith(_PATH))
        self._all = set(entries) - self._words
        self._plain: dict[str, set[str]] = {}
        """By path, the entries that mean it and what is beneath it."""
        self._wild = _Entries()
        self._beneath: dict[str, set[str]] = {}
        """By directory, the entries that mean something in it and nothing outside it."""
        self._reach: dict[str, list[tuple[str, float]]] = {}
        """By directory, the entries of which patterns begin there, and how many names those can have."""
        self._deepest = 0
        """How many names any of those paths and directories has."""
        self._seen: dict[_Path, tuple[set[str], set[str]]] = {}
        for entry in self._all:
            base = folded(entry.removeprefix(_PATH))
            while base.endswith("/**"):
                base = base.removesuffix("/**")
            self._add(entry, base)

    def _add(self, entry: str, base: str) -> None:
        plain = _plain_part(base)
        self._deepest = max(self._deepest, _count(plain))
        for directory in _above(plain):
            self._beneath.setdefault(directory, set()).add(entry)
        if plain == base:
            self._plain.setdefault(base, set()).add(entry)
        else:
            self._wild.add(_entry(entry, base, f"{base}/**", deep=True))
            depth = math.inf if "**" in base else _count(base)
            self._reach.setdefault(plain, []).append((entry, depth))

    @property
    def exhausted(self) -> bool:
        """There was more to compare than could be."""
        return self._wild.exhausted

    def names(self, subject: _Subject) -> tuple[set[str], set[str], tuple[str, ...]]:
        """The entries that name an effect or, if none does, those that may; and the paths that they do it by."""
        words = set(self._words & subject.words)
        if not self._all or not subject.paths:
            return words, set(), ()
        touched = [(path.text, *self._touching(path)) for path in subject.paths]
        if surely := words.union(*(sure for _, sure, _ in touched)):
            return surely, set(), tuple(text for text, sure, _ in touched if sure)
        return set(), words.union(*(may for *_, may in touched)), tuple(text for text, _, may in touched if may)

    def _touching(self, path: _Path) -> tuple[set[str], set[str]]:
        """The entries that mean a path, and those that may."""
        if path not in self._seen:
            surely = self._wild.matching(path.known)
            surely.update(*(self._plain.get(one, ()) for one in self._above(path.known)))
            maybe = set(self._all if path.anywhere or self.exhausted else self._beneath.get(path.within, ()))
            if path.deep:
                reaching = (found for directory in self._above(path.within) for found in self._reach.get(directory, ()))
                maybe.update(entry for entry, depth in reaching if _count(path.within) < depth)
            self._seen[path] = surely, maybe - surely
        return self._seen[path]

    def _above(self, path: str) -> Iterator[str]:
        """As many of the directories above a path as anything is known of: a path may have two thousand."""
        return islice(_above(path), self._deepest + 1)


class _Allowing:
    """The list `allow`: what it vouches for."""

    def __init__(self, entries: Iterable[str]) -> None:
        self.words = frozenset(entry for entry in entries if not entry.startswith(_PATH))
        self._patterns = _Entries()
        self._seen: dict[_Path, set[str]] = {}
        for entry in set(entries) - self.words:
            text = entry.removeprefix(_PATH)
            if pattern_fault(text) is None:
                pattern = normal(text)
                self._patterns.add(_entry(entry, pattern, deep=pattern.endswith("**")))

    def by_paths(self, subject: _Subject) -> set[str]:
        """The entries that vouch together for every path of an effect; none if one path is nobody's."""
        if not subject.about_paths:
            return set()
        found = [self._vouching(path) for path in subject.paths]
        return set[str]().union(*found) if all(found) else set()

    def _vouching(self, path: _Path) -> set[str]:
        if path not in self._seen:
            vouching = self._patterns.matching(path.exact, deep=path.deep) if path.exact is not None else set[str]()
            self._seen[path] = vouching
        return self._seen[path]


# --- Judging -------------------------------------------------------------------------------------------------------


class _Verdict(msgspec.Struct, frozen=True):
    """What the lists say of one effect, in the words that all effects like it share."""

    answer: Literal["deny", "ask", "allow"]
    said: str
    paths: tuple[str, ...] = ()
    """The paths that decided; none where no path did."""


class _Judge:
    def __init__(self, settings: Settings) -> None:
        self._deny, self._ask, self._allow = _Strict(settings.deny), _Strict(settings.ask), _Allowing(settings.allow)

    def verdict(self, subject: _Subject) -> _Verdict:
        denied, may_be_denied, paths = self._deny.names(subject)
        if denied:
            return _Verdict("deny", f"the deny list names {_quoted(denied)}", paths)
        if may_be_denied:
            return _Verdict("ask", f"may touch what the policy's deny list names ({_quoted(may_be_denied)})", paths)
        asked, may_be_asked, paths = self._ask.names(subject)
        if asked:
            return _Verdict("ask", f"is in the policy's ask list ({_quoted(asked)})", paths)
        if may_be_asked:
            return _Verdict("ask", f"may touch what the policy's ask list names ({_quoted(may_be_asked)})", paths)
        words = self._allow.words & (subject.surely - _VAGUE if subject.effect.destructive else subject.surely)
        if words & {subject.effect.tool, subject.effect.effect.value}:
            return _Verdict("allow", "is allowed without asking")
        if words:
            return _Verdict("allow", f"is allowed by {_quoted(words)}")
        if not subject.effect.destructive and (vouching := self._allow.by_paths(subject)):
            return _Verdict("allow", f"is allowed by {_quoted(vouching)}", tuple(path.text for path in subject.paths))
        return _Verdict("ask", "is not in the policy's allow list")

    def too_much(self) -> Iterator[Problem]:
        """That not every path could be compared with what is denied. Asking would not do: no approval overrides a
        deny."""
        if self._deny.exhausted:
            yield Problem(
                code="E_POLICY_DENIED",
                detail="Policy denies the plan: its paths cannot all be compared with the deny list, there is too much "
                "of both.",
                hints=("Split the plan, or write fewer patterns with `*` in `[policy] deny`.",),
            )


def _quoted(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in sorted(words))


class _Group(msgspec.Struct, frozen=True):
    """Effects of one kind of which the same is said."""

    steps: list[StepId]
    paths: set[tuple[str, ...]]


def rule(plan: Plan, tools: Mapping[str, ToolDefinition], settings: Settings) -> Ruling:
    """Whether this plan may run unasked, must be approved, or is denied; with a reason for each kind of effect."""
    judge = _Judge(settings)
    groups: dict[tuple[str, EffectClass, str, str], _Group] = {}
    claims: list[str] = []
    for subject in _subjects(plan, tools, settings):
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
            fault = _path_entry_fault(entry, which) if entry.startswith(_PATH) else _name_fault(entry, settings, tools)
            if fault is not None:
                detail, hints = fault
                found.append(Problem(code="E_CONFIG", detail=f"policy.{which} names `{entry}`, {detail}.", hints=hints))
    return tuple(found)


_Fault = tuple[str, tuple[str, ...]]
"""What is wrong with an entry, as the end of a sentence, and hints."""


def _path_entry_fault(entry: str, which: str) -> _Fault | None:
    fault = pattern_fault(entry.removeprefix(_PATH))
    if fault is None or (fault == OFF_LIMITS and which != "allow"):
        return None
    return f"and that path {fault}", ("Paths are relative to the workspace and stay beneath it.",)


def _name_fault(entry: str, settings: Settings, tools: Mapping[str, ToolDefinition]) -> _Fault | None:
    callable_names = {*tools, *settings.sources}
    if entry in _OWN_WORDS or entry in callable_names:
        return None
    kind, colon, name = entry.partition(":")
    if not colon:
        return "which is no tool, action or effect class", _meant(entry, settings, callable_names)
    if kind == _AGENT.removesuffix(":"):
        if name in settings.agents:
            return None
        return "and there is no agent of that name", closest(name, sorted(settings.agents))
    if kind in _OWN_WORDS:
        return f"and `{kind}` has no operations", ()
    # A tool's name may have a colon in it as well.
    if any(entry[: at.start()] in callable_names and at.end() < len(entry) for at in re.finditer(":", entry)):
        return None
    if kind in callable_names:
        return "without an operation", (f"Write `{kind}` for all it can do.",)
    return f"and there is no tool `{kind}`", closest(kind, [_AGENT, _PATH, *sorted(callable_names)])


def _meant(word: str, settings: Settings, callable_names: Set[str]) -> tuple[str, ...]:
    if word in settings.agents:
        return (f"Write `{_AGENT}{word}`.",)
    if "/" in word or "*" in word:
        return (f"Write `{_PATH}{word}`.",)
    return closest(word, sorted(_OWN_WORDS | callable_names))
