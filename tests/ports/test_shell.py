"""The contract of ports.Shell, for real bash and its in-memory twin."""

import asyncio
import os

import pytest

from tests.patience import eventually_in_loop
from tests.twins.execution import ScriptedShell
from tests.words import BashShell, Command, Finished


@pytest.fixture(params=["bash", "memory"])
def shell(request, tmp_path):
    if request.param == "bash":
        return BashShell(tmp_path)
    return ScriptedShell({"exit 3": 3, "sleep 60": Finished(duration_ms=100, timed_out=True)})


def run(shell, text, timeout_ms=10_000):
    command = Command(text=text, env={"PATH": os.environ["PATH"]}, timeout_ms=timeout_ms, mark="RUN-PORT/a/1")
    return asyncio.run(shell.run(command))


@pytest.mark.parametrize(("text", "status"), [("true", 0), ("exit 3", 3)])
def test_the_exit_status_comes_back(shell, text, status):
    assert run(shell, text).exit_code == status


def test_a_timeout_has_no_exit_status(shell):
    done = run(shell, "sleep 60", timeout_ms=100)
    assert (done.timed_out, done.exit_code) == (True, None)


def test_sweeping_where_nothing_was_left_finds_nothing(shell):
    assert shell.sweep("RUN-NOBODY/") == 0


def test_only_variables_that_are_set_are_given(shell):
    assert "ORDAIN_NO_SUCH_VARIABLE" not in shell.environment(["ORDAIN_NO_SUCH_VARIABLE"])


@pytest.mark.parametrize("data", [b"", b"a payload", b"x" * 300_000])
def test_what_is_handed_in_can_be_read_and_ends(shell, data):
    async def reads(command):
        return Finished(duration_ms=1, exit_code=0, output=str(len(command.stdin)).encode())

    if isinstance(shell, ScriptedShell):
        shell.script["wc -c"] = reads
    env = {"PATH": os.environ["PATH"]}
    command = Command(text="wc -c", env=env, timeout_ms=10_000, mark="RUN-PORT/a/1", stdin=data)
    assert asyncio.run(shell.run(command)).output.strip() == str(len(data)).encode()
    command = Command(text="true", env=env, timeout_ms=10_000, mark="RUN-PORT/a/1", stdin=data)
    assert asyncio.run(shell.run(command)).exit_code == 0


# --- What is written so far ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bash", "memory"])
def test_what_a_command_under_way_has_written_can_be_asked_for(kind, tmp_path):
    shell = BashShell(tmp_path) if kind == "bash" else ScriptedShell()
    text = "echo one; echo two; until test -e go; do sleep 0.01; done"

    async def waits(command):
        shell.so_far[command.mark] = b"one\ntwo\n"
        await eventually_in_loop(lambda: (tmp_path / "go").exists(), "`go`")
        del shell.so_far[command.mark]
        return Finished(duration_ms=1, exit_code=0)

    if kind == "memory":
        shell.script[text] = waits

    async def look():
        mark = "RUN-PORT/a/1"
        command = Command(text=text, env={"PATH": os.environ["PATH"]}, timeout_ms=10_000, mark=mark)
        assert shell.written(mark, 100) == (b"", 0)
        running = asyncio.create_task(shell.run(command))
        await eventually_in_loop(lambda: shell.written(mark, 0) == (b"", 8), "its words")
        assert shell.written(mark, 100) == (b"one\ntwo\n", 8)
        assert shell.written(mark, 4) == (b"two\n", 8)
        assert shell.written("RUN-PORT/a/2", 100) == (b"", 0)
        (tmp_path / "go").touch()
        assert (await running).exit_code == 0
        assert shell.written(mark, 100) == (b"", 0)

    asyncio.run(look())
