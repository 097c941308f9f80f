"""What git knows of a workspace, asked without anything of the workspace being run; and names where there is no git."""

import asyncio
import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.words import DirectoryOutlines, DirectoryWorkspace, Redactor, list_files

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(place: Path, *words: str) -> None:
    given = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}
    who = ("-c", "user.name=Kim", "-c", "user.email=kim@example.com", "-c", "commit.gpgSign=false")
    subprocess.run(["git", *who, *words], cwd=place, env=given, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    place = tmp_path / "ws"
    (place / "src").mkdir(parents=True)
    git(place, "init", "-q", "-b", "trunk")
    (place / "src/main.py").write_text("print()\n")
    (place / "old.txt").write_text("old\n")
    (place / ".gitignore").write_text("*.log\n")
    git(place, "add", ".")
    git(place, "commit", "-q", "-m", "Begin")
    return place


@needs_git
def test_git_tells_files_branch_changes_and_subjects(repository):
    (repository / "src/main.py").write_text("print(1)\n")
    (repository / "new.txt").write_text("new\n")
    (repository / "noise.log").write_text("noise\n")
    (repository / ".env").write_text("KEY=abcdefgh\n")
    (repository / "old.txt").unlink()
    listing = list_files(repository)
    assert (listing.paths, listing.whole) == ((".gitignore", "new.txt", "src/main.py"), True)
    assert listing.git is not None
    assert (listing.git.branch, listing.git.subjects) == ("trunk", ("Begin",))
    assert set(listing.git.changed) == {("M", "src/main.py"), ("D", "old.txt"), ("??", "new.txt")}
    assert list_files(repository / "src").paths == ("main.py",)


@needs_git
def test_a_repository_without_a_commit_has_files_and_no_subjects(tmp_path):
    git(tmp_path, "init", "-q", "-b", "trunk")
    (tmp_path / "a.txt").write_text("a")
    listing = list_files(tmp_path)
    assert listing.paths == ("a.txt",)
    assert listing.git is not None
    assert (listing.git.commit, listing.git.subjects) == ("", ())


@needs_git
def test_nothing_that_a_repository_configures_is_started(repository, tmp_path):
    mark = tmp_path / "started"
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {mark}\ncat\n')
    program.chmod(0o755)
    hooks = repository / ".git/hooks"
    for name in ("post-index-change", "reference-transaction", "query-watchman"):
        shutil.copy(program, hooks / name)
    (repository / ".git/config").write_text(
        f"""
[core]
    repositoryFormatVersion = 1
    fsmonitor = {program}
    hooksPath = {hooks}
    pager = {program}
    sshCommand = {program}
    worktree = {tmp_path}
[filter "evil"]
    clean = {program}
    smudge = {program}
    process = {program}
    required = true
[diff]
    external = {program}
[log]
    showSignature = true
[gpg]
    program = {program}
[remote "origin"]
    url = ext::{program}
    promisor = true
    uploadpack = {program}
[extensions]
    partialClone = origin
"""
    )
    (repository / ".gitattributes").write_text("* filter=evil diff=evil\n")
    main = repository / "src/main.py"
    # The same size, and no earlier than the index was written: git must look into the file.
    main.write_text("tnirp()\n")
    os.utime(main, (main.stat().st_atime, (repository / ".git/index").stat().st_mtime))
    objects = next(path for path in (repository / ".git/objects").iterdir() if len(path.name) == 2)
    before = {path: path.stat().st_mtime_ns for path in (repository / ".git").rglob("*")}
    listing = list_files(repository)
    assert listing.git is not None
    assert ("M", "src/main.py") in listing.git.changed
    assert ".gitattributes" in listing.paths
    assert before == {path: path.stat().st_mtime_ns for path in (repository / ".git").rglob("*")}
    shutil.rmtree(objects)  # what a partial clone would fetch
    assert "src/main.py" in list_files(repository).paths
    assert not mark.exists()
    with contextlib.suppress(subprocess.CalledProcessError):
        git(repository, "--work-tree=.", "ls-files", "-m")
    assert mark.exists(), "git itself starts none of this, so the test shows nothing"


@needs_git
def test_a_git_directory_of_somewhere_else_is_not_asked(repository, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("mine")
    (other / ".git").write_text(f"gitdir: {repository}/.git\n")
    assert list_files(other).git is None
    assert list_files(other).paths == ("mine.txt",)
    (other / ".git").unlink()
    (other / ".git").symlink_to(repository / ".git")
    assert list_files(other).git is None
    linked = tmp_path / "linked"
    git(repository, "worktree", "add", "-q", "-b", "side", str(linked))
    (other / ".git").unlink()
    shutil.copy(linked / ".git", other / ".git")
    assert list_files(other).git is None
    found = list_files(linked)
    assert found.git is not None
    assert (found.git.branch, found.paths) == ("side", (".gitignore", "old.txt", "src/main.py"))


@needs_git
def test_names_of_any_bytes_are_told_and_broken_repositories_are_walked(repository):
    (repository / "two\nlines").write_text("")
    (repository / "\x1b[31mred").write_text("")
    (repository / os.fsdecode(b"\xff")).write_text("")
    names = list_files(repository).paths
    assert {"two\nlines", "\x1b[31mred", "\\xff"} <= set(names)
    index = repository / ".git/index"
    index.unlink()
    os.mkfifo(index)
    walked = list_files(repository)
    assert walked.git is None
    assert walked.paths == names
    (repository / ".git/HEAD").write_bytes(b"\0nonsense")
    assert list_files(repository).paths == names


def test_without_git_names_are_walked_and_no_link_is_followed(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.txt").write_text("")
    place = tmp_path / "ws"
    for name in ("a/b", "node_modules/x", ".venv/lib"):
        (place / name).mkdir(parents=True)
        (place / name / "f.txt").write_text("")
    (place / "way").symlink_to(tmp_path / "outside")
    (place / "id_rsa").write_text("")
    os.mkfifo(place / "pipe")
    assert list_files(place).paths == ("a/b/f.txt",)


def test_no_more_is_looked_at_than_anybody_waits_for(tmp_path):
    for number in range(8):
        (tmp_path / f"{number}").write_text("")
    listing = list_files(tmp_path, 5)
    assert (len(listing.paths), listing.whole) == (5, False)


def outline(place: Path, redactor: Redactor, *secret_files: str) -> dict[str, str]:
    found = asyncio.run(DirectoryOutlines(place, DirectoryWorkspace(place)).outline("x", redactor, secret_files))
    return {block.name: block.text for block in found}


def test_only_plain_files_that_hold_no_secrets_are_read(tmp_path):
    (tmp_path / "outside.md").write_text("outside words")
    place = tmp_path / "ws"
    place.mkdir()
    (place / "AGENTS.md").symlink_to(tmp_path / "outside.md")
    os.mkfifo(place / "CLAUDE.md")
    (place / "GEMINI.md").write_bytes(b"\0\1\2" * 100)
    (place / "README.md").write_text("kept words")
    with (place / "Makefile").open("wb") as file:
        file.truncate(1 << 40)
    shown = outline(place, Redactor({}))
    assert shown["README.md"] == "kept words"
    assert not {"AGENTS.md", "CLAUDE.md", "GEMINI.md"} & shown.keys()
    assert "README.md" not in outline(place, Redactor({}), str(place / "README.md"))


def test_secrets_are_taken_out_of_heads_before_they_are_cut(tmp_path):
    secret = "hunter2-hunter2-hunter2"
    for at in range(5_960, 6_001, 10):
        (tmp_path / "AGENTS.md").write_text("a" * at + " " + secret + " b" * 5_000)
        assert secret[:8] not in outline(tmp_path, Redactor({"KEY": secret}))["AGENTS.md"]
