"""A run foretold: waves, waiting, what is decided later, how long."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ordain.core.plan.canonical import action_digest, plan_id
from ordain.core.plan.command import decided_later
from ordain.core.plan.model import ForEach, Plan, Step
from ordain.core.report.simulation import Looked, Simulation, simulate
from ordain.core.run.step_event import Verdict
from tests.build import plan, step


def simulated(*steps: Step, concurrency: int = 4, usual: Any = None, looked: Any = None) -> Simulation:
    made = plan(*steps)
    return simulate(made, plan_id(made), concurrency=concurrency, looked=looked or {}, usual=usual or {})


def took(made: Plan, **milliseconds: int) -> dict[str, list[int]]:
    return {action_digest(one.action): [milliseconds[one.id]] for one in made.steps}


def test_steps_are_in_the_wave_after_the_last_one_they_wait_for() -> None:
    seen = simulated(
        step("a", needs=()),
        step("b", needs=()),
        step("c", needs=("a",)),
        step("d", tool="write_file", args={"path": "x", "content": "${c.output}"}, needs=("b",)),
    )
    assert seen.waves == (("a", "b"), ("c",), ("d",))
    assert {one.id: one.waits_for for one in seen.steps}["d"] == ("b", "c")
    assert seen.steps[3].decided_later == {"content": ("${c.output}",)}


def test_steps_in_a_circle_never_begin() -> None:
    seen = simulated(step("a", needs=("b",)), step("b", needs=("a",)), step("c", needs=()), usual={})
    assert [one.wave for one in seen.steps] == [0, 0, 1]


@pytest.mark.parametrize(
    ("concurrency", "expected"),
    [(1, 1 + 2 + 4 + 8), (2, 1 + 2 + 8), (4, 8 + 1)],
)
def test_how_long_it_takes(concurrency: int, expected: int) -> None:
    """a (1), then b (2), c (4) and d (8) at once, as far as may be."""
    steps = (step("a", needs=()), step("b", needs=("a",)), step("c", needs=("a",)), step("d", needs=("a",)))
    usual = took(plan(*steps), a=1, b=2, c=4, d=8)
    assert simulated(*steps, concurrency=concurrency, usual=usual).expected_ms == expected


def test_what_is_not_known_is_not_claimed() -> None:
    steps = (step("a", contract="test -s x"), step("b"))
    usual = {action_digest(steps[0].action): [30, 10, 20]}
    seen = simulated(*steps, usual=usual)
    assert (seen.expected_ms, seen.unknown_durations) == (None, 1)
    assert [one.usually_ms for one in seen.steps] == [20, None]
    assert [one.contract for one in seen.steps] == [Looked(), None]
    held = simulated(*steps, looked={"a": Looked(verdict=Verdict.HELD)})
    assert held.steps[0].contract == Looked(verdict=Verdict.HELD)


def test_a_repeated_step_is_decided_by_its_list() -> None:
    one = replace(
        step("a", tool="t", args={"x": "${item}", "y": "$${b.output}", "z": "at ${data.k} and ${b.exit_code}"}),
        for_each=ForEach(source="${b.output}", max=3),
    )
    assert decided_later(one) == {"z": ("${data.k}", "${b.exit_code}"), "for_each": ("${b.output}",)}
