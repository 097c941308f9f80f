"""The three dialects that are read besides the format's own: plans of the second, third and fourth seed. What the
seeds' programs wrote down about progress is kept beside the plan and never believed."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from ordain.core.plan.name import id_fault, scope_fault
from ordain.core.plan.refs import references
from ordain.core.text.limit import DEPTH_MAX, string_fault
from ordain.documents.dialects.reader import Dialect, Keys, first_line
from ordain.documents.document import Document, Notation, Path, ProblemList, ReadValue
from ordain.documents.markdown.front_matter import FrontMatter
from ordain.documents.markdown.outline import Outline, escaped_title, outline_of, refuse_hiding
from ordain.documents.markdown.reader import read_parts
from ordain.documents.markdown.scan import Block, Heading, scan, trimmed
from ordain.documents.shape import shape
from ordain.documents.tree_writer import distinct_slugs
from ordain.documents.yaml import read_yaml

# --- s1 --------------------------------------------------------------------------------------------------------------
# The second seed's plans (YAML, or the same tree in JSON): tasks for agents, known by their index. Constraints are kept
# beside the plan, and instruct agents as its context.

_S1 = Dialect(
    name="s1",
    beside=("id", "currentStepIndex", "createdAt", "updatedAt", "createdBy"),
    lineage=("version", "previousPlanId"),
    step_beside=("executedBy", "startedAt", "completedAt", "output", "error", "affectedFiles"),
    plan={("title",): ("task",), ("context",): ("metadata", "constraints")},
    step={
        ("id",): ("description",),
        ("needs",): ("dependsOn",),
        ("action",): (),
        ("action", "task"): ("description",),
        ("action", "agent"): ("suggestedAgent",),
        ("action", "instructions"): ("instructions",),
        ("action", "criteria"): ("acceptanceCriteria",),
    },
    plan_instead={"title": "task", "context": "metadata: {constraints: […]}", "tags": "metadata: {tags: […]}"},
    step_instead={
        "agent": "suggestedAgent",
        "criteria": "acceptanceCriteria",
        "step_number": "index",
        "task": "description",
        "needs": "dependsOn",
        "depends_on": "dependsOn",
    },
)
_S1_METADATA = ("complexity", "tags", "constraints", "informedByMemories")


def read_s1(read: ReadValue, notation: Notation) -> Document:
    """The document that this tree of the second seed's form is."""
    problems = ProblemList()
    plan = Keys(read.value, (), read.locate, problems)
    task = plan.take("task", str)
    if read.value.get("task") is None:
        plan.wrong("E_PLAN_TYPE", "`task` is missing; text is wanted.")
    status = plan.take("status", str)
    constraints, metadata = _s1_metadata(plan, read, problems)
    beside = plan.metadata(_S1.beside, _S1.lineage, metadata)
    steps = plan.beside("steps").get("steps")
    plan.refuse_rest("A plan of dialect s1", _S1.plan_instead)
    tree: dict[str, Any] = {
        "title": first_line(task) if task is not None else "…",
        "task": task if task is not None and "\n" in task else None,
        "context": context_of(constraints),
        "status": status,
        "metadata": beside or None,
        "steps": _s1_steps(steps, read, problems) if type(steps) is list else steps,
    }
    return _S1.document(tree, read, notation, problems)


def context_of(constraints: tuple[str, ...]) -> str | None:
    """What agents are told of a plan's constraints; a constraint of several lines stays one item."""
    items = ("- " + constraint.replace("\n", "\n  ") for constraint in constraints)
    return "\n".join(("Constraints:", *items)) if constraints else None


def _s1_metadata(plan: Keys, read: ReadValue, problems: ProblemList) -> tuple[tuple[str, ...], dict[str, Any]]:
    given = plan.beside("metadata").get("metadata")
    if type(given) is not dict:
        # Says what is wrong with it, if there is something.
        plan.take("metadata", dict[str, Any])
        return (), {}
    keys = Keys(given, ("metadata",), read.locate, problems)
    constraints: tuple[str, ...] = keys.take("constraints", tuple[str, ...]) or ()
    beside = keys.beside(*_S1_METADATA)
    keys.refuse_rest("The `metadata` of dialect s1", {})
    return constraints, beside


def _s1_steps(given: list[Any], read: ReadValue, problems: ProblemList) -> list[Any]:
    """The steps in the format's own form; what is no mapping stays, for others to refuse."""
    known = [step if type(step) is dict else {} for step in given]
    titles = [first_line(step["description"]) if type(step.get("description")) is str else "" for step in known]
    ids = distinct_slugs(titles)
    steps: list[Any] = []
    for index, step in enumerate(given):
        if type(step) is not dict:
            steps.append(step)
            continue
        keys = Keys(step, ("steps", index), read.locate, problems.about(ids[index], None))
        steps.append(_s1_step(keys, index, titles[index], ids))
    return steps


def _s1_step(keys: Keys, index: int, title: str, ids: list[Any]) -> dict[str, Any]:
    number = keys.take("index")
    if number is not None and (type(number) is not int or number != index):
        detail = f"`index` must be {index}; steps are numbered 0, 1, 2 … in order."
        keys.wrong("E_PLAN_TYPE", detail, at=("index",))
    description = keys.take("description", str)
    if keys.value.get("description") is None:
        keys.wrong("E_PLAN_TYPE", "`description` is missing; text is wanted.")
    criteria = keys.take("acceptanceCriteria", tuple[str, ...])
    step: dict[str, Any] = {
        "id": ids[index],
        "description": "…" if description is None else title,
        "needs": _s1_needs(keys, ids),
        "action": {
            "type": "task",
            "task": description or "…",
            "agent": keys.take("suggestedAgent", str),
            "instructions": keys.take("instructions", str),
            "criteria": list(criteria or ()),
        },
        "status": keys.take("status", str),
        "metadata": keys.beside(*_S1.step_beside) or None,
    }
    keys.refuse_rest("A step of dialect s1", _S1.step_instead)
    return step


def _s1_needs(keys: Keys, ids: list[Any]) -> list[str] | None:
    """The ids of the steps that `dependsOn` names by index; None where it is not there."""
    given = keys.take("dependsOn", tuple[int, ...])
    if given is None:
        return None
    for at, index in enumerate(given):
        if not 0 <= index < len(ids):
            detail = f"`dependsOn` names the step with index {index}; the plan has {len(ids)}, and the first is 0."
            keys.wrong("E_STEP_UNKNOWN_NEED", detail, at=("dependsOn", at))
    return [ids[index] for index in given if 0 <= index < len(ids)]


# --- s2 --------------------------------------------------------------------------------------------------------------
# The third seed's plans (JSON, or the same tree in YAML): calls of tools, known by their ids. Its one reference is
# `"$step_1"` as a whole value; what else looks like one of the format's references is text there, and stays text.

_S2_UNTITLED = "Untitled plan"
"""The seed's plans have no title; one that a document gives all the same, as `title`, is taken."""
_S2 = Dialect(
    name="s2",
    beside=("id", "taskId", "estimatedDuration", "createdAt"),
    lineage=("version",),
    step_beside=("order", "result"),
    step={
        ("needs",): ("dependsOn",),
        ("on_failure",): ("critical",),
        ("action",): (),
        ("action", "tool"): ("tool",),
        ("action", "args"): ("args",),
    },
    step_instead={"needs": "dependsOn", "depends_on": "dependsOn", "on_failure": "critical", "step_number": "order"},
)
_NAMED = re.compile(r"\$([A-Za-z0-9_-]+)")


def read_s2(read: ReadValue, notation: Notation) -> Document:
    """The document that this tree of the third seed's form is."""
    problems = ProblemList()
    plan = Keys(read.value, (), read.locate, problems)
    title = plan.take("title", str)
    metadata = plan.metadata(_S2.beside, _S2.lineage)
    steps = plan.beside("steps").get("steps")
    plan.refuse_rest("A plan of dialect s2", _S2.plan_instead)
    tree: dict[str, Any] = {
        "title": _S2_UNTITLED if title is None else title,
        "metadata": metadata or None,
        "steps": _s2_steps(steps, read, problems) if type(steps) is list else steps,
    }
    return _S2.document(tree, read, notation, problems)


def _s2_steps(given: list[Any], read: ReadValue, problems: ProblemList) -> list[Any]:
    """The steps in the format's own form; what is no mapping stays, for others to refuse."""
    names = (step.get("id") for step in given if type(step) is dict)
    values = _Values(dict.fromkeys(name for name in names if type(name) is str and id_fault(name) is None))
    steps: list[Any] = []
    before: int | float | None = None
    for index, step in enumerate(given):
        if type(step) is not dict:
            steps.append(step)
            continue
        name = step.get("id")
        known = name if type(name) is str and id_fault(name) is None else None
        keys = Keys(step, ("steps", index), read.locate, problems.about(known, None))
        before = _s2_order(keys, before)
        steps.append(_s2_step(keys, values))
    return steps


def _s2_order(keys: Keys, before: int | float | None) -> int | float | None:
    """The `order` of a step, which must be that of the list."""
    order: Any = keys.value.get("order")
    if order is None:
        return before
    if isinstance(order, int | float) and not isinstance(order, bool) and (before is None or order > before):
        return order
    hint = "Put the steps in the order that `order` says; it is a number, and rises."
    keys.wrong("E_PLAN_TYPE", "`order` is not the order of the steps.", hint, at=("order",))
    return before


def _s2_step(keys: Keys, values: _Values) -> dict[str, Any]:
    for key in ("id", "tool"):
        if keys.value.get(key) is None:
            keys.wrong("E_PLAN_TYPE", f"`{key}` is missing; text is wanted.")
    step = keys.take("id", str)
    # What a person marked to be skipped is not run behind their back; nothing else of a status is looked at.
    if keys.value.get("status") == "skipped":
        detail = "The step is marked as skipped, and Ordain would run it: it takes no status from a document."
        hint = "Take the step out, with what needs it; or take its `status` away to have it run."
        keys.wrong("E_STEP_SKIPPED", detail, hint, at=("status",))
    critical = keys.take("critical", bool)
    args = keys.take("args", dict[str, Any])
    needs = keys.take("dependsOn", tuple[str, ...])
    made: dict[str, Any] = {
        "id": step,
        "description": keys.take("description", str),
        "needs": None if needs is None else list(needs),
        "action": {
            "type": "tool",
            "tool": keys.take("tool", str) or "…",
            "args": {} if args is None else values.made(args, keys),
        },
        "on_failure": {"strategy": "continue"} if critical is False else None,
        "status": keys.take("status", str),
        "metadata": keys.beside(*_S2.step_beside) or None,
    }
    keys.refuse_rest("A step of dialect s2", _S2.step_instead)
    return made


class _Values:
    """Makes the arguments of steps: texts that name a step become references, all others stay what they say."""

    def __init__(self, ids: Collection[str]) -> None:
        self._ids = ids
        self._near = {_stem(step): step for step in reversed(list(ids)) if _stem(step)}

    def made(self, value: Any, keys: Keys, path: Path = ("args",)) -> Any:
        """The value with references; `path` is its way from the mapping whose keys are taken."""
        if type(value) is str:
            return self._text(value, keys, path) if "$" in value else value
        if type(value) is dict:
            return {key: self.made(inner, keys, (*path, key)) for key, inner in value.items()}
        if type(value) is list:
            return [self.made(inner, keys, (*path, index)) for index, inner in enumerate(value)]
        return value

    def _text(self, text: str, keys: Keys, path: Path) -> str:
        named = _NAMED.fullmatch(text)
        if named and named[1] in self._ids:
            return f"${{{named[1]}.output}}"
        if named and not named[1][0].isdigit():
            near = self._near.get(_stem(named[1]))
            hints = (f"Did you mean `${near}`?",) if near is not None else ()
            meant = "A value that is `$name` alone is the result of a step; as text, put something before it."
            keys.wrong("E_REF", f"`{text[:65]}` names no step of the plan.", *hints, meant, at=path)
        # Unescaped it would become a reference, or lose a dollar.
        escaped = "$${" in text or next(references(text), None) is not None
        return text.replace("${", "$${") if escaped else text


def _stem(name: str) -> str:
    """A name without what is easily mistyped; other texts that begin with a dollar are no slips of the pen."""
    return re.sub("[0-9_-]+", "", name).lower()


# --- s3 --------------------------------------------------------------------------------------------------------------
# The fourth seed's plans: Markdown with front matter of its own, the title in it, and a section that tells the executor
# what is known. The steps are read as those of every Markdown document.

_S3 = Dialect(
    name="s3",
    beside=(
        *("id", "created_at", "updated_at", "planner_model", "execution_session", "execution_started_at"),
        *("execution_ended_at", "result_summary"),
    ),
    lineage=("version",),
    plan={("tools",): ("tools_required",), ("model",): ("executor_model",)},
    plan_instead={"tools": "tools_required", "model": "executor_model", "plan_version": "version"},
)
_S3_BARE = re.compile(
    r"(?P<key>(?:created_at|updated_at|execution_[a-z_]+|result_summary|planner_model|executor_model)[ \t]*+:)[ \t]*+"
    r"(?P<time>[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ][0-9:.]{1,20})?(?:[Zz]|[+-][0-9:]{1,6})?)?[ \t]*+(?:#.*)?"
)
"""A line of the front matter with nothing, or with a time, where text is wanted and can not be taken for another."""


def read_s3(text: str) -> Document:
    """The document of the fourth seed's form that this text is; its front matter has an end."""
    problems = ProblemList()
    lines = text.split("\n")
    end = next(at for at in range(1, len(lines)) if lines[at].rstrip() == "---")
    # Free values are bounded by `shape`; those in the record stand two deep.
    read = read_yaml("".join(_s3_plain(lines, at) for at in range(1, end)), first_line=2, depth_max=DEPTH_MAX + 2)
    problems.extend(read.problems)
    if not read.problems and not isinstance(read.value, dict):
        problems.add("E_DOC_SYNTAX", "The front matter is not a mapping.", "Write `key: value` lines.", line=2)
    title, front = _s3_front_matter(read, end + 1, problems)
    blocks: list[Block] = scan(lines, front.end)
    if title is not None:
        line = read.locate(("title",))[0] or 2
        blocks.insert(0, Heading(line, line, 1, escaped_title(title)))
    outline, context = _s3_context(outline_of(blocks, problems), lines, problems)
    if context is not None:
        front = msgspec.structs.replace(front, values={**front.values, "context": context})
    return msgspec.structs.replace(read_parts(lines, front, outline, problems), dialect="s3")


def _s3_plain(lines: Sequence[str], at: int) -> str:
    """A line of the front matter as strict YAML wants it, and as the seed's own programs mean it."""
    line = lines[at]
    found = _S3_BARE.fullmatch(line)
    if found is None or lines[at + 1].startswith((" ", "\t", "- ")):
        return line + "\n"
    return f'{found["key"]} "{found["time"]}"\n' if found["time"] else f"{found['key']} null\n"


def _s3_front_matter(read: ReadValue, end: int, problems: ProblemList) -> tuple[str | None, FrontMatter]:
    if not isinstance(read.value, dict):
        return "…", FrontMatter(end=end)
    keys = Keys(read.value, (), read.locate, problems)
    title = keys.take("title", str)
    if title is not None and ("\n" in title or not title.strip()):
        keys.wrong("E_PLAN_TYPE", "`title` is not one line of text.", at=("title",))
        title = "…"
    status, model = keys.take("status", str), keys.take("executor_model", str)
    tools = _s3_tools(keys)
    metadata = keys.metadata(_S3.beside, _S3.lineage)
    keys.refuse_rest("The front matter of dialect s3", _S3.plan_instead)
    locate = _S3.locate(read)
    sound = shape(metadata, Any, locate=locate, problems=problems, path=("metadata",)) is not None
    record = {"status": status, "metadata": metadata if sound else None}
    values = {"tools": tools, "model": model}
    return title, FrontMatter(
        end=end,
        values={name: value for name, value in values.items() if value is not None},
        record={"": said} if (said := {name: value for name, value in record.items() if value}) else {},
        locate=locate,
    )


def _s3_tools(keys: Keys) -> tuple[str, ...] | None:
    tools: tuple[str, ...] | None = keys.take("tools_required", tuple[str, ...])
    for at, tool in enumerate(tools or ()):
        fault = scope_fault(tool)
        if fault:
            keys.wrong(*fault, at=("tools_required", at))
    if tools and len(set(tools)) < len(tools):
        keys.wrong("E_DOC_DUPLICATE", "A tool is listed twice in `tools_required`.", at=("tools_required",))
    return tools


def _s3_context(outline: Outline, lines: Sequence[str], problems: ProblemList) -> tuple[Outline, str | None]:
    """The text of the section `## Context`, which is part of the plan, and the outline without it."""
    found, text = outline.named("Context"), None
    for section in found[1:]:
        problems.add("E_DOC_DUPLICATE", "This is a second `## Context`.", line=section.heading.line)
    for section in found[:1]:
        refuse_hiding(section.blocks, problems)
        kept = trimmed(section.blocks)
        text = "\n".join(lines[kept[0].line - 1 : kept[-1].end]) if kept else None
        fault = string_fault(text) if text else None
        if fault:
            problems.add(*fault, line=section.heading.line)
    sections = tuple(section for section in outline.sections if section not in found)
    return msgspec.structs.replace(outline, sections=sections), text


TREE_READERS: Mapping[str, Callable[[ReadValue, Notation], Document]] = {"s1": read_s1, "s2": read_s2}
