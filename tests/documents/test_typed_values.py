"""Values of parameters as a person types them, read as strictly as documents."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ordain.core.plan.model import Parameter
from ordain.documents.typed_value import read_values
from tests.rows import each

TYPED = {
    "s": Parameter(type="string"),
    "i": Parameter(type="integer"),
    "n": Parameter(type="number"),
    "b": Parameter(type="boolean"),
    "l": Parameter(type="list"),
}


@each(
    "given, values",
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
        ([("other", "x")], {"other": "x"}),
    ],
)
def test_typed_values(given: list[tuple[str, str]], values: dict[str, Any]) -> None:
    assert read_values(TYPED, given) == (values, ())


def test_one_value_given_twice_is_a_problem() -> None:
    assert [problem.code for problem in read_values(TYPED, [("s", "a"), ("s", "b")])[1]] == ["E_PARAM"]


@each(
    "name, text",
    [
        ("l", "[not json"),
        ("l", "["),
        ("l", "[NaN]"),
        ("l", "[1e999]"),
        ("l", "[12345678901234567890123]"),
        ("l", '[{"a": 1, "a": 2}]'),
        ("l", '["\\ud800"]'),
        ("l", "[" * 100_000),
        ("l", "[" * 17 + "]" * 17),
        ("n", "1e999"),
        ("n", "12345678901234567890123"),
        ("s", "\udcff"),
        ("s", "a\x1b[2J"),
        ("s", "\u202e"),
        ("l", "a\x00"),
    ],
)
def test_refused(name: str, text: str) -> None:
    _, problems = read_values(TYPED, [(name, text)])
    assert [problem.code for problem in problems] == ["E_PARAM"]


@given(st.sampled_from(sorted(TYPED)), st.text(max_size=30) | st.text('[]{}",:0123456789eE.-', max_size=30))
def test_any_text_is_a_value_or_a_problem(name: str, text: str) -> None:
    values, problems = read_values(TYPED, [(name, text)])
    assert bool(problems) != (name in values)
