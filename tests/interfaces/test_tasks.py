"""Tasks with real processes and real terminals: agents that lie, give up or are killed, and people who do the work."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from typing import Any

import pytest

from tests.crash.world import leftovers
from tests.interfaces.terminal import Background, Ended
from tests.interfaces.test_robot import answered, refused
from tests.interfaces.workspace import KIM, Workspace
from tests.patience import eventually
from tests.words import AttemptStarted, DecisionGiven, WorkClaimed, WorkOffered, open_at_terminal, open_workspace

FINE, FAILED, REFUSED, WAITING = 0, 1, 2, 3

AGENTS = """\
[agents.reviewer]
human = true

[agents.liar]
command = ["sh", "-c", "cat > prompt-$ORDAIN_STEP; echo all tests pass; grep -q 'check was broken' prompt-fix && echo 3 > refund; true"]

[agents.quitter]
command = ["sh", "-c", "cat > prompt-$ORDAIN_STEP; echo looked; echo; echo 'ORDAIN CANNOT: there is no table refunds'"]

[agents.reporter]
command = ["sh", "-c", "echo '{\\"cannot\\": \\"no table\\"}' >> $ORDAIN_USAGE; exit 3"]

[agents.slow]
command = ["sh", "-c", "echo $$ > pid; until test -f go; do sleep 0.02; done; echo slow >> effects"]
"""  # noqa: E501

TASK = """\
# Do a task

## Steps

### 1. Do it

**id:** {name}
**agent:** {agent}
**task:** {task}
{more}
### 2. Go on

**run:** echo after >> effects
"""


def plan(workspace: Workspace, agent: str, *more: str, name: str = "do", task: str = "Do it well.") -> None:
    workspace.write("ordain.toml", AGENTS)
    app = open_at_terminal(workspace.path)
    asyncio.run(app.approvals.trust(app.approvals.configuration()[1], KIM, None))
    asyncio.run(app.close())
    body = TASK.format(agent=agent, name=name, task=task, more="".join(f"{one}\n" for one in more))
    workspace.write("do.plan.md", body)


def started(workspace: Workspace, agent: str, *more: str, **named: str) -> tuple[str, Ended]:
    plan(workspace, agent, *more, **named)
    return workspace.started("do.plan.md")


def report(workspace: Workspace, run: str) -> Any:
    return open_workspace(workspace.path).runs.run(run)


def events(workspace: Workspace, run: str, kind: type) -> list[Any]:
    return [one.event for one in open_at_terminal(workspace.path).plans.log(run) if isinstance(one.event, kind)]


# --- Agents ----------------------------------------------------------------------------------------------------------


def test_a_lying_agent_is_caught_told_what_was_found_and_gets_it_right(workspace: Workspace) -> None:
    workspace.write("refund", "2\n")
    contract = "**contract:** diff <(echo 3) refund"
    run, done = started(workspace, "liar", contract, "**on_failure:** retry(2, 0s)", name="fix")
    assert (done.status, workspace.effects()) == (FINE, ["after"])
    step = report(workspace, run).steps[0]
    assert (step.attempts, step.unverified, step.evidence) == (2, False, "contract held (exit status 0)")
    told = (workspace.path / "prompt-fix").read_text()
    for words in ("attempt 2", "broken (`exit status 1`)", "< 3", "> 2", "all tests pass"):
        assert words in told, words
    assert len(events(workspace, run, WorkOffered)) == len(events(workspace, run, WorkClaimed)) == 2


def test_a_lying_agent_never_gets_through(workspace: Workspace) -> None:
    run, done = started(workspace, "liar", "**contract:** grep -q 3 refund", "**on_failure:** retry(2, 0s)")
    assert (done.status, workspace.effects()) == (FAILED, [])
    assert report(workspace, run).steps[0].error == "F_CONTRACT_BROKEN"
    assert len(events(workspace, run, AttemptStarted)) == 3


def test_what_an_agent_only_says_is_called_unverified_by_every_view(workspace: Workspace) -> None:
    run, done = started(workspace, "liar")
    assert (done.status, workspace.effects()) == (FINE, ["after"])
    assert "completed, 2 of 2 steps passed; by an agent's word only: do" in done.out
    assert "unverified: the agent liar said so (exit status 0)" in done.out
    one, other = answered(workspace.ordain("show", "--json", run))["steps"]
    assert (one["unverified"], one["agent"]["agent"], other["unverified"]) == (True, "liar", False)
    assert "agent" not in other
    assert answered(workspace.ordain("stats", "--json"))["runs"]["unverified"] == 1
    assert "passed unverified: 1" in workspace.ordain("stats").out
    drawn = workspace.ordain("show", "--graph", run).out
    assert re.search(r"≈ +1\. do +unverified", drawn) and re.search(r"✓ +2\. go-on +after 1 +passed", drawn)
    workspace.ordain("show", "--graph", "-o", "picture.mmd", run)
    assert "class s1 unverified" in (workspace.path / "picture.mmd").read_text()


@pytest.mark.part(of=2)
@pytest.mark.parametrize(("agent", "why"), [("quitter", "there is no table refunds"), ("reporter", "no table")])
def test_what_cannot_be_done_is_a_persons_to_decide(workspace: Workspace, agent: str, why: str) -> None:
    run, done = started(workspace, agent, "**contract:** grep -q 3 refund", "**on_failure:** retry(3, 0s)")
    assert (done.status, workspace.effects()) == (WAITING, [])
    assert len(events(workspace, run, AttemptStarted)) == 1, "trying again would help nobody"
    for shown in (done.out, workspace.ordain("status").out, workspace.ordain("show", f"{run}/do").out):
        assert f"`{agent}` says that it cannot be done: {why}" in shown
    (found,) = answered(workspace.ordain("inbox", "--json"))["items"]
    assert found["kind"] == "escalation" and why in found["question"]["detail"]
    assert answered(workspace.ordain("show", "--json", run))["steps"][0]["error"] == "F_AGENT_CANNOT"
    done = workspace.at_terminal("answer", f"{run}/do", "skip", "-m", "not needed", "--resume")
    assert (done.status, workspace.effects()) == (FINE, ["after"])
    assert "skipped by" in done.out and ": not needed" in done.out
    assert workspace.ordain("audit", "verify").status == FINE


def test_a_person_tells_the_next_attempt_what_to_do(workspace: Workspace) -> None:
    run, _ = started(workspace, "quitter", name="fix")
    done = workspace.at_terminal(
        "answer", f"{run}/fix", "retry", "-m", "The table is called returns.", "--resume", answers=[("Your answer", "")]
    )
    assert done.status == WAITING, "it cannot still"
    told = (workspace.path / "prompt-fix").read_text()
    assert "The table is called returns." in told and "there is no table refunds" in told
    assert "(The table is called returns.)" in workspace.ordain("show", f"{run}/fix@2").out


# --- People ----------------------------------------------------------------------------------------------------------

REVIEW = (
    "**instructions:** Look at refunds first.",
    "**criteria:**",
    "- half a cent is rounded up",
    "- nothing else changed",
    "**contract:** grep -q ok merged",
    "**on_failure:** retry(2, 0s)",
)


def test_a_persons_task_is_shown_with_everything_that_they_need(workspace: Workspace) -> None:
    run, done = started(workspace, "reviewer", *REVIEW, task="Read what changed, and merge it.")
    assert (done.status, workspace.effects()) == (WAITING, [])
    wanted = ("Read what changed, and merge it.", "Look at refunds first.", "half a cent is rounded up", "grep -q ok")
    for shown in (done.out, workspace.ordain("status").out, workspace.ordain("show", f"{run}/do").out):
        assert all(words in shown for words in wanted)
        assert f"→ ordain answer {run}/do done\n" in shown and f"→ ordain answer {run}/do cannot -m WHY\n" in shown
    assert f"→ ordain answer {run}/do cannot -m WHY\n" in workspace.ordain("inbox").out
    assert "Look at refunds first." in workspace.ordain("inbox", "--verbose").out
    (found,) = answered(workspace.ordain("inbox", "--json"))["items"]
    assert found["kind"] == "task" and found["question"]["form"] == {
        "agent": "reviewer",
        "task": "Read what changed, and merge it.",
        "instructions": "Look at refunds first.",
        "criteria": ["half a cent is rounded up", "nothing else changed"],
        "contract": "grep -q ok merged",
        "reads": [],
        "writes": [],
    }


def test_a_person_says_that_it_is_done_and_the_contract_decides(workspace: Workspace) -> None:
    run, _ = started(workspace, "reviewer", *REVIEW)
    done = workspace.at_terminal("answer", f"{run}/do", "done", "--resume", answers=[("Your answer", "")])
    assert done.status == WAITING and workspace.effects() == []
    shown = workspace.ordain("show", f"{run}/do@2").out
    assert "verdict broken" in shown and "merged: No such file" in shown, "what went wrong is told"
    workspace.write("merged", "ok\n")
    done = workspace.at_terminal("answer", f"{run}/do@2", "done", "--value", '{"pr": 12}', "--resume")
    assert (done.status, workspace.effects()) == (FINE, ["after"])
    assert re.search(r"contract held \(exit status 0\), done by \S+", done.out)
    assert json.loads(workspace.ordain("show", run, "--output", "do").out) == {"pr": 12}
    assert workspace.ordain("audit", "verify").status == FINE


def test_whoever_starts_a_run_at_a_terminal_does_its_tasks_there(workspace: Workspace) -> None:
    plan(workspace, "reviewer")
    short = workspace.approved("do.plan.md")
    answers = [("Your answer (done, cannot, abort;", "done"), ("What it gave, a text; empty for nothing", "all well")]
    done = workspace.at_terminal("commit", short, answers=answers)
    assert (done.status, workspace.effects()) == (FINE, ["after"])
    assert "by a person's word only: do" in done.out and "unverified:" in done.out
    assert workspace.ordain("show", done.out.split("Run:")[-1].split()[1], "--output", "do").out == "all well\n"


def test_a_person_who_cannot_is_asked_why_until_they_say(workspace: Workspace) -> None:
    plan(workspace, "reviewer")
    answers = [
        ("Your answer", "cannot"),
        ("Why it cannot be done", ""),
        ("Your answer", "cannot"),
        ("Why it cannot be done", "The shop is closed."),
        ("Your answer", ""),
    ]
    done = workspace.at_terminal("commit", workspace.approved("do.plan.md"), answers=answers)
    assert done.status == WAITING and "E_ANSWER_VALUE" in done.out
    assert "says that it cannot be done: The shop is closed." in done.out


@pytest.mark.part(of=3)
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("finished",), "E_ANSWER_CHOICE"),
        (("cannot",), "E_ANSWER_VALUE"),
        (("done", "--value", "{"), "E_ANSWER_VALUE"),
        (("done", "--value", "1", "-m", "one"), "E_ANSWER_VALUE"),
        (("cannot", "--value", "1"), "E_USAGE"),
        (("-m", "done"), "E_USAGE"),
    ],
)
def test_what_is_no_answer_about_a_task_is_told_and_nothing_is_recorded(
    workspace: Workspace, words: tuple[str, ...], code: str
) -> None:
    run, _ = started(workspace, "reviewer")
    done = workspace.at_terminal("answer", f"{run}/do", *words)
    assert (done.status, code in done.out or "Usage:" in done.out) == (REFUSED, True), done.out
    assert events(workspace, run, DecisionGiven) == []


def test_nobody_but_a_person_says_that_it_is_done(workspace: Workspace) -> None:
    run, _ = started(workspace, "reviewer")
    done = workspace.ordain("answer", f"{run}/do", "cannot", "-m", "too late")
    assert (done.status, f"→ ordain answer {run}/do -m 'too late' cannot\n" in done.err) == (WAITING, True)
    value = workspace.ordain("answer", "--json", f"{run}/do", "done")
    assert refused(value, "E_APPROVAL_CHANNEL", WAITING)["error"]["command"] == f"ordain answer {run}/do done"
    assert events(workspace, run, DecisionGiven) == []


# --- Crashes, stopping -----------------------------------------------------------------------------------------------


def working(workspace: Workspace, *more: str) -> Background:
    """An executor whose agent is at work."""
    plan(workspace, "slow", *more)
    executor = Background("commit", workspace.approved("do.plan.md"), cwd=workspace.path)
    eventually((workspace.path / "pid").exists)
    return executor


def run_of(workspace: Workspace) -> str:
    return str(open_at_terminal(workspace.path).runs.find_run(None))


@pytest.mark.slow
def test_a_killed_executors_agent_is_ended_and_its_step_is_in_doubt(workspace: Workspace) -> None:
    with working(workspace) as executor:
        run = run_of(workspace)
        os.kill(executor.pid, signal.SIGKILL)
        executor.end()
    assert leftovers(run) and "may still be at work, until it is resumed: do" in workspace.ordain("status").out
    assert workspace.ordain("resume").status == WAITING
    assert not leftovers(run), "the agent was ended"
    assert "still be at work" not in workspace.ordain("status").out
    (asked,) = report(workspace, run).questions
    assert (asked.kind, [one.word for one in asked.choices]) == ("doubt", ["happened", "did-not", "abort"])
    workspace.write("go", "")
    done = workspace.at_terminal("answer", f"{run}/do", "did-not", "--resume")
    assert (done.status, workspace.effects()) == (FINE, ["slow", "after"])
    assert workspace.ordain("audit", "verify").status == FINE


def test_an_agent_that_may_do_it_twice_is_begun_again_with_the_same_key(workspace: Workspace) -> None:
    with working(workspace, "**idempotent:** true") as executor:
        run = run_of(workspace)
        os.kill(executor.pid, signal.SIGKILL)
        executor.end()
    with Background("resume", cwd=workspace.path) as executor:
        eventually(lambda: len(events(workspace, run, WorkClaimed)) == 2)
        workspace.write("go", "")
        assert executor.end().status == FINE
    assert workspace.effects() == ["slow", "after"]
    first, second = events(workspace, run, WorkOffered)
    assert first.item.key == second.item.key and (first.attempt, second.attempt) == (1, 2)


def test_a_second_executor_is_refused_and_a_pause_waits_for_the_agent(workspace: Workspace) -> None:
    with working(workspace) as executor:
        run = run_of(workspace)
        refused(workspace.ordain("robot", "resume", run), "E_RUN_BUSY")
        assert workspace.ordain("pause", run).status == FINE
        workspace.write("go", "")
        executor.end()
    assert workspace.effects() == ["slow"], "what was under way came to its end"
    assert report(workspace, run).status == "paused"
    assert workspace.ordain("resume").status == FINE
    assert workspace.effects() == ["slow", "after"]


def test_a_cancelled_run_ends_its_agent(workspace: Workspace) -> None:
    with working(workspace) as executor:
        run = run_of(workspace)
        assert workspace.at_terminal("cancel", run, "-m", "no").status == FINE
        executor.end()
        assert not leftovers(run), "the agent was ended"
    assert report(workspace, run).status == "cancelled" and workspace.effects() == []
