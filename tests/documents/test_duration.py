"""Durations: exact spellings only, and writing is the inverse of reading."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordain.core.plan.words import read_duration, write_duration
from tests.rows import each


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [("250ms", 250), ("30s", 30_000), ("10m", 600_000), ("2h", 7_200_000), ("1d", 86_400_000), ("0s", 0)],
)
def test_read(text: str, duration_ms: int) -> None:
    assert read_duration(text) == duration_ms
    assert write_duration(duration_ms) == text


@each(
    "text",
    ["", "soon", "10", "s", "1.5s", "-1s", "+1s", "10 s", "10S", "1h30m", "010s", "１s", "9" * 5000 + "s", "1s\n"],
)
def test_not_a_duration(text: str) -> None:
    assert read_duration(text) is None


@given(st.integers(0, 10**15))
def test_writing_is_the_inverse(duration_ms: int) -> None:
    assert read_duration(write_duration(duration_ms)) == duration_ms
