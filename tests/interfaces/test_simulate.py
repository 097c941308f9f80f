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
    (workspace.path / "sim.plan.md").write_text(PLAN)
    (workspace.path / "mark").write_text("x\n")
    answer = json.loads(workspace.ordain("simulate", "sim.plan.md", "--json").out)
    assert (answer["ok"], answer["data"]["waves"]) == (True, [["make"], ["look"]])
    steps = answer["data"]["steps"]
    not_known = {"detail": "not known yet: contracts of a plan run before its run only for a person at a terminal"}
    assert [step["contract"] for step in steps] == [not_known, not_known]
    assert answer["data"]["unknown_durations"] == 2
    assert not (workspace.path / "made").exists()


def test_it_says_what_holds_already_and_knows_how_long_things_took(workspace: Workspace) -> None:
    need("bwrap")
    (workspace.path / "sim.plan.md").write_text(PLAN)
    (workspace.path / "mark").write_text("x\n")
    seen = workspace.at_terminal("simulate", "sim.plan.md", env={"NO_COLOR": "1"})
    assert seen.status == 0
    assert "holds already" in seen.out and "does not hold yet" in seen.out
    assert "0 of 2 steps ran before" in seen.out
    assert workspace.at_terminal("run", "sim.plan.md", answers=[("Type yes", "yes")]).status == 0
    plan_id = json.loads(workspace.ordain("lint", "sim.plan.md", "--json").out)["data"]["plan_id"]
    again = workspace.at_terminal("simulate", plan_id)
    assert "Would take about" in again.out and "usually" in again.out
    assert workspace.ordain("simulate", "nobody").status == 2


def test_a_contract_that_holds_already_would_not_let_a_step_begin_that_wants_proof(workspace: Workspace) -> None:
    need("bwrap")
    (workspace.path / "mark").write_text("x\n")
    document = PLAN.replace(
        "**contract:** test -s mark", '**contract:** cat mark\nstdout =~ "^x"\n**proof:** red-then-green'
    )
    (workspace.path / "sim.plan.md").write_text(document)
    seen = workspace.at_terminal("simulate", "sim.plan.md", env={"NO_COLOR": "1"})
    assert "Would not begin: the plan wants it broken first (red-then-green)" in seen.out
    assert "red-then-green: the contract is run first too" in workspace.ordain("show", "sim.plan.md").out


def test_a_document_with_errors_is_refused(workspace: Workspace) -> None:
    (workspace.path / "bad.plan.md").write_text("# T\n\n## Steps\n\n### 1. A\n\n**tool:** wriet_file\n")
    seen = workspace.ordain("simulate", "bad.plan.md")
    assert (seen.status, "E_TOOL_UNKNOWN" in seen.err) == (2, True)


FLOW = """\
# Flow

**On failure:** escalate
**Budget:** 20 attempts

## Steps

### 1. List

**id:** list
**run:** echo '[1, 2]'

### 2. Each

**id:** each
**for_each:** {in: "${list.output}", max: 5, as: number, concurrency: 2}
**when:** number > 1
**run:** echo "$N" > "made-$I"
**env:**
- N=${number}
- I=${index}
**contract:** test -s "made-$I"
**on_fail:** retry(1), then fallback(undo)

### 3. Ask

**id:** ask
**needs:** each
**action:**
```yaml
type: ask
question: Go on?
choices: [go, stay]
```

### 4. Publish

**id:** publish
**preconditions:**
```yaml
- {type: lock_available, lock_name: shelf}
```
**approval:** ask
**run:** echo out

## Fallbacks

### undo. Undo it

**run:** rm -f made-*
"""


def test_what_a_run_decides_asks_and_falls_back_to_is_said(workspace: Workspace) -> None:
    need("bwrap")
    workspace.write("flow.plan.md", FLOW)
    seen = workspace.ordain("simulate", "flow.plan.md")
    assert seen.status == 0
    for line in (
        "On failure: escalate, unless a step says otherwise",
        "Budget: 20 attempts; then a person is asked",
        "Only when:  number > 1",
        "For each:   number of ${list.output}, at most 5, 2 at once",
        "Contract:   not looked at (it asks about I, which is decided at run time)",
        "On failure: retry(1), then fallback(undo)",
        "Asks:       Go on?",
        '  choices:  ["go", "stay"]',
        "Only if:",
        "the lock shelf is free",
        "Approval:   ask: a person says yes right before it, to its values as they are then",
        "Begins:     after a failure of each",
    ):
        assert line in seen.out, line
    assert "${index}\n" not in seen.out.partition("I:        ${index}\n")[2], "which item it is, is no news"
    answer = json.loads(workspace.ordain("simulate", "flow.plan.md", "--json").out)["data"]
    assert answer["steps"][1]["for_each"]["max"] == 5 and answer["steps"][3]["approval"] == "ask"
    assert [(one["id"], one["used_by"]) for one in answer["fallbacks"]] == [("undo", ["each"])]


def test_the_picture_says_what_is_repeated_and_what_is_asked(workspace: Workspace) -> None:
    workspace.write("flow.plan.md", FLOW)
    seen = workspace.ordain("show", "--graph", "flow.plan.md").out
    assert "for each ${list.output}: echo" in seen and "ask: Go on?" in seen
