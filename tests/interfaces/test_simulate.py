"""`ordain simulate`: a run foretold from a document or a stored plan, with nothing done."""

from __future__ import annotations

import json

from tests.interfaces.workspace import Workspace
from tests.programs import need

PLAN = """\
# Make and look

## Steps

### 1. Make it

**id:** make
**run:** echo x > made
**contract:** grep -x x made

### 2. Look

**id:** look
**run:** cat made
**contract:** test -s mark
"""


def test_json_simulate(workspace: Workspace) -> None:
    need("bwrap")
    (workspace.path / "sim.plan.md").write_text(PLAN)
    (workspace.path / "mark").write_text("x\n")
    answer = json.loads(workspace.ordain("simulate", "sim.plan.md", "--json").out)
    assert (answer["ok"], answer["data"]["waves"]) == (True, [["make"], ["look"]])
    steps = answer["data"]["steps"]
    assert [step["contract"]["verdict"] for step in steps] == ["broken", "held"]
    assert answer["data"]["unknown_durations"] == 2
    assert not (workspace.path / "made").exists()


def test_it_says_what_holds_already_and_knows_how_long_things_took(workspace: Workspace) -> None:
    need("bwrap")
    (workspace.path / "sim.plan.md").write_text(PLAN)
    (workspace.path / "mark").write_text("x\n")
    seen = workspace.ordain("simulate", "sim.plan.md")
    assert seen.status == 0
    assert "holds already" in seen.out and "does not hold yet" in seen.out
    assert "0 of 2 steps ran before" in seen.out
    assert workspace.at_terminal("run", "sim.plan.md", answers=[("Type yes", "yes")]).status == 0
    plan_id = json.loads(workspace.ordain("lint", "sim.plan.md", "--json").out)["data"]["plan_id"]
    again = workspace.ordain("simulate", plan_id)
    assert "Would take about" in again.out and "usually" in again.out
    assert workspace.ordain("simulate", "nobody").status == 2


def test_a_contract_that_holds_already_would_not_let_a_step_begin_that_wants_proof(workspace: Workspace) -> None:
    need("bwrap")
    (workspace.path / "mark").write_text("x\n")
    document = PLAN.replace(
        "**contract:** test -s mark", '**contract:** cat mark\nstdout =~ "^x"\n**proof:** red-then-green'
    )
    (workspace.path / "sim.plan.md").write_text(document)
    seen = workspace.ordain("simulate", "sim.plan.md")
    assert "Would not begin: the plan wants it broken first (red-then-green)" in seen.out
    assert "red-then-green: the contract is run first too" in workspace.ordain("show", "sim.plan.md").out


def test_a_document_with_errors_is_refused(workspace: Workspace) -> None:
    (workspace.path / "bad.plan.md").write_text("# T\n\n## Steps\n\n### 1. A\n\n**tool:** wriet_file\n")
    seen = workspace.ordain("simulate", "bad.plan.md")
    assert (seen.status, "E_TOOL_UNKNOWN" in seen.err) == (2, True)
