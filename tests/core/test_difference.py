"""Nothing changes unseen: the difference of two plans is enough to make the one from the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ordain.adapters.file_tools import DEFINITIONS
from ordain.core.canonical import canonical_bytes, plan_from_bytes, plan_id
from ordain.core.difference import (
    ChangedStep,
    Difference,
    FieldChange,
    MovedStep,
    PlacedStep,
    PlanDifference,
    RenamedStep,
    StepsDifference,
    difference,
)
from ordain.core.model import NestedPlan, Plan
from ordain.core.pairing import pair
from tests.build import plan, step
from tests.plans import changed, plans, sites

NOTATIONS = json.loads((Path(__file__).parent.parent / "golden" / "notations.json").read_text())


def between(old: Plan, new: Plan) -> Difference:
    return difference(old, new, DEFINITIONS)


# --- Nothing is lost -------------------------------------------------------------------------------------------------


def as_json(value: Any) -> Any:
    return json.loads(msgspec.json.encode(value))


def made_anew(tree: dict[str, Any], found: PlanDifference) -> dict[str, Any]:
    """The new plan, made from the old one and the difference alone."""
    rest = {key: value for key, value in tree.items() if key not in ("steps", "fallbacks")}
    put_in(rest, found.fields)
    rest["steps"] = list_anew(tree["steps"], found.steps)
    fallbacks = list_anew(tree.get("fallbacks", []), found.fallbacks)
    return rest | ({"fallbacks": fallbacks} if fallbacks else {})


def list_anew(steps: list[Any], found: StepsDifference) -> list[Any]:
    gone = {one.number for one in found.removed} | {one.old_number for one in found.moved}
    for one in found.removed:
        assert as_json(one.step) == steps[one.number - 1]
    kept = iter([step for number, step in enumerate(steps, start=1) if number not in gone])
    placed = {one.number: as_json(one.step) for one in found.added}
    placed |= {one.number: steps[one.old_number - 1] for one in found.moved}
    size = len(steps) - len(found.removed) + len(found.added)
    made = [dict(placed[number] if number in placed else next(kept)) for number in range(1, size + 1)]
    assert next(kept, None) is None
    for renamed in found.renamed:
        assert made[renamed.number - 1]["id"] == renamed.old_id
        made[renamed.number - 1]["id"] = renamed.id
    for one in found.changed:
        mine = json.loads(json.dumps(made[one.number - 1]))
        assert mine["id"] == one.id
        put_in(mine, one.fields)
        if one.inside is not None:
            mine["action"]["plan"] = made_anew(mine["action"]["plan"], one.inside)
        made[one.number - 1] = mine
    return made


def put_in(tree: dict[str, Any], fields: tuple[FieldChange, ...]) -> None:
    for change in fields:
        *way, last = change.path
        place = tree
        for name in way:
            place = place[name]
        assert place.get(last, msgspec.UNSET) == change.old
        if change.new is msgspec.UNSET:
            del place[last]
        else:
            place[last] = as_json(change.new)


def check(old: Plan, new: Plan) -> None:
    found = between(old, new)
    assert found.empty == (plan_id(old) == plan_id(new))
    again = made_anew(as_json(old), found)
    assert canonical_bytes(again) == canonical_bytes(new)


@given(plans(nested=2))
def test_a_plan_is_no_different_from_itself(one: Plan):
    assert between(one, plan_from_bytes(msgspec.json.encode(one))) == Difference()


@given(plans(), plans())
def test_the_new_plan_can_be_made_from_the_old_one_and_the_difference(old: Plan, new: Plan):
    check(old, new)


@given(plans(nested=2), st.data())
@settings(max_examples=8)
def test_a_change_of_any_field_is_found(old: Plan, data: st.DataObject):
    for site in sites(old):
        check(old, data.draw(changed(old, site)))


@pytest.mark.parametrize("name", sorted(NOTATIONS))
@given(data=st.data())
@settings(max_examples=1)
def test_a_change_of_any_field_of_any_variant_is_found(name: str, data: st.DataObject):
    old = plan_from_bytes(NOTATIONS[name]["canonical"].encode())
    for site in sites(old):
        check(old, data.draw(changed(old, site)))


# --- How it is told --------------------------------------------------------------------------------------------------


def field(*path: str, **sides: Any) -> FieldChange:
    return FieldChange(path=path, **sides)


def steps_of(old: Plan, new: Plan) -> StepsDifference:
    return between(old, new).steps


def test_the_deepest_field_that_differs_is_named():
    def calling(**args: Any) -> Plan:
        return plan(step("a", tool="t", args=args))

    (one,) = steps_of(calling(x={"y": 1, "z": 2}, gone=None), calling(x={"y": 1, "z": True}, came=[1])).changed
    assert one.fields == (
        field("action", "args", "x", "z", old=2, new=True),
        field("action", "args", "gone", old=None),
        field("action", "args", "came", new=[1]),
    )
    assert steps_of(calling(x=1), calling(x=1.0)) == StepsDifference()


def test_what_became_another_kind_of_thing_is_one_change():
    (one,) = steps_of(plan(step("a", run="x")), plan(step("a", tool="t"))).changed
    assert one.fields == (field("action", old={"type": "run", "command": "x"}, new={"type": "tool", "tool": "t"}),)


def test_only_what_left_its_place_has_moved():
    old = plan(*(step(name, needs=()) for name in "abcdef"))
    new = plan(*(step(name, needs=()) for name in "acdebf"))
    assert steps_of(old, new) == StepsDifference(moved=(MovedStep(id="b", number=5, old_number=2),))
    new = plan(*(step(name, needs=()) for name in "xabcdef"))
    assert steps_of(old, new) == StepsDifference(added=(PlacedStep(number=1, step=step("x", needs=())),))


def test_a_step_with_another_name_is_renamed():
    old = plan(step("a", needs=(), run="x"), step("b", run="y"))
    new = plan(step("c", needs=(), run="x"), step("b", run="y", needs=("c",)))
    new = replace(new, steps=(replace(new.steps[0], description="a"), new.steps[1]))
    assert steps_of(old, new) == StepsDifference(
        renamed=(RenamedStep(id="c", old_id="a", number=1),),
        changed=(ChangedStep(id="b", number=2, fields=(field("needs", old=["a"], new=["c"]),)),),
    )
    assert between(old, new).concerns == ()


def test_a_new_title_gives_a_new_name_and_is_told_as_one():
    found = steps_of(plan(step("a", run="x")), plan(step("c", run="x")))
    assert found.renamed == (RenamedStep(id="c", old_id="a", number=1),)
    assert found.changed == (ChangedStep(id="c", number=1, fields=(field("description", old="a", new="c"),)),)


def test_a_step_that_does_something_else_under_another_name_is_another():
    old, new = plan(step("a", run="x")), plan(step("c", run="y"))
    assert steps_of(old, new) == StepsDifference(
        added=(PlacedStep(number=1, step=new.steps[0]),), removed=(PlacedStep(number=1, step=old.steps[0]),)
    )


def test_what_is_inside_a_nested_plan_is_told_inside():
    def around(*names: str) -> Plan:
        inner = plan(*(step(name, needs=()) for name in names), title="Inside")
        return plan(replace(step("out"), action=NestedPlan(plan=inner)))

    (one,) = steps_of(around("a", "b"), around("b")).changed
    assert one.fields == ()
    assert one.inside == PlanDifference(
        steps=StepsDifference(removed=(PlacedStep(number=1, step=step("a", needs=())),))
    )


def test_fallbacks_are_compared_among_themselves():
    undo = step("undo", needs=())
    found = between(plan(step("a"), undo), plan(step("a"), fallbacks=(undo,)))
    assert [one.step.id for one in found.steps.removed] == ["undo"]
    assert [one.step.id for one in found.fallbacks.added] == ["undo"]


def test_two_plans_of_twenty_thousand_steps_are_compared_in_time():
    def made(names: list[str]) -> Plan:
        return plan(*(step(name, needs=()) for name in names))

    names = [f"s{number}" for number in range(20_000)]
    found = between(made(names), made([*names[1:], "s0"]))
    assert [one.id for one in found.steps.moved] == ["s0"]
    found = between(made(names), made([f"t{name}" for name in names]))  # each runs another command
    assert (len(found.steps.renamed), len(found.steps.added), len(found.steps.removed)) == (0, 20_000, 20_000)


def test_equal_steps_are_paired_one_to_one():
    same = [replace(step(name, needs=(), run="x"), description="d") for name in "abc"]
    paired = pair(same[:2], [same[2], same[2]])
    assert [(one.old.id, one.position) for one in paired.pairs] == [("a", 0), ("b", 1)]
    assert (paired.added, paired.removed) == ((), ())
