"""`ordain stats`: what people and robots are told of how plans and runs went."""

from __future__ import annotations

import os
import re
import unicodedata
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.interfaces.golden import check_golden
from tests.interfaces.test_robot import answered, refused
from tests.interfaces.workspace import Workspace
from tests.words import (
    Contracts,
    Decisions,
    Doubts,
    Failure,
    Instant,
    KindTime,
    MissingProgram,
    Part,
    Plans,
    Retries,
    Runs,
    Statistics,
    StepCount,
    StepId,
    StepTime,
    Style,
    bar,
    packed,
    shares,
    statistics_lines,
    time_of,
)

PLAIN, COLOUR = Style(False), Style(True)
DAY = 86_400_000
BEGIN = Instant(1_800_000_000_000)


def step(name: str, plan: str, kind: str, failures: int = 0, **seconds: float) -> StepTime:
    time = time_of({Part(part): round(spent * 1000) for part, spent in seconds.items()})
    return StepTime(
        plan=plan,
        id=StepId(name),
        description=name,
        kind=kind,
        runs=9,
        attempts=9 + failures,
        failures=failures,
        time=time,
    )


def everything(plan: str = "fix.plan.md", test: str = "test") -> Statistics:
    """Statistics in which every part has something to say."""
    steps = (
        step(test, plan, "pytest", failures=6, executing=4000, verifying=1300, waiting=200),
        step("release", "release.plan.md", "gh", failures=1, executing=30, person=2200),
        step("build", plan, "make", executing=700, verifying=300),
        step("notes", "release.plan.md", "write_file", executing=0.4),
    )
    kinds = [KindTime(kind=one.kind, attempts=one.attempts, failures=one.failures, time=one.time) for one in steps]
    return Statistics(
        since=BEGIN,
        until=Instant(BEGIN + 40 * DAY),
        plans=Plans(
            count=21,
            by_status={"completed": 14, "failed": 4, "rejected": 2, "expired": 1},
            archived=3,
            revised=2,
            rejections=4,
            expiries=1,
            tried=18,
            completed_at_first=12,
            to_approval_ms=260_000,
            approvals={"used": 30, "revoked": 2, "expired": 1},
            runs_approved=30,
            runs_unasked=10,
        ),
        runs=Runs(
            count=40,
            by_status={"completed": 30, "failed": 7, "cancelled": 2, "open": 1},
            duration_ms=240_000,
            reruns=3,
            kept=8,
            not_kept=1,
            takeovers=2,
        ),
        time=time_of(
            {
                Part.EXECUTING: 4_700_000,
                Part.VERIFYING: 1_600_000,
                Part.PERSON: 2_200_000,
                Part.WAITING: 200_000,
                Part.STOPPED: 900_000,
                Part.BETWEEN: 4_000,
            }
        ),
        steps=steps,
        kinds=kinds,
        failures=(
            Failure(
                code="F_CONTRACT_BROKEN",
                count=5,
                then={"retried": 4, "escalated": 1},
                ended={"passed": 4, "skipped": 1},
                steps=(StepCount(plan=plan, step=StepId(test), count=5),),
            ),
            Failure(
                code="F_STEP_FAILED",
                count=2,
                then={"aborted": 2},
                ended={"failed": 2},
                steps=(
                    StepCount(plan=plan, step=StepId(test), count=1),
                    StepCount(plan="release.plan.md", step=StepId("release"), count=1),
                ),
            ),
        ),
        retries=Retries(attempts=43, passed=36, passed_again=4, passes_by_attempts={1: 32, 2: 3, 3: 1}),
        missing=(
            MissingProgram(program="gh", commands=1, contracts=0),
            MissingProgram(program=None, commands=0, contracts=2),
        ),
        doubts=Doubts(found=3, settled={"rule: run again": 1, "person: happened": 1}, unsettled=1),
        decisions=Decisions(asked=3, answers={"happened": 1, "skip": 1}, waited_ms=900_000),
        contracts=(
            Contracts(
                plan=plan,
                step=StepId(test),
                held=9,
                broken=5,
                inconclusive=1,
                held_after_retry=4,
                held_same_attempt=1,
            ),
        ),
    )


# --- What people read ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [60, 80, 110])
def test_everything_is_shown_in_the_width_there_is(width: int):
    lines = list(statistics_lines(everything(), PLAIN, width))
    check_golden(f"stats/{width}.txt", lines)
    assert max(map(columns, lines)) <= width


def test_colour_adds_nothing_but_colour():
    lines = list(statistics_lines(everything(), COLOUR, 80))
    check_golden("stats/80-colour.txt", lines)
    assert [re.sub(r"\x1b\[[0-9]+m", "", line) for line in lines] == list(statistics_lines(everything(), PLAIN, 80))


def test_no_name_can_deceive():
    shown = statistics_lines(everything(plan="a\x1b[2Jb\u202e.md", test="te\nst"), PLAIN, 80)
    check_golden("stats/hostile.txt", shown)


@given(st.integers(60, 120), st.text(max_size=90), st.text(min_size=1, max_size=90))
def test_whatever_things_are_called_every_row_fits(width: int, plan: str, test: str):
    for line in statistics_lines(everything(plan, test), PLAIN, width):
        assert "\n" not in line and "\x1b" not in line
        assert columns(line) <= width


def columns(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in line)


@given(st.lists(st.integers(0, 10**9), max_size=6), st.integers(1, 200), st.integers(0, 10**9))
def test_a_bar_is_as_long_as_its_parts(counts: list[int], room: int, more: int):
    largest = sum(counts) + more
    made = shares(counts, largest, room)
    assert len(made) == len(counts) and sum(made) <= room and all(one >= 0 for one in made)
    assert (sum(made) > 0) is (sum(counts) > 0)
    assert len(bar(sum(counts), largest, room)) <= room or not sum(counts)


def test_short_texts_stand_side_by_side_while_there_is_room():
    assert list(packed(["one", "two", "three"], 9)) == ["one · two", "three"]


# --- The command -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_json_stats(workspace: Workspace):
    data = answered(workspace.ordain("stats", "--json"))
    assert (data["plans"]["count"], data["runs"]["count"], data["steps"]) == (0, 0, [])
    run_id, _ = workspace.started("fails.plan.md")
    workspace.started("small.plan.md")
    workspace.prepared("large.plan.md")
    data = answered(workspace.ordain("stats", "--json", "--since", "1d"))
    assert data["plans"]["by_status"] == {"completed": 1, "failed": 1, "proposed": 1}
    assert (data["plans"]["tried"], data["plans"]["completed_at_first"]) == (2, 1)
    assert data["runs"]["by_status"] == {"completed": 1, "failed": 1}
    assert sum(data["time"]["parts"].values()) == data["time"]["total_ms"]
    (failure,) = data["failures"]
    assert (failure["code"], failure["then"], failure["ended"]) == ("F_STEP_FAILED", {"aborted": 1}, {"failed": 1})
    assert [(one["plan"], one["count"]) for one in failure["steps"]] == [("fails.plan.md", 1)]
    assert data["retries"]["passes_by_attempts"] == {"1": 3}
    assert {one["kind"] for one in data["kinds"]} == {"echo"}
    one = answered(workspace.ordain("stats", "--json", run_id))
    assert (one["plans"], one["runs"]["by_status"]) == (None, {"failed": 1})
    refused(workspace.ordain("stats", "--json", "RUN-NOWHERE"), "E_RUN_NOT_FOUND")
    refused(workspace.ordain("stats", "--json", "0123456789ab"), "E_PLAN_NOT_FOUND")


def test_before_anything_happened_it_says_where_to_start(workspace: Workspace):
    done = workspace.ordain("stats")
    assert (done.status, done.out) == (0, "Nothing to count yet. Start with: ordain run DOCUMENT\n")


def test_a_document_names_its_plan_and_time_can_be_limited(workspace: Workspace):
    workspace.started("small.plan.md")
    done = workspace.ordain("stats", "small.plan.md")
    assert done.status == 0 and "Runs: 1" in done.out and "echo" in done.out
    done = workspace.ordain("stats", "--since", "0s")
    assert re.fullmatch(r"Nothing was proposed or started since [-0-9]+ [:0-9]+ UTC\.\n", done.out)
    done = workspace.ordain("stats", "--since", "yesterday")
    assert done.status == 2 and "is not a duration" in done.err


def test_at_a_narrow_terminal_no_row_is_broken(workspace: Workspace):
    workspace.started("small.plan.md")
    done = workspace.at_terminal("stats", columns=60)
    assert done.status == 0 and "\x1b[" in done.out and "↪" not in done.out


def test_a_broken_ledger_is_refused_as_everywhere(workspace: Workspace):
    workspace.started("small.plan.md")
    (file,) = Path(os.environ["ORDAIN_HOME"]).rglob("ledger.db")
    connection = apsw.Connection(str(file))
    connection.execute("UPDATE events SET body = CAST(replace(CAST(body AS TEXT), 'passed', 'failed') AS BLOB)")
    connection.close()
    done = workspace.ordain("stats")
    assert done.status == 2 and "E_LEDGER_BROKEN" in done.err
