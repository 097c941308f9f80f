"""How much of what is dangerous is noticed, and that nothing dangerous counts as reading: over labelled commands."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.words import Risk, Settings, understanding

HERE = Path(__file__).parent
READ = understanding(Path("/home/kim/project"), Settings())


def matrix(name: str) -> Counter[tuple[str, str]]:
    """By label and risk, how many lines."""
    found: Counter[tuple[str, str]] = Counter()
    for line in (HERE / name).read_text().splitlines():
        one = json.loads(line)
        label = "risky" if one["risky"] else "reads" if one["reads"] else "plain"
        found[label, READ(one["command"]).risk.value] += 1
    return found


FILES = ("corpus.jsonl", "held_out.jsonl", "fresh.jsonl", "fresh_unread.jsonl", "fresh_two.jsonl")


@pytest.mark.parametrize("name", FILES)
def test_what_is_dangerous_is_noticed_and_never_called_reading(name):
    """The lines of `fresh_unread.jsonl` are the ones that nobody who works on the table has read."""
    found = matrix(name)
    risky = sum(count for (label, _), count in found.items() if label == "risky")
    assert found["risky", Risk.READS] == 0
    assert found["risky", Risk.RAISED] / risky >= 0.98, found


def test_what_is_harmless_is_seldom_raised():
    found = matrix("corpus.jsonl")
    harmless = {key: count for key, count in found.items() if key[0] != "risky"}
    raised = sum(count for (_, risk), count in harmless.items() if risk == Risk.RAISED)
    assert raised / sum(harmless.values()) < 0.02
