"""The dialects on the command line: named by lint, turned into a notation by `ordain fmt`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.interfaces.workspace import Workspace

FINE = 0
FIXTURES = Path(__file__).parent.parent / "dialects"
GOLDEN: dict[str, str] = json.loads((FIXTURES / "golden.json").read_text())
PLAN = """\
# Tidy up

1. Look around
2. Sweep
"""


@pytest.mark.part(of=3)
@pytest.mark.parametrize("name", ["s1-auth.yaml", "s2-version.json", "s3-invoice.md"])
def test_lint_names_the_dialect(workspace: Workspace, name: str) -> None:
    workspace.write(name, (FIXTURES / name).read_text())
    told = json.loads(workspace.ordain("lint", name, "--json").out)
    assert told["data"]["dialect"] == name[:2]
    assert told["data"]["plan_id"] in (GOLDEN[name], None)
    assert f", dialect {name[:2]}" in workspace.ordain("lint", name).out


def test_lint_names_the_notation_of_all_others(workspace: Workspace) -> None:
    workspace.write("plan.md", PLAN)
    assert json.loads(workspace.ordain("lint", "plan.md", "--json").out)["data"]["dialect"] == "markdown"


@pytest.mark.part(of=4)
@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_a_dialect_becomes_a_notation(workspace: Workspace, name: str) -> None:
    workspace.write(name, (FIXTURES / name).read_text())
    told = json.loads(workspace.ordain("fmt", name, "--to", "json", "--json").out)["data"]
    assert (told["notation"], told["plan_id"]) == ("json", GOLDEN[name])


def test_steps_that_claim_to_be_done_are_run(workspace: Workspace) -> None:
    call = {"tool": "read_file", "args": {"path": "plan.json"}, "status": "completed", "result": {"ok": True}}
    workspace.write("plan.json", json.dumps({"taskId": "t", "steps": [{"id": "a", **call}, {"id": "b", **call}]}))
    assert "[PASSED]" not in workspace.ordain("show", "plan.json").out
    done = workspace.ordain("run", "plan.json")
    assert done.status == FINE
    assert "2 of 2 steps passed" in done.out
    assert done.out.count("result observed by Ordain") == 2
