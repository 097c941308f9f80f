"""Whether a value fits a schema, against a second opinion."""

import re
from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from ordain.core.text import schema as rules
from ordain.core.text.schema import patterns, schema_faults
from tests.rows import each


def misfits(schema: Any, value: Any) -> list[str]:
    return [*rules.misfits(schema, value, lambda pattern, text: re.search(pattern, text) is not None)]


values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0, 2.5, -1.5])
    | st.text("ab1", max_size=3),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from("abc"), inside, max_size=3),
    max_leaves=6,
)
_types = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
_small = st.integers(0, 3)


def _keywords(inside: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": _types | st.lists(_types, min_size=1, max_size=3, unique=True),
            "enum": st.lists(values, min_size=1, max_size=3),
            "const": values,
            "minimum": st.integers(-2, 2),
            "maximum": st.integers(-2, 2),
            "exclusiveMinimum": st.integers(-2, 2),
            "exclusiveMaximum": st.integers(-2, 2),
            "multipleOf": st.sampled_from([1, 2, 0.5]),
            "minLength": _small,
            "maxLength": _small,
            "pattern": st.sampled_from(["^a", "b$", "1", "^$"]),
            "minItems": _small,
            "maxItems": _small,
            "uniqueItems": st.booleans(),
            "items": inside,
            "prefixItems": st.lists(inside, min_size=1, max_size=2),
            "minProperties": _small,
            "maxProperties": _small,
            "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
            "properties": st.dictionaries(st.sampled_from("abc"), inside, max_size=2),
            "additionalProperties": inside,
            "anyOf": st.lists(inside, min_size=1, max_size=2),
            "oneOf": st.lists(inside, min_size=1, max_size=2),
            "allOf": st.lists(inside, min_size=1, max_size=2),
            "not": inside,
            "description": st.just("in words"),
        },
    )


schemas = st.recursive(st.booleans() | _keywords(st.booleans()), _keywords, max_leaves=4)


@given(schemas, values)
def test_it_agrees_with_another_one(schema: Any, value: Any) -> None:
    assert list(schema_faults(schema)) == []
    expected = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert (list(misfits(schema, value)) == []) is expected


@each(
    "schema",
    [
        {"type": "strin"},
        {"type": []},
        {"$ref": "#/x"},
        {"format": "date"},
        {"if": True},
        {"minimum": "1"},
        {"minLength": -1},
        {"multipleOf": 0},
        {"pattern": 3},
        {"type": [{}]},
        {"enum": []},
        {"required": "a"},
        {"properties": {"a": {"typ": "string"}}},
        {"items": 3},
        {"anyOf": []},
        {"uniqueItems": 1},
        "string",
    ],
)
def test_what_nobody_could_look_at_is_a_fault(schema: Any) -> None:
    assert len(list(schema_faults(schema))) == 1


def test_every_pattern_of_a_schema_is_found_wherever_a_text_must_match_it() -> None:
    def must(name: str) -> Any:
        return {"pattern": name}

    schema = {
        **must("a"),
        "properties": {"pattern": must("b"), "x": {"items": must("c")}},
        "additionalProperties": must("d"),
        "anyOf": [must("e"), {"allOf": [{"not": must("f")}]}],
        "oneOf": [True, must("g")],
        "prefixItems": [must("h")],
        "const": must("no rule"),
        "enum": [must("no rule")],
    }
    assert sorted(patterns(schema)) == list("abcdefgh")
    assert [*patterns({"pattern": 3, "properties": [], "anyOf": {}, "items": True})] == []


def test_what_is_wrong_is_said_in_words() -> None:
    schema = {"type": "object", "required": ["count"], "properties": {"count": {"type": "integer", "minimum": 1}}}
    assert list(misfits(schema, {})) == ["it should have `count`"]
    assert list(misfits(schema, {"count": 0})) == ["`count` should be at least 1"]
    assert list(misfits(schema, 3)) == ["it should be an object"]


def test_numbers_are_compared_as_they_are_written_and_none_is_too_large() -> None:
    tenths = {"type": "number", "multipleOf": 0.1}
    assert [value for value in (0.3, 1.1, 0.25, 1e308, 7) if not [*misfits(tenths, value)]] == [0.3, 1.1, 1e308, 7]
    assert [*misfits({"type": "integer", "multipleOf": 2}, float("inf"))]
    assert [*misfits({"type": "integer", "multipleOf": 0.5}, 10**400)] == []
