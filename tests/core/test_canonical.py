"""One plan, one digest; two plans, two digests."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ordain.core.plan.action import AcquireLock, ReleaseLock, RunCommand, Task
from ordain.core.plan.canonical import canonical_bytes, plan_from_bytes, plan_hash, plan_id, step_key
from ordain.core.plan.failure import Abort, Retry
from ordain.core.plan.model import Budget, NestedPlan, Plan, Step
from ordain.core.plan.value import RunId, StepId
from ordain.documents.reading import read
from tests.build import plan, step
from tests.plans import changed, plans, sites
from tests.rows import each

GOLDEN_FILES = Path(__file__).parent.parent / "golden"
GOLDEN = json.loads((GOLDEN_FILES / "digests.json").read_text())
NOTATIONS = json.loads((GOLDEN_FILES / "notations.json").read_text())


@each("name", sorted(GOLDEN))
def test_golden_digests_never_change(name):
    """They may change only with the plan version."""
    golden = GOLDEN[name]
    document = read("\n".join(golden["document"]).encode())
    assert document.problems == ()
    assert document.plan is not None
    assert canonical_bytes(document.plan).decode() == golden["canonical"]
    assert plan_id(document.plan) == golden["plan_id"]


def test_the_preimage_is_framed_by_type_and_length():
    """Computed here by hand, so that the code cannot drift together with its tests."""
    import hashlib

    made = plan(step("a"))
    body = canonical_bytes(made)
    framed = b"DSSEv1 35 application/vnd.ordain.plan.v1+json " + str(len(body)).encode() + b" " + body
    assert plan_id(made) == "plan:" + hashlib.sha256(framed).hexdigest()
    assert plan_hash(plan_id(made)) == "sha256:" + hashlib.sha256(framed).hexdigest()


TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
WHOLE = 2**53 - 1
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-WHOLE, WHOLE) | st.floats(-WHOLE, WHOLE) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def said(value: Any) -> Any:
    """All that a value says, by other means than its digest: every field of every struct, absent ones too. A number
    is the same by value, and no boolean is a number."""
    if isinstance(value, msgspec.Struct):
        return type(value).__name__, {name: said(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        return {key: said(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [said(inner) for inner in value]
    return isinstance(value, bool), value


@given(plans(), plans())
def test_equal_digest_exactly_when_equal_value(one, other):
    assert (plan_id(one) == plan_id(other)) == (said(one) == said(other))


def check_every_change(made: Plan, data: st.DataObject) -> None:
    for site in sites(made):
        other = data.draw(changed(made, site))
        assert (plan_id(made) == plan_id(other)) == (said(made) == said(other)), site


@pytest.mark.slow
@given(plans(nested=2), st.data())
@settings(max_examples=10)
def test_changing_any_field_changes_the_digest(made, data):
    check_every_change(made, data)


@pytest.mark.part(of=4)
@pytest.mark.parametrize("name", sorted(NOTATIONS))
@given(data=st.data())
@settings(max_examples=2)
def test_changing_any_field_of_any_variant_changes_the_digest(name, data):
    check_every_change(plan_from_bytes(NOTATIONS[name]["canonical"].encode()), data)


@given(st.dictionaries(TEXT, VALUES, max_size=5) | VALUES)
def test_the_fast_way_and_rfc_8785_write_the_same_bytes(value):
    assert canonical_bytes(value) == rfc8785.dumps(value)


def test_every_character_is_spelt_as_rfc_8785_says():
    for start in range(0, 0x11000, 0x800):
        text = "".join(chr(point) for point in range(start, start + 0x800) if not 0xD800 <= point <= 0xDFFF)
        assert canonical_bytes({"k": text, "l": [text]}) == rfc8785.dumps({"k": text, "l": [text]})


@given(plans())
def test_bytes_give_the_plan_back(made):
    again = plan_from_bytes(canonical_bytes(made))
    assert canonical_bytes(again) == canonical_bytes(made)
    assert said(again) == said(made)


@given(plans(), st.randoms())
def test_key_order_does_not_matter(made, chance):
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            keys = list(value)
            chance.shuffle(keys)
            return {key: shuffled(value[key]) for key in keys}
        return [shuffled(inner) for inner in value] if isinstance(value, list) else value

    assert canonical_bytes(shuffled(msgspec.to_builtins(made))) == canonical_bytes(made)


def acting(name: str, action: Any) -> Step:
    return replace(step(name), action=action)


def nested(name: str, run: str) -> NestedPlan:
    return NestedPlan(plan=plan(step(name, run=run)))


@each(
    "one, other",
    [
        (plan(step("a"), title="x|step[0]=y"), plan(step("a"), title="x")),
        (plan(step("a", needs=())), plan(step("a", needs="b"))),
        (plan(step("a"), tools=()), plan(step("a"))),
        (plan(step("ab", run="c")), plan(step("a", run="bc"))),
        (plan(step("a", contract="x")), plan(step("a", run="do a", contract="x "))),
        (plan(step("a", idempotent=False)), plan(step("a"))),
        (plan(step("a"), step("b")), plan(step("b"), step("a"))),
        (plan(step("a"), fallbacks=(step("f", run="x"),)), plan(step("a"), fallbacks=(step("f", run="y"),))),
        (plan(step("a"), fallbacks=(step("f"), step("g"))), plan(step("a"), fallbacks=(step("g"), step("f")))),
        (plan(step("a"), fallbacks=(step("f"),)), plan(step("a"), step("f"))),
        (plan(step("a"), task="xy"), plan(step("a"), task="x", context="y")),
        (plan(step("a"), protect=("a", "b")), plan(step("a"), protect=("a,b",))),
        (plan(acting("a", Task(task="x", tools=()))), plan(acting("a", Task(task="x")))),
        (plan(acting("a", Task(task="x", reads=("y",)))), plan(acting("a", Task(task="x", criteria=("y",))))),
        (plan(acting("a", AcquireLock(lock_name="l"))), plan(acting("a", ReleaseLock(lock_name="l")))),
        (plan(acting("a", nested("b", run="x"))), plan(acting("a", nested("b", run="y")))),
        (plan(step("a"), on_failure=Abort()), plan(step("a"))),
    ],
)
def test_neighbours_have_different_digests(one, other):
    assert plan_id(one) != plan_id(other)


def test_an_empty_budget_is_none():
    assert plan(step("a"), budget=Budget()) == plan(step("a"))
    assert replace(step("a"), budget=Budget()) == step("a")


def test_numbers_are_hashed_by_value():
    def with_args(value: Any) -> str:
        return plan_id(plan(step("a", tool="t", args={"n": value})))

    assert with_args(1) == with_args(1.0)
    assert with_args(1) != with_args("1") != with_args(True)


def test_a_default_that_is_written_out_is_the_same_plan():
    def with_policy(**fields: Any) -> str:
        return plan_id(plan(step("a", on_failure=Retry(max_attempts=2, **fields))))

    assert with_policy() == with_policy(backoff_multiplier=1.0) == with_policy(backoff_multiplier=float("1.00"))
    assert with_policy() == with_policy(initial_delay_ms=int("0"), increment_ms=int("0"), then=None)
    again = plan_from_bytes(b'{"plan_version":1,"title":"A plan","steps":[]}')
    assert canonical_bytes(again) == b'{"plan_version":1,"steps":[],"title":"A plan"}'


def test_step_keys_differ_by_each_part():
    action = RunCommand(command="x")
    keys = {
        step_key("ws", RunId("RUN-1"), StepId("a"), action),
        step_key("wsR", RunId("UN-1"), StepId("a"), action),
        step_key("ws", RunId("RUN-1"), StepId("b"), action),
        step_key("ws", RunId("RUN-1"), StepId("a"), RunCommand(command="y")),
    }
    assert len(keys) == 4
