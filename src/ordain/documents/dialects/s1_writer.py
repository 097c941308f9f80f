"""A plan of agent tasks to the second seed's YAML: the inverse of `s1`.

What the seed wants and nobody has told (times, authors) is left out; nothing is made up but the id, which is ours.
"""

from __future__ import annotations

from typing import Any

from ordain.core.plan.actions.task import Task
from ordain.core.plan.canonical import plan_id
from ordain.core.plan.model import Step
from ordain.documents.dialects.outgoing import Outgoing
from ordain.documents.dialects.reader import first_line
from ordain.documents.dialects.s1 import LINEAGE, PLAN_BESIDE, PLAN_METADATA, STEP_BESIDE, context_of
from ordain.documents.document import whole_numbers
from ordain.documents.tree_writer import distinct_slugs
from ordain.documents.yaml import yaml_text

_ITEM = "- "
_MORE = "  "


def write_s1(out: Outgoing) -> str:
    """The YAML of a plan in the second seed's form."""
    plan = out.plan
    out.refuse_fields(plan, ("task", "context"), None)
    task = plan.title if plan.task is None else plan.task
    if plan.task is not None and (first_line(task) != plan.title or "\n" not in task):
        out.refuse(None, "task", why="is not a text of several lines that begins with the title")
    constraints = _constraints(plan.context)
    if constraints is None:
        out.refuse(None, "context", "There it is a list: `Constraints:`, and `- item` lines below.")
    out.refuse_ids(distinct_slugs([step.description for step in plan.steps]))
    indexes = {step.id: index for index, step in enumerate(plan.steps)}
    beside = out.beside("")
    own = beside.metadata(*PLAN_BESIDE)
    metadata = beside.metadata(*PLAN_METADATA)
    if constraints is not None and metadata.get("constraints", list(constraints)) == list(constraints):
        metadata.pop("constraints", None)
    if "constraints" in metadata:
        out.leave_out("", ["metadata.constraints"])
    tree: dict[str, Any] = {
        "id": own.pop("id", None) or plan_id(plan),
        "task": task,
        "status": beside.status("plan") or "draft",
        "version": 1,
        **beside.lineage(*LINEAGE),
        "currentStepIndex": 0,
        **own,
        "steps": [_step(out, index, step, indexes) for index, step in enumerate(plan.steps)],
    }
    metadata |= {"constraints": list(constraints)} if constraints else {}
    if metadata:
        tree["metadata"] = {name: metadata[name] for name in PLAN_METADATA if name in metadata}
    beside.leave_out_rest()
    out.leave_out_rest(notes=True)
    return yaml_text(whole_numbers(tree))


def _step(out: Outgoing, index: int, step: Step, indexes: dict[Any, int]) -> dict[str, Any]:
    out.refuse_fields(step, (), step.id)
    task = out.action_of(step, Task)
    if task is not None:
        out.refuse_fields(task, ("task", "agent", "instructions", "criteria"), step.id)
        if first_line(task.task) != step.description:
            out.refuse(step.id, "task", why="does not begin with the step's title")
    strangers = [need for need in step.needs if need not in indexes]
    if strangers:
        out.refuse(step.id, "needs", why=f"names `{strangers[0]}`, which is no step of the plan")
    beside = out.beside(step.id)
    tree: dict[str, Any] = {
        "index": index,
        "description": task.task if task is not None else step.description,
        "status": beside.status("step") or "pending",
        **({"suggestedAgent": task.agent} if task is not None and task.agent is not None else {}),
        **beside.metadata(*STEP_BESIDE),
        "dependsOn": sorted(indexes[need] for need in step.needs if need in indexes),
    }
    if task is not None and task.instructions is not None:
        tree["instructions"] = task.instructions
    if task is not None and task.criteria:
        tree["acceptanceCriteria"] = list(task.criteria)
    beside.leave_out_rest()
    return tree


def _constraints(context: str | None) -> tuple[str, ...] | None:
    """The constraints whose text is this context, or None where it is another text."""
    if context is None:
        return ()
    items: list[str] = []
    for line in context.split("\n")[1:]:
        if line.startswith(_ITEM):
            items.append(line.removeprefix(_ITEM))
        elif items and line.startswith(_MORE):
            items[-1] += "\n" + line.removeprefix(_MORE)
        else:
            return None
    return tuple(items) if context_of(tuple(items)) == context else None
