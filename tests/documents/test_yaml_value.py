"""Strict YAML: the typing rule, the refusals, the places, and never an exception."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ordain.documents.json import read_json
from ordain.documents.yaml import FLAT_LINE, read_yaml


@pytest.fixture(params=["CSafeLoader", "SafeLoader"], autouse=True)
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything holds for libyaml and for PyYAML's own parser."""
    if not hasattr(yaml, request.param):
        pytest.skip("PyYAML was built without libyaml")
    if request.param == "SafeLoader":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)


@pytest.mark.parametrize(
    "plain",
    [
        "1.10",
        "007",
        "008",
        "1e3",
        "1E3",
        "no",
        "yes",
        "on",
        "off",
        "No",
        "YES",
        "On",
        "OFF",
        "~",
        "True",
        "FALSE",
        "Null",
        "NULL",
        "12:30",
        "1:2:3",
        "0x1F",
        "0o17",
        "0b11",
        ".5",
        "5.",
        "1.",
        "1_000",
        "+1",
        "-0",
        "0.0",
        "1.0",
        "-0.0",
        "1e+3",
        "2026-01-01",
        "2026-01-01T10:00:00Z",
        "<<",
    ],
)
def test_ambiguous_plain_scalars_must_be_quoted(plain: str) -> None:
    for text in (plain, f"a: {plain}", f"- {plain}"):
        (problem,) = read_yaml(text).problems
        assert problem.code == "E_YAML_AMBIGUOUS"
        assert f"quote it: '{plain}'" in problem.hints[0]
    assert read_yaml(f"a: '{plain}'").value == {"a": plain}
    assert read_yaml(f'a: "{plain}"').value == {"a": plain}
    assert read_yaml(f"a: |-\n  {plain}").value == {"a": plain}


@pytest.mark.parametrize(
    ("plain", "value"),
    [
        ("null", None),
        ("true", True),
        ("false", False),
        ("0", 0),
        ("-7", -7),
        ("1.1", 1.1),
        ("0.5", 0.5),
        ("1e+21", 1e21),
        ("1e-7", 1e-7),
        ("9007199254740991", 2**53 - 1),
        ("text", "text"),
        ("two words", "two words"),
        ("1.2.3", "1.2.3"),
        ("10.0.0.1", "10.0.0.1"),
        ("10m", "10m"),
        ("3rd", "3rd"),
        ("a:b", "a:b"),
        ("y", "y"),
        ("nope", "nope"),
        ("-", [None]),
        ("$HOME", "$HOME"),
        ("Ünïcode", "Ünïcode"),
        ("'it''s'", "it's"),
        ('"a\\tb"', "a\tb"),
    ],
)
def test_plain_scalars(plain: str, value: Any) -> None:
    read = read_yaml(plain)
    if plain == "-":
        assert [problem.code for problem in read.problems] == ["E_YAML_AMBIGUOUS"]
    else:
        assert read.problems == ()
        assert read.value == value
        assert type(read.value) is type(value)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: &x 1\nb: 2", "E_YAML_ALIAS"),
        ("b: *x", "E_YAML_ALIAS"),
        ("- &a [x]", "E_YAML_ALIAS"),
        ("a: !!python/object:os.system x", "E_YAML_TAG"),
        ("a: !!str 1", "E_YAML_TAG"),
        ("a: ! 1", "E_YAML_TAG"),
        ("!!map {a: b}", "E_YAML_TAG"),
        ("a: 1\na: 2", "E_DOC_DUPLICATE"),
        ("{a: 1, 'a': 2}", "E_DOC_DUPLICATE"),
        ("1: a", "E_DOC_SYNTAX"),
        ("true: a", "E_DOC_SYNTAX"),
        ("null: a", "E_DOC_SYNTAX"),
        ("[a]: b", "E_DOC_SYNTAX"),
        ("? {a: b}\n: c", "E_DOC_SYNTAX"),
        ("no: a", "E_YAML_AMBIGUOUS"),
        ("a:", "E_YAML_AMBIGUOUS"),
        ("9007199254740992", "E_DOC_NUMBER"),
        ("9" * 5000, "E_DOC_NUMBER"),
        ("1e999", "E_DOC_NUMBER"),
        (".inf", "E_DOC_NUMBER"),
        ("-.INF", "E_DOC_NUMBER"),
        (".nan", "E_DOC_NUMBER"),
        ("NaN", "E_DOC_NUMBER"),
        ("-Infinity", "E_DOC_NUMBER"),
        ("[" * 17 + "]" * 17, "E_DOC_DEPTH"),
        ("[" * 100_000, "E_DOC_DEPTH"),
        ("{a: " * 100_000, "E_DOC_DEPTH"),
        ("- " * 100_000, "E_DOC_DEPTH"),
        ("\n".join(" " * depth + "a:" for depth in range(500)), "E_DOC_DEPTH"),
        ("a: [", "E_DOC_SYNTAX"),
        ("a: b: c", "E_DOC_SYNTAX"),
        ("\ta: b", "E_DOC_SYNTAX"),
        ("a: 'b", "E_DOC_SYNTAX"),
        ("a: @b", "E_DOC_SYNTAX"),
        ("--- a\n--- b", "E_DOC_SYNTAX"),
        ("%YAML 1.1\n---\na: b", "E_DOC_SYNTAX"),
        ("%TAG ! tag:x,2000:\n---\na: b", "E_YAML_TAG"),
        ("a: x\u2028b: y", "E_DOC_SYNTAX"),
        ("\x00", "E_DOC_SYNTAX"),
        ('"\\ud800"', "E_DOC_CONTROL_CHARACTER"),
        ('"\\e[2J"', "E_DOC_CONTROL_CHARACTER"),
        ('"\\u202e"', "E_DOC_BIDI"),
        ("a: " + "x" * ((1 << 20) + 1), "E_DOC_TOO_LARGE"),
    ],
)
def test_refused(text: str, code: str) -> None:
    read = read_yaml(text)
    assert [problem.code for problem in read.problems] == [code]
    assert read.value is None


def test_billion_laughs_are_refused_unexpanded() -> None:
    lines = ["a0: &a0 [lol]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    assert {problem.code for problem in read_yaml("\n".join(lines)).problems} == {"E_YAML_ALIAS"}


def test_structures() -> None:
    text = (
        "# comment\npath: config.json\ncontent: |\n  one\n  two\nlist: [a, 1, {b: null}]\nnested:\n  - x: 'y'\n  - []"
    )
    assert read_yaml(text).value == {
        "path": "config.json",
        "content": "one\ntwo\n",
        "list": ["a", 1, {"b": None}],
        "nested": [{"x": "y"}, []],
    }
    assert read_yaml("").value is None
    assert read_yaml("# only a comment").problems == ()
    assert read_yaml("[" * 16 + "]" * 16).problems == ()


def test_all_problems_with_their_places() -> None:
    read = read_yaml("a: no\nb:\n  - 1.10\n  - &x y\na: 1", first_line=20)
    places = [(p.code, p.where.line, p.where.column) for p in read.problems if p.where]
    assert places == [
        ("E_YAML_AMBIGUOUS", 20, 4),
        ("E_YAML_AMBIGUOUS", 22, 5),
        ("E_YAML_ALIAS", 23, 5),
        ("E_DOC_DUPLICATE", 24, 1),
    ]


def test_lines_of_keys() -> None:
    read = read_yaml("a:\n  x: y\nb: z", first_line=2)
    assert (read.locate(("a",)), read.locate(("b",))) == ((2, 1), (4, 1))


def test_a_canonical_number_is_hinted() -> None:
    (problem,) = read_yaml("1.10").problems
    assert problem.hints == ("If it is text, quote it: '1.10'.", "If it is a number, write 1.1.")


@given(st.text() | st.text("ab:- \n[]{}&*!|>'\"#%@`?,0123456789.eE~\t"))
def test_any_text_gives_a_value_or_problems(text: str) -> None:
    read = read_yaml(text)
    if not read.problems:
        json.dumps(read.value, allow_nan=False)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text("ab: -#\n\"'ä0.", max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab1", max_size=3), inner, max_size=3),
        max_leaves=10,
    )
)
def test_json_reads_the_same_as_yaml(value: Any) -> None:
    text = json.dumps(value)
    assert read_yaml(text).problems == read_json(text).problems == ()
    assert read_yaml(text).value == read_json(text).value == value


# --- Flat texts ------------------------------------------------------------------------------------------------------

_WORDS = [
    "a",
    "y",
    "true",
    "null",
    "1",
    "1.10",
    "007",
    ".5",
    "1e3",
    "0x1f",
    "2024-01-02",
    ".inf",
    "...",
    "a.b/c-d",
    "-a",
]
_VALUE = st.one_of(
    st.sampled_from(_WORDS),
    st.text("ab/.-_19", max_size=6),
    st.text("ab \"'\\#:{}[]é\t", max_size=6).map('"{}"'.format),
    st.text("ab \"'\\#:{}[]é\t", max_size=6).map("'{}'".format),
)
_KEY = st.sampled_from(["a", "b", "true", "y", "null", "_", "A1", "x" * 64, "x" * 65])


@given(st.lists(st.tuples(_KEY, _VALUE), min_size=1, max_size=4), st.sampled_from(["", "\n"]), st.integers(1, 3))
def test_a_flat_text_is_read_as_yaml_reads_it(pairs: list[tuple[str, str]], end: str, first_line: int) -> None:
    text = "\n".join(f"{key}: {value}" for key, value in pairs)
    flat, whole = read_yaml(text + end, first_line=first_line), read_yaml(f"{text}\n# YAML", first_line=first_line)
    assert (flat.problems == ()) is (whole.problems == ())
    if all(FLAT_LINE.fullmatch(line) for line in text.split("\n")):
        assert (flat.value, flat.problems, flat.depth) == (whole.value, whole.problems, whole.depth)
        assert flat.problems or [flat.locate((key,)) for key in flat.value] == [
            whole.locate((key,)) for key in whole.value
        ]


def test_a_flat_text_loads_no_yaml() -> None:
    code = (
        "import sys; from ordain.documents.yaml import read_yaml\n"
        "assert read_yaml('path: a.json\\ncontent: \"{}\"\\n').value == {'path': 'a.json', 'content': '{}'}\n"
        "print('yaml' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
