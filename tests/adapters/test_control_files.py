"""Control files looked for before a command and after it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ordain.adapters.workspace import control_file as control_files
from tests.words import ControlWatch


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "ws/sub").mkdir(parents=True)
    yield tmp_path / "ws"


def watch(ws: Path, *places: str, kept: tuple[str, ...] = ()) -> ControlWatch:
    return ControlWatch(os.open(ws, os.O_RDONLY), places or ("",), (), kept)


def put(path: Path, text: str = "x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_nothing_is_said_where_nothing_happened(ws: Path) -> None:
    put(ws / "sub/.claude/settings.json")
    one = watch(ws)
    put(ws / "sub/x")
    assert (one.mountable, one.finish()) == (["sub/.claude"], ())


def test_what_is_new_is_set_aside_under_another_name(ws: Path) -> None:
    one = watch(ws)
    put(ws / "sub/.claude/settings.json", "evil")
    told = " ".join(one.finish())
    assert "`sub/.claude` is new or has changed" in told and ".ordain/replaced/" in told
    assert not (ws / "sub/.claude").exists()
    (kept,) = (ws / ".ordain/replaced").rglob("settings.json")
    assert (kept.parent.name, kept.read_text()) == ("was-.claude", "evil")


def test_what_came_with_packages_is_set_aside_without_a_word(ws: Path) -> None:
    put(ws / "node_modules/b/.vscode/settings.json")
    one = watch(ws)
    put(ws / "node_modules/a/.vscode/settings.json")
    (ws / "node_modules/b/.vscode/settings.json").unlink()
    (ws / "node_modules/b/.vscode").rmdir()
    assert one.finish() == () and not (ws / "node_modules/a/.vscode").exists()
    put(ws / "node_modules/a/.git/config")
    assert watch(ws).finish() == () and "`node_modules/a/.git`" not in "".join(one.mountable)


def test_a_link_is_compared_and_what_it_leads_to_is_kept(ws: Path) -> None:
    put(ws / "conf/settings.json")
    (ws / ".claude").symlink_to("conf")
    one = watch(ws)
    assert one.mountable == ["conf"]
    (ws / ".claude").unlink()
    assert one.finish() == ("`.claude` is gone",)


def test_every_link_on_the_way_is_compared_and_its_end_is_kept(ws: Path) -> None:
    put(ws / "b.json")
    put(ws / "cfg/claude.json")
    (ws / "a.json").symlink_to("b.json")
    (ws / ".mcp.json").symlink_to(ws / "a.json")
    (ws / ".claude").mkdir()
    (ws / "conf").symlink_to("cfg")
    (ws / ".claude/settings.json").symlink_to("../conf/claude.json")
    (ws / ".claude/up").symlink_to("..")
    (ws / ".vscode").symlink_to("later")
    one = watch(ws, kept=(".claude",))
    assert one.mountable == ["b.json", "cfg/claude.json"] and one.finish() == ()
    for name in ("a.json", "conf"):
        (ws / name).unlink()
    put(ws / "a.json", "evil")
    put(ws / "conf/claude.json", "evil")
    put(ws / "later/tasks.json", "evil")
    told = " ".join(one.finish())
    assert all(f"`{name}` is new or has changed" in told for name in ("a.json", "conf", "later"))
    assert not (ws / "a.json").exists() and not (ws / "later").exists()


def test_a_control_file_above_leads_into_what_can_be_written(ws: Path) -> None:
    put(ws / "sub/mcp.json")
    (ws / ".mcp.json").symlink_to("sub/mcp.json")
    assert watch(ws, "sub").mountable == ["sub/mcp.json"]


def test_a_repository_is_kept_whole_and_a_new_one_loses_its_head(ws: Path) -> None:
    for name in ("HEAD", "objects/x", "refs/x", "config", "modules/m/HEAD", "modules/m/objects/x", "modules/m/refs/x"):
        put(ws / "sub/mirror" / name)
    one = watch(ws)
    assert one.mountable == ["sub/mirror"]
    put(ws / "sub/mirror/worktrees/w/HEAD")  # a person did, outside
    put(ws / "sub/mirror/worktrees/w/commondir")
    assert one.finish() == ()
    one = watch(ws)
    for name in ("HEAD", "objects/x", "refs/x"):
        put(ws / "src" / name)
    assert "`src/HEAD` is new" in one.finish()[0] and (ws / "src/refs/x").exists()


def test_a_changed_repository_beyond_the_mounts_is_told(ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_files, "MOUNTS_MAX", 0)
    for name in ("HEAD", "objects/x", "refs/x"):
        put(ws / "mirror" / name)
    one = watch(ws)
    put(ws / "mirror/config", "evil")
    assert "`mirror/HEAD` is new or has changed" in one.finish()[0]


def test_a_repository_made_above_what_can_be_written_is_set_aside(ws: Path) -> None:
    put(ws / "sub/HEAD")
    put(ws / "sub/objects/x")
    one = watch(ws, "sub/objects")
    put(ws / "sub/refs/x")
    assert "`sub/HEAD` is new" in one.finish()[0] and not (ws / "sub/HEAD").exists()


def test_what_cannot_be_looked_into_may_not_be_made(ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_files, "DEPTH_MAX", 5)
    one = watch(ws)
    put(ws / "a/b/c/d/e/f/g/.git/config")
    assert "is new" in one.finish()[0] and not list(ws.glob("a/b/c/d/e/f"))


def test_too_much_to_look_at_is_refused(ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_files, "ENTRIES_MAX", 3)
    for name in "abcd":
        put(ws / name)
    with pytest.raises(ValueError, match="name the directories"):
        watch(ws)


@pytest.mark.parametrize("place", ["", "sub"])
def test_after_a_crash_a_repository_is_set_aside_wherever_it_lies(ws: Path, tmp_path: Path, place: str) -> None:
    (tmp_path / "room").mkdir()
    noted = watch(ws).noted(tmp_path / "room")
    noted.__enter__()  # killed before its end
    for name in ("HEAD", "objects/x", "refs/x"):
        put(ws / place / name)
    ControlWatch.finish_noted(os.open(ws, os.O_RDONLY), tmp_path / "room")
    assert not (ws / place / "HEAD").exists() and (ws / place / "refs/x").exists()


def test_git_leaves_out_what_is_set_aside(ws: Path) -> None:
    one = watch(ws)
    put(ws / "sub/.claude/settings.json", "evil")
    one.finish()
    assert (ws / ".ordain/replaced/.gitignore").read_text() == "*\n"


def test_after_a_crash_repositories_are_set_aside_and_what_may_be_a_persons_stays(ws: Path, tmp_path: Path) -> None:
    room = tmp_path / "room"
    room.mkdir()
    one = watch(ws)
    noted = one.noted(room)
    noted.__enter__()  # killed before its end
    put(ws / "vendor/.git/config", "evil")
    put(ws / "sub/.claude/settings.json", "mine")
    ControlWatch.finish_noted(os.open(ws, os.O_RDONLY), room)
    assert not (ws / "vendor/.git").exists() and (ws / "sub/.claude/settings.json").exists()
    assert not list(room.iterdir())
