"""Rules about paths: they stay beneath the workspace, what is read is there, and no two steps write one at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise, takewhile

from ordain.core.action import CallTool, Task
from ordain.core.command import command_text
from ordain.core.lint.facts import Facts
from ordain.core.lint.survey import Scope, Survey
from ordain.core.model import Action, Step
from ordain.core.path import (
    COMPARED_MAX,
    OFF_LIMITS,
    folded,
    handed_fault,
    is_pattern,
    path_fault,
    path_hints,
    pattern_fault,
)
from ordain.core.pattern import PATTERN_MAX, Pattern
from ordain.core.problem import Place, Problem
from ordain.core.refs import without_references
from ordain.core.tool import EffectClass, ToolDefinition

__all__ = [
    "MAKES_DIRECTORIES",
    "beneath",
    "handed_files",
    "protected_apart",
    "protecting",
    "protecting_pattern",
    "read_kinds",
    "reads_there",
    "topics_of",
    "topics_there",
    "wanted_files",
    "writes_apart",
]

_READ_KINDS = ("file", "topic", "step")
MAKES_DIRECTORIES = "make_dir"


def _plain_part(pattern: str) -> str:
    """The directory, or file, that everything is in that a pattern matches."""
    return "/".join(takewhile(lambda part: not {"*", "?"} & set(part), pattern.split("/")))


# --- Beneath the workspace -----------------------------------------------------------------------------------------


def beneath(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Every path lies beneath the workspace, not where it would be run or is ours, and no protected one is written."""
    protection = _Protection(survey)
    for step, path, writes, deep in _paths(survey, facts):
        known = without_references(path) if "${" in path else path
        handed = isinstance(step.action, Task) and not writes and not is_pattern(known)
        fault = handed_fault(known) if handed else path_fault(known, writes=writes)
        fault = fault or (protection.fault(step, known, deep=deep) if writes else None)
        if fault is None and deep and not folded(known):
            fault = "is the workspace itself"
        if fault is not None:
            yield Problem(
                code="E_PATH",
                detail=f"`{step.id}`: the path `{path}` {fault}.",
                where=Place(step=step.id),
                hints=path_hints(fault),
            )
    for where, pattern in _patterns(survey):
        fault = pattern_fault(pattern)
        if fault is not None and fault != OFF_LIMITS:
            yield Problem(code="E_PATH", detail=f"`protect`: `{pattern[:200]}` {fault}.", where=where)


def protecting(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A pattern that means no file protects nothing; most often it is misspelt."""
    for where, pattern in _patterns(survey) if facts.protecting_nothing else ():
        if pattern in facts.protecting_nothing:
            yield Problem(
                code="W_PROTECT_NOTHING",
                detail=f"`protect`: `{pattern[:200]}` means no file that is there.",
                where=where,
            )


def _paths(survey: Survey, facts: Facts) -> Iterator[tuple[Step, str, bool, bool]]:
    """Every path a plan names, whether it is written, and whether with all that lies beneath."""
    for step, call in survey.calls:
        tool = facts.tools.get(call.tool)
        if tool is not None:
            writes = tool.effect is not EffectClass.READS
            yield from ((step, path, writes, deep) for path, deep in _arguments(tool, call))
    for _, step, task in survey.tasks:
        yield from ((step, path, False, False) for path in _files(task))
    for step in survey.steps:
        if step.writes:
            yield from ((step, path, True, False) for path in step.writes)


def _arguments(tool: ToolDefinition, call: CallTool) -> Iterator[tuple[str, bool]]:
    for parameter in tool.parameters:
        if parameter.path:
            value = call.args.get(parameter.name)
            if isinstance(value, str):
                yield value, parameter.deep


def _files(task: Task) -> Iterator[str]:
    return (read.removeprefix("file:") for read in task.reads if read.startswith("file:"))


def _patterns(survey: Survey) -> Iterator[tuple[Place | None, str]]:
    for scope in survey.scopes:
        yield from ((None, pattern) for pattern in scope.plan.protect)
    for step in survey.steps:
        if step.protect:
            yield from ((Place(step=step.id), pattern) for pattern in step.protect)


class _Protection:
    """Compares what is written with what is protected, as long as that takes bearable time."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey
        self._read: dict[str, Pattern] = {}
        self._cost = 0

    def fault(self, step: Step, path: str, *, deep: bool) -> str | None:
        """Why a path that a step writes must not be written; None when nothing protects it, nor, where it is `deep`,
        anything that is surely beneath it."""
        plan = self._survey.plan
        if not step.protect and not plan.protect and len(self._survey.scopes) == 1:
            return None
        name = folded(path)
        inner = self._survey.scope_of(step).plan
        for text in (*step.protect, *plan.protect, *(inner.protect if inner is not plan else ())):
            pattern = self._pattern(text)
            self._cost += 1
            if deep and (_plain_part(folded(text)) + "/").startswith(f"{name}/"):
                return f"holds what is protected by `{text}`, so writing it would break the contract"
            if pattern is not None and pattern.may_match(name):
                self._cost += len(name) * (2 + len(text) // 256)
                if self._cost < COMPARED_MAX and pattern.matches(name):
                    return f"is protected by `{text}`, so writing it would break the contract"
            if self._cost >= COMPARED_MAX:
                return "cannot be compared with all that is protected: there is too much of it"
        return None

    def _pattern(self, text: str) -> Pattern | None:
        """A pattern that is ready; None for one that is refused for its length."""
        if len(text) > PATTERN_MAX:
            return None
        if text not in self._read:
            self._cost += len(text) * (1 + len(text) // 512)
            self._read[text] = _pattern_of(text)
        return self._read[text]


# --- What is read --------------------------------------------------------------------------------------------------


def read_kinds(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """`reads` names a file, a topic or a step."""
    for _, step, task in survey.tasks:
        for read in task.reads:
            kind, colon, name = read.partition(":")
            if not colon or kind not in _READ_KINDS or not name:
                yield Problem(
                    code="E_FIELD_VALUE",
                    detail=f"`{step.id}` reads `{read}`, which is no file, topic or step.",
                    where=Place(step=step.id),
                    hints=(f"Write `file:{read}`, `topic:…` or `step:…`.",),
                )


def topics_there(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Something was posted to a topic that is read; where not, somebody may still do so before the step begins."""
    for _, step, task in survey.tasks if facts.empty_topics else ():
        for name in topics_of(task):
            if name in facts.empty_topics:
                yield Problem(
                    code="W_TOPIC_EMPTY",
                    detail=f"`{step.id}` reads the topic `{name}`, to which nothing was posted yet.",
                    where=Place(step=step.id),
                    hints=(f"Check the name, or post to it: `ordain topic {name} -m TEXT`.",),
                    command="ordain topic",
                )


def topics_of(task: Task) -> Iterator[str]:
    """The topics that a task reads."""
    return (read.removeprefix("topic:") for read in task.reads if read.startswith("topic:"))


def handed_files(survey: Survey) -> set[str]:
    """The files that are put before agents and that can be looked at beforehand."""
    every = (path for _, _, task in survey.tasks for path in _files(task))
    return {path for path in every if _plain(path) and handed_fault(path) is None}


def wanted_files(survey: Survey, tools: Mapping[str, ToolDefinition]) -> set[str]:
    """The paths that steps read and that can be looked for beforehand."""
    return {path for _, path in _reads(survey, tools)}


def _reads(survey: Survey, tools: Mapping[str, ToolDefinition]) -> Iterator[tuple[Step, str]]:
    for step, call in survey.calls:
        tool = tools.get(call.tool)
        if tool is not None and tool.effect is EffectClass.READS:
            yield from ((step, path) for path, _ in _arguments(tool, call) if _plain(path))
    for _, step, task in survey.tasks:
        yield from ((step, path) for path in _files(task) if _plain(path))


def _plain(path: str) -> bool:
    return not any(mark in path for mark in ("${", "*", "?", "[")) and path_fault(path) is None


def reads_there(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A file that is read is there and can be handed on, or a step before may make it so."""
    if not (facts.missing_files or facts.unhanded or facts.secret_reads):
        return
    writers = _writers(survey, facts, directories=True)
    opaque = {id(scope): scope.order.mask(_unbounded(scope)) for scope in survey.scopes}
    handed = {(step.id, path) for _, step, task in survey.tasks for path in _files(task)}
    for step, path in _reads(survey, facts.tools):
        why = facts.unhanded.get(path) if (step.id, path) in handed else None
        if path in facts.secret_reads and (step.id, path) in handed:
            yield Problem(
                code="E_PATH",
                detail=f"`{step.id}` reads `{path}`, which the settings name among the files that hold secrets.",
                where=Place(step=step.id),
                hints=("No agent is handed it: have the step read something else.",),
            )
        elif path in facts.missing_files or why is not None:
            scope = survey.scope_of(step)
            made_by = [writer for writer in writers.of(folded(path)) if survey.scope_of(writer) is scope]
            if scope.depth or step.id in scope.fallbacks or scope.order.after_any(opaque[id(scope)], step.id):
                continue  # something unknown runs before
            if any(scope.order.before(writer.id, step.id) for writer in made_by):
                continue
            hint = f"`{made_by[0].id}` writes it: add that to `needs`." if made_by else "Check the path."
            if why is not None:
                detail = f"`{step.id}` reads what cannot be handed to an agent: {why}."
                yield Problem(code="E_PATH", detail=detail, where=Place(step=step.id), hints=(hint,))
                continue
            yield Problem(
                code="E_READS_MISSING",
                detail=f"`{step.id}` reads `{path}`, which is not there and which no step before it writes.",
                where=Place(step=step.id),
                hints=(hint,),
            )


def _unbounded(scope: Scope) -> list[str]:
    """The steps that may write whatever they like: commands, agents, actions of others, unless they say what they
    write."""
    return [name for name, step in scope.steps.items() if not step.writes and _may_write_anything(step.action)]


def _may_write_anything(action: Action) -> bool:
    return not isinstance(action, CallTool) or command_text(action) is not None


# --- What is written -----------------------------------------------------------------------------------------------


def writes_apart(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Two steps write one path only one after the other."""
    found = _writers(survey, facts, directories=False)
    for path in found.paths:
        writers = found.of(path)
        if len(writers) < 2:
            continue
        scope = survey.scope_of(writers[0])
        ours = [step for step in writers if step.id in scope.steps and survey.scope_of(step) is scope]
        if len(ours) < 2 or scope.order.circles:
            continue
        ours.sort(key=lambda step: scope.order.sort_key(step.id))
        # In an order that respects all needs, neighbours that are in order put all of them in order.
        for first, then in pairwise(ours):
            if first.id != then.id and not scope.order.before(first.id, then.id):
                yield Problem(
                    code="E_WRITES_CONFLICT",
                    detail=f"`{first.id}` and `{then.id}` both write `{path}` and may run at the same time.",
                    where=Place(step=then.id),
                    hints=(f"Let one need the other: `needs: {first.id}`.",),
                )
                break


def protected_apart(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """What a step protects, no other step writes while that one may run: it would be put back."""
    protecting = [step for step in survey.steps if step.protect]
    if not protecting:
        return
    writers = [
        (path, step) for path, steps in _writers(survey, facts, directories=False).paths.items() for step in steps
    ]
    cost = 0
    for step in protecting:
        scope = survey.scope_of(step)
        patterns = [_pattern_of(text) for text in step.protect if len(text) <= PATTERN_MAX]
        for path, writer in writers:
            cost += len(patterns) * len(path)
            if cost > COMPARED_MAX:
                return  # the run itself compares all of it
            apart = writer is step or survey.scope_of(writer) is not scope or scope.order.circles
            if apart or scope.order.before(writer.id, step.id) or scope.order.before(step.id, writer.id):
                continue
            if any(pattern.matches(path) for pattern in patterns):
                what = f"`{writer.id}` writes `{path}`, which `{step.id}` protects"
                yield Problem(
                    code="E_WRITES_CONFLICT",
                    detail=f"{what}, and both may run at the same time.",
                    where=Place(step=writer.id),
                    hints=(f"Let one need the other: `needs: {step.id}`.",),
                )
                break


def protecting_pattern(path: str, patterns: Sequence[str], *, deep: bool) -> str | None:
    """Why a path must not be written, as these patterns protect it, or, where it is `deep`, something that is surely
    beneath it; None when they do not."""
    name = folded(path)
    for text in patterns:
        if deep and (_plain_part(folded(text)) + "/").startswith(f"{name}/"):
            return f"holds what is protected by `{text}`"
        if _pattern_of(text).matches(name):
            return f"is protected by `{text}`"
    return None


def _pattern_of(text: str) -> Pattern:
    return Pattern(folded(text) + ("/**" if text.endswith("/") else ""))


class _Writers:
    """The steps that write, by path in one spelling."""

    def __init__(self) -> None:
        self.paths: dict[str, list[Step]] = {}
        self._deep: dict[str, list[Step]] = {}
        """Those that write all that lies beneath as well."""

    def add(self, step: Step, path: str, *, deep: bool) -> None:
        for writers in (self.paths, self._deep) if deep else (self.paths,):
            steps = writers.setdefault(path, [])
            if not steps or steps[-1] is not step:
                steps.append(step)

    def of(self, path: str) -> list[Step]:
        """The steps that write a path, or with it all of a directory above it."""
        found = self.paths.get(path, [])
        if not self._deep:
            return found
        above = accumulate(path.split("/")[:-1], "{}/{}".format)
        more = {id(step): step for directory in above for step in self._deep.get(directory, ())}
        return [*found, *(step for key, step in more.items() if key not in set(map(id, found)))]


def _writers(survey: Survey, facts: Facts, *, directories: bool) -> _Writers:
    found = _Writers()
    for step, path, writes, deep in _paths(survey, facts):
        apart = step.worktree or (isinstance(step.action, CallTool) and step.action.tool == MAKES_DIRECTORIES)
        if writes and "${" not in path and (directories or not apart):
            found.add(step, folded(path), deep=deep)
    return found
