"""A probe that can look at everything and change nothing, in a real sandbox."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path

import pytest

from ordain.adapters.read_only import ReadOnlyProbe
from ordain.ports import Command, Finished
from tests.programs import need


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    need("bwrap")
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "there.txt").write_text("here\n")
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "ledger.db").write_text("secret\n")
    return tmp_path / "ws"


def look(workspace: Path, text: str, *, timeout_ms: int = 10_000) -> Finished:
    env = {"PATH": "/usr/bin:/bin"}
    probe = ReadOnlyProbe(workspace, workspace.parent / "state")
    return asyncio.run(probe.look(Command(text=text, env=env, timeout_ms=timeout_ms, mark="x")))


def test_it_sees_the_workspace(workspace: Path) -> None:
    seen = look(workspace, "grep here there.txt && pwd -P")
    assert (seen.exit_code, seen.output.decode()) == (0, f"here\n{workspace}\n")


@pytest.mark.parametrize(
    "text",
    [
        "echo x > there.txt",
        "rm there.txt",
        "touch new",
        "mkdir sub",
        "mv there.txt other.txt",
        "chmod 777 there.txt",
        "mount -o remount,rw / && touch new",
        "mount -o remount,rw,bind / && touch /etc/ordain-was-here",
        'mount -o remount,rw,bind "$PWD" && touch new',
        "unshare -Urm bash -c 'mount -o remount,rw,bind / && touch /etc/ordain-was-here'",
        "umount /tmp && touch /tmp/ordain-was-here",
        "touch /etc/ordain-was-here",
        "exec 3<>there.txt && echo x >&3",
        # The same value again: where it can be written, nothing comes of it.
        "panic=/proc/sys/kernel/panic; echo $(cat $panic) > $panic",
        'test -n "$(ls /sys)"',
    ],
)
def test_it_can_change_nothing(workspace: Path, text: str) -> None:
    before = {path: path.stat().st_mtime_ns for path in (workspace, workspace / "there.txt")}
    seen = look(workspace, text)
    assert seen.exit_code not in (0, None)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert sorted(path.name for path in workspace.iterdir()) == ["there.txt"]
    assert not Path("/etc/ordain-was-here").exists()
    assert not Path("/tmp/ordain-was-here").exists()


def test_what_it_writes_to_the_temporary_directory_is_gone_with_it(workspace: Path) -> None:
    assert look(workspace, "echo x > /tmp/ordain-was-here && cat /tmp/ordain-was-here").output == b"x\n"
    assert not Path("/tmp/ordain-was-here").exists()


def test_it_reaches_no_network(workspace: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.5)
        port = server.getsockname()[1]
        assert look(workspace, f"exec 3<>/dev/tcp/127.0.0.1/{port}").exit_code != 0
        with pytest.raises(TimeoutError):
            server.accept()


def test_it_reaches_no_socket_in_the_file_system(workspace: Path) -> None:
    path = str(workspace / "socket")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        server.settimeout(0.5)
        ask = "import socket; socket.socket(socket.AF_UNIX).connect('socket')"
        python = os.path.realpath(sys.executable)  # the environment itself may lie in /tmp, which is empty in there
        seen = look(workspace, f'{python} -I -c "{ask}"')
        assert (seen.exit_code, b"PermissionError" in seen.output) == (1, True)
        with pytest.raises(TimeoutError):
            server.accept()


def test_it_does_not_see_the_state_directory_or_other_processes(workspace: Path) -> None:
    assert look(workspace, f"ls {workspace.parent / 'state'} | grep -c ledger").exit_code != 0
    hidden = workspace.parent / "state"
    assert look(workspace, f"umount {hidden} && ls {hidden}").exit_code != 0
    assert look(workspace, "grep -q 'CapEff:.*0000000000000000' /proc/self/status").exit_code == 0
    seen = look(workspace, "ls /proc | grep -cE '^[0-9]+$'")
    assert int(seen.output) < 10


def test_it_ends_with_its_time(workspace: Path) -> None:
    seen = look(workspace, "sleep 60 & sleep 60", timeout_ms=300)
    assert seen.timed_out


def test_without_bubblewrap_nothing_is_run(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(workspace))
    seen = look(workspace, "touch new")
    assert seen.fault is not None and "bubblewrap" in seen.fault
    assert not (workspace / "new").exists()


def test_a_sandbox_that_cannot_be_made_is_a_fault(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = workspace.parent / "bwrap"
    failing.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    failing.chmod(0o755)
    monkeypatch.setenv("PATH", str(failing.parent))
    seen = look(workspace, "true")
    assert seen.fault == "bwrap: No permissions to create new namespace"


def test_several_looks_at_once_do_not_disturb_each_other(workspace: Path) -> None:
    probe = ReadOnlyProbe(workspace)
    env = {"PATH": "/usr/bin:/bin"}

    async def all_at_once() -> list[int | None]:
        commands = [Command(text=f"exit {number}", env=env, timeout_ms=10_000, mark="") for number in range(12)]
        return [seen.exit_code for seen in await asyncio.gather(*map(probe.look, commands))]

    for _ in range(3):
        assert asyncio.run(all_at_once()) == list(range(12))
