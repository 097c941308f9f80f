"""`move` and `delete`: one step at the path, no link followed, nothing overwritten, a leftover that is found again."""

import asyncio
import contextlib
import errno
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordain.adapters.tools import file as file_tools
from ordain.adapters.tools import file as moving
from tests.words import FileTools, ToolResult


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/kept").write_text("secret")
    return tmp_path / "ws"


def call(workspace: Path, tool: str, **args: object) -> ToolResult:
    return asyncio.run(FileTools(workspace).call(tool, args, "step:0"))


def operand(workspace: Path, tool: str, **args: object) -> str | None:
    return asyncio.run(FileTools(workspace).operand(tool, args))


def tree(root: Path) -> dict[str, str | None]:
    """Everything beneath a directory: files with their content, links with `-> target`, directories with None."""
    found: dict[str, str | None] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        found[name] = f"-> {os.readlink(path)}" if path.is_symlink() else None if path.is_dir() else path.read_text()
    return found


# --- move ------------------------------------------------------------------------------------------------------------


def test_files_directories_and_links_are_moved_whole(workspace):
    (workspace / "d/e").mkdir(parents=True)
    (workspace / "d/e/f").write_text("x")
    (workspace / "link").symlink_to(workspace.parent / "outside")
    (workspace / "target").mkdir()
    for path, to in (("d", "target/d2"), ("link", "target/link2"), ("target/d2/e/f", "f")):
        assert call(workspace, "move", path=path, to=to).error is None
    assert tree(workspace) == {
        "f": "x",
        "target": None,
        "target/d2": None,
        "target/d2/e": None,
        "target/link2": f"-> {workspace.parent}/outside",
    }


@pytest.mark.parametrize("there", ["file", "empty", "full", "link", "dangling"])
def test_nothing_is_overwritten_unasked(workspace, there):
    (workspace / "a").write_text("new")
    match there:
        case "file":
            (workspace / "b").write_text("old")
        case "empty":
            (workspace / "b").mkdir()
        case "full":
            (workspace / "b/c").mkdir(parents=True)
        case "link":
            (workspace / "b").symlink_to("a")
        case "dangling":
            (workspace / "b").symlink_to("nowhere")
    before = tree(workspace)
    result = call(workspace, "move", path="a", to="b")
    assert result.error == "F_STEP_FAILED"
    assert result.detail.startswith("a cannot be moved to b: something is there already")
    assert tree(workspace) == before


def test_overwriting_replaces_a_file_or_a_link_itself(workspace):
    (workspace / "a").write_text("1")
    (workspace / "link").symlink_to(workspace.parent / "outside/kept")
    assert call(workspace, "move", path="a", to="link", overwrite=True).error is None
    assert tree(workspace) == {"link": "1"}
    assert (workspace.parent / "outside/kept").read_text() == "secret"


def test_a_full_directory_is_never_overwritten(workspace):
    for name in ("a", "b"):
        (workspace / name).mkdir()
        (workspace / name / "x").write_text(name)
    before = tree(workspace)
    result = call(workspace, "move", path="a", to="b", overwrite=True)
    assert (result.error, result.detail) == (
        "F_STEP_FAILED",
        "a cannot be moved to b: a directory is there that is not empty",
    )
    assert tree(workspace) == before


@pytest.mark.parametrize("overwrite", [False, True])
def test_nothing_is_moved_onto_or_into_itself(workspace, overwrite):
    (workspace / "d").mkdir()
    (workspace / "a").write_text("x")
    os.link(workspace / "a", workspace / "other-name")
    before = tree(workspace)
    for path, to in (
        ("a", "a"),
        ("a", "./a"),
        ("a/", "a"),
        ("a", "other-name"),
        ("d", "d"),
        ("d", "d/e"),
        ("d", "d/."),
    ):
        result = call(workspace, "move", path=path, to=to, overwrite=overwrite)
        assert result.error == "F_STEP_FAILED", (path, to)
    assert tree(workspace) == before


@pytest.mark.parametrize(
    ("path", "to"),
    [
        ("../outside/kept", "a"),
        ("a", "../outside/new"),
        ("a", "/tmp/ordain-never"),
        ("link/kept", "b"),
        ("a", "link/new"),
        ("a", "b\0c"),
        (".", "b"),
        ("a", "."),
        ("a", ".git"),
        ("a", ".GIT/hooks/pre-commit"),
        ("a", "sub/.git"),
        ("a", ".ordain/x"),
        ("a", ".g\u200cit"),
        (".git/config", "b"),
        (".ordain", "b"),
    ],
)
def test_nothing_is_moved_out_in_or_where_it_would_run(workspace, path, to):
    (workspace / "a").write_text("x")
    (workspace / ".git").mkdir()
    (workspace / ".git/config").write_text("")
    (workspace / ".ordain").mkdir()
    (workspace / "link").symlink_to(workspace.parent / "outside")
    before, outside = tree(workspace), tree(workspace.parent / "outside")
    assert call(workspace, "move", path=path, to=to, overwrite=True).error == "F_PATH_ESCAPE"
    assert (tree(workspace), tree(workspace.parent / "outside")) == (before, outside)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EXDEV, "that is another file system, where nothing can be moved to in one step"),
        (errno.ENOSPC, "no space left on device"),
        (errno.EACCES, "permission denied"),
        (
            errno.ENOSYS,
            "this file system cannot move without a chance of overwriting something; `overwrite` would let it",
        ),
        (
            errno.EINVAL,
            "this file system cannot move without a chance of overwriting something; `overwrite` would let it",
        ),
    ],
)
def test_what_the_system_refuses_is_told(workspace, monkeypatch, number, words):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    (workspace / "a").write_text("x")
    monkeypatch.setattr(file_tools, "rename_new", refuse)
    result = call(workspace, "move", path="a", to="b")
    assert (result.error, result.detail) == ("F_STEP_FAILED", f"a cannot be moved to b: {words}")


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no second file system")
def test_another_file_system_is_told_for_real(tmp_path):
    """The rename itself, between two real file systems."""
    other = Path("/dev/shm") / f"ordain-{os.getpid()}"
    other.mkdir()
    try:
        if other.stat().st_dev == tmp_path.stat().st_dev:
            pytest.skip("one file system")
        (tmp_path / "a").write_text("x")
        here, there = (os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in (tmp_path, other))
        with pytest.raises(OSError, match="cross-device"):
            os.rename("a", "b", src_dir_fd=here, dst_dir_fd=there)
        with pytest.raises(OSError, match="cross-device"):
            moving.rename_new(here, "a", there, "b")
        os.close(here)
        os.close(there)
    finally:
        shutil.rmtree(other)


def test_what_is_missing_is_named(workspace):
    (workspace / "a").write_text("x")
    assert call(workspace, "move", path="none", to="b").detail == "none: no such file or directory"
    assert call(workspace, "move", path="a", to="no/b").detail == "a cannot be moved to no/b: no such file or directory"
    (workspace / "f").write_text("x")
    assert call(workspace, "move", path="a", to="f/b").detail == "a cannot be moved to f/b: not a directory"


def test_a_long_name_is_told(workspace):
    (workspace / "a").write_text("x")
    assert call(workspace, "move", path="a", to="b" * 256).detail.endswith("file name too long")


@pytest.mark.slow
def test_whoever_looks_sees_it_at_one_place_exactly(workspace):
    """Many moves there and back, and a reader that never sees none or both."""
    (workspace / "a").write_text("x")
    stop, wrong = threading.Event(), []

    def look() -> None:
        while not stop.is_set():
            names = os.listdir(workspace)
            if len(names) > 1:
                wrong.append(names)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for path, to in (("a", "b"), ("b", "a")) * 100:
            assert call(workspace, "move", path=path, to=to).error is None
    finally:
        stop.set()
        thread.join()
    assert wrong == []


# --- delete ----------------------------------------------------------------------------------------------------------


def test_files_links_pipes_and_empty_directories_go(workspace):
    (workspace / "f").write_text("x")
    (workspace / "d").mkdir()
    (workspace / "link").symlink_to(workspace.parent / "outside")
    (workspace / "dangling").symlink_to("nowhere")
    os.mkfifo(workspace / "pipe")
    for path in ("f", "d", "link", "dangling", "pipe"):
        assert call(workspace, "delete", path=path).error is None, path
    assert os.listdir(workspace) == []
    assert (workspace.parent / "outside/kept").read_text() == "secret"


def test_a_tree_goes_only_with_a_word_and_links_in_it_go_themselves(workspace):
    (workspace / "d/e").mkdir(parents=True)
    (workspace / "d/e/f").write_text("x")
    (workspace / "d/link").symlink_to(workspace.parent / "outside")
    before = tree(workspace)
    result = call(workspace, "delete", path="d")
    assert result.detail == "d: the directory is not empty; `recursive` would delete what is in it"
    assert tree(workspace) == before
    assert call(workspace, "delete", path="d", recursive=True).error is None
    assert os.listdir(workspace) == []
    assert (workspace.parent / "outside/kept").read_text() == "secret"


def test_recursive_takes_a_link_and_not_what_it_leads_to(workspace):
    (workspace / "link").symlink_to(workspace.parent / "outside")
    assert call(workspace, "delete", path="link", recursive=True).error is None
    assert tree(workspace.parent / "outside") == {"kept": "secret"}


@pytest.mark.parametrize(
    "path", [".", "", "..", "../outside", "/", ".git", ".GIT", "sub/.git", ".ordain", "a\0b", "link/kept"]
)
def test_what_may_not_go_stays(workspace, path):
    for name in (".git", "sub/.git", ".ordain"):
        (workspace / name).mkdir(parents=True)
    (workspace / "link").symlink_to(workspace.parent / "outside")
    before = tree(workspace.parent)
    assert call(workspace, "delete", path=path, recursive=True).error == "F_PATH_ESCAPE"
    assert tree(workspace.parent) == before


@pytest.mark.parametrize("name", [".git", ".GIT"])
def test_a_tree_with_a_repository_in_it_stays_whole(workspace, name):
    (workspace / "vendor/lib").mkdir(parents=True)
    (workspace / "vendor/lib" / name).write_text("gitdir: x")
    (workspace / "vendor/first").write_text("x")
    before = tree(workspace)
    result = call(workspace, "delete", path="vendor", recursive=True)
    assert result.error == "F_STEP_FAILED"
    assert result.detail == f"vendor: it holds `vendor/lib/{name}`, which is off limits; nothing was deleted"
    assert tree(workspace) == before


def test_a_bottomless_tree_stays_whole(workspace):
    held = os.open(workspace, os.O_RDONLY)
    for _ in range(moving.DEPTH_MAX + 50):
        os.mkdir("d", dir_fd=held)
        inner = os.open("d", os.O_RDONLY, dir_fd=held)
        os.close(held)
        held = inner
    os.close(held)
    result = call(workspace, "delete", path="d", recursive=True)
    assert result.detail == "d: it has more than 200 directories in one another; nothing was deleted"
    assert os.listdir(workspace) == ["d"]


def test_a_name_that_is_not_utf_8_is_told_so_that_it_can_be_stored(workspace):
    folder = os.fsencode(workspace) + b"/d/caf\xe9"
    os.makedirs(folder + b"/.git")
    result = call(workspace, "delete", path="d", recursive=True)
    assert result.detail == "d: it holds `d/caf\\xe9/.git`, which is off limits; nothing was deleted"
    result.detail.encode()


def test_what_a_killed_delete_left_is_finished_by_the_next(workspace):
    """Killed for real while it takes a tree away: at its path it is gone, beside it is a rest that counts as it."""
    for number in range(50):
        (workspace / f"d/{number}").mkdir(parents=True)
        (workspace / f"d/{number}/f").write_text("x")
    before = operand(workspace, "delete", path="d", recursive=True)
    code = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from ordain.adapters.tools.file import FileTools\n"
        "unlink, count = os.unlink, 0\n"
        "def dying(*args, **more):\n"
        "    global count\n"
        "    count += 1\n"
        "    if count == 20: os.kill(os.getpid(), 9)\n"
        "    unlink(*args, **more)\n"
        "os.unlink = dying\n"
        "asyncio.run(FileTools(Path(sys.argv[1])).call('delete', {'path': 'd', 'recursive': True}, 'k'))\n"
    )
    died = subprocess.run([sys.executable, "-c", code, str(workspace)], check=False)
    assert died.returncode == -9
    assert os.listdir(workspace) == [".ordain-deleted-d"]
    assert 1 < len(os.listdir(workspace / ".ordain-deleted-d")) < 50
    assert operand(workspace, "delete", path="d", recursive=True) == before
    assert operand(workspace, "delete", path="d") == "absent"
    assert call(workspace, "delete", path="d", recursive=True).error is None
    assert os.listdir(workspace) == []
    assert operand(workspace, "delete", path="d", recursive=True) == "absent"


def test_a_rest_goes_also_when_somebody_made_the_directory_anew(workspace):
    for name in ("d", ".ordain-deleted-d"):
        (workspace / name / "sub").mkdir(parents=True)
    assert call(workspace, "delete", path="d", recursive=True).error is None
    assert os.listdir(workspace) == []


def test_a_failure_half_way_says_where_the_rest_is(workspace, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    (workspace / "d/e").mkdir(parents=True)
    monkeypatch.setattr(shutil, "rmtree", refuse)
    result = call(workspace, "delete", path="d", recursive=True)
    assert result.detail == "d: permission denied; what is left of it is beside it, as .ordain-deleted-d"
    assert tree(workspace) == {".ordain-deleted-d": None, ".ordain-deleted-d/e": None}


def test_a_directory_that_cannot_be_read_stays_whole(workspace, monkeypatch):
    (workspace / "d/e").mkdir(parents=True)
    (workspace / "d/f").write_text("x")
    before, real = tree(workspace), os.open

    def refuse(name, *args, **more):
        if name == "e":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(name, *args, **more)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        result = call(workspace, "delete", path="d", recursive=True)
    assert (result.error, result.detail) == ("F_STEP_FAILED", "d: permission denied")
    assert tree(workspace) == before


@pytest.mark.parametrize("name", ["d", "漢" * 80, "x" * 255])
def test_every_name_has_a_name_aside(workspace, name):
    (workspace / name / "sub").mkdir(parents=True)
    assert len(os.fsencode(moving.aside(name))) <= 255
    assert call(workspace, "delete", path=name, recursive=True).error is None
    assert os.listdir(workspace) == []


@given(st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1))
def test_names_aside_are_each_its_own_and_clearly_ours(name):
    assert moving.aside(name).startswith(".ordain-deleted-")
    assert moving.aside(name) != moving.aside(name + "x")


@pytest.mark.slow
def test_links_swapped_in_lead_nobody_out(workspace):
    """A hostile process flips a directory into a link and back while trees are deleted and moved through it."""
    outside = workspace.parent / "target"
    (outside / "t").mkdir(parents=True)
    (outside / "t/precious").write_text("x")
    stop = threading.Event()

    def flip() -> None:
        while not stop.is_set():
            for act in (
                lambda: (workspace / "d/t").mkdir(parents=True),
                lambda: (workspace / "d/t/f").write_text("x"),
                lambda: os.rename(workspace / "d", workspace / "x"),
                lambda: os.symlink(outside, workspace / "d"),
                lambda: os.unlink(workspace / "d"),
                lambda: os.rename(workspace / "x", workspace / "d"),
                lambda: os.rename(workspace / "d/t", workspace / "y"),
                lambda: os.symlink(outside / "t", workspace / "d/t"),
                lambda: os.unlink(workspace / "d/t"),
                lambda: shutil.rmtree(workspace / "y"),
            ):
                with contextlib.suppress(OSError):
                    act()

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        for number in range(150):
            call(workspace, "delete", path="d/t", recursive=True)
            call(workspace, "move", path="d/t", to=f"m{number}")
    finally:
        stop.set()
        thread.join()
    assert tree(outside) == {"t": None, "t/precious": "x"}


def test_a_file_that_was_written_since_is_another_one_whatever_its_number(tmp_path):
    (tmp_path / "a").write_text("old")
    parent = os.open(tmp_path, os.O_RDONLY)
    try:
        before = moving.entry_identity(parent, "a")
        (tmp_path / "a").write_text("newer")  # the same inode, as a file that was deleted and made again may have
        assert moving.entry_identity(parent, "a") != before
    finally:
        os.close(parent)
