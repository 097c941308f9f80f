"""The contract of ports.StepLogs, for files in the workspace and the in-memory twin; and what files promise besides."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.programs import need
from tests.twins.workspace import MemoryStepLogs
from tests.words import StepLogs, WorkspaceStepLogs

RUN = "RUN-AAAA"


@pytest.fixture(params=["files", "memory"])
def logs(request: pytest.FixtureRequest, tmp_path: Path) -> StepLogs:
    return WorkspaceStepLogs(tmp_path) if request.param == "files" else MemoryStepLogs()


def test_lines_are_written_where_they_should_stand_and_read_from_there(logs: StepLogs) -> None:
    assert logs.read(RUN, 0) == (b"", 0)
    assert logs.write(RUN, 0, b"one\n")
    assert logs.write(RUN, 4, b"two\n")
    assert logs.read(RUN, 0) == (b"one\ntwo\n", 8)
    assert logs.read(RUN, 4) == (b"two\n", 8)
    assert logs.read(RUN, -3) == (b"wo\n", 8)
    assert logs.read(RUN, -100) == (b"one\ntwo\n", 8)
    assert logs.read(RUN, 100) == (b"", 8)
    assert logs.read("RUN-BBBB", 0) == (b"", 0)


def test_what_stood_after_that_place_is_gone_and_nothing_is_left_open_before_it(logs: StepLogs) -> None:
    assert logs.write(RUN, 0, b"one\ntwo\nhal")
    assert logs.write(RUN, 4, b"2\n")
    assert logs.read(RUN, 0) == (b"one\n2\n", 6)
    assert not logs.write(RUN, 7, b"three\n")
    assert logs.read(RUN, 0) == (b"one\n2\n", 6)


# --- Files -----------------------------------------------------------------------------------------------------------


def file_of(workspace: Path) -> Path:
    return workspace / ".ordain/runs" / f"{RUN}.jsonl"


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    assert WorkspaceStepLogs(tmp_path).write(RUN, 0, b"one\n")
    assert stat.S_IMODE(file_of(tmp_path).stat().st_mode) == 0o600


def test_git_does_not_see_it(tmp_path: Path) -> None:
    git = [need("git"), "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    WorkspaceStepLogs(tmp_path).write(RUN, 0, b"one\n")
    done = subprocess.run([*git, "status", "--porcelain"], check=True, capture_output=True)
    assert done.stdout == b""


@pytest.mark.parametrize("name", [".ordain", ".ordain/runs", f".ordain/runs/{RUN}.jsonl"])
def test_no_link_is_followed(tmp_path: Path, name: str) -> None:
    workspace, outside = tmp_path / "workspace", tmp_path / "outside"
    (outside / "runs").mkdir(parents=True)
    (outside / "runs" / f"{RUN}.jsonl").write_bytes(b"precious\n")
    target = {".ordain": outside, ".ordain/runs": outside / "runs"}.get(name, outside / "runs" / f"{RUN}.jsonl")
    link = workspace / name
    link.parent.mkdir(parents=True)
    link.symlink_to(target)
    logs = WorkspaceStepLogs(workspace)
    assert not logs.write(RUN, 0, b"one\n")
    assert logs.read(RUN, 0) == (b"", 0)
    assert sorted(path.name for path in (outside / "runs").iterdir()) == [f"{RUN}.jsonl"]
    assert (outside / "runs" / f"{RUN}.jsonl").read_bytes() == b"precious\n"


def test_a_second_name_of_another_file_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"precious\n")
    file_of(tmp_path).parent.mkdir(parents=True)
    os.link(tmp_path / "precious", file_of(tmp_path))
    assert not WorkspaceStepLogs(tmp_path).write(RUN, 0, b"one\n")
    assert (tmp_path / "precious").read_bytes() == b"precious\n"


def test_a_pipe_in_its_place_holds_nobody_up(tmp_path: Path) -> None:
    file_of(tmp_path).parent.mkdir(parents=True)
    os.mkfifo(file_of(tmp_path))
    logs = WorkspaceStepLogs(tmp_path)
    assert (logs.write(RUN, 0, b"one\n"), logs.read(RUN, 0)) == (False, (b"", 0))


def test_where_the_disk_is_nearly_full_the_ledger_keeps_the_room(tmp_path: Path) -> None:
    assert not WorkspaceStepLogs(tmp_path, room_bytes=1 << 60).write(RUN, 0, b"one\n")
    assert WorkspaceStepLogs(tmp_path).write(RUN, 0, b"one\n")


def test_where_nothing_can_be_written_nothing_happens(tmp_path: Path) -> None:
    assert not WorkspaceStepLogs(tmp_path / "gone").write(RUN, 0, b"one\n")
