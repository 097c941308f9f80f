"""Going on with a run by another plan, at the doors: the command line, a terminal, robots."""

import json
from pathlib import Path

from tests.interfaces.workspace import Workspace

PLAN = """\
plan_version: 1
title: Two
steps:
  - id: a
    action: {type: run, command: "echo a >> log"}
  - id: b
    action: {type: run, command: "test -f go"}
    on_failure: {strategy: escalate}
"""
LOWER = PLAN.replace("title: Two", "title: Two\nbudget: {attempts: 50}")
OTHER = PLAN.replace("test -f go", "echo b >> log")


def waiting(workspace: Workspace, *options: str) -> tuple[str, str]:
    """A run that waits after its first step: its plan and the run."""
    workspace.write("two.plan.yaml", PLAN)
    short = workspace.prepared("two.plan.yaml")
    ended = workspace.at_terminal(
        "approve", short, "--start", *options, answers=[("Type yes:", "yes"), ("leaves it open", "")]
    )
    assert ended.status == 3, ended.out
    (plan,) = json.loads(workspace.ordain("list", "--json").out)["data"]["plans"]
    return short, plan["last_run"]


def log(path: Path) -> list[str]:
    return (path / "log").read_text().split()


def test_at_a_terminal_rerun_with_proposes_asks_and_goes_on(workspace: Workspace) -> None:
    _, run = waiting(workspace)
    workspace.write("other.plan.yaml", OTHER)
    words = ("rerun", run, "--with", "other.plan.yaml", "-m", "There is no go.")
    refused = workspace.at_terminal(*words, answers=[("Type yes:", "no")])
    assert refused.status == 2 and f"{run} stays as it is" in refused.out
    ended = workspace.at_terminal(*words, answers=[("Type yes:", "yes")])
    assert ended.status == 0 and "There is no go." in ended.out, ended.out
    assert log(workspace.path) == ["a", "b"]


def test_a_robot_can_propose_it_and_a_person_lets_it_go_on(workspace: Workspace) -> None:
    _, run = waiting(workspace)
    workspace.write("other.plan.yaml", OTHER)
    ended = workspace.ordain("rerun", run, "--with", "other.plan.yaml", "-m", "There is no go.", "--json")
    answer = json.loads(ended.out)
    assert (ended.status, answer["error"]["code"]) == (3, "E_PLAN_APPROVAL_MISSING")
    plan = answer["data"]["plan_id"].removeprefix("plan:")[:12]
    listed = json.loads(workspace.ordain("list", "--json").out)["data"]["plans"][0]
    assert (listed["version"], listed["continues"], listed["reason"]) == (2, run, "There is no go.")
    items = json.loads(workspace.ordain("robot", "inbox").out)["data"]["items"]
    (approval,) = [one for one in items if one["kind"] == "approval"]
    assert approval["detail"].endswith(f"; goes on with {run}")
    assert f"; goes on with {run} (since " in workspace.ordain("inbox").out
    assert json.loads(workspace.ordain("robot", "commit", plan).out)["error"]["code"] == "E_PLAN_APPROVAL_MISSING"
    workspace.approve(plan)
    done = json.loads(workspace.ordain("robot", "commit", plan).out)["data"]
    assert (done["status"], done["continues"]) == ("success", run)
    assert {one["id"]: one["kept_from"] for one in done["steps"]} == {"a": run, "b": None}
    former = json.loads(workspace.ordain("show", run, "--json").out)["data"]
    assert (former["replaced_by"], log(workspace.path)) == (done["run_id"], ["a", "b"])
    assert workspace.ordain("audit", "verify").status == 0


def test_allow_subset_is_shown_and_lets_a_lower_limit_go_on_and_nothing_else(workspace: Workspace) -> None:
    workspace.write("two.plan.yaml", PLAN)
    short, run = waiting(workspace, "--allow-subset")
    workspace.write("other.plan.yaml", OTHER)
    workspace.write("lower.plan.yaml", LOWER)
    asks = json.loads(workspace.ordain("revise", short, "other.plan.yaml", "--json").out)["data"]
    assert asks["requires_approval"] and any("another `action`" in one for one in asks["reasons"])
    workspace.write("go", "")
    goes = json.loads(workspace.ordain("revise", run, "lower.plan.yaml", "--json").out)["data"]
    assert (
        not goes["requires_approval"] and goes["approval_command" if "approval_command" in goes else "approval"] is None
    )
    ended = json.loads(workspace.ordain("robot", "commit", goes["plan_id"]).out)
    assert ended["data"]["status"] == "success" and log(workspace.path) == ["a"]
    assert workspace.ordain("audit", "verify").status == 0


def test_a_robot_cannot_allow_a_subset(workspace: Workspace) -> None:
    workspace.write("two.plan.yaml", PLAN)
    short = workspace.prepared("two.plan.yaml")
    ended = workspace.ordain("approve", short, "--allow-subset", "--json")
    assert json.loads(ended.out)["error"]["code"] == "E_APPROVAL_CHANNEL"
