"""Patterns: what they mean, against a simple reference, and that no pattern takes long."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordain.core.text.pattern import PathPattern, matches, normal
from tests.patience import hang_guard
from tests.rows import each


def reference(pattern, path):
    """The same by a regular expression, which takes exponential time."""
    parts = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    tokens = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    return re.fullmatch("".join(parts.get(token) or re.escape(token) for token in tokens), path, re.DOTALL) is not None


@each(
    "pattern, yes, no",
    [
        ("a.txt", ["a.txt"], ["b.txt", "a.txt/b", "a_txt", "", "x/a.txt"]),
        ("*.txt", ["a.txt", ".txt"], ["a/b.txt", "a.txt.x"]),
        ("a?c", ["abc"], ["ac", "a/c", "abbc"]),
        ("src/*", ["src/a"], ["src", "src/a/b", "src/"[:-1]]),
        ("src/**", ["src/a", "src/a/b"], ["src", "srcs/a"]),
        ("**/x", ["x", "a/x", "a/b/x"], ["ax", "a/bx"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["ab", "a/xb", "b"]),
        ("**", ["a", "a/b"], []),
        ("a**b", ["ab", "axb", "a/x/b"], ["a", "b"]),
        ("[ab].py", ["[ab].py"], ["a.py"]),
        ("a\nb*", ["a\nb", "a\nbc"], ["a"]),
        ("", [""], ["a"]),
    ],
)
def test_what_a_pattern_means(pattern, yes, no):
    assert [path for path in (*yes, *no) if matches(pattern, path)] == yes


@given(st.text("ab*?/", max_size=12), st.text("ab/", max_size=10))
def test_a_pattern_means_what_the_reference_says(pattern, path):
    assert PathPattern(pattern).matches(path) == reference(pattern, path)


@given(st.lists(st.sampled_from(["**/", "**", "*", "?", "a", "b", "/"]), max_size=8), st.text("ab/", max_size=10))
def test_a_pattern_of_wild_parts_means_what_the_reference_says(tokens, path):
    pattern = "".join(tokens)
    assert PathPattern(pattern).matches(path) == reference(pattern, path)


@pytest.mark.parametrize(
    ("pattern", "same"),
    [
        ("./src//*.py", "src/*.py"),
        ("src/", "src/**"),
        (".", ""),
        ("", ""),
        ("/", ""),
        ("a/./b", "a/b"),
        ("**/", "**/**"),
    ],
)
def test_one_spelling(pattern, same):
    assert normal(pattern) == same


HOSTILE = {
    "directories": ("**/" * 8 + "x", "a/" * 60 + "b"),
    "many directories": ("**/" * 1000 + "x", "a/" * 2000 + "x"),
    "stars": ("*a" * 8 + "x", "a" * 200 + "b"),
    "many stars": ("*a" * 1000 + "x", "a" * 4000 + "bx"),
    "mixed": ("**/*a" * 500 + "x", "aa/" * 1300 + "bx"),
    "only stars": ("*" * 4000, "a/" * 2000),
    "questions": ("?" * 2000 + "**" + "?" * 2000, "a" * 4000),
}


@hang_guard
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_patterns_take_bounded_time(name):
    PathPattern(HOSTILE[name][0]).matches(HOSTILE[name][1])
