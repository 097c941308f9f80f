"""A template filled in: values where they are referred to, steps where a list is known, nothing else changed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ordain.core.action import CallTool, Custom, RunCommand, StoreData, Task
from ordain.core.canonical import plan_id
from ordain.core.condition import CustomCondition, StepCompleted
from ordain.core.failure import Fallback, Retry
from ordain.core.model import ForEach, NestedPlan, Parameter, Plan, Step
from ordain.core.params import file_patterns, read_values
from ordain.core.refs import literal, references
from ordain.core.template import Filled, fill
from tests.build import plan, step
from tests.plans import TEXTS, VALUES

STRING = Parameter(type="string")
FILES = Parameter(type="list", files="src/*.py")


def act(name: str, action: Any, **fields: Any) -> Step:
    return replace(step(name, needs=fields.pop("needs", ())), action=action, **fields)


def filled(made: Plan, /, files: Any = None, **values: Any) -> Plan:
    done = fill(made, values, files)
    assert isinstance(done, Filled), done
    return done.plan


def refused(made: Plan, /, files: Any = None, **values: Any) -> list[str]:
    done = fill(made, values, files)
    assert not isinstance(done, Filled)
    return [problem.code for problem in done]


def args(made: Plan, index: int = 0) -> Any:
    action = made.steps[index].action
    assert isinstance(action, CallTool)
    return action.args


def calling(params: dict[str, Parameter], **given: Any) -> Plan:
    return plan(step("a", tool="t", args=given), params=params)


def test_a_plan_without_parameters_is_itself() -> None:
    made = plan(step("a", tool="t", args={"x": "$${literal}", "y": "${b.output}"}))
    assert filled(made) is made


def test_the_filled_in_plan_is_the_one_written_by_hand() -> None:
    template = calling({"n": Parameter(type="integer", default=3), "s": STRING}, x="${params.n}", y="v${params.s}")
    assert plan_id(filled(template, s="1")) == plan_id(plan(step("a", tool="t", args={"x": 3, "y": "v1"})))


@given(VALUES | st.just("${item}") | st.just("a$"), TEXTS, TEXTS)
def test_any_value_arrives_as_it_is(value: Any, before: str, after: str) -> None:
    """Whatever a value holds, it becomes no reference and no escape."""
    template = calling({"p": Parameter(type="list")}, x="${params.p}")
    assert literal(args(filled(template, p=[value]))["x"]) == [value]
    if isinstance(value, str):
        before, after = before.replace("$", ""), after.replace("$", "")
        text = calling({"p": STRING}, x=f"{before}|${{params.p}}{after}")
        assert literal(args(filled(text, p=value))["x"]) == f"{before}|{value}{after}"
        assert list(references(args(filled(text, p=value)))) == []


def test_every_place_for_references_is_filled() -> None:
    made = plan(
        act("a", RunCommand(command="make", env={"T": "${params.p}"})),
        act("b", StoreData(key="k", value={"deep": ["${params.p}"]})),
        act("c", Custom(action_type="x", payload="${params.p}")),
        act("d", NestedPlan(plan=calling({"p": Parameter(type="string", default="inner")}, x="${params.p}"))),
        fallbacks=(act("f", CallTool(tool="t", args={"x": "${params.p}"})),),
        params={"p": STRING},
    )
    done = filled(made, p="v")
    assert done.params == {}
    assert [one.action for one in done.steps[:3]] == [
        RunCommand(command="make", env={"T": "v"}),
        StoreData(key="k", value={"deep": ["v"]}),
        Custom(action_type="x", payload="v"),
    ]
    inner = done.steps[3].action
    assert isinstance(inner, NestedPlan)
    assert args(inner.plan) == {"x": "inner"}
    assert done.fallbacks[0].action == CallTool(tool="t", args={"x": "v"})


def test_parameters_stay_where_an_expression_asks_for_them() -> None:
    made = plan(replace(step("a"), when='params.p != ""'), params={"p": STRING, "q": STRING})
    assert filled(made, p="v").params == {"p": Parameter(type="string", default="v")}


@pytest.mark.parametrize(
    ("params", "given", "codes"),
    [
        ({"p": Parameter(type="string", required=True)}, {}, ["E_PARAM"]),
        ({"p": Parameter(type="integer")}, {"p": "x"}, ["E_PARAM"]),
        ({"p": Parameter(type="integer")}, {"p": True}, ["E_PARAM"]),
        ({"p": Parameter(type="boolean")}, {"p": "yes"}, ["E_PARAM"]),
        ({"p": Parameter(type="list")}, {"p": "x"}, ["E_PARAM"]),
        ({"p": STRING}, {}, ["E_PARAM"]),
        ({"p": STRING}, {"q": "x", "p": "y"}, ["E_PARAM"]),
        ({"p": Parameter(type="string", required=True)}, {"q": "x"}, ["E_PARAM", "E_PARAM"]),
    ],
)
def test_refused(params: dict[str, Parameter], given: dict[str, Any], codes: list[str]) -> None:
    assert refused(calling(params, x="${params.p}"), **given) == codes


def test_an_absent_parameter_takes_the_default_of_the_reference() -> None:
    assert args(filled(calling({"p": STRING}, x='${params.p ?? "none"}'))) == {"x": "none"}


def test_a_misspelt_name_gets_a_hint() -> None:
    done = fill(calling({"target": STRING}, x="y"), {"tarjet": "v"})
    assert isinstance(done, tuple)
    assert done[0].hints == ("Did you mean `target`?",)


TYPED = {
    "s": STRING,
    "i": Parameter(type="integer"),
    "n": Parameter(type="number"),
    "b": Parameter(type="boolean"),
    "l": Parameter(type="list"),
}


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ([("s", "3")], {"s": "3"}),
        ([("i", "-3")], {"i": -3}),
        ([("i", "007")], {"i": "007"}),
        ([("n", "1.5e3")], {"n": 1500.0}),
        ([("n", "2")], {"n": 2}),
        ([("b", "true")], {"b": True}),
        ([("b", "yes")], {"b": "yes"}),
        ([("l", "a")], {"l": ["a"]}),
        ([("l", "a"), ("l", "b c")], {"l": ["a", "b c"]}),
        ([("l", '["a", {"k": 1}]')], {"l": ["a", {"k": 1}]}),
        ([("l", "[not json")], {"l": ["[not json"]}),
        ([("other", "x")], {"other": "x"}),
    ],
)
def test_typed_values(given: list[tuple[str, str]], values: dict[str, Any]) -> None:
    assert read_values(TYPED, given) == (values, ())


def test_one_value_given_twice_is_a_problem() -> None:
    assert [problem.code for problem in read_values(TYPED, [("s", "a"), ("s", "b")])[1]] == ["E_PARAM"]


# --- Steps over a list that is known now -----------------------------------------------------------------------------


def each(**fields: Any) -> ForEach:
    return ForEach(source="${params.files}", max=10, **fields)


def fan(**fields: Any) -> Plan:
    return plan(
        step("before", needs=()),
        act("lint", CallTool(tool="t", args={"path": "${item}", "n": "${index}"}), needs=("before",), for_each=each()),
        step("after", needs=("lint",)),
        params={"files": FILES},
        **fields,
    )


THREE = {"src/*.py": ["a.py", "b ${item}.py", "c.py"]}


def test_one_step_for_each_item() -> None:
    done = fill(fan(), files=THREE)
    assert isinstance(done, Filled)
    made = done.plan
    assert [one.id for one in made.steps] == ["before", "lint-1", "lint-2", "lint-3", "after"]
    assert [literal(args(made, index)) for index in (1, 2)] == [
        {"path": "a.py", "n": 0},
        {"path": "b ${item}.py", "n": 1},
    ]
    assert made.steps[1].description == "lint (1 of 3)"
    assert made.steps[1].for_each is None
    assert made.steps[1].needs == ("before",)
    assert made.steps[-1].needs == ("lint-1", "lint-2", "lint-3")
    assert done.origin == {"lint-1": "lint", "lint-2": "lint", "lint-3": "lint"}
    assert file_patterns(fan()) == {"src/*.py"}


def test_batches_and_a_bound_of_their_own() -> None:
    batched = replace(
        fan().steps[1],
        action=RunCommand(command="ruff", env={"FILES": "${item}"}),
        for_each=each(batch=2, concurrency=1),
    )
    made = filled(replace(fan(), steps=(fan().steps[0], batched)), files=THREE)
    assert [one.needs for one in made.steps[1:]] == [("before",), ("before", "lint-1")]
    action = made.steps[1].action
    assert isinstance(action, RunCommand)
    assert literal(dict(action.env)) == {"FILES": "a.py\nb ${item}.py"}


def test_of_an_empty_list_only_the_order_is_left() -> None:
    made = filled(fan(), files={})
    assert [one.id for one in made.steps] == ["before", "after"]
    assert made.steps[1].needs == ("before",)


def test_who_speaks_of_the_step_speaks_of_all() -> None:
    made = plan(
        *fan().steps[:2],
        act("use", CallTool(tool="t", args={"all": "${lint.output}", "one": "${lint.output[1].x}"}), needs=("lint",)),
        act("read", Task(task="t", reads=("step:lint", "file:a")), preconditions=(StepCompleted(step_id="lint"),)),
        step("undo-it", needs=(), on_failure=Retry(max_attempts=2, then=Fallback(steps=("undo",)))),
        fallbacks=(replace(fan().steps[1], id="undo", needs=()),),
        params={"files": FILES},
    )
    done = filled(made, files={"src/*.py": ["a", "b"]})
    by_id = {one.id: one for one in done.steps}
    assert by_id["use"].action == CallTool(
        tool="t", args={"all": ["${lint-1.output}", "${lint-2.output}"], "one": "${lint-2.output.x}"}
    )
    assert by_id["read"].action == Task(task="t", reads=("step:lint-1", "step:lint-2", "file:a"))
    assert by_id["read"].preconditions == (StepCompleted(step_id="lint-1"), StepCompleted(step_id="lint-2"))
    assert by_id["undo-it"].on_failure == Retry(max_attempts=2, then=Fallback(steps=("undo-1", "undo-2")))
    assert [one.id for one in done.fallbacks] == ["undo-1", "undo-2"]


def using(value: str) -> Plan:
    return plan(*fan().steps, act("use", CallTool(tool="t", args={"x": value}), needs=()), params={"files": FILES})


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (using("of ${lint.output}"), "E_REF"),
        (using("${lint.output[3]}"), "E_REF"),
        (using("${lint.exit_code}"), "E_REF"),
        (
            plan(*fan().steps, replace(step("x"), when='steps["lint"].status == "passed"'), params={"files": FILES}),
            "E_EXPR",
        ),
        (plan(replace(fan().steps[1], when='item != ""', needs=()), params={"files": FILES}), "E_EXPR"),
        (
            plan(
                *fan().steps,
                preconditions=(CustomCondition(name="n", expression='steps["lint"].exit_code == 0'),),
                params={"files": FILES},
            ),
            "E_EXPR",
        ),
        (plan(*fan().steps, step("lint-2", needs=()), params={"files": FILES}), "E_STEP_ID"),
        (
            plan(
                replace(fan().steps[1], needs=(), for_each=ForEach(source="${params.files}", max=2)),
                params={"files": FILES},
            ),
            "E_STEP_LIMIT",
        ),
        (plan(replace(fan().steps[1], needs=()), params={"files": Parameter(type="string", default="x")}), "E_PARAM"),
    ],
)
def test_what_cannot_be_generated_is_refused(made: Plan, code: str) -> None:
    assert code in refused(made, files=THREE)


def test_a_list_known_only_at_run_time_stays() -> None:
    made = plan(
        step("list"),
        act(
            "a",
            CallTool(tool="t", args={"x": "${item}", "y": "${params.p}"}),
            needs=("list",),
            for_each=ForEach(source="${list.output}", max=3),
        ),
        params={"p": STRING},
    )
    done = filled(made, p="v")
    assert done.steps[1].for_each == ForEach(source="${list.output}", max=3)
    assert args(done, 1) == {"x": "${item}", "y": "v"}
