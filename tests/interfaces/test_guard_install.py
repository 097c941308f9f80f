"""The settings of Claude Code: shown, written and taken back by a person, and nothing else of them touched."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.test_guard_hook import ENFORCE, asked
from tests.interfaces.test_robot import answered, refused
from tests.interfaces.workspace import Workspace
from tests.patience import PATIENCE_S
from tests.words import Refused, with_hook, with_server, without_hook, without_server

FINE, REFUSED, WAITING = 0, 2, 3
COMMAND = ["/usr/bin/python3", "-I", "-c", "go", "/src", "guard", "hook", "claude-code"]
THEIRS = {
    "permissions": {"allow": ["Read"]},
    "hooks": {
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "theirs", "args": ["guard"]}]}],
        "Stop": [{"hooks": [{"type": "command", "command": "ding"}]}],
    },
    "model": "größer",
}


# --- The text --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", ""])
@pytest.mark.parametrize(
    ("indent", "separators"), [(2, None), (4, None), ("\t", None), (None, (",", ":")), (None, (", ", ": "))]
)
def test_what_is_written_is_taken_back_and_nothing_else(indent: Any, separators: Any, end: str) -> None:
    before = json.dumps(THEIRS, indent=indent, separators=separators, ensure_ascii=False) + end
    after = with_hook(before, COMMAND, "settings.json")
    hooks = json.loads(after)["hooks"]["PreToolUse"]
    assert hooks[:-1] == THEIRS["hooks"]["PreToolUse"]
    (ours,) = hooks[-1]["hooks"]
    assert (hooks[-1]["matcher"], ours["command"], ours["args"]) == ("", COMMAND[0], COMMAND[1:])
    assert (ours["type"], ours["onFailure"]) == ("command", "block") and ours["timeout"] > 0
    assert with_hook(after, COMMAND, "settings.json") == after
    assert without_hook(after, "settings.json") == before
    assert without_hook(before, "settings.json") is None


def test_a_hook_of_an_older_version_is_replaced_and_one_beside_ours_is_left() -> None:
    text = with_hook(None, ["/old/python", *COMMAND[1:]], "settings.json")
    tree = json.loads(text)
    tree["hooks"]["PreToolUse"][0]["hooks"].append({"type": "command", "command": "theirs"})
    after = json.loads(with_hook(json.dumps(tree), COMMAND, "settings.json"))["hooks"]["PreToolUse"]
    assert [[hook["command"] for hook in group["hooks"]] for group in after] == [["theirs"], [COMMAND[0]]]


def test_settings_of_nothing_but_our_hook_become_empty_ones() -> None:
    assert without_hook(with_hook(None, COMMAND, "x"), "x") == "{}\n"
    assert without_hook(None, "x") is None


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"hooks": []}',
        '{"hooks": {"PreToolUse": {}}}',
        '{"a": 1, "a": 2}',
        "// a comment\n{}",
        "[" * 100_000,
    ],
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(Refused) as refusal:
        with_hook(text, COMMAND, "settings.json")
    assert refusal.value.problems[0].code == "E_HOST_SETTINGS"


def test_a_server_of_others_is_left_alone() -> None:
    theirs = json.dumps({"mcpServers": {"ordain": {"command": "other"}, "mail": {"command": "mail"}}}, indent=2) + "\n"
    with pytest.raises(Refused):
        with_server(theirs, "ordain", ["python", "mcp", "--gateway"], {}, ".mcp.json")
    assert without_server(theirs, "ordain", ".mcp.json") is None
    ours = with_server(theirs, "gw", ["python", "mcp", "--gateway"], {}, ".mcp.json")
    assert without_server(ours, "gw", ".mcp.json") == theirs


# --- The command -----------------------------------------------------------------------------------------------------


def install(workspace: Workspace, *words: str, typed: str = "yes") -> tuple[int, str]:
    done = workspace.at_terminal(
        "guard", "install", "claude-code", *words, answers=[("Type yes", typed)], rows=200, columns=300
    )
    return done.status, done.out


def settings(workspace: Workspace) -> Path:
    return workspace.path / ".claude/settings.local.json"


def test_a_person_sees_what_is_written_and_the_host_can_start_it(workspace: Workspace) -> None:
    workspace.trust(ENFORCE)
    status, out = install(workspace)
    assert status == FINE and '"onFailure": "block"' in out and "no boundary" in out
    (group,) = json.loads(settings(workspace).read_text())["hooks"]["PreToolUse"]
    (hook,) = group["hooks"]
    # As the host starts it: from anywhere, and whatever the environment says of where modules are.
    done = subprocess.run(
        [hook["command"], *hook["args"]],
        input=asked(workspace, cwd="/"),
        capture_output=True,
        cwd="/",
        env={"PYTHONPATH": str(workspace.path), "PATH": "/usr/bin:/bin", "ORDAIN_HOME": "/nowhere"},
        timeout=PATIENCE_S,
    )
    assert "E_TOOL_GUARDED" in json.loads(done.stdout)["hookSpecificOutput"]["permissionDecisionReason"]
    status, out = install(workspace, "--remove")
    assert (status, settings(workspace).exists()) == (FINE, False)
    assert "nothing of ours" in workspace.at_terminal("guard", "install", "claude-code", "--remove").out


def test_without_a_yes_nothing_is_written(workspace: Workspace) -> None:
    status, out = install(workspace, typed="no")
    assert status == REFUSED and "Nothing was written" in out and not settings(workspace).exists()


def test_a_users_settings_keep_their_mode_and_name_no_workspace(workspace: Workspace, tmp_path: Path) -> None:
    file = tmp_path / "config/settings.json"
    file.parent.mkdir()
    file.write_text(json.dumps(THEIRS, indent=2, ensure_ascii=False) + "\n")
    file.chmod(0o600)
    before = file.read_text()
    for words, expected in ((["--user"], True), (["--user", "--remove"], False)):
        done = workspace.at_terminal(
            *("guard", "install", "claude-code", *words),
            answers=[("Type yes", "yes")],
            rows=200,
            columns=300,
            env={"CLAUDE_CONFIG_DIR": str(file.parent)},
        )
        assert done.status == FINE, done.out
        assert ("claude-code" in file.read_text(), "--workspace" in file.read_text()) == (expected, False)
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == (before, 0o600)


def test_a_link_is_not_written_through(workspace: Workspace, tmp_path: Path) -> None:
    settings(workspace).parent.mkdir()
    (tmp_path / "elsewhere.json").write_text("{}")
    settings(workspace).symlink_to(tmp_path / "elsewhere.json")
    done = workspace.at_terminal("guard", "install", "claude-code")
    assert (done.status, "E_HOST_SETTINGS" in done.out, "is a link" in done.out) == (REFUSED, True, True)
    settings(workspace).unlink()
    settings(workspace).parent.rmdir()
    settings(workspace).parent.symlink_to(tmp_path)
    done = workspace.at_terminal("guard", "install", "claude-code")
    assert (done.status, "E_HOST_SETTINGS" in done.out) == (REFUSED, True)
    assert (tmp_path / "elsewhere.json").read_text() == "{}"


@pytest.mark.slow
def test_the_gateway_is_written_beside_it(workspace: Workspace) -> None:
    workspace.trust(ENFORCE)
    status, out = install(workspace, "--gateway")
    assert status == FINE
    server = json.loads((workspace.path / ".mcp.json").read_text())["mcpServers"]["ordain"]
    assert server["args"][-4:] == ["-C", str(workspace.path), "mcp", "--gateway"]
    # As the host starts it, wherever that keeps its own things: what was trusted here counts.
    done = subprocess.run(
        [server["command"], *server["args"][:-2], "config", "--json"],
        capture_output=True,
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "HOME": "/nowhere", **server["env"]},
        timeout=PATIENCE_S,
    )
    assert '"enforce"' in done.stdout.decode(), done.stderr
    assert server["env"] == {"ORDAIN_HOME": os.path.realpath(os.environ["ORDAIN_HOME"])}
    status, out = install(workspace, "--remove")
    assert (status, "stays in" in out, (workspace.path / ".mcp.json").exists()) == (FINE, True, True)
    assert install(workspace, "--gateway", "--remove")[0] == FINE
    assert not (workspace.path / ".mcp.json").exists()


def test_robots_and_scripts_are_refused(workspace: Workspace) -> None:
    workspace.trust(ENFORCE)
    document = refused(workspace.ordain("guard", "install", "claude-code", "--json"), "E_APPROVAL_CHANNEL", WAITING)
    assert document["next"] == ["ordain guard install claude-code --project"]
    done = workspace.ordain("guard", "install", "claude-code")
    assert (done.status, "E_APPROVAL_CHANNEL" in done.err) == (WAITING, True)
    assert not settings(workspace).exists()
    assert "install" in workspace.ordain("log", "--refused").out


def test_what_would_be_written_is_shown_to_everybody_and_not_written(workspace: Workspace) -> None:
    """Whoever rolls settings out to many machines wants the text alone."""
    shown = answered(workspace.ordain("guard", "install", "claude-code", "--show", "--gateway", "--json"))
    assert [Path(one["path"]).name for one in shown["files"]] == ["settings.local.json", ".mcp.json"]
    assert json.loads(shown["files"][0]["text"])["hooks"]["PreToolUse"][0]["matcher"] == ""
    done = workspace.ordain("guard", "install", "claude-code", "--show")
    assert (done.status, '"onFailure": "block"' in done.out, settings(workspace).exists()) == (FINE, True, False)
    managed = answered(workspace.ordain("guard", "install", "claude-code", "--show", "--managed", "--json"))
    (group,) = json.loads(managed["files"][0]["text"])["hooks"]["PreToolUse"]
    # Of everybody: the administrator's own state would be nobody else's.
    assert group["hooks"][0]["args"][-2] == "--state" and group["hooks"][0]["args"][-1].startswith("~/")


def test_a_home_is_no_project(workspace: Workspace) -> None:
    """With everything that its owner has in it, our own state too."""
    there = {"HOME": str(workspace.path), "ORDAIN_HOME": str(workspace.path / ".local/state/ordain")}
    done = workspace.at_terminal("guard", "install", "claude-code", env=there)
    assert (done.status, "E_STATE_DIR" in done.out, "Type yes" in done.out) == (REFUSED, True, False)


def test_two_places_are_not_one(workspace: Workspace) -> None:
    done = workspace.ordain("guard", "install", "claude-code", "--user", "--project", "--show")
    assert (done.status, "name one" in done.err) == (REFUSED, True)
    done = workspace.ordain("guard", "install", "codex")
    assert (done.status, "ordain mcp --gateway" in done.err) == (REFUSED, True)


def test_a_users_gateway_is_a_line_that_can_be_copied(workspace: Workspace, tmp_path: Path) -> None:
    words = ("guard", "install", "claude-code", "--user", "--gateway")
    there = {"CLAUDE_CONFIG_DIR": str(tmp_path / "config")}
    done = workspace.at_terminal(*words, answers=[("Type yes", "yes")], rows=200, columns=80, env=there)
    (line,) = (line for line in done.out.splitlines() if line.startswith("claude mcp add"))
    assert line.rstrip().endswith("mcp --gateway") and "ORDAIN_HOME=" in line and "↪" not in line
    # Also where nothing is left to write.
    done = workspace.at_terminal(*words, env=there)
    assert "claude mcp add" in done.out and 'mode = "enforce"' in done.out
    done = workspace.at_terminal(*words, "--remove", answers=[("Type yes", "yes")], rows=200, env=there)
    assert "claude mcp remove --scope user ordain" in done.out


def test_what_is_in_force_is_said_as_it_is(workspace: Workspace) -> None:
    def said() -> str:
        return " ".join(answered(workspace.ordain("guard", "install", "claude-code", "--show", "--json"))["notes"])

    assert "There is no ordain.toml" in said() and "ordain init" in said()
    workspace.write("ordain.toml", ENFORCE)
    assert "not trusted as it is now" in said() and "ordain trust" in said()
    workspace.trust(ENFORCE)
    assert "refused from the next call on" in said() and "only watched" not in said()
    workspace.trust('[guard]\nmode = "observe"\n')
    assert "only watched" in said()


def test_servers_that_the_host_still_reaches_by_itself_are_named(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    workspace.trust('[tools.mail]\nmcp = ["mail-server", "--fast"]\n[tools.far]\nurl = "https://far.example/mcp"\n')
    servers = {"post": {"command": "mail-server", "args": ["--fast"]}, "linear": {"command": "linear"}}
    workspace.write(".mcp.json", json.dumps({"mcpServers": servers}))
    of_project = {str(workspace.path): {"mcpServers": {"other": {"type": "http", "url": "https://far.example/mcp"}}}}
    (tmp_path / ".claude.json").write_text(json.dumps({"mcpServers": {"mail": {}}, "projects": of_project}))
    shown = answered(workspace.ordain("guard", "install", "claude-code", "--show", "--gateway", "--json"))
    named = [note.split("`")[1] for note in shown["notes"] if "without the gateway" in note]
    assert named == ["post", "mail", "other"]


def test_what_names_paths_of_one_machine_should_not_be_shared(workspace: Workspace) -> None:
    (workspace.path / ".git").mkdir()
    shown = answered(workspace.ordain("guard", "install", "claude-code", "--show", "--gateway", "--json"))
    (note,) = (note for note in shown["notes"] if ".gitignore" in note)
    assert ".claude/settings.local.json and .mcp.json" in note
