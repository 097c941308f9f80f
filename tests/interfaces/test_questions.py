"""Questions where somebody sits: whoever runs, resumes or reruns at a terminal is asked everything there."""

from __future__ import annotations

import os
import signal

import pytest

from tests.interfaces.terminal import CTRL_D, Background, Terminal
from tests.interfaces.test_robot import answered, refused
from tests.interfaces.workspace import Workspace, run_id
from tests.patience import eventually
from tests.words import ContractBroken, ContractHeld, DecisionGiven, DoubtSettled, open_workspace

FINE, FAILED, REFUSED, WAITING = 0, 1, 2, 3

CHECKED = """\
# Checked

## Steps

### 1. Fetch

**run:** echo tried >> effects; echo said by the step; echo token=hunter2-hunter2-hunter2
**contract:** echo said by the contract; test -f wanted
**on_fail:** escalate

### 2. Rest

**run:** echo rest >> effects
"""
SEVERAL = """\
plan_version: 1
title: Several
budget: {attempts: 4}
steps:
  - {id: name, description: A name, action: {type: ask, question: "Which name?"}}
  - {id: colour, description: A colour, needs: [], action: {type: ask, question: "Which colour?", choices: [red, blue]}}
  - {id: drop, description: Drop it, needs: [], approval: ask, action: {type: run, command: "echo drop >> effects"}}
  - {id: fail, description: Fail, needs: [], action: {type: run, command: "echo went wrong; exit 3"},
     on_failure: {strategy: escalate}}
  - id: last
    description: Last
    needs: [name, colour, drop, fail]
    action: {type: run, command: "echo last >> effects"}
"""
DOUBT = """\
# Doubt

## Steps

### 1. Send

**run:** echo sent >> effects; until test -f go; do sleep 0.02; done
**contract:** test -f delivered

### 2. After

**run:** echo after >> effects
"""


def events(workspace: Workspace, run: str, *kinds: type) -> list[object]:
    return [one.event for one in open_workspace(workspace.path).plans.log(run) if isinstance(one.event, kinds)]


def test_a_failed_contract_is_asked_about_with_all_that_was_seen_and_checked_again(workspace: Workspace) -> None:
    workspace.write("checked.plan.md", CHECKED)
    with Terminal("run", "checked.plan.md", cwd=workspace.path, env={"NO_COLOR": "1", "TERM": "dumb"}) as here:
        here.expect("Type yes")
        here.type("yes")
        seen = here.shown_until("Your answer (retry, check, skip, pass, abort; or its number; Enter leaves it open)")
        for words in (
            *("Action:   echo tried", "│ said by the step", "Contract: echo said by", "│ said by the contract"),
            *("exit status 0, verdict broken: exit status 1", "2  check     run its contract again now"),
            *("ordain revise RUN-", "ordain replan RUN-"),
        ):
            assert words in seen, words
        here.type("check")
        here.expect("contract broken")
        here.expect("Your answer")
        workspace.write("wanted", "")
        here.type("2")
        ended = here.end()
    assert (ended.status, workspace.effects()) == (FINE, ["tried", "rest"]), "the step itself was run once"
    run = run_id(ended.out)
    (checked,) = [one for one in open_workspace(workspace.path).runs.run(run).steps if one.id == "fetch"]
    assert (checked.evidence, checked.unverified, checked.attempts) == ("contract held (exit status 0)", False, 1)
    kinds = [type(one).__name__ for one in events(workspace, run, ContractBroken, ContractHeld, DecisionGiven)]
    assert kinds == ["ContractBroken", "DecisionGiven", "ContractBroken", "DecisionGiven", "ContractHeld"]
    assert workspace.ordain("audit", "verify").status == FINE


def test_the_same_is_in_the_inbox_in_show_and_in_json(workspace: Workspace) -> None:
    workspace.write("checked.plan.md", CHECKED.replace("echo said by the contract; ", ""))
    run, done = workspace.started("checked.plan.md")
    assert "│ said by the step" in done.out, "also where the contract wrote nothing"
    for words in (("inbox",), ("show", f"{run}/fetch"), ("show", "fetch")):
        shown = workspace.ordain(*words).out
        assert "│ said by the step" in shown and "Contract: test -f wanted" in shown, words
        assert f"ordain answer {run}/fetch check" in shown, words
    question = answered(workspace.ordain("inbox", "--json"))["items"][0]["question"]
    assert question == answered(workspace.ordain("show", "--json", f"{run}/fetch"))["question"]
    assert question["output_tail"].startswith("said by the step\n") and question["contract_output_tail"] == ""
    assert (question["contract"], "echo tried" in question["action"]) == ("test -f wanted", True)
    robot = workspace.ordain("answer", "--json", f"{run}/fetch", "check")
    assert refused(robot, "E_APPROVAL_CHANNEL", WAITING)["error"]["command"] == f"ordain answer {run}/fetch check"


def test_check_alone_runs_the_contract_and_nothing_else(workspace: Workspace) -> None:
    workspace.write("checked.plan.md", CHECKED)
    run, _ = workspace.started("checked.plan.md")
    broken = workspace.at_terminal("answer", "check")
    assert (broken.status, workspace.effects()) == (WAITING, ["tried"])
    workspace.write("wanted", "")
    held = workspace.at_terminal("answer", "fetch", "check", answers=[("Type check", "check")])
    assert (held.status, f"ordain resume {run}" in held.out, workspace.effects()) == (FINE, True, ["tried"])
    assert (workspace.ordain("resume").status, workspace.effects()) == (FINE, ["tried", "rest"])


def test_everything_is_asked_one_after_the_other_and_enter_leaves_it_open(workspace: Workspace) -> None:
    workspace.write("several.plan.yaml", SEVERAL)
    conversation = [
        ("Type yes", "yes"),
        ("Your answer (a text", ""),
        ("Your answer (red, blue", "2"),
        ("Your answer (allow, deny", "1"),
        ("Type allow", "no"),
        ("Your answer (retry, skip, pass", "skip"),
    ]
    done = workspace.at_terminal("run", "several.plan.yaml", answers=conversation)
    run = run_id(done.out)
    assert (done.status, workspace.effects()) == (WAITING, [])
    assert "Question 1 of 4" in done.out and "Question 4 of 4" in done.out
    assert f"Answer it at any time with: ordain answer {run}/name\n" in done.out
    assert [one.choice for one in events(workspace, run, DecisionGiven)] == ["blue", "skip"]  # type: ignore[attr-defined]
    several = workspace.at_terminal("answer", "allow")
    assert (several.status, "2 questions are open. Name one:" in several.out) == (REFUSED, True)
    assert f"ordain answer {run}/name" in several.out and f"ordain answer {run}/drop allow" in several.out
    for nothing, asked in (("", 2), (CTRL_D, 1)):
        done = workspace.at_terminal("resume", answers=[("Your answer", nothing)] * asked)
        assert (done.status, done.out.count("Your answer")) == (WAITING, asked), "no more after the end of the input"
    allowed = [("Your answer (a text", "7"), ("Your answer (allow", "1"), ("Type allow", "allow")]
    done = workspace.at_terminal("resume", answers=[*allowed, ("Your answer (extend, unlimited", "1")])
    assert (done.status, workspace.effects()) == (FINE, ["drop", "last"]), "a number is a text where that is wanted"


def test_a_rerun_is_approved_where_it_is_asked_for(workspace: Workspace) -> None:
    run, _ = workspace.started("fails.plan.md")
    assert workspace.ordain("rerun").status != FINE, "nobody is at a terminal"
    no = workspace.at_terminal("rerun", answers=[("Type yes", "no")])
    assert (no.status, workspace.effects()) == (REFUSED, ["one"])
    yes = workspace.at_terminal("rerun", answers=[("Type yes", "yes")])
    assert (yes.status, f"Again:  {run}" in yes.out, workspace.effects()) == (FAILED, True, ["one", "one"])
    workspace.started("contract.plan.md")
    several = workspace.at_terminal("rerun")
    assert (several.status, several.out.count("    ordain rerun RUN-")) == (REFUSED, 2)


def in_doubt(workspace: Workspace) -> str:
    workspace.write("doubt.plan.md", DOUBT)
    with Background("commit", workspace.approved("doubt.plan.md"), cwd=workspace.path) as executor:
        eventually(lambda: workspace.effects() == ["sent"])
        run = str(open_workspace(workspace.path).runs.find_run(None))
        os.kill(executor.pid, signal.SIGKILL)
        executor.end()
    return run


@pytest.mark.parametrize("held", [True, False])
def test_a_doubt_is_settled_by_a_check_that_holds_and_asked_again_after_one_that_does_not(
    workspace: Workspace, held: bool
) -> None:
    run = in_doubt(workspace)
    if held:
        workspace.write("delivered", "")
    left = [] if held else [("Your answer", "")]
    done = workspace.at_terminal("resume", answers=[("Your answer (happened, check, did-not", "check"), *left])
    assert (done.status, workspace.effects()) == ((FINE, ["sent", "after"]) if held else (WAITING, ["sent"]))
    assert len(events(workspace, run, DoubtSettled)) == held
    (step,) = [one for one in open_workspace(workspace.path).runs.run(run).steps if one.id == "send"]
    assert (step.state.value, step.unverified) == ("passed" if held else "in_doubt", False)
    if held:
        assert step.evidence == "contract held (exit status 0), settling a doubt after a crash"
    assert workspace.ordain("audit", "verify").status == FINE


def test_a_plan_that_was_prepared_again_can_be_run_again(workspace: Workspace) -> None:
    run, _ = workspace.started("small.plan.md")
    workspace.prepared("small.plan.md")
    again = workspace.at_terminal("rerun", run, answers=[("Type yes", "yes")])
    assert again.status == 0, again.out
    assert workspace.ordain("audit", "verify").status == 0
