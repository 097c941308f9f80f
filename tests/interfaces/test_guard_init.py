"""`ordain guard init`: a person sees the difference, says yes, and is asked for trust."""

from __future__ import annotations

from tests.interfaces.test_robot import answered, refused
from tests.interfaces.workspace import Workspace
from tests.words import FINE, REFUSED, WAITING


def at_terminal(workspace: Workspace, *words: str, typed: str = "yes") -> tuple[int, str]:
    answers = [("Write this?", typed), *([("configuration count?", "yes")] if typed == "yes" else [])]
    done = workspace.at_terminal("guard", "init", *words, answers=answers, rows=900, columns=300)
    return done.status, done.out


def verdict(workspace: Workspace, command: str) -> str:
    (found,) = answered(workspace.ordain("guard", "check", "--json", command))["commands"]
    return str(found["verdict"])


def test_rules_are_written_trusted_and_taken_back(workspace: Workspace) -> None:
    text = "[guard]\nmode = 'enforce'\n"
    workspace.trust(text)
    assert verdict(workspace, "git status") == "guarded"
    status, out = at_terminal(workspace)
    assert status == FINE and "rules.coding-checks" in out and "Trusted as" in out
    assert [verdict(workspace, one) for one in ("git status", "pytest -q", "git push")] == ["open", "open", "guarded"]
    assert "written already" in workspace.at_terminal("guard", "init").out
    status, out = at_terminal(workspace, "--remove")
    assert status == FINE and (workspace.path / "ordain.toml").read_text() == text
    assert verdict(workspace, "git status") == "guarded"
    assert "nothing of ours" in workspace.at_terminal("guard", "init", "--remove").out


def test_without_a_yes_nothing_is_written(workspace: Workspace) -> None:
    status, out = at_terminal(workspace, typed="no")
    assert status == REFUSED and "Nothing was written" in out and not (workspace.path / "ordain.toml").exists()


def test_only_a_person_can_but_everybody_is_shown_it(workspace: Workspace) -> None:
    refused(workspace.ordain("guard", "init", "--json"), "E_APPROVAL_CHANNEL", WAITING)
    assert workspace.ordain("guard", "init").status == WAITING
    (file,) = answered(workspace.ordain("guard", "init", "--show", "--json"))["files"]
    assert "[rules.coding-git]" in file["text"]
    assert "+[rules.coding-git]" in workspace.ordain("guard", "init", "--show").out
    assert not (workspace.path / "ordain.toml").exists()


def test_what_cannot_be_edited_is_told_with_the_lines_to_paste(workspace: Workspace) -> None:
    workspace.write("ordain.toml", "guard = { open = ['reads'] }\n")
    done = workspace.ordain("guard", "init", "--show")
    assert done.status == REFUSED and '"rule:coding-git"' in done.err + done.out
    assert "[rules.coding-git]" in done.err + done.out
