"""The second seed's plans (YAML, or the same tree in JSON): tasks for agents, known by their index.

A tree in, a document out. What the seed's programs wrote down about progress is kept beside the plan under its own
names and never believed; constraints are kept there too, and instruct agents as the plan's context.
"""

from __future__ import annotations

from typing import Any

from ordain.documents.dialects.reader import Keys, Renamed, document_of, first_line, kept
from ordain.documents.document import Document, Notation, Path, ProblemList, ReadValue
from ordain.documents.tree_writer import distinct_slugs

PLAN_BESIDE = ("id", "currentStepIndex", "createdAt", "updatedAt", "createdBy")
PLAN_METADATA = ("complexity", "tags", "constraints", "informedByMemories")
LINEAGE = ("version", "previousPlanId")
STEP_BESIDE = ("executedBy", "startedAt", "completedAt", "output", "error", "affectedFiles")
"""What is kept beside the plan and its steps, in this order."""

_PLAN_SOURCES: dict[Path, Path] = {
    ("title",): ("task",),
    ("context",): ("metadata", "constraints"),
    **kept(PLAN_BESIDE, LINEAGE),
}
_STEP_SOURCES: dict[Path, Path] = {
    ("id",): ("description",),
    ("needs",): ("dependsOn",),
    ("action",): (),
    ("action", "task"): ("description",),
    ("action", "agent"): ("suggestedAgent",),
    ("action", "instructions"): ("instructions",),
    ("action", "criteria"): ("acceptanceCriteria",),
    **kept(STEP_BESIDE),
}
_PLAN_INSTEAD = {"title": "task", "context": "metadata: {constraints: […]}", "tags": "metadata: {tags: […]}"}
_STEP_INSTEAD = {
    "agent": "suggestedAgent",
    "criteria": "acceptanceCriteria",
    "needs": "dependsOn",
    "depends_on": "dependsOn",
    "step_number": "index",
    "task": "description",
}


def read_s1(read: ReadValue, notation: Notation) -> Document:
    """The document that this tree of the second seed's form is."""
    problems = ProblemList()
    plan = Keys(read.value, (), read.locate, problems)
    task = plan.take("task", str)
    if read.value.get("task") is None:
        plan.wrong("E_PLAN_TYPE", "`task` is missing; text is wanted.")
    status = plan.take("status", str)
    constraints, metadata = _metadata(plan, read, problems)
    beside = plan.metadata(PLAN_BESIDE, LINEAGE, metadata)
    steps = plan.beside("steps").get("steps")
    plan.refuse_rest("A plan of dialect s1", _PLAN_INSTEAD)
    tree: dict[str, Any] = {
        "title": first_line(task) if task is not None else "…",
        "task": task if task is not None and "\n" in task else None,
        "context": context_of(constraints),
        "status": status,
        "metadata": beside or None,
        "steps": _steps(steps, read, problems) if type(steps) is list else steps,
    }
    locate = Renamed(read.locate, _PLAN_SOURCES, _STEP_SOURCES)
    return document_of(tree, read, locate, notation, "s1", problems)


def context_of(constraints: tuple[str, ...]) -> str | None:
    """What agents are told of a plan's constraints; a constraint of several lines stays one item."""
    items = ("- " + constraint.replace("\n", "\n  ") for constraint in constraints)
    return "\n".join(("Constraints:", *items)) if constraints else None


def _metadata(plan: Keys, read: ReadValue, problems: ProblemList) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The plan's constraints, and all that its `metadata` says."""
    given = plan.beside("metadata").get("metadata")
    if type(given) is not dict:
        # Says what is wrong with it, if there is something.
        plan.take("metadata", dict[str, Any])
        return (), {}
    keys = Keys(given, ("metadata",), read.locate, problems)
    constraints: tuple[str, ...] = keys.take("constraints", tuple[str, ...]) or ()
    beside = keys.beside(*PLAN_METADATA)
    keys.refuse_rest("The `metadata` of dialect s1", {})
    return constraints, beside


def _steps(given: list[Any], read: ReadValue, problems: ProblemList) -> list[Any]:
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
        steps.append(_step(keys, index, titles[index], ids))
    return steps


def _step(keys: Keys, index: int, title: str, ids: list[Any]) -> dict[str, Any]:
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
        "needs": _needs(keys, ids),
        "action": {
            "type": "task",
            "task": description or "…",
            "agent": keys.take("suggestedAgent", str),
            "instructions": keys.take("instructions", str),
            "criteria": list(criteria or ()),
        },
        "status": keys.take("status", str),
        "metadata": keys.beside(*STEP_BESIDE) or None,
    }
    keys.refuse_rest("A step of dialect s1", _STEP_INSTEAD)
    return step


def _needs(keys: Keys, ids: list[Any]) -> list[str] | None:
    """The ids of the steps that `dependsOn` names by index; None where it is not there."""
    given = keys.take("dependsOn", tuple[int, ...])
    if given is None:
        return None
    for at, index in enumerate(given):
        if not 0 <= index < len(ids):
            detail = f"`dependsOn` names the step with index {index}; the plan has {len(ids)}, and the first is 0."
            keys.wrong("E_STEP_UNKNOWN_NEED", detail, at=("dependsOn", at))
    return [ids[index] for index in given if 0 <= index < len(ids)]
