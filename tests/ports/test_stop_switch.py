"""The contract of ports.StopSwitch, for files and its in-memory twin; and that whatever is wrong with a file stops."""

import os
from pathlib import Path

import pytest

from tests.twins.workspace import MemoryStopSwitch
from tests.words import StopFiles, StopOrder, end_executors, read_stops, shelf_path, stopped_problem

HERE, ALL = StopOrder(by="kim", reason="odd"), StopOrder(by="ana", everywhere=True)


@pytest.fixture(params=["files", "memory"])
def switch(request, tmp_path, monkeypatch):
    monkeypatch.setenv("ORDAIN_HOME", str(tmp_path / "state"))
    (tmp_path / "ws").mkdir()
    return StopFiles(tmp_path / "ws", "boot", end_executors) if request.param == "files" else MemoryStopSwitch()


def test_it_is_off_until_somebody_turns_it_on_and_the_first_is_told(switch):
    assert switch.read() == ()
    switch.turn_on(HERE)
    switch.turn_on(StopOrder(by="pat"))
    assert switch.read() == (HERE,)
    switch.turn_on(ALL)
    assert switch.read() == (ALL, HERE)
    switch.turn_off(ALL)
    assert switch.read() == (HERE,)
    switch.turn_off(HERE)
    assert switch.read() == ()
    assert switch.end_runs(everywhere=True) == ((), ())


@pytest.mark.parametrize("kind", ["empty", "noise", "deep", "directory", "dangling link", "pipe"])
def test_a_file_that_cannot_be_read_stops_too(tmp_path: Path, kind: str) -> None:
    state = tmp_path / "state"
    shelf = shelf_path(state, tmp_path)
    shelf.mkdir(parents=True)
    env = {"ORDAIN_HOME": str(state)}
    assert read_stops(env, tmp_path) == ()
    for place, everywhere in ((shelf, False), (state, True)):
        path = place / "stopped"
        match kind:
            case "empty":
                path.touch()
            case "noise":
                path.write_bytes(b"\xff{")
            case "deep":
                path.write_bytes(b'{"by": "kim", "x": ' + b"[" * 16_000)
            case "directory":
                path.mkdir()
            case "dangling link":
                path.symlink_to("nowhere")
            case _:
                os.mkfifo(path)
        assert StopOrder(everywhere=everywhere) in read_stops(env, tmp_path)


def test_a_file_is_closed_whatever_goes_wrong_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_from: list[int] = []

    def read(descriptor: int, _: int) -> bytes:
        read_from.append(descriptor)
        raise MemoryError

    (tmp_path / "state").mkdir()
    (tmp_path / "state/stopped").touch()
    monkeypatch.setattr(os, "read", read)
    with pytest.raises(MemoryError):
        read_stops({"ORDAIN_HOME": str(tmp_path / "state")}, tmp_path)
    for descriptor in read_from:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
    assert read_from


def test_a_place_that_cannot_be_looked_at_is_named_and_nothing_starts(tmp_path):
    """Whether work is stopped is not known then: that is what the refusal says, and not that somebody stopped it."""
    (tmp_path / "state").write_text("a file where a directory should be")
    (stop, _) = read_stops({"ORDAIN_HOME": str(tmp_path / "state")}, tmp_path)
    problem = stopped_problem(stop)
    assert problem.code == "E_STATE_DIR"
    assert str(tmp_path / "state" / "stopped") in problem.detail
