"""Robot mode: exactly one JSON document for every command, always of the same shape, and no way to approve."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from ordain.interfaces.cli.main import _GROUPS
from ordain.interfaces.robot import envelope as robot
from tests.interfaces.terminal import Ended
from tests.interfaces.workspace import SMALL, WARNS, Workspace
from tests.words import Place, PlanVerbs, Problem, main, problem_pages

ENVELOPE = {"ok", "data", "error", "problems", "next", "elapsed_ms", "version"}
ERROR = {"code", "message", "remediation", "command"}
PROBLEM = {"code", "severity", "detail", "where", "hints", "command"}
PLACE = {"file", "line", "column", "step"}
FINE, FAILED, REFUSED, WAITING, BUG = 0, 1, 2, 3, 70


def envelope(text: str) -> dict[str, Any]:
    """The one document of a command, after checking its shape."""
    assert text.endswith("\n") and text.count("\n") == 1, text
    document: dict[str, Any] = json.loads(text)
    assert set(document) == ENVELOPE
    assert (document["version"], type(document["elapsed_ms"])) == (1, int)
    assert document["ok"] is (document["error"] is None)
    assert document["ok"] or set(document["error"]) == ERROR
    assert all(isinstance(command, str) for command in document["next"])
    for problem in document["problems"]:
        assert set(problem) == PROBLEM
        assert problem["where"] is None or set(problem["where"]) == PLACE
    return document


def answered(done: Ended, status: int = FINE) -> Any:
    """The data of a command that went well, silently."""
    assert (done.status, done.err) == (status, ""), done
    document = envelope(done.out)
    assert document["ok"], document
    return document["data"]


def refused(done: Ended, code: str, status: int = REFUSED) -> dict[str, Any]:
    """The document of a command that refused, silently, with this code."""
    assert (done.status, done.err) == (status, ""), done
    document = envelope(done.out)
    error = document["error"]
    assert error is not None and error["code"] == code, document
    assert document["problems"][0]["detail"] and error["message"] and error["remediation"]
    assert error["command"] is None or error["command"] in document["next"]
    return document


def test_every_command_has_a_test_of_its_json():
    commands = {name for group in _GROUPS.values() for name in group}
    texts = [path.read_text() for path in Path(__file__).parent.glob("test_*.py")]
    tested = {name for text in texts for name in re.findall(r"^def test_json_(\w+)\(", text, re.MULTILINE)}
    assert commands == tested


@pytest.mark.parametrize(
    "words",
    [
        ("approver", "revoke", "kim; touch pasted"),
        ("audit", "restore", "my ledger.jsonl"),
        ("mcp", "token", "add", "$(touch pasted)"),
    ],
)
def test_a_command_for_a_person_is_pasted_as_the_words_that_were_given(workspace: Workspace, words: tuple[str, ...]):
    workspace.write("my ledger.jsonl", "")
    command = json.loads(workspace.ordain("robot", *words).out)["error"]["command"]
    assert shlex.split(command) == ["ordain", *words]


def test_a_script_is_told_the_command_as_it_would_be_pasted(workspace: Workspace):
    workspace.write("my fix.plan.md", SMALL)
    workspace.prepared("my fix.plan.md")
    for words in (("approve", "my fix.plan.md"), ("approver", "revoke", "kim; touch pasted")):
        assert f"ordain {shlex.join(words)}\n" in workspace.ordain(*words).err


# --- One test a command, by its name -------------------------------------------------------------------------------


def test_json_run(workspace: Workspace):
    done = workspace.ordain("run", "--json", "look.plan.md")
    assert (done.status, done.err) == (FINE, "")
    *events, last = done.out.splitlines(keepends=True)
    values = [json.loads(event) for event in events]
    assert all({"seq", "at", "stream", "type", "head"} <= set(value) for value in values)
    assert [value["type"] for value in values] == [
        "executor_started",
        "attempt_started",
        "attempt_ended",
        "run_finished",
    ]
    data = envelope(last)["data"]
    assert (data["status"], data["error_code"], data["execution_id"]) == ("success", None, data["run_id"])
    assert [(step["id"], step["state"]) for step in data["steps"]] == [("read-it", "passed")]

    document = refused(workspace.ordain("run", "--json", "small.plan.md"), "E_PLAN_APPROVAL_MISSING", WAITING)
    assert re.fullmatch(r"ordain approve [0-9a-f]{12} --start", document["error"]["command"])
    assert document["data"]["requires_approval"] is True
    refused(workspace.ordain("run", "--json", "missing.plan.md"), "E_DOC_NOT_FOUND")
    assert workspace.effects() == []


def test_json_lint(workspace: Workspace):
    data = answered(workspace.ordain("lint", "--json", "small.plan.md"))
    assert (data["dialect"], data["steps"], data["file"]) == ("markdown", 2, "small.plan.md")
    assert data["plan_id"].removeprefix("plan:") == data["plan_hash"].removeprefix("sha256:")
    done = workspace.ordain("lint", "--json", "small.plan.md", "warns.plan.md")
    assert len(answered(done)) == 2
    (problem,) = envelope(done.out)["problems"]
    assert (problem["code"], problem["severity"]) == ("W_CONTRACT_SIGPIPE", "warning")
    assert problem["where"] == {"file": "warns.plan.md", "line": 5, "column": 1, "step": "one"}
    refused(workspace.ordain("lint", "--json", "--strict", "warns.plan.md"), "W_CONTRACT_SIGPIPE")
    workspace.write("bad.plan.md", WARNS + "**timeout:** 2d\n**needs:** 9\n")
    document = refused(workspace.ordain("lint", "--format", "json", "bad.plan.md"), "E_STEP_LIMIT")
    assert [problem["code"] for problem in document["problems"]] == [
        "E_STEP_LIMIT",
        "E_STEP_UNKNOWN_NEED",
        "W_CONTRACT_SIGPIPE",
    ]
    assert document["data"]["plan_id"] is None


def test_the_next_command_can_be_pasted_whatever_the_document_is_called(workspace: Workspace):
    workspace.write("a plan; really.md", WARNS)
    done = workspace.ordain("lint", "--json", "a plan; really.md")
    assert envelope(done.out)["next"] == ["ordain run 'a plan; really.md'", "ordain prepare 'a plan; really.md'"]


def test_json_show(workspace: Workspace):
    document = answered(workspace.ordain("show", "--json", "small.plan.md"))
    assert (document["status"], document["lineage"], document["plan"]["title"]) == ("draft", None, "Make two lines")
    short = workspace.prepared("small.plan.md")
    stored = answered(workspace.ordain("show", "--json", short))
    assert (stored["status"], stored["plan"]) == ("proposed", document["plan"])
    assert [effect["target"] for effect in stored["effects"]] == ["echo one >> effects", "echo two >> effects"]
    run, _ = workspace.started("fails.plan.md")
    assert answered(workspace.ordain("show", "--json", run))["status"] == "failed"
    refused(workspace.ordain("show", "--json", "00000000"), "E_PLAN_NOT_FOUND")
    workspace.write("says.plan.md", "# Say\n\n1. `printf 'a\\033[31m\\nb'`\n")
    said, _ = workspace.started("says.plan.md")
    (step,) = answered(workspace.ordain("show", "--json", said))["steps"]
    output = answered(workspace.ordain("show", "--json", said, "--output", step["id"]))
    assert output == {
        "run_id": said,
        "step": step["id"],
        "output_bytes": 8,
        "kept_bytes": 8,
        "written": None,
        "output": "a\x1b[31m\nb",
    }
    refused(workspace.ordain("show", "--json", said, "--output", step["id"], "-o", "out"), "E_EXACT_CHANNEL")
    assert not (workspace.path / "out").exists(), "exact bytes are for a person at a terminal"
    refused(workspace.ordain("show", "--json", said, "--output", "nope"), "E_STEP_UNKNOWN")
    refused(workspace.ordain("show", "--json", run, "--output", "echo-three-effects"), "E_OUTPUT_NOT_KEPT")


def test_json_prepare(workspace: Workspace):
    data = answered(workspace.ordain("prepare", "--json", "small.plan.md"))
    wanted = {"plan_id", "plan_hash", "lineage", "plan", "requires_approval", "reasons", "effects", "approval", "tier"}
    assert wanted | {"commit_command"} <= set(data)
    short = data["plan_id"].removeprefix("plan:")[:12]
    assert data["commit_command"] == f"ordain commit {short} --preparation {data['preparation']}"
    assert set(data["approval"]) == {"request", "expires_at", "command"}
    assert data["approval"]["command"] == f"ordain approve {short}"
    assert answered(workspace.ordain("prepare", "--json", "look.plan.md"))["approval"] is None
    # What was handed out is worth nothing until a person acts on it.
    refused(workspace.ordain("commit", "--json", data["approval"]["request"]), "E_PLAN_APPROVAL_MISSING", WAITING)


def test_json_approve(workspace: Workspace):
    short = workspace.prepared("small.plan.md")
    for arguments in ([short], [short, "--start"]):
        document = refused(workspace.ordain("approve", "--json", *arguments), "E_APPROVAL_CHANNEL", WAITING)
        assert document["error"]["command"] == f"ordain approve {short}"
    # Nor does a terminal help: JSON is the robots' channel, whoever typed it.
    done = workspace.at_terminal("approve", "--json", "--start", short)
    assert (done.status, envelope(done.out)["error"]["code"]) == (WAITING, "E_APPROVAL_CHANNEL")
    refused(workspace.ordain("commit", "--json", short), "E_PLAN_APPROVAL_MISSING", WAITING)
    assert workspace.effects() == []


def test_json_commit(workspace: Workspace):
    data = answered(workspace.ordain("commit", "--json", workspace.approved("small.plan.md")))
    assert {"status", "execution_id", "error_code", "remediation", "steps"} <= set(data)
    assert (data["status"], [step["state"] for step in data["steps"]]) == ("success", ["passed", "passed"])
    done = workspace.ordain("commit", "--json", workspace.approved("fails.plan.md"))
    data = envelope(done.out)["data"]
    assert (done.status, data["status"], data["error_code"]) == (FAILED, "failed", "F_STEP_FAILED")
    done = workspace.ordain("commit", "--json", workspace.approved("contract.plan.md"))
    assert envelope(done.out)["data"]["error_code"] == "F_CONTRACT_BROKEN"
    done = workspace.ordain("commit", "--json", workspace.approved("asks.plan.md"))
    document = envelope(done.out)
    item = f"{document['data']['execution_id']}/fetch"
    assert (done.status, document["data"]["status"]) == (WAITING, "waiting")
    assert document["next"] == [f"ordain answer {item}"]


def test_json_status(workspace: Workspace):
    assert answered(workspace.ordain("status", "--json")) == {"workspace": str(workspace.path), "plans": [], "count": 0}
    workspace.prepared("small.plan.md")
    run, _ = workspace.started("asks.plan.md")
    done = workspace.ordain("status", "--json")
    plans = answered(done)["plans"]
    assert [(plan["title"], plan["status"]) for plan in plans] == [
        ("Make two lines", "proposed"),
        ("Ask when it fails", "waiting"),
    ]
    (question,) = plans[1]["run"]["questions"]
    assert (question["item"], question["kind"], question["attempt"]) == (f"{run}/fetch", "escalation", 1)
    assert [choice["word"] for choice in question["choices"]] == ["retry", "skip", "pass", "abort"]
    proposed = plans[0]["plan_id"].removeprefix("plan:")[:12]
    assert envelope(done.out)["next"] == [f"ordain answer {run}/fetch", f"ordain approve {proposed}"]


def test_json_answer(workspace: Workspace):
    run, _ = workspace.started("asks.plan.md")
    document = refused(workspace.ordain("answer", "--json", f"{run}/fetch", "pass"), "E_APPROVAL_CHANNEL", WAITING)
    assert document["error"]["command"] == f"ordain answer {run}/fetch pass"
    refused(workspace.ordain("answer", "--json", "RUN-AAAA/fetch", "pass"), "E_RUN_NOT_FOUND")
    refused(workspace.ordain("robot", "answer", f"{run}/nosuchstep", "pass"), "E_ANSWER_ITEM")
    unknown = workspace.ordain("answer", f"{run}/nosuchstep", "pass")
    assert (unknown.status, "E_ANSWER_ITEM" in unknown.err) == (REFUSED, True)
    signing = workspace.ordain("answer", "--json", "--sign", "--as", "kim", f"{run}/fetch", "pass")
    refused(signing, "E_APPROVAL_CHANNEL", WAITING)
    assert workspace.ordain("resume").status == WAITING


def test_json_resume(workspace: Workspace):
    refused(workspace.ordain("resume", "--json"), "E_RUN_NOT_FOUND")
    run, _ = workspace.started("asks.plan.md")
    done = workspace.ordain("resume", "--json", run)
    assert (done.status, envelope(done.out)["data"]["status"]) == (WAITING, "waiting")
    assert workspace.at_terminal("answer", f"{run}/fetch", "skip").status == FINE
    assert answered(workspace.ordain("resume", "--json"))["status"] == "success"
    refused(workspace.ordain("resume", "--json", run), "E_RUN_ENDED")


def test_json_diff(workspace: Workspace):
    workspace.write("other.plan.md", SMALL.replace("echo two", "echo three"))
    data = answered(workspace.ordain("diff", "--json", "small.plan.md", "other.plan.md"))
    assert list(data) == ["old", "new", "same", "concerns", "fields", "steps", "fallbacks"]
    assert [concern["kind"] for concern in data["concerns"]] == ["step_removed", "command_new"]
    assert ([one["step"]["id"] for one in data["steps"]["added"]], data["same"]) == (["echo-three-effects"], False)
    refused(workspace.ordain("diff", "--json", "small.plan.md"), "E_PLAN_NOT_FOUND")
    workspace.prepared("small.plan.md")
    data = answered(workspace.ordain("diff", "--json", "small.plan.md"))
    assert (data["same"], data["old"]["document"], data["new"]["lineage"]) == (True, "small.plan.md", None)
    refused(workspace.ordain("diff", "--json", "small.plan.md", "00000000"), "E_PLAN_NOT_FOUND")


def test_json_new(workspace: Workspace):
    made = answered(workspace.ordain("new", "--json", "upgrade-dependency", *PARAMS, "-o", "up.md"))
    written = (workspace.path / "up.md").read_text()
    assert (made["text"], made["written"], made["sources"]) == (written, "up.md", ["built-in upgrade-dependency.md"])
    assert made["plan_id"] == answered(workspace.ordain("lint", "--json", "up.md"))["plan_id"]
    assert refused(workspace.ordain("new", "--json", "nothing"), "E_TEMPLATE_UNKNOWN")["next"] == ["ordain new"]
    listed = answered(workspace.ordain("new", "--json"))["templates"]
    assert {one["source"] for one in listed} == {"built-in"} and all(one["parameters"] for one in listed)


def test_json_compose(workspace: Workspace):
    made = answered(workspace.ordain("compose", "--json", "small.plan.md", "fails.plan.md"))
    assert (made["steps"], made["written"], made["sources"]) == (5, None, ["small.plan.md", "fails.plan.md"])
    assert refused(workspace.ordain("compose", "--json", "small.plan.md", "small.plan.md"), "E_COMPOSE")


PARAMS = ("--param", "package=httpx", "--param", "from=0.27.2", "--param", "version=0.28.1")


def test_json_fmt(workspace: Workspace):
    file = workspace.write("odd.plan.md", "#  Odd\n\n1.  `echo one`\n")
    plan = answered(workspace.ordain("lint", "--json", "odd.plan.md"))["plan_id"]
    shown = answered(workspace.ordain("fmt", "--json", "odd.plan.md"))
    in_form = "# Odd\n\n1. `echo one`\n"
    assert shown == {"notation": "markdown", "plan_id": plan, "changed_lines": [1, 3], "text": in_form}
    yaml = answered(workspace.ordain("fmt", "--json", "--to", "yaml", "odd.plan.md"))
    assert (yaml["notation"], yaml["plan_id"], yaml["changed_lines"]) == ("yaml", plan, [])
    assert yaml["text"].startswith("plan_version: 1\ntitle: Odd\n")
    checked = {"notation": "markdown", "plan_id": plan, "changed_lines": [1, 3]}
    document = refused(workspace.ordain("fmt", "--json", "--check", "odd.plan.md"), "E_DOC_FORM")
    assert document["data"] == checked
    assert document["next"] == ["ordain fmt -i odd.plan.md"]
    assert answered(workspace.ordain("fmt", "--json", "-i", "odd.plan.md")) == checked
    assert file.read_text() == in_form
    assert answered(workspace.ordain("fmt", "--json", "--check", "odd.plan.md")) == {**checked, "changed_lines": []}
    workspace.write("bad.plan.md", "# Bad\n")
    document = refused(workspace.ordain("fmt", "--json", "bad.plan.md"), "E_PLAN_NO_STEPS")
    assert document["problems"][0]["where"] == {"file": "bad.plan.md", "line": 1, "column": 1, "step": None}
    refused(workspace.ordain("fmt", "--json", "missing.plan.md"), "E_DOC_NOT_FOUND")


def test_json_replan(workspace: Workspace) -> None:
    workspace.write("fails.plan.md", "# Fails\n\n1. `false`\n")
    run, _ = workspace.started("fails.plan.md")
    document = refused(workspace.ordain("replan", "--json", run), "E_PLANNER_NONE")
    assert document["data"] is None
    refused(workspace.ordain("replan", "--json", run, "--step", "nope"), "E_STEP_UNKNOWN")


def test_json_plan(workspace: Workspace):
    refused(workspace.ordain("plan", "--json", "raise the version"), "E_PLANNER_NONE")
    refused(workspace.ordain("plan", "--json"), "E_PLANNER_GOAL")
    workspace.write("taken.plan.md", "")
    refused(workspace.ordain("plan", "--json", "x", "-o", "taken.plan.md"), "E_OUTPUT")
    refused(workspace.ordain("plan", "--json", "x", "--budget", "much"), "E_USAGE")
    refused(workspace.ordain("plan", "--json", "x", "--revise", "plan:00000000"), "E_PLAN_NOT_FOUND")


def test_json_schema(workspace: Workspace):
    data = answered(workspace.ordain("schema", "--json", "plan"))
    assert data == json.loads(workspace.ordain("schema", "plan").out)
    assert (data["$ref"], "Step" in data["$defs"]) == ("#/$defs/Plan", True)


def test_json_log(workspace: Workspace):
    run, _ = workspace.started("small.plan.md")
    events = answered(workspace.ordain("log", "--json", run))["events"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert (events[0]["type"], events[-1]["type"]) == ("run_opened", "run_finished")
    refused(workspace.ordain("log", "--json", "RUN-NONE"), "E_RUN_NOT_FOUND")


def test_json_init(workspace: Workspace):
    written = answered(workspace.ordain("init", "--json"))["written"]
    assert (workspace.path / written).samefile(workspace.path / "ordain.toml")
    refused(workspace.ordain("init", "--json"), "E_CONFIG")


def test_json_trust(workspace: Workspace):
    workspace.write("ordain.toml", '[policy]\nallow = ["shell"]\n')
    document = refused(workspace.ordain("trust", "--json"), "E_APPROVAL_CHANNEL", WAITING)
    assert document["error"]["command"] == "ordain trust"
    refused(workspace.ordain("run", "--json", "small.plan.md"), "E_PLAN_APPROVAL_MISSING", WAITING)
    assert workspace.effects() == []


def test_json_explain(workspace: Workspace):
    data = answered(workspace.ordain("explain", "--json", "e_path"))
    assert (set(data), data["code"]) == ({"code", "summary", "meaning", "remedy"}, "E_PATH")
    document = refused(workspace.ordain("explain", "--json", "E_PAHT"), "E_CODE_UNKNOWN")
    assert document["error"]["remediation"] == "Did you mean `E_PATH`?"


# --- What all of them share ------------------------------------------------------------------------------------------


def test_warnings_are_in_the_document(workspace: Workspace):
    workspace.write("ordain.toml", "[run]\nconcurrency = 2\n")
    last = workspace.ordain("run", "--json", "look.plan.md").out.splitlines(keepends=True)[-1]
    assert [problem["code"] for problem in envelope(last)["problems"]] == ["W_CONFIG_UNTRUSTED"]
    short = workspace.approved("small.plan.md")
    workspace.write("small.plan.md", WARNS)
    document = envelope(workspace.ordain("commit", "--json", short).out)
    assert (document["ok"], [one["code"] for one in document["problems"]]) == (
        True,
        ["W_DOC_DRIFT", "W_CONFIG_UNTRUSTED"],
    )


def test_words_that_are_not_utf8_come_back_as_json_all_the_same(workspace: Workspace):
    word = os.fsdecode(b"\xff\xfe")
    for arguments, code in [
        (["lint", f"{word}.md"], "E_DOC_NOT_FOUND"),
        (["show", word], "E_PLAN_NOT_FOUND"),
        (["explain", word], "E_CODE_UNKNOWN"),
    ]:
        document = refused(workspace.ordain(*arguments, "--json"), code)
        assert "??" in document["error"]["message"]
        msgspec.json.decode(json.dumps(document))


def test_a_bug_is_a_document_too(workspace: Workspace, monkeypatch: pytest.MonkeyPatch):
    def impossible(self: PlanVerbs) -> None:
        raise ZeroDivisionError("cannot happen")

    monkeypatch.setattr(PlanVerbs, "all", impossible)
    monkeypatch.chdir(workspace.path)
    done = CliRunner().invoke(main, ["status", "--json"])
    assert (done.exit_code, envelope(done.stdout)["error"]["code"]) == (BUG, "B_BUG")


def test_the_envelope_of_a_refusal():
    problem = Problem(
        code="E_PLAN_EXPIRED",
        detail="The plan was prepared too long ago.",
        where=Place(file="fix.plan.md"),
        hints=("Prepare it.", "Approve it."),
        command="ordain prepare fix.plan.md",
    )
    document = robot.envelope(
        None, problems=[problem], error=problem, next_=["ordain prepare fix.plan.md"], elapsed_ms=3
    )
    assert json.loads(document) == {
        "ok": False,
        "data": None,
        "error": {
            "code": "E_PLAN_EXPIRED",
            "message": "The plan was prepared too long ago.",
            "remediation": "Prepare it. Approve it.",
            "command": "ordain prepare fix.plan.md",
        },
        "problems": [
            {
                "code": "E_PLAN_EXPIRED",
                "severity": "error",
                "detail": "The plan was prepared too long ago.",
                "where": {"file": "fix.plan.md", "line": None, "column": None, "step": None},
                "hints": ["Prepare it.", "Approve it."],
                "command": "ordain prepare fix.plan.md",
            }
        ],
        "next": ["ordain prepare fix.plan.md"],
        "elapsed_ms": 3,
        "version": 1,
    }


def test_every_refusal_says_what_helps():
    for code in problem_pages():
        problem = Problem(code=code, detail="It is so.")
        document = json.loads(robot.envelope(None, problems=[problem], error=problem, next_=[], elapsed_ms=0))
        assert document["error"]["remediation"].strip(), code


def test_json_tools(workspace: Workspace):
    tools = {tool["name"]: tool for tool in answered(workspace.ordain("tools", "--json"))["tools"]}
    assert (
        tools["delete"]["destructive"] and tools["delete"]["source"] == "built in" and "schema" not in tools["delete"]
    )
    workspace.write(
        "ordain.toml", '[tools.sum]\npython = "tests.tool_functions:add"\n[tools.far]\npython = "nowhere:x"\n'
    )
    assert workspace.at_terminal("trust", answers=[("Type yes", "yes")]).status == FINE
    document = envelope(workspace.ordain("tools", "--json").out)
    assert document["ok"] and [problem["code"] for problem in document["problems"]] == ["W_TOOL_SOURCE"]
    added = next(tool for tool in document["data"]["tools"] if tool["name"] == "sum")
    assert (added["effect"], added["source"]) == ("reads", "tests.tool_functions:add")
    assert added["parameters"][0] == {"name": "left", "kind": "integer", "required": True, "description": ""}
    line = "sum(left, right?, token?) [reads]: The sum of two numbers, and how long the token is."
    assert line in workspace.ordain("tools", "--text").out.splitlines()
    assert "sum           reads  tests.tool_functions:add" in workspace.ordain("tools").out


def test_json_agents(workspace: Workspace):
    assert answered(workspace.ordain("agents", "--json")) == {"agents": []}
    assert "There are no agents yet" in workspace.ordain("agents").out
    workspace.write(
        "ordain.toml",
        '[run]\nagent = "coder"\nagent_for = { review = "critic", docs = "critic" }\n'
        '[agents.coder]\npreset = "pi"\ncommand = ["no-such-pi"]\nmodel = "small"\nown_tools = true\n'
        '[agents.critic]\ncommand = ["cat"]\ndescription = "Finds what\\nis wrong."\nnetwork = true\n',
    )
    (_, critic) = answered(workspace.ordain("agents", "--json"))["agents"]
    assert (critic["name"], critic["source"], critic["rules"]) == ("critic", "not trusted", [])
    assert "counts once ordain.toml is trusted" in workspace.ordain("agents").out
    assert workspace.ordain("agents", "--text").out == ""
    assert workspace.at_terminal("trust", answers=[("Type yes", "yes")]).status == FINE
    coder, critic = answered(workspace.ordain("agents", "--json"))["agents"]
    assert coder.pop("digest").startswith("sha256:")
    assert coder == {
        "name": "coder",
        "runner": "pi (no-such-pi)",
        "description": "",
        "model": "small",
        "rules": [],
        "default": True,
        "own_tools": True,
        "network": False,
        "source": "trusted",
        "fault": "there is no program no-such-pi; `npm install -g @earendil-works/pi-coding-agent` installs pi",
    }
    assert (critic["rules"], critic["default"], critic["fault"]) == (["review", "docs"], False, None)
    assert workspace.ordain("agents").out.splitlines() == [
        "coder  pi (no-such-pi), model small  trusted, there is no program no-such-pi;"
        " `npm install -g @earendil-works/pi-coding-agent` installs pi",
        "  Performs tasks that name nobody: whatever no rule names",
        "  Keeps tools of its own, which only the sandbox holds to a step.",
        "critic  cat  trusted, found",
        "  Finds what is wrong.",
        "  Performs tasks that name nobody: review, docs",
        "  Has the network in the sandbox too.",
    ]
    assert workspace.ordain("agents", "--text").out.splitlines() == [
        "coder [pi (no-such-pi), model small; does anything else where a task names nobody]"
        " (cannot be started here: there is no program no-such-pi;"
        " `npm install -g @earendil-works/pi-coding-agent` installs pi)",
        "critic [cat; does review, docs where a task names nobody]: Finds what is wrong.",
    ]


def test_json_config(workspace: Workspace):
    file = Path(os.environ["HOME"], ".config/ordain/config.toml")
    file.parent.mkdir(parents=True)
    file.write_text('[programs]\nbash = "/bin/bash"\n[audit]\nrobot_backup_outputs = true\n')
    data = answered(workspace.ordain("config", "--json"))
    assert data["settings"]["audit.robot_backup_outputs"] == {
        "value": False,
        "from": "default",
    }
    assert data["settings"]["programs.bash"] == {"value": "/bin/bash", "from": str(file)}
    assert data["settings"]["programs.git"] == {"value": "", "from": "default"}
    assert data["digest"] == "defaults"
    assert data["settings"]["approval.ttl"] == {"value": 14_400_000, "from": "default"}
    workspace.write("ordain.toml", '[approval]\nttl = "1h"\n[policy]\nallow = ["reads", "shell"]\n')
    assert workspace.at_terminal("trust", answers=[("Type yes", "yes")]).status == FINE
    settings = answered(workspace.ordain("config", "--json"))["settings"]
    assert settings["approval.ttl"] == {"value": 3_600_000, "from": "trusted"}
    workspace.write("ordain.toml", '[approval]\nttl = "9h"\n')
    settings = envelope(workspace.ordain("config", "--json").out)["data"]["settings"]
    assert (settings["approval.ttl"]["value"], settings["policy.allow"]["value"]) == (3_600_000, ["reads"])
    assert settings["policy.allow"]["from"].startswith("narrowed")


def test_config_shows_rules_and_narrows_what_is_open(workspace: Workspace):
    rule = {"tools": ["delete"], "where": {"path": ["a", "b*"]}, "matches": [{"tool": "delete", "args": {"path": "a"}}]}
    text = """
[guard]
guarded = ["rule:old"]
open = ["rule:old", "make_dir"]
[rules.old]
tools = ["delete"]
where = { path = ["a", "b*"] }
matches = ['delete {"path": "a"}']
"""
    workspace.write("ordain.toml", text)
    refused = workspace.at_terminal("trust")
    assert (refused.status, "guard.open names `rule:old`, and so does guard.guarded" in refused.out) == (REFUSED, True)
    workspace.write("ordain.toml", text.replace('open = ["rule:old", ', "open = ["))
    assert workspace.at_terminal("trust", answers=[("Type yes", "yes")]).status == FINE
    settings = answered(workspace.ordain("config", "--json"))["settings"]
    assert settings["rules.old"] == {"value": rule, "from": "trusted"}
    assert settings["guard.open"] == {"value": ["make_dir"], "from": "trusted"}
    assert "rules.old" in workspace.ordain("config").out
    workspace.write("ordain.toml", "")
    settings = envelope(workspace.ordain("config", "--json").out)["data"]["settings"]
    assert settings["guard.open"]["value"] == []
    assert settings["guard.guarded"]["value"] == ["rule:old", "*"]
    assert settings["guard.guarded"]["from"].startswith("narrowed")
