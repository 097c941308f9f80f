"""`ordain guard init`: a person sees the difference, says yes, and is asked for trust."""

from __future__ import annotations

import os
from pathlib import Path

from tests.interfaces.test_guard_hook import asked, reason
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


# --- In the user's own configuration ---------------------------------------------------------------------------------


def own_file(workspace: Workspace) -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or f"{os.environ['HOME']}/.config", "ordain/config.toml")


def init_user(workspace: Workspace, *words: str, typed: str = "yes") -> str:
    done = workspace.at_terminal(
        "guard", "init", "--user", *words, answers=[("Write this?", typed)], rows=900, columns=300
    )
    return done.out


def hook_says(workspace: Workspace, command: str) -> str | None:
    return reason(asked(workspace, tool_input={"command": command}))


def test_the_rules_of_the_user_count_everywhere_and_a_workspace_only_guards_more(workspace: Workspace) -> None:
    workspace.trust("[guard]\nmode = 'enforce'\n")
    assert verdict(workspace, "git status") == "guarded" and hook_says(workspace, "git status") is not None
    out = init_user(workspace)
    assert "+[rules.coding-git]" in out and "never less" in out and not (workspace.path / "ordain.toml.bak").exists()
    assert [verdict(workspace, one) for one in ("git status", "pytest -q", "git push")] == ["open", "open", "guarded"]
    assert [hook_says(workspace, one) is None for one in ("git status", "pytest -q", "git push")] == [True, True, False]
    assert "written already" in workspace.at_terminal("guard", "init", "--user").out
    workspace.trust(
        "[guard]\nmode = 'enforce'\nguarded = ['*', 'rule:git']\n"
        "[rules.git]\ntools = ['shell']\nwhere = { program = 'git' }\n"
    )
    assert [verdict(workspace, one) for one in ("git status", "pytest -q")] == ["guarded", "open"]
    assert hook_says(workspace, "git status") is not None
    assert own_file(workspace).exists()
    init_user(workspace, "--remove")
    assert not own_file(workspace).exists() and verdict(workspace, "pytest -q") == "guarded"


def test_what_the_user_guards_no_workspace_opens(workspace: Workspace) -> None:
    own = own_file(workspace)
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(
        "[guard]\nmode = 'enforce'\nguarded = ['rule:push']\n"
        "[rules.push]\ntools = ['shell']\nwhere = { program = 'git', subcommand = 'push' }\n"
    )
    try:
        workspace.trust("[guard]\nopen = ['reads', 'shell']\n[rules.push]\ntools = ['read_file']\n")
        assert [verdict(workspace, one) for one in ("rm -r x", "git push")] == ["open", "guarded"]
        assert hook_says(workspace, "git push") is not None, "and it is enforced here too"
    finally:
        own.unlink()


def test_what_was_edited_opens_nothing_until_a_person_says_so(workspace: Workspace) -> None:
    workspace.trust("[guard]\nmode = 'enforce'\n")
    own = own_file(workspace)
    own.parent.mkdir(parents=True, exist_ok=True)
    try:
        init_user(workspace)
        own.write_text(f"{own.read_text()}# edited\n")
        assert verdict(workspace, "pytest -q") == "guarded" and hook_says(workspace, "git status") is not None
        assert "It counts" in init_user(workspace)
        assert verdict(workspace, "pytest -q") == "open" and hook_says(workspace, "git status") is None
        init_user(workspace, "--remove")
        assert own.read_text() == "# edited\n"
    finally:
        own.unlink(missing_ok=True)
