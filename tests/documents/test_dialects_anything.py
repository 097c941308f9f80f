"""Any plan into any dialect and back, and any tree or text into the dialects' readers."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ordain.core.plan.actions.task import Task
from ordain.core.plan.actions.tool import CallTool
from ordain.core.plan.canonical import plan_id
from ordain.core.plan.condition import Contract, Verification
from ordain.core.plan.failure import Abort, Continue, Escalate, Retry
from ordain.core.plan.model import PLAN_VERSION, Budget, Plan, Step
from ordain.core.text.problem import Severity
from ordain.documents.dialects.reader import DIALECTS, Dialect, first_line
from ordain.documents.dialects.s1 import context_of
from ordain.documents.dialects.writer import WrittenDialect, write_dialect
from ordain.documents.document import Document
from ordain.documents.markdown.writer import write_markdown
from ordain.documents.reading import read
from ordain.documents.tree_writer import distinct_slugs, slug, write_json, write_yaml
from tests.plans import LINES, NAMES, TEXTS, VALUES, plans


def sound(document: Document) -> Plan:
    assert document.plan is not None, document.problems
    return document.plan


def written(source: Document | Plan, dialect: Dialect) -> WrittenDialect:
    return write_dialect(Document(plan=source) if isinstance(source, Plan) else source, dialect)


STEPS = st.integers(1, 4)
WORDS = st.from_regex(r"[A-Za-z][a-z]{0,6}( [a-z]{1,6}){0,2}", fullmatch=True)
PROSE = TEXTS.filter(str.strip)


@st.composite
def s1_plans(draw: st.DrawFn) -> Plan:
    tasks = draw(st.lists(PROSE, min_size=1, max_size=4))
    titles = [first_line(task) for task in tasks]
    ids = distinct_slugs(titles)
    steps = []
    for name, title, task in zip(ids, titles, tasks, strict=True):
        needs = tuple(sorted(draw(st.sets(st.sampled_from(ids)))))
        action = Task(
            task=task,
            agent=draw(st.none() | NAMES),
            instructions=draw(st.none() | TEXTS),
            criteria=tuple(draw(st.lists(TEXTS, max_size=2))),
        )
        steps.append(Step(id=name, description=title, action=action, needs=needs))
    task = draw(PROSE)
    return Plan(
        plan_version=PLAN_VERSION,
        title=first_line(task),
        task=task if "\n" in task else None,
        context=context_of(tuple(draw(st.lists(TEXTS, max_size=2)))),
        steps=tuple(steps),
    )


@st.composite
def s2_plans(draw: st.DrawFn) -> Plan:
    ids = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    values = VALUES.filter(lambda value: "$" not in json.dumps(value)) | st.sampled_from(ids).map(
        "${{{}.output}}".format
    )
    steps = [
        Step(
            id=name,
            description=draw(LINES.filter(str.strip)),
            needs=tuple(sorted(draw(st.sets(st.sampled_from(ids))))),
            action=CallTool(tool=draw(NAMES), args=draw(st.dictionaries(TEXTS, values, max_size=2))),
            on_failure=draw(st.sampled_from([None, Continue()])),
        )
        for name in ids
    ]
    return Plan(plan_version=PLAN_VERSION, title=draw(LINES.filter(str.strip)), steps=tuple(steps))


def in_row(steps: list[Step]) -> tuple[Step, ...]:
    """The steps, one after the other."""
    before = [(), *((step.id,) for step in steps)]
    return tuple(msgspec.structs.replace(step, needs=needs) for step, needs in zip(steps, before, strict=False))


@st.composite
def s3_plans(draw: st.DrawFn, texts: st.SearchStrategy[str] = WORDS) -> Plan:
    titles = draw(st.lists(texts, min_size=1, max_size=4))
    steps = [
        Step(
            id=name,
            description=title,
            needs=(),
            action=Task(task=title, tools=draw(st.sampled_from([None, ("a:b c",)]))),
        )
        for name, title in zip(distinct_slugs(titles), titles, strict=True)
    ]
    return Plan(
        plan_version=PLAN_VERSION,
        title=draw(texts),
        context=draw(st.none() | texts),
        tools=draw(st.none() | st.lists(NAMES, max_size=2, unique=True).map(tuple)),
        model=draw(st.none() | NAMES),
        steps=in_row(steps),
    )


@st.composite
def s4_plans(draw: st.DrawFn, texts: st.SearchStrategy[str] = WORDS) -> Plan:
    titles = draw(st.lists(texts, min_size=1, max_size=3, unique_by=lambda title: slug(title, 0)))
    contracts = st.none() | st.builds(
        lambda command, code: Verification(strategy=Contract(command=command, exit_code=code)),
        texts,
        st.integers(0, 255),
    )
    policies = [None, Abort(), Escalate(), Retry(max_attempts=3), Retry(max_attempts=2, then=Escalate())]
    steps = [
        Step(
            id=slug(title, number),
            description=title,
            needs=(),
            action=Task(
                task=draw(texts), agent=draw(st.none() | NAMES), reads=tuple(draw(st.lists(NAMES, max_size=2)))
            ),
            verification=draw(contracts),
            on_failure=draw(st.sampled_from(policies)),
        )
        for number, title in enumerate(titles, 1)
    ]
    return Plan(
        plan_version=PLAN_VERSION,
        title=draw(texts),
        context=draw(st.none() | texts),
        budget=draw(st.sampled_from([None, Budget(tokens=200_000, cost_usd=1.5)])),
        steps=in_row(steps),
    )


def round_trip(source: Document | Plan, dialect: Dialect) -> bool:
    """Whether the dialect can say it; if so, what was written is the same plan, and is written the same again."""
    plan = source if isinstance(source, Plan) else sound(source)
    made = written(source, dialect)
    if made.text is None:
        assert all(problem.severity is Severity.ERROR for problem in made.problems)
        return False
    again = read(made.text.encode())
    assert again.dialect == (dialect if dialect in ("s1", "s2", "s3") else None)
    assert plan_id(sound(again)) == plan_id(plan)
    assert written(again, dialect).text == made.text
    return True


@given(s1_plans())
def test_s1_out_and_in(plan: Plan) -> None:
    assert round_trip(plan, "s1")


@given(s2_plans())
def test_s2_out_and_in(plan: Plan) -> None:
    assert round_trip(plan, "s2")


@given(s3_plans())
def test_s3_out_and_in(plan: Plan) -> None:
    assert round_trip(plan, "s3")


@given(s4_plans())
def test_s4_out_and_in(plan: Plan) -> None:
    assert round_trip(plan, "s4")


@given(
    st.sampled_from(DIALECTS), plans() | s1_plans() | s2_plans() | s3_plans(PROSE) | s4_plans(LINES.filter(str.strip))
)
def test_a_plan_is_said_whole_or_refused(dialect: Dialect, plan: Plan) -> None:
    round_trip(plan, dialect)


ASIDE = st.dictionaries(
    st.sampled_from(["status", "metadata", "owner", "priority", "tags", "plan_id", "created_at", "step_id", "notes"]),
    st.sampled_from(["done", "failed", "ready", "x", " y "])
    | VALUES.filter(lambda value: value is not None)
    | st.dictionaries(
        st.sampled_from(["id", "version", "lineage", "order", "result", "constraints", "planner_model", "x"]),
        VALUES.filter(lambda value: value is not None) | st.dictionaries(st.sampled_from(["version", "x"]), VALUES),
    ),
    max_size=3,
)
HEADINGS = st.sampled_from(["", "Risks", "Steps", "Context", "Notes", "A\nB", " "])


@given(
    st.sampled_from(DIALECTS),
    s1_plans() | s2_plans() | s3_plans() | s4_plans(),
    ASIDE,
    ASIDE,
    st.lists(st.tuples(HEADINGS, TEXTS), max_size=2),
)
def test_nothing_beside_a_plan_changes_it(
    dialect: Dialect, plan: Plan, of_plan: Any, of_step: Any, notes: list[tuple[str, str]]
) -> None:
    record = {"": of_plan, plan.steps[0].id: of_step}
    made = written(Document(plan=plan, record=record, notes=tuple(notes)), dialect)
    assume(made.text is not None)
    again = read((made.text or "").encode())
    assert plan_id(sound(again)) == plan_id(plan)
    assert written(again, dialect).text == made.text


KEYS = [
    *("id", "task", "title", "status", "steps", "index", "description"),
    *("suggestedAgent", "executedBy", "output", "affectedFiles", "dependsOn", "critical", "tool"),
    *("args", "order", "result", "taskId", "version", "previousPlanId", "currentStepIndex"),
    *("metadata", "constraints", "tags", "createdAt", "acceptanceCriteria", "instructions", "estimatedDuration"),
    *("action", "plan_version", "x"),
]
TREES = st.recursive(
    VALUES | st.sampled_from(["$a", "a", "a b", "1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=12,
)
STEP_TREES = st.dictionaries(st.sampled_from(KEYS), TREES, max_size=6)
PLAN_TREES = st.builds(
    lambda plan, steps: {**plan, "steps": steps},
    st.dictionaries(st.sampled_from(KEYS), TREES, max_size=5),
    st.lists(STEP_TREES | TREES, max_size=3) | TREES,
)


@given(PLAN_TREES)
def test_no_tree_is_too_strange(tree: Any) -> None:
    document = read(json.dumps(tree, ensure_ascii=False).encode("utf-8", "replace"))
    assert all(problem.where is not None and problem.where.line for problem in document.problems)
    if document.plan is None:
        assert document.problems
    else:
        for dialect in DIALECTS:
            round_trip(document, dialect)


S3_LINES = st.sampled_from(
    [
        *("---", "id: a", "title: T", "title: [a]", "version: 1", "created_at: 2026-01-01", "result_summary:", "  x"),
        *("- a", "tools_required: [a]", "tools_required:", "executor_model: 7", "## Steps", "1. A", "2. B (a: b)"),
        *("## Context", "# T", "```", "text", "", "**Context:** a", "<!--", "[x] a", "1. ✅ A", "**status: x**"),
        *("### 1. A", "**run:** a"),
    ]
)


@given(st.lists(S3_LINES, max_size=14))
def test_no_front_matter_is_too_strange(lines: list[str]) -> None:
    document = read("\n".join(["---", "id: a", *lines]).encode())
    assert all(problem.where is not None and problem.where.line for problem in document.problems)
    assert document.plan is not None or document.problems
    if document.plan is not None:
        round_trip(document, "s3")


# --- Large and hostile ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_large_documents_take_little_time() -> None:
    count = 20_000
    s1 = {
        "task": "T",
        "steps": [{"index": n, "description": "Same", "dependsOn": [0, n - 1] if n else []} for n in range(count)],
    }
    s2 = {
        "steps": [{"id": f"s{n}", "tool": "t", "args": {"x": f"$s{max(n - 1, 0)}", "y": "$HOME"}} for n in range(count)]
    }
    s3 = "---\nid: x\ntitle: T\n---\n## Steps\n" + "".join(f"{n}. Do (a: b)\n" for n in range(1, count + 1))
    spaces = "---\nid: x\ntitle: T\ncreated_at:" + " " * 1_000_000 + "x\n---\n"
    for text in (json.dumps(s1), json.dumps(s2), s3):
        assert len(sound(read(text.encode())).steps) == count
    assert read(spaces.encode()).plan is None


@pytest.mark.slow
def test_too_many_steps() -> None:
    steps = [{"index": n, "description": "A"} for n in range(20_001)]
    document = read(json.dumps({"task": "T", "steps": steps}).encode())
    assert [problem.code for problem in document.problems] == ["E_PLAN_TOO_MANY_STEPS"]


@given(plans())
def test_what_we_write_ourselves_is_no_dialect(plan: Plan) -> None:
    assert [read(write(plan).encode()).dialect for write in (write_markdown, write_yaml, write_json)] == [None] * 3
