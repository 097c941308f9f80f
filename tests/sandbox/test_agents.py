"""Agents at trust tier 1, and what is ended with them at tier 0: as tasks of real runs."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from ordain import Refused
from tests.agent_functions import THIS
from tests.programs import need
from tests.task_runs import KIM, carried_out, task, trusting
from tests.words import Outcome, open_at_terminal

pytestmark = pytest.mark.slow("agents in sandboxes, by bubblewrap")

PATH = "/usr/local/bin:/usr/bin:/bin"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    need("bwrap")
    monkeypatch.setenv("PATH", PATH)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ORDAIN_HOME", str(tmp_path / "state"))
    (tmp_path / "ws/src").mkdir(parents=True)
    (tmp_path / "home/.agent").mkdir(parents=True)
    return tmp_path / "ws"


def shell_agent(script: str, more: str = "") -> str:
    return f"[agents.coder]\ncommand = {json.dumps(['bash', '-c', script])}\n{more}\n"


def performed(workspace: Path, settings: str, *, tier: int = 1, **fields: object) -> Outcome:
    (outcome,) = carried_out(workspace, settings, task(**fields), tier=tier).outcomes  # type: ignore[arg-type]
    return outcome


def test_an_agent_works_in_the_sandbox_and_its_contract_too(workspace: Path) -> None:
    script = "grep -q 'Make the file' && pwd && echo $HOME && echo x > made && echo x > ../outside"
    done = task("Make the file.", contract="test -e made && test ! -e ../outside")
    carried = carried_out(workspace, shell_agent(script), done, tier=1)
    assert carried.report.status == "completed"
    assert carried.outcomes[0].output_tail == f"{workspace}\n/tmp/home\n"
    assert (workspace / "made").exists() and not (workspace.parent / "outside").exists()


def test_it_writes_what_its_step_does(workspace: Path) -> None:
    seen = performed(workspace, shell_agent("echo x > src/in; echo x > out"), writes=["src/**"])
    assert seen.exit_code == 1
    assert (workspace / "src/in").exists() and not (workspace / "out").exists()


@pytest.mark.parametrize(
    ("configured", "step", "reached"), [("", None, 0), ("true", None, 1), ("true", False, 0), ("false", True, 1)]
)
def test_it_has_the_network_where_its_definition_or_its_step_says_so(
    workspace: Path, configured: str, step: bool | None, reached: int
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        more = f"network = {configured}" if configured else ""
        script = f"echo x > /dev/tcp/127.0.0.1/{server.getsockname()[1]}"
        fields = {} if step is None else {"network": step}
        assert performed(workspace, shell_agent(script, more), **fields).exit_code == 1 - reached


def test_it_has_copies_of_the_files_that_its_definition_names(workspace: Path) -> None:
    file = workspace.parent / "home/.agent/token"
    file.write_text("of-the-agent\n")
    (workspace.parent / "home/other").write_text("of-others\n")
    script = "ls -A ~ && cat ~/.agent/token && echo mine > ~/.agent/token && cat ~/.agent/token"
    seen = performed(workspace, shell_agent(script, 'files = ["~/.agent"]'))
    assert (seen.exit_code, seen.output_tail) == (0, ".agent\nof-the-agent\nmine\n")
    assert file.read_text() == "of-the-agent\n"


def test_a_program_that_is_not_in_it_is_told_of_with_the_way(workspace: Path) -> None:
    program = workspace.parent / "home/bin/agent"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho begun\n")
    program.chmod(0o755)
    for words in ([str(program)], ["sh", "-e", str(program)]):
        settings = f"[agents.coder]\ncommand = {json.dumps(words)}\n"
        with pytest.raises(Refused) as caught:  # before the approval is spent
            performed(workspace, settings)
        (problem,) = caught.value.problems
        assert problem.code == "E_AGENT_START"
        assert f"{program} is not seen in the sandbox" in problem.detail and "[sandbox] read" in problem.detail
        assert performed(workspace, settings, tier=0).output_tail == "begun\n"
        seen = performed(workspace, f'{settings}[sandbox]\nread = ["~/bin"]\n')
        assert seen.output_tail == "begun\n"


def test_lint_and_the_list_of_agents_say_it_too(workspace: Path) -> None:
    script = workspace.parent / "home/cli.py"
    script.write_text("print('begun')\n")
    document = msgspec.json.encode({"title": "T", "tier": 1, "steps": [{"id": "s1", **task()}]})
    settings = f'[agents.coder]\ncommand = ["python3", "-u", "{script}"]\n[run]\ntier = 1\n'

    async def told() -> tuple[list[str], list[str | None]]:
        await trusting(workspace, settings)
        app = open_at_terminal(workspace, exact=True)
        try:
            prepared = await app.plans.prepare(document, None, KIM)
            problems = [one.detail for one in prepared.review.notices if one.code == "W_AGENT_START"]
            return problems, [line.fault for line in app.workspace.agents() if line.name == "coder"]
        finally:
            await app.close()

    (problem,), (fault,) = asyncio.run(told())
    assert fault is not None and f"{script} is not seen in the sandbox" in fault and fault in problem


def test_a_python_function_is_held_like_a_command(workspace: Path) -> None:
    settings = f'[agents.coder]\npython = "{THIS}:tries_to_get_out"\n'
    target = workspace.parent / "outside"
    assert performed(workspace, settings, tier=0, text=f"Write {target}").output_tail == "out"
    assert target.exists()
    target.unlink()
    # Where the directory above is, there is a /tmp of its own.
    assert performed(workspace, settings, text=f"Write {target}").exit_code == 0
    assert not target.exists()
    assert "Read-only" in performed(workspace, settings, text="Write /usr/ordain-test").output_tail


def test_a_python_function_finds_itself_and_reports_what_it_uses(workspace: Path) -> None:
    assert performed(workspace, f'[agents.coder]\npython = "{THIS}:counts"\n').used is not None
    assert '"step": "s1"' in performed(workspace, f'[agents.coder]\npython = "{THIS}:slowly"\n').output_tail


@pytest.mark.parametrize("given", [True, False])
def test_what_a_task_says_of_the_network_is_refused_where_nothing_would_hold_it(workspace: Path, given: bool) -> None:
    with pytest.raises(Refused) as caught:
        performed(workspace, shell_agent("true"), tier=0, network=given)
    assert [problem.code for problem in caught.value.problems] == ["E_NOT_YET"]


# --- Its end ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def gone() -> Iterator[list[int]]:
    """Processes that must be gone in the end."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


ORPHAN = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open("left.new", "w") as file:
            file.write(str(os.getpid()))
        os.rename("left.new", "left")
        os.execve("/bin/sleep", ["sleep", "60"], {})
    os._exit(0)
while not os.path.exists("left"):
    pass
"""


def python_agent(text: str) -> str:
    return f"[agents.coder]\ncommand = {json.dumps([sys.executable, '-c', text])}\n"


ALONE = """
import sys
from pathlib import Path
from tests.task_runs import KIM, carried_out, task, trusting
carried = carried_out(Path(sys.argv[1]), sys.argv[2], task(), alone=True)
print(carried.report.status, carried.outcomes[0].leftovers)
"""


@pytest.mark.parametrize("how", ["a command", "a Python function"])
def test_an_orphan_that_hid_is_ended_with_its_agent(workspace: Path, gone: list[int], how: str) -> None:
    """Without our mark, in a session of its own, its parent gone: found where this process is ours alone."""
    settings = python_agent(ORPHAN) if how == "a command" else f'[agents.coder]\npython = "{THIS}:leaves_one_behind"\n'
    # In a process of its own: this one may have children of other tests.
    path = ":".join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]).removesuffix(":")
    ended = subprocess.run(
        [sys.executable, "-c", ALONE, str(workspace), settings],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    gone.append(int((workspace / "left").read_text()))
    assert ended.stdout == "completed 1\n"


def test_at_its_time_limit_an_agent_is_ended_with_all_that_it_started(workspace: Path, gone: list[int]) -> None:
    script = "trap '' TERM; echo $$ > pid; sleep 60 & echo $! > child; wait; sleep 60"
    for tier in (0, 1):
        seen = performed(workspace, shell_agent(script), tier=tier, timeout_ms=600)
        assert (seen.error, seen.detail) == ("F_STEP_TIMEOUT", "did not end within 0.6 s")
        if tier == 0:  # those of a sandbox have numbers of their own
            gone += [int((workspace / name).read_text()) for name in ("pid", "child")]


def test_an_agent_has_a_session_of_its_own_and_nothing_to_read_but_its_prompt(workspace: Path) -> None:
    script = "ps -o sid= -p $$ | tr -d ' ' | grep -qx $$ && cat > seen; cat | wc -c; tty"
    seen = performed(workspace, shell_agent(script), tier=0)
    assert seen.output_tail == "0\nnot a tty\n"
    assert "Do it." in (workspace / "seen").read_text()


def test_the_room_of_one_is_seen_by_no_other_also_where_temporary_files_lie_in_the_workspace(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(workspace / "tmp"))
    both = "touch tmp/$ORDAIN_STEP; until [ -e tmp/s1 -a -e tmp/s2 ]; do sleep 0.05; done"
    script = f"{both}; ls -d tmp/ordain-agent-* /tmp/ordain-agent-* 2>/dev/null | wc -l; sleep 0.5"
    steps = (task(needs=[]), task(needs=[]))
    carried = carried_out(workspace, shell_agent(script), *steps, tier=1)
    assert [outcome.output_tail.split()[-1] for outcome in carried.outcomes] == ["1", "1"]
