"""A step at tier 1 against the settings of the very agent it runs for, which are there already."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.interfaces.workspace import Workspace
from tests.programs import need

GUARDED = '{"hooks": {"PreToolUse": ["ordain"]}}\n'
WAYS = {
    "write": "echo '{}' > FILE",
    "append": "echo '{}' >> FILE",
    "replace": "echo '{}' > new && mv -f new FILE",
    "remove": "rm -f FILE",
    "link": "ln -sf /dev/null FILE",
    "rename": "mv FILE gone",
    "inside": "sed -i s/ordain/evil/ FILE",
}


@pytest.mark.part(of=7)
@pytest.mark.parametrize("name", [".claude/settings.json", ".mcp.json"])
@pytest.mark.parametrize("way", WAYS)
def test_what_is_there_stays_as_it_is_however_a_step_writes(tmp_path: Path, name: str, way: str) -> None:
    need("bwrap")
    (tmp_path / "ws").mkdir()
    workspace = Workspace(tmp_path / "ws")
    file = workspace.path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(GUARDED)
    workspace.write("plan.md", f"---\ntier: 1\n---\n\n# Let me\n\n1. `{WAYS[way].replace('FILE', name)}`\n")
    answer = json.loads(workspace.ordain("robot", "commit", workspace.approved("plan.md")).out)
    assert not file.is_symlink() and file.read_text() == GUARDED
    assert [step["state"] for step in answer["data"]["steps"]] == ["failed"], answer
