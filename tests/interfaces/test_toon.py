"""`--format toon`: the table of steps or plans as TOON, for robots."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import toons
from hypothesis import given
from hypothesis import strategies as st

from ordain.interfaces.cli.main import _GROUPS
from tests.interfaces.terminal import Ended
from tests.interfaces.test_robot import answered, envelope, refused
from tests.interfaces.workspace import Workspace, run_id
from tests.rows import each
from tests.words import TABLES, table_value, toon_text

FINE, FAILED, REFUSED, WAITING = 0, 1, 2, 3


def table(done: Ended, status: int = FINE) -> dict[str, Any]:
    """The one TOON document of a command that went well, silently."""
    assert (done.status, done.err) == (status, ""), done
    value = toons.loads(done.out)
    assert isinstance(value, dict)
    return value


# --- The text --------------------------------------------------------------------------------------------------------

HOSTILE = ["\x1b[31mred", "a\u202eb", "\x7f", "\x9b2J", "\x1f", "\\u001f202e\x1f", "\\\x1f\\", "\x1f001f\x1f", "ü ✓ 👍"]


@each("text", HOSTILE)
def test_no_character_that_a_terminal_would_act_on_is_in_it(text: str) -> None:
    made = toon_text({"rows": [{"a": text, "b": 1}]})
    assert made.replace("\n", "").isprintable()
    assert toons.loads(made) == {"rows": [{"a": text, "b": 1}]}


cells = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"]))


@given(st.lists(st.fixed_dictionaries({"a": cells, "b": cells}), max_size=5))
def test_every_table_comes_back(rows: list[dict[str, Any]]) -> None:
    assert toons.loads(toon_text({"steps": rows})) == {"steps": rows}


# --- On the command line ---------------------------------------------------------------------------------------------


def test_the_table_is_what_json_says(workspace: Workspace) -> None:
    """Every verb's table is the one that its own JSON gives."""
    run, _ = workspace.started("small.plan.md")
    workspace.prepared("warns.plan.md")
    for words in (["show", run], ["show", "warns.plan.md"], ["show", "small.plan.md"], ["list"], ["status"]):
        document = envelope(workspace.ordain(*words, "--json").out)
        made = table(workspace.ordain(*words, "--format", "toon"))
        expected = table_value(document["data"], (), document["next"])
        assert expected is not None
        if document["problems"]:
            named = ("code", "detail")
            warnings = [{name: problem[name] for name in named} for problem in document["problems"]]
            assert made.pop("problems") == warnings
        assert made == expected


def test_a_run_is_one_table_without_its_events(workspace: Workspace) -> None:
    done = workspace.ordain("run", "look.plan.md", "--format", "toon")
    made = table(done)
    assert done.out.splitlines()[-2:] == [
        "steps[1]{number,id,state,attempts,duration_ms,error,evidence,description}:",
        f"  1,read-it,passed,1,{made['steps'][0]['duration_ms']},null,result observed by Ordain,Read it",
    ]
    assert (made["status"], made["run_id"][:4]) == ("success", "RUN-")


def test_prepare_revise_commit_rerun_resume(workspace: Workspace) -> None:
    made = table(workspace.ordain("prepare", "small.plan.md", "--format", "toon"))
    assert [(step["number"], step["needs"], step["type"], step["state"]) for step in made["steps"]] == [
        (1, "", "run", None),
        (2, made["steps"][0]["id"], "run", None),
    ]
    assert made["next"] == [f"ordain approve {made['plan_id'].removeprefix('plan:')[:12]}"]
    workspace.write("small.plan.md", "# Make one line\n\n1. `echo one >> effects`\n")
    made = table(workspace.ordain("revise", made["lineage"], "small.plan.md", "--format", "toon"))
    assert len(made["steps"]) == 1
    made = table(workspace.ordain("commit", workspace.approved("small.plan.md"), "--format", "toon"))
    assert (made["status"], workspace.effects()) == ("success", ["one"])
    workspace.approved("small.plan.md")
    made = table(workspace.ordain("rerun", made["run_id"], "--format", "toon"))
    assert (made["status"], workspace.effects()) == ("success", ["one", "one"])

    workspace.started("asks.plan.md")
    made = table(workspace.ordain("resume", "--format", "toon"), WAITING)
    assert [step["state"] for step in made["steps"]] == ["escalated", "pending"]
    assert made["next"][0].startswith("ordain answer RUN-")


def test_a_failure_and_every_refusal_is_the_json_document(workspace: Workspace) -> None:
    done = workspace.ordain("commit", workspace.approved("fails.plan.md"), "--format", "toon")
    document = refused(done, "F_STEP_FAILED", FAILED)
    assert [step["state"] for step in document["data"]["steps"]] == ["passed", "failed", "cancelled"]
    made = table(workspace.ordain("show", run_id(done.out), "--format", "toon"))
    assert [(step["state"], step["error"]) for step in made["steps"]][1] == ("failed", "F_STEP_FAILED")
    refused(workspace.ordain("show", "missing.plan.md", "--format", "toon"), "E_DOC_NOT_FOUND")
    refused(workspace.ordain("run", "small.plan.md", "--format", "toon"), "E_PLAN_APPROVAL_MISSING", WAITING)


def test_it_is_the_robots_channel(workspace: Workspace) -> None:
    table(workspace.ordain("prepare", "small.plan.md", "--format", "toon"))
    (plan,) = answered(workspace.ordain("list", "--json"))["plans"]
    assert plan["proposer"]["channel"] == "robot"


def test_secrets_are_redacted(workspace: Workspace) -> None:
    workspace.write("secret.plan.md", "# Tell hunter2hunter2\n\n1. `true`\n")
    workspace.prepared("secret.plan.md")  # before anybody knew that it is one
    env = {"DEPLOY_TOKEN": "hunter2hunter2"}
    shown = answered(workspace.ordain("list", "--json", env=env))
    made = workspace.ordain("list", "--format", "toon", env=env)
    assert "hunter2hunter2" not in made.out
    assert table(made)["plans"][0]["title"] == shown["plans"][0]["title"] != "Tell hunter2hunter2"


def test_verbs_without_a_table_say_which_have_one(workspace: Workspace) -> None:
    commands = {name for group in _GROUPS.values() for name in group}
    assert set(TABLES) <= commands
    for words in (["lint", "small.plan.md"], ["inbox"], ["log"]):
        done = workspace.ordain(*words, "--format", "toon")
        assert done.status == REFUSED and f"{words[0]} has no table" in done.err + done.out
        assert ", ".join(TABLES) in (done.err + done.out).replace("\n", " ")
    assert workspace.ordain("robot", "list", "--format", "toon") == workspace.ordain("list", "--format", "toon")
    done = workspace.ordain("show", "small.plan.md", "--graph", "--format", "toon")
    assert done.status == REFUSED and "--json alone" in done.err + done.out


def test_without_the_library_nothing_is_done(workspace: Workspace, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "toons.py").write_text("raise ImportError('not installed')\n")
    path = os.pathsep.join(filter(None, [str(hidden), os.environ.get("PYTHONPATH")]))
    short = workspace.approved("small.plan.md")
    done = workspace.ordain("commit", short, "--format", "toon", env={"PYTHONPATH": path})
    document = refused(done, "E_EXTRA_MISSING")
    assert document["error"]["command"] == "pip install 'ordain[toon]'"
    assert workspace.effects() == []


@pytest.mark.parametrize("words", [("list", "--format", "toon", "--nosuch"), ("lint", "--format=toon", "x.plan.md")])
def test_a_command_that_is_not_written_so_is_refused_as_json(workspace: Workspace, words: tuple[str, ...]):
    refused(workspace.ordain(*words), "E_USAGE")
