"""Real commands: what is seen of them, and that nothing of them is left."""

import asyncio
import contextlib
import errno
import os
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from ordain.adapters.process import bash
from ordain.adapters.process import process as processes
from tests.patience import PATIENCE_S, eventually, eventually_in_loop, hang_guard
from tests.words import (
    OUTPUT_BYTES_MAX,
    USAGE_BYTES_MAX,
    BashShell,
    Command,
    Finished,
    Refused,
    mark_of,
    with_descendants,
)

ENVIRONMENT = {"PATH": os.environ["PATH"]}


def command(text: str, timeout_ms: int = 20_000, mark: str = "RUN-TEST/a/1") -> Command:
    return Command(text=text, env=ENVIRONMENT, timeout_ms=timeout_ms, mark=mark)


def run(shell: BashShell, text: str, **settings) -> Finished:
    return asyncio.run(shell.run(command(text, **settings)))


@pytest.fixture
def shell(tmp_path: Path) -> BashShell:
    return BashShell(tmp_path)


def marked(prefix: str) -> list[int]:
    """Living processes with such a mark."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if (mark_of(pid) or "").startswith(prefix) and _alive(pid)]


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_exit_status_and_output_are_what_the_system_saw(shell):
    done = run(shell, "echo out; echo err >&2; exit 7")
    assert (done.exit_code, done.output, done.output_bytes) == (7, b"out\nerr\n", 8)


def program(shell: BashShell, *argv: str, timeout_ms: int = 20_000) -> Finished:
    wanted = Command(text="", argv=argv, env=ENVIRONMENT, timeout_ms=timeout_ms, mark="RUN-EXEC/a/1")
    return asyncio.run(shell.run(wanted))


def test_a_program_gets_its_words_as_they_are(shell):
    words = ["$HOME", "a b", "'\"", "*", "", "; exit 3", "`id`", "-n", "ß\n"]
    done = program(shell, "printf", "%s|", *words)
    assert (done.exit_code, done.output.decode()) == (0, "".join(f"{word}|" for word in words))


def test_a_program_runs_in_the_workspace_with_no_input_and_the_given_environment(shell, tmp_path):
    assert program(shell, "pwd").output.decode().strip() == str(tmp_path)
    assert program(shell, "cat").output == b""
    seen = {line.partition(b"=")[0] for line in program(shell, "env").output.splitlines()}
    assert seen == {b"PATH", b"ORDAIN_MARK"}


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("no-such-program-anywhere",), "No such file"),
        (("./none",), "No such file"),
        (("a\0b",), "null"),
        (("true", "x" * 10_000_000), "too long"),
        (("/",), "denied"),
    ],
)
def test_a_program_that_cannot_be_started_is_a_fault(shell, argv, words):
    done = program(shell, *argv)
    assert done.exit_code is None and done.fault is not None and words in done.fault


def test_a_program_is_ended_with_all_it_started(shell):
    done = program(shell, "bash", "-c", "setsid sleep 60 & sleep 60", timeout_ms=300)
    assert (done.timed_out, marked("RUN-EXEC/")) == (True, [])


def test_errexit_and_pipefail_are_on_and_no_profile_is_read(shell, tmp_path):
    assert run(shell, "false; echo no").exit_code == 1
    assert run(shell, "false | true").exit_code == 1


def test_only_the_given_environment_is_there(shell, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    done = run(shell, "env | cut -d= -f1 | sort | tr '\\n' ' '")
    assert set(done.output.decode().split()) == {"PATH", "ORDAIN_MARK", "PWD", "SHLVL", "_"}


def test_it_runs_in_the_workspace_with_no_standard_input(shell, tmp_path):
    assert run(shell, "pwd -P; cat").output.decode().strip() == str(tmp_path.resolve())


def test_a_signal_is_told_apart_from_an_exit_status(shell):
    done = run(shell, "kill -SEGV $$")
    assert (done.exit_code, done.signal) == (None, 11)


def test_a_timeout_ends_everything_that_was_started(shell):
    done = run(shell, "sleep 300 & sleep 300 | sleep 300", timeout_ms=200, mark="RUN-TIMEOUT/a/1")
    assert done.timed_out and done.exit_code is None
    assert marked("RUN-TIMEOUT/") == []


def test_a_command_that_ignores_sigterm_is_killed(shell):
    done = run(shell, "trap '' TERM; while :; do sleep 0.05; done", timeout_ms=200, mark="RUN-STUBBORN/a/1")
    assert done.timed_out
    assert marked("RUN-STUBBORN/") == []


@hang_guard
def test_a_background_process_does_not_outlive_its_step_nor_hold_it_up(shell, tmp_path):
    done = run(shell, "(sleep 300; touch late) & echo done", mark="RUN-BACK/a/1")
    assert (done.exit_code, done.output) == (0, b"done\n")
    assert done.leftovers >= 1
    assert marked("RUN-BACK/") == []


def test_what_is_left_is_counted_once_and_what_had_ended_not_at_all(shell):
    assert run(shell, "true").leftovers == 0
    assert run(shell, "sleep 300 & true").leftovers == 1
    assert run(shell, "setsid -f sleep 300 >/dev/null 2>&1; sleep 300 & sleep 0.1").leftovers == 2
    until_it_ended = "import sys\nwhile ' Z ' not in open(f'/proc/{sys.argv[1]}/stat').read(): pass"
    nobody_collects = f'true & exec {sys.executable} -c "{until_it_ended}" $!'
    assert run(shell, nobody_collects).leftovers == 0


@pytest.mark.parametrize("text", ["sleep 300", "trap '' TERM; while :; do sleep 0.05; done"])
def test_where_the_system_tells_of_no_end_a_timeout_is_one_all_the_same(shell, monkeypatch, text):
    monkeypatch.delattr(os, "pidfd_open")
    assert run(shell, "exit 3").exit_code == 3
    done = run(shell, text, timeout_ms=100, mark="RUN-OLD/a/1")
    assert (done.timed_out, done.still_there, marked("RUN-OLD/")) == (True, None, [])


@pytest.mark.parametrize("told", [True, False])
def test_a_process_of_another_user_is_left_and_holds_nobody_up(shell, tmp_path, monkeypatch, told):
    monkeypatch.setattr(bash, "GRACE_S", 0.05)
    monkeypatch.setattr(bash, "KILLED_S", 0.05)
    if not told:
        monkeypatch.delattr(os, "pidfd_open")

    def denied(*_: object) -> None:
        raise PermissionError(errno.EPERM, "not permitted")

    async def beside() -> tuple[Finished, int]:
        turns = 0
        task = asyncio.create_task(shell.run(command("echo $$ > pid; exec sleep 300", timeout_ms=300)))
        while not task.done():
            await asyncio.sleep(0.01)
            turns += 1
        return await task, turns

    with monkeypatch.context() as patched:
        patched.setattr(os, "killpg", denied)
        done, turns = asyncio.run(beside())
    pid = int((tmp_path / "pid").read_text())
    try:
        assert (done.timed_out, done.exit_code, done.signal) == (True, None, None)
        assert done.still_there == "it is a process of another user"
        assert _alive(pid)
        assert turns > 10
    finally:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not _alive(pid))
    assert run(shell, "true").exit_code == 0
    assert not Path(f"/proc/{pid}").exists(), "it is collected once it has ended"


def test_a_detached_process_is_found_and_killed(shell):
    done = run(
        shell, "setsid -f bash -c 'setsid -f sleep 300; sleep 300' >/dev/null 2>&1; echo ok", mark="RUN-DAEMON/a/1"
    )
    assert done.exit_code == 0
    eventually(lambda: marked("RUN-DAEMON/") == [])


def test_endless_output_is_capped_in_memory_and_still_counted(shell):
    done = run(shell, "head -c 30000000 /dev/zero | tr '\\0' x; echo; echo END")
    assert done.output_bytes == 30_000_005
    assert done.output.endswith(b"x\nEND\n") and len(done.output) == OUTPUT_BYTES_MAX < done.output_bytes


def test_output_that_is_not_text_does_no_harm(shell):
    assert run(shell, r"printf '\xff\xfe\x00ok'").output == b"\xff\xfe\x00ok"


def test_cancelling_kills(shell):
    async def cancelled() -> None:
        task = asyncio.create_task(shell.run(command("sleep 300 & sleep 300", mark="RUN-CANCEL/a/1")))
        await eventually_in_loop(lambda: marked("RUN-CANCEL/"), "its mark")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert marked("RUN-CANCEL/") == []


def test_commands_run_at_once_and_do_not_kill_each_others_processes(shell):
    async def both() -> list[Finished]:
        return list(
            await asyncio.gather(
                shell.run(command("sleep 0.3 & wait; echo slow", mark="RUN-X/slow/1")),
                shell.run(command("echo fast", mark="RUN-X/fast/1")),
            )
        )

    slow, fast = asyncio.run(both())
    assert (slow.output, fast.output) == (b"slow\n", b"fast\n")


def test_children_of_the_host_process_are_left_alone(shell):
    host, ended = subprocess.Popen(["sleep", "300"]), subprocess.Popen(["sh", "-c", "exit 7"])
    try:
        eventually(lambda: not _alive(ended.pid))
        for _ in range(3):
            assert run(shell, "true").exit_code == 0
        assert host.poll() is None
        assert ended.wait() == 7
    finally:
        host.kill()
        host.wait()


def test_sweep_kills_what_a_dead_executor_left_and_nothing_else(shell):
    def leave(mark: str) -> subprocess.Popen[bytes]:
        environment = {**ENVIRONMENT, "ORDAIN_MARK": mark}
        return subprocess.Popen(["sleep", "300"], env=environment, start_new_session=True)

    ours, other = leave("RUN-DEAD/a/1"), leave("RUN-DEADER/a/1")
    try:
        eventually(lambda: marked("RUN-DEAD/") and marked("RUN-DEADER/"))
        assert shell.sweep("RUN-DEAD/") == 1
        assert ours.wait(PATIENCE_S) == -9
        assert other.poll() is None
    finally:
        for process in (ours, other):
            process.kill()
            process.wait()


def test_sweep_takes_along_what_was_started_without_the_mark(shell):
    """The marked one is stopped first, so that it cannot start anything more."""
    environment = {**ENVIRONMENT, "ORDAIN_MARK": "RUN-TREE/a/1"}
    text = "for i in 1 2 3; do env -i setsid sleep 300 & done; env -i sleep 300 & echo; wait"
    with subprocess.Popen(
        ["bash", "-c", text], env=environment, stdout=subprocess.PIPE, start_new_session=True
    ) as tree:
        assert tree.stdout is not None
        tree.stdout.readline()
        under = with_descendants([tree.pid])
        eventually(lambda: len(under | with_descendants([tree.pid])) >= 5)
        under |= with_descendants([tree.pid])
        assert shell.sweep("RUN-TREE/") == len(under)
        eventually(lambda: not any(_alive(pid) for pid in under))


def test_what_an_executor_was_just_starting_is_found_a_moment_later(shell, monkeypatch):
    """Between fork and exec a process bears no mark of its own. `again` looks a second time."""
    begun = []

    def moment(seconds):
        if seconds == bash.AGAIN_S:
            environment = {**ENVIRONMENT, "ORDAIN_MARK": "RUN-LATE/a/1"}
            begun.append(subprocess.Popen(["sleep", "300"], env=environment, start_new_session=True))
            eventually(lambda: marked("RUN-LATE/"))

    monkeypatch.setattr(bash.time, "sleep", moment)
    assert (shell.sweep("RUN-LATE/"), begun) == (0, [])
    assert shell.sweep("RUN-LATE/", again=True) == 1
    assert begun[0].wait(PATIENCE_S) == -9


@hang_guard
def test_a_writer_that_gets_away_does_not_hold_up_the_end(shell, tmp_path):
    """It is not ours to find here, holds the pipe, and writes as fast as it can."""
    text = "env -i setsid -f bash -c 'echo $$ > pid; exec cat /dev/zero'; until test -s pid; do sleep 0.01; done"
    try:
        assert run(shell, text).exit_code == 0
    finally:
        pid = int((tmp_path / "pid").read_text())
        with contextlib.suppress(ProcessLookupError):  # the pipe may have broken under it
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


HOST = """
import asyncio, os, subprocess, sys
from pathlib import Path
from ordain.adapters.process.bash import BashShell
from ordain.ports.process import Command

first = [] if sys.argv[2] == "none" else [subprocess.Popen(["sleep", "300"])]
shell = BashShell(Path(sys.argv[1]), alone=True)

async def run(text):
    return await shell.run(Command(text=text, env={"PATH": os.environ["PATH"]}, timeout_ms=20000, mark="RUN-HOST/a/1"))

async def both():
    slow = asyncio.create_task(run("until test -e go; do sleep 0.01; done"))
    away = "env -i setsid -f bash -c 'echo $$ > pid; sleep 300' > /dev/null 2>&1"
    fast = await run(away + "; until test -s pid; do sleep 0.01; done")
    alive = Path("/proc", Path(sys.argv[1], "pid").read_text().strip()).exists()
    Path(sys.argv[1], "go").touch()
    return fast.leftovers, alive, (await slow).leftovers

fast, alive, slow = asyncio.run(both())
pid = int(Path(sys.argv[1], "pid").read_text())
left = Path("/proc", str(pid)).exists()
print(fast, alive, slow > 0, left, [one.poll() for one in first])
for one in first:
    one.kill()
if left:
    os.killpg(pid, 9)
"""


@pytest.mark.parametrize(("children", "said"), [("none", "0 True True False []"), ("one", "0 True False True [None]")])
def test_what_bears_no_mark_is_ended_only_where_it_can_be_nothing_else(tmp_path, children, said):
    """While another command is under way it may be that one's, and is left until that has ended too. A process that has
    children of its own keeps them, whatever it says."""
    import sys

    done = subprocess.run([sys.executable, "-c", HOST, str(tmp_path), children], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == (said, "")


def test_a_command_leaves_no_core_file_unless_it_says_so(shell):
    before = resource.getrlimit(resource.RLIMIT_CORE)
    if before[1] == 0:
        pytest.skip("here no process may leave a core file anyway")
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    try:
        assert program(shell, "bash", "-c", "sleep 0.1; ulimit -Sc").output == b"0\n"
        assert program(shell, "bash", "-ec", "sleep 0.1; ulimit -Sc hard; ulimit -Sc").output != b"0\n"
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)


def test_programs_come_from_no_place_that_a_step_can_write(shell, monkeypatch):
    monkeypatch.setenv("PATH", ":.:bin:/usr/bin::/bin:./x:")
    monkeypatch.setenv("OTHER", ":.:")
    assert shell.environment(["PATH", "OTHER"]) == {"PATH": "/usr/bin:/bin", "OTHER": ":.:"}
    for nowhere in ("", ":", ".:bin"):
        monkeypatch.setenv("PATH", nowhere)
        assert shell.environment(["PATH"]) == {"PATH": "/usr/local/bin:/usr/bin:/bin"}


def test_a_missing_directory_is_a_fault_not_an_exception(tmp_path):
    done = run(BashShell(tmp_path / "gone"), "true")
    assert done.fault is not None and done.exit_code is None


def test_a_nul_in_a_command_is_a_fault(shell):
    assert run(shell, "echo a\0b").fault is not None


def test_an_end_that_somebody_else_took_is_not_called_good(tmp_path):
    """Another part of the process may reap our child; its status is lost then, and is not taken for 0."""
    shell = BashShell(tmp_path)

    def take(pid):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    async def thief():
        pid = tmp_path / "pid"
        take(int(await eventually_in_loop(lambda: pid.exists() and pid.read_text().strip(), "its pid")))

    async def both():
        stolen = asyncio.create_task(thief())
        try:
            return await shell.run(Command(text="echo $$ > pid; sleep 30", env={}, timeout_ms=20_000, mark="m"))
        finally:
            await stolen

    with pytest.raises(RuntimeError, match="taken"):
        asyncio.run(both())


def test_a_process_that_is_just_becoming_another_program_is_not_overlooked(monkeypatch):
    """While a program is being loaded its process shows no environment; on a busy machine one in a thousand commands
    that detach something was caught in that instant."""
    child = subprocess.Popen(["sleep", "60"], env={"ORDAIN_MARK": "becoming/1"})
    real, looks = processes._content, []

    def at_first_nothing(file: str) -> bytes | None:
        looks.append(file)
        return b"" if len(looks) < 4 else real(file)

    try:
        with monkeypatch.context() as patched:
            patched.setattr(processes, "_content", at_first_nothing)
            assert mark_of(child.pid) == "becoming/1"
    finally:
        child.kill()
        child.wait()
    assert len(looks) == 4


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.EIO])
def test_that_nobody_can_be_looked_for_is_not_taken_for_nobody_being_there(shell, monkeypatch, number):
    """An executor that goes on then would start a step while the last attempt of it may still be at work."""

    def refusing(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    for patched, name in ((os, "listdir"), (processes, "open")):
        with monkeypatch.context() as patching:
            patching.setattr(patched, name, refusing, raising=False)
            with pytest.raises(Refused) as refused:
                shell.sweep("RUN-TEST/")
            assert [problem.code for problem in refused.value.problems] == ["E_PROCESSES"]
            with pytest.raises(Refused):
                run(shell, "true")


def test_where_there_is_no_table_of_processes_nobody_is_found(shell, monkeypatch):
    def missing(*_: object) -> None:
        raise FileNotFoundError(errno.ENOENT, "no such directory")

    monkeypatch.setattr(os, "listdir", missing)
    assert shell.sweep("RUN-TEST/") == 0
    assert run(shell, "true").exit_code == 0


def reports(shell: BashShell, text: str, **settings) -> Finished:
    return asyncio.run(shell.run(replace(command(text, **settings), reports=True)))


def test_a_command_can_report_what_it_uses(shell, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    done = reports(shell, 'echo \'{"tokens": 3}\' >> "$ORDAIN_USAGE"; echo x > seen; stat -c %a "$ORDAIN_USAGE"')
    assert (done.reported, done.output) == (b'{"tokens": 3}\n', b"600\n")
    assert os.listdir(tmp_path) == ["seen"], "nothing of it is left"
    assert run(shell, 'echo "${ORDAIN_USAGE-none}"').output == b"none\n", "who is not asked is given no file"


@pytest.mark.parametrize(
    "text",
    [
        'ln -sf /etc/passwd "$ORDAIN_USAGE"',
        'rm "$ORDAIN_USAGE"; mkfifo "$ORDAIN_USAGE"',
        'rm "$ORDAIN_USAGE"',
        "kill -9 $$",
    ],
)
def test_only_the_file_that_was_made_is_read(shell, tmp_path, monkeypatch, text):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert reports(shell, text).reported == b""
    assert os.listdir(tmp_path) == []


def test_a_report_is_bounded(shell):
    assert len(reports(shell, 'head -c 1000000 /dev/zero > "$ORDAIN_USAGE"').reported) == USAGE_BYTES_MAX


def test_where_no_file_can_be_made_the_command_runs_all_the_same(shell, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    done = reports(shell, 'echo "${ORDAIN_USAGE-none}"')
    assert (done.exit_code, done.output, done.reported) == (0, b"none\n", b"")
