"""A run that is followed: drawn on a terminal, one line a change elsewhere, JSON for robots, and its step log."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

import pytest

from ordain.interfaces.cli import live
from tests.build import plan, step
from tests.interfaces.terminal import Background
from tests.interfaces.test_frame import NOW, state_after
from tests.interfaces.workspace import Workspace, run_id
from tests.patience import eventually, eventually_in_loop, hang_guard, let_pass_in_loop
from tests.words import (
    AttemptEnded,
    AttemptOutput,
    AttemptStarted,
    Instant,
    LiveView,
    Outcome,
    Plan,
    Recorded,
    StepId,
    StepState,
    Style,
    find_workspace,
)

TALKS = """\
# Talk

## Steps

### 1. Talks

**run:** echo $$ > pid; echo first words; for i in $(seq 1500); do test -f go && break; sleep 0.02; done; test -f go
"""


# --- The view --------------------------------------------------------------------------------------------------------


class Pipe:
    """What a view writes, and where."""

    def __init__(self, stream: TextIO, reading: int) -> None:
        self.stream, self._reading = stream, reading

    def text(self) -> str:
        """What was written since this was asked last."""
        data = b""
        while True:
            try:
                part = os.read(self._reading, 1 << 16)
            except BlockingIOError:
                return data.decode()
            if not part:
                return data.decode()
            data += part


@contextmanager
def pipe() -> Iterator[Pipe]:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with os.fdopen(writing, "w", encoding="utf-8") as stream:
        yield Pipe(stream, reading)
    os.close(reading)


class Feed:
    """A view of a run of so many steps, and what is told of it."""

    def __init__(self, made: Plan, stream: TextIO) -> None:
        self._state, self.now = state_after(made), NOW / 1000
        self._seq = self._state.size
        self.view = LiveView(stream, Style(False), lambda _: self._state, colour=False, clock=lambda: self.now)

    def tell(self, event: AttemptStarted | AttemptEnded) -> None:
        self._seq += 1
        self.view(Recorded(stream="run/RUN-A", seq=self._seq, at=Instant(NOW), event=event, head=""))

    def run(self, name: str, to: StepState = StepState.PASSED) -> None:
        self.tell(AttemptStarted(step=StepId(name), attempt=1, key=""))
        bad = to is StepState.FAILED
        outcome = Outcome(duration_ms=1, error="F_STEP_FAILED" if bad else None, detail="exit status 1" if bad else "")
        self.tell(AttemptEnded(step=StepId(name), attempt=1, outcome=outcome, to=to))


def steps(count: int) -> Plan:
    return plan(*(step(f"s{number}", needs=()) for number in range(count)), concurrency=8)


def test_of_a_few_steps_each_gets_a_line_that_stays_and_of_many_only_what_went_wrong() -> None:
    async def followed(count: int) -> str:
        with pipe() as out:
            feed = Feed(steps(count), out.stream)
            with feed.view:
                for number in range(10):
                    feed.run(f"s{number}", StepState.FAILED if number == 3 else StepState.PASSED)
            return out.text()

    few, many = asyncio.run(followed(10)), asyncio.run(followed(2000))
    assert few.splitlines() == [
        "  ✗ s3: exit status 1 → failed" if number == 3 else f"  ✓ s{number} (0.0 s)" for number in range(10)
    ]
    assert many == "  ✗ s3: exit status 1 → failed\n"


def test_a_thousand_failures_do_not_scroll_the_terminal_away() -> None:
    async def followed() -> str:
        with pipe() as out:
            feed = Feed(steps(2000), out.stream)
            with feed.view:
                for number in range(1000):
                    feed.run(f"s{number}", StepState.FAILED)
                feed.now += 2
                shown = await eventually_in_loop(out.text, "the first drawing")
            return shown + out.text()

    text = asyncio.run(followed())
    assert text.count("✗") == live.LINES_A_SECOND
    assert "… and 990 more like that; the report names them" in text
    assert "1,000 failed" in text


def test_it_is_drawn_no_more_often_than_ten_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    async def followed() -> int:
        with pipe() as out:
            feed = Feed(steps(2000), out.stream)
            now = 0.0
            monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
            with feed.view:
                for number in range(500):
                    feed.run(f"s{number}")
                    now += 0.001
                    for _ in range(3):  # what is due is done
                        await asyncio.sleep(0)
                drawn = out.text().count("\x1b[?2026h")
            monkeypatch.undo()
            return drawn

    assert 1 <= asyncio.run(followed()) <= 0.5 / live.APART_S


@hang_guard
def test_a_terminal_that_takes_nothing_holds_nobody_up() -> None:
    async def followed() -> None:
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        while True:
            try:
                os.write(writing, b"x" * 65536)
            except BlockingIOError:
                break
        os.set_blocking(writing, True)
        with suppress(BrokenPipeError), os.fdopen(writing, "w", encoding="utf-8") as stream:
            feed = Feed(steps(100), stream)
            feed.run("s0", StepState.FAILED)
            await let_pass_in_loop(live.FIRST_S + 0.2)
            os.close(reading)
            with feed.view:  # and one that is gone is no error
                feed.run("s1", StepState.FAILED)

    asyncio.run(followed())


def test_the_output_of_another_attempt_is_not_shown_under_this_one() -> None:
    async def followed(attempt: int) -> str:
        with pipe() as out:
            feed = Feed(steps(3), out.stream)
            with feed.view:
                feed.tell(AttemptStarted(step=StepId("s0"), attempt=1, key=""))
                feed.view(
                    AttemptOutput(at=Instant(NOW), stream="run/RUN-A", step=StepId("s0"), attempt=attempt, tail="words")
                )
                return await eventually_in_loop(out.text, "the first drawing")

    assert "│ words" in asyncio.run(followed(1))
    assert "│ words" not in asyncio.run(followed(2))


# --- On the command line ---------------------------------------------------------------------------------------------


def talking(workspace: Workspace) -> str:
    """A run in the background whose step has said something and is at work until `go` is there."""
    workspace.write("talks.plan.md", TALKS)
    done = workspace.ordain("commit", "--detach", workspace.approved("talks.plan.md"))
    run = run_id(done.out)
    log = workspace.path / ".ordain/runs" / f"{run}.jsonl"
    eventually(lambda: log.exists() and "first words" in log.read_text(), "the output in the log")
    return run


@pytest.mark.slow
def test_robots_are_told_what_a_step_writes(workspace: Workspace) -> None:
    run = talking(workspace)
    with Background("watch", "--json", run, cwd=workspace.path) as watching:
        watching.expect_printed('"attempt_output"')
        workspace.write("go", "")
        done = watching.end()
    lines = [json.loads(line) for line in done.out.splitlines()][:-1]
    (said,) = (line for line in lines if line["type"] == "attempt_output")
    assert {**said, "at": 0} == {
        "type": "attempt_output",
        "at": 0,
        "stream": f"run/{run}",
        "step": "talks",
        "attempt": 1,
        "tail": "first words\n",
    }
    logged = json.loads(workspace.ordain("log", "--json", run).out)["data"]["events"]
    assert [line for line in lines if line["type"] != "attempt_output"] == logged, "it is in no chain"


@pytest.mark.slow
def test_the_step_log_agrees_with_the_ledger(workspace: Workspace) -> None:
    run = talking(workspace)
    workspace.write("go", "")
    assert workspace.ordain("watch", run).status == 0
    log = workspace.path / ".ordain/runs" / f"{run}.jsonl"
    logged = json.loads(workspace.ordain("log", "--json", run).out)["data"]["events"]

    def events() -> list[object]:
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        return [line for line in lines if line["type"] != "attempt_output"]

    eventually(lambda: events() == logged, "the end of the run in its log")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    log.unlink()
    assert workspace.ordain("show", run).status == 0, "and deleting it harms nothing"


def test_elsewhere_than_on_a_terminal_there_is_one_line_a_change(workspace: Workspace) -> None:
    _, done = workspace.started("small.plan.md")
    assert done.err.splitlines() == [
        "  ▸ echo-one-effects",
        *(line for line in done.err.splitlines() if line.startswith("  ✓ echo-one")),
        "  ▸ echo-two-effects",
        *(line for line in done.err.splitlines() if line.startswith("  ✓ echo-two")),
    ]
    assert "\x1b" not in done.out + done.err


def test_a_step_log_makes_no_workspace_of_a_directory(workspace: Workspace) -> None:
    inside = workspace.path / "inside"
    inside.mkdir()
    workspace.started("small.plan.md")
    (workspace.path / ".ordain/here").unlink()
    assert [path.name for path in (workspace.path / ".ordain").iterdir()] == ["runs"]
    assert find_workspace(inside) != workspace.path
    (workspace.path / ".ordain/plans").mkdir()
    assert find_workspace(inside) == workspace.path
