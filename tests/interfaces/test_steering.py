"""Runs that somebody else carries out, on the command line: watch, pause, rerun, --detach, cancel, --take-over."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.interfaces.terminal import Background
from tests.interfaces.test_robot import answered, envelope, refused
from tests.interfaces.workspace import ASKS, Workspace, run_id
from tests.patience import eventually

FINE, FAILED, REFUSED, WAITING, INTERRUPTED = 0, 1, 2, 3, 130

CONTRACTS = """\
# Two with contracts

## Steps

### 1. One

**run:** echo one >> effects
**contract:** grep -x one effects

### 2. Two

**run:** test -f good && echo two >> effects
**contract:** grep -x two effects
"""


def status(workspace: Workspace) -> str:
    (plan,) = answered(workspace.ordain("status", "--json"))["plans"]
    return str(plan["status"])


def alive(pid: int) -> bool:
    """Whether a process is still there; where nobody reaps orphans, what is left of a dead one is."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def slow(workspace: Workspace) -> tuple[str, int]:
    """A run in the background whose first step is at work until `go` is there; its id and that step's process."""
    done = workspace.ordain("commit", "--detach", workspace.approved("waits.plan.md"))
    assert done.status == FINE, done.err
    pid = workspace.path / "pid"
    eventually(lambda: pid.exists() and pid.read_text().strip(), "the first step")
    return run_id(done.out), int(pid.read_text())


@pytest.mark.slow
def test_json_watch(workspace: Workspace):
    refused(workspace.ordain("watch", "--json"), "E_RUN_NOT_FOUND")
    run, _ = slow(workspace)
    with Background("watch", "--json", run, cwd=workspace.path) as watching:
        workspace.write("go", "")
        done = watching.end()
    *events, last = [json.loads(line) for line in done.out.splitlines()]
    assert (done.status, last["data"]["status"], last["data"]["execution_id"]) == (FINE, "success", run)
    assert [event["type"] for event in events] == [
        *("run_opened", "executor_started", "attempt_started", "attempt_ended"),
        *("attempt_started", "attempt_ended", "run_finished"),
    ]
    # One that has ended is told from its beginning.
    again = workspace.ordain("watch", "--json", run)
    assert [json.loads(line) for line in again.out.splitlines()][:-1] == events


@pytest.mark.slow
def test_json_stop(workspace: Workspace):
    run, _ = slow(workspace)
    report = answered(workspace.ordain("stop", "--json", "-m", "odd"))
    assert (report["ended"], report["not_ended"], report["recorded"]) == ([run], [], True)
    assert [(one["reason"], one.get("everywhere", False)) for one in report["stopped"]] == [("odd", False)]
    refused(workspace.ordain("resume", "--json"), "E_STOPPED")
    refused(workspace.ordain("stop", "--lift", "--json"), "E_APPROVAL_CHANNEL", WAITING)


def test_json_pause(workspace: Workspace):
    refused(workspace.ordain("pause", "--json"), "E_RUN_NOT_FOUND")
    run, _ = slow(workspace)
    done = workspace.ordain("pause", "--json", "-m", "hold on")
    assert (answered(done)["status"], envelope(done.out)["next"]) == ("pausing", [f"ordain watch {run}"])
    workspace.write("go", "")
    watched = workspace.ordain("watch", run)
    assert (watched.status, "paused by" in watched.out, "Why:    hold on" in watched.out) == (INTERRUPTED, True, True)
    assert (workspace.effects(), status(workspace)) == (["slow"], "paused")
    assert workspace.ordain("resume").status == FINE
    assert workspace.effects() == ["slow", "after"]
    refused(workspace.ordain("pause", "--json", run), "E_RUN_ENDED")


@pytest.mark.slow
def test_json_rerun(workspace: Workspace):
    workspace.write("two.plan.md", CONTRACTS)
    run, done = workspace.started("two.plan.md")
    assert done.status == FAILED
    refused(workspace.ordain("rerun", "--json", run), "E_APPROVAL_SPENT", REFUSED)
    told = workspace.ordain("rerun", run, "--from", "two").err
    assert f"then: ordain rerun {run} --from two\n    → ordain approve " in told
    workspace.write("good", "")
    workspace.approved("two.plan.md")
    data = answered(workspace.ordain("rerun", "--json", run))
    assert (data["status"], data["rerun_of"]) == ("success", run)
    assert workspace.effects() == ["one", "two"], "what passed and still holds was not run again"
    again = workspace.approved("two.plan.md")
    refused(workspace.ordain("rerun", "--json", again, "--from", "tow"), "E_RUN_STEP")
    done = workspace.ordain("rerun", again, "--from", "two")
    assert (done.status, workspace.effects()) == (FINE, ["one", "two", "two"])
    assert "one: kept from the run before, contract holds" in done.err


@pytest.mark.slow
def test_a_detached_run_outlives_its_command_and_can_be_cancelled_from_outside(workspace: Workspace):
    run, pid = slow(workspace)
    assert status(workspace) == "executing"
    assert f"0 of 2 steps passed → ordain watch {run}\n" in workspace.ordain("status").out
    done = workspace.ordain("cancel", run, "-m", "not today")
    assert (done.status, "cancelled, 0 of 2 steps passed" in done.out) == (FINE, True)
    eventually(lambda: not alive(pid), "the end of what was running")
    assert workspace.effects() == []
    assert [event["type"] for event in answered(workspace.ordain("log", "--json", run))["events"]][-1] == (
        "run_cancelled"
    )


@pytest.mark.slow
def test_a_detached_command_that_is_refused_says_why(workspace: Workspace):
    done = workspace.ordain("commit", "--detach", workspace.prepared("small.plan.md"))
    assert (done.status, "E_PLAN_APPROVAL_MISSING" in done.out + done.err) == (WAITING, True)
    document = refused(
        workspace.ordain("commit", "--detach", "--json", workspace.prepared("small.plan.md")),
        "E_PLAN_APPROVAL_MISSING",
        WAITING,
    )
    assert document["error"]["command"].startswith("ordain approve")


@pytest.mark.slow
def test_a_paused_run_goes_on_in_the_background(workspace: Workspace):
    run, _ = slow(workspace)
    workspace.ordain("pause")
    workspace.write("go", "")
    eventually(lambda: status(workspace) == "paused", "the pause")
    done = workspace.ordain("resume", "--detach", run)
    assert done.status == FINE
    workspace.ordain("watch", run)
    assert workspace.effects() == ["slow", "after"]


def test_a_run_that_waits_for_a_person_is_not_carried_out_in_the_background(workspace: Workspace):
    run, _ = workspace.started("asks.plan.md")
    done = workspace.ordain("resume", "--detach", run)
    assert (done.status, f"→ ordain answer {run}/fetch retry" in done.out) == (WAITING, True)
    assert "in the background" not in done.out


def test_a_paused_run_still_waits_for_whom_it_asks(workspace: Workspace):
    run, _ = workspace.started("asks.plan.md")
    done = workspace.ordain("pause", "--json")
    assert (answered(done)["status"], envelope(done.out)["next"]) == ("waiting", [f"ordain answer {run}/fetch"])
    assert workspace.at_terminal("answer", f"{run}/fetch", "skip").status == FINE
    assert status(workspace) == "paused"
    assert (workspace.ordain("resume").status, workspace.effects()) == (FINE, ["tried", "rest"])


def test_where_several_runs_are_open_the_same_verb_is_suggested(workspace: Workspace):
    for verb in ("resume", "watch", "pause"):
        assert "E_RUN_NOT_FOUND No run of this workspace is open." in workspace.ordain(verb).err
    workspace.started("asks.plan.md")
    workspace.write("again.plan.md", ASKS.replace("Ask when", "Ask again when"))
    workspace.started("again.plan.md")
    for verb in ("resume", "watch", "pause"):
        done = workspace.ordain(verb)
        assert (done.status, f"→ ordain {verb} RUN-" in done.err) == (REFUSED, True)


def test_an_executor_that_is_frozen_is_taken_over(workspace: Workspace):
    with Background("commit", workspace.approved("waits.plan.md"), cwd=workspace.path) as executor:
        executor.expect_said("▸ slow")
        pid = workspace.path / "pid"
        eventually(lambda: pid.exists() and pid.read_text().strip(), "the first step")
        os.kill(executor.pid, signal.SIGSTOP)
        done = workspace.ordain("resume")
        assert (done.status, "E_RUN_BUSY" in done.err, "--take-over" in done.err) == (REFUSED, True, True)
        done = workspace.ordain("resume", "--take-over")
        assert (done.status, "in doubt" in done.out) == (WAITING, True)
        assert not alive(int(pid.read_text())), "what it had running is ended first"
        assert executor.end().status == -signal.SIGKILL
    assert workspace.at_terminal("answer", f"{run_id(done.out)}/slow", "did-not").status == FINE
    workspace.write("go", "")
    assert workspace.ordain("resume").status == FINE
    assert workspace.effects() == ["slow", "after"]


def test_a_second_run_waits_for_its_place_and_says_for_whom(workspace: Workspace):
    run, _ = slow(workspace)
    with Background("commit", workspace.approved("small.plan.md"), cwd=workspace.path) as second:
        second.expect_said(f"waiting: Another ordain process is at work in this workspace: {run}")
        workspace.write("go", "")
        assert second.end().status == FINE
    assert workspace.effects() == ["slow", "after", "one", "two"]


def test_a_run_is_given_up(workspace: Workspace):
    run, _ = workspace.started("asks.plan.md")
    done = workspace.ordain("cancel", run, "--failed", "-m", "nobody knows any more")
    assert (done.status, "failed, 0 of 2 steps passed" in done.out) == (FINE, True)
    assert status(workspace) == "failed"
