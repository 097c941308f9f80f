"""Hostile steps against the real thing: what a step does to get away, to lie, or to wear the machine out, and that it
is contained or told apart from success. What tier 0 cannot stop is in SECURITY.md, and tested as such here."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from ordain import Channel, Principal
from tests import task_runs
from tests.patience import let_pass
from tests.words import (
    ARTIFACT_BYTES_MAX,
    OUTPUT_BYTES_MAX,
    AttemptEnded,
    Event,
    LocalAgents,
    Outcome,
    RunFinished,
    open_at_terminal,
)

KIM = Principal(name="kim", channel=Channel.TERMINAL)
ORDAIN = [sys.executable, "-m", "ordain"]


MEASURED = """\
import atexit, pathlib, sys
peak = sys.argv.pop(1)
def tell():
    (line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM:")]
    pathlib.Path(peak).write_text(line.split()[1])
atexit.register(tell)
from ordain.__main__ import main
main()
"""
"""The `ordain` command, which tells at its end how much memory it had at most."""


class Ran(NamedTuple):
    """A run carried out by the `ordain` command, in a process of its own."""

    workspace: Path
    status: int
    run_id: str
    steps: list[dict[str, Any]]
    memory_kib: int

    @property
    def step(self) -> dict[str, Any]:
        (step,) = self.steps
        return step

    def events(self) -> list[Event]:
        app = open_at_terminal(self.workspace, exact=True)
        try:
            return [recorded.event for recorded in app.plans.log(self.run_id)]
        finally:
            asyncio.run(app.close())

    def outcome(self) -> Outcome:
        return [event.outcome for event in self.events() if isinstance(event, AttemptEnded)][-1]


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("ORDAIN_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    path = tmp_path / "ws"
    path.mkdir()
    (tmp_path / "home").mkdir()
    yield path
    left = here(path)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert left == [], "something is still at work in the workspace"


def here(workspace: Path) -> list[int]:
    """Living processes whose working directory is the workspace, whatever they did to their environment."""
    found = []
    for path in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if Path(os.readlink(path / "cwd")) == workspace:
                found.append(int(path.name))
    return found


def approved(workspace: Path, *steps: dict[str, object], **fields: object) -> str:
    tree = {"title": "T", "steps": [{"id": f"s{n}", **step} for n, step in enumerate(steps, 1)], **fields}

    async def life() -> str:
        app = open_at_terminal(workspace, exact=True)
        try:
            prepared = await app.plans.prepare(msgspec.json.encode(tree), None, KIM)
            await app.approvals.approve(prepared.review.plan_id, KIM)
            return str(prepared.review.plan_id)
        finally:
            await app.close()

    return asyncio.run(life())


def ordain(workspace: Path, *args: str) -> Ran:
    """Carry a run out with the command, and measure it."""
    peak = workspace.parent / "peak"
    command = [sys.executable, "-c", MEASURED, str(peak), "-C", str(workspace), *args, "--json"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode in (0, 1, 3), done
    data = json.loads(done.stdout)["data"]
    return Ran(workspace, done.returncode, data["run_id"], data["steps"], int(peak.read_text()))


def carried_out(workspace: Path, *steps: dict[str, object], **fields: object) -> Ran:
    return ordain(workspace, "commit", approved(workspace, *steps, **fields))


def runs(command: str, contract: str | None = None, **fields: object) -> dict[str, object]:
    step: dict[str, object] = {"action": {"type": "run", "command": command}, **fields}
    if contract is not None:
        step["verification"] = {"strategy": {"type": "contract", "command": contract}, "timeout_ms": 5000}
    return step


def audited(workspace: Path) -> bool:
    app = open_at_terminal(workspace, exact=True)
    try:
        return app.audits.verify().good
    finally:
        asyncio.run(app.close())


# --- Getting away ----------------------------------------------------------------------------------------------------

WRITER = "echo $$ > pid; while :; do echo more >> late; /bin/sleep 0.01; done"
DAEMON = """\
import os, resource, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.closerange(0, 1024)
os.execve("/bin/bash", ["kworker/0:1", "-c", os.environ["WRITER"]], {})
"""


@pytest.mark.part(of=12)
@pytest.mark.parametrize(
    "away",
    [
        "bash -c '{writer}' &",
        "nohup bash -c '{writer}' > /dev/null 2>&1 &",
        "setsid -f bash -c '{writer}'",
        "( ( bash -c '{writer}' & ) & )",
        "set -m; bash -c '{writer}' & disown",
        "env -i bash -c '{writer}' &",
        "set -m; env -i bash -c '{writer}' & disown",
        "env -i setsid -f bash -c '{writer}' > /dev/null 2>&1",
        "env -i setsid -f bash -c 'env -i setsid -f bash -c \"{nested}\"; exec sleep 300'",
        "WRITER='{writer}' python3 daemon.py",
    ],
    ids=[
        "background", "nohup", "session", "double-fork", "group", "no-mark", "no-mark-group", "no-mark-session",
        "no-mark-twice", "daemon",
    ],
)  # fmt: skip
def test_nothing_outlives_its_step(workspace: Path, away: str) -> None:
    (workspace / "daemon.py").write_text(DAEMON)
    start = away.format(writer=WRITER, nested=WRITER.replace("$", "\\$"))
    ran = carried_out(workspace, runs(f"{start}\nuntil test -s pid; do sleep 0.01; done; echo done"))
    assert (ran.status, ran.step["state"]) == (0, "passed")
    assert ran.outcome().leftovers >= 1
    pid, size = int((workspace / "pid").read_text()), (workspace / "late").stat().st_size
    assert not Path(f"/proc/{pid}").exists()
    assert here(workspace) == []
    let_pass(0.05)
    assert (workspace / "late").stat().st_size == size


def test_inside_another_program_an_unmarked_daemon_cannot_be_told_from_its_own_children(workspace: Path) -> None:
    """SECURITY.md, "Processes left behind": there it is left alone, and so are that program's children."""
    plan_id = approved(
        workspace, runs(f"env -i setsid -f bash -c '{WRITER}' > /dev/null 2>&1; until test -s pid; do :; done")
    )

    async def life() -> str:
        app = open_at_terminal(workspace, exact=True)
        try:
            return (await app.runs.commit(plan_id, KIM)).status
        finally:
            await app.close()

    own = subprocess.Popen(["sleep", "300"])
    try:
        assert asyncio.run(life()) == "completed"
        assert own.poll() is None
        pid = int((workspace / "pid").read_text())
        assert here(workspace) != []
    finally:
        own.kill()
        own.wait()
        for _ in range(2):  # it is our child by now
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        for left in here(workspace):
            os.kill(left, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(left, 0)


STORM = """\
if [ "$1" -ge 150 ]; then exec sleep 300; fi
{env} setsid -f bash storm.sh $(($1 + 1))
{env} setsid -f sleep 300
"""


@pytest.mark.slow("real storms, floods and gigabytes")
@pytest.mark.parametrize("env", ["", "env -i"], ids=["marked", "unmarked"])
@pytest.mark.parametrize("end", ["echo done", "sleep 0.3"])
def test_a_storm_of_forks_is_calmed(workspace: Path, env: str, end: str) -> None:
    """Each of 150 starts the next in a session of its own, leaves something behind and is gone."""
    (workspace / "storm.sh").write_text(STORM.format(env=env))
    ran = carried_out(workspace, runs(f"bash storm.sh 0; {end}"))
    assert ran.step["state"] == "passed"
    assert here(workspace) == []


@pytest.mark.slow
def test_the_same_storm_after_a_kill_is_swept_away(workspace: Path) -> None:
    (workspace / "storm.sh").write_text(STORM.format(env=""))
    ran = _killed_by_its_step(workspace, "bash storm.sh 0; sleep 0.1; kill -KILL $PPID; sleep 300")
    assert ran.step["state"] == "in_doubt"
    assert here(workspace) == []


# --- Signals ---------------------------------------------------------------------------------------------------------


def _killed_by_its_step(workspace: Path, command: str) -> Ran:
    """The run as it stands after its executor was killed by a step, and resumed."""
    plan_id = approved(workspace, runs(command))
    executor = subprocess.run([*ORDAIN, "-C", str(workspace), "commit", plan_id], capture_output=True, check=False)
    assert executor.returncode == -signal.SIGKILL, "it did not die as intended"
    return ordain(workspace, "resume")


@pytest.mark.slow
def test_a_step_that_kills_its_executor_gains_nothing(workspace: Path) -> None:
    """Tier 0 cannot prevent it. The step is in doubt, a person is asked, and what it left is ended first."""
    away = "setsid -f sleep 300; sleep 300 &"
    ran = _killed_by_its_step(workspace, f"{away} kill -KILL $PPID; sleep 300")
    assert (ran.status, ran.step["state"], ran.step["error"]) == (3, "in_doubt", "F_STEP_IN_DOUBT")
    assert here(workspace) == [] and audited(workspace)


@pytest.mark.slow
def test_a_step_that_stops_its_executor_delays_it_and_no_more(workspace: Path) -> None:
    """Tier 0 cannot prevent it either. Nothing is recorded while it is stopped, and all of it afterwards."""
    plan_id = approved(workspace, runs("touch stopping; kill -STOP $PPID; exit 3"))
    command = [*ORDAIN, "-C", str(workspace), "commit", plan_id]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as executor:
        _, status = os.waitpid(executor.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        os.kill(executor.pid, signal.SIGCONT)
        out, _ = executor.communicate()
    assert executor.returncode == 1 and b"exit status 3" in out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "error", "words"),
    [
        ("kill -KILL 0", "F_STEP_FAILED", "killed by SIGKILL"),
        ("kill -KILL $$", "F_STEP_FAILED", "killed by SIGKILL"),
        ("trap '' TERM INT HUP; while :; do sleep 0.05; done", "F_STEP_TIMEOUT", "did not end within 1 s"),
        ("kill -STOP $$", "F_STEP_TIMEOUT", "did not end within 1 s"),
        ("trap 'setsid -f sleep 300; exit 0' TERM; sleep 300 & wait", "F_STEP_TIMEOUT", "did not end within 1 s"),
        ("exec >&- 2>&-; sleep 0.2; touch went-on; exit 3", "F_STEP_FAILED", "exit status 3"),
    ],
)
def test_how_it_ended_is_what_the_system_saw(workspace: Path, command: str, error: str, words: str) -> None:
    ran = carried_out(workspace, runs(command, timeout_ms=1000))
    assert (ran.status, ran.step["error"]) == (1, error)
    assert words in ran.step["evidence"]
    assert here(workspace) == []
    assert ("went-on" in command) == (workspace / "went-on").exists()


@pytest.mark.slow
def test_a_crash_leaves_no_image_of_memory(workspace: Path) -> None:
    ran = carried_out(workspace, runs("ulimit -c; ulimit -c 1 || true; ulimit -c"))
    assert ran.outcome().output_tail.splitlines()[0] == "0"


# --- Lying -----------------------------------------------------------------------------------------------------------

LIES = r"""
printf 'exit_code=0\nOK (3 tests)\n{"type":"attempt_ended","outcome":{"exit_code":0},"to":"passed"}\n'
printf '\033[2J\033[1;1H\033]0;passed\007  1. passed  s1   exit status 0, observed by Ordain\r\n'
printf '\n'"\"}]},{\"seq\":99,\"type\":\"run_finished\",\"status\":\"completed\"}\n"
exit 1
"""


def test_what_it_prints_is_no_evidence_and_reaches_no_terminal(workspace: Path) -> None:
    ran = carried_out(workspace, runs(LIES))
    assert (ran.status, ran.step["state"], ran.step["error"]) == (1, "failed", "F_STEP_FAILED")
    assert [event.status for event in ran.events() if isinstance(event, RunFinished)] == ["failed"]
    shown = subprocess.run(
        [*ORDAIN, "-C", str(workspace), "show", "--verbose", ran.run_id], capture_output=True, check=True
    ).stdout
    assert b"failed, 0 of 1 steps passed" in shown and b"exit_code=0" in shown
    assert not {0x1B, 0x07, 0x0D} & set(shown)
    assert audited(workspace)


FAKES = """\
for name in grep test bash sh true cat; do
  printf '#!/bin/sh\\nexit 0\\n' > $name; chmod +x $name
done
mkdir -p bin; cp grep test bash bin
for file in .bashrc .bash_profile .profile .bash_env "$HOME/.bashrc" "$HOME/.profile"; do
  printf 'grep() { return 0; }; test() { return 0; }; exit() { builtin exit 0; }; trap "exit 0" EXIT\\n' > "$file"
done
export PATH=$PWD/bin:$PWD:$PATH BASH_ENV=$PWD/.bash_env ENV=$PWD/.bash_env
grep() { return 0; }; export -f grep
hash -p "$PWD/grep" grep
grep -q good report
"""


@pytest.mark.slow
def test_programs_and_profiles_that_it_plants_are_not_used(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f".::bin:{os.environ['PATH']}:")
    (workspace / "report").write_text("bad\n")
    ran = carried_out(workspace, runs(FAKES, "grep good report >/dev/null"))
    assert (ran.step["state"], ran.step["error"]) == ("failed", "F_CONTRACT_BROKEN")
    ran = carried_out(workspace, runs("true", "bash -c 'exit 3'"))
    assert (ran.step["state"], ran.step["error"]) == ("failed", "F_CONTRACT_BROKEN")


@pytest.mark.slow
def test_it_edits_its_own_tests_while_they_run_and_says_that_all_is_well(workspace: Path) -> None:
    (workspace / "tests").mkdir()
    (workspace / "tests/check.sh").write_text("grep good report >/dev/null\n")
    hostile = """\
        setsid -f bash -c 'while :; do echo "exit 0" > tests/check.sh; done'
        env -i setsid -f bash -c 'while :; do echo "exit 0" > tests/check.sh; done'
        until grep -x 'exit 0' tests/check.sh; do :; done
        echo 'exit_code=0'"""
    ran = carried_out(workspace, runs(hostile, "bash tests/check.sh"), protect=["tests/**"])
    assert (ran.step["state"], ran.step["error"]) == ("failed", "F_CONTRACT_TAMPERED")
    assert (workspace / "tests/check.sh").read_text() == "grep good report >/dev/null\n"
    assert here(workspace) == []


# --- Wearing the machine out ------------------------------------------------------------------------------------------


@pytest.mark.slow("real storms, floods and gigabytes")
def test_a_gigabyte_of_output_is_counted_and_its_end_kept_in_bounded_memory(workspace: Path) -> None:
    small = carried_out(workspace, runs("echo END"))
    large = carried_out(workspace, runs("head -c 1000000000 /dev/zero; echo END"))
    assert large.outcome().output_bytes == 1_000_000_004
    assert large.outcome().whole_seal.startswith("hmac-sha256-whole:")
    assert "only the last 1 MiB of its 1,000,000,004 bytes are kept" in large.step["evidence"]
    assert kept(large) == bytes(OUTPUT_BYTES_MAX - 4) + b"END\n"
    growth = (large.memory_kib - small.memory_kib) >> 10
    print(f"1 GB of output: {growth} MiB more memory than for 4 bytes")
    assert growth < 24


@pytest.mark.slow("real storms, floods and gigabytes")
def test_as_much_as_may_be_is_kept_whole_in_bounded_memory(workspace: Path) -> None:
    small = carried_out(workspace, runs("echo END"))
    size = ARTIFACT_BYTES_MAX
    command = f"set +o pipefail; seq 1000000000 | head -c {size}"
    large = carried_out(workspace, runs(command, "test -d ."))
    assert (large.outcome().output_bytes, large.step["evidence"]) == (size, "contract held (exit status 0)")
    assert kept(large) == subprocess.run(["bash", "-c", command], capture_output=True, check=True).stdout
    growth = (large.memory_kib - small.memory_kib) >> 10
    print(f"64 MiB of output: {growth} MiB more memory than for 4 bytes")
    assert growth < 32
    assert audited(workspace)


def kept(ran: Ran) -> bytes:
    """The exact bytes, as a person at a terminal has them."""
    app = open_at_terminal(ran.workspace, exact=True)
    return b"".join(app.runs.exact_output(ran.run_id, "s1", KIM)[1])


# --- A full disk ------------------------------------------------------------------------------------------------------

ON_A_SMALL_DISK = """\
import json, os, subprocess, sys
from pathlib import Path
disk, size, setup = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk], check=True)
workspace = Path(disk) / "ws"
workspace.mkdir()
os.environ["ORDAIN_HOME"] = f"{disk}/state"
os.environ["TMPDIR"] = disk
from tests.hostile.test_steps import ORDAIN, approved, audited
plan = approved(workspace, *setup["steps"])
done = subprocess.run([*ORDAIN, "-C", str(workspace), "commit", plan, "--json"], stdout=subprocess.PIPE, check=False)
answer = json.loads(done.stdout)
steps = answer["data"] and [(step["state"], step["error"], step["evidence"]) for step in answer["data"]["steps"]]
print(json.dumps({
    "status": done.returncode,
    "steps": steps,
    "problems": answer["problems"],
    "good": audited(workspace),
    "reserve": any((Path(disk) / "state").glob("workspaces/*/reserve")),
    "free": os.statvfs(disk).f_bavail * 4096,
}))
"""


def on_a_small_disk(tmp_path: Path, size: str, *steps: dict[str, object]) -> dict[str, Any]:
    """What becomes of a run where workspace and state are on one disk of this size."""
    command = ["unshare", "-rm", sys.executable, "-c", ON_A_SMALL_DISK, str(tmp_path), size]
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    done = subprocess.run([*command, json.dumps({"steps": steps})], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done
    found: dict[str, Any] = json.loads(done.stdout)
    return found


FILLING = runs("cat /dev/zero > big", on_failure={"strategy": "skip"})


@pytest.mark.slow
def test_a_step_that_fills_the_disk_is_recorded_and_the_run_ends_in_order(tmp_path: Path) -> None:
    found = on_a_small_disk(tmp_path, "100m", FILLING, runs("exit 3"))
    assert (found["status"], found["good"], found["reserve"]) == (1, True, False)
    (filled, error, evidence), (failed, _, _) = found["steps"]
    assert (filled, error, failed) == ("skipped", "F_STEP_FAILED", "failed")
    assert evidence == "exit status 1"


@pytest.mark.slow
def test_without_room_set_aside_the_run_stops_and_says_so(tmp_path: Path) -> None:
    """A disk too small to set anything aside: what the test above would show if the reserve were of no use."""
    found = on_a_small_disk(tmp_path, "40m", FILLING, runs("exit 3"))
    assert (found["status"], found["steps"], found["good"]) == (1, None, True)
    assert [problem["code"] for problem in found["problems"]] == ["E_LEDGER_IO", "F_RUN_STOPPED"]


@pytest.mark.slow
def test_an_output_that_there_is_no_room_for_costs_its_beginning_and_nothing_else(tmp_path: Path) -> None:
    found = on_a_small_disk(tmp_path, "70m", runs("head -c 50000000 /dev/zero"))
    ((state, error, evidence),) = found["steps"]
    assert (found["status"], state, error, found["good"]) == (0, "passed", None, True)
    assert evidence.endswith("; only the last 1 MiB of its 50,000,000 bytes are kept, for want of room")
    assert found["free"] > 60_000_000, "what was spooled is let go"


def test_the_directory_it_is_started_in_is_no_place_for_modules(tmp_path: Path) -> None:
    """An agent can leave one in the workspace while `python -m ordain` carries out a run there."""
    script = (
        "import atexit, os, runpy, sys; sys.path.insert(0, os.getcwd()); sys.argv = ['ordain', '--version']; "
        "atexit.register(lambda: print(os.getcwd() in sys.path)); runpy.run_module('ordain', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_what_an_agent_says_at_length_is_kept_like_any_long_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORDAIN_HOME", str(tmp_path / "state"))
    (tmp_path / "ws").mkdir()
    said = 3 * OUTPUT_BYTES_MAX
    script = f"import json; print(json.dumps({{'result': 'x' * {said}}}))"
    command = json.dumps([sys.executable, "-c", script])
    carried = task_runs.carried_out(
        tmp_path / "ws", f'[agents.coder]\noutput = "json"\ncommand = {command}\n', task_runs.task()
    )
    (outcome,) = carried.outcomes
    assert (outcome.error, outcome.output_bytes) == (None, said) and len(outcome.output_tail) < 10_000
    app = open_at_terminal(tmp_path / "ws", exact=True)
    assert sum(map(len, app.runs.output(carried.report.run_id, "s1")[1])) == said
    asyncio.run(app.close())


def test_where_there_is_no_room_for_an_agent_nothing_has_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDAIN_HOME", str(tmp_path / "state"))
    (tmp_path / "ws").mkdir()
    monkeypatch.setattr(LocalAgents, "room", no_room)
    carried = task_runs.carried_out(tmp_path / "ws", '[agents.coder]\ncommand = ["touch", "begun"]\n', task_runs.task())
    (outcome,) = carried.outcomes
    assert outcome.error == "F_STEP_FAILED" and "No space left" in outcome.detail
    assert not (tmp_path / "ws/begun").exists()


def no_room(agents: LocalAgents) -> contextlib.AbstractContextManager[str]:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
