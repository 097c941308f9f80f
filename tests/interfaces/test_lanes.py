"""The drawing says exactly what the plan says: read back from its characters, it gives every need and no other."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordain.core.lint.waves import Needs, reading_order
from ordain.core.plan.value import StepId
from ordain.interfaces.view.lanes import drawn, lanes

UP, DOWN = set("│├┤┼╰╯"), set("│├┤┼╭╮")
SIDEWAYS = set("─→←")
MARK = "○"


@st.composite
def graphs(draw: st.DrawFn) -> Needs:
    """Steps that wait for others, written in any order."""
    count = draw(st.integers(0, 14))
    names = [StepId(f"s{number}") for number in range(count)]
    needs = {
        name: tuple(draw(st.lists(st.sampled_from(names[:number]), max_size=4, unique=True))) if number else ()
        for number, name in enumerate(names)
    }
    return {name: needs[name] for name in draw(st.permutations(names))}


def read_back(needs: Needs) -> list[tuple[str, str]]:
    """The pairs that a reader of the characters finds: who waits for whom. Nothing but the characters, and which step
    stands in which row, is looked at."""
    sources: dict[int, set[str]] = {}
    found: list[tuple[str, str]] = []
    above = ""
    for row in drawn(needs):
        text = row.text(MARK)
        end = next((at for at, character in enumerate(text) if character in "→←"), None)
        arriving: set[str] | None = None
        if end is not None:
            step = -1 if text[end] == "→" else 1
            start = end
            while text[start + step] in SIDEWAYS | {"┼"}:
                start += step
            start, end = start + step, end - step
            assert (start % 2, end % 2) == (0, 0)
            arriving = sources[start]
        column = text.find(MARK)
        if row.step is None:
            assert column == -1
        else:
            from_above = column < len(above) and (above[column] in DOWN or above[column] == MARK)
            if arriving is None and from_above:
                arriving = sources[column]
            found += [(source, row.step) for source in arriving or ()]
            sources[column] = {row.step}
        if end is not None and end != column:
            assert arriving is not None
            sources[end] = (sources[end] if text[end] in UP else set()) | arriving
        check_joined(above, text)
        above = text
    return found


def check_joined(above: str, below: str) -> None:
    """Every line that leaves a row at the bottom goes on in the next, and none begins in the air."""
    for column in range(0, max(len(above), len(below)), 2):
        upper, lower = above[column : column + 1], below[column : column + 1]
        if lower in UP and lower:
            assert upper in DOWN | {MARK} and upper, (above, below)
        if upper in DOWN and upper:
            assert lower in UP | {MARK} and lower, (above, below)


@given(graphs())
def test_every_need_is_drawn_exactly_once_and_nothing_else_is(needs: Needs):
    wanted = sorted((need, step) for step, wanted in needs.items() for need in wanted)
    assert sorted(read_back(needs)) == wanted
    pairs = Counter((source, target) for lane in lanes(needs) for source in lane.sources for target in lane.targets)
    assert sorted(pairs.elements()) == wanted


@given(graphs())
def test_every_step_has_a_row_after_what_it_waits_for(needs: Needs):
    rows = [row.step for row in drawn(needs) if row.step is not None]
    assert rows == reading_order(needs)
    for number, step in enumerate(rows):
        assert set(needs[step]) <= set(rows[:number])


@pytest.mark.parametrize(
    ("needs", "picture"),
    [
        ("a b:a c:b", ["○ a", "○ b", "○ c"]),
        ("a b", ["○ a", "", "○ b"]),
        ("a b:a c:a d:b,c", ["○ a", "├→○ b", "○ │ c", "╰→┤", "  ○ d"]),
        ("a b c:a,b", ["○ a", "│ ○ b", "├←╯", "○ c"]),
        ("a b c:a d:b e:a,b", ["○ a", "├→╮", "│ │ ○ b", "│ ├←┤", "○ │ │ c", "  │ ○ d", "  ○   e"]),
    ],
)
def test_small_drawings(needs: str, picture: list[str]):
    pairs = (word.partition(":") for word in needs.split())
    graph = {StepId(step): tuple(StepId(need) for need in wanted.split(",") if need) for step, _, wanted in pairs}
    assert [f"{row.text(MARK)} {row.step or ''}".rstrip() for row in drawn(graph)] == picture
