"""Runs and people, with real processes: questions at a terminal, answers while an executor is at work, and runs that go
on where they were after their process and their machine died."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.crash.world import leftovers
from tests.interfaces import terminal
from tests.interfaces.terminal import CTRL_D, Background, Terminal
from tests.interfaces.test_robot import answered, refused
from tests.interfaces.workspace import Workspace
from tests.patience import eventually
from tests.words import DecisionGiven, ExecutorStarted, open_workspace

FINE, FAILED, REFUSED, WAITING = 0, 1, 2, 3

RELEASE = """\
plan_version: 1
title: Release
steps:
  - id: version
    description: The version to release
    action: {type: ask, question: "Which version?"}
  - id: colour
    description: A colour for it
    needs: []
    action: {type: ask, question: "Which colour?", choices: [red, deep blue]}
  - id: count
    description: How many copies
    needs: []
    action: {type: ask, question: "How many?", schema: {type: integer, minimum: 1}}
  - id: tag
    description: Tag it
    needs: [version, colour, count]
    action: {type: run, command: "echo tagged >> effects"}
"""

BESIDE = """\
plan_version: 1
title: Beside
concurrency: 4
steps:
  - id: fetch
    description: Fetch it
    action: {type: run, command: "echo tried >> effects; echo no mirror answers; test -f wanted"}
    on_failure: {strategy: escalate}
  - id: after
    description: Use it
    needs: [fetch]
    action: {type: run, command: "echo after >> effects"}
  - id: slow
    description: Something slow
    needs: []
    action: {type: run, command: "echo $$ > pid; until test -f go; do sleep 0.02; done; echo slow >> effects"}
"""


def report(workspace: Workspace, run: str) -> Any:
    return open_workspace(workspace.path).runs.run(run)


def states(workspace: Workspace, run: str) -> dict[str, str]:
    return {one.id: one.state.value for one in report(workspace, run).steps}


def events(workspace: Workspace, run: str, kind: type) -> list[Any]:
    return [one.event for one in open_workspace(workspace.path).plans.log(run) if isinstance(one.event, kind)]


@pytest.fixture
def asking(workspace: Workspace) -> tuple[Workspace, str]:
    workspace.write("release.plan.yaml", RELEASE)
    run, done = workspace.started("release.plan.yaml")
    assert done.status == WAITING
    return workspace, run


def test_questions_are_listed_with_their_commands_and_answered(asking: tuple[Workspace, str]) -> None:
    workspace, run = asking
    for shown in (workspace.ordain("status").out, workspace.ordain("inbox").out):
        for words in ("version TEXT", "colour red", "colour 'deep blue'", "count --value JSON", "version abort"):
            assert f"→ ordain answer {run}/{words}" in shown, words
    assert workspace.at_terminal("answer", f"{run}/version", "1.4.0").status == FINE
    assert workspace.at_terminal("answer", f"{run}/colour", "deep blue").status == FINE
    done = workspace.at_terminal("answer", f"{run}/count", "--value", "3", "--resume")
    assert (done.status, workspace.effects()) == (FINE, ["tagged"])
    shown = workspace.ordain("show", run).out
    assert all(re.search(rf"answered by .*: {words}\n", shown) for words in ("1.4.0", "deep blue", "3"))
    assert workspace.ordain("show", run, "--output", "version").out == "1.4.0\n"


@pytest.mark.part(of=3)
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("colour", "blue"), "E_ANSWER_CHOICE"),
        (("count", "--value", "0"), "E_ANSWER_VALUE"),
        (("count", "--value", "{"), "E_ANSWER_VALUE"),
        (("count", "many"), "E_ANSWER_VALUE"),
        (("version", "--value", "3"), "E_ANSWER_VALUE"),
    ],
)
def test_what_is_no_answer_is_told_and_nothing_is_recorded(
    asking: tuple[Workspace, str], words: tuple[str, ...], code: str
) -> None:
    workspace, run = asking
    done = workspace.at_terminal("answer", f"{run}/{words[0]}", *words[1:])
    assert (done.status, code in done.out) == (REFUSED, True)
    assert events(workspace, run, DecisionGiven) == []


def test_without_an_answer_everything_is_shown_and_asked(asking: tuple[Workspace, str]) -> None:
    workspace, run = asking
    done = workspace.at_terminal("answer", f"{run}/version", answers=[("Your answer (a text", "2.0")])
    assert (done.status, "Which version?" in done.out, "1 step cannot begin before" in done.out) == (FINE, True, True)
    assert states(workspace, run)["version"] == "passed"
    for nothing in ("", CTRL_D):
        done = workspace.at_terminal("answer", f"{run}/colour", answers=[("Your answer (red, deep blue", nothing)])
        assert (done.status, "nothing was recorded" in done.out) == (REFUSED, True)
    assert states(workspace, run)["colour"] == "waiting"


def test_nobody_but_a_person_at_a_terminal(asking: tuple[Workspace, str]) -> None:
    workspace, run = asking
    done = workspace.ordain("answer", f"{run}/colour", "deep blue")
    assert (done.status, f"→ ordain answer {run}/colour 'deep blue'\n" in done.err) == (WAITING, True)
    done = workspace.ordain("answer", f"{run}/version")
    assert (done.status, f"→ ordain answer {run}/version\n" in done.err) == (WAITING, True)
    value = workspace.ordain("answer", "--json", f"{run}/count", "--value", "3")
    assert refused(value, "E_APPROVAL_CHANNEL", WAITING)["error"]["command"] == f"ordain answer {run}/count --value 3"
    assert events(workspace, run, DecisionGiven) == []


@pytest.mark.slow
def test_the_whole_context_is_shown_and_in_json(workspace: Workspace) -> None:
    workspace.write("beside.plan.yaml", BESIDE)
    workspace.write("go", "")
    run, _ = workspace.started("beside.plan.yaml")
    workspace.at_terminal("answer", f"{run}/fetch", "retry", "--resume", answers=[("Your answer", "")])
    item = f"{run}/fetch@2"
    for shown in (workspace.ordain("show", item).out, workspace.ordain("inbox", "--verbose").out):
        assert "no mirror answers" in shown and "decided: retry" in shown and "On failure: escalate" in shown
        assert "  1. 2" in shown and "  2. 2" in shown, "each attempt with its time"
    data = answered(workspace.ordain("show", "--json", item))["question"]
    assert ([one["attempt"] for one in data["tries"]], data["behind"]) == ([1, 2], 1)
    (found,) = answered(workspace.ordain("inbox", "--json"))["items"]
    assert found["question"]["item"] == item
    brief = answered(workspace.ordain("show", "--json", run, "--brief", "fetch"))
    assert [one["id"] for one in brief["passed"]] == ["slow"] and [one["id"] for one in brief["remains"]] == ["after"]
    assert brief["tries"][0]["outcome"]["output_tail"] == "no mirror answers\n"
    assert "Remains:" in workspace.ordain("show", run, "--brief", "fetch").out
    refused(workspace.ordain("show", "--json", run, "--brief", "nothing"), "E_STEP_UNKNOWN")


# --- While an executor is at work ------------------------------------------------------------------------------------


def begun(workspace: Workspace) -> Background:
    """An executor that works on something slow, and asks about something that failed."""
    workspace.write("beside.plan.yaml", BESIDE)
    executor = Background("commit", workspace.approved("beside.plan.yaml"), cwd=workspace.path)
    executor.expect_said("✗ fetch")
    eventually((workspace.path / "pid").exists)
    return executor


def run_of(workspace: Workspace) -> str:
    return str(open_workspace(workspace.path).runs.find_run(None))


def test_an_answer_reaches_whoever_is_at_work(workspace: Workspace) -> None:
    with begun(workspace) as executor:
        run = run_of(workspace)
        workspace.write("wanted", "")
        done = workspace.at_terminal("answer", f"{run}/fetch", "retry")
        assert (done.status, "executing" in done.out) == (FINE, True)
        eventually(lambda: "after" in workspace.effects(), "the run going on")
        late = workspace.at_terminal("answer", f"{run}/fetch", "abort")
        assert (late.status, "E_ANSWER_ITEM" in late.out) == (REFUSED, True)
        workspace.write("go", "")
        assert executor.end().status == FINE
    assert workspace.effects() == ["tried", "tried", "after", "slow"]
    assert workspace.ordain("audit", "verify").status == FINE


def test_of_two_people_at_two_terminals_one_counts(workspace: Workspace) -> None:
    with begun(workspace) as executor:
        run = run_of(workspace)
        os.kill(executor.pid, signal.SIGSTOP)
        both = [Terminal("answer", f"{run}/fetch", word, cwd=workspace.path) for word in ("skip", "pass")]
        with both[0], both[1]:
            eventually(lambda: "answer_sent" in workspace.ordain("log", "beside.plan.yaml").out)
            os.kill(executor.pid, signal.SIGCONT)
            ended = [one.end() for one in both]
        assert sorted(one.status for one in ended) == [FINE, REFUSED]
        assert any("E_ANSWER_STALE" in one.out or "E_ANSWER_ITEM" in one.out for one in ended)
        workspace.write("go", "")
        executor.end()
    assert len(events(workspace, run, DecisionGiven)) == 1
    assert workspace.effects().count("after") == 1


@pytest.mark.slow
def test_an_answer_survives_the_executor_it_was_sent_to(workspace: Workspace) -> None:
    """kill -9 between sent and taken up: the next executor takes it up, once."""
    with begun(workspace) as executor:
        run = run_of(workspace)
        os.kill(executor.pid, signal.SIGSTOP)
        done = workspace.at_terminal("answer", f"{run}/fetch", "skip")
        assert (done.status, f"taken up when the run goes on: {run}/fetch" in done.out) == (FINE, True)
        assert events(workspace, run, DecisionGiven) == []
        os.kill(executor.pid, signal.SIGKILL)
        executor.end()
    assert report(workspace, run).answered == (f"{run}/fetch",)
    again = workspace.at_terminal("answer", f"{run}/fetch", "abort")
    assert (again.status, "E_ANSWER_STALE" in again.out) == (REFUSED, True)
    assert workspace.ordain("resume").status == WAITING  # about `slow`, which nobody saw end
    assert len(events(workspace, run, DecisionGiven)) == 1
    assert workspace.effects() == ["tried", "after"]


# --- After the process and the machine died --------------------------------------------------------------------------

ANOTHER_BOOT = """\
import sys
import ordain.assemble.workspace
ordain.assemble.workspace._boot_id = lambda: "another-boot"
from ordain.interfaces.cli.main import main
main()
"""


def rebooted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """From here on every command believes that the machine was started anew."""
    command = [sys.executable, "-c", ANOTHER_BOOT]
    monkeypatch.setattr(terminal, "ORDAIN", command)
    return command


@pytest.mark.slow
def test_an_escalated_run_goes_on_after_its_process_and_its_machine_died(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with begun(workspace) as executor:
        run = run_of(workspace)
        os.kill(executor.pid, signal.SIGKILL)
        assert executor.end().status == -signal.SIGKILL
    command = rebooted(monkeypatch)
    shown = workspace.at_terminal("show", f"{run}/fetch").out
    assert "no mirror answers" in shown
    workspace.write("wanted", "")
    assert workspace.at_terminal("answer", f"{run}/fetch", "retry").status == FINE
    resumed = subprocess.run([*command, "resume", run], cwd=workspace.path, capture_output=True, check=False)
    assert resumed.returncode == WAITING, "of `slow` nobody saw the end"
    assert states(workspace, run) == {"fetch": "passed", "after": "passed", "slow": "in_doubt"}
    assert workspace.at_terminal("answer", f"{run}/slow", "did-not").status == FINE
    workspace.write("go", "")
    resumed = subprocess.run([*command, "resume", run], cwd=workspace.path, capture_output=True, check=False)
    assert resumed.returncode == FINE
    assert sorted(workspace.effects()) == ["after", "slow", "tried", "tried"], "nothing twice, nothing lost"
    boots = [one.boot_id for one in events(workspace, run, ExecutorStarted)]
    assert len(boots) == 3 and boots[0] != "another-boot" and boots[1:] == ["another-boot"] * 2
    assert leftovers(run) == []
    assert workspace.ordain("audit", "verify").status == FINE


@pytest.mark.slow
def test_a_question_is_answered_after_the_machine_was_started_anew(
    asking: tuple[Workspace, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, run = asking
    rebooted(monkeypatch)
    for words in (("version", "1"), ("colour", "red"), ("count", "2")):
        assert workspace.at_terminal("answer", f"{run}/{words[0]}", words[1]).status == FINE
    assert workspace.at_terminal("resume", run).status == FINE
    assert workspace.effects() == ["tagged"]


def test_a_choice_that_looks_like_an_option_can_be_given_as_it_is_shown(workspace: Workspace) -> None:
    document = RELEASE.replace("[red, deep blue]", "[red, --none]")
    workspace.write("release.plan.yaml", document)
    run, done = workspace.started("release.plan.yaml")
    assert f"→ ordain answer {run}/colour -- --none" in done.out
    assert workspace.at_terminal("answer", f"{run}/colour", "--", "--none").status == FINE
    assert states(workspace, run)["colour"] == "passed"


def test_whoever_starts_a_run_is_asked_there_and_may_leave_a_question_open(workspace: Workspace) -> None:
    workspace.write("release.plan.yaml", RELEASE)
    with Terminal("run", "release.plan.yaml", cwd=workspace.path, env={"TERM": "dumb"}) as here:
        here.expect("Type yes: ")
        here.type("yes")
        for question, answer in (("a text", "1.4.0"), ("red", ""), ("integer", "none"), ("integer", "3")):
            here.expect("Your answer (")
            assert question in here.shown_until("): ")
            here.type(answer)
        ended = here.end()
    assert ended.status == WAITING and "Left open" in ended.out and "E_ANSWER_VALUE" in ended.out
    (question,) = open_questions(workspace)
    with Terminal("resume", cwd=workspace.path, env={"TERM": "dumb"}) as here:
        here.expect("Your answer (")
        assert workspace.at_terminal("answer", question, "red").status == FINE
        here.expect("): ")
        here.type("deep blue")
        ended = here.end()
    assert ended.status == FINE and "answered elsewhere meanwhile" in ended.out
    assert (workspace.path / "effects").read_text() == "tagged\n"


def open_questions(workspace: Workspace) -> list[str]:
    """The names of what is asked in this workspace."""
    lines = workspace.ordain("inbox", "--json")
    items = answered(lines)["items"]
    return sorted({command.split()[2] for item in items for command in item["commands"]})
