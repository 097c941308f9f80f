"""The region that shows how a run stands, compared with the texts in tests/golden/render/live, and its promises: no
line too wide, none too many, nothing in it that a terminal would act on."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.build import plan, step
from tests.history import replay
from tests.interfaces.golden import RENDER, check_golden
from tests.rows import each
from tests.words import (
    Ask,
    AttemptEnded,
    AttemptStarted,
    AttemptWaiting,
    Budget,
    BudgetReached,
    Channel,
    DoubtFound,
    ExecutorStarted,
    Instant,
    Line,
    Outcome,
    Plan,
    Principal,
    RunEvent,
    RunFinished,
    RunId,
    RunOpened,
    RunPaused,
    RunState,
    Settings,
    Settlement,
    StepId,
    StepState,
    WorkspaceIdentity,
    cells,
    frame,
    last_lines,
    limits,
    plan_id,
)

NOW = 1_800_000_000_000
KIM = Principal(name="kim", channel=Channel.TERMINAL)


def state_after(made: Plan, *events: RunEvent) -> RunState:
    opened = RunOpened(
        run_id=RunId("RUN-Q5ZKAAAAAAAAAAAA"),
        plan_id=plan_id(made),
        lineage="lineage/PLAN-H7TB",
        workspace=WorkspaceIdentity(id="WS-1", path="/w", device=1, inode=1),
        limits=limits(Settings()),
    )
    history = (opened, ExecutorStarted(epoch=1, pid=1, boot_id="boot"), *events)
    return replay(made, [(Instant(NOW), event) for event in history])


def started(name: str, attempt: int = 1) -> RunEvent:
    return AttemptStarted(step=StepId(name), attempt=attempt, key="")


def ended(name: str, to: StepState, *, attempt: int = 1, again_at: int | None = None) -> RunEvent:
    good = to in (StepState.PASSED, StepState.VERIFYING)
    outcome = Outcome(duration_ms=1, error=None if good else "F_STEP_FAILED", detail="" if good else "exit status 1")
    not_before = Instant(again_at) if again_at is not None else None
    return AttemptEnded(step=StepId(name), attempt=attempt, outcome=outcome, to=to, not_before=not_before)


MIXED = plan(
    step("fetch", needs=()),
    step("build", needs=()),
    step("docs", needs=(), contract="test -f docs"),
    step("flaky", needs=()),
    step("mail", needs=()),
    step("pay", needs=()),
    step("lock", needs=()),
    step("ship", needs=("build", "docs")),
    step("tell", needs=("ship",)),
    title="Release 2.0 ⚠️",
    concurrency=4,
)
MIXED_STATE = (
    *(started("fetch"), ended("fetch", StepState.PASSED)),
    started("build"),
    *(started("docs"), ended("docs", StepState.VERIFYING)),
    *(started("flaky"), ended("flaky", StepState.PENDING, again_at=NOW + 75_500)),
    *(started("mail"), ended("mail", StepState.ESCALATED)),
    *(started("pay"), DoubtFound(step=StepId("pay"), attempt=1, settle=Settlement.PERSON, reason="opaque")),
    *(started("lock"), AttemptWaiting(step=StepId("lock"), attempt=1, reason="the lock `db`, which RUN-B holds")),
)
TAILS = {StepId("build"): last_lines("compiling a\ncompiling b\n\x1b[31mwarning\x1b[0m: unused\n  12%\r  45%\r\n\n")}
MANY = plan(*(step(f"shard-{number}", needs=()) for number in range(1, 2001)), title="Many", concurrency=40)
CHAIN = plan(*(step(f"link-{number}") for number in range(1, 2001)), title="A chain")


def many(running: int) -> RunState:
    names = [one.id for one in MANY.steps]
    events = [event for name in names[:11] for event in (started(name), ended(name, StepState.PASSED))]
    return state_after(MANY, *events, *(started(name) for name in names[11 : 11 + running]))


def shown(state: RunState, columns: int, rows: int, tails: Mapping[StepId, Sequence[str]] = TAILS) -> list[Line]:
    return frame(state, tails, Instant(NOW + 72_400), columns, rows)


FRAMES = {
    "mixed": lambda: shown(state_after(MIXED, *MIXED_STATE), 100, 29),
    "low": lambda: shown(state_after(MIXED, *MIXED_STATE), 100, 8),
    "narrow": lambda: shown(state_after(MIXED, *MIXED_STATE), 32, 15),
    "tiny": lambda: shown(state_after(MIXED, *MIXED_STATE), 12, 3),
    "one-row": lambda: shown(state_after(MIXED, *MIXED_STATE), 40, 1),
    "many": lambda: shown(many(4), 100, 29),
    "many-at-once": lambda: shown(many(40), 100, 12),
    "chain": lambda: shown(state_after(CHAIN, started("link-1")), 100, 29),
    "paused": lambda: shown(state_after(MIXED, RunPaused(by=KIM, reason="later")), 100, 10),
}


def text_of(line: Line) -> str:
    return "".join(text for text, _ in line)


@each("name", FRAMES)
def test_golden(name: str) -> None:
    check_golden(f"live/{name}.txt", (text_of(line) for line in FRAMES[name]()))


def test_no_golden_text_is_left_over() -> None:
    assert {Path(file).stem for file in (RENDER / "live").glob("*.txt")} == set(FRAMES)


HOSTILE = st.text(alphabet=st.sampled_from("ab \x1b[2J\x9b\r\t\n\u202e\u200b界👩😀é\u0301‹…"), max_size=300)


@given(st.integers(1, 130), st.integers(1, 60), HOSTILE, HOSTILE, st.integers(0, 40))
def test_no_frame_is_larger_than_its_region_or_steers_the_terminal(
    columns: int, rows: int, title: str, output: str, running: int
) -> None:
    hostile = plan(*MIXED.steps, title=title or "x", concurrency=4)
    for state in (state_after(hostile, *MIXED_STATE), many(running)):
        tails = {step_id: last_lines(output) for step_id in state.steps}
        lines = shown(state, columns, rows, tails)
        assert 1 <= len(lines) <= rows
        for line in lines:
            text = text_of(line)
            assert cells(text) <= columns
            assert not [one for one in text if unicodedata.category(one) in ("Cc", "Zl", "Zp")] and "\u202e" not in text


def test_steps_that_were_never_begun_are_counted_apart_from_those_that_failed() -> None:
    made = plan(step("a"), step("b"), step("c"))
    ended_badly = AttemptEnded(
        step=StepId("a"),
        attempt=1,
        outcome=Outcome(duration_ms=1, error="F_STEP_FAILED", detail="exit status 1"),
        to=StepState.FAILED,
        aborts=True,
    )
    state = state_after(made, started("a"), ended_badly, RunFinished(status="failed", reason=""))
    (bar,) = [line for line in map(text_of, shown(state, 100, 20)) if "3/3" in line]
    assert "1 failed" in bar and "2 cancelled" in bar and "3 failed" not in bar


def test_what_is_not_shown_is_counted() -> None:
    lines = [text_of(line) for line in FRAMES["many"]()]
    named = sum(line.startswith("· shard-") for line in lines)
    (more,) = (
        int(found[1].replace(",", "")) for line in lines if (found := re.match(r"… and ([\d,]+) more wait", line))
    )
    assert named + more == 2000 - 11 - 4
    assert sum(line.startswith("▸") for line in lines) == 4


def test_the_last_lines_of_an_output_are_those_that_say_something() -> None:
    assert last_lines("one\ntwo\nthree\n\n  \n") == ("two", "three")
    assert last_lines(" 10%\r 20%\r") == ("20%",)
    assert last_lines("a\r\nb\r\n") == ("a", "b")
    assert last_lines("\x1b[2J\x07") == ("‹U+1B›[2J‹U+7›",)
    assert last_lines("\n\r\n") == ()


def test_a_question_of_the_plan_and_a_reached_budget_say_how_they_are_answered() -> None:
    asking = plan(
        step("words", needs=(), action=Ask(question="Which?")),
        *(step(f"late-{number}", needs=("words",)) for number in range(20)),
        step("one", needs=()),
        budget=Budget(attempts=2),
    )
    events = (
        *(started("words"), AttemptWaiting(step=StepId("words"), attempt=1, reason="an answer to: Which?")),
        *(started("one"), ended("one", StepState.PENDING)),
        BudgetReached(
            step=StepId(".budget"), what="attempts", spent=2, reserved=0, limit=2, wanted=1, wanted_by=StepId("one")
        ),
    )
    lines = [text_of(line) for line in shown(state_after(asking, *events), 100, 6)]
    assert "? .budget: is reached and waits for a person: ordain answer RUN-Q5ZKAAAAAAAAAAAA/.budget" in lines
    lines = [text_of(line) for line in shown(state_after(asking, *events[:2]), 100, 6)]
    assert "? words: waits for a person: ordain answer RUN-Q5ZKAAAAAAAAAAAA/words  Which?" in lines
