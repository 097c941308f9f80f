"""Which kept outputs go, as a function of times and sizes."""

from __future__ import annotations

import pytest

from tests.words import MEGABYTE, Instant, KeptRun, RunId, Settings, outputs_to_remove

DAY = 86_400_000
NOW = Instant(1_000 * DAY)


def kept(name: str, days: int, *seals: str) -> KeptRun:
    return KeptRun(RunId(name), f"lineage/{name}", Instant(NOW - days * DAY), frozenset(seals))


RUNS = (kept("old", 40, "a", "shared"), kept("new", 2, "c"), kept("middle", 20, "b", "shared"))
SIZES = {"a": MEGABYTE, "b": MEGABYTE, "c": MEGABYTE, "shared": MEGABYTE, "elsewhere": MEGABYTE}


def gone(days: int = 0, mb: int = 0, needed: str = "", spared: str = "") -> dict[str, tuple[str, ...]]:
    found = outputs_to_remove(
        RUNS,
        frozenset(map(RunId, needed.split())),
        frozenset(spared.split()),
        SIZES,
        Settings(outputs_days=days, outputs_mb=mb),
        NOW,
    )
    assert all(one.size == len(one.seals) * MEGABYTE for one in found)
    return {one.run.run_id: one.seals for one in found}


@pytest.mark.parametrize(
    ("days", "mb", "expected"),
    [
        (0, 0, {}),
        (41, 0, {}),
        (40, 0, {"old": ("a",)}),
        (20, 0, {"old": ("a",), "middle": ("b", "shared")}),
        (1, 0, {"old": ("a",), "middle": ("b", "shared"), "new": ("c",)}),
        (0, 5, {}),
        (0, 4, {"old": ("a",)}),
        (0, 3, {"old": ("a",), "middle": ("b", "shared")}),
        (0, 1, {"old": ("a",), "middle": ("b", "shared"), "new": ("c",)}),
        (20, 4, {"old": ("a",), "middle": ("b", "shared")}),
        (41, 4, {"old": ("a",)}),
    ],
)
def test_the_oldest_goes_first_and_what_two_share_with_the_last(
    days: int, mb: int, expected: dict[str, tuple[str, ...]]
) -> None:
    assert gone(days, mb) == expected


def test_a_run_that_is_needed_keeps_all_of_its_own() -> None:
    assert gone(1, needed="middle") == {"old": ("a",), "new": ("c",)}
    assert gone(mb=1, needed="old") == {"middle": ("b",), "new": ("c",)}


def test_what_is_named_elsewhere_stays() -> None:
    assert gone(1, spared="b a") == {"middle": ("shared",), "new": ("c",)}


def test_what_ended_within_a_day_stays_however_much_it_is() -> None:
    runs = (kept("old", 2, "a"), kept("today", 0, "b"))
    found = outputs_to_remove(runs, frozenset(), frozenset(), SIZES, Settings(outputs_mb=1), NOW)
    assert [one.run.run_id for one in found] == ["old"]
