"""Trees to typed values: every problem at once, each with its code, its path and its remedy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given

from ordain.core.plan.action import CallTool, Custom, RunCommand, StoreData, Task
from ordain.core.plan.canonical import canonical_bytes
from ordain.core.plan.condition import Precondition, Verification
from ordain.core.plan.failure import FailurePolicy, Retry
from ordain.core.plan.model import Action, Budget, ForEach, Parameter, Plan, Step
from ordain.documents.document import Path, ProblemList, nowhere
from ordain.documents.shape import _TreeWalk, path_text, shape, shown
from tests.plans import plans
from tests.rows import each


def shaped(value: Any, into: Any) -> tuple[Any, list[tuple[str, Path]]]:
    """What `shape` makes of it, and the code and path of every problem."""
    problems, paths = ProblemList(), []

    def locate(path: Path) -> tuple[int, int]:
        paths.append(path)
        return len(paths), 1

    made = shape(value, into, locate=locate, problems=problems)
    return made, [(problem.code, paths[problem.where.line - 1]) for problem in problems.in_order() if problem.where]


STEP = {"id": "a", "description": "A", "action": {"type": "run", "command": "x"}, "needs": []}


@each(
    "value, into, expected",
    [
        ({"type": "run", "command": "x"}, Action, RunCommand(command="x")),
        ({"type": "run", "command": "x", "env": None}, Action, RunCommand(command="x")),
        ({"type": "task", "task": "x", "tools": [], "reads": None}, Action, Task(task="x", tools=())),
        ({"type": "tool", "tool": "t", "args": {"a": None}}, Action, CallTool(tool="t", args={"a": None})),
        ({"type": "tool", "tool": "t", "args": None}, Action, CallTool(tool="t")),
        ({"type": "store_data", "key": "k", "value": None}, Action, StoreData(key="k", value=None)),
        ({"type": "custom", "action_type": "k", "payload": []}, Action, Custom(action_type="k", payload=[])),
        ({"in": "x", "max": 2, "as": "item"}, ForEach, ForEach(source="x", max=2)),
        ({"type": "string", "default": [], "required": None}, Parameter, Parameter(type="string", default=[])),
        ({"cost_usd": 2}, Budget, Budget(cost_usd=2.0)),
        ({"strategy": "retry", "max_attempts": 2, "then": None}, FailurePolicy, Retry(max_attempts=2)),
        ({"strategy": "retry", "max_attempts": 2, "increment_ms": None}, FailurePolicy, Retry(max_attempts=2)),
        (["a", "b"], tuple[str, ...], ("a", "b")),
        ({"a": 1}, Mapping[str, Any], {"a": 1}),
        ("ask", Literal["ask"], "ask"),
        (None, str | None, None),
        ([1, {"a": None}], Any, [1, {"a": None}]),
    ],
)
def test_read(value: Any, into: Any, expected: Any) -> None:
    made, problems = shaped(value, into)
    assert problems == []
    assert made == expected


DEEP: Any = 1
for _ in range(17):
    DEEP = [DEEP]


@each(
    "value, into, expected",
    [
        ({"type": "run"}, Action, [("E_PLAN_TYPE", ("command",))]),
        ({"type": "rum", "command": 1}, Action, [("E_STEP_ACTION", ("type",))]),
        ({"command": "x"}, Action, [("E_STEP_ACTION", ())]),
        ({"type": 3}, Action, [("E_PLAN_TYPE", ("type",))]),
        ([], Action, [("E_PLAN_TYPE", ())]),
        (None, Action, [("E_PLAN_TYPE", ())]),
        ({"type": "pane"}, Precondition, [("E_PLAN_TYPE", ("type",))]),
        ({"strategy": "abort", "x": 1, "y": 2}, FailurePolicy, [("E_PLAN_UNKNOWN_FIELD", (k,)) for k in "xy"]),
        ({"strategy": {"type": "contract"}}, Verification, [("E_PLAN_TYPE", ("strategy", "command"))]),
        ({"type": "x"}, Parameter, [("E_PLAN_TYPE", ("type",))]),
        ({"type": 1}, Parameter, [("E_PLAN_TYPE", ("type",))]),
        ({"tokens": True, "cost_usd": "1"}, Budget, [("E_PLAN_TYPE", ("tokens",)), ("E_PLAN_TYPE", ("cost_usd",))]),
        ({"tokens": 1.5, "cost_usd": True}, Budget, [("E_PLAN_TYPE", ("tokens",)), ("E_PLAN_TYPE", ("cost_usd",))]),
        ({"tokens": 2**53}, Budget, [("E_DOC_NUMBER", ("tokens",))]),
        ({"cost_usd": 2**53}, Budget, [("E_DOC_NUMBER", ("cost_usd",))]),
        ({"cost_usd": float("inf")}, Budget, [("E_DOC_NUMBER", ("cost_usd",))]),
        ({"a": [1, -(2**53)]}, Any, [("E_DOC_NUMBER", ("a", 1))]),
        ({"type": "tool", "tool": "t", "args": {"a": 2**60}}, Action, [("E_DOC_NUMBER", ("args", "a"))]),
        (DEEP, Any, [("E_DOC_DEPTH", (0,) * 16)]),
        (["a", 1, None], tuple[str, ...], [("E_PLAN_TYPE", (1,)), ("E_PLAN_TYPE", (2,))]),
        ("a", tuple[str, ...], [("E_PLAN_TYPE", ())]),
        ({"a": 1, "b": "x"}, Mapping[str, str], [("E_PLAN_TYPE", ("a",))]),
        ([], Mapping[str, str], [("E_PLAN_TYPE", ())]),
        (
            STEP | {"needs": [1], "approval": "yes"},
            Step,
            [("E_PLAN_TYPE", ("needs", 0)), ("E_PLAN_TYPE", ("approval",))],
        ),
        (
            {},
            Step,
            [("E_PLAN_TYPE", (k,)) for k in ("id", "description")]
            + [("E_STEP_ACTION", ("action",)), ("E_PLAN_TYPE", ("needs",))],
        ),
    ],
)
def test_refused(value: Any, into: Any, expected: list[tuple[str, Path]]) -> None:
    made, problems = shaped(value, into)
    assert problems == expected
    assert made is None


def test_a_problem_carries_the_step_and_the_base_path() -> None:
    problems = ProblemList()
    tree = {"plan_version": 1, "title": "T", "steps": [STEP, STEP | {"id": "b", "timeout_ms": "x"}]}
    assert shape(tree, Plan, locate=lambda path: (len(path), 7), problems=problems, path=("x",)) is None
    (problem,) = problems.in_order()
    assert problem.where is not None
    assert (problem.where.line, problem.where.column, problem.where.step) == (4, 7, "b")


@pytest.mark.parametrize(
    ("value", "into", "detail", "hints"),
    [
        ({"type": "rum"}, Action, "`rum` is no type that the action can have.", ("Did you mean `run`?",)),
        ({"type": "run", "command": 1}, Action, "`command` is a number; text is wanted.", ()),
        (
            {"type": "run", "comand": "x", "command": "x"},
            Action,
            "`run` has no field `comand`.",
            ("Did you mean `command`?",),
        ),
        ({"tokens": 1.5}, Budget, "`tokens` is a fraction; a whole number is wanted.", ()),
        (
            {"type": "x"},
            Parameter,
            "`type` is `x`; `string` or `integer` or `number` or `boolean` or `list` is wanted.",
            (),
        ),
        (STEP | {"depends_on": []}, Step, "A step has no field `depends_on`.", ("Write `needs`.",)),
        ([], Plan, "The plan is a list; a mapping is wanted.", ()),
    ],
)
def test_words(value: Any, into: Any, detail: str, hints: tuple[str, ...]) -> None:
    problems = ProblemList()
    shape(value, into, locate=nowhere, problems=problems)
    (problem,) = problems.in_order()
    assert problem.detail == detail
    assert problem.hints == hints


def test_paths_in_words() -> None:
    assert path_text(("steps", 2)) == "steps[2]"
    assert path_text(("steps", 2, "action", "args", "a", 0)) == "action.args.a[0]"
    assert path_text(("steps", 2, "action", "plan", "title")) == "title"
    assert path_text(("steps", 2, "action", "plan", "steps", 1, "needs", 0)) == "needs[0]"
    assert path_text(("steps", 2, "action", "args", "steps", 1, "x")) == "action.args.steps[1].x"
    assert path_text(("params", "a", "type")) == "params.a.type"
    assert shown("x" * 100) == "x" * 63 + "…"
    assert shown("a`b\n") == "a'b\\n"


@given(plans())
def test_the_walk_agrees_with_msgspec(plan: Plan) -> None:
    tree = msgspec.to_builtins(plan)
    problems = ProblemList()
    walked = _TreeWalk(nowhere).read(tree, Plan, (), problems)
    assert len(problems) == 0
    assert canonical_bytes(walked) == canonical_bytes(msgspec.convert(tree, Plan)) == canonical_bytes(plan)
