""" "None ready" is never "complete": a run ends well only when every step passed or was skipped, and its report names
each that did not, with the exit status to match.

The second seed's scheduler gets several of these wrong: it looks for the next step in the plan as it was before the
step that just ended, only forwards, takes a skipped need for an unmet one, and calls it complete when it finds none.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from tests.build import step
from tests.rows import each
from tests.scenario import Scenario
from tests.words import Abort, Continue, Escalate, Retry, Skip, Step, Style, carry_out

AUTH = (
    step("analyse", needs=()),
    step("middleware", needs=()),
    step("login", needs="middleware"),
    step("tests", needs="login"),
)
"""The second seed's own example: when `middleware` ends, its scheduler finds nothing that could follow."""


def shown(life: Scenario) -> tuple[int, list[str]]:
    """The exit status of the command line for how this run ended, and what it says."""
    lines: list[str] = []
    session = SimpleNamespace(
        json=False,
        terminal=False,
        style=Style(False),
        run=asyncio.run,
        view=None,
        say=lines.extend,
        notices=lambda problems: None,
    )

    async def report():
        return life.report

    return carry_out(session, report()), lines  # type: ignore[arg-type]


def case(name: str, steps: tuple[Step, ...], ends: str, *states: str, failing: str = "", **fields):
    return pytest.param(steps, failing, fields, ends, states, id=name)


CASES = [
    case("the second seed's example", AUTH, "completed", "passed", "passed", "passed", "passed"),
    case(
        "the second seed's example, one failed",
        AUTH,
        "failed",
        *("passed", "passed", "failed", "cancelled"),
        failing="login",
        on_failure=Continue(),
    ),
    case(
        "the second seed's example, one after the other",
        AUTH,
        "completed",
        *["passed"] * 4,
        concurrency=1,
    ),
    case(
        "a need that comes later",
        (step("a", needs="c"), step("b", needs=()), step("c", needs="b")),
        "completed",
        *["passed"] * 3,
    ),
    case(
        "the first needs the last, which is the last to end",
        (step("a", needs="c"), step("b", needs=()), step("c", needs="b")),
        "completed",
        *["passed"] * 3,
        concurrency=1,
    ),
    case(
        "a need that comes later and fails",
        (step("a", needs="c"), step("b", needs=()), step("c", needs=(), on_failure=Continue())),
        "failed",
        *("cancelled", "passed", "failed"),
        failing="c",
    ),
    case(
        "everything backwards",
        tuple(step(name, needs=need) for name, need in zip("abcd", ("b", "c", "d", ()), strict=True)),
        "completed",
        *["passed"] * 4,
    ),
    case(
        "a skipped need",
        (step("a", needs=(), on_failure=Skip()), step("b", needs="a"), step("c", needs="b")),
        "completed",
        *("skipped", "passed", "passed"),
        failing="a",
    ),
    case(
        "a skipped need that comes later",
        (step("a", needs="b"), step("b", needs=(), on_failure=Skip())),
        "completed",
        *("passed", "skipped"),
        failing="b",
    ),
    case(
        "everything skipped",
        (step("a"), step("b"), step("c")),
        "completed",
        *["skipped"] * 3,
        failing="a b c",
        on_failure=Skip(),
    ),
    case(
        "one need skipped, one failed",
        (step("a", needs=(), on_failure=Skip()), step("b", needs=()), step("c", needs=("a", "b"))),
        "failed",
        *("skipped", "failed", "cancelled"),
        failing="a b",
        on_failure=Continue(),
    ),
    case(
        "all failed and nothing ready",
        (step("a", needs=()), step("b", needs=()), step("c", needs=())),
        "failed",
        *["failed"] * 3,
        failing="a b c",
        on_failure=Continue(),
    ),
    case(
        "the first of a chain failed",
        (step("a"), step("b"), step("c"), step("d")),
        "failed",
        *("failed", "cancelled", "cancelled", "cancelled"),
        failing="a",
        on_failure=Continue(),
    ),
    case(
        "one of two branches failed",
        (step("a", needs=()), step("b", needs="a"), step("c", needs="a"), step("d", needs=("b", "c"))),
        "failed",
        *("passed", "failed", "passed", "cancelled"),
        failing="b",
        on_failure=Continue(),
    ),
    case(
        "only the last failed",
        (step("a"), step("b")),
        "failed",
        *("passed", "failed"),
        failing="b",
        on_failure=Continue(),
    ),
    case(
        "tries ran out",
        (step("a"), step("b")),
        "failed",
        *("failed", "cancelled"),
        failing="a",
        on_failure=Retry(max_attempts=3, then=Continue()),
    ),
    case("aborted", (step("a"), step("b")), "failed", "failed", "cancelled", failing="a", on_failure=Abort()),
    case(
        "a person is asked and nothing else is ready",
        (step("a", needs=()), step("b", needs="a"), step("c", needs=())),
        "waiting",
        *("escalated", "pending", "passed"),
        failing="a",
        on_failure=Escalate(),
    ),
    case(
        "a person is asked about the last one",
        (step("a"), step("b", on_failure=Escalate())),
        "waiting",
        *("passed", "escalated"),
        failing="b",
    ),
]
STATUSES = {"completed": 0, "failed": 1, "waiting": 3}


@each("steps, failing, fields, ends, states", CASES)
def test_none_ready_is_never_complete(steps, failing, fields, ends, states):
    life = Scenario(*steps, **fields).script(**dict.fromkeys(failing.split(), 1)).approve().run()
    expected = {one.id: state for one, state in zip(steps, states, strict=True)}
    assert (life.status(), life.states()) == (ends, expected)
    assert life.report is not None
    assert {one.id: one.state.value for one in life.report.steps} == expected, "the report names every step"
    assert all(one.waiting for one in life.report.steps if one.state in ("pending", "escalated"))
    status, lines = shown(life)
    assert status == STATUSES[ends]
    for name, state in expected.items():
        assert [line for line in lines if f" {state} " in f"{line} " and f" {name} " in f"{line} "], (name, lines)


def test_a_step_in_doubt_is_not_complete_either():
    life = Scenario(step("a"), step("mail")).approve()

    async def dies(command):
        life.world.dead = True
        life.world.boundary()

    life.script(mail=dies).run().resume()
    status, lines = shown(life)
    assert (life.status(), status) == ("waiting", 3)
    assert [line for line in lines if "in_doubt" in line and "mail" in line]
