"""Ids and slugs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordain.core.plan.name import id_fault, name_fault
from ordain.documents.tree_writer import slug
from tests.rows import each


@each("word", ["a", "A_b-9", "7a", "none-1", "None", "x" * 64, "_", "-"])
def test_ids(word: str) -> None:
    assert id_fault(word) is None


@each(
    "word, code",
    [
        ("none", "E_STEP_ID"),
        ("7", "E_STEP_ID"),
        ("007", "E_STEP_ID"),
        ("-7", "E_STEP_ID"),
        ("x" * 65, "E_STEP_ID"),
        ("a b", "E_STEP_ID"),
        ("a.b", "E_STEP_ID"),
        ("a[0]", "E_STEP_ID"),
        ("", "E_STEP_ID"),
        ("a\n", "E_STEP_ID"),
        ("sеttings", "E_NAME"),
        ("ä", "E_NAME"),
        ("١", "E_NAME"),
    ],
)
def test_not_ids(word: str, code: str) -> None:
    fault = id_fault(word)
    assert fault is not None
    assert fault[0] == code
    assert fault[1].isascii()


@each(
    "title, word",
    [
        ("Analyze the bug", "analyze-the-bug"),
        ("  Fix (#423)!", "fix-423"),
        ("ruff check --fix .", "ruff-check-fix"),
        ("Überprüfen", "berpr-fen"),
        ("\u212aelvin \u0130", "elvin"),
        ("???", "step-3"),
        ("", "step-3"),
        ("2026", "step-3"),
        ("None", "step-3"),
        ("a" * 63 + " b", "a" * 63),
        ("a" * 100, "a" * 64),
    ],
)
def test_slugs(title: str, word: str) -> None:
    assert slug(title, 3) == word


@given(st.text(), st.integers(1, 20_000))
def test_a_slug_is_an_id(title: str, number: int) -> None:
    assert id_fault(slug(title, number)) is None


@pytest.mark.parametrize("name", ["read_file", "odoo.read", "mcp:server-1.tool"])
def test_tool_names(name: str) -> None:
    assert name_fault("tool", name) is None


@pytest.mark.parametrize("name", ["оdoo_read", "a b", "", "rm;ls", "a\n"])
def test_not_tool_names(name: str) -> None:
    fault = name_fault("tool", name)
    assert fault is not None
    assert fault[0] == "E_NAME"
