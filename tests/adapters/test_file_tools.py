"""The built-in file tools: beneath the workspace, atomic, and stopped by every link in the way."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from tests.words import FileTools, ToolResult


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    (tmp_path / "outside.txt").write_text("secret")
    return tmp_path / "ws"


def call(workspace: Path, tool: str, **args: str) -> ToolResult:
    return asyncio.run(FileTools(workspace).call(tool, args, "step:0"))


def test_write_then_read_gives_the_same_text(workspace):
    text = "line\n\tß – 日本\r\nend"
    assert call(workspace, "write_file", path="a.txt", content=text).error is None
    assert call(workspace, "read_file", path="a.txt").value == text
    assert (workspace / "a.txt").read_bytes() == text.encode()


def test_writing_keeps_the_mode_and_leaves_no_temporary_file(workspace):
    (workspace / "run.sh").write_text("old")
    (workspace / "run.sh").chmod(0o750)
    call(workspace, "write_file", path="run.sh", content="new")
    assert (workspace / "run.sh").stat().st_mode & 0o777 == 0o750
    assert os.listdir(workspace) == ["run.sh"]


@pytest.mark.timeout(20)  # it would wait without end for a thread that cannot answer
def test_a_new_file_is_written_where_the_system_does_not_tell_the_umask(workspace, monkeypatch):
    monkeypatch.setattr(Path, "read_text", lambda *_: "Name:\tpython\nState:\tR (running)\n")
    assert call(workspace, "write_file", path="a.txt", content="new").error is None
    assert (workspace / "a.txt").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    "path", [".git/hooks/pre-commit", ".git/modules/a/config", "sub/.git", ".GIT/config", ".ordain/x"]
)
def test_nothing_is_written_where_it_would_run(workspace, path):
    """Also where lint could not know the path."""
    for tool, args in (("write_file", {"content": "x"}), ("make_dir", {}), ("edit_file", {"old": "a", "new": "b"})):
        assert call(workspace, tool, path=path, **args).error == "F_PATH_ESCAPE"
    assert os.listdir(workspace) == []


def test_list_and_make(workspace):
    assert call(workspace, "make_dir", path="a/b/c").error is None
    assert call(workspace, "make_dir", path="a/b").error is None
    (workspace / "a/f.txt").write_text("")
    assert call(workspace, "list_files", path="a").value == ["b/", "f.txt"]
    assert call(workspace, "list_files").value == ["a/"]


def test_edit_replaces_exactly_one_occurrence_or_nothing(workspace):
    (workspace / "a.txt").write_text("one two two")
    assert call(workspace, "edit_file", path="a.txt", old="one", new="1").error is None
    for old in ("two", "absent", ""):
        failed = call(workspace, "edit_file", path="a.txt", old=old, new="x")
        assert failed.error == "F_STEP_FAILED"
    assert (workspace / "a.txt").read_text() == "1 two two"


@pytest.mark.parametrize("path", ["../outside.txt", "/etc/passwd", "a/../../outside.txt", "a\0b", "", "."])
@pytest.mark.parametrize("tool", ["read_file", "write_file"])
def test_no_path_leads_out(workspace, tool, path):
    result = call(workspace, tool, path=path, content="x")
    assert result.error in ("F_PATH_ESCAPE", "F_STEP_FAILED")
    assert (workspace.parent / "outside.txt").read_text() == "secret"


def test_links_are_not_followed_anywhere_on_the_way(workspace):
    (workspace / "link").symlink_to(workspace.parent)
    (workspace / "file").symlink_to(workspace.parent / "outside.txt")
    (workspace / "dangling").symlink_to(workspace.parent / "new.txt")
    for tool, path in [
        ("read_file", "link/outside.txt"),
        ("write_file", "link/outside.txt"),
        ("edit_file", "link/outside.txt"),
        ("read_file", "file"),
        ("write_file", "file"),
        ("edit_file", "file"),
        ("write_file", "dangling"),
        ("make_dir", "link/made"),
        ("list_files", "link"),
    ]:
        result = call(workspace, tool, path=path, content="x", old="secret", new="x")
        assert result.error == "F_PATH_ESCAPE", (tool, path, result)
    assert (workspace.parent / "outside.txt").read_text() == "secret"
    assert sorted(os.listdir(workspace.parent)) == ["outside.txt", "ws"]


@pytest.mark.slow
def test_a_link_swapped_in_during_the_call_is_not_followed(workspace):
    """A hostile process flips a directory into a link and back while files are written through it."""
    outside = workspace.parent / "target"
    outside.mkdir()
    stop = threading.Event()

    def flip() -> None:
        while not stop.is_set():
            try:
                (workspace / "d").mkdir()
                os.rename(workspace / "d", workspace / "x")
                os.symlink(outside, workspace / "d")
                os.unlink(workspace / "d")
                os.rename(workspace / "x", workspace / "d")
                for name in os.listdir(workspace / "d"):
                    os.unlink(workspace / "d" / name)
                os.rmdir(workspace / "d")
            except OSError:
                pass

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        for number in range(300):
            call(workspace, "write_file", path=f"d/{number}", content="x")
    finally:
        stop.set()
        thread.join()
    assert os.listdir(outside) == []


def test_names_that_are_not_utf_8_are_listed_and_can_be_stored(workspace):
    import json

    Path(os.fsdecode(os.fsencode(workspace) + b"/caf\xe9")).write_text("")
    names = call(workspace, "list_files").value
    assert names == ["caf\\xe9"]
    json.dumps(names).encode()


def test_long_names_are_fine(workspace):
    assert call(workspace, "write_file", path="漢" * 80, content="x").error is None


def test_what_a_call_would_change_has_a_digest(workspace):
    def operand(path):
        return asyncio.run(FileTools(workspace).operand("edit_file", {"path": path}))

    assert operand("none") == "absent"
    (workspace / "a").write_text("1")
    first = operand("a")
    (workspace / "a").write_text("2")
    assert first != operand("a") and operand("a") == operand("a")
    assert operand("../outside.txt") is None


def test_special_files_are_refused_without_waiting(workspace):
    os.mkfifo(workspace / "pipe")
    assert call(workspace, "read_file", path="pipe").error == "F_STEP_FAILED"


def test_failures_are_results_with_words(workspace):
    assert call(workspace, "read_file", path="none.txt").detail == "none.txt: no such file or directory"
    (workspace / "bin").write_bytes(b"\xff\xfe")
    assert "not UTF-8" in call(workspace, "read_file", path="bin").detail
    assert call(workspace, "write_file", path="no/dir.txt", content="").error == "F_STEP_FAILED"


def test_a_reader_sees_the_old_text_or_the_new_never_a_mixture(workspace):
    old, new = "a" * 200_000, "b" * 200_000
    (workspace / "f").write_text(old)
    seen: set[str] = set()
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            seen.add((workspace / "f").read_text())

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for text in (new, old) * 20:
            call(workspace, "write_file", path="f", content=text)
    finally:
        stop.set()
        thread.join()
    assert seen <= {old, new}


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("write_file", {"path": "cfg/mcp.json", "content": "x"}),
        ("edit_file", {"path": "cfg/claude.json", "old": "t", "new": "x"}),
        ("write_file", {"path": "scripts/hook", "content": "x"}),
        ("write_file", {"path": "b.json", "content": "x"}),
        ("delete", {"path": "a.json"}),
        ("make_dir", {"path": "later/x"}),
        ("move", {"path": "scripts", "to": "later"}),
        ("move", {"path": "cfg", "to": "c"}),
        ("delete", {"path": "scripts", "recursive": True}),
    ],
)
def test_nothing_is_written_that_a_control_file_leads_to(workspace, tool, args):
    for path in ("cfg/mcp.json", "b.json", "scripts/hook", "cfg/claude.json", ".git/hooks/x", ".claude/x"):
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text("t")
    links = {".mcp.json": "cfg/mcp.json", ".envrc": "a.json", "a.json": "b.json", ".vscode": "later"}
    inner = {".git/hooks/pre-commit": "../../scripts/hook", ".claude/settings.json": "../cfg/claude.json"}
    for name, target in (links | inner).items():
        (workspace / name).symlink_to(target)
    result = asyncio.run(FileTools(workspace).call(tool, args, "a:0"))
    assert result.error == "F_PATH_ESCAPE" and "a control file is a link" in result.detail, result
    other = asyncio.run(FileTools(workspace).call("write_file", {"path": "cfg/other.json", "content": "x"}, "a:1"))
    assert other.error is None


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("write_file", {"path": ".claude/settings.local.json", "content": "x"}),
        ("write_file", {"path": "sub/.mcp.json", "content": "x"}),
        ("make_dir", {"path": "new/.CLAUDE/x"}),
        ("edit_file", {"path": "sub/.vscode/tasks.json", "old": "t", "new": "x"}),
        ("delete", {"path": "sub/.vscode/tasks.json"}),
        ("delete", {"path": "sub", "recursive": True}),
        ("move", {"path": "sub", "to": "moved"}),
        ("move", {"path": "sub/.vscode", "to": "moved"}),
        ("move", {"path": "plain", "to": ".claude"}),
        ("move", {"path": "plain", "to": ".github"}),
        ("move", {"path": "plain/HEAD1", "to": "plain/HEAD"}),
        ("write_file", {"path": "bare/config", "content": "x"}),
        ("write_file", {"path": "bare/sub/x", "content": "x"}),
        ("move", {"path": "bare", "to": "b"}),
        ("delete", {"path": "bare", "recursive": True}),
        ("write_file", {"path": "ci/deploy.yml", "content": "x"}),
        ("move", {"path": "plain", "to": "ci"}),
    ],
)
def test_no_control_file_is_written_moved_or_made(workspace, tool, args):
    for path in ("sub/.vscode/tasks.json", "plain/hooks/x", "plain/HEAD1", "bare/HEAD"):
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text("t")
    for path in ("plain/refs", "plain/objects", "bare/refs", "bare/objects", ".claude", "ci", "bare/sub"):
        (workspace / path).mkdir()
    (workspace / ".claude").rmdir() if tool == "move" else None
    (workspace / "ci").rmdir() if tool == "move" else None
    before = sorted((str(one), one.read_bytes() if one.is_file() else b"") for one in workspace.rglob("*"))
    result = asyncio.run(FileTools(workspace).call(tool, args, "a:0", control=("ci/**",)))
    assert result.error is not None, result
    assert sorted((str(one), one.read_bytes() if one.is_file() else b"") for one in workspace.rglob("*")) == before
