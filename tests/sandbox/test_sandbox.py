"""The sandbox of trust tier 1 as steps use it: what is in it, what is held, and that it ends with them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import ordain
from ordain.adapters.process import program as system_places
from tests.patience import eventually, eventually_in_loop
from tests.programs import need, set_programs
from tests.words import (
    BashShell,
    BubblewrapSandbox,
    Command,
    DirectoryWorkspace,
    Finished,
    Refused,
    SandboxedShell,
    SandboxLimits,
    children_of_us,
    find_workspace,
    our_python,
)

pytestmark = pytest.mark.slow("commands in sandboxes, by bubblewrap")

PATH = "/usr/local/bin:/usr/bin:/bin"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    need("bwrap")
    monkeypatch.setenv("PATH", PATH)
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


def shell_of(workspace: Path, **limits: object) -> SandboxedShell:
    return BubblewrapSandbox(workspace).shell(SandboxLimits(**limits))  # type: ignore[arg-type]


def command(text: str, **fields: object) -> Command:
    return Command(**{"text": text, "env": {"PATH": PATH}, "timeout_ms": 20_000, "mark": "m/1", **fields})  # type: ignore[arg-type]


def run(workspace: Path, text: str, **fields: object) -> Finished:
    return asyncio.run(shell_of(workspace).run(command(text, **fields)))


def command_lines() -> list[bytes]:
    """Of every process there is."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(path.read_bytes())
    return found


def test_it_works_in_the_workspace_as_it_would_outside(workspace: Path) -> None:
    seen = run(workspace, "pwd -P; cat; echo done > made; exit 3", stdin=b"handed in\n")
    assert (seen.exit_code, seen.output.decode(), seen.leftovers) == (3, f"{workspace}\nhanded in\n", 0)
    assert (workspace / "made").read_text() == "done\n"


def test_a_program_without_a_shell(workspace: Path) -> None:
    assert run(workspace, "", argv=("printf", "%s|", "a b", "$x")).output == b"a b|$x|"
    assert run(workspace, "", argv=("no-such-program",)).exit_code == 127


def test_variables_are_handed_over_and_nobody_can_read_them_from_a_command_line(workspace: Path) -> None:
    shell = shell_of(workspace)

    async def look() -> tuple[Finished, list[bytes]]:
        under_way = asyncio.create_task(
            shell.run(command("touch begun; sleep 0.3; echo $TOKEN", env={"PATH": PATH, "TOKEN": "se cret"}))
        )
        await eventually_in_loop(lambda: (workspace / "begun").exists(), "`begun`")
        lines = command_lines()
        return await under_way, lines

    finished, lines = asyncio.run(look())
    assert finished.output == b"se cret\n"
    assert not any(b"se cret" in line for line in lines)


def test_the_home_directory_is_private_and_empty(workspace: Path) -> None:
    env = shell_of(workspace).environment(["HOME", "PATH", "TMPDIR"])
    seen = run(workspace, 'ls -A "$HOME" && echo x > ~/x && cat ~/x', env=env)
    assert (seen.exit_code, seen.output) == (0, b"x\n")
    assert env["HOME"] != os.environ["HOME"] and not Path(env["HOME"], "x").exists()


def test_what_it_uses_can_be_reported(workspace: Path) -> None:
    assert run(workspace, "echo '{\"tokens\": 3}' > $ORDAIN_USAGE", reports=True).reported == b'{"tokens": 3}\n'


def test_what_the_configuration_adds_can_be_read_and_not_written(workspace: Path) -> None:
    more = workspace.parent / "more"
    more.mkdir()
    (more / "file").write_text("more\n")
    text = f"cat {more}/file; echo x > {more}/file"
    assert b"more\n" not in run(workspace, text).output
    seen = asyncio.run(shell_of(workspace, read=(str(more),)).run(command(text)))
    assert seen.output.startswith(b"more\n") and (more / "file").read_text() == "more\n"


def test_the_network_is_there_only_where_it_is_given(workspace: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        text = f"echo x > /dev/tcp/127.0.0.1/{server.getsockname()[1]}"
        assert run(workspace, text).exit_code == 1
        assert run(workspace, text, network=True).exit_code == 0


def test_with_the_network_there_are_still_no_sockets_of_this_machine(workspace: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0ordain-test-sandbox")
        server.listen()
        text = "import socket; socket.socket(socket.AF_UNIX).connect('\\0ordain-test-sandbox')"
        assert run(workspace, "", argv=("python3", "-c", text), network=True).exit_code == 1


# --- What it may write -----------------------------------------------------------------------------------------------


def test_a_step_writes_what_it_says(workspace: Path) -> None:
    (workspace / "file").write_text("")
    seen = run(workspace, "echo x > a/b/new && echo y > file && echo z > other", writes=("a/b/**", "file"))
    assert seen.exit_code == 1 and b"other" in seen.output
    assert (workspace / "a/b/new").read_text() == "x\n" and (workspace / "file").read_text() == "y\n"


def test_what_looks_writes_nothing_and_can_still_be_an_ordinary_test(workspace: Path) -> None:
    (workspace / "test_it.py").write_text(
        "import unittest, tempfile\nclass T(unittest.TestCase):\n  def test(self): tempfile.mkstemp()\n"
    )
    assert run(workspace, "python3 -m unittest test_it", writes=()).exit_code == 0
    assert [path.name for path in workspace.iterdir()] == ["test_it.py"]


@pytest.mark.parametrize(
    ("pattern", "why"),
    [("*.md", "cannot hold"), ("ordain.toml", "off limits"), (".git/x", "off limits"), ("nowhere", "is not there")],
)
def test_what_cannot_be_held_is_not_begun(workspace: Path, pattern: str, why: str) -> None:
    seen = run(workspace, "touch begun", writes=(pattern,))
    assert seen.fault is not None and why in seen.fault
    assert list(workspace.iterdir()) == []


# --- What stands in --------------------------------------------------------------------------------------------------


def test_git_works_and_sees_nothing_that_stands_in(workspace: Path) -> None:
    need("git")
    say = {"env": {"PATH": PATH, "LANG": "C"}}
    subprocess.run(["git", "init", "-q", "-b", "main", workspace], check=True)
    me = "git -c user.name=n -c user.email=e -c safe.directory=*"
    seen = run(
        workspace, f"echo x > f && {me} add -A && {me} commit -qm c && {me} status --porcelain && {me} ls-files", **say
    )
    assert (seen.exit_code, seen.output) == (0, b"f\n"), seen
    assert not any((workspace / name).exists() for name in ("ordain.toml", ".git/commondir", ".git/modules"))


def test_while_one_command_relies_on_a_stand_in_no_other_takes_it_away(workspace: Path) -> None:
    async def both() -> Finished:
        shell, other = shell_of(workspace), shell_of(workspace)
        waits = "touch begun; until [ -e over ]; do sleep 0.01; done; echo x > ordain.toml"
        long = asyncio.create_task(shell.run(command(waits)))
        await eventually_in_loop(lambda: (workspace / "begun").exists(), "`begun`")
        assert DirectoryWorkspace(workspace).configuration() is None
        assert find_workspace(workspace / "..") == workspace.parent
        await other.run(command("touch over", mark="m/2"))
        return await long

    assert asyncio.run(both()).exit_code == 1
    assert sorted(path.name for path in workspace.iterdir()) == [".ordain", "begun", "over"]


def test_a_stand_in_that_a_dead_executor_left_is_taken_away(workspace: Path) -> None:
    (workspace / "ordain.toml").mkdir(0o1555)
    assert run(workspace, "echo x > ordain.toml/x").exit_code == 1
    assert not (workspace / "ordain.toml").exists()


def test_a_link_in_place_of_what_is_off_limits_is_a_fault(workspace: Path) -> None:
    (workspace / ".git").symlink_to("elsewhere")
    seen = run(workspace, "touch begun")
    assert seen.fault is not None and ".git is a link" in seen.fault


# --- Ending ----------------------------------------------------------------------------------------------------------


def left(name: str) -> bool:
    return any(name.encode() in line for line in command_lines())


HANGS = "setsid sleep 31.4159 & sleep 31.4159"


def test_at_its_time_limit_all_of_it_ends(workspace: Path) -> None:
    seen = run(workspace, HANGS, timeout_ms=500)
    assert seen.timed_out and not left("31.4159")


def test_cancelled_all_of_it_ends(workspace: Path) -> None:
    async def life() -> None:
        under_way = asyncio.create_task(shell_of(workspace).run(command(f"touch begun; {HANGS}")))
        await eventually_in_loop(lambda: (workspace / "begun").exists(), "`begun`")
        under_way.cancel()
        await asyncio.gather(under_way, return_exceptions=True)

    asyncio.run(life())
    assert not left("31.4159")


EXECUTOR = """
import asyncio, sys
from pathlib import Path
from ordain.adapters.sandbox.sandbox import BubblewrapSandbox
from ordain.core.policy.tier import SandboxLimits
from ordain.ports.process import Command
command = Command(text=sys.argv[2], env={"PATH": "/usr/bin:/bin"}, timeout_ms=60_000, mark="killed/1")
asyncio.run(BubblewrapSandbox(Path(sys.argv[1])).shell(SandboxLimits()).run(command))
"""


def test_nothing_outlives_an_executor_that_is_killed(workspace: Path) -> None:
    argv = [sys.executable, "-c", EXECUTOR, str(workspace), "setsid sleep 27.1828 & touch begun; sleep 27.1828"]
    with subprocess.Popen(argv, start_new_session=True) as executor:
        eventually((workspace / "begun").exists, "the command")
        executor.send_signal(signal.SIGKILL)
    BashShell(workspace).sweep("killed/", again=True)
    assert not left("27.1828")


def test_what_runs_in_a_sandbox_can_be_found_by_its_mark(workspace: Path) -> None:
    """Should the system not end it, whoever comes next does."""

    async def life() -> int:
        under_way = asyncio.create_task(shell_of(workspace).run(command("touch begun; sleep 16.1803", mark="swept/1")))
        await eventually_in_loop(lambda: (workspace / "begun").exists(), "`begun`")
        swept = BashShell(workspace).sweep("swept/")
        await under_way
        return swept

    assert asyncio.run(life()) > 0
    assert not left("16.1803")


# --- Where there is none ---------------------------------------------------------------------------------------------


def test_without_bubblewrap_nothing_is_run(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_programs(monkeypatch, bash=Path("/bin/bash"))
    monkeypatch.setattr(system_places, "SYSTEM_DIRECTORIES", ())
    assert BubblewrapSandbox(workspace).fault() == "bubblewrap is not installed"
    assert run(workspace, "touch begun").fault == "bubblewrap is not installed"
    assert list(workspace.iterdir()) == []


def test_a_bubblewrap_that_does_not_work_says_why(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = workspace.parent / "bwrap"
    failing.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    failing.chmod(0o755)
    set_programs(monkeypatch, bwrap=failing)
    assert (
        BubblewrapSandbox(workspace).fault()
        == "bubblewrap does not work here: bwrap: No permissions to create new namespace"
    )
    assert run(workspace, "touch begun").fault == "bwrap: No permissions to create new namespace"


def test_a_bubblewrap_in_the_workspace_is_refused(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / "bwrap").write_text("#!/bin/sh\ntouch /tmp/begun\n")
    (workspace / "bwrap").chmod(0o755)
    set_programs(monkeypatch, bwrap=workspace / "bwrap")
    with pytest.raises(Refused, match="lies in the workspace"):
        BubblewrapSandbox(workspace).fault()


# --- Agents ----------------------------------------------------------------------------------------------------------


def test_what_it_must_see_can_be_read_and_not_written(workspace: Path) -> None:
    """A directory in `/tmp`, such as the room of an attempt, at the path that it has outside."""
    room = Path(tempfile.mkdtemp(prefix="ordain-test-room-"))
    try:
        (room / "file").write_text("seen\n")
        text = f"cat {room}/file; echo x > {room}/file; echo x > {room}/other; ls {room.parent}"
        seen = run(workspace, text, sees=(str(room), "/usr/share", str(room / "file"), "/no/such"))
        assert seen.output.startswith(b"seen\n") and b"Read-only" in seen.output
        assert [one.name for one in room.iterdir()] == ["file"] and (room / "file").read_text() == "seen\n"
        assert b"seen" not in run(workspace, f"cat {room}/file").output
    finally:
        shutil.rmtree(room)


def test_what_must_not_be_seen_is_not_seen_in_anything_that_is(workspace: Path) -> None:
    state = workspace.parent / "more/state"
    state.mkdir(parents=True)
    (state / "ledger").write_text("secret\n")
    shell = BubblewrapSandbox(workspace, state).shell(SandboxLimits())
    text = f"ls {state.parent} && cat {state}/ledger"
    seen = asyncio.run(shell.run(command(text, sees=(str(state.parent), str(state / "ledger")))))
    assert seen.output.startswith(b"state\n") and b"secret" not in seen.output


def test_a_pipe_in_what_it_sees_can_be_written(workspace: Path) -> None:
    """That is how a step's door is reached."""
    room = workspace.parent / "room"
    room.mkdir()
    os.mkfifo(room / "pipe")
    descriptor = os.open(room / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert run(workspace, f"echo through > {room}/pipe", sees=(str(room),)).exit_code == 0
        assert os.read(descriptor, 99) == b"through\n"
    finally:
        os.close(descriptor)


@pytest.fixture
def home(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory with settings of an agent, and what is none of its business."""
    path = workspace.parent / "home"
    monkeypatch.setenv("HOME", str(path))
    files = {
        ".agent/settings.json": "{}\n",
        ".agent/skills/one.md": "skill\n",
        ".ssh/id": "key\n",
        "dotfiles/rc": "rc\n",
        "state/ledger": "ledger\n",
    }
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    (workspace.parent / "beyond").write_text("beyond\n")
    (path / ".agent/out").symlink_to(workspace.parent / "beyond")
    (path / ".agent/ledger").symlink_to(path / "state/ledger")
    (path / ".agentrc").symlink_to(path / "dotfiles/rc")
    (path / ".out").symlink_to(workspace.parent / "beyond")
    os.mkfifo(path / ".agent/pipe")
    return path


def at_home(workspace: Path, text: str, *files: str) -> Finished:
    shell = BubblewrapSandbox(workspace, workspace.parent / "home/state").shell(SandboxLimits())
    return asyncio.run(shell.run(command(text, home=files, env=shell.environment(["HOME", "PATH"]))))


def test_it_has_copies_of_the_files_that_are_named(workspace: Path, home: Path) -> None:
    text = 'cd ~ && find . -type f -printf "%P %m\\n" | sort && cat .agentrc && echo mine > .agentrc && cat .agentrc'
    (home / ".agent/settings.json").chmod(0o644)
    seen = at_home(workspace, text, "~/.agent", "~/.agentrc", "~/.none")
    assert seen.exit_code == 0, seen
    assert seen.output.decode().splitlines() == [
        ".agent/settings.json 600",
        ".agent/skills/one.md 600",
        ".agentrc 600",
        "rc",
        "mine",
    ]
    assert (home / "dotfiles/rc").read_text() == "rc\n"


@pytest.mark.parametrize("name", ["~/.out", "~/state", "~/.agent/ledger", "~/.agent/out", "~/../beyond"])
def test_a_name_that_leads_elsewhere_is_refused(workspace: Path, home: Path, name: str) -> None:
    seen = at_home(workspace, "true", name)
    assert seen.exit_code is None and "is not handed over" in (seen.fault or "")


def test_where_there_is_no_home_there_is_nothing_to_copy(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(workspace.parent / "nowhere"))
    assert at_home(workspace, "true", "~/.agent").exit_code == 0


def test_how_much_of_a_home_is_copied_is_bounded(workspace: Path, home: Path) -> None:
    (home / "big").write_bytes(b"")
    os.truncate(home / "big", 33 << 20)
    assert "too much" in (at_home(workspace, "true", "~/big").fault or "")
    for number in range(101):
        (home / f".agent/skills/{number}").touch()
    assert "too much" in (at_home(workspace, "true", "~/.agent").fault or "")


def test_no_descriptor_of_the_harness_is_left_open_in_it(workspace: Path, home: Path) -> None:
    seen = at_home(workspace, "exec ls /proc/self/fd", "~/.agent", "~/.agentrc")
    assert seen.output.split() == [b"0", b"1", b"2", b"3"]  # the last is that of the directory it lists


def program(path: Path, first_line: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{first_line}\necho begun\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("how", ["itself", "its link", "its interpreter", "what env finds"])
def test_a_program_that_is_not_in_it_is_told_of(workspace: Path, how: str) -> None:
    away, near = workspace.parent / "npm", workspace
    path = f"{near}/bin:{away}/bin:{PATH}"
    if how == "itself":
        name, wanted = "tool", program(away / "bin/tool", "#!/bin/sh")
    elif how == "its link":
        name, wanted = "tool", program(away / "lib/tool.sh", "#!/bin/sh")
        (near / "bin").mkdir()
        (near / "bin/tool").symlink_to(wanted)
    elif how == "its interpreter":
        wanted = program(away / "sh", "#!/bin/sh")
        name = program(near / "bin/tool", f"#!{wanted}")
    else:
        wanted = program(away / "bin/noodle", "#!/bin/sh")
        name = program(near / "bin/tool", "#!/usr/bin/env -S noodle --fast")
    wants = command("", argv=(name,), env={"PATH": path})
    seen = asyncio.run(shell_of(workspace).run(wants))
    assert seen.fault == f"{wanted} is not seen in the sandbox; name what it lies in in `[sandbox] read`"
    assert asyncio.run(shell_of(workspace, read=(str(away),)).run(wants)).output == b"begun\n"


def test_a_program_of_the_same_name_that_is_in_it_is_run_instead(workspace: Path) -> None:
    """As without a sandbox where what comes first in the PATH is not there."""
    program(workspace.parent / "away/bin/tool", "#!/bin/sh")
    program(workspace / "bin/tool", "#!/bin/sh")
    path = f"{workspace.parent}/away/bin:{workspace}/bin:{PATH}"
    assert run(workspace, "", argv=("tool",), env={"PATH": path}).output == b"begun\n"


def test_our_own_python_runs_in_it(workspace: Path) -> None:
    words = (sys.executable, "-P", "-c", "import msgspec, ordain; print('here')")
    assert "[sandbox] read" in (run(workspace, "", argv=words).fault or "")
    path = str(Path(ordain.__file__).parent.parent)
    seen = run(workspace, "", argv=words, sees=our_python(), env={"PATH": PATH, "PYTHONPATH": path})
    assert seen.output == b"here\n"


def test_nothing_of_a_sandbox_is_left_for_us_to_collect(workspace: Path) -> None:
    """Its first process is handed to us; left uncollected, it would look like a child of ours for ever."""
    before = set(children_of_us())
    for _ in range(5):
        run(workspace, "true")
        assert BubblewrapSandbox(workspace).fault() is None
    assert set(children_of_us()) <= before


@pytest.mark.parametrize("writes", [None, ("tools/**",), ("tools/venv/lib/**",)], ids=["all", "around", "within"])
def test_what_runs_us_is_not_rewritten_where_it_lies_in_the_workspace(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, writes: tuple[str, ...] | None
) -> None:
    ours = workspace / "tools/venv/lib/ours.py"
    ours.parent.mkdir(parents=True)
    ours.write_text("ours\n")
    monkeypatch.setattr(sys, "prefix", str(workspace / "tools/venv"))
    attacks = (
        "echo theirs > tools/venv/lib/ours.py",
        "touch tools/venv/lib/more.py",
        "rm -rf tools/venv/lib",
        "mv tools/venv tools/gone",
        "mv tools gone",
        "mount --bind /tmp tools/venv",
    )
    seen = run(
        workspace, "; ".join(f"({one}) && echo got away with {one}" for one in attacks) + "; true", writes=writes
    )
    assert b"got away" not in seen.output and seen.exit_code == 0, seen.output
    assert ours.read_text() == "ours\n" and [path.name for path in ours.parent.iterdir()] == ["ours.py"]
    if writes != ("tools/venv/lib/**",):
        assert run(workspace, "touch tools/other", writes=writes).exit_code == 0


def test_what_runs_us_may_be_no_link_in_the_workspace(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace.parent / "venv").mkdir()
    (workspace / "venv").symlink_to(workspace.parent / "venv")
    monkeypatch.setattr(sys, "prefix", str(workspace / "venv"))
    assert "is what runs Ordain and a link" in (run(workspace, "true").fault or "")
