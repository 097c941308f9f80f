"""Plans put together: every name of a step says the same as before, and what cannot be said together is told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ordain.core.plan.action import CallTool, RunCommand, StoreData, Task
from ordain.core.plan.canonical import plan_id
from ordain.core.plan.command import payload
from ordain.core.plan.compose import compose, namespace_of, with_names
from ordain.core.plan.condition import CustomCondition, StepCompleted, Verification
from ordain.core.plan.expr import named, renamed
from ordain.core.plan.failure import Abort, Escalate, Fallback, Retry, Skip
from ordain.core.plan.model import Budget, ForEach, Parameter, Plan, Step, conditions_of, item_name, nested_plan_of
from ordain.core.plan.refs import StepExitCode, StepOutput, Unreadable, parse, references
from ordain.core.plan.role import Expression, Handed, StepName, parts
from ordain.core.text.limit import ID_LENGTH_MAX
from tests.build import plan, step
from tests.plans import plans


def act(name: str, action: Any, **fields: Any) -> Step:
    return replace(step(name, needs=fields.pop("needs", ())), action=action, **fields)


def composed(*parts: Plan, **how: Any) -> Plan:
    made = compose([(chr(ord("a") + number), one) for number, one in enumerate(parts)], **how)
    assert isinstance(made, Plan), made
    return made


def conflicts(*parts: Plan) -> list[str]:
    made = compose([(chr(ord("a") + number), one) for number, one in enumerate(parts)])
    assert not isinstance(made, Plan)
    assert {one.code for one in made} <= {"E_COMPOSE", "E_PLAN_TOO_MANY_STEPS"}
    return [one.detail for one in made]


ARGS = {"whole": "${list.output[0]}", "in": "x${list.exit_code}y $${list.output} ${nope.output}"}
PASSED = 'steps["list"].status == "passed"'
EVERYTHING = plan(
    act("list", RunCommand(command="ls ${list.output} $HOME")),
    act(
        "use",
        CallTool(tool="t", args=ARGS),
        needs=("list",),
        when='steps["list"].exit_code == 0 && steps.list.output != "steps" // steps["list"]',
        preconditions=(StepCompleted(step_id="list"), CustomCondition(name="c", expression=PASSED)),
        verification=Verification(strategy=CustomCondition(name="v", expression="steps['list'].exit_code == 0")),
        on_failure=Retry(max_attempts=2, then=Fallback(steps=("undo",))),  # type: ignore[arg-type]
    ),
    act(
        "each",
        RunCommand(command='echo "$X"', env={"X": "${item}", "Y": '${list.output ?? "none"}'}),
        for_each=ForEach(source="${use.output}", max=3),
    ),
    act("tell", Task(task="What `list` gave", reads=("step:list", "file:list", "topic:list")), needs=("each", "use")),
    fallbacks=(act("undo", RunCommand(command="undo")),),
    on_failure=Abort(message="list failed"),
)


def test_every_name_of_a_step_is_changed_and_nothing_else() -> None:
    made = with_names(EVERYTHING, lambda name: f"x-{name}")
    first, use, each, tell = made.steps
    assert first.action == RunCommand(command="ls ${list.output} $HOME") and first.id == "x-list"
    assert use.action.args == {  # type: ignore[union-attr]
        "whole": "${x-list.output[0]}",
        "in": "x${x-list.exit_code}y $${list.output} ${nope.output}",
    }
    assert use.when == 'steps["x-list"].exit_code == 0 && steps["x-list"].output != "steps" // steps["list"]'
    assert use.preconditions[0] == StepCompleted(step_id="x-list")
    assert use.preconditions[1] == CustomCondition(name="c", expression='steps["x-list"].status == "passed"')
    assert use.verification is not None
    assert use.verification.strategy.expression == 'steps["x-list"].exit_code == 0'  # type: ignore[union-attr]
    assert use.on_failure == Retry(max_attempts=2, then=Fallback(steps=("x-undo",)))  # type: ignore[arg-type]
    assert each.action.env == {"X": "${item}", "Y": '${x-list.output ?? "none"}'}  # type: ignore[union-attr]
    assert each.for_each == ForEach(source="${x-use.output}", max=3)
    assert tell.needs == ("x-each", "x-use")
    assert tell.action.reads == ("step:x-list", "file:list", "topic:list")  # type: ignore[union-attr]
    assert made.fallbacks[0].id == "x-undo" and made.on_failure == Abort(message="list failed")


@given(plans())
def test_names_there_and_back_are_the_same_plan(made: Plan) -> None:
    there = with_names(made, lambda name: f"zq-{name}")
    back = with_names(there, lambda name: name.removeprefix("zq-"))
    assert plan_id(with_names(made, lambda name: name)) == plan_id(back)


@given(plans())
def test_who_names_whom_stays(made: Plan) -> None:
    there = with_names(made, lambda name: f"zq-{name}")
    known = {step.id for step in steps_of(made)}
    before = [sorted(f"zq-{name}" if name in known else name for name in whom(one)) for one in steps_of(made)]
    assert before == [sorted(whom(one)) for one in steps_of(there)]
    for one, other in zip(steps_of(made), steps_of(there), strict=True):
        assert nested_plan_of(one) == nested_plan_of(other)


@given(plans(), plans())
def test_no_two_steps_of_two_plans_meet(one: Plan, other: Plan) -> None:
    made = compose([("a", one), ("b", other)])
    if isinstance(made, Plan):
        ids = [step.id for step in steps_of(made)]
        assert len(ids) == len(set(ids)) == len(steps_of(one)) + len(steps_of(other))


def steps_of(made: Plan) -> tuple[Step, ...]:
    return (*made.steps, *made.fallbacks)


def whom(one: Step) -> list[str]:
    """Whom a step names: by its id and needs, its references, its expressions, its fallbacks and what it reads."""
    found: list[str] = [one.id, *one.needs]
    source = one.for_each.source if one.for_each is not None else ""
    for text in references([payload(one.action), source], item_name(one)):
        reference = parse(text, item_name(one))
        if not isinstance(reference, Unreadable) and isinstance(reference.source, StepOutput | StepExitCode):
            found.append(reference.source.step)
    for value in (one.action, one.on_failure, *conditions_of(one)):
        for part in parts(value, StepName, Handed, Expression) if value is not None else ():
            match part.role:
                case StepName():
                    found.append(part.value)
                case Handed():
                    found += [part.value.removeprefix("step:")] if part.value.startswith("step:") else []
                case _:
                    found += named(part.value).steps
    return found + ([*named(one.when).steps] if one.when is not None else [])


@given(st.text(max_size=60))
def test_an_expression_that_names_no_such_step_is_not_touched(text: str) -> None:
    assert renamed(text, {"zzz": "y"}) == text or "steps" in text


def test_one_comes_after_the_other_or_beside_it() -> None:
    first = plan(step("s", needs=()), step("t", needs=("s",)), step("u", needs=("s",)), title="One")
    second = plan(step("s", needs=()), step("t", needs=("s",)), step("free", needs=()), title="Two")
    made = composed(first, second)
    assert {one.id: one.needs for one in made.steps} == {
        "a-s": (),
        "a-t": ("a-s",),
        "a-u": ("a-s",),
        "b-s": ("a-t", "a-u"),
        "b-t": ("b-s",),
        "b-free": ("a-t", "a-u"),
    }
    beside = composed(first, second, parallel=True)
    assert beside.steps[3].needs == () and (made.title, beside.title) == ("One, then Two", "One and Two")
    assert composed(first, second, title="Both").title == "Both"


def test_what_all_say_alike_stays_and_what_one_says_is_said_of_its_steps() -> None:
    task = act("t", Task(task="x"))
    one = plan(
        task, act("own", Task(task="x", agent="me"), timeout_ms=5, model="m"), agent="a", model="b", timeout_ms=9
    )
    other = plan(
        task,
        step("r", needs=()),
        preconditions=(StepCompleted(step_id="zzz"),),
        on_failure=Retry(max_attempts=3, then=Skip()),
    )
    other = replace(other, steps=(*other.steps, replace(step("q", needs=("r",)), on_failure=Retry(max_attempts=2))))
    made = composed(one, other)
    assert (made.agent, made.model, made.timeout_ms, made.on_failure, made.preconditions) == (
        None,
        None,
        None,
        None,
        (),
    )
    first, own, theirs, run, last = made.steps
    assert (first.action.agent, first.model, first.timeout_ms) == ("a", "b", 9)  # type: ignore[union-attr]
    assert (own.action.agent, own.model, own.timeout_ms) == ("me", "m", 5)  # type: ignore[union-attr]
    assert theirs.action == Task(task="x") and theirs.on_failure == other.on_failure
    assert last.on_failure == Retry(max_attempts=2, then=Skip())
    assert [bool(one.preconditions) for one in (first, own, theirs, run, last)] == [False, False, True, True, False]
    assert composed(one, one).agent == "a"


WHOLE: tuple[dict[str, Any], ...] = (
    {"tools": ("shell",)},
    {"protect": ("x",)},
    {"budget": Budget(tokens=1)},
    {"tier": 1},
    {"concurrency": 2},
    {"workspace_id": "w"},
)


@pytest.mark.parametrize("fields", WHOLE)
def test_what_holds_for_a_plan_as_a_whole_is_a_conflict(fields: dict[str, Any]) -> None:
    plain = plan(step("s", needs=()))
    (said,) = conflicts(plain, replace(plain, **fields))
    assert f"`{next(iter(fields))}`" in said
    assert isinstance(composed(replace(plain, **fields), replace(plain, **fields)), Plan)


def test_every_conflict_is_told() -> None:
    one = plan(
        act("s", StoreData(key="k", value=1)), act("x" * ID_LENGTH_MAX, StoreData(key="j", value=1)),
        params={"p": Parameter(type="string"), "q": Parameter(type="string")}, tools=("shell",),
    )  # fmt: skip
    other = plan(
        act("s", StoreData(key="k", value=1)), fallbacks=(act("f", RunCommand(command="f")),),
        params={"p": Parameter(type="list"), "q": Parameter(type="string")}, on_failure=Escalate(),
    )  # fmt: skip
    said = conflicts(one, other)
    assert len(said) == 5
    assert all(any(word in one for one in said) for word in ("`tools`", "`on_failure`", "`p`", "`k`", "longer than"))
    made = compose([("a", plan(step("s", needs=()))), ("a", plan(step("s", needs=())))])
    assert not isinstance(made, Plan) and "`a-`" in made[0].detail


@pytest.mark.parametrize(
    ("file", "name"),
    [("a/Check it.plan.md", "check-it"), ("x.yaml", "x"), ("../é.md", ""), ("release_2.md", "release-2"), ("-", "")],
)
def test_the_namespace_is_made_of_the_files_name(file: str, name: str) -> None:
    assert namespace_of(file) == name
