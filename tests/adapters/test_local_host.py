"""The user's own configuration: what it can say, where it lies, when it is refused. Nothing of it is passed over."""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.words import (
    Problem,
    Refused,
    UserSettings,
    program_path,
    read_settings,
    read_user_settings,
    user_key_names,
    user_settings,
)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "config/ordain").mkdir(parents=True)
    (tmp_path / "ws").mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config/ordain/config.toml"


def read(file: Path) -> UserSettings:
    return user_settings(os.environ, file.parents[2] / "ws")


def refusal(file: Path) -> Problem:
    with pytest.raises(Refused) as caught:
        read(file)
    assert {problem.code for problem in caught.value.problems} == {"E_CONFIG_USER"}
    return caught.value.problems[0]


def test_without_a_file_the_defaults_hold(file: Path) -> None:
    assert read(file) == UserSettings()


def test_what_it_says_is_read(file: Path) -> None:
    file.write_text('[programs]\nbash = "/bin/bash"\n[audit]\nrobot_backup_outputs = true\n')
    assert read(file) == UserSettings(programs={"bash": "/bin/bash"}, file=str(file)), "a robot chooses variables"


def test_the_default_place_is_in_the_home(file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".config/ordain").mkdir(parents=True)
    (tmp_path / ".config/ordain/config.toml").write_text("[audit]\nrobot_backup_outputs = true\n")
    assert not read(file).robot_backup_outputs, "who asks chooses HOME"
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_dir=str(tmp_path)))
    assert read(file).robot_backup_outputs


def test_everything_wrong_with_it_is_told_at_once() -> None:
    data = b"""# mine
colour = true
[programs]
bash = "bash"
git = ["/usr/bin/git"]
bwarp = "/usr/bin/bwrap"
[audit]
robot_backup_outputs = "yes"
[policy]
allow = ["shell"]
"""
    found = read_user_settings(data, "/home/kim/config.toml")
    assert isinstance(found, list) and len(found) == 6
    told = "\n".join(problem.detail for problem in found)
    assert all(problem.where and problem.where.file == "/home/kim/config.toml" for problem in found)
    assert "unknown section or key `colour`" in told and "unknown key programs.bwarp" in told
    assert "programs.bash must be an absolute path" in told and "programs.git must be an absolute path" in told
    assert "audit.robot_backup_outputs must be true or false" in told
    assert "`policy`, which counts from a workspace only" in told
    assert ("Did you mean `bwrap`?",) in [problem.hints for problem in found]
    assert {problem.code for problem in found} == {"E_CONFIG_USER"}


@pytest.mark.parametrize("data", [b"\xff", b"a = ", b"programs = 1", b"a" + b".a" * 3_000 + b" = 1"])
def test_what_cannot_be_read_is_a_problem(data: bytes) -> None:
    assert isinstance(read_user_settings(data, "config.toml"), list)


@pytest.mark.parametrize("name", user_key_names())
def test_its_keys_do_not_count_from_a_workspace(name: str) -> None:
    section, _, key = name.partition(".")
    settings, problems = read_settings(f"[{section}]\n{key} = true\n".encode())
    (problem,) = problems
    assert problem.code == "E_CONFIG" and "counts from your own configuration only" in problem.detail
    assert settings == type(settings)()


def test_a_file_that_others_could_have_written_is_refused(file: Path) -> None:
    file.write_text("")
    for mode in (0o664, 0o646, 0o666):
        file.chmod(mode)
        problem = refusal(file)
        assert "can be written by others" in problem.detail and problem.command == f"chmod go-w {file}"
    file.chmod(0o600)
    assert read(file).file == str(file)
    file.parent.chmod(0o777)
    assert "where anybody can write" in refusal(file).detail


def test_a_file_of_somebody_else_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("")
    if os.geteuid() == 0:
        os.chown(file, 1234, 1234)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 1234)
    assert "belongs to another user" in refusal(file).detail


def test_a_file_in_the_workspace_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = file.parents[2] / "ws/ordain/config.toml"
    planted.parent.mkdir()
    planted.write_text("")
    file.symlink_to(planted)
    assert "lies in the workspace" in refusal(file).detail
    monkeypatch.setenv("XDG_CONFIG_HOME", str(planted.parents[1]))
    assert "lies in the workspace" in refusal(file).detail


def test_what_is_no_file_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.mkdir()
    assert "cannot be read" in refusal(file).detail
    file.rmdir()
    file.symlink_to("nowhere")
    assert "cannot be read" in refusal(file).detail
    monkeypatch.setenv("XDG_CONFIG_HOME", "config")
    assert "is not an absolute path" in refusal(file).detail


# --- Programs --------------------------------------------------------------------------------------------------------


def test_programs_are_never_found_through_the_path(file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("bash", "bwrap", "git"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    before = [program_path(name) for name in ("bash", "bwrap", "git")]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [program_path(name) for name in ("bash", "bwrap", "git")] == before
    assert before[0] in ("/usr/bin/bash", "/bin/bash", "/run/current-system/sw/bin/bash", "/usr/local/bin/bash")


def test_the_user_can_say_where_a_program_is(file: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    shutil.copy("/bin/sh", mine)
    file.write_text(f'[programs]\ngit = "{mine}"\n')
    assert program_path("git", tmp_path / "ws") == str(mine)
    faults = {
        "can be written by others": lambda: mine.chmod(0o777),
        "is not a program": lambda: mine.chmod(0o644),
        "is not there": mine.unlink,
        "lies in the workspace": lambda: mine.symlink_to(tmp_path / "ws/git"),
    }
    for fault, spoil in faults.items():
        spoil()
        with pytest.raises(Refused, match=fault):
            program_path("git", tmp_path / "ws")
