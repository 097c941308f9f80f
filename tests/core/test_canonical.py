"""One plan, one digest; two plans, two digests."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from ordain.core.action import RunCommand
from ordain.core.canonical import canonical_bytes, plan_from_bytes, plan_hash, plan_id, step_key
from ordain.core.condition import Contract, Verification
from ordain.core.failure import Abort, Retry, Skip
from ordain.core.model import Plan
from ordain.core.value import RunId, StepId
from ordain.documents.reading import read
from tests.build import plan, step

GOLDEN = json.loads((Path(__file__).parent.parent / "golden/digests.json").read_text())


@pytest.mark.parametrize("name", sorted(GOLDEN))
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
NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,10}", fullmatch=True)
WHOLE = 2**53 - 1
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-WHOLE, WHOLE) | st.floats(-WHOLE, WHOLE) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
LAST = st.builds(Abort, message=st.none() | TEXT) | st.just(Skip())
POLICIES = LAST | st.builds(
    Retry,
    max_attempts=st.integers(1, 100),
    initial_delay_ms=st.integers(0, 10_000),
    increment_ms=st.integers(0, 10_000),
    backoff_multiplier=st.floats(1, 10),
    max_delay_ms=st.none() | st.integers(0, 100_000),
    then=st.none() | LAST,
)
CONTRACTS = st.builds(
    Verification,
    strategy=st.builds(Contract, command=TEXT, exit_code=st.integers(0, 255)),
    timeout_ms=st.none() | st.integers(1, 1000),
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    steps = []
    for name in draw(st.lists(NAMES, min_size=1, max_size=4, unique=True)):
        called = draw(st.booleans())
        made = step(
            name,
            run=None if called else draw(TEXT) or "x",
            tool=draw(NAMES) if called else None,
            args=draw(st.dictionaries(TEXT, VALUES, max_size=3)),
            needs=tuple(draw(st.lists(NAMES, max_size=2))),
            on_failure=draw(st.none() | POLICIES),
            timeout_ms=draw(st.none() | st.integers(1, 1000)),
            idempotent=draw(st.none() | st.booleans()),
        )
        steps.append(msgspec.structs.replace(made, description=draw(TEXT), verification=draw(st.none() | CONTRACTS)))
    return plan(
        *steps,
        title=draw(TEXT),
        context=draw(st.none() | TEXT),
        on_failure=draw(st.none() | POLICIES),
        tools=draw(st.none() | st.lists(NAMES, max_size=2).map(tuple)),
        timeout_ms=draw(st.none() | st.integers(1, 1000)),
        concurrency=draw(st.none() | st.integers(1, 9)),
        tier=draw(st.none() | st.integers(0, 2)),
        workspace_id=draw(st.none() | TEXT),
    )


def tree(value: Any) -> Any:
    """The value as plain JSON, with numbers compared by value."""
    return json.loads(json.dumps(msgspec.to_builtins(value)))


@given(plans(), plans())
def test_equal_digest_exactly_when_equal_value(one, other):
    assert (plan_id(one) == plan_id(other)) == (tree(one) == tree(other))


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
    assert tree(again) == tree(made)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict) and value:
        return [leaf for key in value for leaf in leaves(value[key], (*path, key))]
    if isinstance(value, list) and value:
        return [leaf for index, inner in enumerate(value) for leaf in leaves(inner, (*path, index))]
    return [path]


@given(plans(), st.data())
def test_changing_anything_changes_the_digest(made, data):
    value = tree(made)
    *path, last = data.draw(st.sampled_from(leaves(value)))
    target = value
    for key in path:
        target = target[key]
    old = target[last]
    target[last] = old + "x" if isinstance(old, str) else (not old) if isinstance(old, bool) else "changed"
    from ordain.core.canonical import PLAN_TYPE, digest

    assert digest(PLAN_TYPE, canonical_bytes(value)) != plan_id(made).removeprefix("plan:")


@given(plans(), st.randoms())
def test_key_order_does_not_matter(made, chance):
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            keys = list(value)
            chance.shuffle(keys)
            return {key: shuffled(value[key]) for key in keys}
        return [shuffled(inner) for inner in value] if isinstance(value, list) else value

    assert canonical_bytes(shuffled(tree(made))) == canonical_bytes(made)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (plan(step("a"), title="x|step[0]=y"), plan(step("a"), title="x")),
        (plan(step("a", needs=())), plan(step("a", needs="b"))),
        (plan(step("a"), tools=()), plan(step("a"))),
        (plan(step("ab", run="c")), plan(step("a", run="bc"))),
        (plan(step("a", contract="x")), plan(step("a", run="do a", contract="x "))),
        (plan(step("a", idempotent=False)), plan(step("a"))),
        (plan(step("a"), step("b")), plan(step("b"), step("a"))),
    ],
)
def test_neighbours_have_different_digests(one, other):
    assert plan_id(one) != plan_id(other)


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
