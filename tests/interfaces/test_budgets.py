"""A budget as people meet it: in the preview, when it is reached, in the report, and how they answer."""

from __future__ import annotations

import json

from tests.interfaces.workspace import Workspace

FINE, FAILED, WAITING = 0, 1, 3

SPENDS = """\
# Ask an agent

**Budget:** max 1k tokens, 10 minutes, 5 attempts

## Steps

### 1. Think

**run:** echo '{"tokens": 1200, "cost_usd": 0.02}' >> "$ORDAIN_USAGE"; echo thought >> effects

### 2. Write

**run:** echo written >> effects
**budget:** max 100 tokens
"""


def test_what_an_approver_sees_of_a_budget(workspace: Workspace) -> None:
    workspace.write("spends.plan.md", SPENDS)
    shown = workspace.ordain("show", "spends.plan.md").out
    assert "  Budget:      1000 tokens, 10 minutes, 5 attempts; tokens and money as reported; then a person" in shown
    assert "       Budget:     100 tokens; tokens and money as reported; then a person is asked" in shown


def test_a_budget_that_is_reached_asks_and_goes_on(workspace: Workspace) -> None:
    workspace.write("spends.plan.md", SPENDS)
    run, done = workspace.started("spends.plan.md")
    assert (done.status, workspace.effects()) == (WAITING, ["thought"])
    assert "? .budget: 1,000 tokens is the limit; nothing more that it pays for begins" in done.err
    assert "1,200 tokens of 1,000 tokens, $0.02 (as reported)" in done.out
    assert "The budget of the plan is reached: 1,000 tokens. What now?" in done.out
    assert "waits for a person's decision about the budget" in done.out
    inbox = workspace.ordain("inbox").out
    assert "budget" in inbox and f"→ ordain answer {run}/.budget extend" in inbox
    answered = workspace.at_terminal("answer", f"{run}/.budget", "extend", "--resume")
    shown, _, report = answered.out.partition("Run:")
    assert answered.status == FINE and "completed, 2 of 2 steps passed" in report
    for text in (f"{run}/.budget, budget", "allow another 1,000 tokens", "Left to do: 1 step (write)", "tier 0"):
        assert text in shown
    assert workspace.effects() == ["thought", "written"]
    assert workspace.ordain("audit", "verify").status == FINE


def test_aborting_for_the_budget_ends_the_run_at_once(workspace: Workspace) -> None:
    workspace.write("spends.plan.md", SPENDS)
    run, _ = workspace.started("spends.plan.md")
    done = workspace.at_terminal("answer", f"{run}/.budget", "abort")
    assert (done.status, workspace.effects()) == (FAILED, ["thought"])
    assert "its budget was reached, and a person ended it" in done.out


def test_what_was_spent_is_in_the_json_of_a_run(workspace: Workspace) -> None:
    workspace.write("spends.plan.md", SPENDS)
    run, _ = workspace.started("spends.plan.md")
    report = json.loads(workspace.ordain("show", run, "--json").out)["data"]
    found = {one["what"]: one for one in report["spending"] if "step" not in one}
    assert found["tokens"] == {"what": "tokens", "spent": 1200, "limit": 1000, "measured": False}
    assert found["attempts"] == {"what": "attempts", "spent": 1, "limit": 5, "measured": True}
    assert found["wall_clock_ms"]["measured"] is True
    assert [one["step"] for one in report["questions"]] == [".budget"]
    assert report["steps"][0]["used"] == {"tokens": 1200, "cost_usd": 0.02}
