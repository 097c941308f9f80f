"""Any plan that a dialect can say, and any tree or text, into the dialects' readers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordain.core.plan.action import CallTool, Task
from ordain.core.plan.canonical import plan_id
from ordain.core.plan.failure import Continue
from ordain.core.plan.model import PLAN_VERSION, Plan, Step
from ordain.documents.dialects.reader import first_line
from ordain.documents.dialects.seeds import context_of
from ordain.documents.document import Document
from ordain.documents.markdown.writer import write_markdown
from ordain.documents.reading import read
from ordain.documents.tree_writer import distinct_slugs, write_json, write_yaml
from tests.plans import LINES, NAMES, TEXTS, VALUES, plans


def sound(document: Document) -> Plan:
    assert document.plan is not None, document.problems
    return document.plan


WORDS = st.from_regex(r"[A-Za-z][a-z]{0,6}( [a-z]{1,6}){0,2}", fullmatch=True)
PROSE = TEXTS.filter(str.strip)


def present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, ())}


@st.composite
def s1_plans(draw: st.DrawFn) -> tuple[Plan, dict[str, Any]]:
    """A plan, and the tree that the second seed would have for it."""
    tasks = draw(st.lists(PROSE, min_size=1, max_size=4))
    titles = [first_line(task) for task in tasks]
    ids = distinct_slugs(titles)
    steps, trees = [], []
    for index, (name, title, task) in enumerate(zip(ids, titles, tasks, strict=True)):
        needs = tuple(sorted(draw(st.sets(st.sampled_from(ids)))))
        action = Task(
            task=task,
            agent=draw(st.none() | NAMES),
            instructions=draw(st.none() | TEXTS),
            criteria=tuple(draw(st.lists(TEXTS, max_size=2))),
        )
        steps.append(Step(id=name, description=title, action=action, needs=needs))
        said = present(
            suggestedAgent=action.agent, instructions=action.instructions, acceptanceCriteria=action.criteria
        )
        trees.append(
            {
                "index": index,
                "description": task,
                "dependsOn": [ids.index(need) for need in needs],
                **said,
                **draw(CLAIMS),
            }
        )
    task, constraints = draw(PROSE), tuple(draw(st.lists(TEXTS, max_size=2)))
    plan = Plan(
        plan_version=PLAN_VERSION,
        title=first_line(task),
        task=task if "\n" in task else None,
        context=context_of(constraints),
        steps=tuple(steps),
    )
    return plan, {"task": task, "metadata": {"constraints": constraints}, "steps": trees}


CLAIMS = st.fixed_dictionaries({}, optional={"status": WORDS, "executedBy": VALUES, "output": VALUES, "error": VALUES})


@st.composite
def s2_plans(draw: st.DrawFn) -> tuple[Plan, dict[str, Any]]:
    """A plan, and the tree that the third seed would have for it."""
    ids = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    values = VALUES.filter(lambda value: "$" not in json.dumps(value)).map(lambda value: (value, value))
    named = st.sampled_from(ids).map(lambda name: (f"${{{name}.output}}", f"${name}"))
    steps, trees = [], []
    for order, name in enumerate(ids):
        args = draw(st.dictionaries(TEXTS, values | named, max_size=2))
        needs = tuple(sorted(draw(st.sets(st.sampled_from(ids)))))
        step = Step(
            id=name,
            description=draw(LINES.filter(str.strip)),
            needs=needs,
            action=CallTool(tool=draw(NAMES), args={key: ours for key, (ours, _) in args.items()}),
            on_failure=draw(st.sampled_from([None, Continue()])),
        )
        said = {"args": {key: theirs for key, (_, theirs) in args.items()}, "critical": step.on_failure is None}
        tree = {"id": name, "order": order, "description": step.description, "dependsOn": needs}
        trees.append({**tree, "tool": step.action.tool, **said, **draw(RESULTS)})
        steps.append(step)
    plan = Plan(plan_version=PLAN_VERSION, title=draw(LINES.filter(str.strip)), steps=tuple(steps))
    return plan, {"taskId": "t", "title": plan.title, "steps": trees}


RESULTS = st.fixed_dictionaries({}, optional={"status": WORDS, "result": VALUES})


@st.composite
def s3_plans(draw: st.DrawFn) -> tuple[Plan, str]:
    """A plan, and the text that the fourth seed would have for it."""
    titles = draw(st.lists(WORDS, min_size=1, max_size=4))
    steps: list[Step] = []
    lines = []
    for number, (name, title) in enumerate(zip(distinct_slugs(titles), titles, strict=True), 1):
        tools = draw(st.sampled_from([None, ("a:b c",)]))
        needs = (steps[-1].id,) if steps else ()
        steps.append(Step(id=name, description=title, needs=needs, action=Task(task=title, tools=tools)))
        lines.append(f"{number}. {draw(st.sampled_from(['', '✅ ']))}{title}{' (a: b c)' if tools else ''}")
    plan = Plan(
        plan_version=PLAN_VERSION,
        title=draw(WORDS),
        context=draw(st.none() | WORDS),
        tools=draw(st.none() | st.lists(NAMES, max_size=2, unique=True).map(tuple)),
        model=draw(st.none() | NAMES),
        steps=tuple(steps),
    )
    head = ["---", "id: PLAN-1", f"title: {json.dumps(plan.title)}"]
    head += [f"tools_required: {json.dumps(plan.tools)}"] if plan.tools is not None else []
    head += [f"executor_model: {json.dumps(plan.model)}"] if plan.model is not None else []
    context = ["", "## Context", plan.context] if plan.context is not None else []
    return plan, "\n".join([*head, "---", "## Steps", *lines, *context, ""])


@given(s1_plans())
def test_s1_says_what_it_means(made: tuple[Plan, dict[str, Any]]) -> None:
    plan, tree = made
    document = read(json.dumps(tree).encode())
    assert (sound(document), document.dialect) == (plan, "s1")


@given(s2_plans())
def test_s2_says_what_it_means(made: tuple[Plan, dict[str, Any]]) -> None:
    plan, tree = made
    document = read(json.dumps(tree).encode())
    assert (sound(document), document.dialect) == (plan, "s2")


@given(s3_plans())
def test_s3_says_what_it_means(made: tuple[Plan, str]) -> None:
    plan, text = made
    document = read(text.encode())
    assert (sound(document), document.dialect) == (plan, "s3")


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
        assert plan_id(sound(read(write_json(document).encode()))) == plan_id(document.plan)


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


# --- Large and hostile ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_large_documents_take_little_time() -> None:
    count = 20_000
    s1 = {
        "task": "T",
        "steps": [{"index": n, "description": "Same", "dependsOn": [0, n - 1] if n else []} for n in range(count)],
    }
    s2 = {
        "steps": [
            {"id": f"s{n}", "tool": "t", "args": {"x": f"$s{max(n - 1, 0)}", "y": "~ $HOME"}} for n in range(count)
        ]
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
