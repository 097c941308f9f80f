"""Strict JSON: exact refusals with their places, and never an exception."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordain.core.plan.canonical import canonical_bytes
from ordain.documents.json import read_json
from tests.rows import each


@each(
    "text, code",
    [
        ("", "E_DOC_SYNTAX"),
        ("{", "E_DOC_SYNTAX"),
        ("[1,]", "E_DOC_SYNTAX"),
        ('{"a": 1,}', "E_DOC_SYNTAX"),
        ("[1] x", "E_DOC_SYNTAX"),
        ("{} {}", "E_DOC_SYNTAX"),
        ("[1 2]", "E_DOC_SYNTAX"),
        ("[}", "E_DOC_SYNTAX"),
        ("{]", "E_DOC_SYNTAX"),
        ("[,1]", "E_DOC_SYNTAX"),
        ("[1, // no\n2]", "E_DOC_SYNTAX"),
        ("/* no */ 1", "E_DOC_SYNTAX"),
        ("# no\n1", "E_DOC_SYNTAX"),
        ("{a: 1}", "E_DOC_SYNTAX"),
        ("{'a': 1}", "E_DOC_SYNTAX"),
        ("{1: 1}", "E_DOC_SYNTAX"),
        ('"a', "E_DOC_SYNTAX"),
        ('"a\nb"', "E_DOC_SYNTAX"),
        ('"\\x41"', "E_DOC_SYNTAX"),
        ("01", "E_DOC_SYNTAX"),
        ("+1", "E_DOC_SYNTAX"),
        (".5", "E_DOC_SYNTAX"),
        ("1.", "E_DOC_SYNTAX"),
        ("True", "E_DOC_SYNTAX"),
        ("\ufeff1", "E_DOC_SYNTAX"),
        ('{"a": 1, "a": 2}', "E_DOC_DUPLICATE"),
        ('{"a": 1, "\\u0061": 2}', "E_DOC_DUPLICATE"),
        ("NaN", "E_DOC_NUMBER"),
        ("[Infinity]", "E_DOC_NUMBER"),
        ("-Infinity", "E_DOC_NUMBER"),
        ("1e999", "E_DOC_NUMBER"),
        ("1e-999", "E_DOC_NUMBER"),
        ("9" * 5000, "E_DOC_NUMBER"),
        ("9007199254740992", "E_DOC_NUMBER"),
        ("-9007199254740992", "E_DOC_NUMBER"),
        ("9007199254740992.0", "E_DOC_NUMBER"),
        ("1e20", "E_DOC_NUMBER"),
        ('"\\ud800"', "E_DOC_CONTROL_CHARACTER"),
        ('{"\\udc00": 1}', "E_DOC_CONTROL_CHARACTER"),
        ('"\\u001b[2J"', "E_DOC_CONTROL_CHARACTER"),
        ('"\\u202e"', "E_DOC_BIDI"),
        ("[" * 17 + "]" * 17, "E_DOC_DEPTH"),
        ("[" * 100_000, "E_DOC_DEPTH"),
        ('{"a":' * 100_000, "E_DOC_DEPTH"),
        (json.dumps("a" * ((1 << 20) + 1)), "E_DOC_TOO_LARGE"),
    ],
)
def test_refused(text: str, code: str) -> None:
    read = read_json(text)
    assert [problem.code for problem in read.problems] == [code]
    assert read.value is None


@each(
    "text, value",
    [
        ("null", None),
        (' {"a": [1, -2.5, true, false, null, "\\u00e4\\n\\/"]} ', {"a": [1, -2.5, True, False, None, "ä\n/"]}),
        ('"\\ud83d\\ude00"', "😀"),
        ("9007199254740991", 9007199254740991),
        ("1e21", 1e21),
        ("[]", []),
        ("{}", {}),
        ("[" * 16 + "]" * 16, [[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]),
    ],
)
def test_read(text: str, value: Any) -> None:
    read = read_json(text)
    assert read.problems == ()
    assert read.value == value


@pytest.mark.parametrize(("text", "value"), [("1.0", 1), ("-0", 0), ("-0.0", 0), ("1e2", 100), ("0e-999", 0)])
def test_a_whole_number_is_an_integer(text: str, value: int) -> None:
    read = read_json(text).value
    assert type(read) is int
    assert read == value


def test_all_problems_with_their_places() -> None:
    read = read_json('{\n  "a": NaN,\n  "b": 1e999, "b": 1\n}', first_line=10)
    places = [(p.code, p.where.line, p.where.column) for p in read.problems if p.where]
    assert places == [("E_DOC_NUMBER", 11, 8), ("E_DOC_NUMBER", 12, 8), ("E_DOC_DUPLICATE", 12, 15)]


def test_lines_of_keys() -> None:
    read = read_json('{"a": {"x": 1},\n\n"b": 2}', first_line=5)
    assert (read.locate(("a",)), read.locate(("b",))) == ((5, 2), (7, 1))


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc.$ä", max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(json_values, st.sampled_from([None, 2]))
def test_reads_what_the_standard_library_writes(value: Any, indent: int | None) -> None:
    read = read_json(json.dumps(value, indent=indent))
    if not read.problems:
        assert read.value == value
        # What was read survives its canonical bytes: same value, same bytes.
        body = canonical_bytes(read.value)
        assert canonical_bytes(read_json(body.decode()).value) == body
    else:
        assert {problem.code for problem in read.problems} <= {"E_DOC_NUMBER", "E_DOC_DEPTH"}


@given(st.text() | st.text('[]{}:,"\\ \n0123456789.eE+-truefalsnN/u'))
def test_any_text_gives_a_value_or_problems(text: str) -> None:
    read = read_json(text)
    assert read.problems or json.loads(text) == read.value


@given(st.text('[]{}:,"a1 ', max_size=12))
def test_takes_nothing_that_the_standard_library_refuses(text: str) -> None:
    try:
        json.loads(text)
    except ValueError:
        assert read_json(text).problems
