"""Spellings of a path that a host may read otherwise than the hook: whichever reading is the strictest counts."""

from __future__ import annotations

import json
import time
import unicodedata
from pathlib import Path

import pytest

from tests.interfaces.workspace import Workspace
from tests.words import Options, answer_hook, denied_reason, found_at, readings

SETTINGS = '[guard]\nmode = "enforce"\nopen = ["write_file", "read_file"]\n[policy]\ndeny = ["path:private/**"]\n'


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "workspace").mkdir()
    made = Workspace(tmp_path / "workspace")
    made.trust(SETTINGS)
    return made


def refused(workspace: Workspace, path: str, tool: str = "Write") -> bool:
    given = {"file_path": path.format(ws=workspace.path), "content": "x"}
    said = {"hook_event_name": "PreToolUse", "cwd": str(workspace.path), "tool_name": tool, "tool_input": given}
    return denied_reason(answer_hook(json.dumps(said).encode(), Options())) is not None


SPELLINGS = [
    " {ws}/.claude/settings.json",
    "{ws}/.claude/settings.json\t",
    "\u00a0.claude/settings.json\n",
    '"{ws}/.claude/settings.json"',
    "'.claude/settings.json'",
    "`.mcp.json`",
    "file://{ws}/.claude/settings.json",
    "FILE:{ws}/.git/config",
    "file://localhost{ws}/.git/hooks/pre-commit",
    "file://{ws}/%2Eclaude/settings.json",
    ".cl%61ude/settings.json",
    "%2e%67it/config",
    ".claude\\settings.json",
    "src\\..\\.git\\config",
    "~root/../.claude/settings.json",
    "~nobody-of-this-name/../.git/config",
    "~+/.claude/settings.json",
    "~-/.claude/settings.json",
    "{ws}/.CLAUDE/Settings.json",
    ".claude./settings.json",
    ".claude /settings.json",
    ".claude//settings.json/",
    "ordain.toml ",
    " private/notes.txt",
    "'private/notes.txt'",
    "private%2Fnotes.txt",
    "~root/../private/notes.txt",
    "~/.bashrc",
    " ~/.bashrc",
    " /etc/passwd",
    "file:///etc/passwd",
]


@pytest.mark.parametrize("path", SPELLINGS)
def test_the_strictest_reading_of_a_path_counts(workspace: Workspace, path: str) -> None:
    assert refused(workspace, path)


@pytest.mark.parametrize(
    "path", ["notes.txt", "{ws}/notes.txt", "a b/c d.txt", "caf\u00e9.txt", "app/[id]/page.tsx", "100%.txt"]
)
def test_ordinary_paths_are_as_open_as_they_were(workspace: Workspace, path: str) -> None:
    assert not refused(workspace, path)


@pytest.mark.parametrize("path", [" private/x", "private\\x", "file://{ws}/private/x", "~root/../private/x"])
def test_reading_is_judged_by_all_readings_too(workspace: Workspace, path: str) -> None:
    assert refused(workspace, path, "Read")


@pytest.mark.parametrize(
    "path", ["mirror/config", "mirror/hooks/x", "mirror/new/deep", "v/HEAD", "link/config", "cfg/mcp.json", "cfg/x"]
)
def test_what_counts_as_control_file_by_more_than_its_name_is_kept(workspace: Workspace, path: str) -> None:
    for name in ("mirror/HEAD", "mirror/objects/x", "mirror/refs/x", "v/objects/x", "v/refs/x", "cfg/mcp.json"):
        (workspace.path / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace.path / name).write_text("x")
    (workspace.path / "link").symlink_to("mirror")
    (workspace.path / ".mcp.json").symlink_to("cfg/mcp.json")
    assert refused(workspace, path) is (path != "cfg/x")
    assert not refused(workspace, path, "Read")


def test_the_state_directory_is_kept_in_any_case(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    found = found_at("/Home/Kim/State/ledger", "/Home/Kim/State/ledger", "/w", states=["/home/kim/state"], plans=None)
    assert "own record" in found.kept


def test_a_path_in_one_spelling_has_one_reading() -> None:
    assert readings("src/main.py") == ("src/main.py",)
    composed = "caf\u00e9"
    assert set(readings(composed)) == {composed, unicodedata.normalize("NFD", composed)}
    assert readings("~root/..") == ("~root/..", "./~root/..")
    assert readings("~/x") == ("~/x",), "every host means the home"


@pytest.mark.parametrize("tool", ["Read", "Write"])
def test_a_path_that_is_longer_than_any_is_judged_at_once_and_never_open(workspace: Workspace, tool: str) -> None:
    paths = ["a/" * 5_000, "a/" * 100_000, "{ws}/" + "a/../" * 10_000 + "notes.txt", "é" * 2_048]
    workspace.trust(SETTINGS.replace('"read_file"', '"read_file", "claude-code:Write"'))
    began = time.monotonic()
    assert all(refused(workspace, path, tool) for path in paths)
    assert time.monotonic() - began < 4
    workspace.trust(SETTINGS.replace("enforce", "observe"))
    assert not any(refused(workspace, path, tool) for path in paths)


def test_the_longest_path_is_judged_like_any(workspace: Workspace) -> None:
    assert not refused(workspace, "a/" * 1_900 + "x", "Read")
    assert not refused(workspace, "a/" * 1_900 + "x")
    assert refused(workspace, "a/" * 1_900 + ".git/config")
