"""`ordain stop`, against runs, starts, gateways and hooks that go on: the real command and real processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from ordain import Channel, Principal
from tests.gateway.conftest import Site
from tests.interfaces.terminal import start
from tests.interfaces.workspace import WAITS, Workspace
from tests.patience import PATIENCE_S, eventually
from tests.words import Call, Options, Refused, Seen, answer_hook, denied_reason, open_at_terminal, shelf_path

AGENT = Principal(name="agent", channel=Channel.MCP)
CHILDREN = """# Leave children behind

## Steps

### 1. Slow

**id:** slow
**run:** setsid sh -c 'echo $$ > child; exec sleep 300' & (sleep 300 &) ; echo $$ > begun; sleep 300

### 2. After

**run:** echo after >> effects
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "workspace").mkdir()
    return Workspace(tmp_path / "workspace")


def begun(workspace: Workspace, document: str, mark: str) -> subprocess.Popen[bytes]:
    workspace.write("it.plan.md", document)
    plan = workspace.approved("it.plan.md")
    run = start(["commit", plan, "--json"], cwd=workspace.path, stdout=subprocess.PIPE)
    eventually(lambda: (workspace.path / mark).exists() and bool((workspace.path / mark).read_text()))
    return run


def killed(run: subprocess.Popen[bytes]) -> bool:
    run.communicate(timeout=PATIENCE_S)
    return run.returncode == -signal.SIGKILL


def robot(workspace: Workspace, *words: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(workspace.ordain("robot", *words).out.splitlines()[-1])
    return answer


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def lift(workspace: Workspace) -> int:
    return workspace.at_terminal("stop", "--lift", answers=[("Type lift", "lift")]).status


def test_a_robot_stops_a_run_and_everything_that_its_step_left_running(workspace: Workspace) -> None:
    run = begun(workspace, CHILDREN, "child")
    eventually((workspace.path / "begun").exists)
    left = [int((workspace.path / name).read_text()) for name in ("child", "begun")]
    answer = robot(workspace, "stop", "-m", "odd")
    run_id = answer["data"]["ended"][0]
    assert killed(run)
    assert answer["data"]["recorded"] and not any(map(is_alive, left))
    # Nothing goes on, whoever asks.
    for words in (("resume", run_id), ("rerun", run_id), ("commit", workspace.approved("small.plan.md"))):
        assert robot(workspace, *words)["error"]["code"] == "E_STOPPED", words
    assert robot(workspace, "stop", "--lift")["error"]["code"] == "E_APPROVAL_CHANNEL"
    assert workspace.ordain("stop", "--lift").status == 3, "a script is no terminal"
    assert "W_STOPPED" in workspace.ordain("status").err and "W_STOPPED" in workspace.ordain("inbox").err
    # A person lifts it, and what was under way is in doubt, as after kill -9.
    assert lift(workspace) == 0
    assert robot(workspace, "resume", run_id)["data"]["status"] == "waiting"
    kinds = [event["type"] for event in robot(workspace, "log")["data"]["events"]]
    assert kinds[-2:] == ["work_stopped", "stop_lifted"]
    assert workspace.effects() == []


@pytest.mark.slow
def test_what_a_stop_killed_is_called_that(workspace: Workspace) -> None:
    """And what was killed by others before nobody vouches for, until a stop has ended that too."""
    run = begun(workspace, CHILDREN, "child")
    eventually((workspace.path / "begun").exists)
    run.kill()
    run.communicate(timeout=PATIENCE_S)
    before = workspace.ordain("status").out
    assert "may still be at work, until it is resumed: slow" in before and "1 running" in before
    run_id = robot(workspace, "list")["data"]["plans"][0]["run"]["run_id"]
    assert robot(workspace, "stop")["data"]["recorded"]
    assert not any(is_alive(int((workspace.path / name).read_text())) for name in ("child", "begun"))

    def told() -> None:
        for words in (("status",), ("show", run_id)):
            shown = workspace.ordain(*words).out
            assert "killed: slow" in shown and "1 killed" in shown and "`ordain stop` killed it" in shown
            assert "may still be at work" not in shown and "1 running" not in shown and " running " not in shown
        assert "`ordain stop` killed it" in robot(workspace, "show", run_id)["data"]["reason"]

    told()
    assert lift(workspace) == 0
    told()
    # Whoever goes on with it starts anew: only what is recorded since then counts.
    assert robot(workspace, "resume", run_id)["data"]["status"] == "waiting"
    assert "killed: slow" not in workspace.ordain("status").out


def test_a_person_who_types_something_else_lifts_nothing(workspace: Workspace) -> None:
    assert workspace.ordain("stop").status == 0
    assert workspace.at_terminal("stop", "--lift", answers=[("Type lift", "yes")]).status == 2
    plan = workspace.approved("small.plan.md")
    assert robot(workspace, "commit", plan)["error"]["code"] == "E_STOPPED"


def test_everywhere_means_every_workspace_of_the_user(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Workspace(tmp_path / "other")
    run = begun(other, WAITS, "pid")
    answer = robot(workspace, "stop", "--all")
    assert killed(run) and len(answer["data"]["ended"]) == 1
    assert robot(other, "resume")["error"]["code"] == "E_STOPPED"
    assert [event["type"] for event in robot(other, "log")["data"]["events"]][-1] == "work_stopped"
    assert lift(workspace) == 0
    assert robot(other, "resume")["data"]["status"] == "waiting", "what was under way is in doubt"


def test_it_stops_where_the_ledger_is_broken(workspace: Workspace) -> None:
    run = begun(workspace, WAITS, "pid")
    state = Path(os.environ["ORDAIN_HOME"])
    ledger = shelf_path(state, workspace.path) / "ledger.db"
    ledger.rename(ledger.with_name("gone.db"))
    ledger.write_bytes(b"nothing that SQLite knows" * 1000)
    answer = robot(workspace, "stop")
    assert killed(run)
    assert (len(answer["data"]["ended"]), answer["data"]["recorded"]) == (1, False)


@pytest.mark.parametrize("mode", ["observe", "enforce"])
def test_calls_are_refused_in_every_mode(workspace: Workspace, mode: str) -> None:
    workspace.write("ordain.toml", f'[guard]\nmode = "{mode}"\nopen = ["reads"]\n')
    assert workspace.at_terminal("trust", answers=[("Type yes", "yes")]).status == 0
    event = {
        "hook_event_name": "PreToolUse",
        "tool_name": "Read",
        "tool_input": {"file_path": str(workspace.path / "small.plan.md")},
        "cwd": str(workspace.path),
    }

    def hook() -> str:
        return denied_reason(answer_hook(json.dumps(event).encode(), Options())) or ""

    assert hook() == ""
    assert workspace.ordain("stop").status == 0
    assert "E_STOPPED" in hook()
    app = open_at_terminal(workspace.path)
    with pytest.raises(Refused) as refused:
        asyncio.run(app.guard.meet(Call(tool="read_file", args={}), Seen(by=AGENT, agent="a", through="gateway")))
    assert refused.value.problems[0].code == "E_STOPPED"
    with pytest.raises(Refused):
        app.guard.for_call()
    assert lift(workspace) == 0
    assert hook() == ""


@pytest.mark.slow
def test_a_start_at_the_same_moment_does_not_slip_through(workspace: Workspace) -> None:
    """Starts race the stop, again and again. Whatever had begun is dead, and nothing begins afterwards."""
    for number in range(6):
        workspace.write("race.plan.md", f"# Race {number}\n\n1. `echo $$ > pid-{number}; sleep 300`\n")
        plan = workspace.approved("race.plan.md")
        run = start(["commit", plan, "--json"], cwd=workspace.path, stdout=subprocess.PIPE)
        time.sleep(0.08 * number)  # every stage of starting is met once
        assert workspace.ordain("stop").status == 0
        out, _ = run.communicate(timeout=PATIENCE_S)
        if run.returncode != -signal.SIGKILL:
            assert json.loads(out.splitlines()[-1])["error"]["code"] == "E_STOPPED"
        pid = workspace.path / f"pid-{number}"
        assert not pid.exists() or not pid.read_text() or not is_alive(int(pid.read_text()))
        assert asyncio.run(lifted(workspace))
        open_runs = [plan["run"] for plan in robot(workspace, "status")["data"]["plans"] if plan["run"] is not None]
        for one in open_runs:
            robot(workspace, "cancel", one["run_id"])


async def lifted(workspace: Workspace) -> bool:
    app = open_at_terminal(workspace.path)
    report = await app.stops.lift(Principal(name="kim", channel=Channel.TERMINAL))
    await app.close()
    return report.stopped == ()


@pytest.mark.slow
def test_an_executor_that_cannot_be_killed_begins_nothing_more(workspace: Workspace) -> None:
    """It sees the switch by itself, within a second, and ends what is under way."""
    run = begun(workspace, WAITS, "pid")
    stopped = shelf_path(Path(os.environ["ORDAIN_HOME"]), workspace.path) / "stopped"
    stopped.touch()
    out, _ = run.communicate(timeout=PATIENCE_S)
    assert json.loads(out.splitlines()[-1])["error"]["code"] == "E_STOPPED"
    assert not is_alive(int((workspace.path / "pid").read_text()))
    assert workspace.effects() == []


def test_an_open_call_through_the_gateway_is_refused(tmp_path: Path) -> None:
    site = Site(tmp_path / "site")
    site.trust(site.odd())
    ours = Workspace(site.path)
    with site.gateway() as pipe:
        pipe.greet()
        assert "isError" not in pipe.call("echo")["result"], "which is open, in observe"
        assert ours.ordain("stop").status == 0
        for tool in ("echo", "send"):
            assert pipe.call(tool)["result"]["structuredContent"]["error"]["code"] == "E_STOPPED"
        assert site.received().count("tools/call") == 1
        assert lift(ours) == 0
        assert "isError" not in pipe.call("echo")["result"]
