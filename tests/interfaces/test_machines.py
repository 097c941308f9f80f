"""`ordain skill`: the text for models, printed, as JSON, and written where an agent looks for it."""

from __future__ import annotations

import os
import stat

from ordain import __version__
from tests.interfaces.test_robot import answered, refused
from tests.interfaces.workspace import Workspace
from tests.words import skill_text


def test_json_skill(workspace: Workspace) -> None:
    data = answered(workspace.ordain("skill", "--json"))
    assert data == {"text": skill_text(), "version": __version__, "written": None}
    assert answered(workspace.ordain("skill", "--json", "-o", "new.md"))["written"] == "new.md"
    workspace.write("mine.md", "mine")
    refused(workspace.ordain("skill", "--json", "-o", "mine.md"), "E_OUTPUT")


def test_the_skill_is_printed_as_it_is(workspace: Workspace) -> None:
    assert workspace.ordain("skill") == (0, skill_text(), "")


def test_the_skill_is_written_to_a_new_file_that_others_can_read(workspace: Workspace) -> None:
    where = ".claude/skills/ordain/SKILL.md"
    assert workspace.ordain("skill", "-o", where) == (0, f"Wrote {where}.\n", "")
    file = workspace.path / where
    assert file.read_text(encoding="utf-8") == skill_text()
    assert stat.S_IMODE(file.stat().st_mode) & 0o444 == 0o444
    file.write_text("mine")
    assert workspace.ordain("skill", "-o", where).status == 2
    assert file.read_text() == "mine"


def test_an_older_skill_of_ours_is_replaced_and_nothing_else(workspace: Workspace) -> None:
    older = workspace.write("SKILL.md", "---\nname: ordain\ndescription: As it was.\n---\n\n# Working with Ordain\n")
    assert workspace.ordain("skill", "-o", "SKILL.md") == (0, "Wrote SKILL.md.\n", "")
    assert older.read_text() == skill_text()
    other = workspace.write("other.md", "---\nname: other\n---\nname: ordain\n")
    (workspace.path / "link.md").symlink_to(older)
    os.mkfifo(workspace.path / "pipe.md")
    for name in ("other.md", "link.md", "pipe.md"):
        done = workspace.ordain("skill", "-o", name)
        assert (done.status, "E_OUTPUT" in done.err) == (2, True), name
    assert "name: other" in other.read_text() and (workspace.path / "link.md").is_symlink()


def test_the_skill_is_not_written_through_a_file_that_stands_in_the_way(workspace: Workspace) -> None:
    done = workspace.ordain("skill", "-o", "small.plan.md/SKILL.md")
    assert done.status == 2 and "E_OUTPUT" in done.err
