"""A plan of scoped tasks to the fourth seed's Markdown: the inverse of `s3`."""

from __future__ import annotations

from typing import Any

from ordain.core.plan.actions.task import Task
from ordain.core.plan.canonical import plan_id, short_id
from ordain.core.plan.model import Step
from ordain.documents.dialects.outgoing import Outgoing
from ordain.documents.dialects.s3 import BESIDE, LINEAGE
from ordain.documents.markdown.outline import escaped_title
from ordain.documents.markdown.writer import written_note
from ordain.documents.tree_writer import distinct_slugs
from ordain.documents.yaml import yaml_text

_HEAD = (
    "id",
    "title",
    "status",
    "version",
    "created_at",
    "updated_at",
    "planner_model",
    "tools_required",
    "executor_model",
    *BESIDE,
)
_ID_LENGTH = 8


def write_s3(out: Outgoing) -> str:
    """The Markdown of a plan in the fourth seed's form."""
    plan = out.plan
    out.refuse_fields(plan, ("context", "tools", "model"), None)
    out.refuse_ids(distinct_slugs([step.description for step in plan.steps]))
    out.refuse_needs()
    beside = out.beside("")
    values: dict[str, Any] = {
        "title": plan.title,
        "status": beside.status("plan") or "proposed",
        "version": 1,
        **beside.lineage(*LINEAGE),
        **beside.metadata(*BESIDE),
    }
    values.setdefault("id", f"PLAN-{short_id(plan_id(plan))[:_ID_LENGTH]}")
    if plan.tools is not None:
        values["tools_required"] = list(plan.tools)
    if plan.model is not None:
        values["executor_model"] = plan.model
    items = [f"{number}. {_item(out, step)}" for number, step in enumerate(plan.steps, 1)]
    head = yaml_text({name: values[name] for name in _HEAD if name in values})
    parts = [f"---\n{head}---", "## Steps", "\n".join(items)]
    if plan.context is not None:
        parts += ["## Context", plan.context]
    for heading, text in out.notes:
        named, kept = written_note(heading or "Notes", text)
        # A second `## Context` would be part of the plan.
        parts += [f"## {'Notes' if named == 'Context' else named}", *([kept] if kept else [])]
    beside.leave_out_rest()
    out.leave_out_rest(notes=False)
    return "\n\n".join(parts) + "\n"


def _item(out: Outgoing, step: Step) -> str:
    """A step as an item of the list: what is to be done, and with which tool and operation."""
    out.refuse_fields(step, (), step.id)
    task = out.action_of(step, Task)
    if task is None:
        return ""
    out.refuse_fields(task, ("task", "tools"), step.id)
    if task.task != step.description:
        out.refuse(step.id, "task", why="is not the step's title")
    if task.tools is None:
        return escaped_title(task.task)
    tool, mark, operation = task.tools[0].partition(":") if task.tools else ("", "", "")
    if len(task.tools) != 1 or not mark:
        out.refuse(step.id, "tools", why="is not one tool with its operation")
    return f"{escaped_title(task.task)} ({tool}: {operation})"
