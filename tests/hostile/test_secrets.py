"""Secrets under names that a list forgot, and cut into pieces: hidden in what is shown of a real run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interfaces.workspace import Workspace

SECRET = "Tr0ub4dor-and-3-more"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    path = tmp_path / "workspace"
    path.mkdir()
    return Workspace(path)


@pytest.mark.part(of=3)
@pytest.mark.parametrize("name", ["DB_PASSWORD", "PGPASSWORD", "GH_PAT"])
def test_a_secret_in_pieces_is_not_shown(workspace: Workspace, monkeypatch, name: str):
    monkeypatch.setenv(name, SECRET)
    (workspace.path / "value").write_text(SECRET)
    workspace.write(
        "x.plan.md",
        "# Print it\n\n## Steps\n\n### 1. whole\n\n**run:** cat value\n\n### 2. lines\n\n**run:** fold -w 5 value\n"
        "\n### 3. colours\n\n**run:** sed 's/..../\\x1b[31m&\\x1b(B\\x1b[m/g' value\n",
    )
    run_id, done = workspace.started("x.plan.md")
    said = done.out + workspace.ordain("show", run_id).out + workspace.ordain("log", run_id).out
    said += "".join(workspace.ordain("show", run_id, "--output", step).out for step in ("whole", "lines", "colours"))
    assert done.status == 0 and f"[redacted {name}]" in said
    for at in range(0, len(SECRET) - 8, 4):
        assert SECRET[at : at + 4] + "\x1b" not in said and SECRET[at : at + 8] not in said


def test_our_own_ids_are_no_secrets(workspace: Workspace):
    text = "# T\n\n1. `du -sk $(find . -name cache -type d -print)`\n2. Add the SK locale strings to the bundle now\n"
    workspace.write("x.plan.md", text)
    assert "E_PLAN_SECRET" not in workspace.ordain("lint", "x.plan.md").out
    workspace.write("y.plan.md", "# T\n\n1. `echo sk-proj-a1B2c3D4e5F6a1B2c3D4e5F6`\n")
    assert "E_PLAN_SECRET" in workspace.ordain("lint", "y.plan.md").out
