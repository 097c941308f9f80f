"""Commands, contracts and agents that try to get out of trust tier 1, in real runs: none does, and nothing is left at
work.

Each has its effect at tier 0, where that does no harm: a test that cannot fail shows nothing.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.programs import need
from tests.sandbox.escapes import ESCAPES, Escape, Place, by_network, made, python, tells_in_the_workspace
from tests.task_runs import KIM, carried_out, task
from tests.words import BubblewrapSandbox, Command, RunReport, SandboxLimits, open_at_terminal

pytestmark = pytest.mark.slow("every escape is tried in a sandbox of its own, by bubblewrap")

PATH = "/usr/local/bin:/usr/bin:/bin"
NOBODY = 65534
KEPT = (".git", ".git/hooks", ".git/modules", ".git/commondir", ".git/config.worktree", "ordain.toml")


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Not where other tests are: an ordinary user must be able to get there."""
    need("bwrap")
    monkeypatch.setenv("PATH", PATH)
    path = Path(tempfile.mkdtemp(prefix="ordain-escapes-"))
    path.chmod(0o755)
    monkeypatch.setenv("HOME", str(path / "home"))
    monkeypatch.setenv("ORDAIN_HOME", str(path / "state"))
    yield path
    shutil.rmtree(path)


def run(place: Place, *steps: dict[str, Any], tier: int) -> RunReport:
    """Prepare, approve and carry out a plan."""
    tree = {"title": "T", "tier": tier, "steps": [{"id": f"s{n}", **step} for n, step in enumerate(steps, 1)]}

    async def life() -> RunReport:
        app = open_at_terminal(place.ws, exact=True)
        try:
            prepared = await app.plans.prepare(msgspec.json.encode(tree), None, KIM)
            await app.approvals.approve(prepared.review.plan_id, KIM)
            return await app.runs.commit(prepared.review.plan_id, KIM)
        finally:
            await app.close()

    return asyncio.run(life())


def step(command: str, **fields: Any) -> dict[str, Any]:
    return {"action": {"type": "run", "command": command}, "timeout_ms": 20_000, **fields}


def processes_in(place: Place) -> list[str]:
    """What is at work in the workspace, in whichever namespace."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                if os.readlink(path / "cwd").startswith(str(place.ws)):
                    found.append((path / "cmdline").read_text())
            except OSError:
                pass
    return found


def by_command(place: Place, escape: Escape) -> None:
    fields = {"writes": list(escape.writes)} if escape.writes else {}
    run(place, step(f"touch src/begun\n{place.fill(escape.command)}", **fields), tier=1)
    assert (place.ws / "src/begun").exists()


def by_contract(place: Place, escape: Escape) -> None:
    command = f"echo begun\n{place.fill(escape.command)}\ntest ! -e nothing"
    contract = {"strategy": {"type": "contract", "command": command}}
    (evidence,) = carried_out(place.ws, "", step("true", verification=contract), tier=1).evidence
    assert evidence.output_tail.startswith("begun\n")


def by_agent(place: Place, escape: Escape) -> None:
    _by_agent(place, escape, "network = false")


def by_agent_with_the_network(place: Place, escape: Escape) -> None:
    _by_agent(place, escape, "network = true")


def _by_agent(place: Place, escape: Escape, network: str) -> None:
    """One that does what stands in a file, whatever it is told."""
    (place.ws / "attempt").write_text(f"touch src/begun\n{place.fill(escape.command)}\n")
    fields = {"writes": list(escape.writes)} if escape.writes else {}
    settings = f'[agents.coder]\ncommand = ["bash", "-e", "attempt"]\n{network}\n'
    carried_out(place.ws, settings, task(**fields), tier=1)
    assert (place.ws / "src/begun").exists()


TRIES = [
    *((by_command, one) for one in ESCAPES),
    *((by_contract, one) for one in ESCAPES if not tells_in_the_workspace(one) and not one.writes),
    # One that has the network has more ways than one that has not.
    *((by_agent if by_network(one) else by_agent_with_the_network, one) for one in ESCAPES),
]


@pytest.mark.parametrize(("tried", "escape"), TRIES, ids=[f"{tried.__name__}: {one.name}" for tried, one in TRIES])
def test_nothing_gets_out(base: Path, tried: Callable[[Place, Escape], None], escape: Escape) -> None:
    with made(base) as place:
        escape.before(place)
        kept = [name for name in KEPT if (place.ws / name).exists()]
        tried(place, escape)
        assert not escape.got_out(place)
        assert not place.was_written()
        assert processes_in(place) == []
        assert [name for name in KEPT if (place.ws / name).exists()] == kept, "a stand-in was left"


FORKS = """
import os, time
count = 0
try:
    while count < 400:
        if os.fork() == 0:
            time.sleep(9)
            os._exit(0)
        count += 1
finally:
    print(count)
"""
FREE = [one for one in ESCAPES if one.free and (not one.root or os.geteuid() == 0)]


@pytest.mark.parametrize("escape", FREE, ids=[one.name for one in FREE])
def test_without_the_sandbox_it_does(base: Path, escape: Escape) -> None:
    with made(base) as place:
        escape.before(place)
        run(place, step(place.fill(escape.command)), tier=0)
        assert escape.got_out(place)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_an_ordinary_user_does_not_get_out_either(base: Path) -> None:
    """All of them, one after the other, each in a place of its own."""
    tell, told = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(tell)
            top = base / "nobody"
            top.mkdir()
            os.chown(top, NOBODY, NOBODY)
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            out = [escape.name for escape in ESCAPES if _gets_out(top / escape.name.replace(" ", "-"), escape)]
            os.write(told, "\n".join(out).encode())
            status = 0
        except BaseException as error:
            os.write(told, repr(error).encode())
        finally:
            os._exit(status)
    os.close(told)
    with open(tell) as pipe:
        said = pipe.read()
    assert (os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said) == (0, "")


def _gets_out(base: Path, escape: Escape) -> bool:
    with made(base) as place:
        try:
            escape.before(place)
        except PermissionError:
            return False  # it takes root to be there at all
        shell = BubblewrapSandbox(place.ws, base / "state").shell(SandboxLimits())
        env = {"PATH": PATH, "HOME": str(base / "home")}
        command = Command(
            text=f"touch src/begun\n{place.fill(escape.command)}",
            env=env,
            timeout_ms=20_000,
            mark="m",
            writes=escape.writes or None,
        )
        seen = asyncio.run(shell.run(command))
        assert (place.ws / "src/begun").exists(), seen
        return escape.got_out(place) or place.was_written()


def test_a_storm_of_processes_is_bounded(base: Path) -> None:
    """Root is held to no number (docs/sandbox.md), so an ordinary user tries it."""
    tell, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            (base / "n/ws").mkdir(parents=True)
            os.chown(base / "n/ws", NOBODY, NOBODY)
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            shell = BubblewrapSandbox(base / "n/ws").shell(SandboxLimits(processes=50))
            command = Command(text=python(FORKS), env={"PATH": PATH}, timeout_ms=20_000, mark="m", errors_apart=True)
            os.write(told, asyncio.run(shell.run(command)).output)
        finally:
            os._exit(0)
    os.close(told)
    with open(tell) as pipe:
        count = int(pipe.read())
    os.waitpid(child, 0)
    assert 0 < count < 60


def test_a_link_that_one_step_plants_is_not_followed_for_another(base: Path) -> None:
    with made(base) as place:
        planted = step(f"rm -r src && ln -s {place.out} src")
        report = run(place, planted, step("echo x > src/mark", writes=["src/**"]), tier=1)
        assert not place.was_written()
        assert [one.state.value for one in report.steps] == ["passed", "failed"]


def test_a_link_that_a_step_plants_for_the_harness_is_not_followed(base: Path) -> None:
    with made(base) as place:
        planted = step(f"ln -s {place.out}/target link")
        writes = {"action": {"type": "tool", "tool": "write_file", "args": {"path": "link", "content": "x"}}}
        report = run(place, planted, writes, tier=1)
        assert not place.was_written()
        assert [one.state.value for one in report.steps] == ["passed", "failed"]


def test_nothing_changes_what_a_contract_looks_at_after_its_step(base: Path) -> None:
    with made(base) as place:
        later = "(sleep 0.2; echo late >> ordinary) & setsid sh -c 'sleep 0.2; echo late >> ordinary' &"
        contract = {"strategy": {"type": "contract", "command": "sleep 0.5; ! grep late ordinary"}}
        report = run(place, step(later, verification=contract), tier=1)
        assert report.status == "completed"
        assert (place.ws / "ordinary").read_text() == "ordinary\n"


def test_a_contract_changes_nothing(base: Path) -> None:
    with made(base) as place:
        contract = {"strategy": {"type": "contract", "command": "echo x > mark && grep x mark"}}
        report = run(place, step("true", verification=contract), tier=1)
        assert report.status == "failed"
        assert not (place.ws / "mark").exists()
