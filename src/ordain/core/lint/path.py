"""Rules about paths: they stay beneath the workspace, what is read is there, and no two steps write one at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate, chain, pairwise
from typing import NamedTuple

from ordain.core.lint.survey import Facts, Scope, Survey
from ordain.core.plan.action import CallTool, Task
from ordain.core.plan.command import command_text
from ordain.core.plan.model import Step, look_commands
from ordain.core.plan.refs import without_references
from ordain.core.plan.role import PathRead, PathWritten, parts
from ordain.core.plan.tool import ToolDefinition
from ordain.core.policy.loading import is_named_by, may_write
from ordain.core.policy.path_use import paths_of
from ordain.core.policy.scope import MAKES_DIRECTORIES
from ordain.core.text.control import folded, folded_pattern, holds_named
from ordain.core.text.path import (
    COMPARED_MAX,
    OFF_LIMITS,
    handed_fault,
    is_pattern,
    path_fault,
    path_hints,
    pattern_fault,
)
from ordain.core.text.pattern import PATTERN_MAX, PathPattern, plain_part
from ordain.core.text.problem import Place, Problem, blame_plan, blame_step

_READ_KINDS = ("file", "topic", "step")


# --- Beneath the workspace -----------------------------------------------------------------------------------------


def beneath(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Every path lies beneath the workspace, not where it would be run or is ours, and no protected one is written."""
    protection = _Protection(survey)
    for step, path, writes, deep, agents, *_ in named_paths(survey, facts):
        known = without_references(path) if "${" in path else path
        handed = agents and not is_pattern(known)
        control = facts.settings.control
        fault = handed_fault(known) if handed else path_fault(known, writes=writes, control=control)
        if fault is None and deep and writes and holds_named(known, control):
            fault = OFF_LIMITS
        is_new = plain_part(known) in facts.new_writes and is_named_by(known, may_write(step), ())
        fault = fault or (protection.fault(step, known, deep=deep) if writes and not is_new else None)
        if fault is None and deep and writes and not folded(known):
            fault = "is the workspace itself"
        if fault is not None:
            hints = path_hints(fault, writes=writes)
            yield blame_step(step.id, "E_PATH", f"`{step.id}`: the path `{path}` {fault}.", *hints)
    before = (condition for scope in survey.scopes for condition in scope.plan.preconditions)
    for path in (part.value for condition in before for part in parts(condition, PathRead, PathWritten)):
        fault = path_fault(without_references(path), control=facts.settings.control)
        if fault is not None:
            hints = path_hints(fault, writes=False)
            yield blame_plan("preconditions", "E_PATH", f"The plan: the path `{path}` {fault}.", *hints)
    for where, pattern in _patterns(survey):
        fault = pattern_fault(pattern)
        if fault is not None and fault != OFF_LIMITS:
            yield Problem(code="E_PATH", detail=f"`protect`: `{pattern[:200]}` {fault}.", where=where)


def protecting(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A pattern that means no file protects nothing, and an input binds nothing; most often it is misspelt."""
    for where, pattern in _patterns(survey) if facts.protecting_nothing else ():
        if pattern in facts.protecting_nothing:
            detail = f"`protect`: `{pattern[:200]}` means no file that is there."
            yield Problem(code="W_PROTECT_NOTHING", detail=detail, where=where)
    for step in survey.steps if facts.empty_inputs else ():
        for path in step.inputs:
            if (why := facts.empty_inputs.get(path)) is not None:
                detail = f"`{step.id}`: `inputs` names `{path[:200]}`, which {why}."
                yield blame_step(step.id, "W_INPUTS_NOTHING", detail)


class LintedPath(NamedTuple):
    """A path where it is named."""

    step: Step
    path: str
    writes: bool
    deep: bool = False
    handed: bool = False
    expected: bool = False
    declared: bool = False


def named_paths(survey: Survey, facts: Facts) -> list[LintedPath]:
    """Every path a plan names, found once for all the rules."""
    if survey.paths is None or survey.paths[0] is not facts.tools:
        survey.paths = facts.tools, [*_find_paths(survey, facts.tools)]
    found: list[LintedPath] = survey.paths[1]
    return found


def _find_paths(survey: Survey, tools: Mapping[str, ToolDefinition]) -> Iterator[LintedPath]:
    tasks = ((step, task) for _, step, task in survey.tasks)
    conditional = ((step, command) for step, command in survey.commands if step.preconditions or step.verification)
    for step, _ in chain(survey.calls, tasks, survey.others, conditional):
        for part in paths_of(step, tools):
            if isinstance(part.value, str):
                yield LintedPath(step, part.value, part.writes, part.deep, part.handed, part.expected)
    for step in survey.steps:
        if step.writes:
            yield from (LintedPath(step, path, writes=True, declared=True) for path in step.writes)
        if step.inputs:
            handed = isinstance(step.action, Task)
            yield from (LintedPath(step, path, writes=False, handed=handed, declared=True) for path in step.inputs)


def written_places(survey: Survey, facts: Facts) -> set[str]:
    """The files and directories that steps write, as far as they can be looked for."""
    return {plain_part(one.path) for one in named_paths(survey, facts) if one.writes and "${" not in one.path}


def _patterns(survey: Survey) -> Iterator[tuple[Place, str]]:
    for scope in survey.scopes:
        yield from ((Place(field="protect"), pattern) for pattern in scope.plan.protect)
    for step in survey.steps:
        if step.protect:
            yield from ((Place(step=step.id), pattern) for pattern in step.protect)


class _Protection:
    """Compares what is written with what is protected, as long as that takes bearable time."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey
        self._read: dict[str, PathPattern] = {}
        self._cost = 0

    def fault(self, step: Step, path: str, *, deep: bool) -> str | None:
        """Why a path must not be written: it, or where it is `deep` something surely beneath it, is protected."""
        plan = self._survey.plan
        if not step.protect and not plan.protect and len(self._survey.scopes) == 1:
            return None
        name = folded(path)
        inner = self._survey.scope_of(step).plan
        for text in (*step.protect, *plan.protect, *(inner.protect if inner is not plan else ())):
            pattern = self._pattern(text)
            self._cost += 1
            if deep and (plain_part(folded(text)) + "/").startswith(f"{name}/"):
                return f"holds what is protected by `{text}`, so writing it would break the contract"
            if pattern is not None and pattern.may_match(name):
                self._cost += len(name) * (2 + len(text) // 256)
                if self._cost < COMPARED_MAX and pattern.matches(name):
                    return f"is protected by `{text}`, so writing it would break the contract"
            if self._cost >= COMPARED_MAX:
                return "cannot be compared with all that is protected: there is too much of it"
        return None

    def _pattern(self, text: str) -> PathPattern | None:
        if len(text) > PATTERN_MAX:
            return None
        if text not in self._read:
            self._cost += len(text) * (1 + len(text) // 512)
            self._read[text] = folded_pattern(text)
        return self._read[text]


# --- What is read --------------------------------------------------------------------------------------------------


def read_kinds(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """`reads` names a file, a topic or a step."""
    for _, step, task in survey.tasks:
        for read in task.reads:
            kind, colon, name = read.partition(":")
            if not colon or kind not in _READ_KINDS or not name:
                detail = f"`{step.id}` reads `{read}`, which is no file, topic or step."
                yield blame_step(step.id, "E_FIELD_VALUE", detail, f"Write `file:{read}`, `topic:…` or `step:…`.")


def topics_there(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Something was posted to a topic that is read; where not, somebody may still do so before the step begins."""
    for _, step, task in survey.tasks if facts.empty_topics else ():
        for name in topics_of(task):
            if name in facts.empty_topics:
                detail = f"`{step.id}` reads the topic `{name}`, to which nothing was posted yet."
                hint = f"Check the name, or post to it: `ordain topic {name} -m TEXT`."
                yield blame_step(step.id, "W_TOPIC_EMPTY", detail, hint, command="ordain topic")


def topics_of(task: Task) -> Iterator[str]:
    """The topics that a task reads."""
    return (read.removeprefix("topic:") for read in task.reads if read.startswith("topic:"))


def handed_files(survey: Survey) -> set[str]:
    """The files that are put before agents and that can be looked at beforehand."""
    every = (part.value for _, step, _ in survey.tasks for part in paths_of(step, {}) if part.handed)
    return {path for path in every if _plain(path) and handed_fault(path) is None}


def wanted_files(survey: Survey, tools: Mapping[str, ToolDefinition]) -> set[str]:
    """The paths that steps read and that can be looked for beforehand."""
    return {one.path for one in _reads(survey, Facts(tools=tools))}


def _reads(survey: Survey, facts: Facts) -> Iterator[LintedPath]:
    return (one for one in named_paths(survey, facts) if one.expected and _plain(one.path))


def _plain(path: str) -> bool:
    return not any(mark in path for mark in ("${", "*", "?", "[")) and path_fault(path) is None


def reads_there(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A file that is read is there and can be handed on, or a step before may make it so."""
    if not (facts.missing_files or facts.unhanded or facts.secret_reads):
        return
    writers = find_writers(survey, facts, directories=True)
    opaque = {id(scope): scope.order.mask(_unbounded(scope)) for scope in survey.scopes}
    commands = {id(scope): scope.order.mask(_unbounded(scope, tasks=False)) for scope in survey.scopes}
    handed = {(one.step.id, one.path) for one in named_paths(survey, facts) if one.handed}
    for step, path, *_ in _reads(survey, facts):
        why = facts.unhanded.get(path) if (step.id, path) in handed else None
        if path in facts.secret_reads and (step.id, path) in handed:
            detail = f"`{step.id}` reads `{path}`, which the settings name among the files that hold secrets."
            yield blame_step(step.id, "E_PATH", detail, "No agent is handed it: have the step read something else.")
        elif path in facts.missing_files or why is not None:
            scope = survey.scope_of(step)
            made_by = [writer for writer in writers.of(folded(path)) if survey.scope_of(writer) is scope]
            if scope.depth or step.id in scope.fallbacks or scope.order.circles:
                continue
            if any(scope.order.before(writer.id, step.id) for writer in made_by):
                continue
            if scope.order.after_any(opaque[id(scope)], step.id):  # something unknown runs before
                if why is None and not scope.order.after_any(commands[id(scope)], step.id):
                    yield from _unnamed(scope, step, path)
                continue
            naming = _naming(scope, step, path) if not made_by else ()
            hint = f"`{made_by[0].id}` writes it: add that to `needs`." if made_by else "Check the path."
            hint = f"`{naming[0]}` names it: if that makes it, add it to `needs`." if naming else hint
            if why is not None:
                detail = f"`{step.id}` reads what cannot be handed to an agent: {why}."
                yield blame_step(step.id, "E_PATH", detail, hint)
            else:
                detail = f"`{step.id}` reads `{path}`, which is not there and which no step before it writes."
                yield blame_step(step.id, "E_READS_MISSING", detail, hint)


def _unnamed(scope: Scope, step: Step, path: str) -> Iterator[Problem]:
    """A file that only an agent could have made by then, and that none of those before is asked for."""
    naming = _naming(scope, step, path)
    if not any(scope.order.before(other, step.id) for other in naming):
        detail = f"`{step.id}` reads `{path}`, which is not there and which no step before it names."
        hint = f"`{naming[0]}` names it: add that to `needs`." if naming else "Say in the task who writes it."
        yield blame_step(step.id, "W_READS_UNNAMED", detail, hint)


def _naming(scope: Scope, step: Step, path: str) -> list[str]:
    name = path.rpartition("/")[2]
    return [other.id for other in scope.steps.values() if other is not step and _names(other, name)]


def _names(step: Step, name: str) -> bool:
    task = step.action
    words = [task.task, task.instructions or "", *task.criteria] if isinstance(task, Task) else []
    return any(name in text for text in (*words, *look_commands(step), *step.writes))


def edits(survey: Survey) -> Iterator[tuple[Step, str, str]]:
    """The steps that edit a file, with its path and the text to replace, where both are written out."""
    for step, call in survey.calls:
        path, old = call.args.get("path"), call.args.get("old")
        if call.tool != "edit_file" or step.worktree or not isinstance(path, str) or not isinstance(old, str):
            continue
        if _plain(path) and "${" not in old:
            yield step, path, old


def edits_fit(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """The text that an edit replaces is found once, unless a step before may change the file."""
    if all(count == 1 for count in facts.edits.values()):
        return
    writers = find_writers(survey, facts, directories=True)
    opaque = {id(scope): scope.order.mask(_unbounded(scope)) for scope in survey.scopes}
    for step, path, old in edits(survey):
        count, scope = facts.edits.get((path, old), 1), survey.scope_of(step)
        if count == 1 or scope.depth or step.id in scope.fallbacks:
            continue
        before = (writer for writer in writers.of(folded(path)) if survey.scope_of(writer) is scope)
        if scope.order.after_any(opaque[id(scope)], step.id) or any(
            scope.order.before(writer.id, step.id) for writer in before
        ):
            continue  # not known yet
        detail = f"`{step.id}` replaces a text that occurs {count:,} times in `{path}`, not once: the edit would fail."
        hint = "Copy it exactly as it is in the file." if not count else "Take in lines around it, so that it is one."
        yield blame_step(step.id, "W_EDIT_TEXT", detail, hint)


def _unbounded(scope: Scope, *, tasks: bool = True) -> list[str]:
    """The commands, agents and actions of others that do not say what they write."""
    steps = ((name, step.action) for name, step in scope.steps.items() if not step.writes)
    kept = ((name, action) for name, action in steps if tasks or not isinstance(action, Task))
    return [name for name, action in kept if not isinstance(action, CallTool) or command_text(action) is not None]


# --- What is written -----------------------------------------------------------------------------------------------


def writes_apart(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Two steps write one path only one after the other."""
    found = find_writers(survey, facts, directories=False)
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
                detail = f"`{first.id}` and `{then.id}` both write `{path}` and may run at the same time."
                yield blame_step(then.id, "E_WRITES_CONFLICT", detail, f"Let one need the other: `needs: {first.id}`.")
                break


def protected_apart(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """What a step protects, no other step writes while that one may run: it would be put back."""
    protecting = [step for step in survey.steps if step.protect]
    if not protecting:
        return
    found = find_writers(survey, facts, directories=False).paths.items()
    writers = [(path, step) for path, steps in found for step in steps]
    cost = 0
    for step in protecting:
        scope = survey.scope_of(step)
        patterns = [folded_pattern(text) for text in step.protect if len(text) <= PATTERN_MAX]
        for path, writer in writers:
            cost += len(patterns) * len(path)
            if cost > COMPARED_MAX:
                return  # the run itself compares all of it
            apart = writer is step or survey.scope_of(writer) is not scope or scope.order.circles
            if apart or scope.order.before(writer.id, step.id) or scope.order.before(step.id, writer.id):
                continue
            if any(pattern.matches(path) for pattern in patterns):
                what = f"`{writer.id}` writes `{path}`, which `{step.id}` protects"
                detail = f"{what}, and both may run at the same time."
                yield blame_step(writer.id, "E_WRITES_CONFLICT", detail, f"Let one need the other: `needs: {step.id}`.")
                break


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


def find_writers(survey: Survey, facts: Facts, *, directories: bool) -> _Writers:
    found = _Writers()
    for step, path, writes, deep, *_ in named_paths(survey, facts):
        apart = step.worktree or (isinstance(step.action, CallTool) and step.action.tool == MAKES_DIRECTORIES)
        if writes and "${" not in path and (directories or not apart):
            found.add(step, folded(path), deep=deep)
    return found
