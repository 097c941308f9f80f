"""Copies in a real directory: whole or not at all, beneath the workspace or nowhere."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.words import WorkspaceCopies

PLACE = ".ordain/plans/PLAN-A.plan.md"


def test_a_copy_is_written_whole_with_the_directories_it_needs_and_replaced(tmp_path):
    copies = WorkspaceCopies(tmp_path)
    assert copies.put(PLACE, b"one") and copies.put(PLACE, b"two")
    assert (tmp_path / PLACE).read_bytes() == b"two"
    assert {path.name for path in (tmp_path / PLACE).parent.iterdir()} == {".gitignore", "PLAN-A.plan.md"}, (
        "nothing half-done is left"
    )


def test_removing_takes_the_file_and_nothing_else(tmp_path):
    copies = WorkspaceCopies(tmp_path)
    copies.put(PLACE, b"one")
    copies.put(".ordain/plans/PLAN-B.plan.md", b"other")
    copies.remove(PLACE)
    copies.remove(PLACE)  # it may be gone
    copies.remove(".ordain/plans")  # a directory is no copy
    assert {path.name for path in (tmp_path / ".ordain/plans").iterdir()} == {".gitignore", "PLAN-B.plan.md"}


@pytest.mark.parametrize("folder", [".ordain/plans", ".ordain/archive"])
def test_copies_do_not_make_a_git_repository_look_changed(tmp_path, folder):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    assert WorkspaceCopies(tmp_path).put(f"{folder}/PLAN-A.plan.md", b"one")
    assert changed_in(tmp_path) == ""


def test_whoever_wants_copies_in_git_can_have_them(tmp_path):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    copies = WorkspaceCopies(tmp_path)
    copies.put(PLACE, b"one")
    ignoring = (tmp_path / PLACE).parent / ".gitignore"
    ignoring.write_text("mine\n")
    copies.put(PLACE, b"two")
    assert ignoring.read_text() == "mine\n"
    ignoring.unlink()
    copies.put(PLACE, b"three")
    assert not ignoring.exists() and changed_in(tmp_path) == "?? .ordain/\n"
    assert copies.put("proposals/PLAN-A.plan.md", b"one")
    assert "?? proposals/\n" in changed_in(tmp_path), "a directory that the settings name is the user's affair"


def changed_in(path):
    return subprocess.run(["git", "status", "--short"], cwd=path, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("path", ["../escaped.md", "/etc/escaped.md", "a/../../escaped.md", ".ordain/../../x"])
def test_nothing_outside_the_workspace_is_touched(tmp_path, path):
    root = tmp_path / "workspace"
    root.mkdir()
    copies = WorkspaceCopies(root)
    assert not copies.put(path, b"evil")
    copies.remove(path)
    assert list(tmp_path.iterdir()) == [root]


@pytest.mark.parametrize("link", [".ordain", ".ordain/plans", PLACE])
def test_no_link_on_the_way_is_followed(tmp_path, link):
    root, outside = tmp_path / "workspace", tmp_path / "outside"
    (root / link).parent.mkdir(parents=True)
    (outside / "plans").mkdir(parents=True)
    precious = [outside / "PLAN-A.plan.md", outside / "plans/PLAN-A.plan.md"]
    for path in precious:
        path.write_bytes(b"precious")
    (root / link).symlink_to(precious[0] if link == PLACE else outside)
    copies = WorkspaceCopies(root)
    assert not copies.put(PLACE, b"evil")
    copies.remove(PLACE)
    assert [path.read_bytes() for path in precious] == [b"precious"] * 2


@pytest.mark.parametrize("what", ["file", "gone", "pipe"])
def test_where_nothing_can_be_written_nothing_is(tmp_path, what):
    root = tmp_path / "workspace"
    if what != "gone":
        root.mkdir()
    if what == "file":
        (root / ".ordain").write_bytes(b"")
    if what == "pipe":
        os.mkfifo(root / ".ordain")
    copies = WorkspaceCopies(root)
    assert not copies.put(PLACE, b"one")
    copies.remove(PLACE)


def test_a_directory_in_place_of_a_copy_stays(tmp_path):
    (tmp_path / PLACE / "inside").mkdir(parents=True)
    assert not WorkspaceCopies(tmp_path).put(PLACE, b"one")
    WorkspaceCopies(tmp_path).remove(PLACE)
    assert (tmp_path / PLACE / "inside").is_dir()
    assert [path.name for path in (tmp_path / PLACE).parent.iterdir()] == [Path(PLACE).name]
