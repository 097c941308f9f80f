"""What is told of a run besides its events, and its step log: a projection that can disturb nothing."""

from __future__ import annotations

import asyncio
import json
from unittest.mock import patch

import pytest

from ordain.engine import follow as following
from tests.build import step
from tests.patience import eventually_in_loop
from tests.scenario import KIM, Scenario
from tests.words import (
    AttemptEnded,
    AttemptOutput,
    Command,
    Finished,
    Holder,
    Instant,
    Recorded,
    RunReport,
    StepId,
    Told,
    read_output,
    to_wire,
    wire_line,
)


class Remembering(list[Told]):
    """An observer that remembers."""

    def __call__(self, told: Told) -> None:
        self.append(told)

    @property
    def outputs(self) -> list[tuple[str, int, str]]:
        return [(one.step, one.attempt, one.tail) for one in self if isinstance(one, AttemptOutput)]


def writing(life: Scenario, *written: bytes) -> None:
    """Have `do a` write this bit by bit, each once somebody has looked at the one before; where there is nothing to
    write it waits until somebody looked in vain."""
    looks = {True: 0, False: 0}
    asked = life.shell.written

    def look(mark: str, most: int) -> tuple[bytes, int]:
        looks[most > 0] += 1
        return asked(mark, most)

    async def write(command: Command) -> Finished:
        so_far = life.shell.so_far
        for data in written:
            so_far[command.mark] = so_far.get(command.mark, b"") + data
            until = looks[bool(data)] + (1 if data else 2)
            while looks[bool(data)] < until:
                await asyncio.sleep(0)
        whole = so_far.pop(command.mark)
        return Finished(duration_ms=1, exit_code=0, output=whole, output_bytes=len(whole))

    life.shell.written = look  # type: ignore[method-assign]
    life.shell.script["do a"] = write


def committed(life: Scenario) -> tuple[RunReport, Remembering]:
    told = Remembering()
    life.approve()
    with patch.object(following, "LOOK_S", 0.005):
        return asyncio.run(life.app.runs.commit(str(life.plan_id), KIM, told)), told


def log_of(life: Scenario, report: RunReport) -> list[bytes]:
    data = life.logs.logs[report.run_id]
    assert data.endswith(b"\n")
    return data.splitlines()


def events_in(lines: list[bytes]) -> list[object]:
    return [json.loads(line) for line in lines if read_output(line) is None]


def recorded(life: Scenario, report: RunReport) -> list[object]:
    return [json.loads(json.dumps(to_wire(one))) for one in life.app.plans.log(report.run_id)]


def test_what_a_step_writes_is_told_while_it_runs_and_only_when_there_is_more() -> None:
    life = Scenario(step("a", run="do a", needs=()))
    writing(life, b"one\n", b"two\n", b"")
    report, told = committed(life)
    assert report.status == "completed"
    assert told.outputs == [("a", 1, "one\n"), ("a", 1, "one\ntwo\n")]


def test_no_secret_is_told_also_where_only_its_beginning_has_come() -> None:
    life = Scenario(step("a", run="do a", needs=()))
    life.secrets.values = {"DEPLOY_TOKEN": "correct-horse-battery"}
    writing(life, b"the word is correct-h", b"orse-battery", b" \xc3", b"\xa4\n")
    _, told = committed(life)
    assert [tail for _, _, tail in told.outputs] == [
        "the word is ",
        "the word is [redacted DEPLOY_TOKEN]",
        "the word is [redacted DEPLOY_TOKEN] ",
        "the word is [redacted DEPLOY_TOKEN] ä\n",
    ]


def test_the_log_is_what_the_ledger_says_and_the_outputs_between() -> None:
    life = Scenario(step("a", run="do a", needs=()), step("b", run="do b", contract="check b"))
    writing(life, b"one\n")
    report, told = committed(life)
    lines = log_of(life, report)
    assert events_in(lines) == recorded(life, report)
    assert [line for line in lines if read_output(line) is not None] == [
        wire_line(one).rstrip() for one in told if isinstance(one, AttemptOutput)
    ]


def test_a_line_of_the_log_is_the_event_as_robots_see_it() -> None:
    life = Scenario(step("a", run="do a", needs=()))
    report, _ = committed(life)
    for one in life.app.plans.log(report.run_id):
        assert json.loads(wire_line(one)) == json.loads(json.dumps(to_wire(one)))


def test_the_next_executor_goes_on_with_the_log_and_adds_what_it_missed() -> None:
    life = Scenario(step("a", run="do a", needs=(), on_failure=None), step("b", run="do b"))
    life.approve().crash_at(6).run()
    assert life.crashed
    (run_id,) = life.logs.logs
    life.logs.logs[run_id] += wire_line(
        AttemptOutput(at=Instant(1), stream=f"run/{run_id}", step=StepId("a"), attempt=1, tail="its last words")
    )
    life.logs.logs[run_id] += b'{"seq": 4, "half a li'
    life.resume()
    assert life.report is not None
    if life.report.questions:
        asyncio.run(life.app.answers.answer(life.report.questions[0].item, "happened", KIM))
        life.resume()
    lines = log_of(life, life.report)
    assert events_in(lines) == recorded(life, life.report)
    assert b"its last words" in b"".join(lines), "nothing else tells what it wrote before the crash"


@pytest.mark.parametrize(
    "forged", [b"", b"nonsense\n", b'{"seq":1,"head":"00"}\n', b'{"seq":-5,"head":"x"}\n', b"\xff\n"]
)
def test_a_log_that_is_not_ours_is_written_anew(forged: bytes) -> None:
    life = Scenario(step("a", run="do a", needs=()), step("b", run="do b"))
    life.approve().crash_at(6).run()
    (run_id,) = life.logs.logs
    life.logs.logs[run_id] = forged
    life.resume()
    assert life.report is not None
    assert events_in(log_of(life, life.report)) == recorded(life, life.report)


def test_a_run_that_is_ended_by_somebody_else_has_its_end_in_the_log() -> None:
    life = Scenario(step("a", run="do a", needs=()), step("b", run="do b"))
    life.approve().crash_at(6).run()
    (run_id,) = life.logs.logs
    report = asyncio.run(life.app.runs.cancel_run(run_id, KIM))
    assert report.status == "cancelled"
    assert events_in(log_of(life, report)) == recorded(life, report)


def test_a_full_disk_does_not_disturb_the_run_and_what_was_missed_is_added_later() -> None:
    life = Scenario(step("a", run="do a", needs=()), step("b", run="do b"))
    life.logs.full = True

    async def makes_room(command: Command) -> Finished:
        await eventually_in_loop(lambda: life.logs.refused, "a refused line", every_s=0)
        life.logs.full = False
        return Finished(duration_ms=1, exit_code=0)

    life.shell.script["do b"] = makes_room
    report, _ = committed(life)
    assert report.status == "completed"
    assert events_in(log_of(life, report)) == recorded(life, report)
    life = Scenario(step("a", run="do a", needs=()))
    life.logs.full = True
    report, _ = committed(life)
    assert (report.status, life.logs.logs) == ("completed", {})


def test_a_log_grows_no_longer_than_it_may() -> None:
    life = Scenario(step("a", run="do a", needs=()), step("b", run="do b"))
    writing(life, b"one\n", b"two\n")
    with patch.object(following, "OUTPUTS_BYTES_MAX", 10):
        report, told = committed(life)
    assert len(told.outputs) == 2, "who watches is told all the same"
    lines = log_of(life, report)
    assert len(lines) - len(events_in(lines)) <= 1, "the first may come before the log is that long"
    life = Scenario(step("a", run="do a", needs=()), step("b", run="do b"))
    with patch.object(following, "LOG_BYTES_MAX", 1000):
        report, _ = committed(life)
    assert (report.status, len(life.logs.logs.get(report.run_id, b"")) <= 1000) == ("completed", True)


def test_who_watches_from_elsewhere_is_told_what_the_log_says_of_this_run_and_nothing_else() -> None:
    life = Scenario(step("a", run="do a", needs=()))
    seen = Remembering()

    async def both() -> None:
        async def write(command: Command) -> Finished:
            run_id = command.mark.split("/")[1]
            life.shell.so_far[command.mark] = b"one\n"
            await eventually_in_loop(
                lambda: b"attempt_output" in life.logs.logs.get(run_id, b""), "output in the log", every_s=0
            )
            other = AttemptOutput(at=Instant(1), stream="run/RUN-OTHER", step=StepId("a"), attempt=1, tail="forged")
            life.logs.logs[run_id] += wire_line(other) + b'{"type":"attempt_output","tail":7}\n'
            life.lock.others[run_id] = Holder(name="an executor")
            watching = asyncio.create_task(life.new_app().runs.watch(run_id, seen))
            await eventually_in_loop(lambda: seen.outputs, "output", every_s=0)
            watching.cancel()
            life.lock.others.clear()
            return Finished(duration_ms=1, exit_code=0)

        life.shell.script["do a"] = write
        with patch.object(following, "LOOK_S", 0.005):
            await life.app.runs.commit(str(life.plan_id), KIM)

    life.approve()
    asyncio.run(both())
    assert seen.outputs == [("a", 1, "one\n")]
    assert not any(isinstance(one, Recorded) and isinstance(one.event, AttemptEnded) for one in seen)
