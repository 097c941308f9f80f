"""The dialects on the command line: named by lint, printed by `ordain fmt --dialect`, refused by step and field."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.interfaces.workspace import Workspace

FINE, REFUSED = 0, 2
FIXTURES = Path(__file__).parent.parent / "dialects"
GOLDEN: dict[str, str] = json.loads((FIXTURES / "golden.json").read_text())
PLAN = """\
# Tidy up

1. Look around
2. Sweep
"""


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


@pytest.mark.parametrize("dialect", ["s1", "s3", "s4"])
def test_out_and_in_again(workspace: Workspace, dialect: str) -> None:
    workspace.write("plan.md", PLAN)
    made = workspace.ordain("fmt", "plan.md", "--dialect", dialect)
    assert (made.status, made.err) == (FINE, "")
    workspace.write("other", made.out)
    again = workspace.ordain("fmt", "other", "--dialect", dialect, "--json")
    told = json.loads(again.out)["data"]
    assert told["text"] == made.out
    assert told["dialect"] == dialect
    back = workspace.ordain("fmt", "other", "--to", "json", "--json")
    assert json.loads(back.out)["data"]["plan_id"] == told["plan_id"]


def test_what_can_not_be_said_is_refused(workspace: Workspace) -> None:
    workspace.write("plan.md", "# T\n\n1. `ls`\n")
    done = workspace.ordain("fmt", "plan.md", "--dialect", "s1")
    assert (done.status, done.out) == (REFUSED, "")
    assert "plan.md:3:1: E_DIALECT Step `ls`: `action` is of the type `run`, which dialect s1 can not say." in done.err


def test_what_is_left_out_is_told(workspace: Workspace) -> None:
    workspace.write("plan.md", "---\nowner: kim\n---\n" + PLAN)
    done = workspace.ordain("fmt", "plan.md", "--dialect", "s1")
    assert done.status == FINE
    assert "W_DIALECT" in done.err
    assert "`owner`" in done.err


@pytest.mark.parametrize("other", [("--to", "json"), ("--check",), ("--in-place",)])
def test_a_dialect_is_printed_and_nothing_else(workspace: Workspace, other: tuple[str, ...]) -> None:
    workspace.write("plan.md", PLAN)
    assert workspace.ordain("fmt", "plan.md", "--dialect", "s1", *other).status == REFUSED


def test_steps_that_claim_to_be_done_are_run(workspace: Workspace) -> None:
    call = {"tool": "read_file", "args": {"path": "plan.json"}, "status": "completed", "result": {"ok": True}}
    workspace.write("plan.json", json.dumps({"taskId": "t", "steps": [{"id": "a", **call}, {"id": "b", **call}]}))
    assert "[PENDING] a" in workspace.ordain("show", "plan.json").out
    done = workspace.ordain("run", "plan.json")
    assert done.status == FINE
    assert "2 of 2 steps passed" in done.out
    assert done.out.count("result seen by the harness") == 2
