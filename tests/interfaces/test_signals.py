"""Signals between real processes, on the command line; and custom actions that are real programs."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.interfaces.terminal import Background
from tests.interfaces.test_locks import trusted
from tests.interfaces.test_robot import answered, envelope, refused
from tests.interfaces.workspace import Workspace
from tests.patience import eventually

FINE = 0
WAITS = """\
plan_version: 1
title: Deploy when it is built
steps:
  - id: built
    action: {type: wait_for, condition: {type: external, key: build-done}, timeout_ms: 60000}
  - id: deploy
    action: {type: run, command: 'echo "$VERSION" >> effects', env: {VERSION: "${built.output.version}"}}
"""


def waiting(workspace: Workspace) -> str:
    """The only run there is, once a step of it waits for the signal."""
    told = answered(workspace.ordain("inbox", "--json"))["signals"]
    return str(told[0]["run_id"]) if told else ""


@pytest.fixture
def deploying(workspace: Workspace) -> Workspace:
    workspace.write("deploy.plan.yaml", WAITS)
    return workspace


def test_json_signal(deploying: Workspace):
    refused(deploying.ordain("signal", "--json", "a b"), "E_NAME")
    refused(deploying.ordain("signal", "--json", "go", "--value", "{"), "E_SIGNAL_VALUE")
    refused(deploying.ordain("signal", "--json", "go", "--value", "1", "-m", "one"), "E_SIGNAL_VALUE")
    refused(deploying.ordain("signal", "--json", "go", "-m", "\udcff", env={}), "E_USAGE")
    data = answered(deploying.ordain("signal", "--json", "build-done"))
    assert data == {"key": "build-done", "count": 1, "heard_by": [], "awaited_by": []}
    said = deploying.ordain("signal", "build-done").out
    assert said == "Given. No run that is open waits for it, and one that is started later does not count it.\n"


def test_a_run_goes_on_soon_after_another_process_gave_the_signal(deploying: Workspace):
    plan = deploying.approved("deploy.plan.yaml")
    with Background("commit", plan, cwd=deploying.path) as run:
        run.expect_said("waits for the signal `build-done`")
        eventually(lambda: waiting(deploying), "it to wait")
        status = deploying.ordain("status").out
        assert "waits for the signal `build-done` (ordain signal build-done)" in status
        inbox = deploying.ordain("inbox").out
        assert "Nothing waits for you." in inbox and "→ ordain signal build-done" in inbox
        done = deploying.ordain("signal", "build-done", "--value", '{"version": "1.4.2"}')
        assert (done.status, "it counts in RUN-" in done.out) == (FINE, True)
        eventually(lambda: deploying.effects() == ["1.4.2"], "the step after it")
        assert run.end().status == FINE
    assert deploying.ordain("audit", "verify").status == FINE


def test_nothing_is_lost_where_the_executor_is_killed_while_it_waits(deploying: Workspace):
    plan = deploying.approved("deploy.plan.yaml")
    with Background("commit", plan, cwd=deploying.path) as run:
        run.expect_said("waits for the signal `build-done`")
        os.kill(run.pid, signal.SIGKILL)
        assert run.end().status == -signal.SIGKILL
    name = waiting(deploying)
    told = envelope(deploying.ordain("signal", "--json", "build-done", "--value", '{"version": "7"}').out)
    assert (told["data"]["heard_by"], told["next"]) == ([name], [f"ordain resume {name}"])
    done = deploying.ordain("resume")
    assert (done.status, deploying.effects()) == (FINE, ["7"]), done.err
    assert "in doubt" not in deploying.ordain("log", name).out
    assert deploying.ordain("audit", "verify").status == FINE


# --- Custom actions --------------------------------------------------------------------------------------------------

ANNOUNCES = """\
plan_version: 1
title: Tell the others
steps:
  - id: tell
    action: {type: custom, action_type: announce, payload: {text: "it is $${done}", number: 7}}
  - id: note
    action: {type: run, command: 'echo "$TOLD" >> effects', env: {TOLD: "${tell.output.told}"}}
"""
PROGRAM = """\
import json, os, sys
payload = json.load(sys.stdin)
print("to standard error, which is no result", file=sys.stderr)
print(json.dumps({"told": f"{payload['text']}|{payload['number']}|{len(os.environ['ORDAIN_STEP_KEY']) > 20}"}))
"""


@pytest.mark.slow
def test_a_custom_action_is_carried_out_by_the_command_that_was_trusted(workspace: Workspace):
    workspace.write("tell.plan.yaml", ANNOUNCES)
    workspace.write("announce.py", PROGRAM)
    told = refused(workspace.ordain("prepare", "--json", "tell.plan.yaml"), "E_ACTION_UNKNOWN")
    assert "ordain trust" in json.dumps(told)
    trusted(workspace, '[actions.announce]\ncommand = ["python3", "{workspace}/announce.py"]\n')
    preview = workspace.ordain("show", "tell.plan.yaml").out
    assert "custom:announce runs: python3 '{workspace}/announce.py' (step tell)" in preview
    run, done = workspace.started("tell.plan.yaml")
    assert done.status == FINE, done.err
    assert (workspace.path / "effects").read_text() == "it is ${done}|7|True\n"
    assert json.loads(workspace.ordain("show", run, "--output", "tell").out)["told"].startswith("it is")
    assert workspace.ordain("audit", "verify").status == FINE


def test_the_program_cannot_be_changed_after_the_approval(workspace: Workspace):
    workspace.write("tell.plan.yaml", ANNOUNCES)
    workspace.write("announce.py", PROGRAM)
    trusted(workspace, '[actions.announce]\ncommand = ["python3", "{workspace}/announce.py"]\n')
    plan = workspace.approved("tell.plan.yaml")
    workspace.write("announce.py", "import os; os.remove('x')")
    done = workspace.ordain("commit", plan)
    assert "E_PLAN_STALE_BASE" in done.err and "announce.py" in done.err
    assert workspace.effects() == []


def test_what_must_hold_before_a_plan_is_told_and_the_approval_kept(workspace: Workspace):
    wants = "preconditions:\n  - {type: custom, name: never, expression: '1 == 2'}\n"
    workspace.write("wants.plan.yaml", WAITS.replace("steps:\n", wants + "steps:\n"))
    plan = workspace.approved("wants.plan.yaml")
    refused(workspace.ordain("commit", "--json", plan), "E_PLAN_PRECONDITION_FAILED")
    assert "approved" in workspace.ordain("list").out
    assert "RUN-" not in workspace.ordain("status").out
