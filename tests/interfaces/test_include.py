"""Documents inside of documents: what is included is what is shown, hashed and run, whatever becomes of the file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.test_robot import answered
from tests.interfaces.workspace import Workspace
from tests.words import plan_id, read

CHECKS = """\
# Check everything

**On failure:** continue

## Steps

### 1. Say one

**id:** one
**run:** echo one | tee -a effects
**contract:** grep one effects

### 2. Say two

**id:** two
**run:** echo two >> effects
**contract:** grep two effects
"""
OUTER = """\
# Include the checks

## Steps

### 1. Check

**include:** plans/checks.plan.md

### 2. Use what came

**run:** test "$CAME" = one && echo three >> effects
**env:**
- CAME=${check.output.one}
**contract:** grep three effects
"""
AS_TREE: dict[str, Any] = {
    "title": "Include the checks",
    "steps": [
        {"id": "check", "description": "Check", "include": "plans/checks.plan.md"},
        {
            "id": "use-what-came",
            "description": "Use what came",
            "action": {
                "type": "run",
                "command": 'test "$CAME" = one && echo three >> effects',
                "env": {"CAME": "${check.output.one}"},
            },
            "verification": {"strategy": {"type": "contract", "command": "grep three effects"}},
        },
    ],
}


@pytest.fixture
def included(workspace: Workspace) -> Workspace:
    (workspace.path / "plans").mkdir()
    workspace.write("plans/checks.plan.md", CHECKS)
    workspace.write("outer.plan.md", OUTER)
    return workspace


def problems(workspace: Workspace, name: str) -> list[tuple[str, str | None, int | None, str]]:
    found = json.loads(workspace.ordain("robot", "lint", name).out)["problems"]
    return [(one["code"], one["where"]["file"], one["where"]["line"], one["detail"]) for one in found]


def identity(workspace: Workspace, name: str) -> str:
    return str(answered(workspace.ordain("robot", "lint", name))["plan_id"])


@pytest.mark.slow
def test_all_of_it_is_shown_approved_and_run(included: Workspace) -> None:
    done = included.at_terminal("run", "outer.plan.md", answers=[("Type", "yes")])
    assert done.status == 0 and "echo one | tee -a effects" in done.out and "check/two" in done.out
    assert included.effects() == ["one", "two", "three"]


@pytest.mark.slow
def test_it_is_the_same_plan_in_every_notation_and_written_out(included: Workspace) -> None:
    included.write("outer.json", json.dumps(AS_TREE))
    names = {identity(included, name) for name in ("outer.plan.md", "outer.json")}
    for notation in ("yaml", "json", "markdown"):
        text = included.ordain("fmt", "outer.json", "--to", notation).out
        assert ("include" in text) is (notation == "json")  # its own notation: only lines that are not in form change
        included.write("written", text)
        names.add(identity(included, "written"))
    assert len(names) == 1
    nested = included.ordain("fmt", "outer.plan.md", "--to", "yaml").out
    assert "type: nested_plan" in nested and "plans/checks" not in nested


def test_its_own_notation_keeps_the_line(included: Workspace) -> None:
    assert included.ordain("fmt", "--check", "outer.plan.md").status == 0
    assert included.ordain("fmt", "outer.plan.md").out == OUTER


def test_what_was_approved_stays_when_the_file_changes(included: Workspace) -> None:
    short = included.prepared("outer.plan.md")
    assert included.at_terminal("approve", short, answers=[("Type", "yes")]).status == 0
    included.write("plans/checks.plan.md", "# Other\n\n1. `echo evil >> effects`\n")
    assert "W_DOC_DRIFT" in included.ordain("show", short).out
    refused = included.ordain("commit", "outer.plan.md")
    assert refused.status == 2 and "E_DOC_DRIFT" in refused.err
    assert included.ordain("commit", short).status == 0
    assert included.effects() == ["one", "two", "three"]


def test_a_changed_file_makes_another_plan(included: Workspace) -> None:
    before = identity(included, "outer.plan.md")
    included.write("plans/checks.plan.md", CHECKS.replace("echo two", "echo  two"))
    assert identity(included, "outer.plan.md") != before


@pytest.mark.parametrize("name", ["outer.plan.md", "outer.json"])
def test_a_problem_is_told_with_the_file_and_line_in_which_it_stands(included: Workspace, name: str) -> None:
    included.write("outer.json", json.dumps(AS_TREE))
    included.write("plans/checks.plan.md", CHECKS.replace("grep two effects", "true"))
    assert [found[:3] for found in problems(included, name)] == [("E_CONTRACT_VACUOUS", "plans/checks.plan.md", 13)]
    included.write("plans/checks.plan.md", CHECKS.replace("**run:** echo two", "**rum:** echo two"))
    found = problems(included, name)
    assert ("plans/checks.plan.md", 13) in [one[1:3] for one in found]
    assert {one[1] for one in found} == {"plans/checks.plan.md"}


def test_files_included_by_included_files_are_named_too(included: Workspace) -> None:
    included.write("plans/checks.plan.md", "# Two\n\n## Steps\n\n### 1. In\n\n**include:** plans/deep.plan.md\n")
    included.write("plans/deep.plan.md", "# Three\n\n1. `echo hi > x`\n2. `exit $((`\n")
    assert {found[1] for found in problems(included, "outer.plan.md")} >= {"plans/deep.plan.md"}


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("plans/none.md", "is not there"),
        ("../outside.md", "workspace"),
        ("/etc/passwd", "workspace"),
        ("~/x", "workspace"),
        ("plans/link.md", "link"),
        ("linked/checks.plan.md", "link"),
        ("plans", "file"),
        (".env", "secrets"),
        (".git/config", "git"),
        (".ordain/here", "git"),
        ("plans/fifo.md", "regular"),
    ],
)
def test_what_lies_elsewhere_is_not_included(included: Workspace, tmp_path: Path, file: str, said: str) -> None:
    (tmp_path / "outside.md").write_text(CHECKS)
    (included.path / "plans/link.md").symlink_to("checks.plan.md")
    (included.path / "linked").symlink_to("plans")
    (included.path / ".git").mkdir()
    for name in (".env", ".git/config"):
        included.write(name, "TOKEN=top-secret-value\n")
    os.mkfifo(included.path / "plans/fifo.md")
    included.write("outer.plan.md", OUTER.replace("plans/checks.plan.md", file))
    done = included.ordain("lint", "outer.plan.md")
    assert done.status == 2 and "E_INCLUDE" in done.out and "top-secret" not in done.out
    assert "outer.plan.md:7" in done.out


def test_a_circle_ends(included: Workspace) -> None:
    included.write("plans/checks.plan.md", OUTER.replace("plans/checks.plan.md", "./plans//b.plan.md"))
    included.write("plans/b.plan.md", OUTER.replace("plans/checks.plan.md", "plans/checks.plan.md"))
    (found,) = [one for one in problems(included, "outer.plan.md") if one[0] == "E_INCLUDE"]
    assert "`plans/checks.plan.md` includes `plans/b.plan.md` includes `plans/checks.plan.md`" in found[3]
    assert found[1] == "plans/b.plan.md"


def test_no_more_stand_inside_one_another_than_plans_may(included: Workspace) -> None:
    for level in range(1, 6):
        text = OUTER.replace("plans/checks.plan.md", f"plans/{level + 1}.md") if level < 5 else CHECKS
        included.write(f"plans/{level}.md", text)
    included.write("outer.plan.md", OUTER.replace("checks.plan.md", "1.md"))
    assert "E_PLAN_NESTING" in [one[0] for one in problems(included, "outer.plan.md")]
    included.write("outer.plan.md", OUTER.replace("checks.plan.md", "3.md"))
    assert "E_PLAN_NESTING" not in [one[0] for one in problems(included, "outer.plan.md")]


def test_a_step_includes_or_acts_and_not_both(included: Workspace) -> None:
    included.write("outer.plan.md", OUTER.replace("plans/checks.plan.md\n", "plans/checks.plan.md\n**run:** id\n"))
    assert "E_STEP_ACTION" in [one[0] for one in problems(included, "outer.plan.md")]
    tree = {"title": "Both", "steps": [{"include": "plans/checks.plan.md", "action": {"type": "run", "command": "id"}}]}
    included.write("both.json", json.dumps(tree))
    assert "E_STEP_ACTION" in [one[0] for one in problems(included, "both.json")]
    included.write("both.json", json.dumps({"title": "Odd", "steps": [{"id": "a", "include": 3}]}))
    assert [one[0] for one in problems(included, "both.json")] == ["E_INCLUDE"]


def test_the_plan_is_the_one_with_the_other_written_inside() -> None:
    whole = read(OUTER.encode(), fetch=lambda path: CHECKS.encode()).plan
    inner = read(CHECKS.encode()).plan
    assert whole is not None and inner is not None
    assert plan_id(whole.steps[0].action.plan) == plan_id(inner)  # type: ignore[union-attr]
