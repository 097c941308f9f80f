"""Whatever the tree, reading gives a plan or problems, and never an exception; quick and careful reading agree."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ordain.core.plan.canonical import canonical_bytes, plan_from_bytes, plan_id
from ordain.core.plan.model import Plan, Step
from ordain.core.text.problem import Severity
from ordain.documents.document import Document
from ordain.documents.json import _carefully, read_json
from ordain.documents.reading import read
from ordain.documents.shape import RECORD_FIELDS, STEP_RECORD_FIELDS
from ordain.documents.tree_writer import write_json, write_yaml
from ordain.documents.yaml import yaml_text
from tests.plans import VALUES, plans
from tests.rows import each

WORDS = st.sampled_from(
    [
        *(*Plan.__struct_fields__, *Step.__struct_fields__, *RECORD_FIELDS, *STEP_RECORD_FIELDS),
        *("type", "strategy", "command", "tool", "args", "plan", "scope", "approval_code", "then", "in", "as", "env"),
        *(
            "run",
            "tool",
            "task",
            "nested_plan",
            "validate_approval",
            "fallback",
            "retry",
            "none",
            "a",
            "b",
            "step_completed",
        ),
    ]
)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=25,
)


def holds(text: str) -> Document:
    document = read(text.encode("utf-8", "surrogatepass"), "x")
    errors = [problem for problem in document.problems if problem.severity is not Severity.WARNING]
    assert (document.plan is None) == bool(errors)
    lines = text.count("\n") + 1
    for problem in document.problems:
        assert problem.detail
        assert problem.where is not None
        assert problem.where.file == "x"
        assert problem.where.line is not None or document.notation == "markdown"
        assert problem.where.line is None or 1 <= problem.where.line <= lines
    if document.plan is not None:
        assert plan_from_bytes(canonical_bytes(document.plan)) == document.plan
        steps = (*document.plan.steps, *document.plan.fallbacks)
        assert document.places.keys() == {"", *(step.id for step in steps)}
        for write in (write_json, write_yaml):
            again = read(write(document).encode())
            assert again.plan is not None, again.problems
            assert plan_id(again.plan) == plan_id(document.plan)
            assert (again.notes, again.record) == (document.notes, document.record)
    return document


YAML = st.lists(
    st.sampled_from(
        [
            *("title: T\n", "steps:\n", "  - id: a\n", "    action: {type: run, command: x}\n", "    needs: [1]\n"),
            *(
                "steps: [",
                "tools: [a]\n",
                "# c\n",
                "---\n",
                "...\n",
                "  ",
                "- ",
                "a: |\n",
                "&a ",
                "*a",
                "!!x ",
                "'",
                '"',
            ),
        ]
    )
    | st.text(max_size=3),
    max_size=10,
).map("".join)


@given(YAML)
def test_any_yaml(text: str) -> None:
    holds(text)
    holds("title: T\n" + text)
    holds("title: T\nsteps:\n" + text)


@given(TREES)
def test_any_tree(tree: Any) -> None:
    holds("\n" + json.dumps({"title": "T", "steps": tree}))
    holds(json.dumps({"title": "T", "steps": [tree]}, indent=1))
    holds(json.dumps({"title": "T", "steps": [{"id": "a", "action": tree}]}))
    if isinstance(tree, dict):
        holds(json.dumps({"title": "T", "steps": [{"id": "a", "action": {"type": "run", "command": "x"}}], **tree}))
        holds(json.dumps({"title": "T", "steps": [{"action": {"type": "run", "command": "x"}, **tree}] * 2}))
        holds("title: T\n" + yaml_text({"steps": [tree]}))


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


@given(plans(), st.data())
def test_any_mutation_of_a_plan(plan: Plan, data: st.DataObject) -> None:
    tree = json.loads(write_json(plan))
    for _ in range(data.draw(st.integers(1, 3))):
        *path, last = data.draw(st.sampled_from(places(tree)[1:]))
        target = tree
        for key in path:
            target = target[key]
        match data.draw(st.sampled_from(["replace", "delete", "add", "copy"])):
            case "replace":
                target[last] = data.draw(TREES | VALUES)
            case "delete":
                del target[last]
            case "add" if isinstance(target, dict):
                target[data.draw(WORDS | st.text(max_size=3))] = data.draw(TREES)
            case _ if isinstance(target, list):
                target.append(json.loads(json.dumps(target[last])))
        if not isinstance(tree, dict) or not places(tree)[1:]:
            break
    text = json.dumps(tree, indent=1)
    from_json = holds(text)
    from_yaml = read(yaml_text(tree).encode())
    if from_yaml.notation == "yaml" and from_json.plan is not None:
        assert from_yaml.plan is not None
        assert plan_id(from_yaml.plan) == plan_id(from_json.plan)


@given(
    st.text('[]{}:,"\\ \n0123456789.eE+-truefalsnN/u', max_size=30)
    | TREES.map(json.dumps)
    | VALUES.map(lambda value: json.dumps(value, indent=1))
    | st.floats().map(repr)
    | st.from_regex(r"-?[0-9]{1,25}(\.[0-9]{0,25})?(e[-+]?[0-9]{1,3})?", fullmatch=True)
)
def test_the_quick_reader_agrees_with_the_careful_one(text: str) -> None:
    quick, careful = read_json(text), _carefully(text, 1, 16)
    assert quick.problems == careful.problems
    assert repr(quick.value) == repr(careful.value)
    assert quick.depth == careful.depth


@each(
    "text",
    [
        '{"a": 1, "a": "\\u003a"}',
        '{"a:": 1, "a\\u003A": 2}',
        '{"a": {"b": 1}, "a": {"b": 2}}',
        '"' + "x" * (1 << 20) + '\\""',
        '["' + '\\"' * (1 << 20) + 'a"]',
        '{"' + "ä" * (1 << 19) + 'a": 1}',
        '"\\u001B"',
        '"\\uD83D\\uDE00"',
        '"\\u200b\\u202E"',
        '"\\b"',
        '"\x7f"',
        "[1.0, 1e2, -0.0, 1e-999, 9007199254740993.0]",
        '[{"a": [2.0]}]',
    ],
)
def test_doubtful_texts(text: str) -> None:
    quick, careful = read_json(text), _carefully(text, 1, 16)
    assert quick.problems == careful.problems
    assert repr(quick.value) == repr(careful.value)
