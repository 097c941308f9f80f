"""What is known of a plan before anybody approves it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.interfaces.workspace import Workspace
from tests.words import FINE

EDIT = """\
# Edit

## Steps

### 1. Change it

**id:** change
**tool:** edit_file
**args:**
```yaml
path: notes.txt
old: "{old}"
new: x
```
"""
BEFORE = """\

### 1. Write it

**id:** make
**run:** make notes
"""


def warned(workspace: Workspace, text: str) -> list[str]:
    """The warnings of a document about what it edits, at both doors."""
    workspace.write("edit.plan.md", text)
    problems = json.loads(workspace.ordain("robot", "lint", "edit.plan.md").out)["problems"]
    found = [one["detail"] for one in problems if one["code"] == "W_EDIT_TEXT"]
    shown = workspace.ordain("lint", "edit.plan.md")
    assert (shown.status, shown.out.count("W_EDIT_TEXT")) == (FINE, len(found))
    return found


def test_the_text_that_an_edit_replaces_is_looked_for_beforehand(workspace: Workspace) -> None:
    workspace.write("notes.txt", "one\ntwo\ntwo\n")
    for old, times in (("one", None), ("two", 2), ("three", 0)):
        found = warned(workspace, EDIT.replace("{old}", old))
        wanted = f"`change` replaces a text that occurs {times} times in `notes.txt`, not once: the edit would fail."
        assert found == ([wanted] if times is not None else []), old
    assert "W_EDIT_TEXT" in workspace.ordain("prepare", "edit.plan.md").out


def test_where_a_step_before_may_change_the_file_it_is_not_known_yet(workspace: Workspace) -> None:
    workspace.write("notes.txt", "one\n")
    text = EDIT.replace("{old}", "three").replace("### 1. Change", "### 2. Change")
    write = "**tool:** write_file\n**args:**\n```yaml\npath: FILE\ncontent: three\n```"
    for step, known in (
        ("**run:** make notes", False),
        (write.replace("FILE", "notes.txt"), False),
        (write.replace("FILE", "other.txt"), True),
    ):
        before = BEFORE.replace("**run:** make notes", step)
        assert bool(warned(workspace, text.replace("## Steps\n", f"## Steps\n{before}"))) == known, step


def test_nothing_is_said_of_what_stands_in_files_that_hold_secrets(workspace: Workspace) -> None:
    for name in (".env", ".git/config"):
        file = Path(workspace.path, name)
        file.parent.mkdir(exist_ok=True)
        file.write_text("TOKEN=hunter2hunter2\n")
        for old in ("hunter2", "nothing"):
            text = EDIT.replace("{old}", old).replace("notes.txt", name)
            workspace.write("edit.plan.md", text)
            assert "W_EDIT_TEXT" not in workspace.ordain("lint", "edit.plan.md").out
