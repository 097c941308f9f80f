"""SIGKILL at seeded moments of a real run: nothing twice, nothing lost, no orphan, nothing wedged."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.kill import Victim, compare, kill_and_resume, undisturbed
from tests.crash.process import KIM
from tests.patience import eventually
from tests.words import mark_of, open_at_terminal


@pytest.fixture(scope="module")
def duration_s(tmp_path_factory):
    return undisturbed(tmp_path_factory.mktemp("undisturbed"))


@pytest.mark.part(of=10)
@pytest.mark.parametrize("seed", range(10))
def test_killed_and_resumed(tmp_path, seed, duration_s):
    kill_and_resume(tmp_path, seed, duration_s)


@pytest.mark.slow("four runs, each killed and resumed until it ends")
def test_the_harness_really_kills(tmp_path, duration_s):
    """Executors must have died, or the sweep shows nothing."""
    deaths = 0
    for seed in range(100, 104):
        (tmp_path / str(seed)).mkdir()
        deaths += kill_and_resume(tmp_path / str(seed), seed, duration_s, surely=True).deaths
    assert deaths >= 4


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(1000, 1100))
def test_sweep(tmp_path, seed, duration_s):
    kill_and_resume(tmp_path, seed, duration_s)


@pytest.mark.part(of=2)
@pytest.mark.parametrize("wrong", ["first", "late"])
def test_the_harness_notices_an_effect_that_should_not_be_there(tmp_path, wrong):
    """The negative control: what the sweep is there to find must make it fail."""
    victim = Victim(tmp_path)
    victim.ordain("commit", victim.plan_id)
    compare(victim, "undisturbed")
    with victim.effects.open("a") as file:
        file.write(f"{wrong}\n")
    with pytest.raises(AssertionError):
        compare(victim, "doubled")


@pytest.mark.slow
def test_an_opaque_step_killed_in_flight_is_asked_about_and_its_processes_are_gone(tmp_path, monkeypatch):
    workspace = tmp_path / "ws"
    workspace.mkdir()
    monkeypatch.setenv("ORDAIN_HOME", str(tmp_path / "state"))
    document = b"# Mail\n\n1. `echo begun > begun; sleep 300; echo sent > sent`\n"

    async def prepared() -> str:
        app = open_at_terminal(workspace, exact=True)
        plan = await app.plans.prepare(document, None, KIM)
        await app.approvals.approve(plan.review.plan_id, KIM)
        await app.close()
        return str(plan.review.plan_id)

    plan_id = asyncio.run(prepared())
    ordain = [sys.executable, "-m", "ordain", "-C", str(workspace)]
    executor = subprocess.Popen([*ordain, "commit", plan_id], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    eventually(lambda: (workspace / "begun").exists() or executor.poll() is not None, "the step")
    executor.kill()
    assert executor.wait() == -9, "it did not die as intended"

    resumed = subprocess.run([*ordain, "resume"], capture_output=True, text=True, check=False)
    assert resumed.returncode == 3, resumed
    assert "in doubt" in resumed.stdout and "ordain answer RUN-" in resumed.stdout
    marks = [mark_of(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdigit()]
    assert not [mark for mark in marks if mark is not None and "/echo-begun" in mark]
    assert not (workspace / "sent").exists()


@pytest.mark.slow
def test_a_step_killed_while_it_waits_for_a_file_goes_on_without_a_doubt(tmp_path, monkeypatch):
    workspace = tmp_path / "ws"
    workspace.mkdir()
    monkeypatch.setenv("ORDAIN_HOME", str(tmp_path / "state"))
    document = b"""title: Wait
steps:
  - {id: begin, action: {type: run, command: "echo begun > begun"}}
  - {id: wait, action: {type: wait_for_file, path: out/report}, needs: [begin]}
  - {id: after, action: {type: run, command: "echo after > after"}, needs: [wait]}
"""

    async def prepared() -> str:
        app = open_at_terminal(workspace, exact=True)
        plan = await app.plans.prepare(document, "wait.yaml", KIM)
        await app.approvals.approve(plan.review.plan_id, KIM)
        await app.close()
        return str(plan.review.plan_id)

    plan_id = asyncio.run(prepared())
    ordain = [sys.executable, "-m", "ordain", "-C", str(workspace)]
    executor = subprocess.Popen(
        [*ordain, "commit", plan_id], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert executor.stderr is not None
    assert any("the file `out/report`" in line for line in executor.stderr), "it does not wait"
    executor.kill()
    assert executor.wait() == -9, "it did not die as intended"
    executor.stderr.close()

    (workspace / "out").mkdir()
    (workspace / "out/report").touch()
    resumed = subprocess.run([*ordain, "resume"], capture_output=True, text=True, check=False)
    assert resumed.returncode == 0 and "doubt" not in resumed.stdout, resumed
    assert (workspace / "after").exists()
