"""`ordain skill`: the text for models, printed, as JSON, and written where an agent looks for it."""

from __future__ import annotations

import stat

from ordain import __version__
from ordain.interfaces.skill import skill_text
from tests.interfaces.test_robot import answered, refused
from tests.interfaces.workspace import Workspace


def test_json_skill(workspace: Workspace) -> None:
    data = answered(workspace.ordain("skill", "--json"))
    assert data == {"text": skill_text(), "version": __version__, "written": None}
    assert answered(workspace.ordain("skill", "--json", "-o", "new.md"))["written"] == "new.md"
    refused(workspace.ordain("skill", "--json", "-o", "new.md"), "E_OUTPUT")


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


def test_the_skill_is_not_written_through_a_file_that_stands_in_the_way(workspace: Workspace) -> None:
    done = workspace.ordain("skill", "-o", "small.plan.md/SKILL.md")
    assert done.status == 2 and "E_OUTPUT" in done.err
