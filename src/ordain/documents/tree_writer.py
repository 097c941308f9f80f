"""A plan to the text of a JSON or YAML document, which reads back to the same plan id."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ordain.core.plan.model import Plan, Step, nested_plan_of
from ordain.core.plan.value import StepId
from ordain.core.text.limit import ID_LENGTH_MAX
from ordain.documents.document import Document, whole_numbers
from ordain.documents.shape import RECORD_FIELDS, STEP_RECORD_FIELDS
from ordain.documents.yaml import yaml_text

# --- Tree writer -----------------------------------------------------------------------------------------------------


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
    if (inner := nested_plan_of(step)) is not None:
        tree["action"] = {"type": "nested_plan", "plan": _plan(inner, f"{prefix}{step.id}/", record)}
    return {"step_number": number, **tree, **_in_order(record.get(prefix + step.id, {}), STEP_RECORD_FIELDS)}


def _in_order(record: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """What stands beside the plan, in the same order whatever the order in which it was read."""
    return {key: record[key] for key in (*fields, *sorted(record.keys() - set(fields))) if key in record}


# --- Slug ------------------------------------------------------------------------------------------------------------
# What steps without an id are called: the slugs of their titles, which are always ids.

_OTHERS = re.compile(r"[^A-Za-z0-9]+")
_STEM_MAX = ID_LENGTH_MAX - len("-20000")


def slug(title: str, number: int) -> StepId:
    """The id of a step that was given none: its title in lower-case letters, digits and single dashes."""
    # Lower-casing after the cut to ASCII: some foreign letters become ASCII letters when lower-cased.
    word = _OTHERS.sub("-", title).lower().strip("-")[:ID_LENGTH_MAX].rstrip("-")
    return StepId(f"step-{number}") if not word or word.isdigit() or word == "none" else StepId(word)


def distinct_slugs(titles: Sequence[str]) -> list[StepId]:
    """The ids of steps that have nowhere to say one: slugs, and from the second of equal ones on `slug-2`, `slug-3` … A
    number that would make the slug of another title is passed over."""
    slugs = [slug(title, number) for number, title in enumerate(titles, 1)]
    taken = set(slugs)
    if len(taken) == len(slugs):
        return slugs
    seen: set[StepId] = set()
    numbers: Counter[str] = Counter()
    for at, word in enumerate(slugs):
        stem, name = word[:_STEM_MAX].rstrip("-"), word
        if word in seen:
            while name in taken:
                numbers[stem] += 1
                name = StepId(f"{stem}-{numbers[stem] + 1}")
            taken.add(name)
            slugs[at] = name
        seen.add(word)
    return slugs
