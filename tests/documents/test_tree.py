"""Plans as JSON and YAML trees: the corpus rows with exact codes and lines, what may be left out, what is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ordain.core.plan.canonical import plan_id
from ordain.core.plan.failure import Fallback, Retry
from ordain.core.plan.model import NestedPlan, Plan
from ordain.core.text.problem import Severity
from ordain.documents.document import Document
from ordain.documents.reading import notation_of, read
from ordain.documents.tree_writer import write_json, write_yaml
from tests.patience import hang_guard
from tests.rows import each

RUN = {"type": "run", "command": "make"}


def whole(**fields: Any) -> dict[str, Any]:
    return {"title": "T", "steps": [{"id": "a", "action": RUN}], **fields}


def one(**fields: Any) -> dict[str, Any]:
    return {"title": "T", "steps": [{"id": "a", "action": RUN, **fields}]}


def many(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"title": "T", "steps": [{"action": RUN, **step} for step in steps]}


def call(args: Any) -> dict[str, Any]:
    return one(action={"type": "tool", "tool": "t", "args": args})


def nested(depth: int) -> dict[str, Any]:
    plan = whole()
    for _ in range(depth):
        plan = one(action={"type": "nested_plan", "plan": plan})
    return plan


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def read_tree(tree: Any) -> Document:
    return read(json.dumps(tree, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass"))


def codes(document: Document) -> list[str]:
    return [problem.code for problem in document.problems]


def made(tree: Any) -> Plan:
    document = read_tree(tree)
    assert document.problems == ()
    assert document.plan is not None
    return document.plan


REFUSED: list[tuple[Any, list[str]]] = [
    # Reading
    (call({"a": "\x1b[2J"}), ["E_DOC_CONTROL_CHARACTER"]),
    (call({"a": "\x9b"}), ["E_DOC_CONTROL_CHARACTER"]),
    (call({"a": "\u202e"}), ["E_DOC_BIDI"]),
    (whole(title="T\u2066"), ["E_DOC_BIDI"]),
    (one(id="оne"), ["E_NAME"]),
    (one(needs=["оne"]), ["E_NAME"]),
    (call(deep(17)), ["E_PLAN_TYPE"]),
    (call({"a": deep(16)}), ["E_DOC_DEPTH"]),
    (one(action={"type": "store_data", "key": "k", "value": deep(17)}), ["E_DOC_DEPTH"]),
    (whole(metadata=deep(17)), ["E_DOC_DEPTH"]),
    (call({"a": deep(100)}), ["E_DOC_DEPTH"]),
    (call({"a": 2**53}), ["E_DOC_NUMBER"]),
    (call({"a": float("nan")}), ["E_DOC_NUMBER"]),
    (one(timeout_ms=2**53), ["E_DOC_NUMBER"]),
    (call({"a": "x" * ((1 << 20) + 1)}), ["E_DOC_TOO_LARGE"]),
    # Structure
    ([], ["E_PLAN_TYPE"]),
    ({}, ["E_PLAN_NO_STEPS", "E_PLAN_TYPE"]),
    (whole(approved=True), ["E_PLAN_UNKNOWN_FIELD"]),
    (one(approved=True), ["E_PLAN_UNKNOWN_FIELD"]),
    (one(action=RUN | {"x": 1}), ["E_PLAN_UNKNOWN_FIELD"]),
    (whole(type="plan"), ["E_PLAN_UNKNOWN_FIELD"]),
    (one(run="make"), ["E_PLAN_UNKNOWN_FIELD"]),
    (whole(budget={"token": 1}), ["E_PLAN_UNKNOWN_FIELD"]),
    (whole(plan_version=2), ["E_PLAN_VERSION"]),
    (whole(plan_version=0), ["E_PLAN_VERSION"]),
    (whole(plan_version=2, approved=True, tier="x"), ["E_PLAN_VERSION"]),
    (whole(plan_version="1"), ["E_PLAN_TYPE"]),
    (whole(plan_version=True), ["E_PLAN_TYPE"]),
    (whole(plan_version=1.5), ["E_PLAN_TYPE"]),
    ({"title": "T", "steps": []}, ["E_PLAN_NO_STEPS"]),
    ({"title": "T", "steps": None}, ["E_PLAN_NO_STEPS"]),
    ({"title": "T"}, ["E_PLAN_NO_STEPS"]),
    ({"title": "T", "steps": {}}, ["E_PLAN_TYPE"]),
    ({"title": "T", "steps": ["make"]}, ["E_PLAN_TYPE"]),
    ({"title": "T", "steps": [{"id": f"s{n}", "action": RUN} for n in range(20_001)]}, ["E_PLAN_TOO_MANY_STEPS"]),
    (whole(title=None), ["E_PLAN_TYPE"]),
    (whole(title=""), ["E_PLAN_TYPE"]),
    (whole(title="a\nb"), ["E_PLAN_TYPE"]),
    (one(description="a\nb"), ["E_PLAN_TYPE"]),
    (one(description=" "), ["E_PLAN_TYPE"]),
    (one(description=7), ["E_PLAN_TYPE"]),
    (one(action=None), ["E_STEP_ACTION"]),
    ({"title": "T", "steps": [{"id": "a"}]}, ["E_STEP_ACTION"]),
    (one(action={"type": "rum", "command": "x"}), ["E_STEP_ACTION"]),
    (one(action={"command": "x"}), ["E_STEP_ACTION"]),
    (one(action="make"), ["E_PLAN_TYPE"]),
    (one(action={"type": "run"}), ["E_PLAN_TYPE"]),
    (one(action={"type": "run", "command": None}), ["E_PLAN_TYPE"]),
    (one(action={"type": "run", "command": ["make"]}), ["E_PLAN_TYPE"]),
    (one(on_failure={"strategy": "retri"}), ["E_PLAN_TYPE"]),
    (one(on_failure={"strategy": "retry", "max_attempts": 2, "then": RUN}), ["E_PLAN_TYPE"]),
    (one(verification={"type": "contract", "command": "x"}), ["E_PLAN_UNKNOWN_FIELD"] * 2 + ["E_PLAN_TYPE"]),
    (one(contract="test -f x"), ["E_PLAN_UNKNOWN_FIELD"]),
    (one(proof="green"), ["E_PLAN_TYPE"]),
    (one(timeout_ms="1s"), ["E_PLAN_TYPE"]),
    (one(timeout_ms=True), ["E_PLAN_TYPE"]),
    (one(timeout_ms=1.5), ["E_PLAN_TYPE"]),
    (one(step_number=2), ["E_PLAN_TYPE"]),
    (one(step_number=True), ["E_PLAN_TYPE"]),
    (one(step_number="1"), ["E_PLAN_TYPE"]),
    (many({"id": "a"}, {"id": "a"}), ["E_STEP_ID"]),
    (many({"description": "A"}, {"description": "a!"}), ["E_STEP_ID"]),
    (many({}, {}), ["E_STEP_ID"]),
    (whole(fallbacks=[{"id": "a", "action": RUN}]), ["E_STEP_ID"]),
    (one(id="none"), ["E_STEP_ID"]),
    (one(id="7"), ["E_STEP_ID"]),
    (one(id="x" * 65), ["E_STEP_ID"]),
    (one(id=7), ["E_PLAN_TYPE"]),
    (one(needs=["1"]), ["E_STEP_ID"]),
    (one(needs=[2]), ["E_STEP_UNKNOWN_NEED"]),
    (one(needs=[0]), ["E_STEP_UNKNOWN_NEED"]),
    (one(needs="none"), ["E_PLAN_TYPE"]),
    (one(needs=[None]), ["E_PLAN_TYPE"]),
    (one(needs=[True]), ["E_PLAN_TYPE"]),
    (one(needs=[["a"]]), ["E_PLAN_TYPE"]),
    (nested(4), ["E_PLAN_NESTING"]),
    (nested(6), ["E_PLAN_NESTING"]),
    (one(action={"type": "nested_plan", "plan": whole(plan_version=2)}), ["E_PLAN_VERSION"]),
    (one(action={"type": "nested_plan", "plan": []}), ["E_PLAN_TYPE"]),
    (one(action={"type": "validate_approval", "approval_code": "AB12"}), ["W_APPROVAL_CODE", "E_PLAN_TYPE"]),
    (whole(notes=3), ["E_PLAN_TYPE"]),
    (whole(notes=[{"heading": 1}]), ["E_PLAN_TYPE"]),
    (whole(risks={"a": "b"}), ["E_PLAN_TYPE"]),
]


@each("tree, expected", REFUSED)
def test_refused(tree: Any, expected: list[str]) -> None:
    document = read_tree(tree)
    assert sorted(codes(document)) == sorted(expected)
    assert document.plan is None
    assert all(problem.where and problem.where.line for problem in document.problems)


@each(
    "text, expected",
    [
        ('{"title": "T", "title": "T"}', [("E_DOC_DUPLICATE", 1, 16)]),
        ('{"title": "\\ud800"}', [("E_DOC_CONTROL_CHARACTER", 1, 11)]),
        ('{\n "title": "T",\n}', [("E_DOC_SYNTAX", 3, 1)]),
        ('{"title": "T"} {}', [("E_DOC_SYNTAX", 1, 16)]),
        ('{"title": "T", // no\n}', [("E_DOC_SYNTAX", 1, 16)]),
        ('{"a":' * 100_000, [("E_DOC_DEPTH", 1, 201)]),
        ("[" * 100_000, [("E_DOC_DEPTH", 1, 41)]),
        ('{"title": 1e999}', [("E_DOC_NUMBER", 1, 11)]),
        ('{"title": NaN}', [("E_DOC_NUMBER", 1, 11)]),
        (
            '{\n "title": "T",\n "stpes": [],\n "steps": [\n'
            '  {"action": {"type": "run",\n   "comand": "x"}, "id": "a"}\n ]}',
            [("E_PLAN_UNKNOWN_FIELD", 3, 2), ("E_PLAN_UNKNOWN_FIELD", 6, 4), ("E_PLAN_TYPE", 5, 4)],
        ),
        (
            "title: T\ntier: high\nsteps:\n"
            "  - id: a\n    action: {type: run, command: x}\n    needs: [9]\n    timeout: 1s\n",
            [("E_PLAN_TYPE", 2, 1), ("E_STEP_UNKNOWN_NEED", 6, 13), ("E_PLAN_UNKNOWN_FIELD", 7, 5)],
        ),
        ("title: T\nsteps: []\n", [("E_PLAN_NO_STEPS", 2, 1)]),
        ("title: T\nsteps:\n  - id: no\n", [("E_YAML_AMBIGUOUS", 3, 9)]),
        ("title: 1.10\nsteps: []\n", [("E_YAML_AMBIGUOUS", 1, 8)]),
        ("title: &a T\nsteps: *a\n", [("E_YAML_ALIAS", 1, 8), ("E_YAML_ALIAS", 2, 8)]),
        ("title: !!python/object:x T\nsteps: []\n", [("E_YAML_TAG", 1, 8)]),
        ("title: T\ntitle: T\nsteps: []\n", [("E_DOC_DUPLICATE", 2, 1)]),
        ("title: T\nsteps:\n - a: b: c\n", [("E_DOC_SYNTAX", 3, 8)]),
        ("title: T\nstep:\n  - a\n", [("E_PLAN_NO_STEPS", 1, 1), ("E_PLAN_UNKNOWN_FIELD", 2, 1)]),
        ("# A comment\n\ntitle: T\nsteps:\n- {}\n", [("E_STEP_ACTION", 5, 3)]),
    ],
)
def test_places(text: str, expected: list[tuple[str, int, int]]) -> None:
    found = [(p.code, p.where.line, p.where.column) for p in read(text.encode()).problems if p.where]
    assert sorted(found) == sorted(expected)


def test_a_problem_knows_its_step_file_and_remedy() -> None:
    document = read(json.dumps(many({"id": "a"}, {"id": "b", "timout_ms": 3})).encode(), "plan.json")
    (problem,) = document.problems
    assert problem.where is not None
    assert (problem.where.step, problem.where.file) == ("b", "plan.json")
    assert problem.hints == ("Did you mean `timeout_ms`?",)


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"depends_on": ["a"]}, "Write `needs`."),
        ({"step_nmber": 1}, "Did you mean `step_number`?"),
        ({"approved": True}, "A person approves a plan after it was prepared; a document can not."),
        ({"action": {"type": "runn"}}, "Did you mean `run`?"),
        ({"on_failure": {"strategy": "aboard"}}, "Did you mean `abort`?"),
        ({"proof": "red-then-gren"}, "Did you mean `red-then-green`?"),
    ],
)
def test_hints(fields: dict[str, Any], hint: str) -> None:
    (problem,) = read_tree(one(**fields)).problems
    assert hint in problem.hints


# --- What may be left out --------------------------------------------------------------------------------------------


def test_ids_descriptions_and_needs_are_filled_in() -> None:
    plan = made(
        {
            "title": "T",
            "steps": [
                {"action": {"type": "run", "command": "\n make  all \nmore"}},
                {"description": "Say: Hello!", "action": RUN},
                {"id": "x", "action": {"type": "ask", "question": "?"}, "needs": [2, "make-all", 1]},
                {"action": {"type": "ask", "question": "?"}, "needs": None, "description": None},
                {"id": "end", "action": RUN, "needs": []},
            ],
            "fallbacks": [{"id": "f", "action": RUN}],
        }
    )
    assert plan.plan_version == 1
    assert [(step.id, step.description, step.needs) for step in plan.steps] == [
        ("make-all", "make  all", ()),
        ("say-hello", "Say: Hello!", ("make-all",)),
        ("x", "x", ("make-all", "say-hello")),
        ("step-4", "step-4", ("x",)),
        ("end", "make", ()),
    ]
    assert plan.fallbacks[0].needs == ()


def test_null_and_empty_are_absent_where_a_field_may_be_absent() -> None:
    bare = made(whole())
    assert plan_id(bare) == plan_id(made(whole(context=None, fallbacks=None, params=None, protect=None, tools=None)))
    assert plan_id(bare) == plan_id(made(whole(fallbacks=[], params={}, protect=[], budget={}, metadata=None)))
    assert plan_id(bare) == plan_id(made(whole(budget={"tokens": None}, preconditions=[])))
    assert plan_id(bare) == plan_id(made(one(action=RUN | {"env": None}, writes=[], verification=None, needs=None)))
    assert plan_id(bare) != plan_id(made(whole(tools=[])))


def test_free_values_keep_null_and_empty() -> None:
    assert plan_id(made(call({"a": None}))) != plan_id(made(call({})))
    assert plan_id(made(call({"a": []}))) != plan_id(made(call({})))
    assert plan_id(made(one(action={"type": "store_data", "key": "k", "value": None}))) != plan_id(
        made(one(action={"type": "store_data", "key": "k", "value": []}))
    )


@pytest.mark.parametrize(("one_way", "other"), [(1, 1.0), (100, 1e2), (0, -0.0)])
def test_the_spelling_of_a_number_does_not_matter(one_way: float, other: float) -> None:
    assert plan_id(made(call({"a": one_way}))) == plan_id(made(call({"a": other})))
    assert made(one(timeout_ms=60000.0)).steps[0].timeout_ms == 60000


def test_a_free_value_may_be_as_deep_as_in_markdown() -> None:
    assert made(call({"a": deep(15)})).steps
    assert made(nested(3)).steps
    again = read(write_yaml(made(nested(3))).encode())
    assert again.problems == ()


# --- Fallback steps written where they are used ----------------------------------------------------------------------


def test_inline_fallback_steps_are_moved_and_named() -> None:
    inline = {"strategy": "fallback", "steps": [{"step_number": 5, "description": "Undo", "action": RUN}]}
    retry = {"strategy": "retry", "max_attempts": 2, "then": inline}
    deeper = {"strategy": "fallback", "steps": [{"description": "Undo", "action": RUN, "on_failure": inline}, "kept"]}
    plan = made(
        {
            "title": "T",
            "on_failure": json.loads(json.dumps(inline)),
            "steps": [
                {"id": "a", "action": RUN, "on_failure": retry},
                {"id": "b", "action": RUN, "on_failure": deeper},
            ],
            "fallbacks": [{"id": "kept", "action": RUN}],
        }
    )
    assert [step.id for step in plan.fallbacks] == ["kept", "undo", "b-undo", "plan-undo", "b-undo-undo"]
    assert isinstance(plan.steps[0].on_failure, Retry)
    assert plan.steps[0].on_failure.then == Fallback(steps=("undo",))
    assert plan.steps[1].on_failure == Fallback(steps=("b-undo", "kept"))
    assert plan.fallbacks[2].on_failure == Fallback(steps=("b-undo-undo",))
    assert plan_id(made(json.loads(write_json(plan)))) == plan_id(plan)


def test_a_problem_in_an_inline_step_has_its_own_line() -> None:
    text = (
        "title: T\nsteps:\n- action: {type: run, command: x}\n"
        "  on_failure:\n    strategy: fallback\n    steps:\n    - id: f\n      acton: {}\n"
    )
    found = {(p.code, p.where.line, p.where.step) for p in read(text.encode()).problems if p.where}
    assert found == {("E_PLAN_UNKNOWN_FIELD", 8, "f"), ("E_STEP_ACTION", 7, "f")}


@pytest.mark.slow
def test_many_inline_steps_of_one_name_end() -> None:
    step = {"description": "U", "action": RUN}
    policy = {"strategy": "fallback", "steps": [step] * 5000}
    assert len(made(one(on_failure=policy)).fallbacks) == 5000
    assert codes(read_tree(one(on_failure={"strategy": "fallback", "steps": [step] * 20_001}))) == [
        "E_PLAN_TOO_MANY_STEPS"
    ]


# --- Beside the plan -------------------------------------------------------------------------------------------------


def test_the_first_seed_reads_as_itself() -> None:
    """The JSON example of the first seed, whole: its ids are foreign, its step ids resolve."""
    tree = {
        "plan_version": 1,
        "plan_id": "plan:a1b2c3d4e5f67890a1b2c3d4e5f67890",
        "title": "Recover rate-limited agent",
        "workspace_id": "/project",
        "created_at": 1706385600000,
        "steps": [
            {
                "step_number": 1,
                "step_id": "step:deadbeef12345678",
                "action": {"type": "send_text", "pane_id": 0, "text": "/compact"},
                "description": "Send /compact command",
                "preconditions": [],
                "verification": {
                    "strategy": {"type": "pattern_match", "rule_id": "core.claude:compaction_complete"},
                    "timeout_ms": 60000,
                },
                "on_failure": None,
                "timeout_ms": 120000,
                "idempotent": True,
            },
            {
                "step_number": 2,
                "step_id": "step:deadbeef87654321",
                "action": {"type": "send_text", "pane_id": 0, "text": "/continue"},
                "description": "Go on",
                "preconditions": [{"type": "step_completed", "step_id": "step:deadbeef12345678"}],
                "idempotent": False,
            },
        ],
        "preconditions": [{"type": "pane_exists", "pane_id": 0}],
        "on_failure": {"strategy": "abort"},
        "metadata": {"by": "wa"},
    }
    document = read_tree(tree)
    assert codes(document) == ["W_FOREIGN_ID", "W_FOREIGN_ID"]
    assert document.plan is not None
    (condition,) = document.plan.steps[1].preconditions
    assert condition.step_id == "send-compact-command"  # type: ignore[union-attr]
    assert document.record[""]["metadata"] == {"by": "wa"}
    assert document.record["go-on"] == {"step_id": "step:deadbeef87654321"}
    again = read(write_json(document).encode())
    assert again.plan is not None
    assert plan_id(again.plan) == plan_id(document.plan)
    assert again.record == document.record


def test_our_own_ids_are_not_foreign() -> None:
    bare = made(whole())
    assert read_tree(whole(plan_id=plan_id(bare))).problems == ()
    assert read_tree(one(step_id="a")).problems == ()
    assert codes(read_tree(whole(plan_id="plan:0"))) == ["W_FOREIGN_ID"]
    inner = whole(plan_id=plan_id(bare))
    assert read_tree(one(action={"type": "nested_plan", "plan": inner})).problems == ()


def test_what_stands_beside_the_plan_never_changes_it() -> None:
    beside = {
        "owner": "me",
        "status": "done",
        "priority": "high",
        "tags": ["a"],
        "created_at": 1,
        "metadata": {"a": []},
    }
    document = read_tree(whole(**beside, risks=["One", "Two"], notes={"Why": "Because\nof it"}))
    assert document.problems == ()
    assert document.plan is not None
    assert plan_id(document.plan) == plan_id(made(whole()))
    assert document.record == {"": beside}
    assert document.notes == (("Why", "Because\nof it"), ("Risks", "- One\n- Two"))
    for write in (write_json, write_yaml):
        again = read(write(document).encode())
        assert (again.record, again.notes) == (document.record, document.notes)


def test_the_record_of_nested_plans_is_kept() -> None:
    inner = {"title": "I", "plan_id": "x", "notes": ["n"], "steps": [{"id": "b", "action": RUN, "status": "done"}]}
    document = read_tree(one(action={"type": "nested_plan", "plan": inner}))
    assert document.record == {"a/": {"plan_id": "x", "notes": ["n"]}, "a/b": {"status": "done"}}
    assert read(write_yaml(document).encode()).record == document.record


def test_an_approval_code_is_a_leak() -> None:
    action = {"type": "validate_approval", "scope": {"action_kind": "send_text"}}
    document = read_tree(one(action=action | {"approval_code": "SECRET12"}))
    assert codes(document) == ["W_APPROVAL_CODE"]
    assert document.plan is not None
    assert plan_id(document.plan) == plan_id(made(one(action=action)))
    assert "SECRET12" not in repr(document)


# --- Places and notations --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [write_json, write_yaml])
def test_places_of_steps(write: Any) -> None:
    tree = many({"id": "a"}, {"id": "b", "needs": [1], "budget": {"tokens": 1}}) | {
        "fallbacks": [{"id": "f", "action": {"type": "nested_plan", "plan": whole()}}]
    }
    text = write(made(tree))
    document = read(text.encode(), "x")
    assert set(document.places) == {"", "a", "b", "f"}
    lines = text.split("\n")
    for step in ("a", "b", "f"):
        place = document.places[step]
        assert (place.file, place.step) == ("x", step)
        assert place.line is not None
        assert any(step in line for line in lines[place.line - 1 : place.line + 2])
    assert "title" in lines[(document.places[""].line or 0) - 1]
    assert document.places.get("nobody") is None
    assert len(document.places) == 4


@each(
    "text, notation",
    [
        ('{"title": "T"}', "json"),
        ("\n  {", "json"),
        ("[]", "json"),
        ('[ {"a": 1}]', "json"),
        ("[![badge](x)](y)\n# T\n", "markdown"),
        ("title: T\nsteps:\n- a\n", "yaml"),
        ("steps: [a]\n", "yaml"),
        ("title: T\n", "yaml"),
        ("'title': T\n", "yaml"),
        ("plan_version: 1\n", "yaml"),
        ("---\ntitle: T\nsteps:\n  - a\n", "yaml"),
        ("# a comment\ntitle: T\nsteps: # here\n", "yaml"),
        ("unknown: x\nsteps:\n", "yaml"),
        ("unknown: x\n", "markdown"),
        ("---\ntype: plan\n---\n# T\n", "markdown"),
        ("---\ntype: plan\nsteps:\n---\n# T\n", "markdown"),
        ("# T\n\n1. `a`\n", "markdown"),
        ("# T\n\ncontext: words\n", "markdown"),
        ("# T\n\nsteps: words of prose\n", "markdown"),
        ("prose\nsteps:\n", "markdown"),
        ("", "markdown"),
    ],
)
def test_notation(text: str, notation: str) -> None:
    assert notation_of(text) == notation
    if text:
        assert read(text.encode()).notation == notation


def test_a_markdown_plan_and_its_trees_are_one_plan() -> None:
    document = read(b"# Tidy up\n\n1. `ruff check --fix .`\n2. `pytest -q`\n")
    assert document.plan is not None
    bare = {
        "title": "Tidy up",
        "steps": [{"action": RUN | {"command": c}} for c in ("ruff check --fix .", "pytest -q")],
    }
    assert plan_id(made(bare)) == plan_id(document.plan)
    for write in (write_json, write_yaml):
        again = read(write(document).encode())
        assert again.plan == document.plan


def test_nested_plans_have_their_own_ids() -> None:
    plan = made(one(action={"type": "nested_plan", "plan": many({"id": "a"}, {"id": "b"})}))
    assert isinstance(plan.steps[0].action, NestedPlan)
    assert [step.needs for step in plan.steps[0].action.plan.steps] == [(), ("a",)]


@pytest.mark.slow
def test_many_problems_end() -> None:
    for tree in (
        {"title": "T", "steps": [{f"k{n}": 1 for n in range(1000)}] * 100},
        {"title": "T", "steps": [{"id": "a", "action": RUN}] * 20_000},
        {"title": "T", "steps": [{"id": "a", "action": RUN, "needs": [f"x y{n}" for n in range(50_000)]}]},
        {"title": "T", "steps": [{"id": "a", "x" * 500_000: 1, "y" * 500_000: 1}]},
        {"title": "T", "steps": [1] * 20_000},
    ):
        document = read_tree(tree)
        assert document.plan is None
        assert 0 < len(document.problems) <= 200
        assert all(problem.severity is Severity.ERROR for problem in document.problems)
        assert all(len(problem.detail) < 500 for problem in document.problems)


def test_comments_of_yaml_are_kept_as_a_note() -> None:
    text = (
        "# Why we do it\n\ntitle: T # the title\nsteps:\n  #Only one\n  - action:\n      type: run\n"
        "      command: | # really\n        # not a comment\n        echo 'a # b' # nor this\n"
        "    id: 'x'   # an id\n# end"
    )
    document = read(text.encode())
    assert document.problems == ()
    assert document.notes == (("", "Why we do it\nthe title\nOnly one\nreally\nan id\nend"),)
    again = read(write_yaml(document).encode())
    assert (again.plan, again.notes) == (document.plan, document.notes)


@pytest.mark.slow
@hang_guard
def test_a_long_document_that_is_wrong_everywhere_is_read_in_bounded_time() -> None:
    wrong = {"action": RUN, **{f"unknwon_{number}": 1 for number in range(20)}}
    text = json.dumps({"title": "T", "steps": [{"id": f"s{number}", **wrong} for number in range(4000)]}).encode()
    document = read(text, "plan.json")
    assert document.partial is not None
    assert len(document.partial.steps) == 4000
