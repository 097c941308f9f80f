"""What runs say that is easily missed or told wrong: at the command line, in robot mode and over MCP."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.interfaces.json_rpc import RpcClient
from tests.interfaces.terminal import start, without_terminal
from tests.interfaces.test_mcp_tools import answer_of
from tests.interfaces.workspace import Workspace, run_id
from tests.patience import eventually
from tests.words import CUT_MARK

FINE, REFUSED, FAILED = 0, 2, 4


def ran(workspace: Workspace, document: str, name: str = "x.plan.md") -> dict[str, Any]:
    """The JSON document of a run of this plan, which a person approved."""
    workspace.write(name, document)
    workspace.trust('[policy]\nallow = ["shell", "destructive"]\n')
    answer: dict[str, Any] = json.loads(workspace.ordain("run", name, "--json").out.splitlines()[-1])
    return answer


# --- Failure policies ----------------------------------------------------------------------------------------------

FALLS_BACK = """\
# Fetch the list

**On failure:** continue

## Steps

### 1. Fetch

**run:** echo no mirror; exit 3
**contract:** test -s list.txt
**on_fail:** fallback(other), then {then}

## Fallbacks

### other. Fetch it elsewhere

**run:** true
"""


def test_what_follows_a_fallback_is_as_the_plan_says_and_the_first_failure_is_told(workspace: Workspace) -> None:
    answer = ran(workspace, FALLS_BACK.format(then='abort("There is no list.")'))
    (step,) = [one for one in answer["data"]["steps"] if one["id"] == "fetch"]
    assert (answer["data"]["reason"], step["error"]) == ("There is no list.", "F_STEP_FAILED")
    assert step["evidence"].startswith("exit status 3; its fallback was run; contract broken")
    assert ran(workspace, FALLS_BACK.format(then="skip"), "y.plan.md")["data"]["status"] == "success"


def test_what_cannot_follow_a_fallback_is_told(workspace: Workspace) -> None:
    workspace.write("x.plan.md", FALLS_BACK.format(then="retry(2)"))
    told = workspace.ordain("lint", "x.plan.md")
    assert told.status == REFUSED and "`retry` can not follow a fallback" in told.out + told.err


def test_a_skip_that_is_to_warn_warns(workspace: Workspace) -> None:
    workspace.trust('[policy]\nallow = ["shell", "destructive"]\n')
    for warn, expected in ((True, ["W_STEP_SKIPPED"]), (False, [])):
        step = {
            "id": "a",
            "action": {"type": "run", "command": "exit 3"},
            "on_failure": {"strategy": "skip", "warn": warn},
        }
        workspace.write("x.plan", json.dumps({"title": "T", "steps": [step]}))
        answer = json.loads(workspace.ordain("run", "x.plan", "--json").out.splitlines()[-1])
        run = answer["data"]["run_id"]
        assert (answer["data"]["status"], [one["code"] for one in answer["problems"]]) == ("success", expected)
        shown = workspace.ordain("show", run)
        assert ("W_STEP_SKIPPED" in shown.out + shown.err) is warn
        with RpcClient(workspace.path, extensions=()) as client:
            status = answer_of(client.call("plan_status", what=run))
        assert [one["code"] for one in status["problems"]] == expected


# --- How it is told ------------------------------------------------------------------------------------------------


def test_an_expression_is_not_called_a_contract(workspace: Workspace) -> None:
    workspace.trust('[policy]\nallow = ["shell"]\n')
    says = {"type": "custom", "name": "says", "expression": 'output.contains("hi")'}
    step = {"id": "a", "action": {"type": "run", "command": "echo hi"}, "verification": {"strategy": says}}
    workspace.write("x.plan", json.dumps({"title": "T", "steps": [step]}))
    done = workspace.ordain("run", "x.plan")
    assert "verification held" in done.err and "contract" not in done.err + done.out


def test_a_run_with_a_step_that_failed_and_was_skipped_is_not_green(workspace: Workspace) -> None:
    workspace.trust('[policy]\nallow = ["shell"]\n')
    document = "# T\n\n## Steps\n\n### 1. A\n\n**run:** exit 3\n**on_fail:** skip\n\n### 2. B\n\n**run:** true\n"
    workspace.write("x.plan.md", document)
    told = workspace.at_terminal("run", "x.plan.md").out
    (line,) = [line for line in told.splitlines() if "Status:" in line]
    assert "failed and skipped: a" in line and "\x1b[33m" in line and "\x1b[32m" not in line


# --- What comes next -----------------------------------------------------------------------------------------------


def test_nothing_is_offered_that_cannot_run_and_simulate_says_why(workspace: Workspace) -> None:
    template = {"title": "T", "params": {"name": {"type": "string"}}}
    echo = {"type": "run", "command": "echo $N", "env": {"N": "${params.name}"}}
    workspace.write("w.plan.md", "# T\n\n## Steps\n\n### 1. A\n\n**worktree:** true\n**run:** echo a\n")
    workspace.write("t.plan", json.dumps({**template, "steps": [{"id": "a", "action": echo}]}))
    for file, code in (("w.plan.md", "E_NOT_YET"), ("t.plan", "E_PARAM"), ("small.plan.md", "E_POLICY_DENIED")):
        if file == "small.plan.md":
            workspace.trust('[policy]\ndeny = ["shell"]\n')
        for verb in ("lint", "show", "simulate"):
            told = json.loads(workspace.ordain(verb, file, "--json").out)
            assert not [one for one in told["next"] if one.startswith(("ordain run", "ordain prepare"))], (file, verb)
        found = {one["code"].replace("W_NOT", "E_NOT") for one in told["problems"]}
        assert code in found, (file, told)
    shown = workspace.ordain("simulate", "w.plan.md")
    assert "W_NOT_YET" in shown.out + shown.err


def test_what_can_run_is_offered(workspace: Workspace) -> None:
    for verb in ("lint", "show", "simulate"):
        assert "ordain run small.plan.md" in json.loads(workspace.ordain(verb, "small.plan.md", "--json").out)["next"]


def test_a_loop_counts_with_its_bound(workspace: Workspace) -> None:
    listed = {"id": "list", "action": {"type": "run", "command": "seq 1 3"}}
    echo = {"type": "run", "command": 'echo "$F" >> out', "env": {"F": "${item}"}}
    for bound, many in ((3, None), (200, 200)):
        loop = {"id": "each", "action": echo, "for_each": {"in": "${list.output}", "max": bound}}
        workspace.write("x.plan", json.dumps({"title": "T", "steps": [listed, loop]}))
        risks = json.loads(workspace.ordain("show", "x.plan", "--json").out)["data"]["risks"]
        assert {one["kind"]: one["count"] for one in risks}.get("many") == many


def test_repaired_bytes_that_are_another_plan_say_what_they_leave_behind(workspace: Workspace) -> None:
    workspace.write("one.plan.md", "# A\n\n1. `echo a`\n")
    workspace.write("two.plan.md", "# B\n\n1. `echo b`\n")
    first, second = (
        json.loads(workspace.ordain("prepare", name, "--json").out)["data"] for name in ("one.plan.md", "two.plan.md")
    )
    workspace.write("two.plan.md", "# A\n\n1. `echo a`\n")
    told = json.loads(workspace.ordain("prepare", "two.plan.md", "--json").out)
    (one,) = [one for one in told["problems"] if one["code"] == "W_PLAN_LEFT_BEHIND"]
    assert (told["data"]["lineage"], one["command"]) == (first["lineage"], f"ordain cancel {second['lineage']}")
    assert workspace.ordain(*one["command"].split()[1:]).status == FINE
    again = json.loads(workspace.ordain("prepare", "two.plan.md", "--json").out)
    assert "W_PLAN_LEFT_BEHIND" not in [one["code"] for one in again["problems"]]


LONG_LINE = """\
# Long

1. `printf before; head -c 1500000 /dev/zero | tr '\\0' x; echo; echo end`
2. `head -c 10000 /dev/zero | tr '\\0' x`
3. `head -c 4000 /dev/zero | tr '\\0' x`
"""


def test_the_end_of_a_long_output_is_told_whole_and_marked_as_the_end(workspace: Workspace) -> None:
    answer = ran(workspace, LONG_LINE)
    tails = [step["output_tail"] for step in answer["data"]["steps"]]
    assert tails == [f"{CUT_MARK}{'x' * 3995}\nend\n", f"{CUT_MARK}{'x' * 4000}", "x" * 4000]
    run = answer["data"]["run_id"]
    first, second, _ = (step["id"] for step in answer["data"]["steps"])
    shown = workspace.ordain("show", run, "--verbose").out
    assert [line.split()[-1] for line in shown.splitlines() if "… earlier output" in line] == [first, second]
    assert "before" not in shown.partition("1 pass")[0].partition("xxx")[2]
    with RpcClient(workspace.path, extensions=()) as client:
        steps = answer_of(client.call("plan_status", what=run))["data"]["run"]["steps"]
    assert [step["output_tail"] for step in steps[1:]] == [f"{CUT_MARK}{'x' * 2000}"] * 2


def test_what_a_cancelled_run_names_next_works(workspace: Workspace) -> None:
    run, _ = workspace.started("asks.plan.md")
    refused = json.loads(workspace.ordain("cancel", "asks.plan.md", "--json").out)["problems"][0]
    assert (refused["code"], refused["command"]) == ("E_RUN_OPEN", f"ordain cancel {run}")
    ended = workspace.ordain("cancel", run)
    assert "    → ordain prepare asks.plan.md" in ended.out and f"→ ordain rerun {run}  " not in ended.out
    told = json.loads(workspace.ordain("show", run, "--json").out)
    assert told["data"]["prepare"] == "ordain prepare asks.plan.md"
    assert "ordain prepare asks.plan.md" in told["next"] and f"ordain rerun {run}" not in told["next"]
    assert workspace.ordain(*told["data"]["prepare"].split()[1:]).status == FINE
    assert "prepare" not in json.loads(workspace.ordain("show", run, "--json").out)["data"]
    workspace.approve("asks.plan.md")
    again = json.loads(workspace.ordain("rerun", run, "--json").out.splitlines()[-1])
    assert (again["problems"], again["data"]["rerun_of"]) == ([], run)


def test_how_long_a_run_took_is_not_told_while_a_step_is_at_work(workspace: Workspace) -> None:
    plan = workspace.approved("waits.plan.md")
    executor = start(["commit", plan], cwd=workspace.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    eventually(lambda: (workspace.path / "pid").exists())
    executor.kill()
    executor.wait()
    run = run_id(workspace.ordain("status").out)
    shown = workspace.ordain("show", run).out
    assert "Status: stopped" in shown and "  1 pending, 1 running, 1 attempt\n" in shown
    assert "took" in workspace.ordain("cancel", run).out


def test_a_command_that_only_reads_and_is_guarded_names_what_opens_it(workspace: Workspace) -> None:
    said = workspace.ordain("guard", "check", "ls -la").out
    assert "`shell:reads` would open" in said
    assert "shell:reads" not in workspace.ordain("guard", "check", "ls -la > out").out
    workspace.trust('[guard]\nopen = ["reads", "shell:reads"]\n')
    assert "is open by `shell:reads`" in workspace.ordain("guard", "check", "ls -la").out


def test_a_planner_that_is_not_trusted_yet_says_to_trust_it(workspace: Workspace) -> None:
    def refused() -> tuple[str, str]:
        (one,) = json.loads(workspace.ordain("plan", "x", "--json").out)["problems"]
        assert one["code"] == "E_PLANNER_NONE"
        return one["hints"][0], one["command"]

    assert "[planner], and below it" in refused()[0]
    workspace.write("ordain.toml", '[planner]\nmodel = "anthropic:some"\n')
    hint, command = refused()
    assert "`ordain trust`" in hint and "Write into" not in hint and command == "ordain trust"


# --- What is known of the place ------------------------------------------------------------------------------------


def codes_of(told: str) -> list[str]:
    return [one["code"] for one in json.loads(told.splitlines()[-1])["problems"]]


def test_a_directory_that_was_moved_is_told_of_with_the_way_to_take_its_record_along(workspace: Workspace) -> None:
    workspace.prepared("small.plan.md")
    assert codes_of(workspace.ordain("prepare", "look.plan.md", "--json").out) == []
    moved = workspace.path.rename(workspace.path.with_name("moved"))
    told = without_terminal("prepare", "look.plan.md", "--json", cwd=moved)
    (one,) = [one for one in json.loads(told.out)["problems"] if one["code"] == "W_WORKSPACE_MOVED"]
    assert one["command"].startswith("ordain audit restore ")
    # From then on the directory has a record of its own.
    assert codes_of(without_terminal("prepare", "small.plan.md", "--json", cwd=moved).out) == []


def test_a_file_of_secrets_that_cannot_be_read_is_told_of(workspace: Workspace) -> None:
    workspace.trust('[secrets]\nfiles = ["~/gone.env"]\n')
    (one,) = json.loads(workspace.ordain("status", "--json").out)["problems"]
    assert one["code"] == "W_SECRET_FILE" and "gone.env" in one["detail"]
