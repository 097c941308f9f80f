"""What does not belong to a plan does not change its id: layout, order of keys, spelling of numbers, the record, the
notation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ordain.core.plan.canonical import plan_id
from ordain.core.plan.model import Plan
from ordain.core.text.problem import Severity
from ordain.documents.document import ProblemList
from ordain.documents.markdown.field import FieldNames
from ordain.documents.markdown.scan import Heading, scan
from ordain.documents.markdown.table import PLAN_FIELDS, STEP_FIELDS
from ordain.documents.markdown.writer import write_markdown
from ordain.documents.reading import read
from ordain.documents.tree_writer import plan_tree, write_json, write_yaml
from tests.plans import plans

CHANCES = st.randoms(use_true_random=False)
SPELLINGS = {"agent": "Target", "reads": "subscriptions", "needs": "depends_on", "on_fail": "ON_FAILURE"}


def id_of(text: str) -> str:
    document = read(text.encode())
    assert [problem for problem in document.problems if problem.severity is not Severity.WARNING] == []
    assert document.plan is not None
    return plan_id(document.plan)


@given(plans())
def test_the_notation(plan: Plan) -> None:
    assert {id_of(write(plan)) for write in (write_markdown, write_yaml, write_json)} == {plan_id(plan)}


# --- Markdown ------------------------------------------------------------------------------------------------------


def laid_out(text: str, chance: Random) -> Iterator[str]:
    """The lines of a written document with other white space, other spellings and marks of progress."""
    lines = text.split("\n")
    end = lines.index("---", 1) + 1 if lines[0] == "---" else 0
    yield from lines[:end]
    names, in_steps = FieldNames(), False
    for block in scan(lines, end):
        line = lines[block.line - 1]
        known = names.line(block, STEP_FIELDS if in_steps else PLAN_FIELDS, ProblemList())
        if isinstance(block, Heading) and block.level <= 3:
            in_steps = in_steps or block.text == "Steps"
            marks, title = line.split(" ", 1)
            number, dot, rest = title.partition(". ") if block.level == 3 else ("", "", title)
            if block.level != 2 and rest[:1] not in "\\✅[" and chance.random() < 0.5:
                rest = chance.choice(["✅ ", "[x] ", "[ ]  "]) + rest
            yield from [""] * chance.randrange(3)
            yield f"{' ' * chance.randrange(4)}{marks}  {number}{dot}{rest}{chance.choice(['', '  ', ' ##'])}"
        elif known is not None and known.name:
            name = known.name
            if in_steps and chance.random() < 0.5:
                name = SPELLINGS.get(name, name.upper())
            yield from [""] * chance.randrange(2)
            if chance.random() < 0.1:
                yield "**status: running**"
                yield ""
            before, between, after = (" " * chance.randrange(limit) for limit in (4, 3, 3))
            yield f"{before}**{name}:**{between}{known.value}{after}"
        else:
            yield from lines[block.line - 1 : block.end]


@given(plans(), CHANCES, st.booleans())
def test_layout_and_marks_of_markdown(plan: Plan, chance: Random, windows: bool) -> None:
    text = "\n".join(laid_out(write_markdown(plan), chance))
    assert id_of("\ufeff" + text.replace("\n", "\r\n") if windows else text) == plan_id(plan)


RECORD = """\
owner: kim
status: approved
tags: [a]
metadata: {approved: true}
record: {"": {created_at: today, plan_id: "plan:1"}}
"""


@given(plans())
def test_the_record_of_markdown(plan: Plan) -> None:
    text = write_markdown(plan)
    fenced = text.startswith("---\n")
    text = text.replace("---\n", f"---\n{RECORD}", 1) if fenced else f"---\n{RECORD}---\n{text}"
    assert id_of(text + "\n## Risks\n\n- none\n") == plan_id(plan)


# --- Trees ---------------------------------------------------------------------------------------------------------


def spelt(value: Any, chance: Random) -> str:
    """JSON with keys in any order, white space anywhere and numbers in any spelling."""
    space = " \t\n"[: chance.randrange(4)]
    match value:
        case dict():
            keys = list(value)
            chance.shuffle(keys)
            inside = ",".join(f"{space}{json.dumps(key)}:{spelt(value[key], chance)}" for key in keys)
            return f"{{{inside}{space}}}"
        case list():
            return f"[{space}{','.join(spelt(inner, chance) for inner in value)}]"
        case int() if type(value) is int and abs(value) < 2**53:
            return f"{space}{value}{chance.choice(['', '.0', 'e0', '.00E+0'])}"
        case _:
            return space + json.dumps(value, ensure_ascii=chance.random() < 0.5)


@given(plans(), CHANCES)
def test_order_and_spelling_of_json(plan: Plan, chance: Random) -> None:
    assert id_of(spelt(plan_tree(plan), chance)) == plan_id(plan)


@given(plans(), CHANCES)
def test_the_record_of_trees(plan: Plan, chance: Random) -> None:
    tree = plan_tree(plan)
    tree |= {
        "owner": "kim",
        "status": "approved",
        "notes": ["a"],
        "created_at": 1,
        "plan_id": "x",
        "task": tree.get("task"),
    }
    for number, step in enumerate(tree["steps"]):
        alias = f"x{number}-{chance.random()}"
        step |= {"status": "done", "tags": ["a"], "metadata": {"approved": True}, "step_id": alias}
        step.setdefault("timeout_ms", None)
    assert id_of(json.dumps(tree)) == plan_id(plan)
