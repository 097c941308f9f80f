"""A template filled in: values where they are referred to, steps where a list is known, nothing else changed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ordain.core.plan.action import CallTool, Custom, RunCommand, StoreData, Task
from ordain.core.plan.canonical import plan_id
from ordain.core.plan.condition import CustomCondition, StepCompleted
from ordain.core.plan.failure import Fallback, Retry
from ordain.core.plan.model import ForEach, NestedPlan, Parameter, Plan, Step
from ordain.core.plan.refs import literal, references
from ordain.core.plan.template import Filled, file_patterns, fill
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


def test_batches() -> None:
    batched = replace(
        fan().steps[1],
        action=RunCommand(command="ruff", env={"FILES": "${item}"}),
        for_each=each(batch=2),
    )
    made = filled(replace(fan(), steps=(fan().steps[0], batched)), files=THREE)
    assert [one.needs for one in made.steps[1:]] == [("before",), ("before",)]
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


def empty(name: str, *needs: str) -> Step:
    return act(name, CallTool(tool="t", args={"x": "${item}"}), needs=needs, for_each=each())


def test_steps_over_empty_lists_in_a_circle_have_an_end() -> None:
    made = plan(empty("a", "b"), empty("b", "a"), step("c", needs=("a",)), params={"files": FILES})
    assert [(one.id, one.needs) for one in filled(made).steps] == [("c", ())]


@pytest.mark.slow
def test_long_and_bushy_chains_of_empty_steps_take_little_time() -> None:
    chain = [empty(f"s{n}", *([f"s{n - 1}", f"s{n - 2}"] if n > 1 else ["first"])) for n in range(3000)]
    made = plan(step("first", needs=()), *chain, step("last", needs=("s2999",)), params={"files": FILES})
    assert filled(made).steps[-1].needs == ("first",)


def test_a_template_does_not_become_more_than_a_plan_may_be() -> None:
    many = {"src/*.py": [f"{n}.py" for n in range(3000)]}
    wide = ForEach(source="${params.files}", max=10_000)

    def repeated(*needs: str) -> Step:
        return act(f"s{len(needs)}", CallTool(tool="t", args={"x": "${item}"}), needs=needs, for_each=wide)

    large = plan(*(replace(repeated(), id=f"s{n}") for n in range(10)), params={"files": FILES})
    assert refused(large, files=many) == ["E_PLAN_TOO_MANY_STEPS"]
    dense = plan(repeated(), repeated("s0"), params={"files": FILES})
    assert refused(dense, files=many) == ["E_STEP_LIMIT"]
    text = calling({"p": STRING}, x="${params.p}" * 300)
    assert refused(text, p="x" * 10_000) == ["E_PARAM"]
    several = calling({"p": STRING}, x=["${params.p}"] * 300)
    assert refused(several, p="x" * 100_000) == ["E_PARAM"]


@pytest.mark.parametrize(
    ("text", "value", "written"),
    [
        ("${params.p}{a}", "x$", "x${a}"),
        ("${params.p}${HOME}", "$", "$${HOME}"),
        ("${params.p}$${HOME}", "$", "$${HOME}"),
        ("a${params.p}", "$", "a$"),
        ("${params.p}${params.p}", "${", "${${"),
        ("${params.p}${params.p}", "$", "$$"),
    ],
)
def test_a_dollar_at_the_border(text: str, value: str, written: str) -> None:
    assert literal(args(filled(calling({"p": STRING}, x=text), p=value))["x"]) == written


def test_a_dollar_right_before_a_reference_can_not_be_written() -> None:
    made = plan(step("a"), step("b", tool="t", args={"x": "${params.p}${a.output}"}), params={"p": STRING})
    assert refused(made, p="US$") == ["E_PARAM"]
    assert args(filled(made, p="US"), 1) == {"x": "US${a.output}"}


def test_a_part_that_an_item_does_not_have_is_refused() -> None:
    made = plan(
        act(
            "a",
            CallTool(tool="t", args={"x": "${f.nme}"}),
            for_each=ForEach(source="${params.l}", max=3, name="f"),
        ),
        params={"l": Parameter(type="list")},
    )
    assert refused(made, l=[{"name": "x"}]) == ["E_REF"]


def test_a_list_stays_where_only_so_many_items_may_be_at_work_at_once() -> None:
    bounded = plan(replace(fan().steps[1], needs=(), for_each=each(concurrency=1)), params={"files": FILES})
    made = filled(bounded, files=THREE)
    assert [(step.id, step.for_each) for step in made.steps] == [(bounded.steps[0].id, bounded.steps[0].for_each)]
    assert made.params["files"].default == THREE["src/*.py"]
    assert refused(
        plan(
            replace(bounded.steps[0], for_each=ForEach(source="${params.files}", max=2, concurrency=1)),
            params={"files": FILES},
        ),
        files=THREE,
    ) == ["E_STEP_LIMIT"]


def test_nothing_is_left_of_the_item_where_nothing_is_put_in() -> None:
    reading = plan(act("a", Task(task="t", reads=("file:${item}",)), for_each=each()), params={"files": FILES})
    assert refused(reading, files=THREE) == ["E_REF_PLACE"]


def test_a_template_nested_in_a_fallback_step_is_filled_too() -> None:
    inner = calling({"p": Parameter(type="string", default="v")}, x="${params.p}")
    made = plan(step("a"), fallbacks=(act("f", NestedPlan(plan=inner)),))
    action = filled(made).fallbacks[0].action
    assert isinstance(action, NestedPlan)
    assert args(action.plan) == {"x": "v"}
