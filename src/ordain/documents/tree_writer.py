"""A plan to the text of a JSON or YAML document: the inverse of `tree`.

What is written reads back to the same plan id, and is written again byte for byte the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ordain.core.model import NestedPlan, Plan, Step
from ordain.documents.document import Document
from ordain.documents.shape import RECORD_FIELDS, STEP_RECORD_FIELDS
from ordain.documents.value import whole_numbers
from ordain.documents.yaml_text import yaml_text

__all__ = ["plan_tree", "write_json", "write_yaml"]


def write_json(source: Document | Plan) -> str:
    """The JSON document of a plan, with what a document holds beside it."""
    return json.dumps(plan_tree(source), ensure_ascii=False, indent=2) + "\n"


def write_yaml(source: Document | Plan) -> str:
    """The YAML document of a plan, with what a document holds beside it."""
    return yaml_text(plan_tree(source))


def plan_tree(source: Document | Plan) -> dict[str, Any]:
    """The tree of a plan in the order of the model's fields: numbers before steps, record and notes at the end."""
    document = Document(plan=source) if isinstance(source, Plan) else source
    if document.plan is None:
        raise ValueError("a document that could not be read is never written")
    tree = _plan(document.plan, "", document.record)
    if document.notes:
        tree["notes"] = [{"heading": heading, "text": text} for heading, text in document.notes]
    whole: dict[str, Any] = whole_numbers(tree)
    return whole


def _plan(plan: Plan, prefix: str, record: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    tree: dict[str, Any] = msgspec.to_builtins(plan)
    for name, steps in (("steps", plan.steps), ("fallbacks", plan.fallbacks)):
        if name in tree:
            tree[name] = [
                _step(number, step, inner, prefix, record)
                for number, (step, inner) in enumerate(zip(steps, tree[name], strict=True), 1)
            ]
    return {**tree, **_in_order(record.get(prefix, {}), RECORD_FIELDS)}


def _step(
    number: int, step: Step, tree: dict[str, Any], prefix: str, record: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    if isinstance(step.action, NestedPlan):
        inner = _plan(step.action.plan, f"{prefix}{step.id}/", record)
        tree["action"] = {"type": "nested_plan", "plan": inner}
    return {"step_number": number, **tree, **_in_order(record.get(prefix + step.id, {}), STEP_RECORD_FIELDS)}


def _in_order(record: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """What stands beside the plan, in the same order whatever the order in which it was read."""
    return {key: record[key] for key in (*fields, *sorted(record.keys() - set(fields))) if key in record}
