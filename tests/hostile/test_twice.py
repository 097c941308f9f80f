"""Attempts to get more out of a yes than it was given for: a yes that nobody gave, a run that is made twice."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ordain import Channel, Principal, Refused, open_workspace
from tests.interfaces.json_rpc import RpcClient
from tests.interfaces.terminal import start
from tests.interfaces.workspace import Workspace
from tests.patience import eventually
from tests.words import Credential, Given, Style, open_at_terminal, problem_lines

ALLOWED = '[policy]\nallow = ["shell"]\n'

FORGED = [
    Principal(name="kim", channel=Channel.TERMINAL),
    Principal(name="kim", channel="terminal"),  # type: ignore[arg-type]
]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def taking_a_caller(kind: type) -> list[str]:
    """The verbs that are told who calls."""
    verbs = {name: verb for name, verb in vars(kind).items() if callable(verb) and not name.startswith("_")}
    return [name for name, verb in verbs.items() if "by" in inspect.signature(verb).parameters]


async def called(verb: Any, **known: Any) -> None:
    """Call a verb with whatever it wants; what it is called with does not matter to a caller that is refused."""
    wanted = inspect.signature(verb).parameters.values()
    args = {one.name: known.get(one.name, one.name) for one in wanted if one.default is one.empty or one.name == "by"}
    made = verb(**{name: value for name, value in args.items() if name != "observers"})
    if hasattr(made, "__aenter__"):
        async with made:
            pass
    elif inspect.isawaitable(made):
        await made


@pytest.mark.parametrize("forged", FORGED)
def test_no_verb_of_the_library_takes_code_for_a_person(workspace: Workspace, forged: Principal) -> None:
    plan = workspace.prepared("small.plan.md")
    workspace.write("ordain.toml", '[policy]\nallow = ["shell"]\n')

    async def tries() -> None:
        app = open_workspace(workspace.path, exact=True)
        with pytest.raises(Refused):  # first of all, and by itself: this is what it is about
            await app.approvals.approve(plan, forged)
        with pytest.raises(Refused):
            await app.runs.commit(plan, forged)
        known = {
            "ref": plan,
            "by": forged,
            "data": b"# x\n\n1. `true`\n",
            "credential": Credential(name="kim", passphrase="0123456789ab"),
            "plan": app.plans.review(plan).plan,
            "given": Given(word="retry"),
            "source": workspace.path / "copy.db",
        }
        subjects = (app.plans, app.approvals, app.runs, app.answers, app.signals, app.topics, app.refusals)
        verbs = [getattr(one, name) for one in subjects for name in taking_a_caller(type(one))]
        verbs = [verb for verb in verbs if verb.__name__ not in ("record", "known")]
        review = app.plans.review(plan)
        assert await app.plans.known(review, forged) == review, "a look for a person alone: nobody looks"
        assert len(verbs) > 20
        stopping = app.stops
        for verb in [*verbs, app.audits.restore, stopping.stop, stopping.note, stopping.lift]:
            shown = app.plans.review(plan) if verb == app.runs.approve_and_commit else app.approvals.configuration()[1]
            with pytest.raises(Refused) as caught:
                await called(verb, **known, shown=shown)
            assert [one.code for one in caught.value.problems] == ["E_APPROVAL_CHANNEL"], verb.__name__
        tried = {(one.event.by.channel, one.event.verb) for one in app.refusals.newest()}  # type: ignore[union-attr]
        assert (Channel.LIBRARY, "approve") in tried and not any(one is Channel.TERMINAL for one, _ in tried)
        await app.close()

    asyncio.run(tries())
    assert workspace.ordain("commit", plan).status == 3
    assert workspace.effects() == []


# --- One preparation, one run ------------------------------------------------------------------------------------


def answer_of(result: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = result["structuredContent"]
    return found


def until(file: Path) -> None:
    """Wait for a command of ours to write a file; the test's own limit ends it."""
    eventually(file.exists, file.name)


def answer(workspace: Workspace, *words: str) -> tuple[int, dict[str, Any]]:
    ended = workspace.ordain("robot", *words)
    return ended.status, json.loads(ended.out)


@pytest.mark.slow
def test_a_robot_that_lost_the_answer_commits_again_and_gets_the_same(workspace: Workspace) -> None:
    workspace.trust(ALLOWED)
    prepared = answer(workspace, "prepare", "small.plan.md")[1]["data"]
    words = shlex.split(prepared["commit_command"])[1:]
    assert words[-1] == prepared["preparation"] and prepared["approval"] is None
    status, first = answer(workspace, *words)
    for again in (words, words[:2]):
        repeated, told = answer(workspace, *again)
        assert (repeated, told["data"]) == (status, first["data"]) and status == 0
        assert [one["code"] for one in told["problems"]] == ["W_RUN_EARLIER"]
    assert workspace.effects() == ["one", "two"]
    code, refused = answer(workspace, *words[:2], "--preparation", "PREP-AAAA")
    assert (code, refused["error"]["code"]) == (2, "E_PREPARATION_NOT_FOUND")
    answer(workspace, "prepare", "small.plan.md")  # one preparation more, one run more
    assert answer(workspace, *words)[1]["data"] == first["data"], "the first one is still spent"
    assert answer(workspace, *words[:2])[1]["data"]["run_id"] != first["data"]["run_id"]
    assert workspace.effects() == ["one", "two"] * 2
    assert workspace.ordain("run", "small.plan.md").status == 0  # which prepares
    assert workspace.effects() == ["one", "two"] * 3
    assert workspace.ordain("audit", "verify").status == 0


def test_a_run_that_failed_is_not_run_again_by_committing_again(workspace: Workspace) -> None:
    workspace.trust(ALLOWED)
    words = shlex.split(answer(workspace, "prepare", "fails.plan.md")[1]["data"]["commit_command"])[1:]
    first, again = answer(workspace, *words), answer(workspace, *words)
    assert first[0] == again[0] == 1 and first[1]["data"] == again[1]["data"]
    assert workspace.effects() == ["one"]


def earlier(workspace: Workspace, *words: str) -> dict[str, Any]:
    """What somebody is told of the run that there was before."""
    (problem,) = [one for one in answer(workspace, *words)[1]["problems"] if one["code"] == "W_RUN_EARLIER"]
    return dict(problem)


@pytest.mark.part(of=2)
@pytest.mark.parametrize("policy", [ALLOWED, ""])
def test_whoever_is_told_of_an_earlier_run_can_do_what_the_hint_says(workspace: Workspace, policy: str) -> None:
    workspace.trust(policy)
    plan = workspace.prepared("small.plan.md") if policy else workspace.approved("small.plan.md")
    answer(workspace, "commit", plan)
    told = earlier(workspace, "commit", plan)
    assert "prepare it again; where it needs approval, a person approves that" in told["hints"][0]
    assert answer(workspace, *shlex.split(told["command"])[1:])[0] == 0
    prepared = answer(workspace, "prepare", "small.plan.md")[1]["data"]
    if prepared["approval"] is not None:
        workspace.approve(plan)
    assert answer(workspace, *shlex.split(prepared["commit_command"])[1:])[0] == 0
    assert workspace.effects() == ["one", "two"] * 2


def test_whoever_commits_what_was_killed_is_told_to_resume_it(workspace: Workspace) -> None:
    workspace.trust(ALLOWED)
    words = shlex.split(answer(workspace, "prepare", "waits.plan.md")[1]["data"]["commit_command"])[1:]
    with start(["robot", *words], cwd=workspace.path, stdout=subprocess.PIPE) as run:
        until(workspace.path / "pid")
        run.kill()
    told = earlier(workspace, *words)
    assert "resumed" in told["hints"][0] and told["command"].startswith("ordain resume RUN-")
    assert answer(workspace, *shlex.split(told["command"])[1:])[1]["data"]["status"] == "waiting"


def test_who_commits_while_it_runs_gets_the_answer_of_that_run(workspace: Workspace) -> None:
    workspace.trust(ALLOWED)
    words = shlex.split(answer(workspace, "prepare", "waits.plan.md")[1]["data"]["commit_command"])[1:]
    started = [start(["robot", *words], cwd=workspace.path, stdout=subprocess.PIPE)]
    until(workspace.path / "pid")
    started += [start(["robot", *words], cwd=workspace.path, stdout=subprocess.PIPE)]
    assert answer(workspace, *words, "--detach")[1]["data"]["status"] == "executing"
    workspace.write("go", "")
    told = [json.loads(one.communicate()[0])["data"] for one in started]
    assert [one.returncode for one in started] == [0, 0] and told[0] == told[1]
    assert workspace.effects() == ["slow", "after"]


@pytest.mark.part(of=2)
@pytest.mark.parametrize("named", [True, False])
def test_an_agent_that_calls_plan_commit_again_gets_the_same_run(workspace: Workspace, named: bool) -> None:
    workspace.trust(ALLOWED)
    with RpcClient(workspace.path, extensions=()) as client:
        proposed = answer_of(client.call("plan_propose", document=workspace.path.joinpath("small.plan.md").read_text()))
        asked = {"plan": proposed["data"]["plan"]}
        asked |= {"preparation": proposed["data"]["preparation"]} if named else {}
        first = answer_of(client.call("plan_commit", wait_s=30, **asked))
        while workspace.effects() != ["one", "two"] or first["data"]["status"] == "executing":
            # Only when that run has ended: two at once would get into each other's way.
            first = answer_of(client.call("plan_status", what=first["data"]["run_id"], wait_s=5))
        again = answer_of(client.call("plan_commit", wait_s=30, **asked))
        assert workspace.effects() == ["one", "two"]
        assert first["data"]["status"] == "success" and again["data"] == first["data"]
        assert [one["code"] for one in again["problems"]] == ["W_RUN_EARLIER"] and not first["problems"]
    assert workspace.effects() == ["one", "two"]


@pytest.mark.slow
def test_after_one_approval_more_one_run_more(workspace: Workspace) -> None:
    plan = workspace.approved("small.plan.md")
    runs = [answer(workspace, "commit", plan)[1]["data"]["run_id"] for _ in range(2)]
    workspace.approve(plan)
    runs += [answer(workspace, "commit", plan)[1]["data"]["run_id"] for _ in range(2)]
    assert runs[0] == runs[1] != runs[2] == runs[3]
    assert workspace.effects() == ["one", "two"] * 2


# --- A file that says something else -------------------------------------------------------------------------------


@pytest.mark.part(of=2)
@pytest.mark.parametrize("edit", ["# Other\n\n1. `echo evil >> effects`\n", None])
def test_who_names_a_file_gets_what_it_says_or_nothing(workspace: Workspace, edit: str | None) -> None:
    plan = workspace.approved("small.plan.md")
    file = workspace.path / "small.plan.md"
    file.write_text(edit) if edit is not None else file.unlink()
    for words in (["commit"], ["commit", "--detach"], ["robot", "commit"]):
        done = workspace.ordain(*words, "small.plan.md")
        assert done.status == 2 and "E_DOC_DRIFT" in done.out + done.err
        assert "ordain prepare small.plan.md" in done.out + done.err and f"ordain commit {plan}" in done.out + done.err
    shown = workspace.at_terminal("approve", "small.plan.md")
    assert shown.status == 2 and "E_DOC_DRIFT" in shown.out and "Type yes" not in shown.out
    assert workspace.effects() == []
    assert workspace.ordain("commit", plan).status == 0
    assert workspace.effects() == ["one", "two"]


# --- A run whose executor died -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_that_was_killed_is_in_the_inbox(workspace: Workspace) -> None:
    plan = workspace.approved("waits.plan.md")
    executor = start(["robot", "commit", plan], cwd=workspace.path, stdout=subprocess.DEVNULL)
    until(workspace.path / "pid")
    assert answer(workspace, "inbox")[1]["data"]["items"] == []
    executor.kill()
    executor.wait()
    (item,) = answer(workspace, "inbox")[1]["data"]["items"]
    run = answer(workspace, "status")[1]["data"]["plans"][-1]["run"]["run_id"]
    assert (item["kind"], item["commands"]) == ("stopped", [f"ordain resume {run}"]) and "slow had begun" in item[
        "detail"
    ]
    for words in (["inbox"], ["inbox", "--all"]):
        told = workspace.ordain(*words).out
        assert "Wait for a sign" in told and f"resume {run}" in told
    workspace.write("go", "")
    assert workspace.ordain("cancel", run).status == 0
    assert answer(workspace, "inbox")[1]["data"]["items"] == []


# --- A no that is asked again --------------------------------------------------------------------------------------


def proposal(title: str, *commands: str) -> bytes:
    return f"# {title}\n\n{''.join(f'{n}. `{one}`' + chr(10) for n, one in enumerate(commands, 1))}".encode()


@pytest.mark.part(of=3)
@pytest.mark.parametrize(
    "again",
    [
        ("true 1", "true 2"),  # under another title
        ("true 2", "true 1"),
        ("true 1", "true 2", "true 1", "true 2"),
        ("echo hello", "true 1", "true 2", "echo bye"),
        ("true 1 ;", "env A=1 /bin/true '2' # now"),
        ("bash -c 'true 1' && true  2",),
    ],
)
def test_three_times_no_is_no_by_any_name(workspace: Workspace, again: tuple[str, ...]) -> None:
    agent, other = (Principal(name=name, channel=Channel.MCP) for name in ("anna", "bert"))
    kim = Principal(name="kim", channel=Channel.TERMINAL)

    async def life() -> None:
        app = open_at_terminal(workspace.path, exact=True)
        for number in range(3):
            prepared = await app.plans.prepare(proposal(f"Try {number}", "true 1", "true 2"), None, agent)
            await app.plans.reject(prepared.review.plan_id, kim, "No.")
        await app.plans.cancel(prepared.review.plan_id, agent)
        with pytest.raises(Refused) as caught:
            await app.plans.prepare(proposal("Quite another", *again), None, agent)
        assert caught.value.problems[0].code == "E_PLAN_NEEDS_REVIEW"
        await app.plans.prepare(proposal("Quite another", *again), None, other)
        await app.plans.prepare(proposal("Quite different", "true 1", "true 3"), None, agent)
        await app.plans.prepare(proposal("Mine", "true 1", "true 2"), None, kim)
        await app.close()

    asyncio.run(life())


# --- Where processes cannot be searched ------------------------------------------------------------------------------


def test_without_proc_what_a_killed_executor_left_is_ended_by_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ordain.adapters.process import bash
    from ordain.adapters.process import process as process_groups

    if shutil.which("ps") is None:
        pytest.skip("ps is not installed, so nothing says when a process was started")
    monkeypatch.setattr(process_groups, "is_searchable", lambda: False)
    monkeypatch.setattr(process_groups, "all_processes", list)
    shell = bash.BashShell(tmp_path, room=lambda: tmp_path)
    left, other, reused = (
        subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL) for _ in range(3)
    )
    groups = process_groups.ProcessGroups(lambda: tmp_path)
    for child, mark in ((left, "WS/RUN-1/a"), (other, "WS/RUN-2/a"), (reused, "WS/RUN-1/b")):
        groups.note(child.pid, mark)
    note = tmp_path / "groups" / str(reused.pid)
    note.write_bytes(note.read_bytes().replace(b'"started":"', b'"started":"not '))  # another process has its number
    assert shell.sweep("WS/RUN-1/") == 1
    assert left.wait() == -9 and other.poll() is None and reused.poll() is None
    assert [one.code for one in process_groups.weaknesses()] == ["W_PROCESSES"]
    for child in (other, reused):
        child.kill()
        child.wait()


def test_without_proc_an_executor_that_is_killed_while_it_notes_a_group_has_noted_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ordain.adapters.process import process as process_groups

    if shutil.which("ps") is None:
        pytest.skip("ps is not installed, so nothing says when a process was started")
    monkeypatch.setattr(process_groups, "is_searchable", lambda: False)
    groups = process_groups.ProcessGroups(lambda: tmp_path)
    left, reused = (subprocess.Popen(["sleep", "600"], start_new_session=True) for _ in range(2))
    with monkeypatch.context() as killed:
        killed.setattr(process_groups, "_started", lambda pid: sys.exit("killed"))
        for child in (left, reused):
            with pytest.raises(SystemExit):
                groups.note(child.pid, "WS/RUN-1/a")
    os.utime(tmp_path / "groups" / str(reused.pid), (1, 1))  # another process has its number since
    assert groups.end("WS/RUN-1/") == 1
    assert left.wait() == -9 and reused.poll() is None
    reused.kill()
    reused.wait()


def test_without_proc_whoever_approves_is_told_what_is_weaker(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = workspace.prepared("small.plan.md")
    for there in (True, False):
        monkeypatch.setattr("ordain.adapters.process.process.is_searchable", lambda there=there: there)
        told = [one for one in open_at_terminal(workspace.path).plans.review(plan).notices if one.code == "W_PROCESSES"]
        assert bool(told) is not there
    shown = "\n".join(problem_lines(told, Style(False)))
    assert "There is no /proc here" in shown and "goes on beside the run that takes over" in shown
